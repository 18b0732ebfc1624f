"""`CancelToken`: how a running callback is told that its result is not wanted any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pysched.clock import DrivingClock
from pysched.errors import JobCancelled

if TYPE_CHECKING:
    from pysched.clock import Clock

__all__ = ["CancelToken"]


class CancelToken:
    """Fires when a run has timed out or its scheduler shuts down. A callback with a parameter `cancel` gets one.

    Nothing is interrupted: a callback looks at the token, or waits on it instead of sleeping. Safe in any thread.
    """

    __slots__ = ("__weakref__", "_clock", "_fired")

    def __init__(self, clock: Clock | None = None) -> None:
        self._fired = threading.Event()
        self._clock = clock if isinstance(clock, DrivingClock) else None

    @property
    def cancelled(self) -> bool:
        """Whether it has fired; it stays so."""
        return self._fired.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep for `timeout` seconds (None: without limit), or until it fires: whether it has.

        On a `ManualClock` time moves by as much, as in its `sleep`.
        """
        if self._clock is not None and timeout is not None:
            self._clock.sleep_until(self._fired.is_set, max(timeout, 0.0))
            return self._fired.is_set()
        return self._fired.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raise `JobCancelled` if it has fired: the run ends there, and is not retried."""
        if self._fired.is_set():
            raise JobCancelled("the run was cancelled")

    def _fire(self) -> None:
        self._fired.set()

    def __repr__(self) -> str:
        return f"<CancelToken {'cancelled' if self.cancelled else 'not cancelled'}>"
