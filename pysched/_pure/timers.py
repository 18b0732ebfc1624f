"""The records of the twin: a timer, and a run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Taken = tuple[Callable[..., object], tuple[Any, ...], Hashable]  # callback, args, key

__all__ = ["NOBODY", "Run", "Timer"]


class Timer:
    """One registration. Its identity is the timer's; handles compare by it.

    live: it may still start. armed: the heap entry (due_ns, order) is its own, others are stale.
    queued: a run of it waits in the ready queue, for the slot `run_due_ns`, under `run_order`.
    """

    __slots__ = (
        "args",
        "armed",
        "busy_until_ns",  # periodic: when its last run ended
        "callback",
        "due_ns",
        "key",
        "key_hash",
        "live",
        "order",
        "period_ns",  # 0: a one-shot
        "queued",
        "run_due_ns",
        "run_order",
        "running",  # periodic: a run of it is in progress
        "spent_key",  # of a timer that has ended, until its release
    )

    counted = True  # in the statistics of its engine

    def __init__(
        self,
        due_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        period_ns: int = 0,
        key: Hashable = None,
        key_hash: int = 0,
    ) -> None:
        self.due_ns = due_ns
        self.order = -1
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.period_ns = period_ns
        self.key = key
        self.key_hash = key_hash
        self.spent_key: Hashable = None
        self.live = True
        self.armed = False
        self.queued = False
        self.running = False
        self.run_due_ns = 0
        self.run_order = -1
        self.busy_until_ns = -NEVER

    def release(self) -> None:
        """Drop what the user gave. Not under the lock: destructors run."""
        self.callback = None
        self.args = ()
        self.key = self.spent_key = None


NOBODY = Timer(0, print, ())
"""Stands for the timer that is replaced where none is."""
NOBODY.live = False


class Run:
    """A callback that has started; it holds callback and arguments until they are taken."""

    __slots__ = ("args", "callback", "due_ns", "failed", "key", "late_ns", "measured", "order", "thread", "timer")

    def __init__(self, timer: Timer, thread: int, due_ns: int, order: int) -> None:
        self.timer = timer
        self.due_ns = due_ns
        self.order = order
        self.failed = False
        self.late_ns = 0  # how much later than it could it started
        self.measured = False  # whether the histogram has that
        self.thread = thread  # where it runs; 0: wherever an executor likes
        self.callback = timer.callback
        self.args = timer.args
        self.key = timer.spent_key

    def take(self) -> Taken:
        """Callback, arguments and key; the run holds them no longer."""
        assert self.callback is not None
        taken = (self.callback, self.args, self.key)
        self.callback, self.args, self.key = None, (), None
        return taken
