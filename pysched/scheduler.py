"""`Scheduler`: jobs at intervals, by cron, once; and `CommandScheduler`, under the reference's name of this module.

The engine keeps slots and counts; here are names, options and views. A job that is all default has nothing here at
all: its id is its reference in the engine, written out.
"""

from __future__ import annotations

import itertools
from datetime import timezone as fixed_zone
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from pysched import engine as chosen_engine
from pysched import lifecycle
from pysched.callbacks import PLAIN, check_callback, is_simple, name_of, qualified_name_of, wanted_of
from pysched.clock import NEVER
from pysched.commands import ScheduledCommand
from pysched.engine import CommandScheduler
from pysched.job import DEFAULTS, JobInfo, JobOptions
from pysched.options import (
    ONCE,
    REPEATED,
    SCHEDULED,
    check_count,
    check_handler,
    check_options,
    given,
    shows,
    wall_ns_of,
)
from pysched.reports import call_handler, log_error, logger
from pysched.runner import JobRun, ManagedJob, Runner, at, introduce, text_of
from pysched.schedule import duration_text, parse_cron, parse_duration
from pysched.token import CancelToken
from pysched.trigger import After, At, Cron, Every, Trigger
from pysched.zones import parse_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Executor
    from datetime import datetime, timedelta, tzinfo
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from pysched.clock import Clock
    from pysched.engine import CalendarSchedule
    from pysched.options import Duration, OnceOptions, RepeatedOptions, ScheduledOptions
    from pysched.stats import EngineStats

__all__ = ["CommandScheduler", "ScheduledCommand", "Scheduler"]

F = TypeVar("F", bound="Callable[..., object]")

NS = 1_000_000_000
_ZERO, _ONE = 0, 1  # compared by identity: what only equals them, False and True, is looked at more closely
_SERIALS = itertools.count(1)
_FEW_CALENDARS = 64


class Scheduler:
    """Runs jobs at intervals (`every`), by cron expressions (`cron`) and once (`after`, `at`), on a pool of workers.

    Parameters
    ----------
    max_workers
        How many callbacks run at once: the threads of a pool of the scheduler's own; default 4.
    executor
        A `concurrent.futures` executor of yours instead, which is never shut down here.
    clock
        A `pysched.Clock`; default: the system's. On a `pysched.testing.ManualClock` nothing runs but in `advance`.
    timezone
        Of cron jobs and of the times shown; a name or a `tzinfo`, default: the system's zone.
    on_error
        `on_error(exc, run)` is called with what a callback raised and its `JobRun`, once per failed attempt, instead
        of the log with its traceback. A job's own goes first.
    name
        Of the loop's thread; workers are ``{name}-worker_{i}``.

    Jobs may be registered, changed and looked at from any thread, also from their callbacks, before and after the
    start. Bad arguments raise TypeError or ValueError naming the argument, with nothing changed.
    """

    _backend: ClassVar[Any] = chosen_engine  # tests name another: JobEngine, CalendarSchedule, Calendar and Zone

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        executor: Executor | None = None,
        clock: Clock | None = None,
        timezone: str | tzinfo | None = None,
        on_error: Callable[[BaseException, JobRun], object] | None = None,
        name: str = "pysched",
    ) -> None:
        if max_workers is not None and executor is not None:
            raise ValueError("max_workers and executor exclude each other")
        workers = 4 if max_workers is None else max_workers
        if isinstance(workers, bool) or not isinstance(workers, int):
            raise TypeError(f"max_workers must be an int, got {type(workers).__name__}")
        if not 1 <= workers <= 1 << 20:
            raise ValueError(f"max_workers must be from 1 to {1 << 20}, got {workers}")
        if isinstance(executor, int):
            raise TypeError(f"executor must be an Executor, got {type(executor).__name__}")
        check_handler(on_error)
        self._zone = parse_zone(timezone)
        self._workers = workers if executor is None else None
        self._on_error = on_error
        self._engine = self._backend.JobEngine(
            self, workers if executor is None else executor, clock, name, f"{next(_SERIALS):x}-"
        )
        self._runner = Runner(self._engine, clock, self._report, self._set_error, self._try_info)
        self._prefix = self._engine.prefix
        self._naming = RLock()  # held while a job gets an id of the user's
        self._ids: dict[str, int] = {}  # of jobs that have an id of their own, by it: their references
        self._lookalikes = False  # whether users have taken ids that look like default ones
        self._options: dict[int, JobOptions] = {}  # of jobs that are not all default, by reference
        self._errors: dict[int, str] = {}  # last_error of jobs that have failed, by reference
        self._schedules: dict[object, CalendarSchedule] = {}
        self._sweep_at = _FEW_CALENDARS
        self._closed = False
        self._warned = False
        lifecycle.register(self)
        introduce(self)

    @property
    def name(self) -> str:
        """The name in logs and of threads."""
        name: str = self._engine.name
        return name

    # -- registering --

    @overload
    def every(
        self,
        interval: Duration,
        callback: Callable[..., object],
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[RepeatedOptions],
    ) -> str: ...
    @overload
    def every(
        self,
        interval: Duration,
        callback: None = None,
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[RepeatedOptions],
    ) -> Callable[[F], F]: ...
    @shows(REPEATED)
    def every(
        self,
        interval: Duration,
        callback: Callable[..., object] | None = None,
        max_retries: int = 0,
        retry_backoff: Duration = 0.5,
        timeout: Duration | None = None,
        max_instances: int = 1,
        **options: Any,
    ) -> Any:
        """Run `callback` on a fixed grid: now + k x `interval`, started or not.

        `interval`: "250ms", "10s", "1h30m", "1d", seconds, or a `timedelta`; at most 10**9 s. Returns the job's id;
        without a callback a decorator, which registers the function and returns it unchanged. The other options are
        those of `RepeatedOptions`. O(log n).

        Raises:
            ValueError: an argument is out of range, or the id is taken and not `replace`.
            TypeError: an argument is of a wrong type, or a parameter of the callback cannot be filled.
        """
        period = parse_duration(interval, "interval")
        if (
            not options
            and callback is not None
            and max_retries is _ZERO
            and timeout is None
            and max_instances is _ONE
            and retry_backoff == 0.5
            and not self._closed
        ):
            job_id = self._engine.add_plain(callback, period)
            if job_id is not None:  # nothing is kept of it here
                return self._new_id(self._of_default_id(job_id)) if self._lookalikes else job_id
        return self._register(
            Every(period),
            callback,
            {
                "max_retries": max_retries,
                "retry_backoff": retry_backoff,
                "timeout": timeout,
                "max_instances": max_instances,
                **given(options, REPEATED, "every"),
            },
        )

    @overload
    def cron(
        self,
        expression: str,
        callback: Callable[..., object],
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[ScheduledOptions],
    ) -> str: ...
    @overload
    def cron(
        self,
        expression: str,
        callback: None = None,
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[ScheduledOptions],
    ) -> Callable[[F], F]: ...
    @shows(SCHEDULED)
    def cron(
        self,
        expression: str,
        callback: Callable[..., object] | None = None,
        max_retries: int = 0,
        retry_backoff: Duration = 0.5,
        timeout: Duration | None = None,
        max_instances: int = 1,
        **options: Any,
    ) -> Any:
        """Run `callback` whenever the wall clock matches `expression`, in the grammar of Debian's cron.

        The other options are those of `ScheduledOptions`; returns and raises what `every` does.
        """
        all_options = given(options, SCHEDULED, "cron")
        zone = self._zone if all_options["timezone"] is None else parse_zone(all_options["timezone"])

        def trigger_of(function: object) -> Trigger:
            hashed = None
            if all_options["hashed"]:
                hashed = all_options["id"] or f"{getattr(function, '__module__', '')}.{qualified_name_of(function)}"
            return Cron(self._schedule_of(expression, all_options["seconds"], hashed, zone), zone)

        return self._register(
            trigger_of,
            callback,
            {
                "max_retries": max_retries,
                "retry_backoff": retry_backoff,
                "timeout": timeout,
                "max_instances": max_instances,
                **all_options,
            },
        )

    @overload
    def after(
        self,
        delay: Duration,
        callback: Callable[..., object],
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[OnceOptions],
    ) -> str: ...
    @overload
    def after(
        self,
        delay: Duration,
        callback: None = None,
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[OnceOptions],
    ) -> Callable[[F], F]: ...
    @shows(ONCE)
    def after(
        self,
        delay: Duration,
        callback: Callable[..., object] | None = None,
        max_retries: int = 0,
        retry_backoff: Duration = 0.5,
        timeout: Duration | None = None,
        max_instances: int = 1,
        **options: Any,
    ) -> Any:
        """Run `callback` once, `delay` (what `every` takes, or 0) from now. The job leaves when its run has ended.

        The other options are those of `OnceOptions`; returns and raises what `every` does.
        """
        return self._register(
            After(parse_duration(delay, "delay", zero=True)),
            callback,
            {
                "max_retries": max_retries,
                "retry_backoff": retry_backoff,
                "timeout": timeout,
                "max_instances": max_instances,
                **given(options, ONCE, "after"),
            },
        )

    @overload
    def at(
        self,
        when: datetime,
        callback: Callable[..., object],
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[OnceOptions],
    ) -> str: ...
    @overload
    def at(
        self,
        when: datetime,
        callback: None = None,
        max_retries: int = ...,
        retry_backoff: Duration = ...,
        timeout: Duration | None = ...,
        max_instances: int = ...,
        **options: Unpack[OnceOptions],
    ) -> Callable[[F], F]: ...
    @shows(ONCE)
    def at(
        self,
        when: datetime,
        callback: Callable[..., object] | None = None,
        max_retries: int = 0,
        retry_backoff: Duration = 0.5,
        timeout: Duration | None = None,
        max_instances: int = 1,
        **options: Any,
    ) -> Any:
        """Run `callback` once, at `when`, an aware datetime; one in the past runs at once.

        The other options are those of `OnceOptions`; returns and raises what `every` does.
        """
        return self._register(
            At(when, wall_ns_of(when, "when")),
            callback,
            {
                "max_retries": max_retries,
                "retry_backoff": retry_backoff,
                "timeout": timeout,
                "max_instances": max_instances,
                **given(options, ONCE, "at"),
            },
        )

    def _register(
        self,
        trigger_of: Trigger | Callable[[object], Trigger],  # or by the callback: `H` may be hashed on its name
        callback: Callable[..., object] | None,
        given_options: dict[str, Any],
    ) -> Any:
        """Check everything, then add the job; without a callback return the decorator that does the latter."""
        trigger = trigger_of if isinstance(trigger_of, Trigger) else trigger_of(callback)
        options = check_options(given_options)
        jitter = options.get("jitter") or 0
        if trigger.period and jitter >= trigger.period:
            raise ValueError(f"jitter must be less than the interval, got {given_options['jitter']!r}")
        self._slots(trigger, options)
        if callback is None:
            # As they are now; an iterator gives its items only once.
            now = {name: options[name] for name in ("args", "kwargs", "tags")}
            return self._decorator(trigger_of, {**given_options, **now})
        check_callback(callback)
        args, kwargs = options["args"], options["kwargs"]
        wanted = PLAIN if is_simple(callback) and not args and not kwargs else wanted_of(callback, args, kwargs)
        called: Callable[..., object] = callback
        record: JobOptions | None = JobOptions(
            id=options["id"],
            name=options["name"],
            schedule=trigger.text,
            tags=options["tags"],
            zone=trigger.zone,
            max_retries=options["max_retries"],
            retry_backoff=options["retry_backoff"],
            timeout=options["timeout"],
            on_error=options["on_error"],
            jitter=jitter,
        )
        managed = bool(
            options["max_retries"]
            or options["timeout"] is not None
            or wanted.cancel
            or wanted.ctx
            or kwargs
            or options["on_error"] is not None  # which is called for a run whose job has been removed, too
        )
        if managed:
            assert record is not None
            called = ManagedJob(
                self._runner, callback, args, kwargs, wanted, record, trigger.zone or self._zone, self._id_of
            )
            args = ()
        elif record is not None and record.is_default(trigger.schedule is not None):
            record = None
        if self._closed and not self._warned:
            self._warned = True
            logger().warning("%s was shut down: jobs that are registered now never run", self.name)

        def add() -> int:
            slot, until = self._slots(trigger, options)
            reference: int = self._engine.add(
                called,
                args,
                trigger.period,
                trigger.schedule,
                slot,
                trigger.wall,
                managed,
                options["max_instances"],
                until,
                jitter,
                options.get("max_runs") or 0,
                options.get("immediate", False),
            )
            return reference

        return self._add(options["id"], record, options["replace"], add)

    def _decorator(
        self, trigger_of: Trigger | Callable[[object], Trigger], options: dict[str, Any]
    ) -> Callable[[F], F]:
        def decorate(function: F) -> F:
            if not callable(function):
                raise TypeError(f"callback must be callable, got {type(function).__name__}")
            self._register(trigger_of, function, options)
            return function

        return decorate

    def _slots(self, trigger: Trigger, options: Mapping[str, Any]) -> tuple[int, int]:
        """The job's first slot and its end, on its clock."""
        now, wall_now = self._engine.time_ns(), self._engine.wall_ns()
        slot = min(trigger.first_slot(now, wall_now, options.get("start_at")), NEVER)
        until = options.get("until")
        if until is None:
            return slot, NEVER
        end = until if trigger.wall else now + (until - wall_now)
        if slot >= end:
            raise ValueError("until must be after the job's first slot: it would never run")
        return slot, min(end, NEVER)

    def _add(self, job_id: str | None, record: JobOptions | None, replace: bool, add: Callable[[], int]) -> str:
        old = 0
        if job_id is None:
            reference = add()
            if record is not None:
                self._options[reference] = record
            text = self._new_id(reference)
        else:
            assert record is not None
            text = job_id
            with self._naming:
                old = self._ids.get(job_id) or self._of_default_id(job_id)
                if old and self._engine.snapshot(old) is None:  # its end is about to be told
                    old = 0
                if old and not replace:
                    raise ValueError(f"id {job_id!r} is taken; use replace=True to replace that job")
                reference = add()
                self._options[reference] = record
                self._ids[job_id] = reference
                self._lookalikes = self._lookalikes or job_id.startswith(self._prefix)
        if old:  # only now, as `add` may have failed
            self._remove(old)
        if record is not None and self._engine.snapshot(reference) is None:  # it has come and gone already
            self._job_left(reference)
        return text

    # -- ids --

    def _default_id(self, reference: int) -> str:
        return f"{self._prefix}{reference:x}"

    def _new_id(self, reference: int) -> str:
        """The id of a new job that was given none."""
        text = self._default_id(reference)
        if self._lookalikes and text in self._ids:
            with self._naming:
                while text in self._ids:  # the user's
                    text += "+"
                self._ids[text] = reference
                self._options.setdefault(reference, JobOptions()).id = text
        return text

    def _of_default_id(self, job_id: str) -> int:
        """The reference of a live job that has this id by default, or 0."""
        if not job_id.startswith(self._prefix):
            return 0
        try:
            reference = int(job_id[len(self._prefix) :], 16)
        except ValueError:
            return 0
        if self._default_id(reference) != job_id or reference >> 56:
            return 0
        record = self._options.get(reference)
        if (record is not None and record.id is not None) or self._engine.snapshot(reference) is None:
            return 0
        return reference

    def _id_of(self, reference: int) -> str:
        record = self._options.get(reference)
        return self._default_id(reference) if record is None or record.id is None else record.id

    def _reference_of(self, job_id: str) -> int:
        """Raises KeyError for an unknown id."""
        if not isinstance(job_id, str):
            raise KeyError(job_id)
        reference = self._ids.get(job_id) or self._of_default_id(job_id)
        if not reference:
            raise KeyError(job_id)
        return reference

    # -- what the engine and the runner tell --

    def _job_failed(self, reference: int, error: BaseException) -> None:
        self._set_error(reference, text_of(error))
        options = self._options.get(reference, DEFAULTS)
        try:
            run = self._current_run()
        except BaseException:  # of a zone of the user's, say
            run = self._current_run(fixed_zone.utc)
        self._report(error, run, options)

    def _set_error(self, reference: int, text: str) -> None:
        self._errors[reference] = text
        if self._engine.snapshot(reference) is None:  # it was removed, and nobody would take this away
            self._errors.pop(reference, None)

    def _report(self, error: BaseException, run: JobRun | None, options: JobOptions) -> None:
        handler = options.on_error or self._on_error
        if handler is not None:
            call_handler(handler, error, run)
        else:
            log_error(f"{self.name}: job {run.job_id if run else '?'} raised an exception", error)

    def _job_left(self, reference: int) -> None:
        record = self._options.pop(reference, None)
        self._errors.pop(reference, None)
        if record is not None and record.id is not None and self._ids.get(record.id) == reference:
            self._ids.pop(record.id, None)

    def _current_run(self, zone: tzinfo | None = None) -> JobRun | None:
        """The run of an unmanaged job that this thread is inside of."""
        found = self._engine.current()
        if found is None:
            return None
        reference, number, scheduled_ns = found
        job_id = self._id_of(reference)
        if zone is None:
            snapshot = self._engine.snapshot(reference)
            zone = self._zone if snapshot is None else self._zone_of(snapshot)
        return JobRun(job_id, f"{job_id}#{number}", at(scheduled_ns, zone), 1, CancelToken())

    # -- control --

    def remove_job(self, id: str) -> bool:
        """Remove a job: True if that prevented a run that would have come. KeyError for an unknown id. O(1).

        A run in progress goes on, its token does not fire; retries that wait are dropped.
        """
        prevented = self._remove(self._reference_of(id))
        if prevented is None:
            raise KeyError(id)
        return prevented

    def _remove(self, reference: int) -> bool | None:
        prevented: bool | None = self._engine.remove(reference)
        self._runner.drop_retries(reference)
        if prevented is not None:
            self._job_left(reference)
        return prevented

    def remove_all_jobs(self, tag: str | None = None) -> int:
        """Remove all jobs, or those with the tag; returns how many there were. O(n)."""
        removed = 0
        for snapshot in self._engine.snapshots():
            if tag is None or tag in self._options.get(snapshot[0], DEFAULTS).tags:
                removed += self._remove(snapshot[0]) is not None
        return removed

    def pause_job(self, id: str) -> None:
        """Let the job's slots pass by (`paused_count`); runs in progress go on. KeyError for an unknown id."""
        if not self._engine.pause(self._reference_of(id)):
            raise KeyError(id)

    def resume_job(self, id: str) -> None:
        """Wait for the job's next slot on its old grid; a one-shot whose time has passed runs at once."""
        if not self._engine.resume(self._reference_of(id)):
            raise KeyError(id)

    def run_job(self, id: str) -> bool:
        """Run the job now, besides its slots, paused or not: False if `max_instances` runs are busy.

        Raises KeyError for an unknown id, RuntimeError if the scheduler is not running.
        """
        reference = self._reference_of(id)
        if not self._engine.running:
            raise RuntimeError(f"{self.name} is not running")
        started: bool | None = self._engine.run_job(reference)
        if started is None:
            raise KeyError(id)
        return started

    def reschedule_job(
        self,
        id: str,
        *,
        every: str | float | timedelta | None = None,
        cron: str | None = None,
        after: str | float | timedelta | None = None,
        at: datetime | None = None,
        timezone: str | tzinfo | None = None,
        start_at: datetime | None = None,
    ) -> None:
        """Give the job a new grid from now on, by exactly one of `every`, `cron`, `after` and `at`.

        Id, options, counters and pause stay; a queued run is dropped, one in progress goes on. KeyError for an unknown
        id; ValueError if the new grid does not go with the job's `until` or `jitter`.
        """
        reference = self._reference_of(id)
        if sum(each is not None for each in (every, cron, after, at)) != 1:
            raise ValueError("exactly one of every, cron, after and at must be given")
        if timezone is not None and cron is None:
            raise ValueError("timezone goes with cron only")
        if start_at is not None and every is None and cron is None:
            raise ValueError("start_at goes with every and cron only")
        zone = self._zone if timezone is None else parse_zone(timezone)
        trigger: Trigger
        if every is not None:
            trigger = Every(parse_duration(every, "every"))
        elif cron is not None:
            trigger = Cron(self._schedule_of(cron, False, None, zone), zone)
        elif after is not None:
            trigger = After(parse_duration(after, "after", zero=True))
        else:
            assert at is not None
            trigger = At(at, wall_ns_of(at, "at"))
        snapshot = self._engine.snapshot(reference)
        if snapshot is None:
            raise KeyError(id)
        record = self._options.get(reference)
        if trigger.period and record is not None and record.jitter >= trigger.period:
            raise ValueError(f"every must be longer than the job's jitter, got {every!r}")
        limits = {
            "start_at": None if start_at is None else wall_ns_of(start_at, "start_at"),
            "until": None if snapshot[UNTIL] == NEVER else snapshot[UNTIL],
        }
        slot, _ = self._slots(trigger, limits)
        if not self._engine.reschedule(reference, trigger.period, trigger.schedule, slot, trigger.wall):
            raise KeyError(id)
        if record is None and trigger.text is not None:
            record = self._options[reference] = JobOptions()
        if record is not None:
            record.schedule = trigger.text
            record.zone = trigger.zone
        if type(snapshot[CALLBACK]) is ManagedJob:
            snapshot[CALLBACK].zone = trigger.zone or self._zone
        if self._engine.snapshot(reference) is None:  # it has left meanwhile
            self._job_left(reference)

    def pause(self) -> None:
        """Let the slots of all jobs pass by; apart from the pauses of single jobs."""
        self._engine.pause_all()

    def resume(self) -> None:
        """End `pause`."""
        self._engine.resume_all()

    # -- life --

    @property
    def running(self) -> bool:
        """Whether it is started and not shut down."""
        running: bool = self._engine.running
        return running

    def start_background(self) -> None:
        """Start on a thread of its own and return. RuntimeError if it runs; after `shutdown` a warning, no more."""
        if self._refuses_start():
            return
        if self._engine.running:
            raise RuntimeError(f"{self.name} is running already")
        self._engine.start()
        if self._closed:  # just now, by another thread
            self._engine.stop(0.0)

    def run(self) -> None:
        """Run until `shutdown()`; Ctrl-C ends it at once, as a KeyboardInterrupt, after tokens were fired."""
        if self._refuses_start():
            return
        if self._engine.running:
            raise RuntimeError(f"{self.name} is running already")
        try:
            self._engine.run()
        except BaseException:
            if not self._engine.running:  # else another thread was faster to start it
                self._runner.cancel_all()
            raise

    def _refuses_start(self) -> bool:
        if self._closed:
            logger().warning("%s was shut down, which is one-way: it does not start again", self.name)
        return self._closed

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> list[JobInfo]:
        """Stop for good: fires every token, drops retries and queued runs, waits for what runs.

        Waits at most `timeout` seconds (None: without limit), not at all if not `wait`, nor from inside a callback.
        Returns the jobs that are still running. Safe at any time, any number of times.
        """
        limit = None if timeout is None else parse_duration(timeout, "timeout", zero=True) / NS
        self._closed = True
        self._runner.close()
        self._engine.stop(limit if wait else 0.0)
        self._runner.cancel_all()
        left = {snapshot[0]: self._info(snapshot) for snapshot in self._engine.snapshots() if snapshot[RUNNING]}
        for run, then in list(self._runner.abandoned.items()):
            reference = run.ticket.reference
            if reference not in left and (info := self._try_info(reference) or then) is not None:
                left[reference] = info
        return list(left.values())

    def __enter__(self) -> Self:
        self.start_background()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    def _at_exit(self) -> None:
        self._closed = True
        self._runner.close()

    def _after_fork_in_child(self) -> None:
        self._naming = RLock()  # a thread of the parent may have held it
        self._runner.forget_threads()

    # -- looking --

    def get_job(self, id: str) -> JobInfo:
        """The job at this instant. KeyError for an unknown id. O(1)."""
        info = self._try_info(self._reference_of(id))
        if info is None:
            raise KeyError(id)
        return info

    def list_jobs(self, tag: str | None = None) -> list[dict[str, Any]]:
        """All jobs, or those with the tag, in order of registration, as dicts of what `JobInfo` has.

        Times are strings of whole Unix seconds, as rust-py-scheduler has them. O(n log n).
        """
        return [
            self._dict(snapshot)
            for snapshot in self._engine.snapshots()
            if tag is None or tag in self._options.get(snapshot[0], DEFAULTS).tags
        ]

    def next_runs(self, id: str, n: int) -> list[datetime]:
        """The job's next `n` slots, aware, in its zone; none while it is paused. KeyError for an unknown id."""
        check_count(n, "n", least=0, most=10**6)
        snapshot = self._engine.snapshot(self._reference_of(id))
        if snapshot is None:
            raise KeyError(id)
        if snapshot[ENABLED] is False or snapshot[SLOT] is None:
            return []
        zone = self._zone_of(snapshot)
        first, last, limit = snapshot[SLOT], snapshot[UNTIL], snapshot[TICKS_LEFT]
        n = min(n, limit) if limit else n
        slots: Iterable[int]
        if snapshot[SCHEDULE] is not None:
            slots = itertools.islice(snapshot[SCHEDULE].slots(first), n)
        elif snapshot[PERIOD]:
            slots = (first + k * snapshot[PERIOD] for k in range(n))
        else:
            slots = (first,)[:n]
        return [at(slot, zone) for slot in slots if slot < last]

    def stats(self) -> EngineStats:
        """Counters of runs, and the lateness of their starts; `pending` counts jobs. See `EngineStats`."""
        counted: EngineStats = self._engine.stats()
        return counted._replace(pending=len(self._engine), abandoned=len(self._runner.abandoned))

    def is_healthy(self) -> bool:
        """Whether it runs, and calls that were given up after their time-out do not occupy all its workers."""
        return self.running and (self._workers is None or len(self._runner.abandoned) < self._workers)

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._engine)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = "running" if self.running else "shut down" if self._closed else "not started"
        return f"<Scheduler {self.name!r} {state}, {len(self)} jobs>"

    def _check(self) -> None:
        self._engine._check()
        for job_id, reference in list(self._ids.items()):
            if reference and self._options[reference].id != job_id:
                raise AssertionError("an id and its job disagree")

    def _zone_of(self, snapshot: tuple[Any, ...]) -> tzinfo:
        if snapshot[SCHEDULE] is not None:
            zone: tzinfo = snapshot[SCHEDULE].label[1]
            return zone
        return self._options.get(snapshot[0], DEFAULTS).zone or self._zone

    def _try_info(self, reference: int) -> JobInfo | None:
        snapshot = self._engine.snapshot(reference)
        return None if snapshot is None else self._info(snapshot)

    def _info(self, snapshot: tuple[Any, ...]) -> JobInfo:
        zone = self._zone_of(snapshot)
        values = self._dict(snapshot)
        for key, ns in (
            ("last_run_at", snapshot[LAST_END]),
            ("next_run_at", snapshot[NEXT]),
            ("started_at", snapshot[LAST_START]),
        ):
            values[key] = None if ns is None else at(ns, zone)
        values["timezone"] = zone
        return JobInfo(**values)

    def _dict(self, snapshot: tuple[Any, ...]) -> dict[str, Any]:
        (
            reference,
            _,
            callback,
            next_ns,
            enabled,
            period,
            schedule,
            failing,
            started,
            succeeded,
            failed,
            timed_out,
            coalesced,
            paused,
            last_start,
            last_end,
            running,
            instances,
            _,
            _,
            _,
        ) = snapshot
        options = self._options.get(reference, DEFAULTS)
        if options.schedule is not None:
            text = options.schedule
        elif schedule is not None:
            text = schedule.label[0]
        else:
            text = f"every {duration_text(period)}"
        if type(callback) is ManagedJob:
            callback = callback.callback
        return {
            "id": self._default_id(reference) if options.id is None else options.id,
            "name": options.name if options.name is not None else name_of(callback),
            "schedule": text,
            "enabled": enabled,
            "run_count": succeeded,
            "error_count": failed,
            "last_run_at": None if last_end is None else str(last_end // NS),
            "next_run_at": None if next_ns is None else str(next_ns // NS),
            "max_retries": options.max_retries,
            "last_error": self._errors.get(reference, "") if failing else None,
            "retry_backoff": options.retry_backoff,
            "timeout": options.timeout,
            "max_instances": instances,
            "running": running,
            "coalesced_count": coalesced,
            "timeout_count": timed_out,
            "started_count": started,
            "missed_count": 0,
            "paused_count": paused,
            "tags": options.tags,
            "timezone": str(self._zone_of(snapshot)),
            "started_at": None if last_start is None else str(last_start // NS),
        }

    # -- calendars --

    def _schedule_of(self, expression: str, seconds: bool, hashed: str | None, zone: tzinfo) -> CalendarSchedule:
        """The schedule that all jobs of that expression and zone share."""
        if not isinstance(expression, str):
            raise TypeError(f"expression must be a str, got {type(expression).__name__}")
        key = (expression, seconds, hashed, id(zone))
        known = self._schedules.get(key)
        if known is not None:
            return known
        fields = parse_cron(expression, seconds=seconds, hashed=hashed)
        backend = self._backend
        found = backend.CalendarSchedule(
            backend.Calendar(fields, backend.Zone(zone)), (f"cron {fields.expression}", zone)
        )
        if len(self._schedules) >= self._sweep_at:
            for other, schedule in list(self._schedules.items()):
                if not schedule.jobs:
                    self._schedules.pop(other, None)
            self._sweep_at = 2 * len(self._schedules) + _FEW_CALENDARS
        return self._schedules.setdefault(key, found)


# Places in a snapshot of the engine.
CALLBACK, NEXT, ENABLED, PERIOD, SCHEDULE = 2, 3, 4, 5, 6
LAST_START, LAST_END, RUNNING = 14, 15, 16
SLOT, UNTIL, TICKS_LEFT = 18, 19, 20
