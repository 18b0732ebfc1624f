"""`Scheduler.wait_idle`: True as soon as nothing is due, queued or running, nor waits for a retry."""

from __future__ import annotations

import threading

import pytest
from support import WAIT, in_other_thread, label, nothing, pause, wait_until


def fails():
    raise ValueError


# On a ManualClock: whether it is idle now.


def test_slots_to_come_do_not_count(scheduler, clock):
    assert scheduler.wait_idle() is True
    scheduler.every("1h", nothing)
    scheduler.cron("0 12 * * *", nothing, timeout=5)
    assert scheduler.wait_idle() is True
    clock.advance("1d")
    assert scheduler.wait_idle(0) is True


def test_what_is_due_counts(make_scheduler, scheduler, clock):
    scheduler.after(0, nothing)
    assert scheduler.wait_idle() is False
    clock.advance(0)
    assert scheduler.wait_idle() is True
    unstarted = make_scheduler(clock=clock)
    unstarted.after(0, nothing)
    assert unstarted.wait_idle() is False


def test_a_run_that_waits_for_its_retry_counts(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    scheduler.after("1s", fails, max_retries=2, retry_backoff=10)
    assert scheduler.wait_idle() is True
    clock.advance(1)
    assert scheduler.wait_idle() is False
    clock.advance(11)
    assert scheduler.wait_idle() is False
    clock.advance(60)
    assert scheduler.wait_idle() is True


@pytest.mark.parametrize("how", ["remove", "time out", "shut down"])
def test_a_retry_that_is_dropped_counts_no_longer(make_scheduler, clock, how):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    job_id = scheduler.every("1h", fails, max_retries=2, retry_backoff=30, immediate=True, timeout=5)
    clock.advance(0)
    assert scheduler.wait_idle() is False
    if how == "remove":
        scheduler.remove_job(job_id)
    elif how == "time out":
        clock.advance(5)
    else:
        scheduler.shutdown()
    assert scheduler.wait_idle() is True


def test_a_paused_job_is_idle(scheduler, clock):
    scheduler.pause()
    scheduler.after("1s", nothing)
    scheduler.every("1s", nothing)
    clock.advance(5)
    assert scheduler.wait_idle() is True
    scheduler.resume()
    assert scheduler.wait_idle() is False
    clock.advance(0)
    assert scheduler.wait_idle() is True


def test_after_a_shutdown_nothing_is_due_any_more(make_scheduler, clock):
    scheduler, stopped = make_scheduler(clock=clock), make_scheduler(1)
    scheduler.start_background()
    for one in (scheduler, stopped):
        one.after(0, nothing)
        one.shutdown()
    clock.advance(5)
    assert scheduler.wait_idle() is True
    assert stopped.wait_idle() is True


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_inside_a_callback_it_is_refused(make_scheduler, scheduler, clock, options):
    seen = []

    def job():
        for one in ours:
            with pytest.raises(RuntimeError):
                one.wait_idle(0)
        seen.append(1)

    ours = [scheduler]
    scheduler.after("1s", job, **options)
    clock.advance(1)
    real = make_scheduler(1)
    ours = [real]
    real.start_background()
    real.after(0, job, **options)
    assert real.wait_idle(WAIT)
    assert seen == [1, 1]


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(-1, ValueError), (float("nan"), ValueError), ("soon", ValueError), (object(), TypeError), (True, TypeError)],
    ids=label,
)
def test_bad_timeouts(scheduler, timeout, error):
    with pytest.raises(error, match="timeout"):
        scheduler.wait_idle(timeout)


# With threads.


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_it_waits_for_what_runs(make_scheduler, options):
    scheduler, release, started = make_scheduler(2), threading.Event(), threading.Event()

    def job():
        started.set()
        assert release.wait(WAIT)

    scheduler.every("1h", job, immediate=True, **options)
    scheduler.start_background()
    assert started.wait(WAIT)
    for timeout in (0, 0.01, "10ms"):
        assert scheduler.wait_idle(timeout) is False
    threading.Timer(0.02, release.set).start()
    assert scheduler.wait_idle() is True
    assert scheduler.stats().running == 0


def test_it_waits_for_retries_and_what_follows_them(make_scheduler):
    scheduler, attempts = make_scheduler(2, on_error=nothing), []

    def job():
        attempts.append(1)
        if len(attempts) < 4:
            raise ValueError

    scheduler.after(0, job, max_retries=3, retry_backoff="20ms")
    scheduler.start_background()
    assert wait_until(lambda: attempts)
    assert scheduler.wait_idle(0) is False
    assert scheduler.wait_idle(0.001) is False
    assert scheduler.wait_idle("20s") is True
    assert len(attempts) == 4
    assert len(scheduler) == 0


def test_a_call_that_was_given_up_still_runs(make_scheduler):
    scheduler, release = make_scheduler(1), threading.Event()
    scheduler.after(0, lambda: release.wait(WAIT), timeout=0.01)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.stats().abandoned)
    assert scheduler.wait_idle(0.01) is False
    release.set()
    assert scheduler.wait_idle(WAIT) is True
    assert scheduler.stats().abandoned == 0


@pytest.mark.parametrize("started", [True, False])
def test_a_shutdown_ends_the_wait_of_others(make_scheduler, started):
    """For what is due on a scheduler that is not started, and for a retry."""
    scheduler = make_scheduler(1, on_error=nothing)
    scheduler.after(0, fails, max_retries=2, retry_backoff=30)
    if started:
        scheduler.start_background()
        assert wait_until(lambda: scheduler._runner.has_open())
    results = []
    waiting = threading.Thread(target=lambda: results.append(scheduler.wait_idle()))
    waiting.start()
    pause(0.02)
    assert results == []
    assert in_other_thread(scheduler.shutdown)
    waiting.join(WAIT)
    assert results == [True]


@pytest.mark.stress
def test_it_is_never_idle_too_early(make_scheduler):
    """Chains of jobs with retries, each of which begins the next one before it ends."""
    scheduler, ended = make_scheduler(4, on_error=nothing), []

    def link(left, tries):
        tries.append(1)
        if len(tries) < 3:
            raise ValueError
        if left:
            scheduler.after(0, link, max_retries=2, retry_backoff=0.0005, args=(left - 1, []))
        else:
            ended.append(1)

    scheduler.start_background()
    for turn in range(1, 31):
        scheduler.after(0, link, max_retries=2, retry_backoff=0.0005, args=(4, []))
        assert scheduler.wait_idle(WAIT) is True
        assert len(ended) == turn
        assert len(scheduler) == 0
