"""`sched` of the standard library, which runs on the thread that calls its `run`."""

from __future__ import annotations

import sched
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING

from bench.workload import delays, nothing

if TYPE_CHECKING:
    from array import array

    from bench.measure import Prepared
    from bench.workload import Plan

__all__ = ["cancel", "lateness", "pending", "register", "run_inline"]


def _filled(waits: array[float] | tuple[float, ...]) -> tuple[sched.scheduler, list[sched.Event]]:
    scheduler = sched.scheduler(monotonic, sleep)
    return scheduler, [scheduler.enter(delay, 0, nothing) for delay in waits]


@contextmanager
def register(count: int) -> Prepared:
    enter = sched.scheduler(monotonic, sleep).enter
    waits = delays(count)

    def timed() -> None:
        for delay in waits:
            enter(delay, 0, nothing)

    yield timed


@contextmanager
def cancel(count: int) -> Prepared:
    """Each is looked for from the start of the list, and the list made a heap again."""
    scheduler, events = _filled(delays(count))

    def timed() -> None:
        for event in events:
            scheduler.cancel(event)

    yield timed


@contextmanager
def run_inline(count: int) -> Prepared:
    scheduler = sched.scheduler(monotonic, sleep)
    for _ in range(count):
        scheduler.enter(0.0, 0, nothing)
    yield lambda: scheduler.run(blocking=False)


def pending(waits: array[float]) -> object:
    return _filled(waits)[0]


def lateness(plan: Plan) -> list[float]:
    late: list[float] = []

    def record(deadline: float) -> None:
        late.append(monotonic() - deadline)

    scheduler, _ = _filled(tuple(plan.tomorrow()))
    deadlines = plan.deadlines()
    for deadline in deadlines:
        scheduler.enterabs(deadline, 0, record, (deadline,))
    while len(late) < len(deadlines):
        wait = scheduler.run(blocking=False)
        if wait is not None and len(late) < len(deadlines):
            sleep(wait)
    return late
