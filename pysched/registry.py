"""How jobs are registered: from the arguments of a call to the engine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from pysched import engine as chosen_engine
from pysched.callbacks import PLAIN, check_callback, is_async, is_simple, stable_name_of, wanted_of
from pysched.clock import NEVER
from pysched.job import JobOptions
from pysched.lifecycle import exiting
from pysched.options import (
    COUNTS,
    INTERVAL,
    NOT_GIVEN,
    ONCE,
    SCHEDULED,
    check_cron_options,
    check_options,
    given,
    shows,
    spread_of,
)
from pysched.owner import JobOwner
from pysched.reports import log_warning
from pysched.runner import ManagedJob
from pysched.schedule import parse_duration
from pysched.schedules import Schedules
from pysched.text import shown
from pysched.trigger import After, At, Cron, Every, Trigger
from pysched.zones import parse_zone

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from datetime import datetime, tzinfo

    from typing_extensions import Unpack

    from pysched.clock import Clock
    from pysched.engine import CalendarSchedule
    from pysched.options import Duration, IntervalOptions, OnceOptions, ScheduledOptions
    from pysched.runner import JobRun

__all__ = ["Registry"]

F = TypeVar("F", bound="Callable[..., object]")

_ZERO, _ONE = 0, 1


def is_default(max_retries: object, retry_backoff: object, timeout: object, max_instances: object) -> bool:
    """Whether these are as if they had not been given; what only equals them (True, 1.0) is looked at more closely."""
    return (
        (max_retries is NOT_GIVEN or max_retries is _ZERO)
        and (timeout is NOT_GIVEN or timeout is None)
        and (max_instances is NOT_GIVEN or max_instances is _ONE)
        and (retry_backoff is NOT_GIVEN or (type(retry_backoff) is float and retry_backoff == 0.5))
    )


class Registry:
    """The part of a `Scheduler` that takes jobs in."""

    _backend: ClassVar[Any] = chosen_engine  # tests name another: JobEngine, CalendarSchedule, Calendar and Zone

    def __init__(
        self,
        executor: Executor | int,
        daemon: bool,
        clock: Clock | None,
        name: str,
        zone: tzinfo,
        loop: AbstractEventLoop | None,
        on_error: Callable[[BaseException, JobRun], object] | None,
        defaults: Mapping[str, Any],
    ) -> None:
        self._zone = zone
        self._defaults = {**COUNTS, **defaults}
        self._plain = not defaults  # a job without options has those of all jobs
        self._once, self._interval, self._scheduled = (
            {**table, **{name: value for name, value in defaults.items() if name in table}}
            for table in (ONCE, INTERVAL, SCHEDULED)
        )
        self._owner = owner = JobOwner(self, self._backend, executor, daemon, clock, name, zone, loop, on_error)
        self._engine, self._book, self._runner = owner.engine, owner.book, owner.runner
        self._view, self._events = owner.view, owner.events
        self._schedules = Schedules(self._backend)
        processes = sys.modules.get("concurrent.futures.process")
        self._leaves_process = processes is not None and isinstance(executor, processes.ProcessPoolExecutor)
        self._closed = False
        self._warned = False

    @property
    def name(self) -> str:
        """The name in logs and of threads."""
        return self._owner.name

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
        **options: Unpack[IntervalOptions],
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
        **options: Unpack[IntervalOptions],
    ) -> Callable[[F], F]: ...
    @shows(INTERVAL)
    def every(
        self,
        interval: Duration,
        callback: Callable[..., object] | None = None,
        max_retries: int = NOT_GIVEN,
        retry_backoff: Duration = NOT_GIVEN,
        timeout: Duration | None = NOT_GIVEN,
        max_instances: int = NOT_GIVEN,
        **options: Any,
    ) -> Any:
        """Run `callback` on a fixed grid: now + k x `interval`, started or not.

        `interval`: "250ms", "10s", "1h30m", "1d", seconds, or a `timedelta`; at most 10**9 s. Returns the job's id;
        without a callback a decorator, which registers the function and returns it unchanged. The other options are
        those of `IntervalOptions`. O(log n).

        Raises:
            ValueError: an argument is out of range, or the id is taken and not `replace`.
            TypeError: an argument is of a wrong type, or a parameter of the callback cannot be filled.
        """
        period = parse_duration(interval, "interval")
        if not options and is_default(max_retries, retry_backoff, timeout, max_instances):
            job_id = self._add_plain(callback, period)
            if job_id is not None:
                return job_id
        return self._register(
            Every(period),
            callback,
            given(options, self._interval, "every"),
            max_retries,
            retry_backoff,
            timeout,
            max_instances,
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
        max_retries: int = NOT_GIVEN,
        retry_backoff: Duration = NOT_GIVEN,
        timeout: Duration | None = NOT_GIVEN,
        max_instances: int = NOT_GIVEN,
        **options: Any,
    ) -> Any:
        """Run `callback` whenever the wall clock matches `expression`, in the grammar of Debian's cron.

        The other options are those of `ScheduledOptions`; returns and raises what `every` does.
        """
        if not options and is_default(max_retries, retry_backoff, timeout, max_instances):
            schedule = self._schedules.get(expression, False, None, self._zone)
            job_id = self._add_plain(callback, 0, schedule)
            if job_id is not None:
                return job_id
        all_options = given(options, self._scheduled, "cron")
        check_cron_options(all_options)
        zone = self._zone if all_options["timezone"] is None else parse_zone(all_options["timezone"])

        def trigger_of(function: object) -> Trigger:
            hashed = None
            if all_options["hashed"]:
                hashed = all_options["id"] or stable_name_of(function)
            return Cron(self._schedules.get(expression, all_options["seconds"], hashed, zone), zone)

        return self._register(
            trigger_of,
            callback,
            all_options,
            max_retries,
            retry_backoff,
            timeout,
            max_instances,
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
        max_retries: int = NOT_GIVEN,
        retry_backoff: Duration = NOT_GIVEN,
        timeout: Duration | None = NOT_GIVEN,
        max_instances: int = NOT_GIVEN,
        **options: Any,
    ) -> Any:
        """Run `callback` once, `delay` (what `every` takes, or 0) from now. The job leaves when its run has ended.

        The other options are those of `OnceOptions`; returns and raises what `every` does.
        """
        wait = parse_duration(delay, "delay", zero=True)
        if not options and is_default(max_retries, retry_backoff, timeout, max_instances):
            job_id = self._add_plain(callback, wait, None, True)
            if job_id is not None:
                return job_id
        return self._register(
            After(wait),
            callback,
            given(options, self._once, "after"),
            max_retries,
            retry_backoff,
            timeout,
            max_instances,
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
        max_retries: int = NOT_GIVEN,
        retry_backoff: Duration = NOT_GIVEN,
        timeout: Duration | None = NOT_GIVEN,
        max_instances: int = NOT_GIVEN,
        **options: Any,
    ) -> Any:
        """Run `callback` once, at `when`, an aware datetime; one in the past runs at once.

        The other options are those of `OnceOptions`; returns and raises what `every` does.
        """
        return self._register(
            At(when, "when"),
            callback,
            given(options, self._once, "at"),
            max_retries,
            retry_backoff,
            timeout,
            max_instances,
        )

    def _add_plain(
        self, callback: object, period: int, schedule: CalendarSchedule | None = None, single: bool = False
    ) -> str | None:
        """The id of a job of which nothing is kept here, since it is all default; None if it is not."""
        if callback is None or self._closed or not self._plain or self._events.wants("added"):
            return None
        job_id: str | None = self._engine.add_plain(callback, period, schedule, single)
        if job_id is not None and self._book.lookalikes:
            reference = int(job_id[len(self._book.prefix) :], 16)
            job_id = self._book.checked_id(job_id, reference)
            if not self._engine.has(reference):  # it has come and gone already
                self._owner._job_left(reference)
        return job_id

    def _register(
        self,
        trigger_of: Trigger | Callable[[object], Trigger],  # or by the callback: `H` may be hashed on its name
        callback: Callable[..., object] | None,
        options: Mapping[str, Any],
        max_retries: int,
        retry_backoff: Duration,
        timeout: Duration | None,
        max_instances: int,
    ) -> Any:
        """Check everything, then add the job; without a callback return the decorator that does the latter."""
        trigger = trigger_of if isinstance(trigger_of, Trigger) else trigger_of(callback)
        counts = zip(self._defaults, (max_retries, retry_backoff, timeout, max_instances), strict=False)
        checked = check_options(
            options, *(self._defaults[name] if value is NOT_GIVEN else value for name, value in counts)
        )
        for name in ("jitter", "spread"):
            if trigger.period and checked[name] >= trigger.period:
                raise ValueError(f"{name} must be less than the interval, got {shown(options[name])}")
        self._slots(trigger, checked)
        if callback is None:
            # As they are now; an iterator gives its items only once.
            now = {name: checked[name] for name in ("args", "kwargs", "tags")}
            return self._decorator(trigger_of, {**options, **now}, max_retries, retry_backoff, timeout, max_instances)
        check_callback(callback)
        args, kwargs = checked["args"], checked["kwargs"]
        wanted = PLAIN if is_simple(callback) and not args and not kwargs else wanted_of(callback, args, kwargs)
        record = JobOptions(
            id=checked["id"],
            name=checked["name"],
            schedule=trigger.text,
            tags=checked["tags"],
            zone=trigger.zone,
            jitter=checked["jitter"],
            spread=checked["spread"],
            max_retries=checked["max_retries"],
            retry_backoff=checked["retry_backoff"],
            timeout=checked["timeout"],
            on_error=checked["on_error"],
        )
        called: Callable[..., object] = callback
        managed = record.needs_runner() or wanted != PLAIN or bool(kwargs) or is_async(callback)
        if managed:
            if self._leaves_process:
                raise TypeError(
                    "callback cannot go to another process with max_retries, timeout, cancel, ctx, kwargs or on_error"
                )
            zone = trigger.zone or self._zone
            called = ManagedJob(self._runner, callback, args, kwargs, wanted, record, zone, self._book.id_of)
            args = ()
        if self._closed and not self._warned and not exiting():  # at the exit nobody has to be told
            self._warned = True
            log_warning(f"{self.name} was shut down: jobs that are registered now never run")

        # Until it is in the book, so that its first run knows its name, and listeners of it before they hear of a run.
        held = self._events.wants("added")
        kept = None if not managed and record.is_default(trigger.schedule is not None) else record
        delay = checked["spread"] and spread_of(checked["id"] or stable_name_of(callback), checked["spread"])
        held = held or kept is not None
        slot, until = self._slots(trigger, checked)
        reference: int = self._engine.add(
            called,
            args,
            trigger.period,
            trigger.schedule,
            slot,
            trigger.wall,
            managed,
            checked["max_instances"],
            until,
            checked["jitter"],
            checked["max_runs"],
            checked["immediate"],
            held,
            checked["misfire_grace_time"],
            checked["catch_up"],
            checked["overlap"] == "queue",
            checked["from_end"],
            delay,
            trigger.begin(checked["start_at"]),
        )
        return self._enter(reference, kept, checked["replace"], held)

    def _decorator(
        self, trigger_of: Trigger | Callable[[object], Trigger], options: Mapping[str, Any], *counts: Any
    ) -> Callable[[F], F]:
        def decorate(function: F) -> F:
            if not callable(function):
                raise TypeError(f"callback must be callable, got {type(function).__name__}")
            self._register(trigger_of, function, options, *counts)
            return function

        return decorate

    def _slots(self, trigger: Trigger, options: Mapping[str, Any]) -> tuple[int, int]:
        """The job's first slot and its end, on its clock."""
        now = self._engine.time_ns()
        wall_now = self._engine.wall_ns() if trigger.wall else now + self._engine.offset_ns()
        slot = min(trigger.first_slot(now, wall_now, options["start_at"]), NEVER)
        until = options["until"]
        if until is None:
            return slot, NEVER
        end = until if trigger.wall else now + (until - wall_now)
        if slot >= end:
            raise ValueError("until must be after the job's first slot: it would never run")
        return slot, min(end, NEVER)

    def _enter(self, reference: int, record: JobOptions | None, replace: bool, held: bool) -> str:
        """Enter a new job into the book, where it has a record then; returns its id."""
        replaced: list[int] = []
        try:
            if record is None or record.id is None:
                job_id = self._book.enter(reference, record)
            else:
                job_id = record.id
                self._book.enter_as(job_id, reference, record, replace, replaced)
                for old in replaced:
                    self._owner.remove(old)
        except BaseException:  # the id is taken, there is no memory, or a signal handler has raised, who knows where
            self._book.withdraw(reference, replaced)
            raise
        try:
            self._owner.announce("added", reference)
        finally:
            if held:
                self._engine.arm(reference)
            if not self._engine.has(reference):  # it has come and gone already
                self._owner._job_left(reference)
        return job_id
