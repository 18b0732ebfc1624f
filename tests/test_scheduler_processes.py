"""`Scheduler`: exit, fork, Ctrl-C and signals, each in a process of its own, whose stderr must stay empty."""

from __future__ import annotations

import os
import signal
import time

import pytest
from support import assert_quiet, run_python, start_python

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")

PRELUDE = """
import atexit, logging, os, signal, sys, threading, time
if hasattr(os, "fork"):
    os.register_at_fork(after_in_child=lambda: signal.alarm(10))  # before the library: if that hangs in the fork
from pysched import CancelToken, Scheduler, current_run
from pysched.testing import ManualClock

def wait_for(predicate):
    deadline = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)

def in_child(check):
    # Forks; the child runs `check` and says by its status whether all was well. It has ten seconds.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""


def program(text):
    return PRELUDE + "\n".join(line.removeprefix("        ") for line in text.splitlines())


def quiet(text, engine_name, status=0):
    process = run_python(program(text), engine=engine_name, timeout=30)
    assert_quiet(process, status)
    return process.stdout


# Exit.


@pytest.mark.parametrize("options", ["", "timeout=5", "max_retries=3, retry_backoff=0.001"])
def test_a_program_that_just_ends(engine_name, options):
    quiet(
        f"""
        scheduler = Scheduler(2, timezone="UTC", on_error=lambda error, run: None)
        runs = []
        def job():
            runs.append(1)
            if len(runs) % 3 == 0:
                raise ValueError
        for _ in range(20):
            scheduler.every("1ms", job, {options})
        scheduler.every("1h", job)
        scheduler.start_background()
        wait_for(lambda: len(runs) > 50)
        """,
        engine_name,
    )


def test_tokens_fire_at_the_exit(engine_name):
    out = quiet(
        """
        scheduler = Scheduler(2, timezone="UTC")
        started = threading.Event()
        def job(cancel):
            started.set()
            print(cancel.wait(20), flush=True)
        scheduler.after(0, job)
        scheduler.after(0, lambda: 1 / 0, max_retries=3, retry_backoff=30, on_error=lambda error, run: None)
        scheduler.start_background()
        assert started.wait(20)
        """,
        engine_name,
    )
    assert out == "True\n"


def test_a_call_that_hangs_is_waited_for_after_its_token_fired(engine_name):
    out = quiet(
        """
        scheduler = Scheduler(1, timezone="UTC")
        started, left = threading.Event(), threading.Event()
        def job(cancel):
            started.set()
            assert left.wait(20)
            time.sleep(0.05)  # the exit begins meanwhile
            print(cancel.cancelled, flush=True)
        scheduler.after(0, job)
        scheduler.start_background()
        assert started.wait(20)
        print(len(scheduler.shutdown(timeout=0.01)), flush=True)
        left.set()
        """,
        engine_name,
    )
    assert out == "1\nTrue\n"


def test_atexit_handlers_may_use_it(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC")
        stopped = Scheduler(1, timezone="UTC")
        def late():
            scheduler.after(0, print, args=("never",))
            scheduler.list_jobs()
            scheduler.shutdown()
            import logging
            logging.disable()
            try:
                stopped.start_background()
            except RuntimeError:
                pass
            stopped.shutdown()
        atexit.register(late)
        scheduler.start_background()
        atexit.register(late)
        import logging
        logging.disable()
        """,
        engine_name,
    )


def test_a_scheduler_that_is_not_stopped_before_the_end_of_modules(engine_name):
    quiet(
        """
        import pysched
        pysched.kept = Scheduler(2, timezone="UTC")
        pysched.kept.every("1ms", lambda: current_run())
        pysched.kept.every("1ms", lambda ctx: current_run())
        pysched.kept.start_background()
        wait_for(lambda: pysched.kept.stats().started > 10)
        """,
        engine_name,
    )


def test_system_exit_in_a_callback(engine_name):
    process = run_python(
        program(
            """
        scheduler = Scheduler(1, timezone="UTC", on_error=lambda error, run: scheduler.shutdown())
        scheduler.after(0, lambda: sys.exit(3))
        scheduler.run()
        print("still here")
        """
        ),
        engine=engine_name,
    )
    assert_quiet(process)
    assert process.stdout == "still here\n"


def test_a_fault_of_the_loop_is_a_status(engine_name):
    process = run_python(
        program(
            """
        class Clock:
            def time_ns(self): return time.monotonic_ns()
            def wall_ns(self): return time.time_ns()
            def wait(self, event, timeout): raise OSError("no such clock")
        Scheduler(1, clock=Clock(), timezone="UTC").run()
        """
        ),
        engine=engine_name,
    )
    assert process.returncode == 1
    assert "OSError: no such clock" in process.stderr


@pytest.mark.parametrize("kind", ["every('1s', print)", "every('1s', print, id='x', timeout=5)", "after(0, print)"])
@pytest.mark.parametrize("closed", [False, True])
def test_a_destructor_at_the_very_end_that_registers(engine_name, kind, closed):
    """When modules are being taken apart: there is no `logging` to warn with any more."""
    out = quiet(
        f"""
        import builtins
        class Late:
            def __init__(self, scheduler):
                self.scheduler = scheduler
            def __del__(self, os=os):
                self.scheduler.{kind}
                os.write(1, b"registered")
        scheduler = Scheduler(1, timezone="UTC")
        if {closed}:
            scheduler.shutdown()
        builtins.late = Late(scheduler)
        del scheduler
        """,
        engine_name,
    )
    assert out == "registered"


# Fork.


@forks
def test_a_child_runs_nothing_until_it_is_started(engine_name):
    quiet(
        """
        scheduler = Scheduler(2, timezone="UTC")
        runs = []
        scheduler.every("5ms", lambda: runs.append(os.getpid()), id="plain")
        scheduler.every("5ms", lambda: None, id="managed", timeout=5)
        scheduler.start_background()
        wait_for(lambda: len(runs) > 3)

        def check():
            assert not scheduler.running
            before = scheduler.get_job("plain").run_count
            del runs[:]
            time.sleep(0.05)
            assert runs == []
            assert scheduler.get_job("plain").run_count == before >= 3
            assert [info["running"] for info in scheduler.list_jobs()] == [0, 0]
            scheduler._check()
            scheduler.start_background()
            wait_for(lambda: len(runs) > 3)
            assert set(runs) == {os.getpid()}
            wait_for(lambda: scheduler.get_job("managed").run_count > before)
            ran = threading.Event()
            scheduler.after(0, ran.set)
            assert ran.wait(5)
            assert scheduler.shutdown() == []

        in_child(check)
        assert scheduler.running
        count = len(runs)
        wait_for(lambda: len(runs) > count + 3)
        assert set(runs) == {os.getpid()}
        assert scheduler.shutdown() == []
        """,
        engine_name,
    )


@forks
@pytest.mark.parametrize("options", ["", "timeout=60"])
def test_runs_of_the_parent_are_not_counted_in_the_child(engine_name, options):
    quiet(
        f"""
        logging.disable(logging.WARNING)  # of time-outs
        scheduler = Scheduler(4, timezone="UTC", on_error=lambda error, run: None)
        started, release = threading.Event(), threading.Event()
        def job():
            started.set()
            release.wait(20)
        scheduler.every("1h", job, immediate=True, id="k", {options})
        scheduler.after(0, job, id="once", {options})
        scheduler.after(0, lambda: 1 / 0, max_retries=2, retry_backoff=0.05, id="retries")
        scheduler.every("1h", job, timeout=0.01, immediate=True, id="late")
        scheduler.start_background()
        wait_for(lambda: scheduler.stats().running == 3 and scheduler.stats().abandoned == 1)

        def check():
            infos = {{info["id"]: info for info in scheduler.list_jobs()}}
            assert infos["k"]["running"] == infos["late"]["running"] == 0
            assert scheduler.stats().running == scheduler.stats().abandoned == 0
            release.set()
            scheduler.start_background()
            assert scheduler.run_job("k")
            wait_for(lambda: scheduler.get_job("k").run_count == 1)
            assert scheduler.shutdown(timeout=5) == []
            assert all(info["running"] == 0 for info in scheduler.list_jobs())
            scheduler._check()

        in_child(check)
        release.set()
        assert scheduler.shutdown() == []
        assert scheduler.get_job("k").run_count == 1
        """,
        engine_name,
    )


@forks
def test_forks_while_others_use_it(engine_name):
    quiet(
        """
        scheduler = Scheduler(2, timezone="UTC")
        runs, over = [], threading.Event()
        scheduler.every("5ms", lambda: runs.append(1))
        scheduler.start_background()
        def use(number):
            while not over.is_set():
                scheduler.remove_job(scheduler.every("1h", print, id=f"k{number}", timeout=5))
                scheduler.remove_job(scheduler.cron("* * * * *", lambda: None))
                scheduler.list_jobs()
        threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()

        def check():
            assert not scheduler.running
            scheduler.list_jobs()
            scheduler.every("1s", print, id="new", replace=True)
            ran = threading.Event()
            scheduler.after("1ms", ran.set)
            scheduler.start_background()
            assert ran.wait(5)
            assert scheduler.shutdown() == []
            scheduler._check()

        try:
            for _ in range(12):
                in_child(check)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        count = len(runs)
        wait_for(lambda: len(runs) > count + 3)
        assert scheduler.shutdown() == []
        """,
        engine_name,
    )


@forks
def test_a_child_gives_no_number_of_a_run_twice(engine_name):
    quiet(
        """
        scheduler = Scheduler(2, timezone="UTC")
        release, ids = threading.Event(), []
        def job(ctx):
            ids.append(ctx.run_id)
            release.wait(20)
        scheduler.every("1h", job, immediate=True, id="k")
        scheduler.start_background()
        wait_for(lambda: ids == ["k#1"])

        def check():
            release.set()
            scheduler.start_background()
            assert scheduler.run_job("k")
            wait_for(lambda: scheduler.get_job("k").run_count == 1)
            assert ids == ["k#1", "k#2"]
            assert scheduler.shutdown() == []

        in_child(check)
        release.set()
        assert scheduler.shutdown() == []
        """,
        engine_name,
    )


@forks
@pytest.mark.parametrize("once", ["there is none", "is running", "has ended"])
def test_a_fork_while_another_thread_names_a_job(engine_name, once):
    """The child has no such thread: nothing waits for it, neither in the fork nor afterwards.

    Not for the end of a one-shot that has options, either, which is told in the fork if it is running then.
    """
    quiet(
        f"""
        scheduler = Scheduler(2, timezone="UTC")
        inside, release, ran = threading.Event(), threading.Event(), threading.Event()
        lives = scheduler._book._lives

        def lives_long(reference):
            if threading.current_thread() is thread:
                inside.set()
                assert release.wait(20)
            return lives(reference)

        def job():
            ran.set()
            if "{once}" == "is running":
                release.wait(20)

        scheduler.every("1h", print, id="k")
        scheduler._book._lives = lives_long
        thread = threading.Thread(target=lambda: scheduler.every("1h", print, id="k", replace=True))
        if "{once}" != "there is none":
            scheduler.after(0, job, id="once", tags=["t"])
            thread.start()
            assert inside.wait(20)
            scheduler.start_background()
            assert ran.wait(20)
            if "{once}" == "has ended":
                wait_for(lambda: scheduler.stats().running == 0)
        else:
            scheduler.start_background()
            thread.start()
            assert inside.wait(20)

        def check():
            assert not scheduler.running
            assert "once" not in {{job["id"] for job in scheduler.list_jobs()}}
            scheduler.every("1h", print, id="k", replace=True)
            scheduler.every("1h", print, id="other", tags=["t"])
            again = threading.Event()
            scheduler.after(0, again.set, id="once", replace=True)
            scheduler.start_background()
            assert again.wait(5)
            assert scheduler.remove_job("other")
            assert scheduler.shutdown(timeout=5) == []
            assert not scheduler._book._naming._is_owned()
            scheduler._check()

        in_child(check)
        release.set()
        thread.join(20)
        assert scheduler.get_job("k")
        assert scheduler.shutdown() == []
        scheduler._check()
        """,
        engine_name,
    )


@forks
@pytest.mark.parametrize("options", ["", "timeout=60"])
def test_a_callback_that_forks(engine_name, options):
    quiet(
        f"""
        scheduler = Scheduler(2, timezone="UTC")
        done = threading.Event()
        def job():
            child = os.fork()
            if child == 0:
                ok = not scheduler.running
                scheduler.shutdown(timeout=1)
                os._exit(0 if ok else 1)
            assert os.waitpid(child, 0)[1] == 0
            done.set()
        scheduler.after(0, job, {options})
        scheduler.start_background()
        assert done.wait(20)
        assert scheduler.shutdown() == []
        assert scheduler.stats().errors == 0
        """,
        engine_name,
    )


@forks
def test_a_fork_inside_a_manual_clock(engine_name):
    quiet(
        """
        clock = ManualClock()
        scheduler = Scheduler(clock=clock, timezone="UTC")
        runs = []
        scheduler.every("1s", lambda: runs.append(1), id="k")
        scheduler.start_background()
        clock.advance(3)

        def check():
            assert not scheduler.running
            clock.advance(5)
            assert len(runs) == 3
            scheduler.start_background()
            clock.advance(1)
            assert len(runs) > 3

        in_child(check)
        clock.advance(1)
        assert len(runs) == 4
        """,
        engine_name,
    )


# Ctrl-C and signals.


def wait_for_line(process):
    line = process.stdout.readline()
    assert line == "ready\n", line + process.stderr.read()


def test_ctrl_c_ends_run_and_fires_tokens(engine_name):
    process = start_python(
        program(
            """
        signal.alarm(30)  # a watchdog
        scheduler = Scheduler(2, timezone="UTC")
        handler = signal.getsignal(signal.SIGINT)
        seen = []
        def job(cancel):
            print("ready", flush=True)
            seen.append(cancel.wait(20))
        scheduler.after(0, job)
        scheduler.every("1h", lambda: None)
        for _ in range(2):
            try:
                scheduler.run()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            wait_for(lambda: len(seen) == 1)
            assert signal.getsignal(signal.SIGINT) is handler
            assert not scheduler.running
            del seen[:]
            scheduler.after(0, job)   # a second run: its token is a new one, which has not fired
        assert scheduler.shutdown() == []
        """
        ),
        engine=engine_name,
    )
    for _ in range(2):
        wait_for_line(process)
        time.sleep(0.05)  # into the wait
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")


def test_ctrl_c_under_load(engine_name):
    process = start_python(
        program(
            """
        scheduler = Scheduler(2, timezone="UTC")
        counts = [0] * 10
        def job(number):
            counts[number] += 1
        for number in range(10):
            scheduler.every("1ms", job, args=(number,), id=str(number), **({"timeout": 5} if number % 2 else {}))
        for _ in range(10):
            try:
                scheduler.after(0.02, print, args=("ready",), kwargs={"flush": True})
                scheduler.run()
            except KeyboardInterrupt:
                pass
        assert scheduler.shutdown() == []
        for number in range(10):
            info = scheduler.get_job(str(number))
            assert info.run_count == counts[number] == info.started_count
        scheduler._check()
        """
        ),
        engine=engine_name,
    )
    for turn in range(10):
        wait_for_line(process)
        time.sleep(0.002 * turn)  # at another moment each time
        process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="a platform without such signals")
@pytest.mark.parametrize("start", ["run", "start_background"])
def test_a_signal_handler_that_shuts_down(engine_name, start):
    process = start_python(
        program(
            f"""
        scheduler = Scheduler(2, timezone="UTC")
        seen = []
        def job(cancel):
            print("ready", flush=True)
            seen.append(cancel.wait(20))
        def handler(number, frame):
            scheduler.shutdown()
        signal.signal(signal.SIGTERM, handler)
        scheduler.after(0, job)
        scheduler.start_background() if "{start}" == "start_background" else scheduler.run()
        wait_for(lambda: seen)
        assert seen == [True]
        assert not scheduler.running
        assert scheduler.shutdown() == []
        print("over", flush=True)
        """
        ),
        engine=engine_name,
    )
    wait_for_line(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "over\n", "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a platform without such signals")
def test_a_signal_in_the_middle_of_everything(engine_name):
    """The handler uses the scheduler that the main thread is just using, again and again, and none waits for itself."""
    quiet(
        """
        scheduler = Scheduler(2, timezone="UTC", on_error=lambda error, run: None)
        scheduler.every("1ms", lambda cancel: None, id="k")
        scheduler.start_background()
        calls = []
        def handler(number, frame):
            calls.append(1)
            scheduler.remove_job(scheduler.every("1h", print, id=f"h{len(calls)}"))
            scheduler.list_jobs()
            for run in scheduler._runner.all_open():
                run.token._fire()
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while len(calls) < 500:
            scheduler.every("1h", print, id="m", replace=True, timeout=5)
            scheduler.list_jobs()
            token = CancelToken()
            token._fire()
            assert token.wait(5)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert scheduler.shutdown() == []
        scheduler._check()
        """,
        engine_name,
    )
