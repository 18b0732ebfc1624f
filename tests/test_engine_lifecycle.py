"""start(), stop(), `with`, and what survives between them."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import sys
import threading
import weakref

import pytest
from support import EXECUTORS, TOMORROW, WAIT, in_threads, label, listening, nothing, on_workers, pause, wait_until

from pysched.testing import ManualClock


def loops(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_fresh_engine_is_not_running(rig):
    assert not rig.engine.running
    rig.engine.start()
    assert rig.engine.running is True
    rig.engine.stop()
    assert rig.engine.running is False


def test_stop_before_start_does_nothing(rig):
    rig.engine.call_later(0, nothing)
    assert rig.engine.stop() is True
    assert rig.engine.stop(0) is True
    assert not rig.engine.running
    rig.engine.start()
    rig.settle()
    assert rig.engine.stats().started == 1


def test_a_second_stop_does_nothing(rig):
    rig.engine.start()
    assert [rig.engine.stop() for _ in range(3)] == [True] * 3


def test_a_second_start_does_nothing(make_engine):
    engine = make_engine(name="twice")
    for _ in range(3):
        engine.start()
    assert len(loops("twice")) == 1
    ran = threading.Event()
    engine.call_later(0, ran.set)
    assert ran.wait(WAIT)


@on_workers(None, 2)
def test_one_loop_however_many_threads_start_it(make_engine, workers):
    engine = make_engine(**workers, name="race")
    runs = []
    for _ in range(10):
        in_threads(*[engine.start] * 8)
        assert len(loops("race")) == 1
        ran = threading.Event()
        engine.call_later(0, runs.append, 1)
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert engine.stop(WAIT)
        assert wait_until(lambda: not loops("race"))
    assert len(runs) == 10


def test_start_and_stop_in_turn_keep_pending_timers(rig):
    engine = rig.engine
    runs = []
    for _ in range(20):
        engine.start()
        assert engine.stop(WAIT)
    engine.call_later(0, runs.append, 1)
    engine.start()
    rig.settle()
    assert runs == [1]


def test_nothing_starts_after_stop(rig):
    engine = rig.engine
    engine.start()
    every = engine.call_every(0.0005, nothing)
    rig.until(lambda: engine.stats().started > 3)
    assert engine.stop(WAIT)
    started = engine.stats().started
    engine.call_later(0, nothing)
    if rig.clock is not None:
        assert rig.clock.advance(10) == 0
    else:
        pause(0.02)
    assert engine.stats().started == started
    assert len(engine) == 2
    every.cancel()
    engine.start()
    rig.settle()
    assert engine.stats().started == started + 1


def test_what_is_registered_while_stopped_runs_after_the_next_start(rig):
    engine = rig.engine
    engine.start()
    engine.stop()
    ran = threading.Event()
    engine.call_later(0.01, ran.set)
    engine.start()
    rig.until(ran.is_set)


def test_a_with_block_starts_and_stops(rig):
    with rig.engine as entered:
        assert entered is rig.engine
        assert rig.engine.running
    assert not rig.engine.running
    with rig.engine:
        assert rig.engine.running


def test_a_with_block_stops_when_its_body_fails_and_passes_the_error_on(rig):
    with pytest.raises(ZeroDivisionError), rig.engine:
        raise ZeroDivisionError
    assert not rig.engine.running


@on_workers(None, 1, 2)
@pytest.mark.parametrize("timers", ["none", "far", "cancelled"])
def test_stop_wakes_a_sleeping_loop(make_engine, workers, timers):
    engine = make_engine(**workers)
    handles = [engine.call_later(TOMORROW, nothing) for _ in range(10 if timers != "none" else 0)]
    engine.start()
    pause(0.01)  # into its sleep
    if timers == "cancelled":
        assert all(handle.cancel() for handle in handles)
    begin = engine.time()
    assert engine.stop()
    assert engine.time() - begin < 5


@on_workers(None, 1, 2)
def test_stop_waits_for_running_callbacks(make_engine, workers):
    engine = make_engine(**workers)
    inside, release, ended = threading.Event(), threading.Event(), []

    def slow():
        inside.set()
        release.wait(WAIT)
        ended.append(1)

    engine.call_later(0, slow)
    engine.start()
    assert inside.wait(WAIT)
    threading.Timer(0.02, release.set).start()
    assert engine.stop() is True
    assert ended == [1]


@on_workers(None, 1, 2)
def test_stop_waits_no_longer_than_its_timeout(make_engine, workers):
    engine = make_engine(**workers)
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    for timeout in (0, 0.01, 1e-9):
        assert engine.stop(timeout) is False
    assert engine.stats().running == 1
    release.set()
    assert engine.stop(WAIT) is True
    assert engine.stats().running == 0


@pytest.mark.parametrize("timeout", [1e300, 10**12, 9223372037])
@on_workers(None, 1)
def test_a_huge_timeout_is_cut_not_refused(make_engine, workers, timeout):
    engine = make_engine(**workers)
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    threading.Timer(0.02, release.set).start()
    assert engine.stop(timeout)


def test_stop_from_a_callback_returns_at_once_and_ends_the_engine(rig):
    engine = rig.engine
    results = []
    engine.call_later(0, lambda: results.append(engine.stop()))
    engine.call_later(TOMORROW, nothing)
    engine.start()
    rig.until(lambda: results)
    assert engine.stop(WAIT)
    assert not engine.running
    assert len(engine) == 1
    engine.start()
    assert engine.running
    ran = threading.Event()
    engine.call_later(0, ran.set)
    rig.until(ran.is_set)


def test_stop_and_start_from_a_callback_go_on(rig, logged):
    """A warning about the stop that was taken back is right, and needed where the loop runs the callback."""
    engine = rig.engine
    ran = threading.Event()

    def restart():
        engine.stop()
        engine.start()
        engine.call_later(0, ran.set)

    engine.start()
    engine.call_later(0, restart)
    rig.until(ran.is_set)
    assert engine.running
    levels = [level for level, _, _ in logged]
    assert levels == ["WARNING"] or (rig.mode != "inline" and levels == [])


@on_workers(None, 1, 2)
def test_two_callbacks_stop_it_together(make_engine, workers):
    engine = make_engine(**workers)
    for _ in range(2):
        engine.call_later(0, engine.stop)
    engine.start()
    assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT)


def test_many_threads_stop_it_together(rig):
    rig.engine.call_every(0.001, nothing)
    rig.engine.start()
    in_threads(*[lambda: rig.engine.stop(WAIT)] * 8)
    assert not rig.engine.running


def test_a_destructor_in_a_callback_may_stop_the_engine(make_rig):
    rig = make_rig()
    engine = rig.engine
    stopped = []

    class Stops:
        def __del__(self):
            stopped.append(engine.stop())

    engine.call_later(0, nothing, Stops())
    engine.start()
    rig.until(lambda: stopped)
    assert engine.stop(WAIT)
    assert not engine.running


def test_start_after_a_hung_stop_takes_the_stop_back_and_warns(make_engine, logged):
    """Inline, the old loop goes on when its callback returns: one loop, one callback at a time."""
    engine = make_engine(name="hung")
    inside, release, ran, active = threading.Event(), threading.Event(), threading.Event(), []

    def hang():
        active.append(1)
        inside.set()
        release.wait(WAIT)
        active.pop()

    engine.call_later(0, hang)
    engine.call_later(0, lambda: (active and pytest.fail("two at a time"), ran.set()))
    engine.start()
    assert inside.wait(WAIT)
    assert engine.stop(0.01) is False
    engine.start()
    assert [(level, has_traceback) for level, _, has_traceback in logged] == [("WARNING", False)]
    assert len(loops("hung")) == 1
    assert engine.running
    release.set()
    assert ran.wait(WAIT)
    assert engine.stop(WAIT)
    assert engine.stats().errors == 0


def test_a_stop_that_is_taken_back_stops_waiting(make_engine, logged):
    engine = make_engine()
    inside, release, results = threading.Event(), threading.Event(), []
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    stopper = threading.Thread(target=lambda: results.append(engine.stop()))
    stopper.start()
    assert wait_until(lambda: not engine.running)
    engine.start()
    stopper.join(WAIT)
    release.set()
    assert results == [False]
    assert len(logged) == 1


@on_workers(None, 1)
def test_a_hung_callback_that_ends_after_the_stop_revives_nothing(make_engine, workers):
    engine = make_engine(**workers, name="late")
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.call_later(0, pytest.fail, "ran")
    engine.start()
    assert inside.wait(WAIT)
    assert engine.stop(0.01) is False
    release.set()
    assert wait_until(lambda: not loops("late"))
    assert engine.stop(WAIT)
    assert (engine.running, engine.stats().errors, len(engine)) == (False, 0, 1)


@on_workers(None, 1, 2)
def test_two_threads_start_and_stop_at_will(make_engine, workers, caplog):
    """Never two loops, nothing run twice, and it works afterwards. (A warning about a taken-back stop is right.)"""
    engine = make_engine(**workers, name="churn")
    most, runs = [], []

    def churn(seed):
        generator = random.Random(seed)
        for _ in range(50):
            engine.start() if generator.random() < 0.5 else engine.stop(WAIT)
            most.append(len(loops("churn")))
            engine.call_later(0, runs.append, 1)

    in_threads(lambda: churn(1), lambda: churn(2))
    engine.start()
    assert engine.wait_idle(WAIT)
    assert wait_until(lambda: len(loops("churn")) == 1)
    assert len(runs) == 100 == engine.stats().started
    # A loop that has been told to end may still be on its way out when the next one begins.
    assert max(most) <= 2
    assert engine.stop(WAIT)


@on_workers(None, 1, 2)
def test_restarts_at_random_moments_lose_and_repeat_nothing(make_engine, workers):
    engine = make_engine(**workers)
    generator = random.Random(5)
    lock, runs = threading.Lock(), []

    def run(number):
        with lock:
            runs.append(number)

    for number in range(3000):
        engine.call_later(generator.random() * 0.03, run, number)
    for _ in range(30):
        engine.start()
        pause(generator.random() * 0.002)
        assert engine.stop(WAIT)
        engine._check()
    engine.start()
    assert wait_until(lambda: len(engine) == 0)
    assert engine.wait_idle(WAIT)
    assert sorted(runs) == list(range(3000))


def test_one_shots_that_add_themselves_survive_restarts(make_engine):
    engine = make_engine(2)
    runs = []

    def again():
        runs.append(1)
        engine.call_later(0.0002, again)

    for _ in range(5):
        engine.call_later(0, again)
    for _ in range(20):
        engine.start()
        seen = len(runs)
        assert wait_until(lambda seen=seen: len(runs) > seen)
        assert engine.stop(WAIT)
        assert len(engine) == 5
    assert engine.stats().errors == 0


def test_callbacks_that_ask_the_engine_while_it_stops_get_answers(make_engine):
    engine = make_engine(4)
    asked = []

    def ask():
        len(engine)
        engine.stats()
        engine.next_deadline()
        engine.call_later(0, nothing).cancel()
        engine.cancel_key("k")
        asked.append(engine.running)

    for _ in range(8):
        engine.call_every(0.0002, ask)
    engine.start()
    assert wait_until(lambda: len(asked) > 50)
    assert engine.stop(2 * WAIT)
    assert engine.stats().errors == 0


@on_workers(None, 1)
def test_a_loop_thread_that_cannot_start_leaves_a_stopped_engine(make_engine, workers, monkeypatch):
    engine = make_engine(**workers)
    engine.call_later(0, nothing)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            engine.start()
    assert not engine.running
    assert engine.stop(0) is True
    engine._check()
    engine.start()
    assert engine.wait_idle(WAIT)
    assert engine.stats().started == 1


class InterruptedClock(ManualClock):
    """Ctrl-C comes while it is asked for the time, or attached to."""

    where = None

    def interrupt(self, where):
        if self.where == where:
            self.where = None
            signal.raise_signal(signal.SIGINT)

    def time_ns(self):
        self.interrupt("time_ns")
        return super().time_ns()

    def attach(self, age, driven):
        super().attach(age, driven)
        self.interrupt("attach")


@pytest.mark.parametrize("where", ["time_ns", "attach"])
def test_ctrl_c_inside_a_start_on_a_driving_clock_leaves_a_stopped_engine(make_engine, where):
    clock = InterruptedClock()
    engine = make_engine(clock=clock)
    ran = []
    engine.call_later(1, ran.append, 1)
    clock.where = where
    with pytest.raises(KeyboardInterrupt):
        engine.start()
    assert not engine.running
    engine._check()
    clock.advance(2)
    assert ran == []
    engine.start()
    clock.advance(2)
    assert ran == [1]


def test_a_start_on_a_driving_clock_that_ctrl_c_has_ended_keeps_nothing_alive(impl):
    clock = InterruptedClock()
    engine = impl.Engine(clock=clock)
    gone = weakref.ref(engine)
    clock.where = "attach"
    with pytest.raises(KeyboardInterrupt):
        engine.start()
    del engine
    gc.collect()
    assert gone() is None


def test_threads_carry_the_engines_name(make_engine):
    engine = make_engine(2, name="my timers")
    names = []
    barrier = threading.Barrier(3)
    for _ in range(2):
        engine.call_later(0, lambda: (names.append(threading.current_thread().name), barrier.wait(WAIT)))
    with engine:
        [loop] = loops("my timers")
        assert loop.daemon
        barrier.wait(WAIT)
        assert engine.wait_idle(WAIT)
    assert sorted(names) == ["my timers-worker_0", "my timers-worker_1"]


def test_the_default_name_is_pysched_and_inline_callbacks_run_on_the_loop(make_engine):
    engine = make_engine()
    threads = []
    engine.call_later(0, lambda: threads.append(threading.current_thread()))
    with engine:
        assert engine.wait_idle(WAIT)
    assert [(thread.name, thread.daemon) for thread in threads] == [("pysched", True)]


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_stop_leaves_no_thread_of_ours(make_engine, executor):
    before = set(threading.enumerate())
    engine = make_engine(**executor)
    for _ in range(3):
        engine.start()
        for _ in range(10):
            engine.call_later(0, nothing)
        assert engine.wait_idle(WAIT)
        assert engine.stop(WAIT)
        assert wait_until(lambda: set(threading.enumerate()) <= before)


def test_no_thread_on_a_manual_clock(make_engine, clock):
    before = set(threading.enumerate())
    engine = make_engine(3, clock=clock)
    engine.start()
    engine.call_later(1, lambda: where.append(threading.current_thread()))
    where = []
    clock.advance(1)
    assert where == [threading.current_thread()]
    assert set(threading.enumerate()) == before


def test_an_engine_may_be_subclassed_and_weakly_referenced(impl):
    class Mine(impl.Engine):
        def __init__(self, **options):
            super().__init__(name="mine", **options)
            self.extra = []

        def call_later(self, delay, callback, *args, key=None):
            self.extra.append(delay)
            return super().call_later(delay, callback, *args, key=key)

    engine = Mine()
    ran = threading.Event()
    with engine:
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
    assert engine.extra == [0]
    reference = weakref.ref(engine)
    assert reference() is engine


# run(): the loop on the caller's thread.


@pytest.mark.parametrize("executor", [None, 2])
def test_run_is_the_loop_on_the_callers_thread_until_it_is_stopped(make_engine, executor):
    engine = make_engine(executor)
    where = []
    engine.call_later(0.001, lambda: where.append((threading.current_thread(), engine.running)))
    engine.call_later(0.02, engine.stop)
    assert engine.run() is None
    assert not engine.running
    assert where[0][1] is True
    assert (where[0][0] is threading.current_thread()) == (executor is None)
    engine.call_later(0, engine.stop)
    engine.run()
    assert engine.stats().started == 3


@on_workers(None, 1)
def test_run_works_on_any_thread(make_engine, workers):
    engine = make_engine(**workers)
    ran = threading.Event()
    engine.call_later(0, ran.set)
    thread = threading.Thread(target=engine.run)
    thread.start()
    assert ran.wait(WAIT)
    assert engine.running
    assert engine.stop(WAIT)
    thread.join(WAIT)
    assert not thread.is_alive()


def test_run_while_it_runs_is_refused_and_harms_nothing(rig):
    engine = rig.engine
    engine.start()
    with pytest.raises(RuntimeError):
        engine.run()
    ran = threading.Event()
    engine.call_later(0, ran.set)
    rig.until(ran.is_set)


def test_run_from_a_callback_is_refused(make_engine, logged):
    engine = make_engine()
    engine.call_later(0, engine.run)
    with engine:
        assert engine.wait_idle(WAIT)
        assert engine.running
    assert engine.stats().errors == 1
    assert "RuntimeError" in logged[0][1]


def test_run_while_an_old_loop_hangs_is_refused(make_engine):
    engine = make_engine()
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    assert engine.stop(0) is False
    with pytest.raises(RuntimeError):
        engine.run()
    release.set()
    assert engine.stop(WAIT)


def test_start_while_run_runs_does_nothing(make_engine):
    engine = make_engine(name="runs")
    engine.call_later(0, lambda: (engine.start(), engine.stop()))
    engine.run()
    assert not loops("runs")


def test_run_on_a_manual_clock_is_refused(make_engine, clock):
    engine = make_engine(clock=clock)
    with pytest.raises(RuntimeError):
        engine.run()
    assert not engine.running
    engine.start()
    engine.call_later(1, nothing)
    assert clock.advance(1) == 1


def test_a_keyboard_interrupt_leaves_run_on_the_main_thread(make_engine):
    """Inline only: it is counted, not reported, and the engine is stopped and can run again."""
    engine = make_engine(on_error=lambda exc, handle: pytest.fail("reported"))
    runs = []

    def interrupt():
        raise KeyboardInterrupt

    engine.call_later(0, interrupt)
    engine.call_later(0, runs.append, 1)
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    assert (engine.running, engine.stats().errors, engine.stats().running, runs) == (False, 1, 0, [])
    engine.call_later(0, engine.stop)
    engine.run()
    assert runs == [1]


def test_a_keyboard_interrupt_in_on_error_leaves_run_on_the_main_thread(make_engine, logged):
    """It is logged with the error that was being handled, counted once, and the engine can run again."""

    def interrupt(exc, handle):
        raise KeyboardInterrupt

    engine = make_engine(on_error=interrupt)
    runs = []
    engine.call_later(0, lambda: 1 / 0)
    engine.call_later(0, runs.append, 1)
    with pytest.raises(KeyboardInterrupt) as caught:
        engine.run()
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert (engine.running, engine.stats().errors, engine.stats().running, runs) == (False, 1, 0, [])
    [(level, text, _)] = logged
    assert level == "ERROR"
    assert "ZeroDivisionError" in text
    assert "KeyboardInterrupt" in text
    engine.call_later(0, engine.stop)
    engine.run()
    assert runs == [1]


@pytest.mark.parametrize("moment", ["before it writes", "while it writes"])
@pytest.mark.parametrize("handler", ["none", "one that fails"])
def test_a_keyboard_interrupt_in_the_log_leaves_run_on_the_main_thread(
    make_engine, monkeypatch, logged, moment, handler
):
    """What could not be logged goes to `sys.unraisablehook`; the Ctrl-C is not lost by that."""
    told, runs = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: told.append(each.exc_type))

    class Interrupted(logging.Handler):
        def emit(self, record):
            if moment == "while it writes":
                raise KeyboardInterrupt

    def look(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "log_error" and moment == "before it writes":
            sys.setprofile(None)
            raise KeyboardInterrupt

    engine = make_engine(on_error=None if handler == "none" else lambda exc, handle: {}[1])
    engine.call_later(0, lambda: 1 / 0)
    engine.call_later(0, runs.append, 1)
    engine.call_later(0.02, engine.stop)
    with listening(Interrupted()):
        sys.setprofile(look)
        try:
            with pytest.raises(KeyboardInterrupt):
                engine.run()
        finally:
            sys.setprofile(None)
    assert (engine.running, engine.stats().errors, engine.stats().running, runs) == (False, 1, 0, [])
    assert told == [KeyboardInterrupt] * (moment == "while it writes")
    logged.clear()  # it has been listening, too
    engine.run()
    assert runs == [1]


def test_a_keyboard_interrupt_while_a_coroutine_is_closed_leaves_run_on_the_main_thread(make_engine):
    """One that a callback has returned, and that objects."""
    engine = make_engine(on_error=lambda exc, handle: pytest.fail("reported"))
    runs = []

    async def objects():
        try:
            await asyncio.sleep(0)
        except GeneratorExit:
            raise KeyboardInterrupt from None

    def begun():
        coroutine = objects()
        coroutine.send(None)
        return coroutine

    engine.call_later(0, begun)
    engine.call_later(0, runs.append, 1)
    engine.call_later(0.02, engine.stop)
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    assert (engine.running, engine.stats().errors, engine.stats().running, runs) == (False, 1, 0, [])
    engine.run()
    assert runs == [1]


@pytest.mark.parametrize("how", ["start", "run in a thread", "run with a pool"])
def test_a_keyboard_interrupt_elsewhere_is_an_error_like_any_other(make_engine, how):
    given = []
    engine = make_engine(1 if how == "run with a pool" else None, on_error=lambda exc, handle: given.append(type(exc)))

    def interrupt():
        raise KeyboardInterrupt

    engine.call_later(0, interrupt)
    engine.call_later(0.001, engine.stop)
    match how:
        case "start":
            engine.start()
        case "run in a thread":
            thread = threading.Thread(target=engine.run)
            thread.start()
            thread.join(WAIT)
        case "run with a pool":
            engine.run()
    assert wait_until(lambda: not engine.running)
    assert given == [KeyboardInterrupt]


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit()], ids=label)
def test_no_other_error_leaves_run(make_engine, error):
    given = []
    engine = make_engine(on_error=lambda exc, handle: given.append(exc))

    def fail():
        raise error

    engine.call_later(0, fail)
    engine.call_later(0.001, engine.stop)
    engine.run()
    assert given == [error]
    error.__traceback__ = None
