"""`spin`: how long before a deadline the sleep ends and the clock is polled."""

from __future__ import annotations

import os
import signal
import threading
import time
from fractions import Fraction

import pytest
from support import EXECUTORS, TOMORROW, WAIT, SteppedClock, nothing, pause, wait_until

WORKERS = {name: EXECUTORS[name] for name in ("inline", "two workers", "daemon workers")}
workers = pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)


@pytest.mark.parametrize("spin", [None, "1", True, 1j, [1]])
def test_it_is_a_number_of_seconds(impl, spin):
    with pytest.raises(TypeError, match="^spin must be a number of seconds, got "):
        impl.Engine(spin=spin)


@pytest.mark.parametrize("spin", [-1e-9, -1, float("nan"), float("inf"), 10**400])
def test_it_is_finite_and_not_negative(impl, spin):
    with pytest.raises(ValueError, match="^spin must be finite and >= 0, got "):
        impl.Engine(spin=spin)


@workers
@pytest.mark.parametrize("spin", [0, 0.0002, Fraction(1, 100), 60, 1e300])
def test_nothing_is_early_and_all_come_in_order(make_engine, workers, spin):
    engine = make_engine(**workers, spin=spin)
    begin, early, ran = engine.time() + 0.2, [], []  # after the last is registered

    def look(due):
        if engine.time() < due:
            early.append(due)
        ran.append(due)

    dues = [begin + number * 0.002 for number in range(20)]
    for due in reversed(dues):
        engine.call_at(due, look, due)
    with engine:
        assert wait_until(lambda: len(ran) == 20)
        engine._check()
    assert early == []
    if workers.get("executor") != 2:
        assert ran == dues


@workers
def test_a_new_earliest_timer_ends_the_polling(make_engine, workers):
    engine = make_engine(**workers, spin=TOMORROW)
    engine.call_later(TOMORROW / 2, nothing)
    with engine:
        for _ in range(50):
            ran = threading.Event()
            engine.call_later(0, ran.set)
            assert ran.wait(WAIT)


@workers
def test_a_stop_ends_the_polling(make_engine, workers):
    engine = make_engine(**workers, spin=TOMORROW)
    engine.call_later(TOMORROW / 2, nothing)
    for _ in range(5):
        engine.start()
        assert engine.stop(WAIT)


def test_the_thread_that_waits_works_meanwhile(make_engine):
    """By its own time on a CPU, of which sleep takes none; it has most of 0.1 s, unless the machine is busy."""
    engine = make_engine(spin=1)
    used, done = [], threading.Event()

    def look():
        used.append(time.thread_time())
        if len(used) == 2:
            done.set()

    engine.call_later(0, look)
    engine.call_later(0.1, look)
    with engine:
        assert done.wait(WAIT)
    assert used[1] - used[0] > 0.002


def test_with_a_clock_of_the_users_it_is_unused(make_engine):
    waits = []

    class Watched(SteppedClock):
        def wait(self, event, timeout):
            waits.append(timeout)
            super().wait(event, timeout)

    engine = make_engine(clock=Watched(), spin=60)
    engine.call_later(30, nothing)
    with engine:
        assert wait_until(lambda: len(waits) > 3)
    assert set(waits) == {30.0}


def test_on_a_manual_clock_it_is_unused(make_engine, clock):
    engine = make_engine(clock=clock, spin=60)
    ran = []
    engine.call_later(1, ran.append, 1)
    engine.start()
    clock.advance(0.999)
    assert ran == []
    clock.advance(0.001)
    assert ran == [1]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a platform without signals to threads")
@pytest.mark.parametrize("executor", [None, 2])
def test_ctrl_c_ends_a_run_that_polls(make_engine, executor):
    engine = make_engine(executor, spin=TOMORROW)
    engine.call_later(TOMORROW / 2, nothing)
    began = threading.Event()
    engine.call_later(0, began.set)

    def interrupt():
        if began.wait(WAIT):
            pause(0.02)  # into the poll
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    thread.join(WAIT)
    assert not engine.running
