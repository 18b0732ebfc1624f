"""`Announcer`: makes events for listeners out of what the engine and the runs of a scheduler say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timezone as fixed_zone
from typing import TYPE_CHECKING, Any

from pysched.apart import is_on_main_thread
from pysched.clock import NS
from pysched.events import Events, JobEvent
from pysched.job_run import at
from pysched.reports import log_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, tzinfo

    from pysched.events import EventName
    from pysched.job import JobInfo
    from pysched.runner import JobRun

__all__ = ["Announcer"]


class Announcer:
    """`look(reference)` gives a job as it is, or None; `default_zone` is for times of jobs that are not there."""

    def __init__(
        self, engine: Any, look: Callable[[int], JobInfo | None], default_zone: tzinfo, events: Events
    ) -> None:
        self._engine = engine
        self._look = look
        self._default_zone = default_zone
        self._events = events

    def tell(
        self,
        event: EventName,
        reference: int,
        *,
        job: JobInfo | None = None,
        run: JobRun | None = None,
        slot_ns: int | None = None,
        began_ns: int | None = None,
        outcome: str | None = None,
        last_error: str | None = None,
        **about: Any,
    ) -> BaseException | None:
        """Put an event into the queue, if anybody listens. Raises nothing; what it fails by is logged.

        It is returned if it may be a signal handler's, Ctrl-C's for one, for who can raise it.

        `reference` 0: all jobs. `slot_ns`: the slot, Unix ns. `began_ns`: since when the duration counts, monotonic.
        `outcome`: which counter the end of the run, which is just coming, will increase; `last_error` what it will say.
        """
        if not self._events.wants(event):
            return None
        try:
            self._events.put(self._made(event, reference, job, run, slot_ns, began_ns, outcome, last_error, about))
        except BaseException as failure:
            log_error(f"listeners of {event!r} could not be told", failure)
            return None if isinstance(failure, Exception) or not is_on_main_thread() else failure
        return None

    def _made(
        self,
        event: EventName,
        reference: int,
        job: JobInfo | None,
        run: JobRun | None,
        slot_ns: int | None,
        began_ns: int | None,
        outcome: str | None,
        last_error: str | None,
        about: dict[str, Any],
    ) -> JobEvent:
        if job is None and reference:
            job = self._look(reference)
        zone = self._default_zone if job is None else job.timezone
        now = _moment(self._engine.wall_ns(), zone)
        if outcome is not None and job is not None:
            job = as_it_will_be(job, outcome, last_error, now)
        if began_ns is not None:
            about["duration"] = (self._engine.time_ns() - began_ns) / NS
        if slot_ns is not None:
            about["scheduled_time"] = _moment(slot_ns, zone)
        job_id = name = ""
        if job is not None:
            job_id, name = job.id, job.name
        elif run is not None:
            job_id, name = run.job_id, run.job_name
        return JobEvent(event, now, job_id, name, job, run, **about)

    def decided(self, reference: int, decision: Any, slot_ns: int, count: int) -> None:
        """What became of slots."""
        if decision in ("missed", "coalesced", "dropped"):
            self.tell(decision, reference, slot_ns=slot_ns, count=count)


def as_it_will_be(job: JobInfo, outcome: str, last_error: str | None, now: datetime) -> JobInfo:
    """The job as it will be when a run of it has ended: its engine counts that a moment later."""
    job = replace(job, running=max(0, job.running - 1), last_run_at=now, last_error=last_error)
    if outcome == "run_count":
        return replace(job, run_count=job.run_count + 1)
    return replace(job, error_count=job.error_count + 1, timeout_count=job.timeout_count + 1)


def _moment(wall_ns: int, zone: tzinfo) -> datetime:
    try:
        return at(wall_ns, zone)
    except Exception:  # of a zone of the user's
        return at(wall_ns, fixed_zone.utc)
