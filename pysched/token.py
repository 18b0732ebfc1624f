"""`CancelToken`: how a running callback is told that its result is not wanted any more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pysched.clock import DrivingClock, instant_ns
from pysched.errors import JobCancelled
from pysched.waiting import Waiters

if TYPE_CHECKING:
    from pysched.clock import Clock

__all__ = ["CancelToken"]


class CancelToken:
    """Fires when a run has timed out or its scheduler shuts down. A callback with a parameter `cancel` gets one.

    Nothing is interrupted: a callback looks at the token, or waits on it instead of sleeping. Safe in any thread.
    """

    # No `threading.Event`: a shutdown in a signal handler fires tokens, perhaps in the middle of another shutdown.
    __slots__ = ("__weakref__", "_clock", "_fired", "_waiters")

    def __init__(self, clock: Clock | None = None) -> None:
        self._fired = False
        self._waiters = Waiters()
        self._clock = clock if isinstance(clock, DrivingClock) else None

    @property
    def cancelled(self) -> bool:
        """Whether it has fired; it stays so."""
        return self._fired

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep for `timeout` seconds (None: without limit), or until it fires: whether it has.

        On a `ManualClock` time moves by as much, as in its `sleep`; without limit a RuntimeError is raised if no
        time-out will ever end it. Raises TypeError or ValueError unless `timeout` is a number; one below 0 is 0.
        """
        if timeout is not None and timeout != math.inf:
            timeout = max(instant_ns(timeout, "timeout"), 0) / 1e9
        if self._clock is not None:
            self._clock.sleep_until(self._has_fired, timeout)
            return self._fired
        return self._waiters.wait_for(self._has_fired, timeout)

    def raise_if_cancelled(self) -> None:
        """Raise `JobCancelled` if it has fired: the run ends there, and is not retried."""
        if self._fired:
            raise JobCancelled("the run was cancelled")

    def _has_fired(self) -> bool:
        return self._fired

    def _fire(self) -> None:
        self._fired = True
        self._waiters.notify()

    def __repr__(self) -> str:
        return f"<CancelToken {'cancelled' if self.cancelled else 'not cancelled'}>"
