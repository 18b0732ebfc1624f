"""`Scheduler`: `from_end=True`, an interval that counts from the end of each run."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import datetime, timedelta, timezone

import pytest
from support import WAIT, nothing, wait_until

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def job(runs, clock):
    """Takes 3 s and notes when it begins."""

    def job():
        runs.append(clock.time())
        clock.sleep(3)

    return job


def test_there_is_no_grid(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True)
    clock.advance(60)
    assert runs == [10, 23, 36, 49]


def test_a_run_longer_than_the_interval_leaves_nothing_out(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(100)

    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(400)
    assert runs == [10, 120, 230, 340]
    assert scheduler.get_job("k").coalesced_count == 0


def test_the_slot_is_the_end_plus_the_interval(scheduler, clock):
    slots = []

    def job(ctx):
        slots.append((ctx.scheduled_time - T0).total_seconds())
        clock.sleep(2.5)

    scheduler.every("10s", job, from_end=True)
    clock.advance(40)
    assert slots == [10, 22.5, 35]


def test_retries_are_part_of_the_run(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job(ctx):
        runs.append((clock.time(), ctx.attempt))
        clock.sleep(2)
        raise ValueError

    scheduler.every("10s", job, from_end=True, max_retries=2, retry_backoff=0)
    clock.advance(30)
    assert runs == [(10, 1), (12, 2), (14, 3), (26, 1), (28, 2), (30, 3)]


def test_a_wait_for_a_retry_is_part_of_the_run(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job(ctx):
        runs.append(clock.time())
        if ctx.attempt == 1:
            raise ValueError

    scheduler.every("10s", job, from_end=True, max_retries=1, retry_backoff=20)
    clock.advance(200)
    for first, second in zip(runs[1::2], runs[2::2], strict=False):
        assert second - first == pytest.approx(10)
    assert all(10 <= second - first < 20 for first, second in zip(runs[::2], runs[1::2], strict=False))


def test_a_time_out_is_an_end(scheduler, clock, runs):
    def job(ctx):
        runs.append(clock.time())
        ctx.cancel.wait(100)

    scheduler.every("10s", job, from_end=True, timeout=5)
    clock.advance(60)
    assert runs == [10, 25, 40, 55]


def test_a_time_out_of_a_call_that_goes_on(scheduler, clock, runs):
    """The interval counts from the time-out; the late end of the call changes nothing.

    The only thread of the clock was in the call for longer than another interval: that slot was missed.
    """

    def job(ctx):
        runs.append((clock.time(), (ctx.scheduled_time - T0).total_seconds()))
        clock.sleep(30)

    scheduler.every("10s", job, from_end=True, timeout=5)
    clock.advance(80)
    assert runs == [(10, 10), (40, 35), (70, 65)]


def test_run_job_does_not_move_the_next_run(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(2)
    assert scheduler.run_job("k")
    clock.advance(20)
    assert runs == [2, 10]
    clock.advance(1)
    assert runs == [2, 10, 23]


def test_a_slot_that_finds_run_job_busy_counts_from_its_end(scheduler, clock, runs, job):
    """Else it would never come again, or two runs would follow each other at once."""
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(9)
    assert scheduler.run_job("k")
    clock.advance(30)
    assert runs == [9, 22, 35]
    assert scheduler.get_job("k").coalesced_count == 1


def test_run_job_in_a_run_is_refused(scheduler, clock, runs):
    scheduler.every("10s", lambda: runs.append(scheduler.run_job("k")), from_end=True, id="k")
    clock.advance(25)
    assert runs == [False, False]


def test_a_pause(scheduler, clock, runs, job):
    """The run in progress ends; what would have come passes by; then the next of its slots."""
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(15)
    scheduler.pause_job("k")
    clock.advance(30)
    assert runs == [10]
    info = scheduler.get_job("k")
    assert (info.paused_count, info.next_run_at) == (3, None)
    scheduler.resume_job("k")
    clock.advance(30)
    assert runs == [10, 53, 66]


def test_paused_in_its_own_run(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        if len(runs) == 1:
            scheduler.pause_job("k")
        clock.sleep(3)

    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(100)
    assert runs == [10]
    scheduler.resume_job("k")
    clock.advance(20)
    assert runs == [10, 103, 116]


def test_the_pause_of_all(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(15)
    scheduler.pause()
    clock.advance(30)
    scheduler.resume()
    clock.advance(20)
    assert runs == [10, 53]


def test_immediate(make_scheduler, clock, runs, job):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", job, from_end=True, immediate=True)
    clock.advance(5)
    scheduler.start_background()
    clock.advance(40)
    assert runs == [5, 18, 31, 44]


def test_start_at(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, start_at=moment(42))
    clock.advance(70)
    assert runs == [42, 55, 68]


def test_until(scheduler, clock, runs, job):
    """36 is not before it: the job leaves at the end of the run before."""
    scheduler.every("10s", job, from_end=True, until=moment(36), id="k")
    clock.advance(25)
    assert runs == [10, 23]
    assert scheduler.list_jobs() == []
    clock.advance(100)
    assert runs == [10, 23]


def test_max_runs(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, max_runs=3, id="k")
    clock.advance(100)
    assert runs == [10, 23, 36]
    assert len(scheduler) == 0


def test_jitter_and_spread(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, jitter=2, spread=2)
    clock.advance(1000)
    gaps = [second - first for first, second in itertools.pairwise(runs)]
    assert len(gaps) > 50
    assert all(13 <= gap < 17 for gap in gaps)
    assert len(set(gaps)) > 10


@pytest.mark.parametrize("catch_up", ["one", "none"])
def test_before_the_start(make_scheduler, clock, runs, job, catch_up):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", job, from_end=True, catch_up=catch_up, id="k")
    clock.advance(25)
    scheduler.start_background()
    clock.advance(15)
    assert runs == ([25, 38] if catch_up == "one" else [30])
    assert scheduler.get_job("k").missed_count == (1 if catch_up == "one" else 2)


def test_with_a_grace(make_scheduler, clock, runs, job):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", job, from_end=True, misfire_grace_time=4, id="k")
    clock.advance(25)
    scheduler.start_background()
    clock.advance(20)
    assert runs == [30, 43]


def test_removed_in_its_own_run(scheduler, clock, runs):
    def job():
        runs.append(scheduler.remove_job("k"))
        clock.sleep(3)

    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(100)
    assert runs == [True]
    assert len(scheduler) == 0


def test_a_new_interval_counts_from_the_end_too(scheduler, clock, runs, job):
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(15)
    scheduler.reschedule_job("k", every="20s")
    clock.advance(60)
    assert runs == [10, 35, 58]


def test_a_new_interval_from_inside(scheduler, clock, runs):
    """A new grid from now on, which the end of the run in progress does not move."""

    def job():
        runs.append(clock.time())
        if len(runs) == 1:
            scheduler.reschedule_job("k", every="20s")
        clock.sleep(3)

    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(60)
    assert runs == [10, 30, 53]


def test_a_calendar_in_between(scheduler, clock, runs, job):
    """A calendar has no interval to count; back on one the option holds again."""
    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(15)
    scheduler.reschedule_job("k", cron="* * * * *")
    clock.advance(120)
    assert runs == [10, 60, 120]
    scheduler.reschedule_job("k", every="10s")
    clock.advance(30)
    assert runs == [10, 60, 120, 145, 158]


def test_while_it_runs_there_is_no_next_run(scheduler, clock):
    seen = []

    def job():
        info = scheduler.get_job("k")
        seen.append((info.next_run_at, info.enabled, info.running, scheduler.next_runs("k", 3)))
        clock.sleep(3)

    scheduler.every("10s", job, from_end=True, id="k")
    clock.advance(10)
    assert seen == [(None, True, 1, [])]
    assert scheduler.get_job("k").next_run_at == moment(23)


def test_a_coroutine_ends_when_it_is_over(scheduler, clock, runs):
    async def job():
        runs.append(clock.time())
        await asyncio.sleep(3)

    scheduler.every("10s", job, from_end=True)
    clock.advance(60)
    assert runs == [10, 23, 36, 49]


@pytest.mark.real_time
def test_on_real_threads(make_scheduler):
    scheduler, spans, release = make_scheduler(2), [], threading.Event()

    def job():
        begin = scheduler._engine.time_ns()
        release.wait(0.02)
        spans.append((begin, scheduler._engine.time_ns()))

    scheduler.every("20ms", job, from_end=True)
    scheduler.start_background()
    assert wait_until(lambda: len(spans) > 5, WAIT)
    scheduler.shutdown()
    assert all(begin - end >= 20_000_000 for (_, end), (begin, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("options", [{"max_instances": 2}, {"catch_up": "all"}, {"overlap": "queue"}])
def test_what_it_does_not_go_with(scheduler, options):
    with pytest.raises(ValueError, match="from_end"):
        scheduler.every("10s", nothing, from_end=True, **options)
    with pytest.raises(ValueError, match="from_end"):
        scheduler.every("10s", from_end=True, **options)
    assert len(scheduler) == 0


@pytest.mark.parametrize("kind", ["cron", "after", "at"])
def test_of_intervals_only(scheduler, kind):
    when = {"cron": "* * * * *", "after": 5, "at": moment(5)}[kind]
    with pytest.raises(TypeError, match="from_end"):
        getattr(scheduler, kind)(when, nothing, from_end=True)


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_no_bool(scheduler, value):
    with pytest.raises(TypeError, match="from_end"):
        scheduler.every("10s", nothing, from_end=value)
