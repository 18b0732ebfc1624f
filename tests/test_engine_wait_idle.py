"""wait_idle(): True as soon as nothing is due, queued or running."""

from __future__ import annotations

import threading

import pytest
from support import TOMORROW, WAIT, nothing, on_workers, pause, wait_until


def test_an_engine_with_nothing_due_is_idle_at_once(rig):
    engine = rig.engine
    assert engine.wait_idle() is True
    engine.call_later(TOMORROW, nothing)
    engine.call_every(TOMORROW, nothing)
    assert engine.wait_idle() is True
    engine.start()
    assert engine.wait_idle() is True
    assert engine.wait_idle(0) is True


@on_workers(None, 1, 2)
def test_what_is_due_is_waited_for(make_engine, workers):
    engine = make_engine(**workers)
    runs = []
    for _ in range(200):
        engine.call_later(0, runs.append, 1)
    engine.start()
    assert engine.wait_idle(WAIT) is True
    assert len(runs) == 200


def test_chains_are_waited_for_to_their_end(make_engine):
    engine = make_engine(2)
    runs = []

    def chain(left):
        runs.append(left)
        if left:
            engine.call_later(0, chain, left - 1)

    engine.call_later(0, chain, 100)
    with engine:
        assert engine.wait_idle()
        assert len(runs) == 101


def test_a_stopped_engine_with_due_timers_is_not_idle(rig):
    rig.engine.call_later(0, nothing)
    assert rig.engine.wait_idle(0) is False
    assert rig.engine.wait_idle(0.01) is False


@on_workers(None, 1, 2)
def test_a_running_callback_is_not_idle(make_engine, workers):
    engine = make_engine(**workers)
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    with engine:
        assert inside.wait(WAIT)
        for timeout in (0, 0.01, 1e-9):
            assert engine.wait_idle(timeout) is False
        release.set()
        assert engine.wait_idle() is True
        assert engine.stats().running == 0


@on_workers(None, 1)
def test_many_threads_may_wait(make_engine, workers):
    engine = make_engine(**workers)
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    results = []
    waiters = [threading.Thread(target=lambda: results.append(engine.wait_idle(WAIT))) for _ in range(8)]
    with engine:
        assert inside.wait(WAIT)
        for waiter in waiters:
            waiter.start()
        pause(0.01)
        assert results == []
        release.set()
        for waiter in waiters:
            waiter.join(WAIT)
    assert results == [True] * 8


def test_waiting_ends_when_what_was_due_is_cancelled(make_engine):
    engine = make_engine()
    handle = engine.call_later(0, nothing)
    results = []
    waiter = threading.Thread(target=lambda: results.append(engine.wait_idle(WAIT)))
    waiter.start()
    pause(0.01)
    assert results == []
    assert handle.cancel()
    waiter.join(WAIT)
    assert results == [True]


def test_waiting_ends_when_what_was_due_is_replaced_by_a_future_timer(make_engine):
    engine = make_engine()
    engine.call_later(0, pytest.fail, "ran", key="k")
    results = []
    waiter = threading.Thread(target=lambda: results.append(engine.wait_idle(WAIT)))
    waiter.start()
    pause(0.01)
    assert results == []
    engine.call_later(TOMORROW, nothing, key="k")
    waiter.join(WAIT)
    assert results == [True]
    assert len(engine) == 1


def test_waiting_goes_on_over_a_start(make_engine):
    engine = make_engine()
    engine.call_later(0, nothing)
    results = []
    waiter = threading.Thread(target=lambda: results.append(engine.wait_idle(WAIT)))
    waiter.start()
    with engine:
        waiter.join(WAIT)
    assert results == [True]
    assert engine.stats().started == 1


def test_inside_a_callback_it_is_refused(rig):
    engine = rig.engine
    results = []

    def ask():
        for timeout in (None, 0, 1):
            with pytest.raises(RuntimeError):
                engine.wait_idle(timeout)
            results.append(timeout)

    engine.call_later(0, ask)
    engine.start()
    rig.settle()
    assert results == [None, 0, 1]


def test_inside_an_error_handler_it_is_refused(make_rig):
    results = []

    def handle_error(exc, handle):
        with pytest.raises(RuntimeError):
            rig.engine.wait_idle(0)
        results.append(type(exc))

    rig = make_rig(on_error=handle_error)
    rig.engine.call_later(0, [].pop)
    rig.engine.start()
    rig.settle()
    assert results == [IndexError]


def test_inside_a_callback_of_another_engine_it_is_allowed(make_engine):
    other = make_engine()
    engine = make_engine()
    results = []
    engine.call_later(0, lambda: results.append(other.wait_idle(WAIT)))
    other.call_later(0, nothing)
    with engine, other:
        assert engine.wait_idle(WAIT)
    assert results == [True]


def test_on_a_manual_clock_it_answers_at_once(engine, clock):
    engine.call_later(5, nothing)
    assert engine.wait_idle() is True
    engine.call_later(0, nothing)
    assert engine.wait_idle() is False
    assert engine.wait_idle(WAIT) is False
    clock.advance(0)
    assert engine.wait_idle() is True
    clock.sleep(10)
    assert engine.wait_idle() is False


@pytest.mark.parametrize("executor", [1, 2])
def test_what_waits_for_a_worker_is_not_idle(make_engine, executor):
    engine = make_engine(executor)
    release = threading.Event()
    for _ in range(executor):
        engine.call_later(0, release.wait, WAIT)
    queued = engine.call_later(0, nothing)
    with engine:
        assert wait_until(lambda: engine.stats().running == executor and engine.stats().ready == 1)
        assert engine.wait_idle(0) is False
        assert queued.cancel()
        release.set()
        assert engine.wait_idle(WAIT)


def test_a_huge_timeout_is_cut_not_refused(make_engine):
    engine = make_engine()
    engine.call_later(0, nothing)
    with engine:
        for timeout in (1e300, 10**18, 9223372037):
            engine.call_later(0.002, nothing)
            assert engine.wait_idle(timeout)
