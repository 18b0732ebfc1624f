"""cancel(): True exactly if it prevented a run that would have come."""

from __future__ import annotations

import threading

import pytest
from support import HANDLES, REGISTRATIONS, TOMORROW, WAIT, nothing, wait_until

handles = pytest.mark.parametrize("register", HANDLES.values(), ids=HANDLES)


@handles
@pytest.mark.parametrize("started", [False, True])
def test_a_cancelled_timer_does_not_run(rig, register, started):
    engine = rig.engine
    if started:
        engine.start()
    handle = register(engine, 0.05 if started else 0, pytest.fail, "ran")
    assert handle.cancel() is True
    assert (handle.cancelled(), handle.done(), len(engine)) == (True, True, 0)
    engine.start()
    ran = threading.Event()
    engine.call_later(0.06, ran.set)
    rig.until(ran.is_set)
    rig.settle()
    assert engine.stats()[:5] == (2, 1, 1, 0, 0)


@handles
def test_only_the_first_cancel_is_true(rig, register):
    handle = register(rig.engine, 1, nothing)
    assert [handle.cancel() for _ in range(3)] == [True, False, False]
    assert handle.cancelled()
    assert rig.engine.stats().cancelled == 1


def test_a_one_shot_that_has_run_cannot_be_cancelled(rig):
    engine = rig.engine
    handle = engine.call_later(0, nothing)
    engine.start()
    rig.settle()
    assert handle.cancel() is False
    assert (handle.cancelled(), handle.done()) == (False, True)
    assert engine.stats().cancelled == 0


def test_a_one_shot_cannot_be_cancelled_from_its_own_callback(rig):
    engine = rig.engine
    seen = []
    handle = engine.call_later(0, lambda: seen.append((handle.cancel(), handle.cancelled(), handle.done())))
    engine.start()
    rig.settle()
    assert seen == [(False, False, True)]


def test_a_periodic_timer_can_be_cancelled_from_its_own_callback_once(rig):
    engine = rig.engine
    seen = []
    handle = engine.call_every(
        0.001, lambda: seen.append((handle.cancel(), handle.cancel(), handle.cancelled(), handle.done()))
    )
    engine.start()
    rig.until(lambda: seen)
    rig.settle()
    assert seen == [(True, False, True, True)]
    assert len(engine) == 0


@pytest.mark.parametrize("executor", [1, 2])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_run_that_waits_for_a_worker_can_be_cancelled(make_engine, executor, periodic):
    engine = make_engine(executor)
    release = threading.Event()
    for _ in range(executor):
        engine.call_later(0, release.wait, WAIT)
    handle = (
        engine.call_every(TOMORROW, pytest.fail, "ran", delay=0)
        if periodic
        else engine.call_later(0, pytest.fail, "ran")
    )
    with engine:
        assert wait_until(lambda: engine.stats().ready == 1 and engine.stats().running == executor)
        assert len(engine) == 1
        assert handle.cancel() is True
        assert (handle.done(), len(engine), engine.stats().ready) == (True, 0, 0)
        release.set()
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == executor


def test_a_running_one_shot_cannot_be_cancelled_from_outside(make_engine):
    engine = make_engine(1)
    inside, release = threading.Event(), threading.Event()
    handle = engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    with engine:
        assert inside.wait(WAIT)
        assert handle.cancel() is False
        assert handle.done()
        release.set()


def test_hundred_due_timers_cancel_their_neighbours(engine, clock):
    """Cancelling during a pass neither skips nor repeats anyone."""
    ran, handles = [], []

    def run(number):
        ran.append(number)
        assert handles[number ^ 1].cancel() == (number % 2 == 0)

    for number in range(100):
        handles.append(engine.call_later(1, run, number))
    assert clock.advance(1) == 50
    assert ran == list(range(0, 100, 2))
    assert engine.stats().errors == 0


def test_a_callback_may_cancel_everything_that_is_due(engine, clock):
    handles = [engine.call_later(1, lambda: [handle.cancel() for handle in handles])]
    handles += [engine.call_later(1, pytest.fail, "ran") for _ in range(100)]
    handles += [engine.call_every(1, pytest.fail, "ran") for _ in range(100)]
    assert clock.advance(5) == 1
    assert (len(engine), engine.stats().cancelled) == (0, 200)


def test_cancelling_all_leaves_a_running_engine_that_takes_more(rig):
    engine = rig.engine
    engine.start()
    for handle in [engine.call_later(TOMORROW, nothing) for _ in range(3000)]:
        assert handle.cancel()
    assert (len(engine), engine.next_deadline()) == (0, None)
    ran = threading.Event()
    engine.call_later(0.001, ran.set)
    rig.until(ran.is_set)


@pytest.mark.parametrize("live", [0, 10, 3000])
@pytest.mark.parametrize("order", ["first in, first out", "last in, first out"])
def test_cancelled_timers_do_not_pile_up(engine, live, order):
    """_check() holds what is kept of them to the number of timers that there ever were at once, and 1024."""
    keep = [engine.call_later(1 if order.startswith("last") else TOMORROW, nothing) for _ in range(live)]
    for _ in range(20):
        handles = [engine.call_later(10, nothing) for _ in range(500)]
        if order.startswith("last"):
            handles.reverse()
        for handle in handles:
            assert handle.cancel()
        engine._check()
    assert len(engine) == live
    assert all(handle.cancel() for handle in keep)
    engine._check()


def test_a_debounce_of_one_key_keeps_nothing(engine, clock):
    for _ in range(10_000):
        engine.call_later(TOMORROW, nothing, key="k")
    engine._check()
    assert len(engine) == 1
    assert engine.stats().cancelled == 9_999
    assert clock.advance(TOMORROW) == 1


def test_cancel_from_many_threads_is_true_for_exactly_one(make_engine):
    engine = make_engine()
    timers = [engine.call_later(TOMORROW, nothing) for _ in range(200)]
    counts = [0] * 4
    barrier = threading.Barrier(4)

    def cancel_all(number):
        barrier.wait(WAIT)
        counts[number] = sum(handle.cancel() for handle in timers)

    threads = [threading.Thread(target=cancel_all, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 200 == engine.stats().cancelled


@pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_a_stopped_engine_keeps_what_is_not_cancelled(engine, clock, register):
    runs = []
    engine.stop()
    register(engine, 1, runs.append, 1)
    doomed = engine.call_later(1, pytest.fail, "ran")
    assert doomed.cancel()
    clock.advance(2)
    engine.start()
    clock.advance(0)
    assert runs == [1]
