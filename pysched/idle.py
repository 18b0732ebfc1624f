"""How a thread waits until a scheduler has nothing to do.

The engine knows what is due, queued or running; a run that waits for its retry is, for the engine, a timer in the
future, and only the runner knows of it. Both must be idle at one instant.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pysched.clock import DrivingClock

if TYPE_CHECKING:
    from pysched.runner import Runner

__all__ = ["wait_idle"]


def wait_idle(engine: Any, runner: Runner, limit: float | None) -> bool:
    """Wait at most `limit` seconds (None: without limit); with the clock of a test not at all. Whether it is idle.

    Raises RuntimeError on a thread of the engine.
    """
    deadline = None if limit is None else time.monotonic() + limit

    def left() -> float | None:
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    while True:
        # In this order: a run that is opened after the look at `latest` changes it before the engine is idle again.
        latest, idle = runner.latest, not runner.has_open()
        if not engine.wait_idle(left()):
            return False
        if idle and runner.latest is latest:
            return True
        if isinstance(runner.clock, DrivingClock):
            return False
        if not runner.waiters.wait_for(lambda: not runner.has_open(), left()):
            return False
