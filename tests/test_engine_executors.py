"""Executors: our own pools, a user's pool, and anything with submit()."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.thread import BrokenThreadPool
from typing import Any

import pytest
from support import TOMORROW, WAIT, SteppedClock, in_other_thread, nothing, wait_until

from pysched import SystemClock


class Recording(ThreadPoolExecutor):
    """A thread pool that keeps the futures of what is submitted to it."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.futures: list[Future[Any]] = []

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        self.futures.append(future)
        return future


def carry_out(future, work):
    """What an executor does with a piece of work, unless its future was cancelled."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)


class ByHand(Executor):
    """An executor that is no thread pool: it runs what it was given when it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Any]] = []
        self.arrived = threading.Semaphore(0)

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        self.arrived.release()
        return future

    def take(self):
        """The next piece of work, once it is there."""
        assert self.arrived.acquire(timeout=WAIT)
        return self.work.pop(0)

    def run_one(self):
        carry_out(*self.take())


class Duck:
    """Has submit() and nothing else of an executor; runs each piece on a thread of its own."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Any] = Future()
        threading.Thread(target=carry_out, args=(future, lambda: fn(*args, **kwargs))).start()
        return future


class AtOnce(Executor):
    """Runs everything inside submit()."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Any] = Future()
        carry_out(future, lambda: fn(*args, **kwargs))
        return future


@pytest.fixture
def pool():
    with Recording(1) as pool:
        yield pool


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_an_int_is_that_many_workers(make_engine, workers):
    engine = make_engine(workers)
    barrier = threading.Barrier(workers + 1)
    for _ in range(workers):
        engine.call_later(0, barrier.wait, WAIT)
    engine.call_later(0, nothing)
    with engine:
        assert wait_until(lambda: engine.stats().running == workers)
        assert engine.stats().ready == 1
        barrier.wait(WAIT)
        assert engine.wait_idle(WAIT)
    assert engine.stats().errors == 0


def test_a_slow_callback_delays_nobody_while_a_worker_is_free(make_engine):
    engine = make_engine(2)
    release = threading.Event()
    engine.call_later(0, release.wait, WAIT)
    with engine:
        assert wait_until(lambda: engine.stats().running == 1)
        for _ in range(50):
            ran = threading.Event()
            engine.call_later(0, ran.set)
            assert ran.wait(WAIT)
        assert engine.stats().running == 1
        release.set()


def test_a_lone_timer_does_not_wait_behind_a_blocked_callback(make_engine):
    """Due together: one blocks, and the other must get a worker of its own."""
    for _ in range(20):
        engine = make_engine(2)
        release, ran = threading.Event(), threading.Event()
        engine.call_later(0, release.wait, WAIT)
        engine.call_later(0, ran.set)
        with engine:
            assert ran.wait(WAIT)
            release.set()


def test_all_workers_share_a_burst(make_engine):
    engine = make_engine(4)
    barrier = threading.Barrier(4)
    done = []
    engine.call_many([0] * 4, lambda: (barrier.wait(WAIT), done.append(1)))
    engine.call_many([0] * 1000, done.append, [(1,)] * 1000)
    with engine:
        assert engine.wait_idle(WAIT)
    assert len(done) == 1004
    assert engine.stats().errors == 0


def test_hand_off_to_a_thread_pool_is_batched(make_engine, pool):
    engine = make_engine(pool)
    engine.call_many([0] * 5000, nothing)
    with engine:
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == 5000
    assert len(pool.futures) < 500


def test_a_users_pool_is_never_shut_down_and_may_be_shared(impl, pool):
    engines = [impl.Engine(pool) for _ in range(3)]
    for _ in range(2):
        for engine in engines:
            engine.start()
            engine.call_later(0, nothing)
        for engine in engines:
            assert engine.wait_idle(WAIT)
            assert engine.stop(WAIT)
    assert pool.submit(int, "7").result(WAIT) == 7
    assert [engine.stats().started for engine in engines] == [2] * 3


def test_a_users_pool_that_is_busy_with_other_work_is_waited_for(make_engine, pool):
    engine = make_engine(pool)
    release, ran = threading.Event(), threading.Event()
    pool.submit(release.wait, WAIT)
    engine.call_later(0, ran.set)
    with engine:
        assert wait_until(lambda: engine.stats().ready == 1)
        assert not engine.wait_idle(0.01)
        release.set()
        assert ran.wait(WAIT)


@pytest.mark.parametrize("how", ["cancel", "cancel_key", "handle"])
def test_what_waits_in_a_busy_pool_can_still_be_cancelled(make_engine, pool, how):
    engine = make_engine(pool)
    release = threading.Event()
    pool.submit(release.wait, WAIT)
    handle = engine.call_later(0, pytest.fail, "ran", key="k")
    with engine:
        assert wait_until(lambda: engine.stats().ready == 1)
        assert engine.cancel_key("k") if how == "cancel_key" else handle.cancel()
        assert engine.wait_idle(WAIT)
        release.set()
    assert engine.stats().started == 0


def test_a_cancelled_drain_gives_its_count_back(make_engine, pool):
    engine = make_engine(pool)
    release = threading.Event()
    blocker = pool.submit(release.wait, WAIT)
    runs = []
    with engine:
        for number in range(3):
            engine.call_later(0, runs.append, number)
            assert wait_until(lambda: len(pool.futures) > 1)
            assert pool.futures.pop().cancel()
        release.set()
        blocker.result(WAIT)
        engine.call_later(0, runs.append, 3)
        assert engine.wait_idle(WAIT)
    assert runs == [0, 1, 2, 3]


def test_a_pool_that_was_shut_down_behind_us_stops_the_engine_and_loses_nothing(make_engine, logged):
    pool = ThreadPoolExecutor(1)
    engine = make_engine(pool)
    engine.start()
    pool.shutdown()
    handle = engine.call_later(0, nothing)
    every = engine.call_every(TOMORROW, nothing, delay=0)
    assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT)
    assert (len(engine), handle.done(), every.done()) == (2, False, False)
    stats = engine.stats()
    assert (stats.started, stats.ready, stats.running) == (0, 0, 0)
    [(level, text, _)] = logged
    assert level == "ERROR"
    assert "cannot schedule new futures after shutdown" in text


def test_run_raises_what_the_pool_refused_with(make_engine, logged):
    pool = ThreadPoolExecutor(1)
    engine = make_engine(pool)
    engine.call_later(0.001, nothing)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        engine.run()
    assert (engine.running, len(engine), len(logged)) == (False, 1, 1)


def test_a_pool_shut_down_with_cancel_futures_loses_nothing(make_engine, logged):
    pool = ThreadPoolExecutor(1)
    engine = make_engine(pool)
    release = threading.Event()
    pool.submit(release.wait, WAIT)
    handle = engine.call_later(0, nothing)
    engine.start()
    assert wait_until(lambda: engine.stats().ready == 1)
    pool.shutdown(wait=False, cancel_futures=True)
    engine.call_later(0, nothing)
    assert wait_until(lambda: not engine.running)
    release.set()
    assert engine.stop(WAIT)
    assert (len(engine), handle.done(), len(logged)) == (2, False, 1)


@pytest.mark.parametrize("executor", [Duck, AtOnce, ByHand])
def test_anything_with_submit_gets_one_submit_a_callback(make_engine, executor):
    executor = executor()
    engine = make_engine(executor)
    runs = []
    for number in range(10):
        engine.call_later(0, runs.append, number)
    with engine:
        if isinstance(executor, ByHand):
            for _ in range(10):
                executor.run_one()
        assert engine.wait_idle(WAIT)
    assert sorted(runs) == list(range(10))
    assert engine.stats()[:5] == (10, 10, 0, 0, 0)
    assert (engine.stats().running, engine.stats().ready, len(engine)) == (0, 0, 0)


@pytest.mark.parametrize("executor", [Duck, AtOnce])
def test_errors_are_reported_from_every_executor(make_engine, executor):
    given = []
    engine = make_engine(executor(), on_error=lambda exc, handle: given.append((str(exc), handle)))

    def fail():
        raise ValueError("mine")

    handle = engine.call_later(0, fail)
    with engine:
        assert engine.wait_idle(WAIT)
    assert given == [("mine", handle)]


def test_a_cancelled_future_drops_its_run_and_is_counted(make_engine):
    executor = ByHand()
    engine = make_engine(executor)
    handle = engine.call_later(0, pytest.fail, "ran")
    with engine:
        future, _ = executor.take()
        assert future.cancel()
        assert wait_until(lambda: engine.stats().dropped == 1)
        assert engine.wait_idle(WAIT)
        assert (handle.done(), handle.cancelled(), handle.cancel(), len(engine)) == (True, False, False, 0)
    assert engine.stats()[:5] == (1, 0, 0, 0, 0)


def test_a_cancelled_future_costs_a_periodic_timer_one_run_only(make_engine):
    executor = ByHand()
    engine = make_engine(executor)
    runs = []
    handle = engine.call_every(0.001, runs.append, 1)
    with engine:
        future, _ = executor.take()
        assert future.cancel()
        executor.run_one()
        executor.run_one()
        assert handle.cancel()
        assert engine.wait_idle(WAIT)
    assert runs == [1, 1]
    assert engine.stats().dropped == 1


def test_what_an_executor_was_given_has_started(make_engine):
    """It is out of our hands: it cannot be cancelled, counts as running, and is waited for."""
    executor = ByHand()
    engine = make_engine(executor)
    runs = []
    one_shot = engine.call_later(0, runs.append, 1)
    engine.start()
    future, work = executor.take()
    assert (one_shot.cancel(), one_shot.done(), len(engine)) == (False, True, 0)
    assert wait_until(lambda: engine.stats().running == 1)
    assert engine.wait_idle(0) is False
    assert engine.stop(0.01) is False
    carry_out(future, work)
    assert engine.stop(WAIT)
    assert runs == [1]
    assert engine.stats()[:5] == (1, 1, 0, 0, 0)


def test_a_periodic_timer_is_not_submitted_again_while_the_executor_has_it(make_engine):
    executor = ByHand()
    engine = make_engine(executor)
    runs = []
    handle = engine.call_every(0.001, runs.append, 1)
    with engine:
        future, work = executor.take()
        assert wait_until(lambda: engine.stats().coalesced >= 5)
        assert executor.work == []
        carry_out(future, work)
        executor.run_one()
        assert handle.cancel()
        assert wait_until(lambda: len(executor.work) in (0, 1))
        for piece in executor.work:
            carry_out(*piece)
        assert engine.wait_idle(WAIT)


def test_the_callback_itself_is_submitted(make_engine):
    """Not a wrapper of ours: an executor in another process has to pickle it."""
    given = []

    class Looking(AtOnce):
        def submit(self, fn, /, *args, **kwargs):
            given.append((fn, args, kwargs))
            return super().submit(fn, *args, **kwargs)

    engine = make_engine(Looking())
    runs = []
    engine.call_later(0, nothing, 1, 2)
    engine.call_later(0, runs.append, 3)
    engine.call_later(0, int)
    with engine:
        assert engine.wait_idle(WAIT)
    assert given == [(nothing, (1, 2), {}), (runs.append, (3,), {}), (int, (), {})]


def test_an_executor_that_refuses_stops_the_engine_and_loses_nothing(make_engine, logged):
    class Refusing:
        def submit(self, fn, /, *args, **kwargs):
            raise ZeroDivisionError("refused")

    engine = make_engine(Refusing())
    engine.call_later(0, nothing)
    with pytest.raises(ZeroDivisionError, match="refused"):
        engine.run()
    assert (engine.running, len(engine), len(logged)) == (False, 1, 1)
    assert engine.stats().ready == 0


def test_an_executor_that_gives_no_future_stops_the_engine_and_leaves_nothing_running(make_engine, logged):
    """Nobody will ever tell of the end of what it took: that run counts as over, what follows is kept."""
    taken = []

    class Silent:
        def submit(self, fn, /, *args, **kwargs):
            taken.append((fn, args))

    engine = make_engine(Silent())
    engine.call_later(0, nothing, 1)
    engine.call_later(0, nothing, 2)
    with pytest.raises(AttributeError, match="add_done_callback"):
        engine.run()
    assert taken == [(nothing, (1,))]
    assert (engine.running, len(engine), len(logged)) == (False, 1, 1)
    assert (engine.stats().running, engine.stats().ready) == (0, 0)
    assert engine.stop(WAIT) is True


def test_an_executor_that_runs_what_it_is_given_at_once_may_stop_the_engine_from_there(make_engine):
    engine = make_engine(AtOnce())
    results = []

    def stop():
        with pytest.raises(RuntimeError):
            engine.wait_idle()
        results.append(engine.stop())

    engine.call_later(0, stop)
    engine.call_later(0, results.append, "ran")
    engine.run()
    assert results in ([True], [False])  # its own run is left, which is not waited for
    assert (engine.running, len(engine), engine.stats().errors) == (False, 1, 0)
    with engine:
        assert engine.wait_idle(WAIT)
    assert results[1:] == ["ran"]


def test_an_executor_that_runs_what_it_is_given_at_once_is_waited_for_by_stop(make_engine):
    engine = make_engine(AtOnce())
    inside, release, results = threading.Event(), threading.Event(), []
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    assert engine.stop(0) is False
    assert engine.wait_idle(0) is False
    stopper = threading.Thread(target=lambda: results.append(engine.stop(WAIT)))
    stopper.start()
    release.set()
    stopper.join(WAIT)
    assert results == [True]
    assert engine.stats().running == 0


@pytest.mark.parametrize("kind", [AtOnce, ThreadPoolExecutor])
def test_no_lock_is_held_while_an_executor_submits(make_engine, kind):
    free = []

    class Asking(kind):
        def submit(self, fn, /, *args, **kwargs):
            free.append(in_other_thread(lambda: (engine.call_later(TOMORROW, nothing).cancel(), engine.stats()), 5))
            return super().submit(fn, *args, **kwargs)

    with Asking() as executor:
        engine = make_engine(executor)
        engine.call_later(0, nothing)
        with engine:
            assert engine.wait_idle(WAIT)
    assert free == [True]


@pytest.mark.parametrize("executor", [3, "user's pool", "duck"])
def test_executors_are_accepted_and_unused_on_a_manual_clock(make_engine, clock, executor, pool):
    engine = make_engine({"user's pool": pool, "duck": Duck()}.get(executor, executor), clock=clock)
    engine.start()
    where = []
    engine.call_later(1, lambda: where.append(threading.current_thread()))
    clock.advance(1)
    assert where == [threading.current_thread()]
    assert pool.futures == []


def test_workers_that_all_block_stop_nobody_from_registering_and_cancelling(make_engine):
    engine = make_engine(2)
    release = threading.Event()
    for _ in range(2):
        engine.call_later(0, release.wait, WAIT)
    with engine:
        assert wait_until(lambda: engine.stats().running == 2)
        handles = [engine.call_later(0, pytest.fail, "ran") for _ in range(100)]
        assert wait_until(lambda: engine.stats().ready == 100)
        assert all(handle.cancel() for handle in handles)
        assert engine.stats().ready == 0
        release.set()
        assert engine.wait_idle(WAIT)


@pytest.mark.real_time
def test_busy_python_threads_do_not_starve_the_loop(make_engine):
    """Four threads in pure-Python loops, and the timer runs again and again; no slot is lost or run twice."""
    engine = make_engine()
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            sum(range(100))

    threads = [threading.Thread(target=spin) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with engine:
            begin = engine.time()
            every = engine.call_every(0.01, nothing)
            assert wait_until(lambda: engine.stats().started >= 5)
            every.cancel()
            end = engine.time()
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT)
    stats = engine.stats()
    assert 5 <= stats.started + stats.coalesced <= (end - begin) / 0.01


class Refusing(AtOnce):
    """Takes nothing while it is `full`; `before` is called at each refusal."""

    def __init__(self, before=nothing) -> None:
        self.full = True
        self.before = before

    def submit(self, fn, /, *args, **kwargs):
        if self.full:
            self.before()
            raise RuntimeError("full")
        return super().submit(fn, *args, **kwargs)


class Giving(Executor):
    """Gives futures of a class, already done."""

    def __init__(self, kind) -> None:
        self.kind = kind

    def submit(self, fn, /, *args, **kwargs):
        future = self.kind()
        carry_out(future, lambda: fn(*args, **kwargs))
        return future


class Truthless:
    def __bool__(self):
        raise ZeroDivisionError("neither true nor false")


class TellsTwice(Future):
    def add_done_callback(self, fn):
        fn(self)
        fn(self)


class TellsAndRaises(Future):
    def add_done_callback(self, fn):
        fn(self)
        raise RuntimeError("the other loop is closed")


class CancelledBy(Future):
    answer: Any = False

    def cancelled(self):
        return self.answer


class FailsWith(Future):
    def exception(self, timeout=None):
        raise KeyboardInterrupt


def no_database():
    raise RuntimeError("no database")


@pytest.mark.parametrize("start", ["start", "run"])
def test_a_pool_whose_initializer_fails_stops_the_engine_and_loses_nothing(make_engine, logged, start):
    with ThreadPoolExecutor(1, initializer=no_database) as pool:
        engine = make_engine(pool)
        engine.call_later(0, nothing)
        if start == "start":
            engine.start()
            assert wait_until(lambda: not engine.running)
        else:
            with pytest.raises(BrokenThreadPool):
                engine.run()
        assert engine.stop(WAIT)
    assert [level for level, _, _ in logged] == ["ERROR"]
    assert "the loop has ended" in logged[0][1]
    assert "BrokenThreadPool" in logged[0][1]
    stats = engine.stats()
    assert (len(engine), stats.started, stats.running, stats.ready) == (1, 0, 0, 0)


def test_a_future_that_tells_of_its_end_twice_ends_its_run_once(make_engine):
    errors = []
    engine = make_engine(Giving(TellsTwice), on_error=lambda exc, handle: errors.append(exc))
    with engine:
        engine.call_later(0, nothing)
        engine.call_later(0, no_database)
        assert engine.wait_idle(WAIT)
        assert engine.stats().running == 0
        assert engine.stop(WAIT)
    stats = engine.stats()
    assert (stats.started, stats.running, stats.errors, len(errors)) == (2, 0, 1, 1)


def test_a_future_that_tells_of_its_end_and_then_fails_ends_its_run_once(make_engine, logged):
    engine = make_engine(Giving(TellsAndRaises))
    engine.call_later(0, nothing)
    with pytest.raises(RuntimeError, match="the other loop is closed"):
        engine.run()
    assert engine.stats().running == 0
    assert engine.stop(WAIT)
    assert engine.stats().started == 1


@pytest.mark.parametrize("answer", [2, "yes", [0]])
def test_whatever_is_true_is_a_cancelled_future(make_engine, answer):
    engine = make_engine(Giving(type("Odd", (CancelledBy,), {"answer": answer})))
    with engine:
        engine.call_later(0, nothing)
        assert engine.wait_idle(WAIT)
    stats = engine.stats()
    assert (stats.started, stats.dropped, stats.errors, stats.running) == (0, 1, 0, 0)
    assert stats.lateness.count == 0


@pytest.mark.parametrize(
    ("kind", "error"),
    [(type("Odd", (CancelledBy,), {"answer": Truthless()}), ZeroDivisionError), (FailsWith, KeyboardInterrupt)],
)
def test_a_future_that_cannot_be_asked_is_an_error_of_its_run(make_engine, kind, error):
    errors = []
    engine = make_engine(Giving(kind), on_error=lambda exc, handle: errors.append(type(exc)))
    with engine:
        engine.call_later(0, nothing)
        assert engine.wait_idle(WAIT)
        assert engine.running
    stats = engine.stats()
    assert errors == [error]
    assert (stats.started, stats.dropped, stats.errors, stats.running) == (1, 0, 1, 0)


def test_what_never_started_is_not_in_the_lateness(make_engine, logged):
    executor = Refusing()
    engine = make_engine(executor)
    engine.call_later(0, nothing)
    engine.call_every(TOMORROW, nothing, delay=0)
    for _ in range(3):
        engine.start()
        assert wait_until(lambda: not engine.running)
        assert engine.stop(WAIT)
        assert engine.stats().started == engine.stats().lateness.count == 0
    assert engine.stats().lateness.p99 == 0
    executor.full = False
    with engine:
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == engine.stats().lateness.count == 2
    by_hand = ByHand()
    engine = make_engine(by_hand)
    engine.call_later(0, nothing)
    engine.call_later(0, nothing)
    with engine:
        future, _ = by_hand.take()
        future.cancel()
        by_hand.run_one()
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == engine.stats().lateness.count == 1


def test_refused_one_shots_keep_their_order_over_a_new_numbering(make_engine, logged):
    """On the compiled engine submissions are numbered anew after 2^40, here while the executor refuses one."""
    ran: list[int] = []
    executor = Refusing(lambda: engine.call_many([TOMORROW] * 10, nothing))
    engine = make_engine(executor, clock=SteppedClock())
    if hasattr(engine, "_set_order"):
        engine._set_order(2**40 - 12)
    for number in range(5):
        engine.call_later(0, ran.append, number)
    engine.start()
    assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT)  # its thread has told of it by then: what is logged in a teardown is kept
    executor.full = False
    engine.start()
    assert engine.wait_idle(WAIT)
    assert ran == [0, 1, 2, 3, 4]


class Forgetful(Executor):
    """Takes the work, and keeps neither it nor its future."""

    def submit(self, fn, /, *args, **kwargs):
        return Future()


def test_a_future_that_is_dropped_is_an_error_of_its_run_which_ends(make_engine):
    told = []
    engine = make_engine(Forgetful(), on_error=lambda error, handle: told.append((str(error), handle)))
    one_shot = engine.call_later(0, pytest.fail, "ran")
    repeated = engine.call_every(0.001, nothing)
    with engine:
        assert wait_until(lambda: [handle for _, handle in told].count(repeated) > 2)
        assert repeated.cancel()
        assert engine.wait_idle(WAIT)
    assert all("dropped the future" in text for text, _ in told)
    assert (one_shot in [handle for _, handle in told], one_shot.done()) == (True, True)
    stats = engine.stats()
    assert (stats.running, stats.errors, stats.started) == (0, len(told), len(told))


def test_the_handler_of_a_dropped_future_may_stop_the_engine(make_engine):
    stopped = []
    engine = make_engine(Forgetful(), on_error=lambda error, handle: stopped.append(engine.stop()))
    engine.call_later(0, nothing)
    engine.start()
    assert wait_until(lambda: stopped)
    assert stopped in ([True], [False])
    assert engine.stop(WAIT)


def test_a_future_that_never_ends_holds_up_its_own_run_only(make_engine):
    """As a worker does that never comes back."""
    executor = ByHand()
    engine = make_engine(executor, on_error=nothing)
    hung = engine.call_every(0.001, nothing)
    engine.start()
    future, work = executor.take()
    ran = []
    engine.call_later(0, ran.append, 1)
    executor.run_one()
    assert (ran, engine.wait_idle(0.01), engine.stop(0.01)) == ([1], False, False)
    assert engine.stats().running == 1
    assert hung.cancel()
    engine.start()
    engine.call_later(0, ran.append, 2)
    executor.run_one()
    assert ran == [1, 2]
    del work
    future = None  # nobody can end it any more
    assert engine.stop(WAIT)
    assert (future, engine.stats().running, engine.stats().errors) == (None, 0, 1)


def test_a_dropped_future_costs_a_job_one_run(make_scheduler):
    for options in ({}, {"max_retries": 2, "retry_backoff": 0}):
        told = []
        scheduler = make_scheduler(executor=Forgetful(), on_error=lambda error, run, told=told: told.append(error))
        job = scheduler.every("1ms", nothing, **options)
        scheduler.start_background()
        assert wait_until(lambda scheduler=scheduler, job=job: scheduler.get_job(job).error_count > 2)
        assert scheduler.remove_job(job)
        assert scheduler.wait_idle(WAIT)
        assert len(told) > 2


@pytest.fixture
def failing_shutdown(monkeypatch):
    """While it lasts, a pool that is shut down raises MemoryError, afterwards."""
    shutdown = ThreadPoolExecutor.shutdown

    def fails(pool, **options):
        shutdown(pool, **options)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "shutdown", fails)
        yield patched


@pytest.mark.parametrize("way", ["start", "run"])
def test_a_pool_of_our_own_that_cannot_be_shut_down_holds_nobody_up(make_engine, logged, failing_shutdown, way):
    """Neither who starts an engine in vain nor who stops it; whoever can is told."""
    begin = threading.Thread.start
    engine = make_engine(1)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    failing_shutdown.setattr(threading.Thread, "start", refuse)
    with pytest.raises((MemoryError, RuntimeError)):
        getattr(engine, way)()
    assert not engine.running
    assert engine.stop(WAIT)
    failing_shutdown.setattr(threading.Thread, "start", begin)
    engine.call_later(0, engine.stop)
    if way == "run":
        with pytest.raises(MemoryError):
            engine.run()
    else:
        engine.start()
        assert engine.wait_idle(WAIT)
        assert engine.stop(WAIT)
    assert wait_until(lambda: any("MemoryError" in text for _, text, _ in logged))
    failing_shutdown.undo()
    engine.call_later(0, nothing)
    with engine:
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == 2


@pytest.mark.parametrize("way", ["start", "run"])
@pytest.mark.parametrize("loop", ["fails", "is stopped"])
def test_what_ended_a_loop_is_told_before_what_its_pool_raised(make_engine, logged, failing_shutdown, way, loop):
    waits = threading.Event()

    class Fails(SystemClock):
        def wait(self, event, timeout):
            waits.set()
            if loop == "fails":
                raise ZeroDivisionError
            super().wait(event, timeout)

    expected = [("the loop has ended", "ZeroDivisionError")] if loop == "fails" else []
    expected.append(("the loop has ended, but not its pool", "MemoryError"))
    engine = make_engine(1, clock=Fails(), name="e")
    if way == "run":
        if loop != "fails":
            engine.call_later(0, engine.stop)
        with pytest.raises(ZeroDivisionError if loop == "fails" else MemoryError):
            engine.run()
    else:
        engine.start()
        assert waits.wait(WAIT)
        assert engine.stop(WAIT)
    assert wait_until(lambda: len(logged) == len(expected))
    lines = [text.splitlines() for _, text, _ in logged]
    assert [(each[0], each[-1]) for each in lines] == [(f"e: {text}", error) for text, error in expected]
