"""rust-py-scheduler 0.3.1: CONTRACT section 2, line by line, and where pysched means to differ."""

from __future__ import annotations

import functools
import inspect
import threading

import pytest
from support import WAIT, nothing, run_python, wait_until

import pysched
from pysched import CancelToken, JobCancelled, Scheduler

KEYS = [
    *("id", "name", "schedule", "enabled", "run_count", "error_count", "last_run_at", "next_run_at", "max_retries"),
    *("last_error", "retry_backoff", "timeout", "max_instances", "running", "coalesced_count", "timeout_count"),
]
T0 = 946_684_800  # a ManualClock's wall clock begins here, in Unix seconds
OPTIONS = [("max_retries", 0), ("retry_backoff", 0.5), ("timeout", None), ("max_instances", 1)]

registering = pytest.mark.parametrize(("kind", "what"), [("every", "10s"), ("cron", "* * * * *")])
forms = pytest.mark.parametrize("form", ["call", "decorator"])


def register(scheduler, form, kind, what, *args, **options):
    method = getattr(scheduler, kind)
    return method(what, nothing, *args, **options) if form == "call" else method(what, **options)(nothing)


def test_the_exports():
    assert {"Scheduler", "CancelToken", "JobCancelled"} <= set(pysched.__all__)
    assert issubclass(JobCancelled, Exception)
    assert isinstance(CancelToken, type)
    assert isinstance(Scheduler, type)


def test_max_workers_is_the_first_argument_and_positive(make_scheduler):
    make_scheduler(2)
    make_scheduler(max_workers=1)
    with pytest.raises(ValueError, match="max_workers"):
        make_scheduler(0)


@registering
def test_the_signatures(kind, what):
    parameters = list(inspect.signature(getattr(Scheduler, kind)).parameters.values())[1:7]
    first = "interval" if kind == "every" else "expression"
    assert [(each.name, each.default) for each in parameters] == [
        (first, inspect.Parameter.empty),
        ("callback", None),
        *OPTIONS,
    ]
    assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)


@registering
def test_a_call_returns_an_id_that_no_other_job_has(make_scheduler, kind, what):
    scheduler = make_scheduler()
    ids = [getattr(scheduler, kind)(what, nothing) for _ in range(100)]
    assert all(isinstance(each, str) and each for each in ids)
    assert len(set(ids)) == 100
    assert [info["id"] for info in scheduler.list_jobs()] == ids


@registering
def test_a_decorator_returns_the_function_itself(make_scheduler, kind, what):
    scheduler = make_scheduler()

    def job():
        """What it was before."""

    assert getattr(scheduler, kind)(what)(job) is job
    assert getattr(scheduler, kind)(what, max_retries=3, timeout=2.0)(job) is job
    assert [info["name"] for info in scheduler.list_jobs()] == ["job", "job"]


@registering
def test_the_options_are_positional_too(make_scheduler, kind, what):
    scheduler = make_scheduler()
    getattr(scheduler, kind)(what, nothing, 3, 0.25, 7, 2)
    (info,) = scheduler.list_jobs()
    assert (info["max_retries"], info["retry_backoff"], info["timeout"], info["max_instances"]) == (3, 0.25, 7, 2)


@forms
@registering
@pytest.mark.parametrize(
    ("option", "value"), [("timeout", 0), ("timeout", -1.0), ("retry_backoff", -0.5), ("max_instances", 0)]
)
def test_bad_options_raise_value_error_at_registration(make_scheduler, form, kind, what, option, value):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match=option):
        register(scheduler, form, kind, what, **{option: value})
    assert scheduler.list_jobs() == []


@forms
@pytest.mark.parametrize("interval", ["", "10", "10x", "0s", "-5s", "abcs"])
def test_bad_intervals_raise_value_error_at_registration(make_scheduler, form, interval):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="interval"):
        register(scheduler, form, "every", interval)
    assert scheduler.list_jobs() == []


@pytest.mark.parametrize(("interval", "shown"), [("30s", "every 30s"), ("5m", "every 300s"), ("2h", "every 7200s")])
def test_intervals_in_seconds_minutes_and_hours(make_scheduler, interval, shown):
    scheduler = make_scheduler()
    scheduler.every(interval, nothing)
    assert scheduler.list_jobs()[0]["schedule"] == shown


@forms
@pytest.mark.parametrize(
    "expression",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"),
        *("a * * * *", "*/0 * * * *", "1- * * * *"),
    ],
)
def test_bad_cron_lines_raise_value_error_at_registration(make_scheduler, form, expression):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="cron expression"):
        register(scheduler, form, "cron", expression)
    assert scheduler.list_jobs() == []


def test_cron_stars_numbers_ranges_steps_and_lists(scheduler, clock):
    minutes = []
    scheduler.cron("*/20,5-7 0 1 * *", lambda: minutes.append(clock.now().minute))
    clock.advance("1d")
    assert minutes == [5, 6, 7, 20, 40]  # 00:00 itself was over when it was registered


@pytest.mark.parametrize("sunday", [0, 7])
def test_cron_days_0_and_7_are_sunday(scheduler, clock, sunday):
    days = []
    scheduler.cron(f"0 12 * * {sunday}", lambda: days.append(clock.now().day))
    clock.advance("15d")
    assert days == [2, 9]


def test_cron_either_day_field_may_match_when_both_are_restricted(scheduler, clock):
    days = []
    scheduler.cron("0 12 10 * 0", lambda: days.append(clock.now().day))
    clock.advance("15d")
    assert days == [2, 9, 10]


def test_cron_is_in_local_time_by_default(make_scheduler, clock, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    scheduler = make_scheduler(clock=clock, timezone=None)
    scheduler.cron("0 12 * * *", nothing)
    assert scheduler.list_jobs()[0]["next_run_at"] == str(T0 + 3 * 3600)


@registering
def test_the_sixteen_keys_come_first_and_in_their_order(make_scheduler, kind, what):
    scheduler = make_scheduler()
    getattr(scheduler, kind)(what, nothing)
    (info,) = scheduler.list_jobs()
    assert type(info) is dict
    assert list(info)[:16] == KEYS


def test_a_job_that_has_not_run(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    job_id = scheduler.every("5m", nothing)
    (info,) = scheduler.list_jobs()
    assert {key: info[key] for key in KEYS} == {
        "id": job_id,
        "name": "nothing",
        "schedule": "every 300s",
        "enabled": True,
        "run_count": 0,
        "error_count": 0,
        "last_run_at": None,
        "next_run_at": str(T0 + 300),
        "max_retries": 0,
        "last_error": None,
        "retry_backoff": 0.5,
        "timeout": None,
        "max_instances": 1,
        "running": 0,
        "coalesced_count": 0,
        "timeout_count": 0,
    }


def test_the_schedule_of_a_cron_job(make_scheduler):
    scheduler = make_scheduler()
    scheduler.cron("*/5 * * * *", nothing)
    assert scheduler.list_jobs()[0]["schedule"] == "cron */5 * * * *"


def test_times_are_strings_of_whole_seconds_and_last_run_at_is_the_end(scheduler, clock):
    scheduler.every("10s", lambda: clock.sleep(3.75))
    clock.advance(10)
    (info,) = scheduler.list_jobs()
    assert (info["last_run_at"], info["next_run_at"]) == (str(T0 + 13), str(T0 + 20))


def test_last_error_is_type_and_text_and_a_success_clears_it(scheduler, clock, logged):
    outcomes = iter([ValueError("no such luck"), None])

    def job():
        if (outcome := next(outcomes)) is not None:
            raise outcome

    scheduler.every("1s", job)
    clock.advance(1)
    assert scheduler.list_jobs()[0]["last_error"] == "ValueError: no such luck"
    clock.advance(1)
    (info,) = scheduler.list_jobs()
    assert (info["last_error"], info["run_count"], info["error_count"]) == (None, 1, 1)


def test_remove_job_of_an_unknown_id_raises_key_error(make_scheduler):
    with pytest.raises(KeyError):
        make_scheduler().remove_job("never heard of")


def test_a_job_may_remove_itself(scheduler, clock):
    runs = []

    def job():
        runs.append(clock.time())
        if len(runs) == 3:
            scheduler.remove_job(job_id)

    job_id = scheduler.every("1s", job)
    clock.advance(10)
    assert runs == [1, 2, 3]
    assert scheduler.list_jobs() == []


@pytest.mark.real_time
def test_run_blocks_until_shutdown(make_scheduler):
    scheduler, ran = make_scheduler(), threading.Event()
    scheduler.every("10ms", ran.set)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    assert ran.wait(WAIT)
    assert thread.is_alive()
    scheduler.shutdown()
    thread.join(WAIT)
    assert not thread.is_alive()


@pytest.mark.real_time
def test_start_background_returns_and_a_second_one_raises(make_scheduler):
    scheduler, ran = make_scheduler(), threading.Event()
    scheduler.every("10ms", ran.set)
    assert scheduler.start_background() is None
    assert ran.wait(WAIT)
    with pytest.raises(RuntimeError, match="running"):
        scheduler.start_background()
    with pytest.raises(RuntimeError, match="running"):
        scheduler.run()
    ran.clear()
    assert ran.wait(WAIT), "the refused starts have harmed it"


@pytest.mark.real_time
def test_shutdown_fires_tokens_and_waits_for_what_runs(make_scheduler):
    scheduler, started, ended = make_scheduler(), threading.Event(), []

    def job(cancel):
        started.set()
        ended.append(cancel.wait(WAIT))

    scheduler.after(0, job)
    scheduler.start_background()
    assert started.wait(WAIT)
    assert scheduler.shutdown() == []
    assert ended == [True]


def test_shutdown_is_safe_twice_and_before_a_start(make_scheduler):
    scheduler = make_scheduler()
    scheduler.every("1s", nothing)
    assert scheduler.shutdown() == []
    assert scheduler.shutdown() == []


@pytest.mark.real_time
def test_shutdown_from_inside_a_callback(make_scheduler):
    scheduler, ended = make_scheduler(), []

    def job():
        scheduler.shutdown()
        ended.append(True)

    scheduler.after(0, job)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert wait_until(lambda: ended)


@pytest.mark.parametrize("start", ["start_background", "run"])
def test_shutdown_is_one_way_and_a_start_afterwards_only_warns(make_scheduler, logged, start):
    scheduler = make_scheduler()
    runs = []
    scheduler.after(0, lambda: runs.append(1))
    scheduler.shutdown()
    assert getattr(scheduler, start)() is None
    assert not scheduler.running
    assert runs == []
    assert [(level, "one-way" in text) for level, text, _ in logged] == [("WARNING", True)]


def test_an_exception_is_told_once_an_attempt_and_the_others_go_on(scheduler, clock, logged):
    runs = []
    scheduler.every("1s", lambda: 1 / 0, max_retries=2, retry_backoff=0)
    scheduler.every("1s", lambda: runs.append(clock.time()))
    clock.advance(2)
    assert runs == [1, 2]
    assert [(level, trace) for level, _, trace in logged] == [("ERROR", True)] * 6
    assert scheduler.list_jobs()[0]["error_count"] == 2
    assert scheduler.list_jobs()[0]["last_error"] == "ZeroDivisionError: division by zero"


def test_without_any_logging_set_up_the_traceback_is_on_stderr(engine_name):
    process = run_python(
        """
        from pysched import Scheduler
        from pysched.testing import ManualClock

        clock = ManualClock()
        scheduler = Scheduler(clock=clock)
        scheduler.every("1s", lambda: 1 / 0)
        scheduler.start_background()
        clock.advance(2)
        """,
        engine=engine_name,
    )
    assert process.returncode == 0
    assert process.stderr.count("Traceback (most recent call last)") == 2
    assert process.stderr.count("ZeroDivisionError: division by zero") == 2


def test_counters_count_ticks_not_attempts(scheduler, clock, logged):
    attempts = []

    def job():
        attempts.append(clock.time())
        if len(attempts) % 3:
            raise ValueError("again")

    scheduler.every("10s", job, 2, 0.5)
    clock.advance(29)
    (info,) = scheduler.list_jobs()
    assert len(attempts) == 6
    assert (info["run_count"], info["error_count"], info["last_error"]) == (2, 0, None)


def test_a_cancelled_run_is_not_retried(scheduler, clock):
    attempts = []

    def job(cancel):
        attempts.append(clock.time())
        cancel.wait(5)
        cancel.raise_if_cancelled()

    scheduler.every("10s", job, max_retries=5, timeout=1)
    clock.advance(19)
    assert attempts == [10]


def test_ticks_before_the_start_collapse_into_one_at_once(make_scheduler, clock):
    scheduler, runs = make_scheduler(clock=clock), []
    clock.advance(0.01)
    scheduler.every("500ms", lambda: runs.append(round(clock.time(), 3)))
    clock.advance(1.5)
    scheduler.start_background()
    clock.advance(1.5)
    assert runs == [1.51, 2.01, 2.51, 3.01]


def test_ticks_of_a_busy_job_are_coalesced(scheduler, clock):
    runs = []

    def job():
        runs.append(clock.time())
        clock.sleep(25)

    scheduler.every("10s", job)
    clock.advance(100)
    assert runs == [10, 40, 70, 100]
    assert scheduler.list_jobs()[0]["coalesced_count"] == 6


def test_a_time_out_counts_frees_the_instance_and_fires_the_token(scheduler, clock):
    seen = []

    def job(cancel):
        seen.append((cancel.cancelled, cancel.wait(4), clock.time(), cancel.cancelled))
        seen.append(scheduler.list_jobs()[0]["running"])

    scheduler.every("10s", job, timeout=1.5)
    clock.advance(10)
    (info,) = scheduler.list_jobs()
    assert seen == [(False, True, 11.5, True), 0]
    assert (info["timeout_count"], info["error_count"], info["run_count"]) == (1, 1, 0)
    assert "timed out" in info["last_error"]


def test_the_token(scheduler, clock):
    seen = []

    def job(cancel):
        assert isinstance(cancel, CancelToken)
        cancel.raise_if_cancelled()
        seen.append((cancel.cancelled, cancel.wait(0.25), clock.time()))
        clock.sleep(5)
        with pytest.raises(JobCancelled):
            cancel.raise_if_cancelled()
        seen.append((cancel.cancelled, cancel.wait(9), clock.time()))

    scheduler.every("10s", job, timeout=2)
    clock.advance(10)
    assert seen == [(False, False, 10.25), (True, True, 15.25)]


def test_callbacks_without_a_parameter_named_cancel_are_called_with_nothing(scheduler, clock):
    seen = []
    scheduler.every("1s", lambda *args, **kwargs: seen.append((args, kwargs)))
    clock.advance(1)
    assert seen == [((), {})]


def test_cancel_is_filled_through_wraps_partial_and_call(scheduler, clock):
    seen = []

    def job(cancel=None):
        seen.append(cancel)

    @functools.wraps(job)
    def wrapped(*args, **kwargs):
        job(*args, **kwargs)

    class Callable:
        def __call__(self, cancel):
            seen.append(cancel)

    for callback in (job, functools.partial(job), functools.partial(job, cancel="mine"), Callable(), wrapped):
        scheduler.after(1, callback)
    clock.advance(1)
    assert len(seen) == 5
    assert all(isinstance(each, CancelToken) for each in seen)


# Where pysched means to differ.


@forms
@registering
@pytest.mark.parametrize("callback", [5, "fn", object()], ids=["number", "text", "object"])
def test_differs_a_callback_that_is_not_callable_is_refused(make_scheduler, form, kind, what, callback):
    scheduler = make_scheduler()
    with pytest.raises(TypeError, match="callback"):
        if form == "call":
            getattr(scheduler, kind)(what, callback)
        else:
            getattr(scheduler, kind)(what)(callback)
    assert scheduler.list_jobs() == []


@forms
def test_differs_a_cron_line_that_never_fires_is_refused(make_scheduler, form):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="never comes"):
        register(scheduler, form, "cron", "0 0 30 2 *")
    assert scheduler.list_jobs() == []


@pytest.mark.real_time
def test_differs_queued_runs_are_dropped_at_shutdown(make_scheduler):
    scheduler, started, runs = make_scheduler(1), threading.Event(), []

    def hold(cancel):
        started.set()
        cancel.wait(WAIT)

    scheduler.after(0, hold)
    scheduler.start_background()
    assert started.wait(WAIT)
    for _ in range(10):
        scheduler.after(0, lambda: runs.append(1))
    assert wait_until(lambda: scheduler.stats().ready == 10)
    scheduler.shutdown()
    assert runs == []
    assert scheduler.stats().dropped == 10


@pytest.mark.real_time
def test_differs_a_time_out_counts_from_the_start_of_the_run(make_scheduler):
    """It waits for the only worker longer than its time-out, and still has all of it."""
    scheduler, started, release, seen = make_scheduler(1), threading.Event(), threading.Event(), []

    def hold():
        started.set()
        release.wait(WAIT)

    def job(cancel):
        seen.append(cancel.cancelled)

    scheduler.after(0, hold)
    scheduler.start_background()
    assert started.wait(WAIT)
    job_id = scheduler.every("20ms", job, timeout=0.05)
    assert wait_until(lambda: scheduler.get_job(job_id).coalesced_count > 5)
    scheduler.reschedule_job(job_id, every="1h")
    scheduler.run_job(job_id)
    release.set()
    assert wait_until(lambda: seen)
    assert seen == [False]
    assert wait_until(lambda: scheduler.get_job(job_id).run_count == 1)
    assert scheduler.get_job(job_id).timeout_count == 0


def test_differs_remove_job_returns_whether_it_prevented_a_run(make_scheduler):
    scheduler = make_scheduler()
    assert scheduler.remove_job(scheduler.every("1s", nothing)) is True


def test_differs_a_coroutine_function_is_awaited(scheduler, clock):
    seen = []

    async def job():
        seen.append(clock.time())

    ids = [scheduler.every("1s", job), scheduler.every("1s", lambda: job())]
    clock.advance(1)
    assert seen == [1, 1]
    assert [scheduler.get_job(job_id).run_count for job_id in ids] == [1, 1]


def test_differs_system_exit_in_a_callback_does_not_end_the_process(scheduler, clock, logged):
    job_id = scheduler.every("1s", lambda: exit(3))
    clock.advance(2)
    assert scheduler.get_job(job_id).error_count == 2
