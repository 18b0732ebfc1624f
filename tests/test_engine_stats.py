"""stats(): counters that tell the truth, and the lateness histogram."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import EXECUTORS, TOMORROW, WAIT, comes_to_rest, nothing, on_workers, pause, wait_until


def test_a_fresh_engine_has_counted_nothing(make_engine):
    from pysched.stats import EngineStats, Lateness

    stats = make_engine().stats()
    assert isinstance(stats, EngineStats)
    assert stats == (0,) * 11 + (Lateness(0, 0.0, 0.0, 0.0, 0.0),)
    assert isinstance(stats.lateness, Lateness)
    assert stats._fields == (
        "scheduled", "started", "cancelled", "coalesced", "errors", "wakeups", "ready", "running", "pending",
        "dropped", "abandoned", "lateness",
    )  # fmt: skip
    assert stats.lateness._fields == ("count", "p50", "p99", "p999", "max")
    assert all(type(value) is int for value in [*stats[:11], stats.lateness.count])
    assert all(type(value) is float for value in stats.lateness[1:])


def test_each_counter_counts_its_own(make_engine, clock):
    engine = make_engine(clock=clock, on_error=nothing)
    engine.start()
    engine.call_later(1, nothing)
    engine.call_later(1, [].pop)
    engine.call_later(2, nothing).cancel()
    engine.call_later(2, nothing, key="k")
    engine.call_later(3, nothing, key="k")
    engine.call_many([5, 6], nothing)
    engine.call_every(10, clock.sleep, 10)
    clock.advance(1)
    stats = engine.stats()
    assert (stats.scheduled, stats.started, stats.cancelled) == (8, 2, 2)
    assert (stats.errors, stats.pending, stats.ready, stats.running) == (1, 4, 0, 0)
    assert engine.cancel_key("k")
    clock.advance(9)
    engine.call_later(0, clock.sleep, 35)
    clock.advance(0)
    clock.advance(0)
    stats = engine.stats()
    assert (stats.scheduled, stats.started, stats.cancelled, stats.coalesced) == (9, 8, 3, 3)
    assert (stats.pending, len(engine), stats.dropped, stats.abandoned) == (1, 1, 0, 0)


def test_running_and_pending_inside_a_callback(rig):
    engine = rig.engine
    seen = []
    engine.call_later(0, lambda: seen.append(engine.stats()))
    engine.start()
    rig.settle()
    assert (seen[0].running, seen[0].started, seen[0].pending, seen[0].ready) == (1, 1, 0, 0)
    assert engine.stats().running == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_pending_counts_what_waits_for_a_worker(make_engine, workers):
    engine = make_engine(workers)
    release = threading.Event()
    for _ in range(workers):
        engine.call_later(0, release.wait, WAIT)
    engine.call_later(0, nothing)
    engine.call_every(TOMORROW, nothing, delay=0)
    engine.call_later(TOMORROW, nothing)
    with engine:
        assert wait_until(lambda: engine.stats().running == workers and engine.stats().ready == 2)
        assert engine.stats().pending == len(engine) == 3
        assert engine.next_deadline() < engine.time()
        release.set()
        assert engine.wait_idle(WAIT)
        assert engine.stats().pending == len(engine) == 2
        assert engine.stats().ready == engine.stats().running == 0
        assert engine.next_deadline() > engine.time()


def test_the_counters_of_a_busy_engine_add_up(rig):
    engine = rig.engine
    engine.start()
    handles = [engine.call_later(0.001 * (number % 7), nothing) for number in range(500)]
    for handle in handles[::3]:
        handle.cancel()
    rig.until(lambda: len(engine) == 0)
    rig.settle()
    stats = engine.stats()
    assert stats.scheduled == 500 == stats.started + stats.cancelled
    assert stats.lateness.count == stats.started


def test_stats_survive_stop_and_start(engine, clock):
    engine.call_later(1, nothing)
    clock.advance(1)
    engine.stop()
    engine.start()
    engine.call_later(1, nothing)
    clock.advance(1)
    assert engine.stats()[:2] == (2, 2)
    assert engine.stats().lateness.count == 2


def test_stats_are_a_snapshot(engine, clock):
    before = engine.stats()
    engine.call_later(1, nothing)
    assert before.scheduled == 0


# Idle: nothing pending, or much pending for tomorrow, wakes nobody.


@pytest.mark.real_time
@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
@pytest.mark.parametrize("timers", [0, 10**5])
def test_an_idle_engine_does_not_wake(make_engine, executor, timers):
    engine = make_engine(**executor)
    engine.call_many([TOMORROW] * timers, nothing)
    with engine:
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert engine.wait_idle(WAIT)
        before = engine.stats().wakeups
        assert comes_to_rest(lambda: engine.stats().wakeups)
        assert engine.stats().wakeups - before <= 1  # the loop may have been about to fall asleep


@pytest.mark.real_time
def test_only_a_new_earliest_timer_wakes_the_loop(make_engine):
    engine = make_engine()
    engine.call_later(TOMORROW, nothing)
    with engine:
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert comes_to_rest(lambda: engine.stats().wakeups, 0.05)
        asleep = engine.stats().wakeups
        for _ in range(50):
            engine.call_later(2 * TOMORROW, nothing).cancel()
            engine.call_every(2 * TOMORROW, nothing)
            engine.call_many([2 * TOMORROW] * 3, nothing, [()] * 3)
            engine.cancel_key("unknown")
        pause(0.05)
        assert engine.stats().wakeups == asleep
        engine.call_later(TOMORROW / 2, nothing)
        assert wait_until(lambda: engine.stats().wakeups > asleep)
        assert engine.stats().started == 1


def test_wakeups_are_counted(make_engine):
    engine = make_engine()
    with engine:
        for round_ in range(1, 6):
            ran = threading.Event()
            engine.call_later(0.002, ran.set)
            assert ran.wait(WAIT)
            assert engine.stats().wakeups >= round_ - 1
    assert engine.stats().wakeups >= 4


# Lateness: started minus the later of due and start().


def upper_edge(ns):
    """The upper edge, in ns, of the histogram's bucket that holds `ns`: 16 buckets an octave."""
    if ns < 16:
        return ns
    shift = ns.bit_length() - 5
    return ((ns >> shift) + 1 << shift) - 1


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_percentiles_are_upper_edges_of_buckets_and_the_maximum_is_exact(impl, values):
    from pysched.testing import ManualClock

    clock = ManualClock()
    engine = impl.Engine(clock=clock)
    engine.start()
    late = []
    for value in values:
        # Both are due at the next second; the first holds the second one up.
        engine.call_later(1, clock.sleep, value / 10**9)
        due = engine._next_due_ns()
        engine.call_later(1, lambda due=due: late.append(clock.time_ns() - due))
        clock.advance(1)
        late.append(0)
        clock.advance(1)
    engine.stop()
    late.sort()
    lateness = engine.stats().lateness
    assert lateness.count == len(late) == 2 * len(values)

    def percentile(per_mille):
        value = late[-(-per_mille * len(late) // 1000) - 1]
        return min(upper_edge(value), late[-1]) / 1e9

    assert lateness.max == late[-1] / 1e9
    assert lateness.p50 == percentile(500)
    assert lateness.p99 == percentile(990)
    assert lateness.p999 == percentile(999)


def test_on_time_is_no_lateness(engine, clock):
    engine.call_every(1, nothing)
    clock.advance(100)
    assert engine.stats().lateness == (100, 0, 0, 0, 0)


def test_percentiles_of_many(engine, clock):
    """999 on time, one 10 s late: the late one is the p99.9 only from 1,001 on."""
    engine.call_many([1] * 998, nothing)
    engine.call_later(2, clock.sleep, 10)
    engine.call_later(2, nothing)
    clock.advance(2)
    lateness = engine.stats().lateness
    assert lateness == (1000, 0, 0, 0, 10)
    engine.call_later(1, clock.sleep, 10)
    engine.call_later(1, nothing)
    clock.advance(1)
    lateness = engine.stats().lateness
    assert (lateness.count, lateness.p50, lateness.p99, lateness.max) == (1002, 0, 0, 10)
    assert lateness.p999 == 10


def test_percentiles_never_exceed_the_maximum(engine, clock):
    engine.call_later(1, clock.sleep, 1.000_000_001)
    for _ in range(10):
        engine.call_later(1, nothing)
    clock.advance(1)
    assert engine.stats().lateness == (11, *[1.000_000_001] * 4)


def test_time_before_the_start_is_no_lateness(make_engine, clock):
    engine = make_engine(clock=clock)
    engine.call_later(1, nothing)
    engine.call_every(1, nothing)
    clock.advance(100.5)
    engine.start()
    clock.advance(0)
    assert engine.stats().lateness == (2, 0, 0, 0, 0)


def test_time_between_stop_and_start_is_no_lateness(engine, clock):
    engine.call_later(1, nothing)
    engine.stop()
    clock.advance(50)
    engine.start()
    clock.advance(0)
    assert engine.stats().lateness.max == 0


def test_lateness_of_a_periodic_timer_counts_from_the_slot_that_runs(engine, clock):
    engine.call_every(10, nothing)
    engine.call_later(15, clock.sleep, 17)
    clock.advance(30)
    assert engine.stats().coalesced == 1
    assert engine.stats().lateness.max == 2


def test_lateness_in_a_pool_is_that_of_the_callbacks_start(make_engine):
    engine = make_engine(1)
    release = threading.Event()
    engine.call_later(0, release.wait, WAIT)
    with engine:
        engine.call_later(0, nothing)
        assert wait_until(lambda: engine.stats().ready == 1 and engine.stats().running == 1)
        began = engine.time()
        assert wait_until(lambda: engine.time() - began > 0.02)
        release.set()
        assert engine.wait_idle(WAIT)
    assert 0.02 <= engine.stats().lateness.max < WAIT


@on_workers(None, 1)
def test_lateness_in_real_time_is_small_but_never_negative(make_engine, workers):
    engine = make_engine(**workers)
    with engine:
        engine.call_many([0.0005 * number for number in range(100)], nothing)
        assert wait_until(lambda: engine.stats().lateness.count == 100)
    lateness = engine.stats().lateness
    assert 0 <= lateness.p50 <= lateness.p99 <= lateness.p999 <= lateness.max < WAIT
