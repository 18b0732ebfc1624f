"""Workers of an engine's own pool between two callbacks: they hold nothing, hinder nothing, and end when they must."""

from __future__ import annotations

import os
import threading
import weakref

import pytest
from support import TOMORROW, WAIT, wait_until


class Payload:
    """Something that can be referred to weakly."""


def workers():
    return [thread for thread in threading.enumerate() if "-worker_" in thread.name]


@pytest.fixture(params=[False, True], ids=["pool", "daemon"])
def idle(make_engine, request):
    """A started engine whose two workers have run a callback each and now wait for more."""
    engine = make_engine(2, daemon=request.param)
    engine.start()
    both = threading.Barrier(2)
    for _ in range(2):
        engine.call_later(0, both.wait, WAIT)
    assert wait_until(lambda: engine.stats().started == 2)
    assert engine.wait_idle(WAIT)
    return engine


def test_an_idle_worker_holds_no_reference_of_its_last_callback(idle):
    payload = Payload()
    gone = weakref.ref(payload)
    idle.call_later(0, lambda it: None, payload)
    del payload
    assert wait_until(lambda: gone() is None)


def test_an_idle_worker_that_ran_a_periodic_timer_lets_a_cancelled_one_go(idle):
    payload = Payload()
    gone = weakref.ref(payload)
    handle = idle.call_every(TOMORROW, lambda it: None, payload, delay=0)
    del payload
    assert wait_until(lambda: idle.stats().started == 3)
    assert idle.wait_idle(WAIT)
    handle.cancel()
    assert wait_until(lambda: gone() is None)


def test_idle_workers_run_what_is_due_together_at_once_and_at_the_same_time(idle):
    for _ in range(20):
        both = threading.Barrier(3)
        idle.call_many([0.0, 0.0], both.wait, [(WAIT,), (WAIT,)])
        both.wait(WAIT)
    assert idle.wait_idle(WAIT)
    idle._check()


def test_a_blocked_worker_leaves_the_other_to_what_comes_due(idle):
    release = threading.Event()
    idle.call_later(0, release.wait, WAIT)
    try:
        for _ in range(50):
            ran = threading.Event()
            idle.call_later(0.0005, ran.set)
            assert ran.wait(WAIT)
    finally:
        release.set()


def test_the_next_timer_is_not_late_because_a_worker_was_about_to_idle(idle):
    ran = threading.Semaphore(0)
    for _ in range(300):
        idle.call_later(0, ran.release)
        idle.call_later(0.00005, ran.release)  # due while the worker is on its way to wait
        assert ran.acquire(timeout=WAIT)
        assert ran.acquire(timeout=WAIT)


@pytest.mark.parametrize("timeout", [None, WAIT])
def test_idle_workers_end_with_a_stop_and_are_there_again_after_a_start(idle, timeout):
    assert len(workers()) == 2
    assert idle.stop(timeout)
    assert wait_until(lambda: not workers())
    idle.start()
    ran = threading.Event()
    idle.call_later(0, ran.set)
    assert ran.wait(WAIT)


def test_starts_and_stops_without_a_pause_leave_no_worker_behind(make_engine):
    engine = make_engine(2)
    ran = threading.Semaphore(0)
    for _ in range(30):
        engine.start()
        engine.call_later(0, ran.release)
        assert ran.acquire(timeout=WAIT)
        engine.stop()
        engine._check()
    assert wait_until(lambda: not workers())


def test_a_stop_from_a_callback_ends_the_idle_worker_too(idle):
    idle.call_later(0, idle.stop)
    assert wait_until(lambda: not idle.running and not workers())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_has_workers_of_its_own(idle):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ran = threading.Event()
            idle.call_later(0, ran.set)
            idle.start()
            if ran.wait(WAIT) and idle.stop(WAIT):
                idle._check()
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ran = threading.Event()
    idle.call_later(0, ran.set)
    assert ran.wait(WAIT)
