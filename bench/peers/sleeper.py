"""A thread that sleeps to each deadline with `time.sleep`: the most punctual that plain Python can do.

It does nothing else and hands nothing over; the engine beside it hands each callback to a thread of a pool.
"""

from __future__ import annotations

import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.workload import Plan

__all__ = ["lateness"]


def lateness(plan: Plan) -> list[float]:
    """Seconds from each deadline to the moment at which the thread is there."""
    late: list[float] = []

    def record(deadline: float) -> None:
        late.append(monotonic() - deadline)

    def run() -> None:
        for deadline in plan.deadlines():
            wait = deadline - monotonic()
            if wait > 0.0:
                sleep(wait)
            record(deadline)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return late
