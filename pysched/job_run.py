"""`JobRun`: what a callback is told of the run that it is part of; and moments and errors as users see them."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from pysched.zones import EPOCH

if TYPE_CHECKING:
    from pysched.token import CancelToken

__all__ = ["JobRun", "at", "text_of"]


class JobRun:
    """The run that a callback is part of: what a parameter `ctx` gets, and `current_run()` gives.

    `job_id`, `job_name`, `run_id` (the job's id and a number), `scheduled_time` (the slot: aware, in the job's zone),
    `attempt` (from 1), `cancel` (its `CancelToken`).
    """

    __slots__ = ("_lost", "attempt", "cancel", "job_id", "job_name", "run_id", "scheduled_time")

    def __init__(
        self,
        job_id: str,
        job_name: str,
        number: int,
        scheduled_time: datetime,
        attempt: int,
        cancel: CancelToken,
    ) -> None:
        self.job_id = job_id
        self.job_name = job_name
        self.run_id = f"{job_id}#{number}"
        self.scheduled_time = scheduled_time
        self.attempt = attempt
        self.cancel = cancel
        self._lost = False  # whether a context could not be taken out of it

    def __repr__(self) -> str:
        return f"<JobRun {self.run_id} of {self.scheduled_time.isoformat()}, attempt {self.attempt}>"


def at(wall_ns: int, zone: tzinfo) -> datetime:
    """A moment of the wall clock, aware, cut to the microsecond; the last that a datetime can be, if it is later."""
    try:
        return (EPOCH + timedelta(microseconds=wall_ns // 1000)).astimezone(zone)
    except OverflowError:
        return datetime.max.replace(tzinfo=zone)


def text_of(error: BaseException) -> str:
    """``TypeName: text``, without a space at the end if there is no text."""
    try:
        name = str.__str__(type(error).__name__)
    except BaseException:  # of a metaclass
        name = "<unknown>"
    try:
        text = str.__str__(str(error))  # plain text also of a subclass
    except BaseException as failure:
        text = f"<its text could not be had: {type(failure).__name__}>"
    return f"{name}: {text}" if text else name
