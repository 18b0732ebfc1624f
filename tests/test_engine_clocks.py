"""Engines on a user's clock, through the public Clock protocol."""

from __future__ import annotations

import threading
import time

import pytest
from support import TOMORROW, WAIT, assert_quiet, in_other_thread, label, nothing, pause, run_python, wait_until

from pysched.clock import DrivingClock


class EarlyClock:
    """Virtual time: waiting takes no real time and ends `early_ns` before the time that was asked for."""

    def __init__(self, early_ns=3_000_000):
        self.early_ns = early_ns
        self.now_ns = 0
        self.waits = []

    def time_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns

    def wait(self, event, timeout):
        self.waits.append(timeout)
        if timeout is None:
            event.wait(WAIT)
        elif not event.is_set():
            self.now_ns += max(round(timeout * 1e9) - self.early_ns, 1_000_000)


class RealClock:
    """The system's monotonic clock, counting how often it is waited on."""

    def __init__(self):
        self.waits = []
        self.waiting = threading.Semaphore(0)

    def time_ns(self):
        return time.monotonic_ns()

    def wall_ns(self):
        return time.time_ns()

    def wait(self, event, timeout):
        self.waits.append(timeout)
        self.waiting.release()
        event.wait(timeout)


def test_the_clocks_of_this_package_fit_the_protocol(clock):
    from pysched.clock import Clock, SystemClock

    assert isinstance(clock, Clock)
    assert isinstance(SystemClock(), Clock)
    assert isinstance(EarlyClock(), Clock)
    assert not isinstance(object(), Clock)


def test_the_systems_clock_may_be_passed(make_engine):
    from pysched.clock import SystemClock

    engine = make_engine(clock=SystemClock())
    before = time.monotonic()
    assert before <= engine.time() <= time.monotonic()
    ran = threading.Event()
    engine.call_later(0.001, ran.set)
    with engine:
        assert ran.wait(WAIT)


@pytest.mark.parametrize("early_ns", [0, 1, 3_000_000, 999_999_999])
@pytest.mark.parametrize("method", ["call_every", "call_later", "call_many"])
def test_a_clock_that_wakes_early_makes_nothing_run_early_or_twice(make_engine, early_ns, method):
    clock = EarlyClock(early_ns)
    engine = make_engine(clock=clock)
    starts = []

    def run():
        starts.append(clock.now_ns)
        if len(starts) == 10:
            engine.stop()
        elif method == "call_later":
            engine.call_at(60 * (len(starts) + 1), run)

    match method:
        case "call_every":
            engine.call_every(60, run)
        case "call_later":
            engine.call_later(60, run)
        case "call_many":
            engine.call_many([60 * (number + 1) for number in range(10)], run)
    engine.run()
    slots = [start // 60_000_000_000 for start in starts]
    assert slots == list(range(1, 11))
    assert all(start - slot * 60_000_000_000 < 1_100_000 for start, slot in zip(starts, slots, strict=True))
    assert engine.stats().coalesced == 0


def test_a_clock_that_does_not_wait_at_all_makes_nothing_early(make_engine):
    class Hasty(RealClock):
        def wait(self, event, timeout):
            pause(0)

    engine = make_engine(clock=Hasty())
    due = engine.time() + 0.02
    started = []
    engine.call_later(0.02, lambda: started.append(engine.time()))
    with engine:
        assert wait_until(lambda: started)
    assert started[0] >= due


def test_the_loop_waits_for_the_deadline_and_without_one_for_ever(make_engine):
    clock = RealClock()
    engine = make_engine(clock=clock)
    with engine:
        assert clock.waiting.acquire(timeout=WAIT)
        assert clock.waits == [None]
        engine.call_later(100, nothing)
        assert clock.waiting.acquire(timeout=WAIT)
        assert 99 < clock.waits[1] <= 100
        engine.call_later(50, nothing)
        assert clock.waiting.acquire(timeout=WAIT)
        assert 49 < clock.waits[2] <= 50


def test_only_a_new_earliest_timer_ends_a_wait(make_engine):
    clock = RealClock()
    engine = make_engine(clock=clock)
    engine.call_many([TOMORROW] * 1000, nothing)
    with engine:
        assert clock.waiting.acquire(timeout=WAIT)
        for _ in range(100):
            engine.call_later(2 * TOMORROW, nothing).cancel()
            engine.call_many([2 * TOMORROW] * 2, nothing)
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert clock.waiting.acquire(timeout=WAIT)
    assert len(clock.waits) == 2


@pytest.mark.parametrize("delay", [1e12, 10**18, 9223372035])
def test_waits_are_never_longer_than_a_thread_can_wait(make_engine, delay):
    clock = RealClock()
    engine = make_engine(clock=clock)
    engine.call_later(delay, nothing)
    with engine:
        assert clock.waiting.acquire(timeout=WAIT)
        assert clock.waits[0] is None or 0 < clock.waits[0] <= threading.TIMEOUT_MAX
        ran = threading.Event()
        engine.call_later(0.001, ran.set)
        assert ran.wait(WAIT)


def test_a_platform_with_short_waits_reaches_far_deadlines_in_few_steps(engine_name):
    """On Windows a thread waits at most 4,294,967 s at a time: 49.7 days."""
    process = run_python(
        """
        import threading
        threading.TIMEOUT_MAX = 4294967.0
        from pysched import Engine

        class Clock:
            now_ns = 0
            waits = []
            def time_ns(self): return self.now_ns
            def wall_ns(self): return self.now_ns
            def wait(self, event, timeout):
                self.waits.append(timeout)
                if timeout is None:
                    raise AssertionError("nothing pending")
                if not event.is_set():
                    self.now_ns += round(timeout * 1e9)

        clock = Clock()
        engine = Engine(clock=clock)
        runs = []
        engine.call_later(306 * 86400, lambda: runs.append(clock.now_ns / 1e9))
        engine.call_later(2400 * 3600, lambda: runs.append(clock.now_ns / 1e9))
        engine.call_later(400 * 86400, engine.stop)
        engine.run()
        assert runs == [2400 * 3600, 306 * 86400], runs
        assert max(clock.waits) <= 4294967.0
        assert len(clock.waits) <= 3 + 400 * 86400 / 4294967, len(clock.waits)
        """,
        engine=engine_name,
    )
    assert_quiet(process)


class BreakableClock(RealClock):
    """Once `broken`, `method` fails, but not for the thread that made the clock."""

    def __init__(self, method, error):
        super().__init__()
        self.method, self.error, self.broken = method, error, False
        self.owner = threading.current_thread()

    def fail(self, method):
        if self.broken and self.method == method and threading.current_thread() is not self.owner:
            raise self.error

    def time_ns(self):
        self.fail("time_ns")
        return super().time_ns()

    def wait(self, event, timeout):
        self.fail("wait")
        super().wait(event, timeout)


@pytest.mark.parametrize("method", ["time_ns", "wait"])
@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), SystemExit(3)], ids=label)
@pytest.mark.parametrize("executor", [None, 1])
def test_a_failing_clock_ends_the_loop_loudly_and_loses_nothing(make_engine, logged, method, error, executor):
    clock = BreakableClock(method, error)
    engine = make_engine(executor, clock=clock)
    engine.call_later(3600, nothing)
    engine.start()
    assert clock.waiting.acquire(timeout=WAIT)
    clock.broken = True
    handle = engine.call_later(1800, nothing)  # a new head: the loop wakes, looks and waits again
    assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT)
    clock.broken = False
    assert [(level, has_traceback) for level, _, has_traceback in logged] == [("ERROR", True)]
    assert type(error).__name__ in logged[0][1]
    assert (len(engine), handle.done()) == (2, False)
    engine.start()
    ran = threading.Event()
    engine.call_later(0, ran.set)
    assert ran.wait(WAIT)
    error.__traceback__ = None


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()], ids=label)
def test_run_raises_what_the_clock_failed_with(make_engine, logged, error):
    class Failing(RealClock):
        def wait(self, event, timeout):
            raise error

    engine = make_engine(clock=Failing())
    engine.call_later(3600, nothing)
    with pytest.raises(type(error)):
        engine.run()
    assert not engine.running
    assert len(engine) == 1
    error.__traceback__ = None


@pytest.mark.parametrize("executor", [1, 2])
@pytest.mark.parametrize("how", ["start", "run"])
def test_a_clock_that_fails_inside_a_drain_ends_the_loop_and_loses_nothing(make_engine, logged, executor, how):
    error = ZeroDivisionError("mine")

    class FailingOnWorkers(RealClock):
        broken = False

        def time_ns(self):
            if self.broken and "-worker" in threading.current_thread().name:
                raise error
            return super().time_ns()

    clock = FailingOnWorkers()
    engine = make_engine(executor, clock=clock)
    ran = []
    engine.call_later(0, setattr, clock, "broken", True)
    engine.call_later(TOMORROW, nothing)
    engine.call_every(TOMORROW, ran.append, 1, delay=0)
    if how == "run":
        with pytest.raises(ZeroDivisionError, match="mine"):
            engine.run()
    else:
        engine.start()
        assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT)
    assert [(level, has_traceback) for level, _, has_traceback in logged] == [("ERROR", True)]
    assert (len(engine), engine.stats().running, engine.stats().ready) == (2, 0, 0)
    engine._check()
    clock.broken = False
    with engine:
        assert engine.wait_idle(WAIT)
    assert ran == [1]
    error.__traceback__ = None


@pytest.mark.parametrize("value", [None, "1"], ids=label)
def test_a_clock_that_gives_no_integers_is_an_error_at_the_call(make_engine, value):
    class Wrong(RealClock):
        def time_ns(self):
            return value

    engine = make_engine(clock=Wrong())
    with pytest.raises((TypeError, ValueError)):
        engine.call_later(1, nothing)
    assert len(engine) == 0


def test_no_lock_is_held_while_the_clock_is_asked(make_engine):
    free = []

    class Asking(RealClock):
        asking = False

        def ask(self):
            if not self.asking and len(free) < 5:
                self.asking = True
                free.append(in_other_thread(lambda: (engine.cancel_key("k"), engine.stats(), len(engine))))
                self.asking = False

        def time_ns(self):
            self.ask()
            return super().time_ns()

        def wait(self, event, timeout):
            self.ask()
            super().wait(event, timeout)

    engine = make_engine(clock=Asking())
    ran = threading.Event()
    with engine:
        engine.call_later(0.001, ran.set)
        engine.call_every(0.001, nothing)
        assert ran.wait(2 * WAIT)
    assert len(free) >= 3
    assert all(free)


def test_a_driving_clock_is_enlisted_once_attached_at_start_and_detached_at_stop(make_engine):
    """The protocol between an engine and any clock that runs it."""

    class Driving(DrivingClock):
        def __init__(self):
            self.told, self.driven, self.now_ns = [], [], 0

        def time_ns(self):
            return self.now_ns

        def wall_ns(self):
            return self.now_ns

        def wait(self, event, timeout):
            raise AssertionError("waited")

        def sleep_until(self, over, duration):
            raise AssertionError("slept")

        def enlist(self):
            self.told.append("enlist")
            return 7

        def attach(self, age, driven):
            self.told.append(("attach", age))
            self.driven.append(driven)

        def detach(self, driven):
            self.told.append("detach")
            self.driven.remove(driven)

    clock = Driving()
    engine = make_engine(clock=clock)
    assert clock.told == ["enlist"]
    for _ in range(2):
        engine.start()
        engine.start()
        assert clock.driven == [engine]
        engine.stop()
        assert clock.driven == []
    assert clock.told == ["enlist", *[("attach", 7), "detach"] * 2]
    runs = []
    engine.call_later(1, runs.append, 1)
    engine.call_later(1, runs.append, 2)
    engine.call_later(3, runs.append, 3)
    engine.start()
    assert engine._next_due_ns() == 10**9
    assert not engine._run_next(10**9 - 1)
    assert engine._run_next(10**9)
    assert runs == [1]
    clock.now_ns = 2 * 10**9
    assert engine._run_next(clock.now_ns)
    assert not engine._run_next(clock.now_ns)
    assert (runs, engine._next_due_ns()) == ([1, 2], 3 * 10**9)


def test_a_clock_that_stands_still_makes_nothing_due(make_engine):
    class Standing(RealClock):
        now_ns = 5_000_000_000

        def time_ns(self):
            return self.now_ns

    clock = Standing()
    engine = make_engine(clock=clock)
    engine.call_later(0.01, nothing)
    with engine:
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        looks = len(clock.waits)
        assert wait_until(lambda: len(clock.waits) >= looks + 2)
        assert engine.stats().started == 1
        assert (engine.time(), len(engine)) == (5, 1)


def test_a_clock_that_steps_back_repeats_no_slot(make_engine, clock):
    """A reading a little below the last one: the slot that has run does not run again."""

    class Stepping(EarlyClock):
        def __init__(self):
            super().__init__(early_ns=0)

    clock = Stepping()
    engine = make_engine(clock=clock)
    starts = []

    def run():
        starts.append(clock.now_ns)
        clock.now_ns -= 5_000_000
        if len(starts) == 10:
            engine.stop()

    engine.call_every(1, run)
    engine.run()
    assert [start // 10**9 for start in starts] == list(range(1, 11))


def test_at_the_recursion_limit_no_wake_up_is_lost(engine_name):
    """The loop waits through Python code there: a registration raises, or its timer comes."""
    process = run_python(
        """
        import sys, threading, time
        from pysched import Engine

        class Clock:
            time_ns = wall_ns = staticmethod(time.monotonic_ns)
            def wait(self, event, timeout):
                event.wait(timeout)

        def deep(left):
            return deep(left - 1) if left else engine.call_later(0, ran.release)

        ran = threading.Semaphore(0)
        engine = Engine(clock=Clock())
        engine.start()
        raised = 0
        for depth in range(sys.getrecursionlimit() - 50, sys.getrecursionlimit()):
            try:
                deep(depth)
            except RecursionError:
                raised += 1
                if not len(engine):
                    continue
            assert ran.acquire(timeout=10), depth
        assert 0 < raised < 50
        assert engine.stop(10)
        engine._check()
        """,
        engine=engine_name,
        timeout=30,
    )
    assert_quiet(process)
