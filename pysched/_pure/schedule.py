"""`CalendarSchedule`: a calendar that many jobs share, with the step that they all take.

When a minute comes, every job of an expression asks for the same next slot: it is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched._pure.calendar import Calendar
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CalendarSchedule"]

SECOND = 1_000_000_000
NOWHEN = (0, 0, NEVER)


class CalendarSchedule:
    """A calendar with its latest step, to be shared by all jobs that have it.

    `label` is the owner's, for its views.
    """

    __slots__ = ("__weakref__", "_calendar", "_jobs", "_label", "_step", "_steps")

    def __init__(self, calendar: Calendar, label: Any = None) -> None:
        if not isinstance(calendar, Calendar):
            raise TypeError(f"calendar must be a Calendar, got {type(calendar).__name__}")
        self._calendar = calendar
        self._label = label
        self._jobs = 0  # kept by the table of jobs
        self._steps = 0
        # Of all times from the first second to before the second one, the third is the next slot, ns. One tuple:
        # several engines may share a schedule, and they share no lock.
        self._step = NOWHEN

    @property
    def calendar(self) -> Calendar:
        return self._calendar

    @property
    def label(self) -> Any:
        return self._label

    @property
    def _wildcard(self) -> bool:
        return self._calendar._fields.wildcard

    @property
    def steps(self) -> int:
        """How many steps of the calendar jobs have had computed."""
        return self._steps

    @property
    def jobs(self) -> int:
        """How many jobs have it."""
        return self._jobs

    def next(self, after_ns: int) -> int | None:
        """The first slot after that time of the wall clock, ns; None if there is none."""
        found = self._calendar.next(after_ns // SECOND)
        return None if found is None else found * SECOND

    def slots(self, first_ns: int) -> Iterator[int]:
        """Yields the slots from `first_ns` on, which is one."""
        slot: int | None = first_ns
        while slot is not None:
            yield slot
            slot = self.next(slot)

    def next_shared(self, after_ns: int) -> int:
        """As `next`, for the jobs: remembers the step that it took; NEVER if there is no slot."""
        after = after_ns // SECOND
        first, end, slot = self._step
        if not first <= after < end:
            self._steps += 1
            found = self._calendar.next(after)
            slot = NEVER if found is None else found * SECOND
            self._step = (after, NEVER if found is None else found, slot)
        return slot

    def latest(self, until_ns: int) -> int:
        """The latest slot at or before that time of the wall clock, ns; -NEVER if there is none."""
        found = self._calendar.previous(until_ns // SECOND)
        return -NEVER if found is None else found * SECOND


NOBODYS = CalendarSchedule.__new__(CalendarSchedule)
"""Stands for the schedule of jobs that have none."""
NOBODYS._jobs = 0
