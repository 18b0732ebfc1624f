"""`Scheduler` and rust-py-scheduler 0.3.1, which have the same API: one adapter for both.

Neither has timers: where timers are measured, these have jobs of an interval.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from bench.measure import Prepared, Unavailable
from bench.workload import nothing
from pysched import engine_name

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from bench.workload import Plan

__all__ = ["OURS", "OURS_PURE", "RUST", "SchedulerPeer"]

INTERVAL_S = 1.0


@dataclass(frozen=True)
class SchedulerPeer:
    module: str
    engine: str = "native"

    def make(self, workers: int = 4) -> Any:
        if self.module == "pysched" and engine_name != self.engine:
            raise Unavailable(f"this process runs on the engine that is {engine_name}")
        try:
            return import_module(self.module).Scheduler(workers)
        except ImportError as error:
            raise Unavailable(f"{self.module} is not installed") from error

    @contextmanager
    def every(self, count: int) -> Prepared:
        """`every` of one function, the ids dropped; never started."""
        register = self.make().every

        def timed() -> None:
            for _ in range(count):
                register("1h", nothing)

        yield timed

    @contextmanager
    def run_due(self, count: int) -> Prepared:
        """From the start to the last run of `count` jobs that are all due; their next slots are a second away."""
        scheduler = self.make()
        ran: list[None] = []
        append = ran.append

        def callback() -> None:
            append(None)

        for _ in range(count):
            scheduler.every(f"{INTERVAL_S:.0f}s", callback)
        sleep(INTERVAL_S * 1.05)

        def timed() -> None:
            scheduler.start_background()
            while len(ran) < count:
                sleep(0.0002)

        yield timed
        scheduler.shutdown()

    def pending(self, waits: array[float]) -> object:
        scheduler = self.make()
        for _ in waits:
            scheduler.every("1h", nothing)
        return scheduler

    def idle(self, count: int) -> tuple[None, Callable[[], object]]:
        """A running scheduler with `count` jobs an hour away; it does not tell its wake-ups."""
        scheduler = self.make()
        for _ in range(count):
            scheduler.every("1h", nothing)
        scheduler.start_background()
        return None, scheduler.shutdown

    def lateness(self, plan: Plan) -> list[float]:
        """Jobs of one second, registered evenly over one: each keeps the phase that it was registered at.

        A deadline is read before the call that registers, so that this call is in the lateness: some microseconds.
        Registering goes on during the first second, beside the runs of those that are registered.
        """
        scheduler = self.make(1)
        late: list[float] = []
        for _ in plan.tomorrow():
            scheduler.every("24h", nothing)

        def record(base: float) -> None:
            passed = monotonic() - base
            late.append(passed - round(passed - 0.25))  # the slot it is for, if it is less than 0.75 s late

        scheduler.start_background()
        first = monotonic() + 0.01
        for number in range(plan.rate):
            wait = first + number / plan.rate - monotonic()
            if wait > 0.0:
                sleep(wait)
            scheduler.every(f"{INTERVAL_S:.0f}s", partial(record, monotonic()))
        sleep(plan.seconds + 0.1)
        scheduler.shutdown()
        return late


OURS = SchedulerPeer("pysched")
OURS_PURE = SchedulerPeer("pysched", "pure")
RUST = SchedulerPeer("rust_py_scheduler")
