"""`Scheduler`: coroutines as callbacks, in virtual time: what runs, what ends it, and what is counted."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import inspect
import itertools
import sys
import threading
import weakref
from datetime import datetime, timezone

import pytest
from support import assert_quiet, label, nothing, run_python

from pysched import JobCancelled, current_run
from pysched.testing import ManualClock

OPTIONS = [{}, {"timeout": 50}, {"max_retries": 1}, {"on_error": nothing}]


def counts(info):
    return info.run_count, info.error_count, info.timeout_count, info.running


class Awaitable:
    """An object that can be awaited and is no coroutine; so are those that Cython makes."""

    def __init__(self, delay):
        self.delay = delay

    def __await__(self):
        return asyncio.sleep(self.delay).__await__()


class AsyncCall:
    async def __call__(self):
        await asyncio.sleep(2)


async def two_seconds():
    await asyncio.sleep(2)


KINDS = {
    "def": two_seconds,
    "call": AsyncCall(),
    "method": AsyncCall().__call__,
    "partial": functools.partial(asyncio.sleep, 2),
    "partial of call": functools.partial(functools.partial(AsyncCall())),
    "lambda": lambda: two_seconds(),
    "object": lambda: Awaitable(2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=label)
@pytest.mark.parametrize("register", ["every", "cron", "after", "at"])
def test_what_gives_an_awaitable_is_awaited(scheduler, clock, kind, options, register):
    when = {"every": "60s", "cron": "* * * * *", "after": "60s", "at": datetime(2000, 1, 1, 0, 1, tzinfo=timezone.utc)}
    job_id = getattr(scheduler, register)(when[register], KINDS[kind], **options)
    assert clock.advance(61) == 1
    info = scheduler.get_job(job_id)
    assert counts(info) == (0, 0, 0, 1), "it goes on"
    assert scheduler.stats().running == 1
    scheduler._check()
    assert clock.advance(2) == 0
    if register in ("after", "at"):
        with pytest.raises(KeyError):
            scheduler.get_job(job_id)
    else:
        info = scheduler.get_job(job_id)
        assert counts(info) == (1, 0, 0, 0)
        assert str(info.last_run_at)[:19] == "2000-01-01 00:01:02"
    assert scheduler.stats().running == 0
    assert scheduler.stats().errors == 0


def test_decorators_take_them_too(scheduler, clock):
    seen = []

    @scheduler.every("1s")
    async def job():
        seen.append(clock.time())

    clock.advance(3)
    assert seen == [1.0, 2.0, 3.0]
    assert inspect.iscoroutinefunction(job)


async def generator():
    yield


def refused():
    coroutine = two_seconds()
    yield coroutine, "got coroutine: give the function itself"
    coroutine.close()
    yield generator, "async generator"
    yield functools.partial(generator), "async generator"
    yield 5, "must be callable, got int"


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("options", [{}, {"timeout": 1}], ids=str)
def test_what_cannot_be_awaited_is_refused(make_scheduler, number, options):
    scheduler = make_scheduler()
    callbacks = refused()
    for _ in range(number + 1):
        callback, message = next(callbacks)
    for register in (scheduler.every, scheduler.after):
        with pytest.raises(TypeError, match=message):
            register("1s", callback, **options)
    list(callbacks)
    assert len(scheduler) == 0


# Virtual time.


def test_sleeps_are_timers_of_the_clock(scheduler, clock):
    seen = []

    async def job(name, *delays):
        for delay in delays:
            await asyncio.sleep(delay)
            seen.append((clock.time(), name))

    scheduler.after("1s", job, args=["a", 5, 5])  # 6, 11
    scheduler.after("2s", job, args=["b", 3, 0, 7])  # 5, 5, 12
    scheduler.after("10s", lambda: seen.append((clock.time(), "function")))
    assert clock.advance("1h") == 3
    assert seen == [(5, "b"), (5, "b"), (6, "a"), (10, "function"), (11, "a"), (12, "b")]
    assert clock.time() == 3600


def test_each_goes_as_far_as_it_can_before_the_next_begins(scheduler, clock):
    """In the order of (due, submission), as functions do, though it may have to wait for its loop more than once."""
    seen = []

    async def job(name):
        for step in range(3):
            seen.append((name, step))
            await asyncio.sleep(0)

    scheduler.after(1, job, args=["a"])
    scheduler.after(1, lambda: seen.append("function"))
    scheduler.after(1, job, args=["b"])
    clock.advance(1)
    assert seen == [("a", 0), ("a", 1), ("a", 2), "function", ("b", 0), ("b", 1), ("b", 2)]


def test_time_outs_of_asyncio(scheduler, clock):
    seen = []

    async def job():
        try:
            await asyncio.wait_for(asyncio.sleep(10), 3)
        except asyncio.TimeoutError:
            seen.append(clock.time())
        if sys.version_info >= (3, 11):
            try:
                async with asyncio.timeout(4):
                    await asyncio.Event().wait()
            except TimeoutError:
                seen.append(clock.time())

    job_id = scheduler.every("100s", job)
    clock.advance(150)
    assert seen == [103, 107][: 2 if sys.version_info >= (3, 11) else 1]
    assert counts(scheduler.get_job(job_id)) == (1, 0, 0, 0)


def test_the_loop_tells_the_time_of_the_clock(scheduler, clock):
    seen = []

    async def job():
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, lambda: seen.append(loop.time()))
        timer = loop.call_at(loop.time() + 0.2, seen.append, "cancelled")
        loop.call_at(loop.time() + 0.3, timer.cancel)
        await asyncio.sleep(0.15)
        timer.cancel()
        seen.append(loop.time())

    scheduler.after(1, job)
    clock.advance(10)
    assert seen == pytest.approx([1.1, 1.15])


def test_a_thousand_coroutines_at_once_and_timers_that_are_cancelled(scheduler, clock):
    ends = []

    async def job():
        await asyncio.gather(*(asyncio.wait_for(asyncio.sleep(i / 1000), 1000) for i in range(1000)))
        ends.append(clock.time())

    scheduler.after(1, job)
    clock.advance(5)
    assert ends == [1.999]


def test_nothing_runs_in_a_thread(scheduler, clock):
    seen = []

    async def job():
        seen.append(await asyncio.to_thread(threading.current_thread))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    scheduler.after(1, job)
    before = threading.enumerate()
    clock.advance(1)
    assert seen == [threading.current_thread()]
    assert threading.enumerate() == before


def test_one_that_never_gets_on_is_an_error(scheduler, clock, monkeypatch):
    monkeypatch.setattr("pysched.virtual_loop.STEPS_AN_INSTANT", 1000)

    async def job():
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    scheduler.after(1, job)
    with pytest.raises(RuntimeError, match="1000 steps"):
        clock.advance(1)


def test_a_sleep_of_the_clock_starts_nothing(scheduler, clock):
    seen = []

    async def sleeper():
        await asyncio.sleep(1)
        seen.append(("woken", clock.time()))

    async def job():
        clock.sleep(5)
        seen.append(("slept", clock.time()))

    scheduler.after(1, sleeper)
    scheduler.after(1.5, job)
    clock.advance(10)
    assert seen == [("slept", 6.5), ("woken", 6.5)]


def test_schedulers_on_one_clock(make_scheduler, clock):
    seen = []
    for name in "ab":
        scheduler = make_scheduler(clock=clock)
        scheduler.start_background()

        async def job(name=name):
            for _ in range(2):
                await asyncio.sleep(1)
                seen.append(name)

        scheduler.after(1, job)
    clock.advance(10)
    assert seen == ["a", "b", "a", "b"]


def test_inside_a_running_loop(scheduler, clock):
    seen = []

    async def job():
        await asyncio.sleep(1)
        seen.append(clock.time())

    async def main():
        scheduler.every("10s", job)
        assert clock.advance(5) == 0, "no coroutine has to run"
        with pytest.raises(RuntimeError, match="advance_async"):
            clock.advance(6)
        assert await clock.advance_async(25) == 2
        with pytest.raises(TypeError, match="duration"):
            await clock.advance_async(None)
        scheduler.shutdown()

    asyncio.run(main())
    assert seen == [11, 21, 31]


def test_a_scheduler_that_was_entered_in_a_running_loop_is_in_virtual_time_all_the_same(make_scheduler, clock):
    seen = []

    async def job():
        await asyncio.sleep(3600)
        seen.append(clock.time())

    async def main():
        async with make_scheduler(clock=clock) as scheduler:
            scheduler.every("1s", job)
            await clock.advance_async(3601)

    asyncio.run(main())
    assert seen == [3601]


# What a coroutine learns of its run.


def test_parameters_are_filled(scheduler, clock):
    seen = []

    async def job(ctx, cancel):
        await asyncio.sleep(1)
        seen.append((ctx.attempt, ctx.cancel is cancel, current_run() is ctx, ctx.job_id))

    scheduler.every("10s", job, id="k")
    scheduler.every("10s", functools.partial(job), id="p")
    clock.advance(12)
    assert seen == [(1, True, True, "k"), (1, True, True, "p")]


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=str)
def test_the_current_run_is_known_wherever_a_context_goes(scheduler, clock, options):
    seen = []
    variable = contextvars.ContextVar("variable", default="nothing")

    async def look():
        seen.append(current_run())
        await asyncio.sleep(1)
        seen.append(current_run())
        seen.append(await asyncio.to_thread(current_run))
        seen.append(await asyncio.create_task(asyncio.sleep(1, variable.get())))

    def job():
        seen.append(current_run())
        variable.set("mine")
        return look()

    scheduler.every("10s", job, id="k", **options)
    clock.advance(13)
    first, *runs, value = seen
    assert value == "mine"
    assert first.job_id == "k"
    assert all(run is first for run in runs)
    assert len(runs) == 3
    assert current_run() is None


# Errors.


@pytest.mark.parametrize("options", [{}, {"timeout": 50}], ids=str)
@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("wrap", [False, True])
def test_what_is_raised_fails_the_run_and_nothing_else(make_scheduler, clock, options, error, wrap):
    told = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append((error, run, current_run())))
    scheduler.start_background()

    async def job():
        await asyncio.sleep(1)
        raise error

    job_id = scheduler.every("10s", (lambda: job()) if wrap else job, **options)
    clock.advance(25)
    info = scheduler.get_job(job_id)
    assert counts(info) == (0, 2, 0, 0)
    assert info.last_error.startswith(type(error).__name__)
    assert [each[0] for each in told] == [error, error]
    assert all(run is current and run.job_id == job_id for _, run, current in told)
    assert scheduler.stats().errors == 2


def test_an_error_is_logged_with_its_traceback(scheduler, clock, logged):
    async def job():
        await asyncio.sleep(1)
        raise ValueError("bad")

    scheduler.after(1, job, id="k")
    clock.advance(5)
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("ERROR", True)
    assert "job k (job)" in text
    assert 'raise ValueError("bad")' in text


def test_a_cancellation_of_its_own_is_a_failed_attempt(scheduler, clock, logged):
    attempts = []

    async def job(ctx):
        attempts.append(ctx.attempt)
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

    job_id = scheduler.every("100s", job, max_retries=1)
    clock.advance(150)
    assert attempts == [1, 2]
    assert counts(scheduler.get_job(job_id)) == (0, 1, 0, 0)
    assert scheduler.get_job(job_id).last_error == "CancelledError"
    assert len(logged) == 2


def test_retries(scheduler, clock, logged):
    seen = []

    async def job(ctx):
        seen.append((ctx.attempt, ctx.run_id))
        await asyncio.sleep(1)
        if ctx.attempt < 3:
            raise ValueError

    job_id = scheduler.every("100s", job, max_retries=5, retry_backoff=2)
    assert clock.advance(101.5) == 1
    assert scheduler.get_job(job_id).running == 1, "its instance is kept while it waits"
    assert clock.advance(40) == 2
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert len({run_id for _, run_id in seen}) == 1
    assert counts(scheduler.get_job(job_id)) == (1, 0, 0, 0)
    assert len(logged) == 2


def test_what_the_callback_raises_before_there_is_a_coroutine(scheduler, clock, logged):
    job_id = scheduler.every("1s", functools.partial(two_seconds.__call__), timeout=5)
    broken = scheduler.every("1s", lambda: two_seconds(1))
    clock.advance(1)
    assert counts(scheduler.get_job(job_id)) == (0, 0, 0, 1)
    assert counts(scheduler.get_job(broken)) == (0, 1, 0, 0)
    assert len(logged) == 1


# Time-outs.


def test_a_time_out_cancels_the_task(scheduler, clock):
    seen = []

    async def job(cancel):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            seen.append((clock.time(), cancel.cancelled, scheduler.get_job(job_id).running))
            raise

    job_id = scheduler.every("10s", job, timeout="2s")
    clock.advance(25)
    assert seen == [(12, True, 0), (22, True, 0)]
    info = scheduler.get_job(job_id)
    assert counts(info) == (0, 2, 2, 0)
    assert info.last_error == "TimeoutError: timed out after 2 s"
    assert scheduler.stats().abandoned == 0
    assert scheduler.is_healthy()


def test_a_time_out_spans_all_attempts(scheduler, clock, logged):
    async def job():
        await asyncio.sleep(1)
        raise ValueError

    job_id = scheduler.every("100s", job, max_retries=100, retry_backoff=1, timeout=20)
    clock.advance(150)
    assert counts(scheduler.get_job(job_id)) == (0, 1, 1, 0)


def test_a_clean_up_after_a_time_out_comes_to_its_end(scheduler, clock):
    seen = []

    async def job():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(3)
            seen.append(clock.time())

    job_id = scheduler.after("10s", job, timeout="2s")
    other = scheduler.every("10s", job, timeout="2s")
    clock.advance(13)
    with pytest.raises(KeyError):
        scheduler.get_job(job_id)
    assert scheduler.stats().abandoned == 2
    assert scheduler.is_healthy(), "they occupy no worker"
    assert scheduler.get_job(other).running == 0
    clock.advance(2.5)
    assert seen == [15, 15]
    assert scheduler.stats().abandoned == 0
    assert counts(scheduler.get_job(other)) == (0, 1, 1, 0)


def test_an_error_in_the_clean_up_is_told(scheduler, clock, logged):
    async def job():
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("clean-up")

    job_id = scheduler.every("10s", job, timeout="2s")
    clock.advance(15)
    assert [level for level, _, _ in logged] == ["WARNING", "ERROR"]
    assert scheduler.get_job(job_id).last_error.startswith("TimeoutError")


def test_one_that_swallows_the_cancellation_is_abandoned(make_scheduler, clock):
    scheduler = make_scheduler(1, clock=clock)
    scheduler.start_background()

    async def job():
        for _ in range(3):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                pass

    scheduler.after("10s", job, timeout="2s", id="k")
    clock.advance(15)
    assert scheduler.stats().abandoned == 1
    assert scheduler.is_healthy()
    assert [info.id for info in scheduler.shutdown()] == ["k"]
    clock.advance(50)
    assert scheduler.shutdown() == []
    assert scheduler.stats().abandoned == 0


def test_a_function_that_hangs_before_its_coroutine_does_occupy_a_worker(make_scheduler, clock):
    scheduler = make_scheduler(1, clock=clock)
    scheduler.start_background()
    seen = []

    def job():
        clock.sleep(5)
        seen.append((scheduler.stats().abandoned, scheduler.is_healthy()))
        return two_seconds()

    job_id = scheduler.every("10s", job, timeout=1)
    clock.advance(16)
    assert seen == [(1, False)]
    assert counts(scheduler.get_job(job_id)) == (0, 1, 1, 0)
    assert (scheduler.stats().abandoned, scheduler.is_healthy()) == (0, True), "its coroutine did not begin"


# Instances, removals, pauses.


def test_max_instances(scheduler, clock):
    running = []

    async def job():
        await asyncio.sleep(2.5)

    one = scheduler.every("1s", job)
    two = scheduler.every("1s", lambda: job(), max_instances=2)
    for _ in range(12):
        clock.advance(1)
        running.append((scheduler.get_job(one).running, scheduler.get_job(two).running))
        scheduler._check()
    assert running[:6] == [(1, 1), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2)]
    assert scheduler.get_job(one).coalesced_count == 8
    assert scheduler.run_job(one) is False


def test_a_run_besides_the_slots(scheduler, clock):
    job_id = scheduler.every("1h", two_seconds)
    assert scheduler.run_job(job_id)
    assert not scheduler.run_job(job_id)
    assert clock.advance(3) == 1
    assert scheduler.get_job(job_id).run_count == 1


@pytest.mark.parametrize("options", [{}, {"max_retries": 3}], ids=str)
def test_a_removal_lets_the_run_go_on(scheduler, clock, logged, options):
    seen = []

    async def job(fails):
        await asyncio.sleep(5)
        seen.append((clock.time(), current_run().cancel.cancelled))
        if fails:
            raise ValueError

    ids = [scheduler.every("10s", functools.partial(job, fails), **options) for fails in (False, True)]
    ids.append(scheduler.every("10s", lambda: job(False)))
    once = scheduler.after("10s", job, args=[False], **options)
    clock.advance(11)
    assert [scheduler.remove_job(job_id) for job_id in ids] == [True] * 3
    assert scheduler.remove_job(once) is False
    assert len(scheduler) == 0
    if not options:
        assert sorted(info.id for info in scheduler.shutdown(wait=False)) == []
    clock.advance(100)
    if options:
        assert seen == [(15, False)] * 4
        assert len(logged) == 1, "no retry follows"
    assert len(scheduler) == 0


def test_a_removed_job_that_goes_on_is_listed_by_shutdown(scheduler, clock):
    async def stubborn():
        try:
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(5)

    ids = [scheduler.every("10s", stubborn), scheduler.every("10s", lambda: stubborn())]
    clock.advance(11)
    for job_id in ids:
        scheduler.remove_job(job_id)
    assert [info.id for info in scheduler.shutdown()] == ids
    clock.advance(6)
    assert scheduler.shutdown() == []


def test_a_new_grid_lets_the_run_go_on(scheduler, clock):
    job_id = scheduler.every("10s", two_seconds)
    clock.advance(11)
    scheduler.reschedule_job(job_id, every="1s")
    clock.advance(0.5)
    assert scheduler.get_job(job_id).running == 1
    clock.advance(10.6)
    assert scheduler.get_job(job_id).run_count == 4


def test_pauses_let_the_run_go_on(scheduler, clock):
    job_id = scheduler.every("10s", two_seconds)
    clock.advance(11)
    scheduler.pause_job(job_id)
    clock.advance(100)
    assert counts(scheduler.get_job(job_id)) == (1, 0, 0, 0)


# Shutdown.


@pytest.mark.parametrize("options", [{}, {"timeout": 50}], ids=str)
def test_a_shutdown_cancels_what_runs_and_reports_no_error(scheduler, clock, options):
    seen = []

    async def job():
        run = current_run()
        try:
            await asyncio.sleep(100)
        finally:
            seen.append(run.cancel.cancelled)

    ids = [scheduler.every("10s", job, **options), scheduler.every("10s", lambda: job(), **options)]
    clock.advance(11)
    assert scheduler.shutdown() == []
    assert seen == [True, True]
    for job_id in ids:
        assert counts(scheduler.get_job(job_id)) == (0, 1, 0, 0)
        assert scheduler.get_job(job_id).last_error == "CancelledError"


def test_a_retry_does_not_follow_a_shutdown(scheduler, clock):
    async def job():
        await asyncio.sleep(100)

    job_id = scheduler.every("10s", job, max_retries=5)
    clock.advance(11)
    scheduler.shutdown()
    clock.advance(100)
    assert counts(scheduler.get_job(job_id)) == (0, 1, 0, 0)


@pytest.mark.parametrize("where", ["coroutine", "lambda", "task", "timer", "handler"])
def test_a_shutdown_inside_signals_and_returns(make_scheduler, clock, where):
    seen = []
    scheduler = make_scheduler(clock=clock, on_error=lambda *_: where == "handler" and shut_down())
    scheduler.start_background()

    def shut_down():
        seen.append([info.id for info in scheduler.shutdown()])

    async def job():
        if where == "handler":
            raise ValueError
        if where == "timer":
            asyncio.get_running_loop().call_later(1, shut_down)
        elif where == "task":
            await asyncio.gather(asyncio.to_thread(shut_down), asyncio.sleep(0))
        else:
            shut_down()
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            seen.append(clock.time())
            raise

    scheduler.after(1, (lambda: job()) if where == "lambda" else job, id="k")
    clock.advance(10)
    assert not scheduler.running
    assert seen[:1] == [["k"]]
    if where in ("coroutine", "lambda", "timer"):
        assert seen[1:] == [2 if where == "timer" else 1]
    assert scheduler.shutdown() == []


def test_cancelling_by_token(scheduler, clock, logged):
    async def job(cancel):
        for _ in range(10):
            cancel.raise_if_cancelled()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass
        raise AssertionError

    job_id = scheduler.every("20s", job, timeout=2.5, max_retries=3)
    clock.advance(25)
    assert counts(scheduler.get_job(job_id)) == (0, 1, 1, 0)
    assert [level for level, _, _ in logged] == ["WARNING"]


def test_job_cancelled_is_neither_reported_nor_retried(scheduler, clock):
    async def job():
        await asyncio.sleep(1)
        raise JobCancelled("enough")

    job_id = scheduler.every("20s", job, max_retries=3)
    clock.advance(39)
    assert counts(scheduler.get_job(job_id)) == (0, 1, 0, 0)
    assert scheduler.get_job(job_id).last_error == "JobCancelled: enough"


# What is left behind.


def test_tasks_that_are_left_behind_are_cancelled_at_the_shutdown(scheduler, clock):
    seen = []
    kept = []

    async def child():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            seen.append(clock.time())
            raise

    async def items():
        try:
            yield 1
        finally:
            seen.append("generator")

    async def job():
        kept.append(asyncio.create_task(child()))
        async for _ in items():
            kept.append(asyncio.create_task(child()))
            break

    scheduler.after(1, job)
    clock.advance(2)
    scheduler.shutdown()
    gc.collect()
    assert sorted(map(str, seen)) == ["2.0", "2.0", "generator"]
    assert all(task.cancelled() for task in kept)


def test_a_scheduler_whose_runs_have_ended_is_collected(scheduler_type):
    clock = ManualClock()
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    scheduler.start_background()

    async def job(fails):
        await asyncio.sleep(1)
        if fails:
            raise ValueError

    scheduler.every("10s", job, args=[False])
    scheduler.every("10s", job, args=[True], on_error=nothing, max_retries=1)
    scheduler.every("10s", lambda: job(False))
    clock.advance(100)
    scheduler.shutdown()
    known = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    assert known() is None


def test_one_that_is_not_shut_down_goes_with_its_clock(scheduler_type):
    clock = ManualClock()
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    scheduler.start_background()
    scheduler.every("10s", two_seconds)
    clock.advance(15)
    known = weakref.ref(scheduler)
    del scheduler, clock
    gc.collect()
    assert known() is None


def test_nothing_is_said_at_the_end_of_a_program_about_what_still_ran(engine_name):
    program = """
        import asyncio
        from pysched import Scheduler
        from pysched.testing import ManualClock

        async def job():
            await asyncio.sleep(100)

        clock = ManualClock()
        scheduler = Scheduler(clock=clock)
        scheduler.start_background()
        scheduler.every("1s", job)
        scheduler.every("1s", lambda: job(), timeout=50)
        clock.advance(5)
    """
    assert_quiet(run_python(program, engine=engine_name))


# While a callback sleeps


@pytest.mark.parametrize("order", ["coroutine", "alarm"])
def test_coroutines_go_on_while_a_function_sleeps(scheduler, clock, order):
    """Its time-out comes only if it is late by its own doing."""
    seen = []

    async def takes(seconds):
        await asyncio.sleep(seconds)
        seen.append(clock.time())

    limit = {"coroutine": 60, "alarm": 3}[order]
    ids = [scheduler.after(10, takes, args=[5], timeout=limit), scheduler.after(10, lambda: clock.sleep(100))]
    infos = []
    scheduler.on("succeeded", infos.append)
    scheduler.on("timeout", infos.append)
    clock.advance(10)
    assert clock.time() == 110
    assert seen == ([15.0] if order == "coroutine" else [])
    assert scheduler.wait_idle(0)
    scheduler.shutdown()
    ended = next(event for event in infos if event.job_id == ids[0])
    assert ended.event == ("succeeded" if order == "coroutine" else "timeout")


def test_a_wait_without_limit_is_not_for_coroutines_that_go_on_for_ever(scheduler, clock, logged):
    async def ticks():
        for _ in itertools.count():
            await asyncio.sleep(1)

    scheduler.after(1, ticks)
    scheduler.after(1, lambda cancel: cancel.wait())
    clock.advance(5)
    assert "what this waits for never comes" in logged[0][1]
    assert clock.time() == 5


def test_a_sleep_in_a_coroutine_holds_up_the_others(scheduler, clock):
    """It blocks their loop."""
    seen = []

    async def blocks():
        clock.sleep(10)

    async def waits():
        await asyncio.sleep(5)
        seen.append(clock.time())

    scheduler.after(1, waits)
    scheduler.after(2, blocks)
    clock.advance(2)
    assert seen == []
    clock.advance(0)
    assert seen == [12.0]
