"""How jobs are registered and named: what `Scheduler` keeps of them, and how it comes there.

A job that is all default has nothing here at all: its id is its reference in the engine, written out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from pysched import engine as chosen_engine
from pysched.callbacks import PLAIN, check_callback, is_simple, qualified_name_of, wanted_of
from pysched.clock import NEVER
from pysched.job import JobOptions
from pysched.options import ONCE, REPEATED, SCHEDULED, check_cron_options, check_options, given, shows, wall_ns_of
from pysched.reports import logger
from pysched.runner import ManagedJob, Runner
from pysched.schedule import parse_cron, parse_duration
from pysched.trigger import After, At, Cron, Every, Trigger
from pysched.zones import parse_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from datetime import datetime, tzinfo

    from typing_extensions import Unpack

    from pysched.clock import Clock
    from pysched.engine import CalendarSchedule
    from pysched.job import JobInfo
    from pysched.options import Duration, OnceOptions, RepeatedOptions, ScheduledOptions
    from pysched.runner import JobRun

__all__ = ["Registry"]

F = TypeVar("F", bound="Callable[..., object]")

_SERIALS = itertools.count(1)
_FEW_CALENDARS = 64
_ZERO, _ONE = 0, 1  # compared by identity: what only equals them is looked at more closely


class Registry(ABC):
    """The half of a `Scheduler` that takes jobs in; the other half runs, changes and shows them."""

    _backend: ClassVar[Any] = chosen_engine  # tests name another: JobEngine, CalendarSchedule, Calendar and Zone

    def __init__(self, executor: Executor | int, clock: Clock | None, name: str, zone: tzinfo) -> None:
        self._zone = zone
        self._engine = self._backend.JobEngine(self, executor, clock, name, f"{next(_SERIALS):x}-")
        self._runner = Runner(self._engine, clock, self._report, self._set_error, self._try_info)
        self._prefix: str = self._engine.prefix
        self._naming = RLock()  # held while a job gets an id of the user's
        self._ids: dict[str, int] = {}  # of jobs that have an id of their own, by it: their references
        self._lookalikes = False  # whether users have taken ids that look like default ones
        self._options: dict[int, JobOptions] = {}  # of jobs that are not all default, by reference
        self._errors: dict[int, str] = {}  # last_error of jobs that have failed, by reference
        self._schedules: dict[object, CalendarSchedule] = {}
        self._sweep_at = _FEW_CALENDARS
        self._closed = False
        self._warned = False

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
        if not options and max_retries is _ZERO and timeout is None and max_instances is _ONE and retry_backoff == 0.5:
            job_id = self._add_plain(callback, period)
            if job_id is not None:
                return job_id
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
        if not options and max_retries is _ZERO and timeout is None and max_instances is _ONE and retry_backoff == 0.5:
            schedule = self._schedule_of(expression, False, None, self._zone)
            job_id = self._add_plain(callback, 0, schedule)
            if job_id is not None:
                return job_id
        all_options = given(options, SCHEDULED, "cron")
        check_cron_options(all_options)
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
        wait = parse_duration(delay, "delay", zero=True)
        if not options and max_retries is _ZERO and timeout is None and max_instances is _ONE and retry_backoff == 0.5:
            job_id = self._add_plain(callback, wait, None, True)
            if job_id is not None:
                return job_id
        return self._register(
            After(wait),
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

    def _add_plain(
        self, callback: object, period: int, schedule: CalendarSchedule | None = None, single: bool = False
    ) -> str | None:
        """The id of a job of which nothing is kept here, since it is all default; None if it is not."""
        if callback is None or self._closed:
            return None
        job_id: str | None = self._engine.add_plain(callback, period, schedule, single)
        if self._lookalikes and job_id is not None and job_id in self._ids:
            return self._new_id(int(job_id[len(self._prefix) :], 16))
        return job_id

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
            jitter=jitter,
            max_retries=options["max_retries"],
            retry_backoff=options["retry_backoff"],
            timeout=options["timeout"],
            on_error=options["on_error"],
        )
        managed = bool(
            options["max_retries"]
            or options["timeout"] is not None
            or wanted.cancel
            or wanted.ctx
            or kwargs
            or options["on_error"] is not None  # which is called for a run whose job has been removed too
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
            with self._naming:  # its first run may ask before it has its name
                reference = self._ids.get(job_id, 0)
        if not reference:
            raise KeyError(job_id)
        return reference

    def _job_left(self, reference: int) -> None:
        """Forget a job: the engine says that it has left, or it was removed."""
        self._errors.pop(reference, None)
        self._runner.forget(reference)
        if reference in self._options:
            with self._naming:  # a new job may be getting the id just now
                record = self._options.get(reference)
                if record is not None and record.id is not None and self._ids.get(record.id) == reference:
                    del self._ids[record.id]
                self._options.pop(reference, None)

    def _remove(self, reference: int) -> bool | None:
        """Whether that prevented a run that would have come; None if there is no such job."""
        prevented: bool | None = self._engine.remove(reference)
        self._runner.drop_retries(reference)
        if prevented is not None:
            self._job_left(reference)
        return prevented

    # -- what the other half tells --

    @abstractmethod
    def _report(self, error: BaseException, run: JobRun | None, options: JobOptions) -> None:
        """Tell of an attempt that failed."""

    def _set_error(self, reference: int, text: str) -> None:
        self._errors[reference] = text
        if self._engine.snapshot(reference) is None:  # it was removed, and nobody would take this away
            self._errors.pop(reference, None)

    @abstractmethod
    def _try_info(self, reference: int) -> JobInfo | None:
        """The job at this instant; None if there is none."""

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
