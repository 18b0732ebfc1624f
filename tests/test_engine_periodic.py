"""Periodic timers: the grid, what is skipped and counted, and that a timer never overlaps itself."""

from __future__ import annotations

import threading
import time

import pytest
from support import WAIT, SteppedClock, nothing, on_workers, wait_until


@pytest.fixture
def stamps(clock):
    """A list, and a callback factory: each run appends its time, then lasts `duration`."""

    class Stamps(list):
        def take(self, duration=0):
            self.append(clock.time())
            if duration:
                clock.sleep(duration)

    return Stamps()


@pytest.mark.parametrize(
    ("duration", "starts"),
    [
        (0, range(10, 1001, 10)),
        (3, range(10, 1001, 10)),
        (9.999_999_999, range(10, 1001, 10)),
        # a slot exactly at the end of a run is not missed
        (10, range(10, 1001, 10)),
        (10.000_000_001, range(10, 1001, 20)),
        (25, range(10, 1001, 30)),
        (30, range(10, 1001, 30)),
        (31, range(10, 1001, 40)),
    ],
)
def test_starts_are_on_the_grid_whatever_a_run_takes(engine, clock, stamps, duration, starts):
    engine.call_every(10, stamps.take, duration)
    while clock.time() < 1000:
        clock.advance(min(10, 1000 - clock.time()))
    clock.advance(0)
    assert stamps == list(starts)
    slots = int(engine.next_deadline()) // 10 - 1
    assert engine.stats().started + engine.stats().coalesced == slots


@pytest.mark.parametrize("interval", [0.1, 1 / 3, 0.007, 1e-6 + 1e-9, 86400.5])
def test_the_grid_does_not_drift(engine, clock, interval):
    """Slot k is the first due time plus k periods of whole nanoseconds, for ever."""
    engine.call_every(interval, nothing, key="k")
    first = engine._next_due_ns()
    for k in range(1, 500):
        clock.advance((engine._next_due_ns() - clock.time_ns()) / 1e9)
        assert engine._next_due_ns() == first * (k + 1)


def test_the_first_run_comes_after_one_interval_or_after_the_delay(engine, clock, stamps):
    engine.call_every(10, stamps.take)
    engine.call_every(10, stamps.take, delay=0)
    engine.call_every(10, stamps.take, delay=4)
    engine.call_every(10, stamps.take, delay=25)
    engine.call_every(10, stamps.take, delay=None)
    clock.advance(30)
    assert stamps == [0, 4, 10, 10, 10, 14, 20, 20, 20, 24, 25, 30, 30, 30]


def test_slots_that_passed_before_the_start_collapse_into_one_run_of_the_latest(make_engine, clock, stamps):
    engine = make_engine(clock=clock)
    engine.call_every(1, stamps.take)
    clock.advance(3.51)
    engine.start()
    clock.advance(0)
    assert stamps == [3.51]
    assert engine.stats().coalesced == 2
    clock.advance(2)
    assert stamps == [3.51, 4, 5]


def test_slots_missed_while_stopped_collapse_into_one_and_the_grid_stays(engine, clock, stamps):
    engine.call_every(10, stamps.take)
    clock.advance(20)
    engine.stop()
    clock.advance(45)
    engine.start()
    clock.advance(35)
    assert stamps == [10, 20, 65, 70, 80, 90, 100]
    assert engine.stats().coalesced == 3


def test_slots_missed_because_others_took_long_collapse_into_the_latest(engine, clock, stamps):
    engine.call_every(10, stamps.take)
    engine.call_later(15, clock.sleep, 30)
    clock.advance(60)
    assert stamps == [10, 45, 50, 60]
    assert engine.stats().coalesced == 2


def test_slots_during_the_own_run_are_skipped_even_if_others_then_take_long(engine, clock, stamps):
    """The run of 10 ends at 32; then another callback blocks until 47: 20 and 30 were busy, 40 is late."""
    engine.call_every(10, stamps.take, 22)
    engine.call_later(11, clock.sleep, 15)
    clock.advance(40)
    assert stamps[:2] == [10, 47]
    assert engine.stats().coalesced >= 2


def test_every_slot_is_run_or_counted(engine, clock):
    runs = []
    durations = iter([0, 3, 25, 10, 0, 99, 10, 11, 9, 0] * 10)
    engine.call_every(10, lambda: (runs.append(clock.time()), clock.sleep(next(durations))))
    clock.advance(1500)
    slots = int(engine.next_deadline()) // 10 - 1
    assert len(runs) + engine.stats().coalesced == slots
    assert runs == sorted(set(runs))


def test_a_run_sees_its_timer_armed_for_the_next_slot(engine, clock):
    seen = []
    handle = engine.call_every(10, lambda: seen.append((handle.when(), len(engine), handle.done())))
    clock.advance(20)
    assert seen == [(20, 1, False), (30, 1, False)]


def test_an_error_moves_no_grid_and_ends_no_timer(make_engine, clock, stamps):
    engine = make_engine(clock=clock, on_error=nothing)
    engine.start()

    def fail_twice():
        stamps.take()
        if len(stamps) < 3:
            raise ValueError("run 1 and 2")

    engine.call_every(10, fail_twice)
    clock.advance(40)
    assert stamps == [10, 20, 30, 40]
    assert engine.stats().errors == 2


def test_the_wall_clock_moves_no_timer(engine, clock, stamps):
    engine.call_every(10, stamps.take)
    engine.call_later(75, stamps.take)
    clock.advance(30)
    clock.step_wall(-12 * 3600)
    clock.advance(30)
    clock.step_wall(174 * 365 * 86400)
    clock.suspend(8 * 3600)
    clock.advance(20)
    assert stamps == [10, 20, 30, 40, 50, 60, 70, 75, 80]
    assert engine.stats().coalesced == 0


def test_a_leap_of_centuries_is_one_run_and_one_subtraction(engine, clock, stamps):
    engine.call_every(1e-3, stamps.take)
    engine.call_later(0.0005, clock.sleep, 200 * 365 * 86400)
    begin = time.thread_time()
    assert clock.advance(0.001) == 2
    assert time.thread_time() - begin < 1
    assert stamps == [200 * 365 * 86400 + 0.0005]
    assert engine.stats().coalesced == 200 * 365 * 86400 * 1000 - 1


def test_cancelling_in_its_own_run_ends_a_timer(engine, clock, stamps):
    handle = engine.call_every(1, lambda: (stamps.take(), len(stamps) == 3 and results.append(handle.cancel())))
    results = []
    clock.advance(10)
    assert (stamps, results) == ([1, 2, 3], [True])
    assert len(engine) == 0


@on_workers(None, 1, 2)
def test_runs_are_on_the_grid_in_real_time(make_engine, workers):
    """Each start is at or after a slot, each slot has at most one, and each was run or counted."""
    engine = make_engine(**workers)
    starts = []
    done = threading.Event()

    def run():
        starts.append(engine.time())
        if len(starts) == 20:
            handle.cancel()
            done.set()

    first = engine.time()
    handle = engine.call_every(0.003, run)
    base = handle.when()
    assert base >= first + 0.003
    with engine:
        assert done.wait(WAIT)
    slots = [int((at - base) / 0.003 + 1e-6) for at in starts]
    assert all(at >= base + slot * 0.003 - 1e-9 for at, slot in zip(starts, slots, strict=True))
    assert sorted(set(slots)) == slots
    stats = engine.stats()
    assert stats.started == 20
    assert stats.started + stats.coalesced >= slots[-1] + 1


@on_workers(2, 4)
def test_a_timer_never_overlaps_itself(make_engine, workers):
    engine = make_engine(**workers)
    lock = threading.Lock()
    overlaps, runs = [], []
    done = threading.Event()

    def slow():
        if not lock.acquire(blocking=False):
            overlaps.append(1)
            return
        time.sleep(0.005)  # the length of the run: other slots come due meanwhile
        runs.append(1)
        lock.release()
        if len(runs) >= 10:
            done.set()

    handle = engine.call_every(0.001, slow)
    with engine:
        assert done.wait(WAIT)
        handle.cancel()
    assert not overlaps
    stats = engine.stats()
    assert stats.coalesced >= 2 * len(runs)
    assert stats.started == len(runs)


def test_slots_that_come_due_while_a_run_waits_for_a_worker_are_coalesced(make_engine):
    engine = make_engine(1)
    release, runs = threading.Event(), []
    engine.call_later(0, release.wait, WAIT)
    handle = engine.call_every(0.001, runs.append, 1)
    with engine:
        assert wait_until(lambda: engine.stats().coalesced >= 5)
        assert engine.stats().ready == 1
        assert runs == []
        handle.cancel()
        release.set()
        assert engine.wait_idle(WAIT)
    assert runs == []
    assert engine.stats().started == 1


def test_a_queued_run_starts_once_a_worker_is_free(make_engine):
    engine = make_engine(1)
    release, ran = threading.Event(), threading.Event()
    engine.call_later(0, release.wait, WAIT)
    handle = engine.call_every(0.001, lambda: (handle.cancel(), ran.set()))
    with engine:
        assert wait_until(lambda: engine.stats().coalesced >= 5)
        release.set()
        assert ran.wait(WAIT)
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == 2


def test_cancelling_while_it_runs_lets_the_run_end_and_starts_no_other(make_engine):
    engine = make_engine(2)
    inside, release, runs = threading.Event(), threading.Event(), []

    def run():
        inside.set()
        release.wait(WAIT)
        runs.append(1)

    handle = engine.call_every(0.001, run)
    with engine:
        assert inside.wait(WAIT)
        assert handle.cancel()
        assert not handle.cancel()
        assert (handle.done(), len(engine), engine.stats().running) == (True, 0, 1)
        release.set()
        assert engine.wait_idle(WAIT)
    assert runs == [1]


def test_a_new_timer_under_the_key_of_a_hanging_run_starts_on_its_own(make_engine):
    """The end of the old run neither counts against the new timer nor arms the old one."""
    engine = make_engine(2)
    inside, release, runs = threading.Event(), threading.Event(), []
    old = engine.call_every(0.001, lambda: (inside.set(), release.wait(WAIT)), key="k")
    with engine:
        assert inside.wait(WAIT)
        ran = threading.Event()
        new = engine.call_every(0.001, lambda: (runs.append(1), ran.set()), key="k")
        assert old.done()
        assert ran.wait(WAIT)
        release.set()
        assert wait_until(lambda: len(runs) > 3)
        assert not old.cancel()
        assert new.cancel()


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_run_left_over_from_before_a_stop_is_not_overlapped(make_engine, restarts):
    engine = make_engine(2)
    inside, release = threading.Event(), threading.Event()
    active, most = [], []

    def run():
        active.append(1)
        most.append(len(active))
        inside.set()
        release.wait(WAIT)
        active.pop()

    handle = engine.call_every(0.001, run)
    engine.start()
    assert inside.wait(WAIT)
    for _ in range(restarts):
        assert engine.stop(0.01) is False
        engine.start()
        other = threading.Event()
        engine.call_later(0.01, other.set)
        assert other.wait(WAIT)
    assert most == [1]
    release.set()
    assert wait_until(lambda: len(most) > 2)
    handle.cancel()
    assert max(most) == 1


# In pools, with the time in our hands: each slot is run or counted, once.


@pytest.fixture
def stepped(make_engine):
    """Makes an engine of so many workers on a SteppedClock, started."""

    def make(workers):
        clock = SteppedClock()
        engine = make_engine(workers, clock=clock)
        engine.start()
        return engine, clock

    return make


@pytest.mark.parametrize("workers", [1, 2])
def test_slots_during_a_run_in_a_pool_are_counted_and_the_grid_stays(stepped, workers):
    engine, clock = stepped(workers)
    starts, inside, release = [], threading.Semaphore(0), threading.Semaphore(0)

    def run():
        starts.append(clock.now_ns / 1e9)
        inside.release()
        release.acquire(timeout=WAIT)

    engine.call_every(10, run)
    clock.set(10)
    assert inside.acquire(timeout=WAIT)
    clock.set(35)
    assert wait_until(lambda: engine.stats().coalesced == 2)
    assert engine.next_deadline() == 40
    clock.set(37)
    release.release()
    assert engine.wait_idle(WAIT)
    assert starts == [10]
    clock.set(40)
    assert inside.acquire(timeout=WAIT)
    assert (starts, engine.next_deadline()) == ([10, 40], 50)
    release.release()
    assert engine.wait_idle(WAIT)
    clock.set(75.5)
    assert inside.acquire(timeout=WAIT)
    assert (starts, engine.next_deadline()) == ([10, 40, 75.5], 80)
    release.release()
    assert engine.wait_idle(WAIT)
    assert engine.stats()[:5] == (1, 3, 0, 4, 0)
    assert engine.stats().lateness.max == 5.5


@pytest.mark.parametrize("workers", [1, 2])
def test_slots_while_a_run_waits_for_a_worker_are_counted_and_it_runs_late(stepped, workers):
    engine, clock = stepped(workers)
    starts, release = [], threading.Event()
    for _ in range(workers):
        engine.call_later(5, release.wait, WAIT)
    engine.call_every(10, lambda: starts.append(clock.now_ns / 1e9))
    clock.set(5)
    assert wait_until(lambda: engine.stats().running == workers)
    clock.set(10)
    assert wait_until(lambda: engine.stats().ready == 1)
    assert engine.next_deadline() == 10
    clock.set(34)
    assert wait_until(lambda: engine.stats().coalesced == 2)
    assert engine.stats().ready == 1
    release.set()
    assert engine.wait_idle(WAIT)
    assert (starts, engine.next_deadline()) == ([34], 40)
    assert engine.stats().lateness.max == 24
    clock.set(40)
    assert wait_until(lambda: len(starts) == 2)
    assert engine.stats().coalesced == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_puts_a_queued_run_back_on_its_grid(stepped, workers):
    """With its old due time; after the start it collapses with what was missed, and each slot counts once."""
    engine, clock = stepped(workers)
    starts, release = [], threading.Event()
    for _ in range(workers):
        engine.call_later(5, release.wait, WAIT)
    handle = engine.call_every(10, lambda: starts.append(clock.now_ns / 1e9))
    clock.set(5)
    assert wait_until(lambda: engine.stats().running == workers)
    clock.set(10)
    assert wait_until(lambda: engine.stats().ready == 1)
    clock.set(34)
    assert wait_until(lambda: engine.stats().coalesced == 2)
    assert engine.stop(0) is False
    release.set()
    assert engine.stop(WAIT)
    assert (engine.next_deadline(), handle.when(), engine.stats().ready, len(engine)) == (10, 10, 0, 1)
    clock.set(47)
    engine.start()
    assert engine.wait_idle(WAIT)
    assert (starts, engine.next_deadline()) == ([47], 50)
    stats = engine.stats()
    assert (stats.started, stats.coalesced) == (workers + 1, 3)


def test_a_cancelled_queued_run_takes_no_slot_from_others(stepped):
    engine, clock = stepped(1)
    release, runs = threading.Event(), []
    engine.call_later(5, release.wait, WAIT)
    doomed = engine.call_every(10, pytest.fail, "ran")
    engine.call_every(10, runs.append, 1)
    clock.set(5)
    assert wait_until(lambda: engine.stats().running == 1)
    clock.set(10)
    assert wait_until(lambda: engine.stats().ready == 2)
    assert doomed.cancel()
    assert (doomed.when(), engine.stats().ready, len(engine)) == (20, 1, 1)
    release.set()
    assert engine.wait_idle(WAIT)
    assert runs == [1]
