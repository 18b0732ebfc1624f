"""What comes back at a stop, a refusal or a fault of the clock is what was there before, in its place."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
from support import TOMORROW, WAIT, nothing, on_workers, wait_until

from pysched.clock import SystemClock
from pysched.testing import ManualClock


def test_queued_periodic_timers_survive_any_number_of_stops(make_engine):
    """Each stop puts their runs back into the heap; none of that may outgrow what was reserved."""
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait, WAIT)
        engine = make_engine(pool)
        engine.call_every(TOMORROW, nothing, delay=0)
        engine.call_later(TOMORROW, nothing)
        for _ in range(150):
            engine.start()
            assert engine.stop(WAIT)
            engine._check()
        assert len(engine) == 2
        release.set()


def test_queued_periodic_timers_that_never_come_again_leave_the_counters_alone(make_engine):
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait, WAIT)
        engine = make_engine(pool)
        engine.call_every(1e300, nothing, delay=0)
        for _ in range(3):
            engine.start()
            assert engine.stop(WAIT)
        assert engine.stats().coalesced == 0
        release.set()


@on_workers(3)
def test_all_workers_are_there_after_stops_that_were_taken_back(make_engine, workers, logged):
    """Were two drains waiting for one thread, the callbacks could not meet."""
    engine = make_engine(**workers)
    engine.call_every(0.0001, nothing)
    engine.start()
    for _ in range(60):
        for _ in range(3):
            engine.stop(0)
            engine.start()
        meeting = threading.Barrier(4, timeout=WAIT)
        for _ in range(3):
            engine.call_later(0, meeting.wait)
        meeting.wait()
        engine._check()


class Fickle(Executor):
    """Refuses until it is told not to, then runs at once."""

    refusing = True

    def submit(self, fn, /, *args, **kwargs):
        if self.refusing:
            raise ZeroDivisionError("refused")
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_a_refused_timer_keeps_its_handle_its_key_and_its_place(make_engine, logged):
    executor, ran = Fickle(), []
    engine = make_engine(executor)
    handles = [engine.call_at(0, ran.append, name, key=name) for name in "abc"]
    with pytest.raises(ZeroDivisionError):
        engine.run()
    engine._check()
    assert [handle.done() for handle in handles] == [False] * 3
    assert engine.stats()[:3] == (3, 0, 0)
    assert engine.cancel_key("b")
    executor.refusing = False
    with engine:
        assert engine.wait_idle(WAIT)
    assert ran == ["a", "c"]
    assert len(logged) == 1


class Shifted(SystemClock):
    """The system's clock with an origin in the future: its times are negative."""

    def time_ns(self) -> int:
        return super().time_ns() - 10**18


@on_workers(None, 2)
def test_a_clock_may_show_negative_times(make_engine, workers):
    engine = make_engine(**workers, clock=Shifted())
    ran, enough = [], threading.Event()

    def tick():
        ran.append(1)
        if len(ran) == 3:
            enough.set()

    engine.call_every(0.001, tick)
    never = engine.call_later(1e300, nothing)
    with engine:
        assert enough.wait(WAIT)
    assert engine.time() < 0
    assert not never.done()


def test_commands_repeat_on_a_clock_with_negative_times(impl):
    ran, enough = [], threading.Event()

    class Again:
        repeat_interval_s = 0.001

        def execute(self, context):
            ran.append(1)
            if len(ran) == 3:
                enough.set()

    scheduler = impl.CommandScheduler(clock=Shifted())
    scheduler.submit(Again())
    scheduler.start()
    assert enough.wait(WAIT)
    scheduler.stop()


class Failing(ManualClock):
    """Raises once when it is asked for the time after `fail_next`."""

    fail_next = False

    def time_ns(self) -> int:
        if self.fail_next:
            self.fail_next = False
            raise KeyboardInterrupt
        return super().time_ns()


def test_a_clock_that_fails_after_a_callback_leaves_no_trace_of_the_run(make_engine):
    clock = Failing()
    engine = make_engine(clock=clock)
    engine.start()

    def fail():
        clock.fail_next = True

    engine.call_every(TOMORROW, fail, delay=1)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(2)
    assert engine.stats().running == 0
    assert engine.stop(WAIT)
    engine._check()


def test_a_handle_that_no_engine_made_is_refused(impl):
    with pytest.raises((TypeError, AttributeError)):
        impl.TimerHandle.__new__(impl.TimerHandle).cancel()


def test_a_loop_whose_start_is_over_sends_no_drain_in_place_of_the_next_ones(make_engine, logged, monkeypatch):
    """A drain fails while the loop hands over, and a start comes before the loop has seen it."""

    class FailsOnce(SystemClock):
        fails = True

        def time_ns(self):
            if self.fails and "-worker" in threading.current_thread().name:
                self.fails = False
                raise ZeroDivisionError
            return super().time_ns()

    engine, started_anew, loops, ran = make_engine(2, clock=FailsOnce()), threading.Event(), [], []
    submit = ThreadPoolExecutor.submit

    def submit_late(*given):
        if not loops:
            loops.append(threading.current_thread())
            future = submit(*given)
            assert started_anew.wait(WAIT)
            return future
        if threading.current_thread() is not loops[0]:
            loops[0].join(WAIT)
        return submit(*given)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_late)
    for number in range(2):
        engine.call_later(0, ran.append, number)
    engine.start()
    assert wait_until(lambda: loops and not engine.running)
    engine.start()
    started_anew.set()
    assert wait_until(lambda: sorted(ran) == [0, 1])
    assert engine.wait_idle(WAIT)
    engine.call_later(0, ran.append, 2)
    assert wait_until(lambda: len(ran) == 3)
    assert engine.stop(WAIT)
    engine._check()
    assert ["ZeroDivisionError" in text for _, text, _ in logged] == [True]


@pytest.mark.parametrize("daemon", [False, True], ids=["pool", "daemon workers"])
def test_run_raises_what_ended_its_loop_although_another_thread_starts_it_anew(make_engine, daemon, logged):
    """The second start comes while the loop of the first is in its clock, and cannot have told yet."""
    waits, started_anew = threading.Event(), threading.Event()

    class FailsOnce(SystemClock):
        fails = True

        def time_ns(self):
            if self.fails and "-worker" in threading.current_thread().name:
                self.fails = False
                assert waits.wait(WAIT)
                raise ZeroDivisionError
            return super().time_ns()

        def wait(self, event, timeout):
            if self.fails or started_anew.is_set():
                event.wait(0.001)
            else:
                waits.set()
                assert started_anew.wait(WAIT)

    engine = make_engine(2, daemon=daemon, clock=FailsOnce())

    def start_anew():
        assert wait_until(lambda: waits.is_set() and not engine.running)
        engine.start()
        started_anew.set()

    again = threading.Thread(target=start_anew)
    again.start()
    ran = []
    engine.call_later(0, ran.append, 1)
    with pytest.raises(ZeroDivisionError):
        engine.run()
    again.join(WAIT)
    assert wait_until(lambda: ran == [1])
    assert engine.stop(WAIT)
    assert ["ZeroDivisionError" in text for _, text, _ in logged] == [True]
