"""What makes a job due: an interval, a cron expression, a delay, a moment. What an engine needs to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pysched.clock import NEVER
from pysched.options import wall_ns_of
from pysched.schedule import duration_text

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from pysched.engine import CalendarSchedule

__all__ = ["After", "At", "Cron", "Every", "Trigger"]

LONG_AGO = NEVER // 2
"""How late a moment can be, in ns: 146 years; earlier ones count as this late."""


class Trigger(ABC):
    """`period` ns, or a `schedule`, or neither; `wall`: its slots are on the wall clock.

    `text` and `zone` are what a job shows, where its period or its schedule does not say it.
    """

    period: int = 0
    schedule: CalendarSchedule | None = None
    wall: bool = False
    text: str | None = None
    zone: tzinfo | None = None

    @abstractmethod
    def first_slot(self, now: int, wall_now: int, start_at: int | None) -> int:
        """The first slot on the job's clock, ns; `start_at` is Unix ns."""

    def begin(self, start_at: int | None) -> int:  # noqa: ARG002
        """Before which no slot may be, should the calendar be planned anew; Unix ns."""
        return -NEVER


class Every(Trigger):
    def __init__(self, period: int) -> None:
        self.period = period

    def first_slot(self, now: int, wall_now: int, start_at: int | None) -> int:
        if start_at is None:
            return now + self.period
        begin = now + (start_at - wall_now)
        # The first of the grid that is not past: -(-x // y) rounds up, in integers, where floats would lose ns.
        return begin if begin >= now else begin + -((begin - now) // self.period) * self.period


class Cron(Trigger):
    wall = True
    schedule: CalendarSchedule

    def __init__(self, schedule: CalendarSchedule, zone: tzinfo) -> None:
        self.schedule = schedule
        self.zone = zone

    def first_slot(self, now: int, wall_now: int, start_at: int | None) -> int:  # noqa: ARG002
        found = self.schedule.next(wall_now if start_at is None else min(max(wall_now, start_at - 1), NEVER))
        if found is None:
            raise ValueError("expression never comes before the year 2262")
        return found

    def begin(self, start_at: int | None) -> int:
        return -NEVER if start_at is None else max(-NEVER, min(start_at, NEVER))


class After(Trigger):
    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.text = f"after {duration_text(delay)}"

    def first_slot(self, now: int, wall_now: int, start_at: int | None) -> int:  # noqa: ARG002
        return min(now + self.delay, NEVER)


class At(Trigger):
    wall = True

    def __init__(self, when: datetime, name: str) -> None:
        """Raises TypeError or ValueError naming the argument `name`, unless `when` is an aware datetime."""
        self.when_ns = wall_ns_of(when, name)
        self.text = f"at {when.isoformat()}"
        self.zone = when.tzinfo

    def first_slot(self, now: int, wall_now: int, start_at: int | None) -> int:  # noqa: ARG002
        return max(wall_now - LONG_AGO, min(self.when_ns, NEVER))
