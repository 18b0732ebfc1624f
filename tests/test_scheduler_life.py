"""`Scheduler`: start, run, shutdown; executors; the context manager; the system's zone."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, SteppedClock, in_threads, label, listening, nothing, pause, wait_until

from pysched import SystemClock
from pysched.testing import ManualClock


@pytest.fixture
def held():
    """Makes callbacks that wait for the end of the test, whatever their token says."""
    release, started = threading.Event(), threading.Event()

    def hang():
        started.set()
        assert release.wait(WAIT)

    hang.release, hang.started = release, started
    yield hang
    release.set()


def test_as_a_context_manager(make_scheduler):
    ran = threading.Event()
    scheduler = make_scheduler()
    scheduler.every("5ms", ran.set)
    with scheduler as same:
        assert same is scheduler
        assert scheduler.running
        assert ran.wait(WAIT)
    assert not scheduler.running


def test_the_body_of_a_with_may_raise(make_scheduler):
    scheduler = make_scheduler()
    with pytest.raises(LookupError), scheduler:
        raise LookupError
    assert not scheduler.running


def test_started_twice_at_once_from_eight_threads(make_scheduler):
    scheduler, refused, runs = make_scheduler(2, name="once"), [], []
    scheduler.every("10ms", lambda: runs.append(1))

    def start():
        try:
            scheduler.start_background()
        except RuntimeError:
            refused.append(1)

    in_threads(*[start] * 8)
    assert wait_until(lambda: len(runs) > 5)
    assert [thread.name for thread in threading.enumerate()].count("once") == 1
    assert len(refused) <= 7


def test_a_run_that_is_refused_fires_no_token(make_scheduler):
    scheduler, started, seen = make_scheduler(1), threading.Event(), []

    def job(cancel):
        started.set()
        seen.append(cancel.wait(0.05))
        if len(seen) < 3:
            raise ValueError

    scheduler._owner.on_error = nothing
    job_id = scheduler.every("1h", job, max_retries=5, retry_backoff=0, immediate=True)
    scheduler.start_background()
    assert started.wait(WAIT)
    for refused in (scheduler.run, scheduler.start_background):
        with pytest.raises(RuntimeError, match="running already"):
            refused()
    assert wait_until(lambda: scheduler.get_job(job_id).run_count == 1)
    assert seen == [False] * 3


def test_run_on_a_manual_clock_is_refused_and_harms_nothing(scheduler, clock):
    seen = []
    scheduler.every("1s", lambda cancel: seen.append(cancel.cancelled))
    with pytest.raises(RuntimeError):
        scheduler.run()
    clock.advance(2)
    assert seen == [False, False]


# shutdown


def test_shutdown_waits_for_what_runs(make_scheduler):
    scheduler, ended, started = make_scheduler(), [], threading.Event()

    def job():
        started.set()
        assert wait_until(lambda: not scheduler.running)
        pause(0.02)  # while `shutdown` waits
        ended.append(1)

    scheduler.after(0, job)
    scheduler.start_background()
    assert started.wait(WAIT)
    assert scheduler.shutdown() == []
    assert ended == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": 0.03},
        {"timeout": 0},
        {"wait": False},
        {"timeout": "30ms"},
        {"timeout": timedelta(milliseconds=30)},
        {"wait": False, "timeout": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_shutdown_of_a_job_that_hangs(make_scheduler, held, arguments, options):
    scheduler = make_scheduler()
    job_id = scheduler.every("1h", held, immediate=True, **options)
    scheduler.start_background()
    assert held.started.wait(WAIT)
    (info,) = scheduler.shutdown(**arguments)  # the callback waits for the end of this test
    assert (info.id, info.running) == (job_id, 1)
    assert not scheduler.running
    assert len(scheduler.shutdown(wait=False)) == 1
    held.release.set()
    assert scheduler.shutdown() == []
    assert scheduler.get_job(job_id).run_count == 1


@pytest.mark.parametrize("wait", [0.2, 0, 1, None, "no", "30s", timedelta(seconds=5)], ids=label)
def test_shutdown_takes_no_time_for_whether_to_wait(scheduler, clock, wait):
    """Which `shutdown(5)` looks like: it would wait without limit."""
    scheduler.every(1, nothing, id="j")
    for arguments in ((wait,), (wait, 5)):
        with pytest.raises(TypeError, match=f"^wait must be a bool, got {type(wait).__name__}$"):
            scheduler.shutdown(*arguments)
    assert scheduler.running
    clock.advance(3)
    assert scheduler.get_job("j").run_count == 3


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"id": "mine"}], ids=["plain", "managed", "named"])
def test_shutdown_lists_a_removed_job_whose_call_goes_on(make_scheduler, held, options):
    scheduler = make_scheduler()
    job_id = scheduler.every("1h", held, immediate=True, **options)
    scheduler.start_background()
    assert held.started.wait(WAIT)
    scheduler.remove_job(job_id)
    assert [info.id for info in scheduler.shutdown(timeout=0.01)] == [job_id]
    held.release.set()
    assert scheduler.shutdown() == []


def test_shutdown_lists_a_removed_job_whose_second_attempt_goes_on(make_scheduler, held):
    scheduler = make_scheduler(on_error=nothing)

    def job(ctx):
        if ctx.attempt == 1:
            raise ValueError
        held()

    scheduler.every("1h", job, immediate=True, id="k", max_retries=3, retry_backoff=0)
    scheduler.start_background()
    assert held.started.wait(WAIT)
    scheduler.remove_job("k")
    scheduler.after(0, nothing)
    assert wait_until(lambda: len(scheduler) == 0)
    assert [(info.id, info.running) for info in scheduler.shutdown(timeout=0.01)] == [("k", 1)]
    held.release.set()
    assert wait_until(lambda: not scheduler._runner.all_open())
    assert scheduler.shutdown() == []


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon", "5", object()], ids=label)
def test_a_bad_timeout_shuts_nothing_down(scheduler, timeout):
    with pytest.raises((TypeError, ValueError), match="timeout"):
        scheduler.shutdown(timeout=timeout)
    assert scheduler.running


def test_shutdown_from_many_sides(make_scheduler):
    """From two callbacks, with a handler in one, and from two threads, at once."""
    scheduler = make_scheduler(4, on_error=lambda error, run: scheduler.shutdown())
    barrier = threading.Barrier(5)

    def job():
        barrier.wait(WAIT)
        scheduler.shutdown()

    def failing():
        barrier.wait(WAIT)
        raise ValueError

    def outside():
        barrier.wait(WAIT)
        scheduler.shutdown()

    scheduler.after(0, job)
    scheduler.after(0, job, timeout=60)
    scheduler.after(0, failing)
    scheduler.start_background()
    in_threads(outside, outside)
    assert not scheduler.running
    assert scheduler.shutdown() == []


def test_shutdown_inside_a_manual_clock(scheduler, clock):
    seen = []

    def job(cancel):
        seen.append([info.running for info in scheduler.shutdown()])
        seen.append(cancel.cancelled)

    scheduler.every("1s", job)
    scheduler.every("1s", lambda: seen.append("after"))
    clock.advance(5)
    assert seen == [[1], True]
    assert not scheduler.running
    assert scheduler.shutdown() == []


def test_jobs_that_use_the_scheduler_while_it_shuts_down(make_scheduler, logged):
    scheduler, raised = make_scheduler(4), []

    def job(cancel):
        try:
            while not cancel.cancelled:
                scheduler.list_jobs()
                scheduler.remove_job(scheduler.after(60, nothing))
            scheduler.list_jobs()
            assert scheduler.every("1s", nothing)
        except BaseException as error:
            raised.append(error)
            raise

    for _ in range(4):
        scheduler.after(0, job)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.stats().running == 4)
    assert scheduler.shutdown() == []
    assert raised == []
    assert [(level, "never run" in text) for level, text, _ in logged] == [("WARNING", True)]
    assert len(scheduler) == 4


def test_shutdown_before_a_start_drops_nothing_and_lists_nothing(make_scheduler, clock, logged):
    scheduler, runs = make_scheduler(clock=clock), []
    scheduler.every("1s", lambda: runs.append(1), immediate=True)
    assert scheduler.shutdown(timeout=0) == []
    scheduler.start_background()
    clock.advance(10)
    assert runs == []
    assert len(logged) == 1


def test_starting_and_shutting_down_at_random_moments(scheduler_type):
    import random

    choose = random.Random(5)
    for _ in range(30):
        scheduler = scheduler_type(2, timezone="UTC", on_error=nothing)
        for number in range(20):
            scheduler.every("1ms", nothing, **({"timeout": 5} if number % 2 else {}))
        scheduler.every("1ms", lambda: 1 / 0, max_retries=2, retry_backoff=0)
        scheduler.start_background()
        pause(choose.random() * 0.01)
        assert scheduler.shutdown() == []
        assert not scheduler._runner.all_open()
        assert all(info["running"] == 0 for info in scheduler.list_jobs())
        scheduler._check()


def test_a_token_of_a_run_that_begins_in_a_shutdown_has_fired(make_scheduler, clock):
    """Its ticket was taken before, and its worker only comes now."""
    scheduler, seen = make_scheduler(clock=clock), []
    scheduler.start_background()
    scheduler.every("1s", lambda cancel: seen.append(cancel.cancelled))
    scheduler._runner.close()
    clock.advance(1)
    assert seen == [True]


@pytest.mark.parametrize("failure", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_logging_handler_that_raises_at_a_warning_after_the_shutdown(make_scheduler, logged, monkeypatch, failure):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: told.append(each.exc_type))

    class Broken(logging.Handler):
        def emit(self, record):
            raise failure

    scheduler = make_scheduler()
    scheduler.shutdown()
    with listening(Broken()):
        assert scheduler.every("1s", nothing, id="k") == "k"
        scheduler.start_background()
        scheduler.run()
    assert told == [failure] * 3
    assert len(scheduler) == 1


# run


@pytest.mark.real_time
def test_run_on_another_thread_than_the_main_one(make_scheduler):
    scheduler, ran = make_scheduler(1), threading.Event()
    scheduler.every("5ms", ran.set)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    assert ran.wait(WAIT)
    scheduler.shutdown()
    thread.join(WAIT)
    assert not thread.is_alive()


@pytest.mark.real_time
def test_run_on_the_main_thread_until_a_callback_shuts_down(make_scheduler):
    scheduler = make_scheduler(1)
    scheduler.after("20ms", scheduler.shutdown)
    handler = signal.getsignal(signal.SIGINT)
    scheduler.run()
    assert signal.getsignal(signal.SIGINT) is handler
    assert not scheduler.running


def test_a_start_that_fails_leaves_a_scheduler_that_can_be_started(make_scheduler, monkeypatch):
    scheduler, ran = make_scheduler(1), threading.Event()
    scheduler.every("5ms", ran.set)

    def fails(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fails)
        with pytest.raises(RuntimeError, match="new thread"):
            scheduler.start_background()
    assert not scheduler.running
    scheduler.start_background()
    assert ran.wait(WAIT)


# Executors and clocks.


def test_a_users_pool_is_used_and_not_shut_down(make_scheduler):
    names = []
    with ThreadPoolExecutor(2, thread_name_prefix="theirs") as pool:
        scheduler = make_scheduler(executor=pool)
        scheduler.every("5ms", lambda: names.append(threading.current_thread().name))
        scheduler.every("5ms", lambda cancel: names.append(threading.current_thread().name), max_instances=2)
        scheduler.start_background()
        assert wait_until(lambda: len(names) > 10)
        assert scheduler.is_healthy()
        scheduler.shutdown()
        assert pool.submit(int, "5").result(WAIT) == 5
    assert {name[:6] for name in names} == {"theirs"}


def test_a_pool_that_was_shut_down_ends_the_scheduler(make_scheduler, logged):
    pool = ThreadPoolExecutor(1)
    scheduler = make_scheduler(executor=pool)
    job_id = scheduler.every("20ms", nothing)
    scheduler.start_background()
    pool.shutdown()
    assert wait_until(lambda: not scheduler.running)
    assert scheduler.shutdown() == []
    info = scheduler.get_job(job_id)
    assert info.running == 0
    assert [level for level, _, _ in logged] == ["ERROR"]


@pytest.mark.parametrize("refused", [{1}, {2}, {1, 2, 5}, {3, 4}], ids=str)
def test_no_run_has_the_number_of_one_that_was_refused(make_scheduler, logged, refused):
    """Of an executor that cannot take work at times, each of which ends the scheduler's loop."""
    calls, ids = [], []

    class Moody(Executor):
        def submit(self, fn, /, *args, **kwargs):
            calls.append(1)
            if len(calls) in refused:
                raise ZeroDivisionError
            future = Future()
            future.set_running_or_notify_cancel()
            future.set_result(fn(*args, **kwargs))
            return future

    scheduler = make_scheduler(executor=Moody())
    scheduler.every("1h", lambda ctx: ids.append(ctx.run_id), id="k")
    for turn in range(1, 8):
        if not scheduler.running:
            scheduler.start_background()
        assert scheduler.run_job("k")
        assert wait_until(lambda turn=turn: len(calls) == turn and scheduler.get_job("k").running == 0)
        assert wait_until(lambda turn=turn: scheduler.running == (turn not in refused))
    assert ids == [f"k#{number}" for number in range(1, 8) if number not in refused]
    assert scheduler.get_job("k").started_count == len(ids)
    assert [level for level, _, _ in logged] == ["ERROR"] * len(refused)


def test_the_clock_may_be_the_systems(make_scheduler):
    scheduler, ran = make_scheduler(clock=SystemClock()), threading.Event()
    scheduler.every("5ms", ran.set)
    scheduler.start_background()
    assert ran.wait(WAIT)


def test_max_workers_and_executors_are_accepted_on_a_manual_clock(make_scheduler, clock):
    before = threading.active_count()
    with ThreadPoolExecutor(1) as pool:
        for arguments in ({"max_workers": 3}, {"executor": pool}):
            scheduler, threads = make_scheduler(clock=clock, **arguments), []
            scheduler.after(0, lambda threads=threads: threads.append(threading.current_thread()))
            scheduler.start_background()
            clock.advance(0)
            assert threads == [threading.main_thread()]
    assert threading.active_count() == before


def test_a_clock_that_fails_ends_the_scheduler_and_run_raises(make_scheduler, logged):
    class Failing(SteppedClock):
        broken = False

        def wait(self, event, timeout):
            if self.broken:
                raise OSError("no such clock")
            super().wait(event, timeout)

    clock = Failing()
    scheduler = make_scheduler(1, clock=clock)
    scheduler.after(0, lambda: setattr(clock, "broken", True))
    with pytest.raises(OSError, match="no such clock"):
        scheduler.run()
    assert not scheduler.running
    clock.broken = False


# The system's zone.


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("", "UTC"),
        (":America/New_York", "America/New_York"),
        ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0"),
        ("Europe/Paris", "Europe/Paris"),
    ],
)
def test_the_zone_by_default_is_that_of_tz(make_scheduler, monkeypatch, setting, shown):
    monkeypatch.setenv("TZ", setting)
    scheduler = make_scheduler(timezone=None, clock=ManualClock())
    scheduler.cron("0 12 * * *", nothing)
    (info,) = scheduler.list_jobs()
    assert info["timezone"].endswith(shown) or shown in info["timezone"]
    scheduler.start_background()
    assert scheduler.get_job(info["id"]).next_run_at.utcoffset() is not None


def test_without_tz_and_local_time_file_it_is_utc_with_a_warning(make_scheduler, monkeypatch, logged, tmp_path):
    import pysched.zones

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(pysched.zones, "LOCALTIME", tmp_path / "none")
    scheduler = make_scheduler(timezone=None, clock=ManualClock())
    scheduler.start_background()
    job_id = scheduler.cron("0 12 * * *", nothing)
    assert str(scheduler.get_job(job_id).timezone) == "UTC"
    assert [level for level, _, _ in logged] == ["WARNING"]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", ZoneInfo("Asia/Tokyo"), timezone(timedelta(hours=9)), timezone.utc])
def test_the_zone_of_the_scheduler_and_of_a_job(make_scheduler, clock, zone):
    scheduler = make_scheduler(clock=clock, timezone=zone)
    default = scheduler.cron("0 12 * * *", nothing)
    own = scheduler.cron("0 12 * * *", nothing, timezone="UTC")
    hours = {job_id: scheduler.get_job(job_id).next_run_at.astimezone(timezone.utc).hour for job_id in (default, own)}
    assert hours == {default: 12 if zone is timezone.utc else 3, own: 12}


def test_the_modules_can_be_imported_alone():
    for module in ("scheduler", "runner", "job", "token", "callbacks", "options", "trigger"):
        subprocess.run([sys.executable, "-I", "-W", "error", "-c", f"import pysched.{module}"], check=True, timeout=20)
