"""Daemon workers: threads of the engine's own, which hand over to each other, and for which no exit waits."""

from __future__ import annotations

import concurrent.futures
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import (
    TOMORROW,
    WAIT,
    SteppedClock,
    comes_to_rest,
    in_threads,
    nothing,
    pause,
    threads_of,
    wait_until,
    while_at_work,
)


@pytest.fixture
def crew(make_engine):
    """A started engine with two daemon workers, both of which have run a callback."""
    engine = make_engine(2, daemon=True, name="crew")
    engine.start()
    both = threading.Barrier(2)
    engine.call_many([0.0, 0.0], both.wait, [(WAIT,), (WAIT,)])
    assert engine.wait_idle(WAIT)
    assert wait_until(lambda: engine.stats().started == 2)
    return engine


@pytest.fixture
def blocked(make_engine):
    """A started engine whose only daemon worker is in a callback, and the event that lets it out."""
    engine = make_engine(1, daemon=True)
    engine.start()
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    assert inside.wait(WAIT)
    yield engine, release
    release.set()


# Arguments.


@pytest.mark.parametrize("daemon", [None, 0, 1, "yes"])
@pytest.mark.parametrize("executor", [None, 2])
def test_daemon_is_a_bool(impl, scheduler_type, executor, daemon):
    with pytest.raises(TypeError, match=f"^daemon must be a bool, got {type(daemon).__name__}$"):
        impl.Engine(executor, daemon=daemon)
    with pytest.raises(TypeError, match="^daemon must be a bool, got "):
        scheduler_type(executor, daemon=daemon)


def test_the_threads_of_an_executor_are_its_own(impl, scheduler_type):
    with ThreadPoolExecutor(1) as pool:
        for make in (lambda: impl.Engine(pool, daemon=True), lambda: scheduler_type(executor=pool, daemon=True)):
            with pytest.raises(ValueError, match="^daemon needs a number of workers: the threads of an executor "):
                make()
        impl.Engine(pool, daemon=False)


@pytest.mark.parametrize("workers", [0, -1, True, 2**20 + 1])
def test_a_bad_number_of_workers_is_one_in_any_case(impl, workers):
    with pytest.raises((TypeError, ValueError), match="^executor"):
        impl.Engine(workers, daemon=True)


def test_without_an_executor_there_is_nothing_to_change(make_engine):
    engine = make_engine(daemon=True, name="alone")
    where = []
    engine.call_later(0, lambda: where.append((threading.current_thread().name, threading.current_thread().daemon)))
    with engine:
        assert threads_of("alone") == ["alone"]
        assert engine.wait_idle(WAIT)
    assert where == [("alone", True)]


# Threads.


def test_the_workers_are_daemon_threads_from_start_to_stop(make_engine):
    engine = make_engine(3, daemon=True, name="four")
    for _ in range(3):
        assert threads_of("four") == []
        engine.start()
        assert threads_of("four") == ["four", "four-worker_0", "four-worker_1", "four-worker_2"]
        assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("four"))
        assert engine.stop(WAIT)


def test_callbacks_run_on_the_workers_and_on_no_other_thread(make_engine):
    engine = make_engine(2, daemon=True, name="two")
    seen = set()
    with engine:
        for _ in range(200):
            engine.call_later(0.0001, lambda: seen.add(threading.current_thread().name))
        assert wait_until(lambda: engine.stats().started == 200)
        assert engine.wait_idle(WAIT)
    assert seen <= {"two-worker_0", "two-worker_1"}


def test_no_thread_pool_is_made(make_engine, make_scheduler, monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a pool")

    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", refuse)
    ran = threading.Event()
    with make_engine(2, daemon=True) as engine:
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
    ran.clear()
    with make_scheduler(2, daemon=True) as scheduler:
        scheduler.after(0, ran.set)
        assert ran.wait(WAIT)


def test_a_thread_that_cannot_be_started_leaves_a_stopped_engine_and_no_thread(make_engine, monkeypatch):
    engine = make_engine(3, daemon=True, name="short")
    start = threading.Thread.start

    def fail(thread):
        if thread.name == "short-worker_2":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="^can't start new thread$"):
            engine.start()
        assert not engine.running
    assert wait_until(lambda: threads_of("short") == [])
    ran = threading.Event()
    engine.call_later(0, ran.set)
    with engine:
        assert ran.wait(WAIT)
        engine._check()


def test_on_a_manual_clock_there_is_no_thread(make_engine, clock):
    engine = make_engine(2, daemon=True, clock=clock, name="manual")
    where = []
    engine.call_later(1, lambda: where.append(threading.current_thread()))
    engine.start()
    assert threads_of("manual") == []
    clock.advance(1)
    assert where == [threading.current_thread()]


def test_workers_beside_a_loop_that_waits_through_a_clock_of_the_users(make_engine):
    clock = SteppedClock()
    engine = make_engine(2, daemon=True, clock=clock, name="stepped")
    where = []
    engine.call_later(1, lambda: where.append(threading.current_thread().name))
    both = threading.Barrier(3)
    engine.call_many([2.0, 2.0], both.wait, [(WAIT,), (WAIT,)])
    with engine:
        clock.let_look()
        assert where == []
        clock.set(1)
        assert wait_until(lambda: where)
        clock.set(2)
        both.wait(WAIT)
        assert engine.wait_idle(WAIT)
        engine._check()
    assert where[0].startswith("stepped-worker_")
    assert threads_of("stepped") == []


def test_workers_that_had_left_are_there_again_when_a_stop_is_taken_back(make_engine):
    """The loop has not seen the stop when the start comes: it waits through a clock that looks at no event."""
    waits, go_on = threading.Event(), threading.Event()

    class Deaf(SteppedClock):
        def wait(self, event, timeout):
            waits.set()
            go_on.wait(WAIT)

    engine = make_engine(3, daemon=True, clock=Deaf(), name="deaf")
    engine.start()
    assert waits.wait(WAIT)
    for _ in range(2):
        assert not engine.stop(0)
        wait_until(lambda: threads_of("deaf") == ["deaf"], 0.1)  # those of the twin stay
        engine.start()
        engine._check()
    all_three, done = threading.Barrier(3), []
    engine.call_many([0.0] * 3, lambda: done.append(all_three.wait(WAIT)))
    go_on.set()
    assert wait_until(lambda: len(done) == 3)
    assert engine.stop(WAIT)
    assert threads_of("deaf") == []


def test_a_stop_that_is_taken_back_without_a_thread_to_be_had_leaves_a_stopped_engine(
    make_engine, engine_name, monkeypatch
):
    if engine_name == "pure":
        pytest.skip("its workers stay until the loop has seen the stop")
    waits, go_on = threading.Event(), threading.Event()

    class Deaf(SteppedClock):
        def wait(self, event, timeout):
            waits.set()
            go_on.wait(WAIT)

    def fail(thread):
        raise RuntimeError("can't start new thread")

    engine = make_engine(2, daemon=True, clock=Deaf(), name="short")
    engine.start()
    assert waits.wait(WAIT)
    engine.stop(0)
    assert wait_until(lambda: threads_of("short") == ["short"])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="^can't start new thread$"):
            engine.start()
    assert not engine.running
    engine._check()
    ran = threading.Event()
    engine.call_later(0, ran.set)
    with engine:  # the old loop has not left
        go_on.set()
        assert ran.wait(WAIT)


def test_run_has_workers_too(make_engine):
    engine = make_engine(2, daemon=True, name="ran")
    seen = []

    def last():
        seen.append(threading.current_thread().name)
        engine.stop()

    engine.call_later(0.01, last)
    engine.run()
    assert seen[0].startswith("ran-worker_")
    engine.call_later(0.01, last)
    in_threads(engine.run)
    assert seen[1].startswith("ran-worker_")
    assert engine.stop(WAIT)
    assert threads_of("ran") == []


# When and in what order.


@pytest.mark.real_time
@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_ever_early(make_engine, workers):
    rng = random.Random(workers)
    engine = make_engine(workers, daemon=True)
    early = []

    def look(due):
        if engine.time() < due:
            early.append(due)

    with engine:
        for _ in range(200):
            due = engine.time() + rng.random() * 0.1
            engine.call_at(due, look, due)
            if rng.random() < 0.1:
                pause(0.002)  # any number of them may be due by then
        assert wait_until(lambda: engine.stats().started == 200)
        assert engine.wait_idle(WAIT)
    assert early == []


def test_one_worker_runs_them_in_order_of_due_time_and_submission(make_engine):
    engine = make_engine(1, daemon=True)
    ran, expected = [], []
    begin = engine.time() + 0.3  # after the last of them is registered
    for number in range(300):
        due = begin + number * 7 % 10 * 0.001
        engine.call_at(due, ran.append, (due, number))
        expected.append((due, number))
    with engine:
        assert wait_until(lambda: len(ran) == 300)
    assert ran == sorted(expected)


def test_a_slow_callback_delays_nobody_while_a_worker_is_free(crew):
    release = threading.Event()
    crew.call_later(0, release.wait, WAIT)
    assert wait_until(lambda: crew.stats().running == 1)
    for delay in [0, 0.001] * 25:
        ran = threading.Event()
        crew.call_later(delay, ran.set)
        assert ran.wait(WAIT)
        crew._check()
    assert crew.stats().running == 1
    release.set()


@pytest.mark.parametrize("apart", [0.0, 0.0001, 0.0003, 0.002])
def test_what_comes_due_beside_slow_callbacks_runs_though_no_call_comes_to_wake_a_worker(make_engine, apart):
    """Each holds its worker until the next one, registered beforehand, has run on another."""
    engine = make_engine(4, daemon=True)
    last = threading.Event()

    def hold(own, following):
        assert following.wait(WAIT)
        own.set()

    with engine:
        for _ in range(10):
            last.clear()
            started = [threading.Event() for _ in range(3)]
            begin = engine.time() + 0.003  # by then all are parked, or lead
            for number, (own, following) in enumerate(zip(started, [*started[1:], last], strict=True)):
                engine.call_at(begin + number * apart, hold, own, following)
            engine.call_at(begin + 3 * apart, last.set)
            assert started[0].wait(WAIT)
            assert engine.wait_idle(WAIT)
            engine._check()
    assert engine.stats().errors == 0


def test_what_other_threads_register_beside_a_slow_callback_runs(make_engine):
    """Whatever the worker that is free sleeps for: nothing, or a timer that is cancelled by then."""
    engine = make_engine(2, daemon=True)

    def register(delay):
        ran = threading.Event()
        engine.call_later(delay, ran.set)
        assert ran.wait(WAIT)

    def hold(inside, release):
        inside.set()
        assert release.wait(WAIT)

    with engine:
        for sleeps_for in (None, TOMORROW, 0.02):
            if sleeps_for is not None:
                pending = engine.call_later(sleeps_for, nothing)
                for _ in range(3):
                    register(0.001)
                pending.cancel()
            inside, release = threading.Event(), threading.Event()
            engine.call_later(0.001, hold, inside, release)
            assert inside.wait(WAIT)
            for delay in (0.003, 0.0, 0.0004, 0.0, 0.001):
                in_threads(lambda delay=delay: register(delay))
            release.set()
            assert engine.wait_idle(WAIT)
            engine._check()
    assert engine.stats().errors == 0


def test_no_more_run_at_once_than_there_are_workers(crew):
    inside, most, lock, both = 0, 0, threading.Lock(), threading.Barrier(2)

    def work():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        both.wait(WAIT)
        pause(0.0005)  # a third would come now
        with lock:
            inside -= 1

    crew.call_many([0.0] * 60, work)
    assert wait_until(lambda: crew.stats().started == 62)
    assert crew.wait_idle(WAIT)
    assert most == 2


def test_what_a_callback_arms_wakes_the_worker_that_sleeps_for_tomorrow(crew):
    """One is in the callback, the other waits for what is far off."""
    crew.call_later(TOMORROW, nothing)
    chain, done = [], threading.Event()

    def link():
        chain.append(crew.time())
        if len(chain) == 50:
            done.set()
            return
        inner = threading.Event()
        crew.call_later(0.0002, inner.set)
        assert inner.wait(WAIT)  # on the other worker, while this one is here
        crew.call_later(0.0005, link)

    crew.call_later(0, link)
    assert done.wait(WAIT)
    assert crew.wait_idle(WAIT)
    assert crew.stats().errors == 0


def test_slots_that_come_while_all_workers_are_busy_are_queued_and_coalesced_when_they_are_due(blocked):
    engine, release = blocked
    before = engine.stats().coalesced
    engine.call_every(0.002, nothing)
    assert wait_until(lambda: engine.stats().ready == 1)
    assert wait_until(lambda: engine.stats().coalesced >= before + 3)
    engine._check()
    release.set()
    assert wait_until(lambda: engine.stats().started >= 3)


def test_what_is_due_when_all_are_busy_runs_as_soon_as_one_is_free(blocked):
    engine, release = blocked
    ran = []
    engine.call_later(0.001, ran.append, "b")
    engine.call_later(0, ran.append, "a")
    assert wait_until(lambda: engine.stats().ready == 2)
    assert ran == []
    release.set()
    assert wait_until(lambda: sorted(ran) == ["a", "b"])  # two workers are free at once


@pytest.mark.real_time
def test_idle_workers_wake_for_nothing(crew):
    crew.call_many([TOMORROW] * 1000, nothing)
    assert comes_to_rest(lambda: crew.stats().wakeups)


# Cancel, wait, stop.


def test_a_timer_that_is_cancelled_before_its_time_or_while_it_is_queued_never_runs(blocked):
    engine, release = blocked
    ran = []
    queued = engine.call_later(0, ran.append, "queued")
    periodic = engine.call_every(0.001, ran.append, "periodic")
    coming = engine.call_later(0.05, ran.append, "coming")
    engine.call_later(0.02, ran.append, "last", key="k")
    assert wait_until(lambda: engine.stats().ready >= 2)
    assert queued.cancel()
    assert periodic.cancel()
    assert coming.cancel()
    assert engine.cancel_key("k")
    release.set()
    assert engine.wait_idle(WAIT)
    pause(0.06)  # past the time of the last
    assert ran == []
    assert engine.stats().cancelled == 4


def test_wait_idle_waits_for_what_runs_and_is_refused_in_a_callback(crew):
    raised, release = [], threading.Event()

    def inside():
        try:
            crew.wait_idle()
        except RuntimeError as error:
            raised.append(str(error))
        release.wait(WAIT)

    crew.call_later(0, inside)
    assert wait_until(lambda: raised)
    assert crew.wait_idle(0.01) is False
    release.set()
    assert crew.wait_idle(WAIT)
    assert raised == ["wait_idle on a thread of the engine would wait for itself"]


def test_a_stop_says_that_a_callback_hangs_and_another_start_has_workers_of_its_own(make_engine):
    engine = make_engine(2, daemon=True, name="hung")
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    assert engine.stop(0.02) is False
    assert not engine.running
    assert engine.stats().running == 1
    engine.start()
    both = threading.Barrier(3)  # neither of the two new ones is the one that hangs
    engine.call_many([0.0, 0.0], both.wait, [(WAIT,), (WAIT,)])
    both.wait(WAIT)
    engine._check()
    assert engine.stop(0.02) is False
    release.set()
    assert engine.stop(WAIT)
    assert threads_of("hung") == []


def test_a_callback_may_stop_and_start_its_engine(make_engine, logged):
    engine = make_engine(2, daemon=True, name="again")
    answers, ran = [], threading.Event()

    def restart():
        answers.append(engine.stop())
        engine.start()
        engine.call_later(0, ran.set)

    engine.call_later(0, restart)
    engine.start()
    assert ran.wait(WAIT)
    assert answers == [True]  # its own callback does not count
    assert engine.running
    assert {level for level, _, _ in logged} <= {"WARNING"}  # that its loop went on, if it did


def test_start_and_stop_in_turn_lose_nothing(make_engine):
    engine = make_engine(2, daemon=True, name="churn")
    ran = []
    for number in range(40):
        engine.call_later(0.0005 * (number % 3), ran.append, number)
        engine.start()
        if number % 2:
            pause(0.0005)
        assert engine.stop(WAIT)
        assert threads_of("churn") == []
        engine._check()
    with engine:
        assert wait_until(lambda: len(ran) == 40)
    assert sorted(ran) == list(range(40))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("b")])
def test_whatever_a_callback_raises_its_worker_lives_on(make_engine, error):
    told = []
    engine = make_engine(2, daemon=True, name="tough", on_error=lambda exc, handle: told.append(exc))

    def fail():
        raise error

    with engine:
        for _ in range(6):
            engine.call_later(0, fail)
        assert wait_until(lambda: len(told) == 6)
        assert engine.wait_idle(WAIT)
        assert threads_of("tough") == ["tough", "tough-worker_0", "tough-worker_1"]
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
    assert told == [error] * 6


def test_every_invariant_holds_while_threads_add_and_cancel(make_engine):
    engine = make_engine(3, daemon=True)

    def churn(seed):
        rng = random.Random(seed)
        handles = []
        for _ in range(1500):
            handles.append(engine.call_later(rng.choice([0, 0, 0.0003, 0.002, TOMORROW]), nothing))
            if rng.random() < 0.5:
                handles.pop(rng.randrange(len(handles))).cancel()
        for handle in handles:
            handle.cancel()

    with engine:
        while_at_work(engine._check, lambda: churn(1), lambda: churn(2))
        assert engine.wait_idle(WAIT)
        stats = engine.stats()
        assert stats.scheduled == stats.started + stats.cancelled
        engine._check()
