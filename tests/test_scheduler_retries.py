"""`Scheduler`: retries."""

from __future__ import annotations

import threading

import pytest
from support import WAIT, nothing, wait_until

from pysched import JobCancelled
from pysched.runner import Runner
from pysched.testing import ManualClock


class Failing:
    """A callback that fails the first `failures` times of each tick, and notes when it was called."""

    def __init__(self, clock, failures=10**9):
        self.clock, self.failures, self.times = clock, failures, []

    def __call__(self, ctx):
        self.times.append(self.clock.time())
        if ctx.attempt <= self.failures:
            raise ValueError(f"attempt {ctx.attempt}")

    @property
    def waits(self):
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


@pytest.fixture
def quiet(make_scheduler, clock):
    """A started scheduler whose errors go nowhere."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    return scheduler


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_up_to_max_retries_more_attempts(quiet, clock, retries):
    job = Failing(clock)
    job_id = quiet.every("1000s", job, max_retries=retries)
    clock.advance(1500)
    info = quiet.get_job(job_id)
    assert len(job.times) == 1 + retries
    assert (info.run_count, info.error_count, info.started_count, info.running) == (0, 1, 1, 0)
    assert info.last_error == f"ValueError: attempt {1 + retries}"


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_no_more_attempts_after_a_success(quiet, clock, failures):
    job = Failing(clock, failures)
    job_id = quiet.every("1000s", job, max_retries=3)
    clock.advance(1500)
    info = quiet.get_job(job_id)
    assert len(job.times) == failures + 1
    assert (info.run_count, info.error_count, info.last_error) == (1, 0, None)


def test_waits_double_up_to_thirty_seconds_times_half_to_one(quiet, clock):
    job = Failing(clock)
    quiet.after(0, job, max_retries=40, retry_backoff=0.5)
    clock.advance("1h")
    for number, wait in enumerate(job.waits):
        longest = min(30, 0.5 * 2**number)
        assert longest / 2 <= wait <= longest
    assert len(job.waits) == 40
    capped = job.waits[6:]
    assert len(set(capped)) == len(capped)
    assert max(capped) - min(capped) > 5


def test_five_thousand_retries(quiet, clock):
    job = Failing(clock)
    quiet.after(0, job, max_retries=5000, retry_backoff=0.5, id="k")
    clock.advance("3d")
    assert len(job.times) == 5001
    assert all(0 <= wait <= 30 for wait in job.waits)
    assert len(set(job.waits[10:])) > 4000
    assert len(quiet) == 0


@pytest.mark.parametrize("backoff", [0, 0.0, "0s"])
def test_without_backoff_retries_are_back_to_back(quiet, clock, backoff):
    job = Failing(clock)
    quiet.after(1, job, max_retries=5000, retry_backoff=backoff)
    clock.advance(1)
    assert job.times == [1.0] * 5001


@pytest.mark.parametrize("backoff", [1e9, "10000d", 30, 31])
def test_a_long_backoff_is_capped(quiet, clock, backoff):
    job = Failing(clock)
    quiet.after(0, job, max_retries=3, retry_backoff=backoff)
    clock.advance(200)
    assert len(job.times) == 4
    assert all(15 <= wait <= 30 for wait in job.waits)


def test_the_bounds_of_all_waits():
    runner = Runner(None, None, None)
    for backoff in (0.0, 1e-9, 0.5, 29.0, 1e9):
        for attempt in (1, 2, 60, 61, 1000, 10**6):
            longest = min(30, backoff * 2.0 ** min(attempt - 1, 900))
            assert longest / 2 - 1e-9 <= runner.wait_of(attempt, backoff) / 1e9 <= longest + 1e-9


def test_runs_on_manual_clocks_repeat(make_scheduler):
    def times():
        clock = ManualClock()
        scheduler = make_scheduler(clock=clock, on_error=nothing)
        scheduler.start_background()
        job = Failing(clock)
        scheduler.after(0, job, max_retries=20)
        clock.advance("1h")
        return job.times

    assert times() == times()


def test_a_tick_holds_its_instance_while_it_waits_for_a_retry(quiet, clock):
    job = Failing(clock)
    job_id = quiet.every("10s", job, max_retries=1, retry_backoff=30)
    clock.advance(10)
    info = quiet.get_job(job_id)
    assert (info.running, info.started_count, info.error_count) == (1, 1, 0)
    clock.advance(14)
    assert quiet.get_job(job_id).coalesced_count == 1
    clock.advance(100)
    assert all(15 <= job.times[n + 1] - job.times[n] <= 30 for n in range(0, len(job.times) - 1, 2))
    assert all(at % 10 == 0 for at in job.times[::2])


def test_nobody_sleeps_for_a_retry(quiet, clock):
    """The only worker runs others in between."""
    runs = []
    quiet.after(0, Failing(clock), max_retries=1, retry_backoff=10)
    quiet.every("1s", lambda: runs.append(clock.time()))
    clock.advance(5)
    assert runs == [1, 2, 3, 4, 5]


def test_a_cancelled_run_is_not_retried_and_not_told(scheduler, clock):
    """Not told: `scheduler` has no handler, and the fixtures fail a test in which something is logged."""
    attempts = []

    def job():
        attempts.append(1)
        raise JobCancelled("enough")

    job_id = scheduler.every("10s", job, max_retries=5)
    clock.advance(10)
    info = scheduler.get_job(job_id)
    assert attempts == [1]
    assert (info.error_count, info.last_error) == (1, "JobCancelled: enough")


def test_a_failure_after_the_token_has_fired_is_not_retried(quiet, clock):
    attempts = []

    def job(cancel):
        attempts.append(1)
        cancel.wait(60)
        raise ValueError

    quiet.every("100s", job, max_retries=5, timeout=5)
    clock.advance(190)
    assert attempts == [1]


def test_shutdown_drops_retries_that_wait(quiet, clock):
    job = Failing(clock)
    job_id = quiet.every("10s", job, max_retries=5, retry_backoff=30)
    clock.advance(10)
    assert quiet.get_job(job_id).running == 1
    assert quiet.shutdown() == []
    info = quiet.get_job(job_id)
    assert (info.running, info.error_count) == (0, 1)
    assert "JobCancelled" in info.last_error
    clock.advance("1h")
    assert len(job.times) == 1


def test_shutdown_drops_the_retries_of_a_one_shot(quiet, clock):
    quiet.after(0, Failing(clock), max_retries=5, retry_backoff=30, id="k")
    clock.advance(0)
    quiet.shutdown()
    assert len(quiet) == 0
    assert not quiet._runner.all_open()


def test_remove_drops_retries_that_wait(quiet, clock):
    one, two = Failing(clock), Failing(clock)
    quiet.every("10s", one, max_retries=5, retry_backoff=30, id="k")
    quiet.after(10, two, max_retries=5, retry_backoff=30, id="once")
    clock.advance(10)
    assert quiet.remove_job("k") is True
    assert quiet.remove_job("once") is False
    assert not quiet._runner.all_open()
    clock.advance("1h")
    assert (one.times, two.times) == ([10], [10])
    assert not quiet._book.errors


def test_remove_during_an_attempt_drops_the_retries_that_would_come(quiet, clock):
    attempts = []

    def job():
        attempts.append(1)
        quiet.remove_job("k")
        raise ValueError

    quiet.every("10s", job, max_retries=5, id="k")
    clock.advance("1h")
    assert attempts == [1]
    assert not quiet._book.errors
    assert not quiet._runner.all_open()


def test_pauses_do_not_hold_retries_up(quiet, clock):
    job = Failing(clock)
    job_id = quiet.every("10s", job, max_retries=2, retry_backoff=1)
    clock.advance(10)
    quiet.pause_job(job_id)
    quiet.pause()
    clock.advance(100)
    assert len(job.times) == 3
    assert quiet.get_job(job_id).error_count == 1


def test_retries_of_several_instances(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    job = Failing(clock)
    job_id = scheduler.every("10s", job, max_retries=1, retry_backoff=30, max_instances=2)
    clock.advance(20)
    assert scheduler.get_job(job_id).running == 2
    clock.advance(4)
    assert scheduler.get_job(job_id).coalesced_count == 0
    clock.advance(1000)
    info = scheduler.get_job(job_id)
    assert info.error_count + info.running == info.started_count


@pytest.mark.real_time
def test_retries_on_real_threads(make_scheduler):
    attempts, told = [], []
    scheduler = make_scheduler(2, on_error=lambda error, run: told.append(run.attempt))

    def job(ctx):
        attempts.append((ctx.attempt, threading.current_thread().name))
        if ctx.attempt < 6:
            raise ValueError

    job_id = scheduler.every("1h", job, max_retries=100, retry_backoff=0.001, immediate=True, id="k")
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).run_count == 1, WAIT)
    assert [attempt for attempt, _ in attempts] == list(range(1, 7))
    assert told == list(range(1, 6))
    assert all("-worker_" in name for _, name in attempts)
