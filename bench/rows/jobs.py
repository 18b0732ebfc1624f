"""`Scheduler` beside rust-py-scheduler 0.3.1, whose API it has, and others with jobs: registering, running what is due.

`every`: `every("1h", function)`, with the whole signature and the id that it returns. `due-jobs`: 20,000 jobs whose
first slot has passed before the start, through four workers with all counters kept (with fewer, the start of the
threads is most of it); the callback is a Python function that appends to a list, whose length the main thread looks at
now and then. `schedule` runs its jobs on one thread.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import apscheduler3, schedule_loop
from bench.peers.schedulers import OURS, OURS_PURE, RUST
from bench.result import Goal
from bench.row import MILLION, timed

__all__ = ["ROWS"]

PEER = "rust-py-scheduler"

ROWS = [
    timed(
        "every",
        "Scheduler.every",
        {"pysched": OURS.every, PEER: RUST.every},
        clock=cpu_ns,
        count=20_000,
        goal=Goal(">= 8 times as fast", 1 / 8, PEER),
        goal_from=10_000,
        others={"twin": OURS_PURE.every, "APScheduler 3": apscheduler3.every, "schedule": schedule_loop.every},
    ),
    timed(
        "due-jobs",
        "run due jobs, 4 workers",
        {"pysched": OURS.run_due, PEER: RUST.run_due},
        count=20_000,
        goal=Goal(">= 60 times as fast", 1 / 60, PEER),
        sizes=(10_000, 20_000, 100_000, MILLION, 10_000_000),
        others={"twin": OURS_PURE.run_due, "APScheduler 3": apscheduler3.run_due, "schedule": schedule_loop.run_due},
    ),
]
