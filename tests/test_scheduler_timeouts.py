"""`Scheduler`: time-outs, and the calls that they leave behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import WAIT, nothing, wait_until

from pysched import JobCancelled


@pytest.fixture
def held():
    """Makes callbacks that hang until the end of the test, whatever their token says."""
    release = threading.Event()

    def hang(started=None):
        if started is not None:
            started.append(1)
        assert release.wait(WAIT)

    hang.release = release
    yield hang
    release.set()


@pytest.mark.parametrize("timeout", [2, 2.0, "2s"])
def test_a_time_out_ends_the_run(scheduler, clock, timeout):
    seen = []

    def job():
        clock.sleep(1.5)
        seen.append(scheduler.get_job(job_id))
        clock.sleep(0.5)
        seen.append(scheduler.get_job(job_id))
        clock.sleep(3)

    job_id = scheduler.every("10s", job, timeout=timeout)
    clock.advance(10)
    before, after = seen
    assert (before.running, before.timeout_count) == (1, 0)
    assert (after.running, after.timeout_count, after.error_count) == (0, 1, 1)
    assert after.last_error.startswith("TimeoutError")
    assert str(after.last_run_at)[:19] == "2000-01-01 00:00:12"
    late = scheduler.get_job(job_id)
    assert (late.run_count, late.error_count, late.last_run_at, late.last_error) == (
        0,
        1,
        after.last_run_at,
        after.last_error,
    )


def test_a_run_that_is_quick_enough_is_none_the_wiser(scheduler, clock):
    job_id = scheduler.every("10s", lambda: clock.sleep(1.9), timeout=2)
    clock.advance(100)
    info = scheduler.get_job(job_id)
    assert (info.run_count, info.timeout_count) == (10, 0)
    assert not scheduler._runner.all_open()
    assert scheduler.stats().pending == 1


def test_the_late_end_of_a_call_changes_nothing(scheduler, clock, logged):
    for outcome in (None, ValueError("late"), JobCancelled()):

        def job(outcome=outcome):
            clock.sleep(9)
            if outcome is not None:
                raise outcome

        job_id = scheduler.every("20s", job, timeout=1, max_retries=3)
        clock.advance(20)
        info = scheduler.get_job(job_id)
        assert (info.run_count, info.error_count, info.timeout_count, info.running) == (0, 1, 1, 0)
        assert info.last_error.startswith("TimeoutError")
        scheduler.remove_job(job_id)
    assert scheduler.stats().abandoned == 0


def test_the_instance_is_given_back_at_once(scheduler, clock):
    """The next tick of the job runs while the call goes on: here as one that is late, on the only worker."""
    starts = []

    def job():
        starts.append(clock.time())
        clock.sleep(12)

    job_id = scheduler.every("10s", job, timeout=5)
    clock.advance(40)
    assert starts == [10, 22, 34, 46] or starts == [10, 22, 34]
    info = scheduler.get_job(job_id)
    assert info.coalesced_count == 0
    assert info.timeout_count == len(starts)


def test_a_time_out_spans_all_attempts_and_waits(scheduler, clock, logged):
    attempts = []

    def job():
        attempts.append(clock.time())
        raise ValueError

    job_id = scheduler.every("100s", job, max_retries=100, retry_backoff=4, timeout=20)
    clock.advance(120)
    info = scheduler.get_job(job_id)
    assert (info.timeout_count, info.error_count, info.running) == (1, 1, 0)
    assert 2 <= len(attempts) <= 5
    assert attempts[-1] < 120
    clock.advance(60)
    assert attempts[-1] < 120


def test_time_outs_count_and_their_order_is_kept(scheduler, clock):
    fired = []

    def job(cancel):
        cancel.wait(50)
        fired.append(clock.time())

    for timeout in (3, 1, 2):
        scheduler.after(0, job, timeout=timeout)
    clock.advance(0)
    assert fired == [3, 4, 6]


def test_a_removed_job_times_out_without_a_trace(scheduler, clock):
    seen = []

    def job(cancel):
        assert scheduler.remove_job("k") is True
        seen.append((cancel.wait(30), clock.time()))

    scheduler.every("100s", job, timeout=5, id="k")
    clock.advance(200)
    assert seen == [(True, 105)]
    assert not scheduler._book.errors
    assert not scheduler._book.options
    assert not scheduler._runner.all_open()
    assert scheduler.stats().abandoned == 0


def test_removal_does_not_fire_the_token(scheduler, clock):
    seen = []

    def job(cancel):
        scheduler.remove_job("k")
        seen.append(cancel.wait(5))

    scheduler.every("10s", job, id="k")
    clock.advance(10)
    assert seen == [False]


def test_a_one_shot_that_times_out_leaves(scheduler, clock):
    seen = []

    def job():
        clock.sleep(5)
        seen.append(len(scheduler))
        scheduler.after(1, nothing, id="k")

    scheduler.after(0, job, timeout=1, id="k")
    clock.advance(0)
    assert seen == [0]
    assert scheduler.get_job("k").schedule == "after 1s"


@pytest.mark.real_time
def test_time_outs_fire_although_all_workers_hang(make_scheduler, held):
    scheduler, started = make_scheduler(2), []
    ids = [scheduler.every("1h", held, args=(started,), timeout=0.05, immediate=True) for _ in range(2)]
    scheduler.every("1h", nothing, immediate=True, id="waits")
    scheduler.start_background()
    assert wait_until(lambda: all(scheduler.get_job(each).timeout_count for each in ids))
    assert len(started) == 2
    assert scheduler.stats().abandoned == 2
    assert not scheduler.is_healthy()
    assert scheduler.get_job("waits").running == 1
    assert scheduler.get_job("waits").started_count == 0
    left = scheduler.shutdown(timeout=0.05)
    assert {info.id for info in left} == set(ids)
    assert all(info.running == 0 for info in left)
    held.release.set()
    assert wait_until(lambda: scheduler.stats().abandoned == 0)
    assert scheduler.shutdown() == []
    assert scheduler.get_job("waits").running == 0


@pytest.mark.real_time
def test_a_worker_that_is_left_keeps_it_healthy(make_scheduler, held):
    scheduler = make_scheduler(2)
    job_id = scheduler.every("1h", held, timeout=0.02, immediate=True)
    assert not scheduler.is_healthy()
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).timeout_count)
    assert scheduler.is_healthy()
    ran = threading.Event()
    scheduler.after(0, ran.set)
    assert ran.wait(WAIT)
    held.release.set()
    assert wait_until(lambda: scheduler.stats().abandoned == 0)


@pytest.mark.real_time
def test_an_abandoned_one_shot_is_listed_by_shutdown(make_scheduler, held):
    scheduler, started = make_scheduler(2), []
    scheduler.after(0, held, args=(started,), timeout=0.03, id="k")
    scheduler.start_background()
    assert wait_until(lambda: started and scheduler.stats().abandoned == 1)
    assert len(scheduler) == 0
    (info,) = scheduler.shutdown(timeout=0.02)
    assert (info.id, info.timeout_count, info.error_count, info.running) == ("k", 1, 1, 0)
    held.release.set()


@pytest.mark.real_time
def test_a_job_is_listed_once_by_shutdown(make_scheduler, held):
    """Two of its calls are abandoned, and a third runs."""
    scheduler, started = make_scheduler(4), []
    scheduler.every("20ms", held, args=(started,), timeout=0.05, max_instances=1, id="k")
    scheduler.start_background()
    assert wait_until(lambda: len(started) >= 3)
    assert [info.id for info in scheduler.shutdown(timeout=0.01)] == ["k"]
    held.release.set()


@pytest.mark.real_time
def test_the_same_id_again_while_the_old_run_hangs(make_scheduler, held):
    scheduler, started, ran = make_scheduler(2), [], threading.Event()
    scheduler.every("10ms", held, args=(started,), id="k", max_instances=1)
    scheduler.start_background()
    assert wait_until(lambda: started)
    assert scheduler.remove_job("k") is True
    scheduler.every("10ms", ran.set, id="k")
    assert ran.wait(WAIT)
    held.release.set()
    assert wait_until(lambda: scheduler.stats().running == 0)
    info = scheduler.get_job("k")
    assert info.error_count == 0
    assert scheduler.stats().started == info.run_count + 1 or wait_until(
        lambda: scheduler.stats().started == scheduler.get_job("k").run_count + 1
    )
    assert len(started) == 1


@pytest.mark.real_time
def test_time_outs_on_a_users_pool(make_scheduler, held):
    with ThreadPoolExecutor(1) as pool:
        scheduler = make_scheduler(executor=pool)
        job_id = scheduler.every("1h", held, timeout=0.03, immediate=True)
        scheduler.start_background()
        assert wait_until(lambda: scheduler.get_job(job_id).timeout_count)
        held.release.set()
        scheduler.shutdown()
    assert scheduler.get_job(job_id).run_count == 0


@pytest.mark.real_time
def test_the_end_and_the_time_out_at_once(make_scheduler):
    """Whoever is first ends it: each tick is counted once."""
    scheduler = make_scheduler(4)
    jobs = [scheduler.every("15ms", lambda cancel: cancel.wait(0.004), timeout=0.004) for _ in range(20)]
    scheduler.start_background()
    assert wait_until(lambda: all(scheduler.get_job(each).started_count > 15 for each in jobs))
    assert scheduler.shutdown() == []
    for each in jobs:
        info = scheduler.get_job(each)
        assert info.run_count + info.error_count == info.started_count
        assert info.error_count == info.timeout_count
    assert scheduler.stats().abandoned == 0
    assert not scheduler._runner.all_open()


def test_alarms_of_many_runs_are_gone_when_the_runs_are(scheduler, clock):
    for _ in range(100):
        scheduler.every("1s", nothing, timeout=3600)
    clock.advance(50)
    assert scheduler.stats().pending == 100
    assert scheduler._engine._next_alarm_ns() is None
    scheduler._check()


@pytest.mark.parametrize("kind", ["every", "after"])
def test_a_time_out_is_logged(scheduler, clock, logged, kind):
    def slow(cancel):
        cancel.wait(5)

    getattr(scheduler, kind)("1s", slow, timeout="100ms", id="mine")
    clock.advance(1.5)
    assert [(level, text) for level, text, _ in logged] == [
        ("WARNING", f"{scheduler.name}: job mine (slow) timed out after 0.1 s")
    ]
