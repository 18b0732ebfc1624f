"""`Scheduler`: which parameters of a callback are filled, and what a callback learns of its run."""

from __future__ import annotations

import functools
import threading
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, label

from pysched import CancelToken, JobRun, current_run

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def run_once(scheduler, clock):
    """Registers a callback and lets one run of it happen; fails if that has failed."""

    def run(callback, **options):
        job_id = scheduler.every("10s", callback, **options)
        clock.advance(10)
        info = scheduler.get_job(job_id)
        assert (info.run_count, info.error_count) == (1, 0)
        scheduler.remove_job(job_id)

    return run


def kinds(values):
    return [type(value) for value in values]


class Methods:
    def __init__(self):
        self.seen = []

    def plain(self):
        self.seen.append("plain")

    def cancel_only(self, cancel):
        self.seen.append(cancel)

    def both(self, ctx, cancel=None):
        self.seen += [ctx, cancel]

    def anything(self, *args, **kwargs):
        self.seen += [args, kwargs]

    def __call__(self, ctx):
        self.seen.append(ctx)


def test_methods(run_once):
    found = Methods()
    for callback in (found.plain, found.cancel_only, found.both, found.anything, found):
        run_once(callback)
    assert kinds(found.seen) == [str, CancelToken, JobRun, CancelToken, tuple, dict, JobRun]
    assert found.seen[4:6] == [(), {}]


def test_class_and_static_methods(run_once):
    seen = []

    class Owner:
        @classmethod
        def of_class(cls, cancel):
            seen.append(cancel)

        @staticmethod
        def static(ctx):
            seen.append(ctx)

    for callback in (Owner.of_class, Owner.static, Owner().of_class, Owner().static):
        run_once(callback)
    assert kinds(seen) == [CancelToken, JobRun, CancelToken, JobRun]


def test_cancel_is_filled_in_spite_of_a_default(run_once):
    seen = []

    def by_keyword(*, cancel=None):
        seen.append(cancel)

    run_once(lambda cancel=None: seen.append(cancel))
    run_once(by_keyword)
    assert kinds(seen) == [CancelToken, CancelToken]


def test_ctx_is_filled_only_without_a_default(run_once):
    seen, ctx = [], "mine"
    run_once(lambda ctx: seen.append(ctx))
    run_once(lambda ctx=ctx: seen.append(ctx))
    run_once(lambda *, ctx: seen.append(ctx))
    run_once(lambda *, ctx=None: seen.append(ctx))
    assert kinds(seen) == [JobRun, str, JobRun, type(None)]


def test_what_is_bound_is_not_filled(run_once):
    seen = []

    def job(ctx, cancel):
        seen.append((ctx, cancel))

    run_once(job, args=(1, 2))
    run_once(job, kwargs={"ctx": 1, "cancel": 2})
    run_once(job, args=(1,), kwargs={"cancel": 2})
    assert seen == [(1, 2)] * 3
    run_once(job, args=(1,))
    run_once(job, kwargs={"cancel": 2})
    assert kinds(seen[3]) == [int, CancelToken]
    assert kinds(seen[4]) == [JobRun, int]


def test_partials(run_once):
    seen = []

    def job(ctx, cancel, extra=0):
        seen.append((ctx, cancel, extra))

    run_once(functools.partial(job))
    run_once(functools.partial(job, 1))
    run_once(functools.partial(job, 1, 2, 3))
    run_once(functools.partial(job, extra=3))
    run_once(functools.partial(functools.partial(job, ctx=1), extra=3))
    assert [kinds(each) for each in seen] == [
        [JobRun, CancelToken, int],
        [int, CancelToken, int],
        [int, int, int],
        [JobRun, CancelToken, int],
        [int, CancelToken, int],
    ]


def test_nothing_goes_through_kwargs(run_once):
    seen = []
    run_once(lambda **kw: seen.append(kw))
    run_once(lambda *args, **kw: seen.append((args, kw)))
    assert seen == [{}, ((), {})]


def test_positional_only_parameters_are_not_filled(make_scheduler, run_once):
    def required(cancel, /):
        raise AssertionError

    def optional(cancel=5, /):
        assert cancel == 5

    run_once(optional)
    for callback in (required, lambda ctx, /: None):
        with pytest.raises(TypeError, match="callback"):
            make_scheduler().every("1s", callback)


@pytest.mark.parametrize(
    "callback",
    [lambda x: None, lambda cancel, x: None, lambda *, x: None, int.__add__, functools.partial(lambda a, b: 0, 1)],
)
def test_parameters_that_nothing_fills_are_refused(make_scheduler, callback):
    scheduler = make_scheduler()
    with pytest.raises(TypeError, match="callback"):
        scheduler.every("1s", callback)
    assert len(scheduler) == 0


def test_wrappers_are_filled_as_their_signature_says(run_once):
    seen = []

    def inner(ctx, cancel=None):
        seen.append((ctx, cancel))

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        return inner(*args, **kwargs)

    class Owner:
        @functools.wraps(inner)
        def method(*args, **kwargs):
            return inner(*args[1:], **kwargs)

    run_once(wrapper)
    run_once(functools.wraps(wrapper)(lambda *a, **k: wrapper(*a, **k)))
    assert [kinds(each) for each in seen] == [[JobRun, CancelToken]] * 2


def test_builtins_and_classes(run_once):
    seen = []
    run_once(dict)
    run_once(seen.clear)
    run_once(list)
    run_once(threading.Event)


def test_a_signature_that_cannot_be_read_is_taken_as_empty(run_once):
    class Odd:
        __signature__ = 5

        def __call__(self):
            pass

    run_once(Odd())


def test_a_signature_that_raises_is_no_registration(make_scheduler):
    class Odd:
        @property
        def __signature__(self):
            raise LookupError("no signature")

        def __call__(self):
            pass

    scheduler = make_scheduler()
    with pytest.raises(LookupError):
        scheduler.every("1s", Odd())
    assert len(scheduler) == 0


# What a callback learns of its run.


def test_the_context(scheduler, clock):
    seen = []

    def job(ctx, cancel):
        seen.append((ctx, cancel))

    scheduler.every("10s", job, id="k")
    clock.advance(20)
    (one, token), (two, _) = seen
    assert (one.job_id, one.attempt, one.scheduled_time) == ("k", 1, T0 + timedelta(seconds=10))
    assert one.scheduled_time.tzinfo is not None
    assert one.cancel is token
    assert one.run_id != two.run_id
    assert "attempt 1" in repr(one)


def test_the_attempt_is_counted_and_the_run_stays_the_same(scheduler, clock, logged):
    seen = []

    def job(ctx):
        seen.append(ctx)
        raise ValueError

    scheduler.every("100s", job, max_retries=2)
    clock.advance(150)
    assert [run.attempt for run in seen] == [1, 2, 3]
    assert len({run.run_id for run in seen}) == 1
    assert {run.scheduled_time for run in seen} == {T0 + timedelta(seconds=100)}
    assert len({id(run.cancel) for run in seen}) == 1


def test_the_scheduled_time_is_the_slot_however_late(scheduler, clock):
    seen = []
    scheduler.every("10s", lambda: clock.sleep(4))
    scheduler.every("10s", lambda ctx: seen.append((ctx.scheduled_time, clock.time())))
    clock.advance(10)
    assert seen == [(T0 + timedelta(seconds=10), 14)]


TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize("options", [{}, {"timeout": 5}, {"id": "k"}], ids=["plain", "managed", "with an id"])
def test_the_scheduled_time_is_in_the_jobs_zone(make_scheduler, clock, options):
    scheduler, seen = make_scheduler(clock=clock, timezone="Europe/Paris"), []
    scheduler.start_background()

    def job():
        seen.append(current_run().scheduled_time.tzinfo)

    scheduler.cron("* * * * *", job, timezone=TOKYO, **options)
    clock.advance(60)
    scheduler.reschedule_job(scheduler.list_jobs()[0]["id"], cron="* * * * *", timezone="America/New_York")
    clock.advance(60)
    scheduler.reschedule_job(scheduler.list_jobs()[0]["id"], cron="* * * * *")
    clock.advance(60)
    scheduler.reschedule_job(scheduler.list_jobs()[0]["id"], every="1m")
    clock.advance(60)
    expected = ["Asia/Tokyo", "America/New_York", "America/New_York", "Europe/Paris"]
    assert [str(zone) for zone in seen] == expected


def test_current_run_in_plain_and_managed_jobs(scheduler, clock):
    seen = []

    def look():
        run = current_run()
        seen.append((run.job_id, run.attempt, run.scheduled_time, run.run_id))

    plain = scheduler.every("10s", look)
    managed = scheduler.every("10s", look, timeout=5)
    scheduler.every("10s", lambda ctx: seen.append(current_run() is ctx))
    assert current_run() is None
    clock.advance(10)
    assert current_run() is None
    assert [each[:3] for each in seen[:2]] == [(job_id, 1, T0 + timedelta(seconds=10)) for job_id in (plain, managed)]
    assert [each[3] for each in seen[:2]] == [f"{plain}#1", f"{managed}#1"]
    assert seen[2] is True


def test_current_run_is_of_the_thread_that_asks(make_scheduler):
    scheduler, seen, barrier = make_scheduler(4), [], threading.Barrier(5)

    def job():
        barrier.wait(WAIT)
        seen.append(current_run().job_id)
        barrier.wait(WAIT)

    ids = {scheduler.after(0, job, **options) for options in ({}, {}, {"timeout": WAIT}, {"max_retries": 1})}
    scheduler.start_background()
    barrier.wait(WAIT)
    assert current_run() is None
    barrier.wait(WAIT)
    assert set(seen) == ids


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_current_run_is_one_object_in_a_run_and_another_in_each(scheduler, clock, options):
    """Also of another job with the same id."""
    seen = []

    def job():
        run = current_run()
        scheduler.remove_job("k")
        assert current_run() is run
        seen.append(run)

    for _ in range(3):
        scheduler.after(1, job, id="k", **options)
        clock.advance(1)
    assert [run.scheduled_time for run in seen] == [T0 + timedelta(seconds=n) for n in (1, 2, 3)]
    assert [run.job_id for run in seen] == ["k"] * 3
    assert len({id(run.cancel) for run in seen}) == 3


def test_current_run_in_a_handler(make_scheduler, clock):
    seen = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: seen.append((run.job_id, current_run())))
    scheduler.start_background()
    scheduler.every("1s", lambda: 1 / 0, id="plain")
    scheduler.every("1s", lambda: 1 / 0, id="managed", timeout=5)
    clock.advance(1)
    assert [job_id for job_id, _ in seen] == ["plain", "managed"]
    assert [run and run.job_id for _, run in seen] == ["plain", "managed"]


def test_current_run_of_schedulers_that_come_and_go(make_scheduler, clock, scheduler_type):
    scheduler, seen, over = make_scheduler(clock=clock), [], threading.Event()
    scheduler.start_background()

    def make():
        while not over.is_set():
            scheduler_type(timezone="UTC")

    thread = threading.Thread(target=make)
    thread.start()
    try:
        scheduler.every("1s", lambda: seen.extend(current_run().job_id for _ in range(20)), id="k")
        clock.advance(20)
    finally:
        over.set()
        thread.join()
    assert seen == ["k"] * 400


def test_the_token_ends_its_wait_at_the_time_out_only(scheduler, clock):
    seen = []

    def job(cancel):
        seen.append((cancel.wait(-5), clock.time()))
        seen.append((cancel.wait(0), clock.time()))
        seen.append((cancel.wait(), clock.time()))
        seen.append((cancel.wait(), clock.time()))

    scheduler.every("10s", job, timeout=3)
    clock.advance(10)
    assert seen == [(False, 10), (False, 10), (True, 13), (True, 13)]


def test_a_wait_that_would_never_end_is_refused_on_a_manual_clock(scheduler, clock, logged):
    job_id = scheduler.every("10s", lambda cancel: cancel.wait())
    clock.advance(10)
    assert "RuntimeError" in scheduler.get_job(job_id).last_error
    assert clock.time() == 10


@pytest.mark.real_time
def test_a_wait_of_any_length_ends_when_the_token_fires():
    token, results = CancelToken(), []
    threads = [
        threading.Thread(target=lambda timeout=timeout: results.append(token.wait(timeout)))
        for timeout in (None, 1e300, float("inf"), WAIT)
    ]
    for thread in threads:
        thread.start()
    assert token.wait(0.01) is False
    token._fire()
    for thread in threads:
        thread.join(WAIT)
    assert results == [True] * 4
    assert token.wait(float("inf")) is True
    assert "cancelled" in repr(token)


@pytest.mark.parametrize("timeout", ["1s", True, float("nan"), object()], ids=label)
def test_a_wait_of_no_number_is_refused(timeout):
    with pytest.raises((TypeError, ValueError), match="timeout"):
        CancelToken().wait(timeout)
    assert CancelToken().wait(-1) is False
