"""`Scheduler`: coroutines as callbacks, on real event loops: the user's, given or captured, and a private one."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from support import WAIT, assert_quiet, pause, run_python, wait_until

from pysched import current_run, private_loop
from pysched.coroutines import in_thread
from pysched.fastapi import scheduler_lifespan

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")


def nap(seconds=0.01):
    """A callback that is no coroutine function, but returns one."""
    return asyncio.sleep(seconds)


@contextmanager
def loop_in_a_thread():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Places:
    """A callback that notes where it runs."""

    def __init__(self):
        self.seen = []

    async def __call__(self):
        self.seen.append((asyncio.get_running_loop(), threading.current_thread()))
        await asyncio.sleep(0)


@pytest.fixture
def places():
    return Places()


async def until(predicate):
    deadline = time.monotonic() + WAIT
    while not predicate():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


# Where they run.


def test_on_the_loop_that_async_with_was_entered_in(make_scheduler, places):
    async def main():
        async with make_scheduler() as scheduler:
            assert scheduler.running
            job_id = scheduler.every("10ms", places)
            scheduler.every("10ms", lambda: places())
            await until(lambda: len(places.seen) >= 6)
            assert scheduler.get_job(job_id).run_count > 1
        assert not scheduler.running
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert set(places.seen) == {(loop, threading.main_thread())}


def test_on_the_loop_of_the_application(make_scheduler, places):
    async def main():
        scheduler = make_scheduler()
        scheduler.every("10ms", places)
        async with scheduler_lifespan(scheduler)(None):
            await until(lambda: len(places.seen) >= 3)
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert set(places.seen) == {(loop, threading.main_thread())}


@pytest.mark.parametrize("entered", [False, True])
def test_on_the_loop_that_is_given(make_scheduler, places, entered):
    with loop_in_a_thread() as loop:
        scheduler = make_scheduler(loop=loop)
        scheduler.every("10ms", places)

        async def main():
            async with scheduler:
                await until(lambda: len(places.seen) >= 3)

        if entered:
            asyncio.run(main())
        else:
            with scheduler:
                assert wait_until(lambda: len(places.seen) >= 3)
        assert {each for each, _ in places.seen} == {loop}


def test_a_loop_that_is_given_may_begin_to_run_later(make_scheduler, places):
    loop = asyncio.new_event_loop()
    scheduler = make_scheduler(loop=loop)
    job_id = scheduler.every("10ms", places)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).running)
    pause(0.03)
    assert not places.seen
    loop.run_until_complete(until(lambda: len(places.seen) > 1))
    began = time.monotonic()
    scheduler.shutdown()  # which does not wait for what cannot go on
    assert time.monotonic() - began < 5
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert scheduler.get_job(job_id).running == 0


@pytest.mark.parametrize("loop", [5, asyncio, "loop"])
def test_what_is_no_loop_is_refused(make_scheduler, loop):
    with pytest.raises(TypeError, match="loop must be an event loop"):
        make_scheduler(loop=loop)


def test_else_on_a_private_loop_with_a_thread_of_its_own(make_scheduler, places):
    scheduler = make_scheduler(name="jobs")
    names = lambda: [thread.name for thread in threading.enumerate()]  # noqa: E731
    ran = threading.Event()
    scheduler.after(0, ran.set)
    scheduler.start_background()
    assert ran.wait(WAIT)
    assert "jobs-asyncio" not in names(), "made when it is needed first"
    scheduler.every("10ms", places)
    assert wait_until(lambda: len(places.seen) >= 3)
    assert {thread.name for _, thread in places.seen} == {"jobs-asyncio"}
    assert len({loop for loop, _ in places.seen}) == 1
    scheduler.shutdown()
    assert "jobs-asyncio" not in names()
    assert places.seen[0][0].is_closed()


def test_start_background_captures_no_loop(make_scheduler, places):
    async def main():
        scheduler = make_scheduler()
        scheduler.every("10ms", places)
        scheduler.start_background()
        await until(lambda: len(places.seen) >= 3)
        await asyncio.to_thread(scheduler.shutdown)

    asyncio.run(main())
    assert {thread.name for _, thread in places.seen} == {"pysched-asyncio"}


def test_what_stops_the_private_loop_does_not_end_it(make_scheduler, places):
    async def rude():
        asyncio.get_running_loop().stop()

    scheduler = make_scheduler()
    scheduler.after(0, rude)
    scheduler.start_background()
    assert wait_until(lambda: not len(scheduler))
    job_id = scheduler.every("10ms", places)
    assert wait_until(lambda: scheduler.get_job(job_id).run_count > 2)


def test_a_child_that_raises_ctrl_c_does_not_end_the_private_loop(make_scheduler, places, logged):
    kept = []

    async def child():
        raise KeyboardInterrupt

    async def rude():
        kept.append(asyncio.create_task(child()))

    scheduler = make_scheduler()
    scheduler.after(0, rude)
    scheduler.start_background()
    assert wait_until(lambda: logged)
    job_id = scheduler.every("10ms", places)
    assert wait_until(lambda: scheduler.get_job(job_id).run_count > 2)
    assert isinstance(kept.pop().exception(), KeyboardInterrupt)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_coroutine_does_not_tear_down_the_users_loop(make_scheduler, error, logged):
    async def job():
        raise error

    async def main():
        async with make_scheduler() as scheduler:
            job_id = scheduler.every("5ms", job)
            await until(lambda: scheduler.get_job(job_id).error_count >= 3)

    asyncio.run(main())
    assert error.__name__ in logged[0][1]


def test_a_loop_that_is_closed_fails_the_runs(make_scheduler, logged):
    loop = asyncio.new_event_loop()
    loop.close()
    scheduler = make_scheduler(loop=loop)
    job_id = scheduler.every("5ms", nap)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).error_count > 2)
    assert scheduler.get_job(job_id).last_error == "RuntimeError: the event loop for the coroutines is closed"


def test_a_captured_loop_that_runs_no_more_fails_the_runs(make_scheduler, logged):
    scheduler = make_scheduler()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(scheduler.__aenter__())
    job_id = scheduler.every("5ms", nap)
    assert wait_until(lambda: scheduler.get_job(job_id).error_count > 2)
    assert "is not running" in scheduler.get_job(job_id).last_error
    loop.close()
    count = scheduler.get_job(job_id).error_count
    assert wait_until(lambda: scheduler.get_job(job_id).error_count > count + 2)
    assert "is closed" in scheduler.get_job(job_id).last_error


def test_what_ran_on_a_loop_that_was_closed_has_failed(make_scheduler, logged):
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    scheduler = make_scheduler(loop=loop)
    scheduler.start_background()
    job_id = scheduler.every("1h", functools.partial(asyncio.sleep, 100), immediate=True, timeout="1h")
    assert wait_until(lambda: scheduler.get_job(job_id).running)
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    assert scheduler.shutdown() == []
    assert "closed" in scheduler.get_job(job_id).last_error
    gc.collect()


def test_a_start_that_fails_captures_nothing(make_scheduler, places):
    scheduler = make_scheduler()
    scheduler.start_background()

    async def main():
        with pytest.raises(RuntimeError, match="running already"):
            async with scheduler:
                pass
        scheduler.after(0, places)
        assert await asyncio.to_thread(wait_until, lambda: places.seen)

    asyncio.run(main())
    assert places.seen[0][1].name == "pysched-asyncio"


def test_async_with_after_a_shutdown_warns(make_scheduler, logged):
    scheduler = make_scheduler()
    scheduler.shutdown()

    async def main():
        async with scheduler:
            assert not scheduler.running

    asyncio.run(main())
    assert "does not start again" in logged[0][1]


# What runs, and for how long.


def test_a_coroutine_occupies_no_worker(make_scheduler):
    ran = threading.Event()
    scheduler = make_scheduler(1)
    ids = [scheduler.every("1h", functools.partial(nap, 100), immediate=True) for _ in range(50)]
    ids += [scheduler.every("1h", functools.partial(asyncio.sleep, 100), immediate=True) for _ in range(50)]
    scheduler.start_background()
    assert wait_until(lambda: all(scheduler.get_job(job_id).running == 1 for job_id in ids))
    scheduler.after(0, ran.set)
    assert ran.wait(WAIT)
    assert scheduler.stats().running == 100
    assert scheduler.is_healthy()
    scheduler._check()
    assert scheduler.shutdown() == []
    assert all(scheduler.get_job(job_id).error_count == 1 for job_id in ids)


@pytest.mark.parametrize("options", [{}, {"timeout": "1h"}, {"max_retries": 2}], ids=str)
def test_the_run_is_known_in_tasks_and_threads(make_scheduler, options):
    seen = []

    async def look():
        await asyncio.sleep(0.001)
        seen.append(current_run())
        seen.append(await asyncio.to_thread(current_run))
        seen.extend(await asyncio.gather(asyncio.create_task(ask())))

    async def ask():
        return current_run()

    def job():
        seen.append(current_run())
        return look()

    scheduler = make_scheduler()
    scheduler.after("1ms", job, id="k", **options)
    with scheduler:
        assert wait_until(lambda: len(seen) == 4)
    assert seen[0].job_id == "k"
    assert all(run is seen[0] for run in seen)


def test_a_time_out_cancels_the_task(make_scheduler):
    seen = []

    async def job(cancel):
        try:
            await asyncio.sleep(100)
        finally:
            seen.append(cancel.cancelled)

    scheduler = make_scheduler(1)
    job_id = scheduler.every("20ms", job, timeout="10ms")
    scheduler.start_background()
    assert wait_until(lambda: len(seen) >= 3)
    info = scheduler.get_job(job_id)
    assert info.timeout_count >= 2
    assert info.timeout_count == info.error_count
    assert all(seen)
    assert wait_until(lambda: scheduler.stats().abandoned == 0)


def test_a_coroutine_that_does_not_let_go_is_listed(make_scheduler):
    release = []

    async def job():
        while not release:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass

    scheduler = make_scheduler(1)
    scheduler.after("1ms", job, timeout="10ms", id="timed out")
    scheduler.after("1ms", lambda: job(), id="plain")
    scheduler.start_background()
    assert wait_until(lambda: scheduler.stats().abandoned == 1)
    assert scheduler.is_healthy()
    assert sorted(info.id for info in scheduler.shutdown(timeout="50ms")) == ["plain", "timed out"]
    release.append(1)
    assert wait_until(lambda: scheduler.shutdown() == [])


def test_retries_and_errors(make_scheduler):
    told = []

    async def job(ctx):
        await asyncio.sleep(0)
        if ctx.attempt < 3:
            raise ValueError(ctx.attempt)

    scheduler = make_scheduler(on_error=lambda error, run: told.append((str(error), run.attempt)))
    job_id = scheduler.every("1h", job, max_retries=5, retry_backoff="1ms", immediate=True)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).run_count)
    assert told == [("1", 1), ("2", 2)]


class Threads:
    """An executor that is no ThreadPoolExecutor: a thread for each."""

    def submit(self, function, *args):
        future = Future()

        def run():
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run).start()
        return future


@pytest.mark.parametrize("executor", [Threads, lambda: ThreadPoolExecutor(2)], ids=["threads", "pool"])
@pytest.mark.parametrize("callback", [nap, functools.partial(asyncio.sleep, 0.001)], ids=["plain", "managed"])
def test_other_executors(make_scheduler, executor, callback):
    executor = executor()
    scheduler = make_scheduler(executor=executor)
    job_id = scheduler.every("10ms", callback)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).run_count >= 3)
    assert scheduler.get_job(job_id).error_count == 0
    scheduler.shutdown()
    scheduler._check()
    if isinstance(executor, ThreadPoolExecutor):
        executor.shutdown()


def test_many_at_once(make_scheduler):
    """Starts, ends, time-outs and cancellations on several threads; everything is accounted for."""
    ended = []

    async def job(seconds):
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.append(seconds)

    async def main():
        async with make_scheduler(4) as scheduler:
            for number in range(100):
                callback = functools.partial(job, 0.001 * (number % 7))
                options = {} if number % 2 else {"timeout": 0.003}
                scheduler.every("5ms", callback, max_instances=1 + number % 3, **options)
            await asyncio.sleep(0.5)
        return scheduler

    scheduler = asyncio.run(main())
    scheduler._check()
    infos = [scheduler.get_job(each["id"]) for each in scheduler.list_jobs()]
    assert all(info.running == 0 for info in infos)
    assert sum(info.run_count for info in infos) > 100
    assert sum(info.run_count + info.error_count for info in infos) == sum(info.started_count for info in infos)
    assert scheduler.stats().abandoned == scheduler.stats().running == 0


# Waiting.


@pytest.mark.parametrize("options", [{}, {"timeout": "1h"}], ids=str)
@pytest.mark.parametrize("wrap", [False, True])
def test_wait_idle_waits_for_coroutines(make_scheduler, options, wrap):
    seen = []

    async def job():
        await asyncio.sleep(0.02)
        seen.append(1)

    scheduler = make_scheduler()
    scheduler.start_background()
    for round_ in range(10):
        job_id = scheduler.every("1h", (lambda: job()) if wrap else job, immediate=True, **options)
        assert scheduler.wait_idle(WAIT)
        assert len(seen) == round_ + 1
        assert scheduler.get_job(job_id).run_count == 1


def test_wait_idle_on_the_loop_is_refused(make_scheduler):
    seen = []

    async def job(scheduler):
        with pytest.raises(RuntimeError, match="wait for itself"):
            scheduler.wait_idle()
        seen.append(1)

    async def main():
        async with make_scheduler() as scheduler:
            scheduler.after(0, job, args=[scheduler])
            await until(lambda: seen)
            await job(scheduler)
            assert await asyncio.to_thread(scheduler.wait_idle, WAIT)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "kill"), reason="a platform without signals")
@pytest.mark.parametrize("wrap", ["job", "lambda: job()"])
def test_run_waits_for_coroutines_at_a_signal(engine_name, wrap):
    program = f"""
        import asyncio, os, signal
        from pysched import Scheduler

        async def job():
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(0.1)
                print("cleaned up")

        scheduler = Scheduler()
        scheduler.after(0, {wrap})
        scheduler.run(handle_signals=True)
        print(scheduler.stats().running)
    """
    process = run_python(program, engine=engine_name)
    assert_quiet(process)
    assert process.stdout == "cleaned up\n0\n"


# Shutdown.


def test_async_with_cancels_what_runs_while_the_loop_goes_on(make_scheduler):
    ticks, began = [], []

    async def clean_up():
        began.append(1)
        try:
            await asyncio.sleep(100)
        finally:
            await until(lambda: len(ticks) > 5)
            ticks.append("clean")

    async def tick():
        while True:
            ticks.append("tick")
            await asyncio.sleep(0.005)

    async def main():
        scheduler = make_scheduler()
        async with scheduler:
            scheduler.after(0, clean_up)
            scheduler.after(0, lambda: clean_up())
            await until(lambda: len(began) == 2)
            ticker = asyncio.create_task(tick())
        ticker.cancel()

    asyncio.run(main())
    assert ticks.count("clean") == 2


@pytest.mark.parametrize("closed", [False, True], ids=["the wait was cancelled", "the loop is closed"])
def test_a_shutdown_that_fails_when_nobody_waits_for_it_any_more_is_logged(logged, closed):
    begun, release = threading.Event(), threading.Event()

    def fails():
        begun.set()
        release.wait(WAIT)
        raise LookupError("too late")

    async def main():
        task = asyncio.create_task(in_thread(fails))
        await until(begun.is_set)
        task.cancel()
        await asyncio.wait([task])
        if not closed:
            release.set()
            await until(lambda: logged)

    asyncio.run(main())
    release.set()
    assert wait_until(lambda: logged)
    [(level, text, _)] = logged
    assert level == "ERROR"
    assert "LookupError: too late" in text


@pytest.mark.parametrize("where", ["body", "coroutine", "callback of the loop", "thread", "task"])
def test_a_shutdown_on_the_loops_own_thread_signals_and_returns(make_scheduler, where):
    async def main():
        done = asyncio.Event()

        def shut_down():
            began = time.monotonic()
            scheduler.shutdown()
            done.set()
            assert time.monotonic() - began < 5

        async def stays():
            await asyncio.sleep(100)

        async def job():
            if where == "thread":
                await asyncio.to_thread(scheduler.shutdown)
            elif where == "task":
                await asyncio.gather(*[asyncio.create_task(asyncio.to_thread(scheduler.shutdown))])
            else:
                shut_down()
            done.set()

        async with make_scheduler() as scheduler:
            scheduler.after(0, stays)
            if where == "body":
                shut_down()
            elif where == "callback of the loop":
                asyncio.get_running_loop().call_soon(shut_down)
            else:
                scheduler.after("5ms", job)
            await until(lambda: not scheduler.running)
            assert not scheduler.running

    asyncio.run(asyncio.wait_for(main(), WAIT))


def test_a_shutdown_inside_a_coroutine_on_the_private_loop(make_scheduler):
    left = []

    async def job():
        left.append([info.id for info in scheduler.shutdown()])
        await asyncio.sleep(100)

    scheduler = make_scheduler()
    scheduler.after("1ms", job, id="k")
    scheduler.start_background()
    assert wait_until(lambda: not scheduler.running)
    assert wait_until(lambda: "pysched-asyncio" not in [thread.name for thread in threading.enumerate()])
    assert left == [["k"]]


def test_a_callback_that_shuts_down_does_not_wait_for_coroutines(make_scheduler):
    left = []
    scheduler = make_scheduler()

    async def stays():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.05)

    def job():
        if scheduler.stats().running >= 2 and not left:
            left.append([info.id for info in scheduler.shutdown()])

    scheduler.after(0, stays, id="k")
    scheduler.every("1ms", job, id="job")
    scheduler.start_background()
    assert wait_until(lambda: left)
    assert left == [["k", "job"]]


def test_a_cancelled_async_with_shuts_down_all_the_same(make_scheduler):
    scheduler = make_scheduler()

    async def main():
        async with scheduler:
            scheduler.every("1ms", nap)
            await asyncio.sleep(0.02)
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert not scheduler.running


def test_a_scheduler_whose_runs_have_ended_is_collected(scheduler_type):
    scheduler = scheduler_type(timezone="UTC", on_error=lambda *_: None)

    async def job():
        raise ValueError

    job_id = scheduler.every("1ms", job)
    scheduler.every("1ms", nap)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).error_count > 2)
    scheduler.shutdown()
    known = weakref.ref(scheduler)
    scheduler = None
    assert wait_until(lambda: gc.collect() is not None and known() is None)  # a worker may be about to let go of it


def test_one_that_is_not_shut_down_leaves_no_loop_behind(scheduler_type):
    scheduler = scheduler_type(timezone="UTC")
    scheduler.after(0, nap)
    scheduler.start_background()
    assert wait_until(lambda: not len(scheduler))
    scheduler._engine.stop(None)  # as when `run` ends with Ctrl-C
    scheduler = None

    def is_gone():
        gc.collect()  # again, if the loop's thread was in the middle of something
        return "pysched-asyncio" not in [thread.name for thread in threading.enumerate()]

    assert wait_until(is_gone)


# A loop that serves others.


@pytest.mark.parametrize("how", ["a second shutdown", "a task that stops the loop"])
def test_what_a_coroutine_left_behind_ends_although_the_loop_is_stopped_once_more(make_scheduler, monkeypatch, how):
    monkeypatch.setattr(private_loop, "LEAVE_S", WAIT)
    scheduler = make_scheduler()
    begun, cancelled, again, ended = (threading.Event() for _ in range(4))
    tasks = []

    async def stays():
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.set()
            if how == "a task that stops the loop":
                asyncio.get_running_loop().stop()
            await until(again.is_set)
            ended.set()

    async def job():
        tasks.append(asyncio.create_task(stays()))
        await until(begun.is_set)

    scheduler.after(0, job)
    scheduler.start_background()
    assert begun.wait(WAIT)
    assert wait_until(lambda: not scheduler._runner.has_open())
    scheduler.shutdown(timeout=0.01)
    assert cancelled.wait(WAIT)
    scheduler.shutdown(timeout=0.01)
    again.set()
    assert ended.wait(WAIT)
    scheduler.shutdown(timeout=WAIT)
    assert wait_until(lambda: tasks[0].get_loop().is_closed())


def test_ten_thousand_runs_a_second_leave_the_loop_responsive(make_scheduler):
    """Here about 3,000 runs in half a second, and nothing but a loop that hangs fails; measured apart."""
    late = []
    count = 0

    async def job():
        nonlocal count
        count += 1

    async def main():
        async with make_scheduler(2) as scheduler:
            for _ in range(60):
                scheduler.every("10ms", job)
            for _ in range(50):
                began = time.monotonic()
                await asyncio.sleep(0.01)
                late.append(time.monotonic() - began - 0.01)

    asyncio.run(main())
    assert count > 500
    assert sorted(late)[25] < 1


# Processes.


@pytest.mark.parametrize("options", ["", ", timeout=50"])
@pytest.mark.parametrize("stubborn", [False, True])
def test_an_exit_with_coroutines_on_the_private_loop_is_quiet_and_quick(engine_name, options, stubborn):
    program = f"""
        import asyncio, time
        from pysched import Scheduler

        async def job():
            kept.append(asyncio.create_task(asyncio.sleep(1000)))
            while True:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    if not {stubborn}:
                        raise

        kept = []
        scheduler = Scheduler(2)
        for _ in range(20):
            scheduler.every("1ms", lambda: job(), max_instances=20{options})
            scheduler.every("1ms", job, max_instances=20{options})
        scheduler.start_background()
        while scheduler.stats().running < 100:
            time.sleep(0.01)
        print(time.time())
    """
    process = run_python(program, engine=engine_name)
    assert_quiet(process)
    assert time.time() - float(process.stdout) < 10


@forks
@pytest.mark.parametrize("leave", ["os._exit(0)", "raise SystemExit(0)"])
def test_a_child_forgets_the_runs_of_its_parent(engine_name, leave):
    program = f"""
        import asyncio, os, time
        from pysched import Scheduler

        def wait_for(predicate):
            deadline = time.monotonic() + 20
            while not predicate():
                assert time.monotonic() < deadline
                time.sleep(0.001)

        async def job():
            await asyncio.sleep(0.3)

        scheduler = Scheduler(2)
        ids = [scheduler.every("1h", job, immediate=True), scheduler.every("1h", lambda: job(), immediate=True)]
        ids.append(scheduler.every("1h", job, immediate=True, timeout=100))
        scheduler.start_background()
        wait_for(lambda: all(scheduler.get_job(i).running for i in ids))
        child = os.fork()
        if child == 0:
            scheduler._check()
            assert all(scheduler.get_job(i).running == 0 for i in ids), "they are the parent's"
            assert scheduler.stats().running == 0
            scheduler.start_background()
            for i in ids:
                assert scheduler.run_job(i)
            wait_for(lambda: all(scheduler.get_job(i).run_count == 1 for i in ids))
            assert scheduler.shutdown() == []
            scheduler._check()
            {leave}
        wait_for(lambda: all(scheduler.get_job(i).run_count == 1 for i in ids))
        assert os.waitpid(child, 0)[1] == 0
        for i in ids:
            assert scheduler.run_job(i)
        wait_for(lambda: all(scheduler.get_job(i).run_count == 2 for i in ids))
        assert scheduler.shutdown() == []
        scheduler._check()
    """
    assert_quiet(run_python(program, engine=engine_name))


@forks
def test_a_child_on_a_manual_clock(engine_name):
    program = """
        import asyncio, os
        from pysched import Scheduler
        from pysched.testing import ManualClock

        async def job():
            await asyncio.sleep(3)

        clock = ManualClock()
        scheduler = Scheduler(clock=clock)
        scheduler.start_background()
        ids = [scheduler.every("10s", job), scheduler.every("10s", lambda: job())]
        clock.advance(11)
        child = os.fork()
        if child == 0:
            assert all(scheduler.get_job(i).running == 0 for i in ids)
            clock.advance(5)
            scheduler.start_background()
            clock.advance(10)
            assert all(scheduler.get_job(i).run_count == 1 for i in ids)
            scheduler.shutdown()
            scheduler._check()
            raise SystemExit(0)
        assert os.waitpid(child, 0)[1] == 0
        clock.advance(13)
        assert all(scheduler.get_job(i).run_count == 2 for i in ids)
        scheduler.shutdown()
        scheduler._check()
    """
    assert_quiet(run_python(program, engine=engine_name))


def test_an_import_brings_in_no_asyncio_and_neither_do_functions(engine_name):
    program = """
        import sys, time
        from pysched import Scheduler

        with Scheduler() as scheduler:
            scheduler.every("1ms", lambda: None, id="plain")
            scheduler.every("1ms", lambda: None, timeout=5, id="managed")
            while not all(scheduler.get_job(name).run_count > 3 for name in ("plain", "managed")):
                time.sleep(0.001)
        assert "asyncio" not in sys.modules
    """
    assert_quiet(run_python(program, engine=engine_name))
