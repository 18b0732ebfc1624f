"""What the tests of `JobEngine` share: an owner that remembers, snapshots with names, schedules in UTC."""

from __future__ import annotations

import importlib
from datetime import timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from pysched.clock import NEVER
from pysched.schedule import parse_cron

if TYPE_CHECKING:
    from types import ModuleType

S = 1_000_000_000
"""A second, in ns."""
WALL = 946_684_800 * S
"""Where the wall clock of a ManualClock begins: the start of a minute, an hour, a day and a year."""


class Snapshot(NamedTuple):
    reference: int
    order: int
    callback: Any
    next: int | None
    enabled: bool
    immediate: bool
    period: int
    schedule: Any
    failing: bool
    started: int
    succeeded: int
    failed: int
    timed_out: int
    coalesced: int
    missed: int
    paused: int
    last_start: int | None
    last_end: int | None
    running: int
    active: int
    queued: int
    instances: int
    slot: int | None
    until: int
    ticks_left: int
    single: bool

    @classmethod
    def of(cls, found: Any) -> Snapshot:
        return cls(*(getattr(found, name) for name in cls._fields))


class Owner:
    """Stands for the scheduler."""

    def __init__(self) -> None:
        self.failed: list[tuple[int, str]] = []
        self.returned: list[tuple[Any, Any]] = []
        self.left: list[int] = []
        self.decided: list[tuple[int, str, int, int, int, int]] = []

    def _job_failed(self, reference: int, error: BaseException) -> None:
        self.failed.append((reference, repr(error)))

    def _job_returned(self, ticket: Any, awaitable: Any) -> None:
        self.returned.append((ticket, awaitable))

    def _job_left(self, reference: int, snapshot: Any = None) -> None:
        self.left.append(reference)

    def _job_decided(self, reference: int, decision: str, when: int, slot: int, count: int, late: int) -> None:
        self.decided.append((reference, decision, when, slot, count, late))


class Jobs:
    """A JobEngine with its owner; what is not mentioned passes through. Seconds go in, and `at` gives them."""

    def __init__(self, impl: ModuleType, clock: Any = None, executor: Any = 1, name: str = "jobs") -> None:
        self.module = importlib.import_module(impl.__name__ + ".job_engine")
        self.schedules = importlib.import_module(impl.__name__ + ".schedule")
        self.tickets = importlib.import_module(impl.__name__ + ".ticket")
        self.calendar = importlib.import_module(impl.__name__ + ".calendar")
        self.owner = Owner()
        self.clock = clock
        self.engine = self.module.JobEngine(self.owner, executor, clock, name, "p-")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def __len__(self) -> int:
        return len(self.engine)

    def now(self) -> int:
        return self.engine.time_ns()

    def every(self, interval: float, callback: Any, *args: Any, first: float | None = None, **options: Any) -> int:
        """`until` in seconds from now."""
        return self.add(
            callback, args, interval, None, self.now() + ns(interval if first is None else first), **options
        )

    def after(self, delay: float, callback: Any, *args: Any, **options: Any) -> int:
        return self.add(callback, args, 0, None, self.now() + ns(delay), **options)

    def at(self, wall_ns: int, callback: Any, *args: Any, **options: Any) -> int:
        return self.add(callback, args, 0, None, wall_ns, True, **options)

    def cron(self, schedule: Any, callback: Any, *args: Any, **options: Any) -> int:
        return self.add(callback, args, 0, schedule, schedule.next(self.engine.wall_ns()), True, **options)

    def add(
        self,
        callback: Any,
        args: tuple[Any, ...],
        interval: float,
        schedule: Any,
        slot: int,
        wall: bool = False,
        *,
        managed: bool = False,
        instances: int = 1,
        until: float | None = None,
        jitter: float = 0,
        max_runs: int = 0,
        immediate: bool = False,
        held: bool = False,
        grace: float | None = None,
        catch_up: str = "one",
        queues: bool = False,
        from_end: bool = False,
        delay: float = 0,
        begin: int = -NEVER,
    ) -> int:
        end = NEVER
        if until is not None:
            end = (self.engine.wall_ns() if wall else self.now()) + ns(until)
        reference: int = self.engine.add(
            callback, args, ns(interval), schedule, slot, wall, managed, instances, end, ns(jitter), max_runs,
            immediate, held, NEVER if grace is None else ns(grace), catch_up, queues, from_end, ns(delay), begin,
        )  # fmt: skip
        return reference

    def remove(self, reference: int) -> bool | None:
        """Whether that prevented a run; None if there is no such job."""
        removal = self.engine.remove(reference)
        return None if removal is None else removal[0]

    def regrid(self, reference: int, interval: float) -> bool:
        """Reschedule to an interval from now on."""
        done: bool = self.engine.reschedule(reference, ns(interval), None, self.now() + ns(interval), False)
        return done

    def schedule(self, expression: str, label: Any = None, seconds: bool = False) -> Any:
        zone = self.calendar.Zone(timezone.utc)
        return self.schedules.CalendarSchedule(
            self.calendar.Calendar(parse_cron(expression, seconds=seconds), zone), label
        )

    def look(self, reference: int) -> Snapshot:
        """The snapshot of a job that is there; everything else must be in order, too."""
        self.engine._check()
        found = self.engine.snapshot(reference)
        assert found is not None, "the job has left"
        return Snapshot.of(found)


def ns(seconds: float) -> int:
    return round(seconds * S)
