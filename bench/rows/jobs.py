"""`Scheduler` beside rust-py-scheduler 0.3.1, whose API it has: registering, running what is due, memory.

`every`: `every("1h", function)`, with the whole signature and the id that it returns. `due-jobs`: 20,000 jobs whose
first slot has passed before the start, through four workers with all counters kept; the callback is a Python function
that appends to a list, whose length the main thread looks at now and then. `job-memory`: growth of the resident set of
a fresh process, a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.measure import alternate, cpu_ns
from bench.peers.schedulers import OURS, RUST
from bench.probe import measure
from bench.result import Goal, Result
from bench.row import Timed

if TYPE_CHECKING:
    from bench.row import Row, Settings

__all__ = ["ROWS"]

PEER = "rust-py-scheduler"


@dataclass(frozen=True)
class JobMemory:
    name: str = "job-memory"

    def run(self, settings: Settings) -> list[Result]:
        def grown(who: str) -> float:
            return measure("memory", who, settings.size(100_000))["bytes"]

        values = alternate({who: partial(grown, who) for who in ("Scheduler", PEER)}, settings.rounds)
        renamed = {"pysched": values["Scheduler"], PEER: values[PEER]}
        return [Result(self.name, "memory a pending job, 10^5", "B", renamed, Goal("<= 320 B", 320.0))]


ROWS: list[Row] = [
    Timed(
        "every",
        "Scheduler.every, 2 x 10^4",
        {"pysched": OURS.every, PEER: RUST.every},
        clock=cpu_ns,
        count=20_000,
        goal=Goal(">= 8 times as fast", 1 / 8, PEER),
    ),
    Timed(
        "due-jobs",
        "run 20,000 due jobs, 4 workers",
        {"pysched": OURS.run_due, PEER: RUST.run_due},
        count=20_000,
        goal=Goal(">= 60 times as fast", 1 / 60, PEER),
    ),
    JobMemory(),
]
