"""`Scheduler.run(handle_signals=True)`: real signals, each in a process of its own, and what is refused."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import pytest
from support import WAIT, Intruder, label, nothing, start_python

from pysched import Scheduler

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="a platform without such signals")

PRELUDE = """
import logging, os, signal, sys, threading, time
from pysched import Scheduler

scheduler = Scheduler(2, timezone="UTC", name="service")
runs = []

def said():
    print("ready", flush=True)

def ends_on_its_token(cancel):
    said()
    runs.append(cancel.wait(20))
    time.sleep(0.1)  # whoever does not wait for it ends before
    print("ended", flush=True)

def hangs():
    said()
    release.wait(20)

release = threading.Event()

def watch():
    while not scheduler._closed:
        time.sleep(0.001)
    print("draining", flush=True)
"""

SIGNALS = [signal.SIGTERM, signal.SIGINT]
NAMES = [number.name for number in SIGNALS]
STATUS = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGINT: -signal.SIGINT}


@pytest.fixture
def begin(engine_name):
    """Starts a program and waits for its first line, "ready"."""
    started = []

    def start(text):
        lines = [line.removeprefix("        ") for line in text.splitlines()]
        process = start_python(PRELUDE + "\n".join(lines), engine=engine_name)
        started.append(process)
        line = process.stdout.readline()
        assert line == "ready\n", line + process.stderr.read()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=20)


def end(process, timeout=20):
    """Status, the rest of stdout, the lines of stderr."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err.splitlines()


@pytest.mark.parametrize("number", SIGNALS, ids=NAMES)
def test_a_signal_drains_and_run_returns(begin, number):
    process = begin(
        """
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        scheduler.after(0, ends_on_its_token)
        scheduler.every("2ms", lambda: 1 / 0, max_retries=9, retry_backoff=30, on_error=lambda error, run: None)
        assert scheduler.run(handle_signals=True) is None
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        assert runs == [True] and not scheduler.running
        assert "shut down" in repr(scheduler)
        assert scheduler.shutdown() == []
        assert not scheduler._runner.all_open()
        scheduler._check()
        print("over", flush=True)
        """
    )
    process.send_signal(number)
    assert end(process) == (0, "ended\nover\n", [])


@pytest.mark.parametrize("limit", ["0", "0.05", "'50ms'"])
def test_what_still_runs_at_the_deadline_is_a_warning(begin, limit):
    process = begin(
        f"""
        scheduler.after(0, hangs, id="stuck")
        scheduler.run(handle_signals=True, shutdown_timeout={limit})
        assert [info.id for info in scheduler.shutdown(wait=False)] == ["stuck"]
        release.set()
        assert scheduler.shutdown() == []
        """
    )
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    status, _, (line,) = end(process)
    assert status == 0
    assert time.monotonic() - begun < 10
    assert line == "service: shut down by a signal, but these jobs are still running: stuck (hangs)"


@pytest.mark.parametrize("second", SIGNALS, ids=NAMES)
@pytest.mark.parametrize("first", SIGNALS, ids=NAMES)
def test_a_second_signal_ends_it_at_once(begin, first, second):
    process = begin(
        """
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        scheduler.after(0, hangs)
        threading.Thread(target=watch).start()
        try:
            scheduler.run(handle_signals=True, shutdown_timeout=None)
        finally:
            assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
            assert len(scheduler.shutdown(wait=False)) == 1
            print("cleaned up", flush=True)
            release.set()
        """
    )
    process.send_signal(first)
    assert process.stdout.readline() == "draining\n"
    time.sleep(0.02)  # into the wait, or between two of them
    begun = time.monotonic()
    process.send_signal(second)
    status, out, err = end(process)
    assert time.monotonic() - begun < 5
    assert (status, out) == (STATUS[second], "cleaned up\n")
    assert (err[-1:] or [""])[0] == ("KeyboardInterrupt" if second == signal.SIGINT else "")


def test_a_second_signal_in_a_destructor_is_not_lost(begin):
    process = begin(
        """
        class Noisy:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)  # what the handler raises here goes nowhere
        sys.unraisablehook = lambda unraisable: None
        scheduler.after(0, hangs)
        real = scheduler._drain
        def drain(*arguments):
            Noisy()
            real(*arguments)
        scheduler._drain = drain
        try:
            scheduler.run(handle_signals=True, shutdown_timeout=None)
        finally:
            release.set()
        """
    )
    process.send_signal(signal.SIGTERM)
    assert end(process) == (128 + signal.SIGTERM, "", [])


def test_a_third_signal_is_the_programs_own(begin):
    process = begin(
        """
        scheduler.after(0, hangs)
        threading.Thread(target=watch).start()
        try:
            scheduler.run(handle_signals=True, shutdown_timeout=None)
        finally:
            print("left", flush=True)
        """
    )
    for line in ("draining\n", "left\n"):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == line
    time.sleep(0.2)
    assert process.poll() is None  # the interpreter waits for the callback that hangs, as it does for any pool's
    process.send_signal(signal.SIGTERM)
    assert end(process) == (-signal.SIGTERM, "", [])


def test_the_programs_handlers_come_back(begin):
    """Ignored, the default, a function, and one set in C, which Python's table does not know of."""
    process = begin(
        """
        import faulthandler, tempfile
        said()
        def own(number, frame):
            runs.append(number)
        def drain(signalled):
            scheduler = Scheduler(1, timezone="UTC")
            scheduler.after(0, lambda: os.kill(os.getpid(), signal.SIGTERM) if signalled else scheduler.shutdown())
            scheduler.run(handle_signals=True)
        for handler in (signal.SIG_IGN, signal.SIG_DFL, own):
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, handler)
            for signalled in (True, False):
                drain(signalled)
                assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) == handler
        os.kill(os.getpid(), signal.SIGTERM)
        assert runs == [signal.SIGTERM]

        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with tempfile.TemporaryFile() as file:
            faulthandler.register(signal.SIGTERM, file)
            drain(True)
            os.kill(os.getpid(), signal.SIGTERM)
            file.seek(0)
            assert b"most recent call first" in file.read()
            faulthandler.unregister(signal.SIGTERM)

        real = signal.getsignal
        signal.getsignal = lambda number: None if real(number) is own else real(number)  # as of one set in C
        signal.signal(signal.SIGTERM, own)
        drain(True)
        signal.getsignal = real
        assert real(signal.SIGTERM) is signal.SIG_DFL
        """
    )
    assert end(process) == (0, "", [])


def test_without_ctypes_pythons_own_table_has_to_do(begin):
    process = begin(
        """
        sys.modules["ctypes"] = None
        scheduler.after(0, said)
        scheduler.run(handle_signals=True)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        """
    )
    process.send_signal(signal.SIGTERM)
    assert end(process) == (0, "", [])


def test_signals_at_any_moment_of_the_start(begin):
    """One that comes before there is a loop must not get lost: run() would go on for ever."""
    process = begin(
        """
        said()
        for number in range(60):
            scheduler = Scheduler(1, timezone="UTC")
            scheduler.every("1h", print)
            watched = []
            real = scheduler._run_watched
            def run(watch, timeout):
                watched.append(watch)
                # From here on it is ours; until then it would be the program's.
                install, sender = watch.install, threading.Timer(number * 2e-5, os.kill, (os.getpid(), signal.SIGTERM))
                watch.install = lambda: (install(), sender.start())
                real(watch, timeout)
                sender.join()
            scheduler._run_watched = run
            scheduler.run(handle_signals=True, shutdown_timeout=5)
            assert watched[0].number == signal.SIGTERM
            assert not scheduler.running
            scheduler._check()
        """
    )
    assert end(process, 40) == (0, "", [])


def test_a_signal_right_before_the_loop_is_not_lost(begin):
    process = begin(
        """
        said()
        scheduler.every("1h", print)
        real = scheduler._run
        def run():
            os.kill(os.getpid(), signal.SIGTERM)
            real()
        scheduler._run = run
        scheduler.run(handle_signals=True)
        assert "shut down" in repr(scheduler)
        assert scheduler.stats().started == 0
        """
    )
    assert end(process) == (0, "", [])


def test_the_handlers_come_back_when_run_fails(begin):
    process = begin(
        """
        said()
        class Clock:
            def time_ns(self): return time.monotonic_ns()
            def wall_ns(self): return time.time_ns()
            def wait(self, event, timeout): raise OSError("no such clock")
        logging.disable()
        scheduler = Scheduler(1, timezone="UTC", clock=Clock())
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            scheduler.run(handle_signals=True)
        except OSError:
            print("failed")
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        """
    )
    assert end(process) == (0, "failed\n", [])


def test_a_shutdown_from_elsewhere_ends_it_too(begin):
    process = begin(
        """
        scheduler.after(0, said)
        scheduler.after("50ms", scheduler.shutdown)
        scheduler.run(handle_signals=True)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert scheduler.stats().scheduled == scheduler.stats().started == 2
        """
    )
    assert end(process) == (0, "", [])


def test_without_it_ctrl_c_leaves_run_at_once_and_nothing_is_lost(begin):
    process = begin(
        """
        scheduler.after(0, ends_on_its_token)
        scheduler.every("1h", print, id="k")
        try:
            scheduler.run()
        except KeyboardInterrupt:
            print("left", flush=True)
        assert scheduler.wait_idle(20)
        assert runs == [True]
        assert [info["id"] for info in scheduler.list_jobs()] == ["k"]
        assert scheduler.shutdown() == []
        """
    )
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "left\n"
    assert time.monotonic() - begun < 5  # before the job ends by itself, say
    assert end(process) == (0, "ended\n", [])


@pytest.mark.real_time
@pytest.mark.parametrize("signals", [1, 2, 3])
def test_signals_at_each_moment_of_run(make_scheduler, signals, logged):
    """Whatever comes of it, the handlers are back, and nothing runs."""
    came = True
    moment = 0
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def own(number, frame):  # outside of run(), or from the third on
        scheduler.shutdown(wait=False)

    def interrupt():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)[:signals]:
            os.kill(os.getpid(), number)

    try:
        gc.disable()  # what is raised in a destructor is lost, as always
        for number in SIGNALS:
            signal.signal(number, own)
        while came:
            moment += 1 if moment < 40 else 7
            scheduler = make_scheduler(1)
            scheduler.after("5ms", scheduler.shutdown)
            scheduler.after(0, nothing, timeout=60)
            with Intruder(moment, interrupt) as intruder:
                try:
                    scheduler.run(handle_signals=True, shutdown_timeout=5)
                except (KeyboardInterrupt, SystemExit):
                    assert signals > 1
            came = intruder.came
            assert [signal.getsignal(number) for number in SIGNALS] == [own, own], moment
            assert not scheduler.running
            assert scheduler.shutdown(timeout=WAIT) == []
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        gc.enable()
    assert moment > 40
    # Of those that came before they were ours, and were the test's.
    assert {(level, text.partition(",")[0]) for level, text, _ in logged} <= {("WARNING", "pysched was shut down")}


# What is refused, with nothing started.


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"handle_signals": 1}, TypeError, "handle_signals"),
        ({"handle_signals": None}, TypeError, "handle_signals"),
        ({"shutdown_timeout": -1}, ValueError, "shutdown_timeout"),
        ({"shutdown_timeout": "soon"}, ValueError, "shutdown_timeout"),
        ({"shutdown_timeout": object()}, TypeError, "shutdown_timeout"),
        ({"shutdown_timeout": True}, TypeError, "shutdown_timeout"),
        ({"handle_signals": True, "shutdown_timeout": float("nan")}, ValueError, "shutdown_timeout"),
    ],
    ids=label,
)
def test_bad_arguments_start_nothing(make_scheduler, arguments, error, name):
    scheduler, handler = make_scheduler(1), signal.getsignal(signal.SIGTERM)
    with pytest.raises(error, match=name):
        scheduler.run(**arguments)
    assert not scheduler.running
    assert signal.getsignal(signal.SIGTERM) is handler


def test_in_another_thread_it_is_refused(make_scheduler):
    scheduler, raised = make_scheduler(1), []

    def run():
        try:
            scheduler.run(handle_signals=True)
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert len(raised) == 1
    assert "main thread" in raised[0]
    assert not scheduler.running
    assert scheduler.stats().started == 0


def test_on_a_manual_clock_it_is_refused_and_the_handlers_come_back(scheduler, make_scheduler, clock):
    handler = signal.getsignal(signal.SIGTERM)
    for one in (scheduler, make_scheduler(clock=clock)):
        with pytest.raises(RuntimeError):
            one.run(handle_signals=True)
        assert signal.getsignal(signal.SIGTERM) is handler


def test_after_a_shutdown_it_is_a_warning_only(make_scheduler, logged):
    scheduler = make_scheduler(1)
    scheduler.shutdown()
    scheduler.run(handle_signals=True)
    assert [level for level, _, _ in logged] == ["WARNING"]


def test_the_defaults_are_those_of_the_design():
    import inspect

    parameters = inspect.signature(Scheduler.run).parameters
    assert [(name, each.default) for name, each in parameters.items()][1:] == [
        ("handle_signals", False),
        ("shutdown_timeout", 30),
    ]
