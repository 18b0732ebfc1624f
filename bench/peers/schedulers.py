"""`Scheduler` and rust-py-scheduler 0.3.1, which have the same API: one adapter for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from time import sleep
from typing import Any

from bench.measure import Unavailable
from bench.workload import nothing

__all__ = ["OURS", "RUST", "SchedulerPeer"]

Prepared = Iterator[Callable[[], object]]
INTERVAL_S = 1.0


@dataclass(frozen=True)
class SchedulerPeer:
    module: str

    def make(self, workers: int = 4) -> Any:
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

    def pending(self, count: int) -> object:
        scheduler = self.make()
        for _ in range(count):
            scheduler.every("1h", nothing)
        return scheduler


OURS = SchedulerPeer("pysched")
RUST = SchedulerPeer("rust_py_scheduler")
