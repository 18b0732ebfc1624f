"""Pending timers and jobs, in a fresh process for each contender and round, so that nothing else counts.

`memory`: growth of the resident set from before the first timer to after the last, over the number of timers. What an
allocator keeps in reserve but never touched does not count, what it touched and freed again does: so it includes the
holes that doubling arrays leave. Tables double, so that just after a doubling a timer costs more than just before
it. Handles are dropped, except in the line that says so; keys and arguments would come on top. `job-memory`: the same
for jobs of an interval.

`gc`: a full `gc.collect()`, the median of three after one that is not counted. It includes the few milliseconds that
the interpreter's own modules take. Timers with a callback of their own each would add those callbacks to both sides.
C++ holds nothing that Python could visit: its line is what a collection takes anyhow.
"""

from __future__ import annotations

import gc
from array import array
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import cpu_ns
from bench.peers import NO_TIMERS, apscheduler3, cpp, heap, schedule_loop, stdlib_sched
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.peers.schedulers import OURS, OURS_PURE, RUST
from bench.result import Goal
from bench.row import MILLION, TO_MILLION, Column, Row
from bench.workload import delays

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.row import Numbers

    Fill = Callable[[array[float]], object]

__all__ = ["ROWS"]


def memory(fill: Fill) -> Callable[[int], Numbers]:
    """Growth of the resident set a timer, in bytes."""

    def numbers(count: int) -> Numbers:
        import psutil  # type: ignore[import-untyped]

        waits = array("d", delays(count))
        holders = [fill(waits[:1000])]  # so that what is made once is not counted
        gc.collect()
        process = psutil.Process()
        before = process.memory_info().rss
        holders.append(fill(waits))
        gc.collect()
        grown = process.memory_info().rss - before
        _close(*holders)
        return {"bytes": grown / count}

    return numbers


def collection(fill: Fill) -> Callable[[int], Numbers]:
    """Milliseconds of CPU time of a full collection while the timers are pending."""

    def numbers(count: int) -> Numbers:
        holder = fill(array("d", delays(count)))
        pause = _pause_ms()
        _close(holder)
        return {"ms": pause}

    return numbers


def _close(*holders: object) -> None:
    """Those that own a thread, a socket or C++'s memory have a `close`."""
    for holder in holders:
        getattr(holder, "close", lambda: None)()


def _pause_ms() -> float:
    gc.collect()  # what is young grows old, what need not be tracked is dropped
    pauses = []
    for _ in range(3):
        begin = cpu_ns()
        gc.collect()
        pauses.append(cpu_ns() - begin)
    return median(pauses) / 1e6


PENDING: dict[str, Fill] = {
    "pysched": NATIVE.pending,
    "pysched, handles kept": NATIVE.pending_kept,
    "heapq.heappush": heap.pending,
    "asyncio": ASYNCIO.pending,
    "twin": TWIN.pending,
}
PEERS: dict[str, Fill] = {
    "uvloop": UVLOOP.pending,
    "sched": stdlib_sched.pending,
    "APScheduler 3": apscheduler3.pending,
    "C++ priority_queue": cpp.pending,
}
JOBS: dict[str, Fill] = {"pysched": OURS.pending, "rust-py-scheduler": RUST.pending}
JOB_PEERS: dict[str, Fill] = {
    "twin": OURS_PURE.pending,
    "APScheduler 3": apscheduler3.pending_jobs,
    "schedule": schedule_loop.pending,
}

ROWS = [
    Row(
        "memory",
        (Column("bytes", "memory a pending timer", "B", Goal("<= 80 B", 80.0)),),
        {who: memory(fill) for who, fill in PENDING.items()},
        count=MILLION,
        others={who: memory(fill) for who, fill in PEERS.items()},
        cannot=NO_TIMERS,
        goal_from=100_000,
    ),
    Row(
        "job-memory",
        (Column("bytes", "memory a pending job", "B", Goal("<= 320 B", 320.0)),),
        {who: memory(fill) for who, fill in JOBS.items()},
        others={who: memory(fill) for who, fill in JOB_PEERS.items()},
        goal_from=100_000,
    ),
    Row(
        "gc",
        (Column("ms", "gc.collect() while timers are pending", "ms", Goal("<= 1/12 of asyncio", 1 / 12, "asyncio")),),
        {who: collection(fill) for who, fill in PENDING.items()},
        count=MILLION,
        sizes=TO_MILLION,
        others={who: collection(fill) for who, fill in PEERS.items()},
        cannot=NO_TIMERS,
        goal_from=MILLION,
    ),
]
