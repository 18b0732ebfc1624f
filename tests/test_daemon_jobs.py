"""Jobs of a `Scheduler` on daemon workers."""

from __future__ import annotations

import threading
import time

from support import WAIT, nothing, threads_of, wait_until


def test_a_time_out_comes_though_all_workers_are_busy(make_scheduler):
    scheduler = make_scheduler(1, daemon=True)
    fired = threading.Event()

    def work(cancel):
        if cancel.wait(WAIT):
            fired.set()

    job = scheduler.every("1h", work, timeout=0.03, immediate=True)
    with scheduler:
        assert fired.wait(WAIT)
        assert wait_until(lambda: scheduler.get_job(job).timeout_count == 1)
        assert scheduler.get_job(job).error_count == 1
        scheduler._check()


def test_a_shutdown_does_not_hang_on_what_has_timed_out(make_scheduler):
    scheduler = make_scheduler(1, daemon=True)
    release = threading.Event()
    job = scheduler.every("1h", lambda: release.wait(WAIT), timeout=0.03, immediate=True)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job).timeout_count == 1)
    assert [info.id for info in scheduler.shutdown(timeout=0.05)] == [job]
    release.set()


def test_retries_go_on_on_daemon_workers(make_scheduler):
    scheduler = make_scheduler(2, daemon=True, on_error=lambda exc, run: attempts.append(run.attempt))
    attempts = []

    def fail():
        raise ValueError

    job = scheduler.every("1h", fail, max_retries=3, retry_backoff=0.001, immediate=True)
    with scheduler:
        assert wait_until(lambda: scheduler.get_job(job).error_count == 1)
    assert attempts == [1, 2, 3, 4]


def test_from_end_counts_from_the_end_on_daemon_workers(make_scheduler):
    scheduler = make_scheduler(2, daemon=True)
    begins, ends, done = [], [], threading.Event()

    def work():
        begins.append(time.monotonic())
        time.sleep(0.005)  # the length of the run, which a grid would take off the gap
        ends.append(time.monotonic())
        if len(ends) == 5:
            done.set()

    scheduler.every("10ms", work, from_end=True)
    with scheduler:
        assert done.wait(WAIT)
    gaps = [begin - end for begin, end in zip(begins[1:5], ends, strict=False)]
    assert min(gaps) >= 0.01


def test_coroutines_keep_their_own_loop_beside_daemon_workers(make_scheduler):
    scheduler = make_scheduler(2, daemon=True, name="mixed")
    seen, done = [], threading.Event()

    async def work():
        seen.append(threading.current_thread().name)
        done.set()

    scheduler.after(0, work)
    with scheduler:
        assert done.wait(WAIT)
    assert seen == ["mixed-asyncio"]
    assert threads_of("mixed") == []


def test_many_jobs_have_each_of_their_slots_once(make_scheduler):
    scheduler = make_scheduler(3, daemon=True)
    jobs = [scheduler.every("5ms", nothing) for _ in range(40)]
    with scheduler:
        assert wait_until(lambda: all(scheduler.get_job(job).run_count >= 5 for job in jobs))
        scheduler._check()
    for job in jobs:
        info = scheduler.get_job(job)
        assert info.started_count == info.run_count
