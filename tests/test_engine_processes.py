"""Exit, fork, Ctrl-C and signals, each in a process of its own, whose stderr must stay empty."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest
from support import assert_quiet, pause, run_python, start_python

EXECUTORS = {
    "inline": "None",
    "own pool": "2",
    "own thread": "1",
    "daemon workers": "2, daemon=True",
    "user's pool": "concurrent.futures.ThreadPoolExecutor(2)",
}
executors = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")

PRELUDE = """
import atexit, concurrent.futures, os, signal, sys, threading, time
from pysched import Engine

def wait_for(predicate):
    deadline = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)
"""


def program(text, **values):
    """PRELUDE and `text`, with {{names}} replaced."""
    lines = [line.removeprefix("        ") for line in text.splitlines()]
    source = PRELUDE + "\n".join(lines)
    for name, value in values.items():
        source = source.replace("{{" + name + "}}", str(value))
    return source


# Exit.


@executors
def test_a_program_that_just_ends_ends_quietly(engine_name, executor):
    process = run_python(
        program(
            """
        engine = Engine({{executor}})
        for _ in range(20):
            engine.call_every(0.0005, lambda: None)
        def again():
            engine.call_later(0.0002, again)
        again()
        engine.call_later(3600, print)
        engine.start()
        wait_for(lambda: engine.stats().started > 20)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


@executors
def test_an_engine_that_is_always_busy_does_not_hold_up_the_exit(engine_name, executor):
    """Its queue never empties: a drain that ran till then would never end."""
    process = run_python(
        program(
            """
        engine = Engine({{executor}})
        def again():
            engine.call_later(0, again)
        for _ in range(50):
            again()
        engine.start()
        wait_for(lambda: engine.stats().started > 100)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


@executors
def test_a_program_that_ends_by_an_error_keeps_its_own_status_and_traceback(engine_name, executor):
    process = run_python(
        program(
            """
        engine = Engine({{executor}})
        engine.call_every(0.001, lambda: None)
        engine.start()
        raise SystemExit(7)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process, status=7)


@executors
def test_what_callbacks_raise_does_not_end_the_program(engine_name, executor):
    """sys.exit() in a callback is an error of that callback; the program's own status is 0."""
    process = run_python(
        program(
            """
        errors = []
        engine = Engine({{executor}}, on_error=lambda exc, handle: errors.append(type(exc)))
        raised = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException()]
        def fail(error):
            raise error
        for error in raised:
            engine.call_later(0, fail, error)
        engine.call_later(0, sys.exit, 4)
        with engine:
            assert engine.wait_idle(20)
        assert sorted(map(str, errors)) == sorted(map(str, [*map(type, raised), SystemExit])), errors
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


@pytest.mark.parametrize("executor", [EXECUTORS["own pool"], EXECUTORS["user's pool"]], ids=["own pool", "user's pool"])
@pytest.mark.parametrize(
    "handler", ["None", r"lambda exc, subject: sys.stdout.write(f'{exc!r}\n')"], ids=["logged", "on_error"]
)
def test_errors_of_callbacks_are_reported_while_the_interpreter_ends(engine_name, executor, handler):
    """Callbacks on a pool are waited for, so what they raise then is told as ever."""
    process = run_python(
        program(
            """
        from pysched import CommandScheduler, lifecycle

        class Late:
            def execute(self, context=None):
                begun.release()
                wait_for(lifecycle.exiting)
                raise ValueError(type(self).__name__)

        begun = threading.Semaphore(0)
        engine = Engine({{executor}}, name="late", on_error={{handler}})
        scheduler = CommandScheduler(on_error={{handler}}, name="late", max_workers=2)
        engine.call_later(0, Late().execute)
        scheduler.submit(Late())
        engine.start()
        scheduler.start()
        for _ in range(2):
            begun.acquire()
        """,
            executor=executor,
            handler=handler,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert process.returncode == 0
    if handler == "None":
        assert process.stdout == ""
        assert process.stderr.count("ValueError: Late") == 2
        assert "late: a callback raised an exception" in process.stderr
        assert "late: a command raised an exception" in process.stderr
    else:
        assert (process.stdout, process.stderr) == ("ValueError('Late')\n" * 2, "")


def test_a_hanging_inline_callback_does_not_hold_up_the_exit(engine_name):
    begin = time.monotonic()
    process = run_python(
        program(
            """
        engine = Engine()
        inside = threading.Event()
        engine.call_later(0, lambda: (inside.set(), time.sleep(1000)))
        engine.start()
        inside.wait(20)
        assert engine.stop(timeout=0.05) is False
        """
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("executor", ["2", "concurrent.futures.ThreadPoolExecutor(2)"])
def test_callbacks_on_a_pool_are_waited_for_at_exit_but_no_other_starts(engine_name, executor):
    process = run_python(
        program(
            """
        engine = Engine({{executor}})
        inside = threading.Event()
        def slow():
            inside.set()
            wait_for(lambda: not engine.running)  # the exit has begun
            engine.call_later(0.01, print, "started too late")
            time.sleep(0.05)
            print("ended", flush=True)
        engine.call_later(0, slow)
        engine.start()
        inside.wait(20)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert process.stdout == "ended\n"


@executors
@pytest.mark.parametrize("registered", ["before", "after"])
def test_exit_handlers_of_the_program_may_use_the_engine(engine_name, executor, registered):
    process = run_python(
        program(
            """
        import atexit
        running, stopped = Engine({{executor}}), Engine({{executor}})
        def at_exit():
            running.call_later(0, print, "ran")
            running.stats(), len(running), running.next_deadline()
            try:
                stopped.start()
            except RuntimeError:
                pass
            stopped.call_later(0, print, "ran")
            running.stop(5)
            stopped.stop(5)
            print("handled", flush=True)
        if "{{registered}}" == "before":
            atexit.register(at_exit)
        running.start()
        running.call_every(0.001, lambda: None)
        if "{{registered}}" == "after":
            atexit.register(at_exit)
        """,
            executor=executor,
            registered=registered,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert "handled" in process.stdout.splitlines()


@pytest.mark.parametrize("wait", ["wait_idle()", "wait_idle(0)", "stop()", "stop(0)"])
def test_a_destructor_may_wait_for_an_engine_while_the_interpreter_ends(engine_name, wait):
    """The daemon threads are gone by then, wherever they were: one that registers may have been anywhere."""
    process = run_python(
        program(
            """
        apart = {"sleep": time.sleep, "all": []}  # a thread that is never to end must not hold the globals
        exec("def register(engine):\\n  while True: engine.call_later(3600, int).cancel()", apart)
        exec("def work():\\n  while not all: sleep(0.001)\\n  sleep(0.1)", apart)
        class Service:
            def __init__(self):
                self.engine = Engine()
                self.engine.call_later(0, apart["work"])
                self.engine.start()
            def __del__(self, sleep=time.sleep):
                sleep(0.03)
                self.engine.{{wait}}
                self.engine.call_later(0, print)
                print("waited")
        services = [Service() for _ in range(8)]
        wait_for(lambda: all(service.engine.stats().running for service in services))
        apart["all"].append(True)
        for service in services[:2]:
            threading.Thread(target=apart["register"], args=[service.engine], daemon=True).start()
        del service
        """,
            wait=wait,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert process.stdout == "waited\n" * 8


@pytest.mark.parametrize("executor", ["None", "2"])
def test_no_engine_is_started_for_the_first_time_while_the_interpreter_ends(engine_name, executor):
    process = run_python(
        program(
            """
        def first_use():
            engine = Engine({{executor}})
            engine.call_later(0, print)
            for start in (engine.start, engine.run):
                try:
                    start()
                except RuntimeError as error:
                    print(error)
            assert not engine.running
            assert engine.stop()
        atexit.register(first_use)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert process.stdout == "an engine cannot be started while the interpreter ends\n" * 2


def test_what_the_engine_holds_is_still_whole_at_exit(engine_name):
    """A destructor that runs in the interpreter's last moments finds an engine that answers."""
    process = run_python(
        program(
            """
        class Last:
            def __del__(self):
                engine.call_later(1, print)
                engine.stats()
                engine.stop(0)
        engine = Engine()
        engine.call_later(3600, print, Last())
        engine.call_every(3600, print, Last())
        engine.start()
        """
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


@executors
def test_exit_while_other_threads_register(engine_name, executor):
    process = run_python(
        program(
            """
        engine = Engine({{executor}})
        engine.start()
        def register():
            while True:
                engine.call_later(0, lambda: None)
                engine.call_later(1, print).cancel()
                if len(engine) > 1000:
                    time.sleep(0.001)
        for _ in range(3):
            threading.Thread(target=register, daemon=True).start()
        wait_for(lambda: engine.stats().started > 100)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


def test_a_failure_of_the_loop_is_no_clean_exit(engine_name):
    process = run_python(
        program(
            """
        import logging
        logging.getLogger("pysched").addHandler(logging.NullHandler())
        class Broken:
            def time_ns(self): return time.monotonic_ns()
            def wall_ns(self): return time.time_ns()
            def wait(self, event, timeout): raise OSError("the clock broke")
        engine = Engine(clock=Broken())
        engine.call_later(3600, print)
        engine.run()
        """
        ),
        engine=engine_name,
        timeout=20,
    )
    assert process.returncode == 1
    assert "OSError: the clock broke" in process.stderr


# Fork.


@forks
@executors
def test_a_forked_child_finds_a_stopped_engine_and_can_start_it(engine_name, executor):
    """A user's pool cannot be used in the child: start() says so. The parent notices nothing."""
    process = run_python(
        program(
            """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads
        engine = Engine({{executor}})
        ticks, child_ran = [], threading.Event()
        engine.call_every(0.002, lambda: ticks.append(os.getpid()))
        engine.call_later(3600, print)
        engine.start()
        wait_for(lambda: len(ticks) > 3)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert not engine.running
                assert engine.stats().running == 0
                assert len(engine) == 2
                assert engine.stop(5)
                engine._check()
                seen = len(ticks)
                time.sleep(0.02)
                assert len(ticks) == seen, "ran without a start"
                engine.call_later(0, child_ran.set)
                try:
                    engine.start()
                except RuntimeError:
                    assert "{{executor}}".startswith("concurrent")
                    assert not engine.running
                else:
                    assert not "{{executor}}".startswith("concurrent")
                    assert child_ran.wait(20)
                    wait_for(lambda: os.getpid() in ticks)
                    assert engine.stop(20)
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                os._exit(status)
        seen = len(ticks)
        assert os.waitpid(pid, 0)[1] == 0
        wait_for(lambda: len(ticks) > seen + 3)
        assert engine.running and set(ticks) == {os.getpid()}
        engine._check()
        assert engine.stop(20)
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=40,
    )
    assert_quiet(process)


@forks
@pytest.mark.stress
@pytest.mark.parametrize("executor", ["None", "2"])
def test_forks_in_the_middle_of_everything(engine_name, executor):
    """Whatever lock a thread of the parent held at the fork, no child hangs."""
    process = run_python(
        program(
            """
        import faulthandler, random, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        engine = Engine({{executor}})
        ticks = []
        engine.call_every(0.001, ticks.append, 1)
        engine.start()
        stop = threading.Event()
        def work(seed):
            generator = random.Random(seed)
            while not stop.is_set():
                handle = engine.call_later(generator.random() * 0.002, int, key=generator.randrange(50))
                engine.call_many([0, 0.001], int)
                if generator.random() < 0.5:
                    handle.cancel()
                engine.cancel_key(generator.randrange(50))
                engine.stats()
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    faulthandler.dump_traceback_later(15, exit=True)
                    assert not engine.running
                    engine._check()
                    len(engine), engine.stats(), engine.next_deadline()
                    ran = threading.Event()
                    engine.call_later(0.001, ran.set)
                    engine.start()
                    assert ran.wait(20)
                    assert engine.stop(20)
                    status = 0
                except BaseException:
                    import traceback
                    traceback.print_exc()
                finally:
                    os._exit(status)
            children.append(pid)
            time.sleep(0.002)
        statuses = [os.waitpid(pid, 0)[1] for pid in children]
        stop.set()
        for thread in threads:
            thread.join()
        seen = len(ticks)
        wait_for(lambda: len(ticks) > seen + 3)
        engine._check()
        assert engine.stop(20)
        assert statuses == [0] * 30, statuses
        """,
            executor=executor,
        ),
        engine=engine_name,
        timeout=90,
    )
    assert_quiet(process)


@forks
def test_a_fork_inside_a_callback(engine_name):
    """The child is the callback's own thread: it finds a stopped engine all the same."""
    process = run_python(
        program(
            """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        engine = Engine()
        results, parent = [], os.getpid()
        def fork():
            if os.getpid() != parent:
                os._exit(3)  # it runs once more, in the child: a fault, and not to go on for ever
            pid = os.fork()
            if pid == 0:
                try:
                    status = 1
                    assert not engine.running
                    assert engine.stats().running == 0
                    assert engine.stop(5)
                    ran = threading.Event()
                    engine.call_later(0, ran.set)
                    engine.start()
                    assert ran.wait(20)
                    status = 0
                finally:
                    os._exit(status)
            results.append(os.waitpid(pid, 0)[1])
        engine.call_later(0, fork)
        engine.start()
        wait_for(lambda: results)
        assert results == [0], results
        assert engine.stop(20)
        """
        ),
        engine=engine_name,
        timeout=40,
    )
    assert_quiet(process)


@forks
@pytest.mark.parametrize("place", ["clock", "iterator"])
def test_a_fork_inside_call_many(engine_name, place):
    """Foreign code runs in it; the child comes back from it with a stopped engine that takes timers."""
    process = run_python(
        program(
            """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        main, children = threading.current_thread(), []
        def fork(place):
            if place == "{{place}}" and threading.current_thread() is main and armed and not children:
                children.append(os.fork())
        class Clock:
            def time_ns(self):
                fork("clock")
                return time.monotonic_ns()
            wall_ns = time_ns
            def wait(self, event, timeout):
                event.wait(timeout)
        def delays():
            yield 1
            fork("iterator")
            yield from [1] * 2999
        armed = False
        engine = Engine(clock=Clock())
        engine.start()
        armed = True
        count = engine.call_many(delays(), int)
        assert count == len(engine) == 3000
        if children == [0]:
            try:
                status = 1
                assert not engine.running
                ran = threading.Event()
                for _ in range(3):
                    engine.call_many([2] * 3000, int)
                engine.call_later(0, ran.set)
                engine._check()
                engine.start()
                assert ran.wait(20)
                assert engine.stop(20)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(children[0], 0)[1] == 0
        assert engine.running
        assert engine.stop(20)
        """,
            place=place,
        ),
        engine=engine_name,
        timeout=40,
    )
    assert_quiet(process)


@forks
def test_a_fork_with_runs_that_wait_and_run(engine_name):
    """Queued runs go back into the child's heap; what runs in the parent does not run in the child."""
    process = run_python(
        program(
            """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        engine = Engine(1)
        inside, release, ran = threading.Event(), threading.Event(), []
        engine.call_later(0, lambda: (inside.set(), release.wait(20)))
        for number in range(3):
            engine.call_later(0, ran.append, number)
        engine.start()
        inside.wait(20)
        wait_for(lambda: engine.stats().ready == 3)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert (len(engine), engine.stats().ready, engine.stats().running) == (3, 0, 0)
                assert engine.wait_idle(0) is False
                engine._check()
                engine.start()
                assert engine.wait_idle(20)
                assert ran == [0, 1, 2], ran
                assert engine.stop(20)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert ran == []
        release.set()
        assert engine.wait_idle(20)
        assert ran == [0, 1, 2]
        assert engine.stop(20)
        """
        ),
        engine=engine_name,
        timeout=40,
    )
    assert_quiet(process)


@forks
def test_a_manual_clock_works_in_a_child(engine_name):
    process = run_python(
        program(
            """
        from pysched.testing import ManualClock
        clock = ManualClock()
        engine = Engine(clock=clock)
        ran = []
        engine.call_every(1, ran.append, 1)
        engine.start()
        clock.advance(2)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert not engine.running
                assert clock.advance(1) == 0
                engine.start()
                assert clock.advance(2) == 2 or len(ran) > 2
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert engine.running
        assert clock.advance(1) == 1
        """
        ),
        engine=engine_name,
        timeout=40,
    )
    assert_quiet(process)


# Signals.


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
class TestSignals:
    @executors
    @pytest.mark.parametrize("pending", ["engine.call_later(3600, print)", "pass"])
    def test_ctrl_c_ends_run_at_once(self, engine_name, executor, pending):
        child = start_python(
            program(
                """
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        engine = Engine({{executor}})
        {{pending}}
        for _ in range(2):
            engine.call_later(0, lambda: print("ready", flush=True))
            try:
                engine.run()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            assert not engine.running
        assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        engine._check()
        """,
                executor=executor,
                pending=pending,
            ),
            engine=engine_name,
        )
        for _ in range(2):
            assert child.stdout.readline() == "ready\n"
            pause(0.02)  # into the wait
            begin = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.monotonic() - begin < 10
        assert child.wait(20) == 0
        assert child.stderr.read() == ""
        child.stdout.close()
        child.stderr.close()

    def test_ctrl_c_that_nobody_catches_ends_the_process_as_always(self, engine_name):
        child = start_python(
            program(
                """
        engine = Engine()
        engine.call_later(0, lambda: print("ready", flush=True))
        engine.run()
        """
            ),
            engine=engine_name,
        )
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert child.returncode == -signal.SIGINT
        assert err.rstrip().endswith("KeyboardInterrupt")
        assert out == ""

    @pytest.mark.stress
    @executors
    def test_ctrl_c_at_random_moments_loses_and_repeats_nothing(self, engine_name, executor):
        """The interrupt may leave a callback in the middle (it is counted), or the loop between two."""
        child = start_python(
            program(
                """
        engine = Engine({{executor}}, on_error=lambda exc, handle: None)
        interrupts, runs = 0, []
        def chain(number, depth):
            runs.append((number, depth))
            engine.call_later(0.0001, chain, number, depth + 1)
        for number in range(20):
            engine.call_later(0, chain, number, 0)
        while interrupts < 20:
            engine.call_later(0, lambda: print("ready", flush=True))
            try:
                engine.run()
            except KeyboardInterrupt:
                interrupts += 1
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert engine.stop(20)
        engine._check()
        assert len(runs) == len(set(runs)), "repeated"
        stats = engine.stats()
        assert stats.running == stats.ready == 0, stats
        assert 0 <= stats.started - len(runs) <= stats.errors, (len(runs), stats)
        seen = stats.started
        engine.call_later(0.05, engine.stop)
        engine.run()
        assert not len(engine) or engine.stats().started > seen
        """,
                executor=executor,
            ),
            engine=engine_name,
        )
        generator = random.Random(11)
        for _ in range(20):
            assert child.stdout.readline() == "ready\n", child.communicate(timeout=20)
            pause(generator.random() * 0.02)
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (0, "", "")

    @executors
    def test_a_handler_may_stop_the_engine(self, engine_name, executor):
        child = start_python(
            program(
                """
        engine = Engine({{executor}})
        signal.signal(signal.SIGTERM, lambda number, frame: engine.stop())
        engine.call_later(0, lambda: print("ready", flush=True))
        engine.call_later(3600, print)
        engine.run()
        assert not engine.running and len(engine) == 1
        print("ended", flush=True)
        """,
                executor=executor,
            ),
            engine=engine_name,
        )
        assert child.stdout.readline() == "ready\n"
        pause(0.02)  # into the wait
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=20)
        assert (child.returncode, out, err) == (0, "ended\n", "")

    @pytest.mark.stress
    @executors
    def test_a_handler_may_stop_a_busy_engine_at_any_moment(self, engine_name, executor):
        """stop() in a handler takes no lock that the interrupted code of this thread may hold."""
        process = run_python(
            program(
                """
        import random
        generator = random.Random(13)
        engine = Engine({{executor}})
        signal.signal(signal.SIGALRM, lambda number, frame: engine.stop())
        def again(key):
            engine.call_later(0, again, key, key=key)
        again("k")
        again(None)
        engine.call_every(0.0001, int)
        for _ in range(40):
            engine.call_later(0, signal.setitimer, signal.ITIMER_REAL, 0.0001 + generator.random() * 0.005)
            engine.run()
            assert not engine.running
            engine._check()
        """,
                executor=executor,
            ),
            engine=engine_name,
            timeout=60,
        )
        assert_quiet(process)

    def test_a_handler_on_the_main_thread_may_stop_an_engine_that_runs_elsewhere(self, engine_name):
        process = run_python(
            program(
                """
        engine = Engine(2)
        results = []
        signal.signal(signal.SIGALRM, lambda number, frame: results.append(engine.stop(20)))
        engine.call_every(0.0005, int)
        engine.start()
        wait_for(lambda: engine.stats().started > 3)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        wait_for(lambda: results)
        assert results == [True] and not engine.running
        """
            ),
            engine=engine_name,
            timeout=40,
        )
        assert_quiet(process)

    @pytest.mark.parametrize("wait", ["wait_idle()", "stop()"])
    def test_waiting_for_the_engine_can_be_interrupted(self, engine_name, wait):
        child = start_python(
            program(
                """
        engine = Engine()
        release = threading.Event()
        engine.call_later(0, release.wait, 20)
        engine.start()
        try:
            wait_for(lambda: engine.stats().running == 1)
            print("ready", flush=True)
            engine.{{wait}}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        release.set()
        assert engine.stop(20)
        """,
                wait=wait,
            ),
            engine=engine_name,
        )
        assert child.stdout.readline() == "ready\n"
        pause(0.05)  # into the wait
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        out, err = child.communicate(timeout=20)
        assert (child.returncode, out, err) == (0, "", "")

    def test_other_signals_are_handled_while_run_waits(self, engine_name):
        """A handler that returns is no reason to end, nor one to be late."""
        process = run_python(
            program(
                """
        engine = Engine()
        handled = []
        signal.signal(signal.SIGALRM, lambda number, frame: handled.append(time.monotonic()))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        began = time.monotonic()
        engine.call_every(0.01, lambda: len(handled) >= 2 and engine.stop(), delay=0.1)
        engine.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert time.monotonic() - began >= 0.1
        """
            ),
            engine=engine_name,
            timeout=40,
        )
        assert_quiet(process)

    @pytest.mark.parametrize(
        ("executor", "callback"),
        [
            ("None", "engine.call_later(0, time.sleep, 0.02)"),
            ("2", "engine.call_later(0, time.sleep, 0.02)"),
            # Inside a function in C that looks for no signals: it is not the callback's, either.
            ("None", "engine.call_later(0, hashlib.pbkdf2_hmac, 'sha256', b'', b'', 1_000_000)"),
        ],
        ids=["inline", "pool", "in C"],
    )
    def test_an_exit_in_a_handler_leaves_run(self, engine_name, executor, callback):
        process = run_python(
            program(
                """
        import hashlib
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
        engine = Engine({{executor}})
        waiter = threading.Thread(target=engine.wait_idle, args=[20])
        in_c = "pbkdf2" in "{{callback}}"
        def kill():
            wait_for(lambda: engine.stats().started)
            waiter.start()
            wait_for(lambda: engine.stats().running == in_c)
            time.sleep(0.05)  # into the wait, or the function
            os.kill(os.getpid(), signal.SIGTERM)
        killer = threading.Thread(target=kill)
        {{callback}}
        killer.start()
        try:
            engine.run()
        finally:
            print("finally", engine.running, engine.stats().errors, flush=True)
            killer.join(20)
            waiter.join(20)
            assert not waiter.is_alive()
            assert engine.stop(20)
        """,
                executor=executor,
                callback=callback,
            ),
            engine=engine_name,
            timeout=40,
        )
        assert_quiet(process, 7)
        assert process.stdout == "finally False 0\n"

    @pytest.mark.parametrize(
        "act",
        [
            "engine.call_later(60, print).cancel()",
            "engine.call_later(60, print, key=1); engine.cancel_key(1)",
            "engine.wait_idle(0)",
            "engine.wait_idle(0.05)",  # a signal just before the sleep is noticed after it, as with Python's locks
            "engine.next_deadline()",
            "other.run()",
        ],
    )
    def test_what_a_handler_raises_is_never_swallowed(self, engine_name, act):
        """Of whatever kind it is, in whatever line it comes, while others wait for the engine."""
        process = run_python(
            program(
                """
        import logging, queue
        logging.disable()  # that the loop of run() has ended
        class Late(RuntimeError):
            pass
        def handler(number, frame):
            raise Late
        signal.signal(signal.SIGUSR1, handler)
        engine, other, release = Engine(), Engine(), threading.Event()
        other.call_every(0.0001, int)
        engine.start()
        engine.call_later(0, release.wait, 40)
        wait_for(lambda: engine.stats().running)
        waiter = threading.Thread(target=engine.wait_idle, args=[40])
        waiter.start()
        go = queue.SimpleQueue()
        def kill():
            while go.get():
                os.kill(os.getpid(), signal.SIGUSR1)
        killer = threading.Thread(target=kill)
        killer.start()
        def act():
            # Apart from the `try`: CPython 3.12 and 3.13 do not count a loop's jump back as part of its body.
            deadline = time.monotonic() + 10
            go.put(True)
            while time.monotonic() < deadline:
                {{act}}
        for attempt in range(40):
            late = False
            try:
                act()
            except Late:
                late = True
            assert late, attempt
            assert other.stop(20)
        go.put(False)
        killer.join(20)
        release.set()
        waiter.join(20)
        assert not waiter.is_alive()
        assert engine.stop(20)
        engine._check()
        """,
                act=act,
            ),
            engine=engine_name,
            timeout=40,
        )
        assert_quiet(process)
