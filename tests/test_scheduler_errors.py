"""`Scheduler`: whatever is raised wherever, the run ends, its instance is given back, and the next tick comes."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import weakref
from datetime import datetime, timedelta, timezone, tzinfo

import pytest
from support import listening, nothing, wait_until

from pysched import JobCancelled, current_run
from pysched.testing import ManualClock

UTC = timezone.utc


class OwnBaseException(BaseException):
    pass


ESCAPING = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    OwnBaseException("own"),
    MemoryError(),
]
PLAIN_AND_MANAGED = pytest.mark.parametrize(
    "options", [{}, {"max_retries": 1, "retry_backoff": 0}, {"timeout": 5}], ids=["plain", "retries", "timeout"]
)


def raising(error):
    def job():
        raise error

    return job


def goes_on(scheduler, clock, job_id, ticks=3):
    """Whether each tick of the job fails, gives its instance back, and hinders no other job."""
    runs = []
    scheduler.every("1s", lambda: runs.append(clock.time()), id="other")
    for tick in range(1, ticks + 1):
        clock.advance(1)
        info = scheduler.get_job(job_id)
        assert (info.running, info.error_count, info.started_count) == (0, tick, tick)
    assert len(runs) == ticks
    assert scheduler.running
    assert scheduler.stats().running == 0
    assert not scheduler._runner.all_open()
    scheduler._check()


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("error", ESCAPING, ids=lambda error: type(error).__name__)
def test_whatever_a_callback_raises(scheduler, clock, logged, error, options):
    job_id = scheduler.every("1s", raising(error), **options)
    goes_on(scheduler, clock, job_id)
    assert scheduler.get_job(job_id).last_error.startswith(type(error).__name__)
    scheduler.shutdown()


@pytest.mark.real_time
@pytest.mark.parametrize("error", ESCAPING, ids=lambda error: type(error).__name__)
def test_whatever_a_callback_raises_on_a_worker(make_scheduler, logged, error):
    scheduler, runs = make_scheduler(1), []
    job_id = scheduler.every("2ms", raising(error))
    managed = scheduler.every("2ms", raising(error), timeout=5)
    scheduler.every("2ms", lambda: runs.append(1))
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job(job_id).error_count > 3 and scheduler.get_job(managed).error_count > 3)
    assert runs
    assert scheduler.shutdown() == []


@PLAIN_AND_MANAGED
@pytest.mark.parametrize(
    "failure", [ValueError("handler"), SystemExit(4), KeyboardInterrupt(), OwnBaseException()], ids=repr
)
@pytest.mark.parametrize("own", [False, True], ids=["of the scheduler", "of the job"])
def test_a_handler_that_fails(make_scheduler, clock, logged, options, failure, own):
    calls = []

    def handler(error, run):
        calls.append((type(error), run.job_id))
        raise failure

    scheduler = make_scheduler(clock=clock, **({} if own else {"on_error": handler}))
    scheduler.start_background()
    job_id = scheduler.every("1s", raising(LookupError()), **options, **({"on_error": handler} if own else {}))
    goes_on(scheduler, clock, job_id)
    attempts = 3 * (1 + options.get("max_retries", 0))
    assert calls == [(LookupError, job_id)] * attempts
    line = f"pysched: job {job_id} (job): on_error raised an exception"
    assert [(level, text.splitlines()[0]) for level, text, _ in logged] == [("ERROR", line)] * attempts


@PLAIN_AND_MANAGED
def test_a_handler_of_a_wrong_signature(make_scheduler, clock, logged, options):
    scheduler = make_scheduler(clock=clock, on_error=lambda: None)
    scheduler.start_background()
    goes_on(scheduler, clock, scheduler.every("1s", raising(LookupError()), **options))
    assert len(logged) == 3 * (1 + options.get("max_retries", 0))


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("failure", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_logging_handler_that_raises(scheduler, clock, logged, monkeypatch, options, failure):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: told.append(each.exc_type))

    class Broken(logging.Handler):
        def emit(self, record):
            raise failure

    with listening(Broken()):
        goes_on(scheduler, clock, scheduler.every("1s", raising(LookupError()), **options))
    assert told == [failure] * 3 * (1 + options.get("max_retries", 0))


class Mute(Exception):
    """An error that cannot be shown."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("handled", [False, True])
def test_an_error_whose_text_raises(make_scheduler, clock, logged, options, handled):
    scheduler = make_scheduler(clock=clock, on_error=nothing if handled else None)
    scheduler.start_background()
    job_id = scheduler.every("1s", raising(Mute()), **options)
    goes_on(scheduler, clock, job_id)
    assert scheduler.get_job(job_id).last_error.startswith("Mute: ")
    assert scheduler.list_jobs()


class Nameless(type):
    """Of classes whose name cannot be had."""

    @property
    def __name__(cls):
        raise RuntimeError("no name")


class Stubborn(str):
    """Text that fails wherever it is put into other text."""

    __slots__ = ()

    def __format__(self, spec):
        raise RuntimeError("no format")

    __str__ = __repr__ = __add__ = __radd__ = __len__ = __bool__ = __format__


class OfStubbornText(Exception):
    def __str__(self):
        return Stubborn("text")


class OfNoText(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307


SECRETIVE = {
    "no name": (Nameless("Secretive", (Exception,), {}), "<unknown>: text"),
    "no name, no text": (Nameless("Secretive", (Mute,), {}), "<unknown>: <its text could not be had: ValueError>"),
    "stubborn text": (OfStubbornText, "OfStubbornText: text"),
    "text that is none": (OfNoText, "OfNoText: <its text could not be had: TypeError>"),
}


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("error", SECRETIVE)
def test_an_error_that_tells_nothing_of_itself(make_scheduler, clock, options, error):
    """With a handler, as Python cannot log all of these."""
    told = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append(error))
    scheduler.start_background()
    kind, shown = SECRETIVE[error]
    raised = kind("text")
    job_id = scheduler.every("1s", raising(raised), **options)
    goes_on(scheduler, clock, job_id)
    assert scheduler.get_job(job_id).last_error == shown
    assert scheduler.list_jobs()[0]["last_error"] == shown
    assert told == [raised] * 3 * (1 + options.get("max_retries", 0))


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("error", SECRETIVE)
def test_an_error_that_cannot_be_logged(scheduler, clock, logged, monkeypatch, options, error):
    monkeypatch.setattr(sys, "unraisablehook", nothing)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    job_id = scheduler.every("1s", raising(SECRETIVE[error][0]("text")), **options)
    goes_on(scheduler, clock, job_id)


class FailingClock(ManualClock):
    """A clock that raises once when it is next asked for the time."""

    failure = None

    def time_ns(self):
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return super().time_ns()


@pytest.mark.parametrize("failure", [OSError("no such clock"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("end", ["success", "failure", "time-out"])
def test_a_clock_that_raises_at_the_end_of_a_run(make_scheduler, logged, monkeypatch, end, failure):
    """The instance is given back, and the next ticks come."""
    clock, attempts = FailingClock(), []
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    closed = scheduler._runner.closed

    def close(run):
        closed(run)
        if len(attempts) == 2:
            clock.failure = failure

    monkeypatch.setattr(scheduler._runner, "closed", close)

    def job(ctx):
        attempts.append(ctx.attempt)
        if ctx.attempt == 1 or end == "failure":
            raise LookupError
        if end == "time-out":
            clock.sleep(5)

    job_id = scheduler.every("10s", job, max_retries=1, retry_backoff=0, timeout=3)
    clock.advance(10)
    assert clock.failure is None, "it was not asked"
    good = end == "success"
    info = scheduler.get_job(job_id)
    assert (info.running, info.run_count, info.error_count) == (0, good, not good)
    clock.advance(20)
    info = scheduler.get_job(job_id)
    assert (info.running, info.run_count, info.error_count) == (0, 3 * good, 3 * (not good))
    assert info.timeout_count == (3 if end == "time-out" else 0)
    assert attempts == [1, 2] * 3
    faults = [(level, text) for level, text, _ in logged if " timed out after " not in text]
    assert [(level, "the clock has failed at the end of a run" in text) for level, text in faults] == [("ERROR", True)]


class Zone(tzinfo):
    """A zone of the user's that can be broken."""

    broken = False

    def utcoffset(self, dt):
        if self.broken:
            raise RuntimeError("no such time")
        return timedelta(0)

    dst = utcoffset

    def tzname(self, dt):
        return "broken"


@PLAIN_AND_MANAGED
def test_a_zone_that_raises(scheduler, clock, logged, options):
    """A plain job needs no zone and runs; others fail, each tick. Nothing else is harmed."""
    zone = Zone()
    job_id = scheduler.cron("* * * * * *", nothing, seconds=True, timezone=zone, **options)
    runs = []
    scheduler.every("1s", lambda: runs.append(clock.time()))
    clock.advance(1)
    zone.broken = True
    clock.advance(3)
    zone.broken = False
    info = scheduler.get_job(job_id)
    assert (info.started_count, info.running) == (4, 0)
    assert (info.run_count, info.error_count) == ((1, 3) if options else (4, 0))
    assert runs == [1, 2, 3, 4]
    clock.advance(1)
    assert scheduler.get_job(job_id).running == 0


@PLAIN_AND_MANAGED
def test_a_failing_job_of_a_zone_that_raises(make_scheduler, clock, options):
    told, zone = [], Zone()
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append(type(error)))
    scheduler.start_background()
    job_id = scheduler.cron("* * * * * *", raising(LookupError()), seconds=True, timezone=zone, **options)
    zone.broken = True
    clock.advance(2)
    zone.broken = False
    assert len(told) == 2 * (1 + options.get("max_retries", 0))
    assert scheduler.get_job(job_id).running == 0
    assert scheduler.get_job(job_id).error_count == 2


@PLAIN_AND_MANAGED
def test_a_zone_that_raises_does_not_break_a_shutdown(scheduler, clock, options):
    zone, seen = Zone(), []

    def job():
        zone.broken = True
        seen.extend(scheduler.shutdown(timeout=0))
        zone.broken = False

    job_id = scheduler.cron("* * * * * *", job, seconds=True, timezone=zone, id="k", **options)
    clock.advance(1)
    (info,) = seen
    assert (info.id, info.running, info.timezone) == (job_id, 1, UTC)
    assert info.started_at == datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "call",
    [str, lambda scheduler: scheduler.remove_job("k"), lambda scheduler: scheduler.get_job("k")],
    ids=["str", "remove_job", "get_job"],
)
def test_ctrl_c_in_the_code_of_a_zone_is_not_taken_for_a_fault_of_the_zone(scheduler, call):
    """Where that is no reason to fail, as it has no say in it, the times are in UTC."""

    class Interrupted(Zone):
        def utcoffset(self, dt):
            if self.broken:
                raise KeyboardInterrupt
            return timedelta(0)

        dst = utcoffset

    zone = Interrupted()
    scheduler.on("removed", nothing)
    scheduler.cron("* * * * *", nothing, timezone=zone, id="k")
    zone.broken = True
    with pytest.raises(KeyboardInterrupt):
        call(scheduler)
    zone.broken = False
    assert scheduler.remove_job("k")
    scheduler._check()


@PLAIN_AND_MANAGED
def test_a_zone_that_raises_does_not_hold_a_removal_up(scheduler, clock, options):
    """Of a job that runs, whose state is kept for `shutdown`."""
    zone, seen = Zone(), []

    def job():
        zone.broken = True
        scheduler.remove_job("k")
        seen.extend(scheduler.shutdown(timeout=0))
        zone.broken = False

    scheduler.cron("* * * * * *", job, seconds=True, timezone=zone, id="k", **options)
    clock.advance(1)
    assert [(info.id, info.timezone) for info in seen] == [("k", UTC)]
    assert len(scheduler) == 0


@pytest.mark.parametrize("place", ["call_alarm", "call_later"])
def test_no_memory_for_a_time_out_or_a_retry(make_scheduler, clock, monkeypatch, place):
    told = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append(type(error)))
    scheduler.start_background()
    job_id = scheduler.every("1s", raising(LookupError()), max_retries=2, retry_backoff=0, timeout=0.5)

    class Timers:
        def __getattr__(self, name):
            return getattr(scheduler._engine, name)

    def fails(*args):
        raise MemoryError

    timers = Timers()
    setattr(timers, place, fails)
    monkeypatch.setattr(scheduler._runner, "engine", timers)
    goes_on(scheduler, clock, job_id)
    assert MemoryError in told


@pytest.mark.parametrize("place", ["ManagedRun", "JobRun", "CancelToken", "at"])
def test_no_memory_for_a_run(make_scheduler, clock, monkeypatch, place):
    import pysched.runner

    told = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append(type(error)))
    scheduler.start_background()
    job_id = scheduler.every("1s", nothing, timeout=0.5)

    def fails(*args):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(pysched.runner, place, fails)
        clock.advance(2)
    assert told == [MemoryError] * 2
    assert (scheduler.get_job(job_id).running, scheduler.get_job(job_id).error_count) == (0, 2)
    clock.advance(1)
    assert (scheduler.get_job(job_id).running, scheduler.get_job(job_id).run_count) == (0, 1)
    assert not scheduler._runner.all_open()


def test_one_failure_unschedules_nothing(scheduler, clock, logged):
    times = []

    def job():
        times.append(clock.time())
        if len(times) < 3:
            raise ValueError

    job_id = scheduler.every("1s", job)
    clock.advance(3)
    info = scheduler.get_job(job_id)
    assert times == [1, 2, 3]
    assert (info.last_error, info.error_count, info.run_count) == (None, 2, 1)


def test_an_error_without_a_text(scheduler, clock, logged):
    job_id = scheduler.every("1s", raising(ValueError()))
    clock.advance(1)
    assert scheduler.get_job(job_id).last_error == "ValueError"


def test_what_is_logged(scheduler, clock, logged):
    scheduler.every("1s", raising(LookupError("gone")), id="mine")
    clock.advance(1)
    ((level, text, trace),) = logged
    assert (level, trace) == ("ERROR", True)
    assert text.startswith("pysched: job mine (job) raised an exception\nTraceback")
    assert "LookupError: gone" in text


# Memory.


class Big:
    pass


@PLAIN_AND_MANAGED
@pytest.mark.parametrize("how", ["raises", "returns"])
def test_what_a_run_made_is_gone_before_the_next(make_scheduler, clock, options, how):
    scheduler, references = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()

    def job():
        assert all(each() is None for each in references)
        big = Big()
        references.append(weakref.ref(big))
        if how == "raises":
            raise ValueError(big)
        return big

    job_id = scheduler.every("1s", job, **options)
    gc.disable()
    try:
        clock.advance(5)
        assert all(each() is None for each in references)
    finally:
        gc.enable()
    assert len(references) >= 5
    assert scheduler.get_job(job_id).last_error is None or "AssertionError" not in scheduler.get_job(job_id).last_error


@pytest.mark.real_time
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_an_idle_worker_keeps_nothing(make_scheduler, options):
    scheduler, references = make_scheduler(1, on_error=nothing), []

    def job():
        big = Big()
        references.append(weakref.ref(big))
        raise ValueError(big)

    scheduler.every("1h", job, immediate=True, **options)
    scheduler.start_background()
    gc.disable()
    try:
        assert wait_until(lambda: references and references[0]() is None, 5)
    finally:
        gc.enable()


@PLAIN_AND_MANAGED
def test_a_thousand_failures_leave_nothing(make_scheduler, clock, options):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    scheduler.every("1s", lambda: 1 / 0, **options)  # not one error again and again, whose traceback would grow
    clock.advance(100)
    gc.collect()
    before = len(gc.get_objects())
    clock.advance(1000)
    assert gc.collect() < 50
    assert len(gc.get_objects()) - before < 50
    assert threading.active_count() < 10


def test_jobs_that_fail_and_leave_are_forgotten(scheduler, clock, logged):
    def job(number):
        if number % 3 == 0:
            scheduler.remove_job(f"k{number}")
        raise ValueError(number)

    for number in range(30):
        options = {} if number % 2 else {"timeout": 5}
        scheduler.every("1s", job, args=(number,), id=f"k{number}", max_runs=2, **options)
        scheduler.after(1, raising(ValueError()), **options)
    clock.advance(10)
    assert len(scheduler) == 0
    assert not scheduler._book.errors
    assert not scheduler._book.options
    assert not scheduler._book.ids


def test_a_cycle_of_an_owner_and_its_scheduler_is_collected(scheduler_type, clock):
    class Owner:
        def __init__(self):
            self.scheduler = scheduler_type(clock=clock, timezone="UTC")
            self.scheduler.every("1s", self.tick)
            self.scheduler.every("1s", self.tick, timeout=5, id="managed")
            self.scheduler.cron("* * * * *", self.tick)
            self.scheduler.start_background()

        def tick(self):
            pass

    owner = Owner()
    clock.advance(5)
    known = [weakref.ref(owner), weakref.ref(owner.scheduler)]
    owner.scheduler.shutdown()
    del owner
    gc.collect()
    assert [each() for each in known] == [None, None]


def test_a_scheduler_that_was_never_started_is_collected(scheduler_type, clock):
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    scheduler.every("1s", nothing, args=(scheduler,), timeout=5)
    known = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    assert known() is None


def test_a_started_scheduler_lives_as_long_as_its_clock_drives_it(scheduler_type, clock):
    runs = []
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    scheduler.every("1s", lambda: runs.append(1))
    scheduler.start_background()
    known = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    clock.advance(3)
    assert runs == [1, 1, 1]
    known().shutdown()
    gc.collect()
    assert known() is None


def test_removing_a_job_frees_its_callback(scheduler, clock):
    class Owner:
        def tick(self):
            pass

    for options in ({}, {"timeout": 5}, {"id": "k"}):
        owner = Owner()
        known = weakref.ref(owner)
        job_id = scheduler.every("1h", owner.tick, **options)
        del owner
        assert known() is not None
        scheduler.remove_job(job_id)
        assert known() is None


def test_no_context_is_kept(scheduler, clock):
    from contextvars import ContextVar

    variable = ContextVar("variable", default=None)
    big = Big()
    known = weakref.ref(big)
    token = variable.set(big)
    for options in ({}, {"timeout": 5}):
        scheduler.every("1h", nothing, **options)
    variable.reset(token)
    del big, token
    assert known() is None


def test_datetimes_of_errors_are_of_the_run(make_scheduler, clock):
    runs = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: runs.append(run.scheduled_time))
    scheduler.start_background()
    scheduler.every("10s", raising(ValueError()))
    scheduler.every("10s", raising(ValueError()), timeout=1)
    clock.advance(10)
    assert runs == [datetime(2000, 1, 1, 0, 0, 10, tzinfo=UTC)] * 2


@pytest.mark.parametrize("end", ["remove", "replace"])
@pytest.mark.parametrize("options", [{}, {"max_retries": 1, "retry_backoff": 0}], ids=["plain", "managed"])
def test_a_job_that_is_removed_in_its_run_keeps_its_id_to_the_end_of_it(scheduler, clock, logged, end, options):
    seen = []

    def job():
        if end == "remove":
            scheduler.remove_job("mine")
        else:
            scheduler.every("1h", nothing, id="mine", replace=True)
        seen.append(current_run().job_id)
        raise ValueError("late")

    scheduler.every(1, job, id="mine", **options)
    clock.advance(1)
    assert seen == ["mine"]
    assert [line.splitlines()[0] for _, line, *_ in logged] == [f"{scheduler.name}: job mine (job) raised an exception"]
    scheduler._check()


def test_nothing_is_kept_of_jobs_that_were_removed_in_their_runs(scheduler, clock):
    for n in range(50):
        scheduler.after(n, lambda: scheduler.remove_job(current_run().job_id), id=f"job {n}")
    clock.advance(50)
    assert len(scheduler._book.departed) <= 1


@pytest.mark.parametrize("options", [{}, {"max_retries": 2, "retry_backoff": 0}], ids=["plain", "managed"])
def test_a_run_that_says_it_was_cancelled_is_no_error_to_tell_of(scheduler, clock, logged, options):
    def job():
        raise JobCancelled("enough")

    scheduler.every(1, job, id="mine", **options)
    clock.advance(1)
    assert logged == []
    info = scheduler.get_job("mine")
    assert (info.run_count, info.error_count, info.last_error) == (0, 1, "JobCancelled: enough")
