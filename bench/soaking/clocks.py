"""A clock whose wall can be set, because that of the machine cannot: the system's monotonic one, and an offset."""

from __future__ import annotations

from itertools import pairwise
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysched.clock import WaitEvent

__all__ = ["SteppedWall"]


class SteppedWall:
    """A `pysched.Clock` of a user's: schedulers wait through it, and notice a step when they look at it again."""

    def __init__(self) -> None:
        self._steps = [0]

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._steps.append(self._steps[-1] + int(seconds * 1e9))

    @property
    def steps_back(self) -> int:
        steps = self._steps.copy()
        return sum(after < before for before, after in pairwise(steps))

    def latest_ns(self) -> int:
        """What the wall clock would read if it had never been set back: nothing may be due later."""
        return time_ns() + max(self._steps)

    def time_ns(self) -> int:
        return monotonic_ns()

    def wall_ns(self) -> int:
        return time_ns() + self._steps[-1]

    def wait(self, event: WaitEvent, timeout: float | None) -> None:
        event.wait(timeout)
