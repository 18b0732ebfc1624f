"""A running loop with 10^5 timers or jobs for later, for two seconds, in a fresh process.

Wake-ups are counted by the engine (`stats().wakeups`), for asyncio by its selector; so that nobody has to believe an
engine about itself, a column gives the kernel's count of waits that ended in the whole process, less the measuring
thread's own. The worst round counts.
"""

from __future__ import annotations

import gc
import sys
from time import process_time, sleep
from typing import TYPE_CHECKING

from bench.peers import apscheduler3, schedule_loop
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.peers.schedulers import OURS, RUST
from bench.result import Goal
from bench.row import USUAL, Column, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.row import Numbers

    Idle = Callable[[int], tuple[Callable[[], int] | None, Callable[[], object]]]

__all__ = ["ROWS"]

IDLE_SECONDS = 2.0
SPAN = f"in {IDLE_SECONDS:.0f} s of idleness"


def idle(start: Idle) -> Callable[[int], Numbers]:
    """Wake-ups by the contender's own count, CPU time and the kernel's count of waits that ended."""

    def numbers(count: int) -> Numbers:
        wakeups, stop = start(count)
        gc.collect()
        sleep(0.2)
        woken, cpu, switches = wakeups() if wakeups else 0, process_time(), _switches()
        sleep(IDLE_SECONDS)
        found = {
            "cpu_ms": (process_time() - cpu) * 1e3,
            # One is this thread's own sleep.
            "switches": _switches() - switches - 1,
            **({"wakeups": wakeups() - woken} if wakeups else {}),
        }
        stop()
        return found

    return numbers


def _switches() -> int:
    """The kernel's count of waits that ended, of all threads of this process."""
    if sys.platform == "win32":
        import psutil  # type: ignore[import-untyped]

        return int(psutil.Process().num_ctx_switches().voluntary)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


ROWS = [
    Row(
        "idle",
        (
            Column("wakeups", f"wake-ups {SPAN}", "", Goal("0", 0.0), middle=max),
            Column("switches", f"waits that the kernel ended {SPAN}", "", middle=max),
            Column("cpu_ms", f"CPU time {SPAN}", "ms"),
        ),
        {"pysched": idle(NATIVE.idle), "asyncio": idle(ASYNCIO.idle), "twin": idle(TWIN.idle)},
        sizes=(USUAL,),
        others={
            "pysched Scheduler": idle(OURS.idle),
            "rust-py-scheduler": idle(RUST.idle),
            "uvloop": idle(UVLOOP.idle),
            "APScheduler 3": idle(apscheduler3.idle),
            "schedule": idle(schedule_loop.idle),
        },
    )
]
