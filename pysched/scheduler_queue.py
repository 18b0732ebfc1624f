"""Commands in the order in which they come due."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched.commands import Command

__all__ = ["QueuedCommand", "TimedCommandQueue"]

_SLACK = 1024
"""A queue is swept of cancelled entries once it holds this many more than twice what the last sweep left."""


class _Settable(Protocol):
    def set(self) -> None: ...


@dataclass(order=True)
class QueuedCommand:
    """A command that waits: ordered by `run_at` (seconds), then by `sequence` (order of submission)."""

    run_at: float
    sequence: int
    token: object | None = field(compare=False)
    command: Command = field(compare=False)


class TimedCommandQueue:
    """A priority queue of commands. It reads no clock: times are seconds of whatever clock the caller has.

    Not thread-safe: guard it and the cancellation registry with one lock.
    """

    def __init__(self) -> None:
        self._heap: list[QueuedCommand] = []
        self._sequence = 0
        self._sweep_size = _SLACK
        self._waiting: _Settable | None = None

    def push(self, run_at: float, token: object | None, command: Command) -> None:
        """Add a command, due at `run_at`. O(log n). ValueError if that is NaN."""
        if run_at != run_at:
            raise ValueError("run_at must not be nan")
        heappush(self._heap, QueuedCommand(run_at, self._sequence, token, command))
        self._sequence += 1
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None

    def pop_ready(self, now: float, is_active: Callable[[Command, object | None], bool]) -> QueuedCommand | None:
        """Remove and return the earliest active entry with `run_at <= now`; None if there is none.

        Inactive ones are dropped on the way: those that would come first, and all of them whenever they might
        be most of the queue, so that cancelled commands never pile up. O(log n) for each entry removed,
        amortised. If `is_active` raises, that propagates and the entry it was asked about stays.
        """
        if len(self._heap) >= self._sweep_size:
            self._heap = [entry for entry in self._heap if is_active(entry.command, entry.token)]
            heapify(self._heap)
            self._sweep_size = 2 * len(self._heap) + _SLACK
        while self._heap:
            entry = self._heap[0]
            if not is_active(entry.command, entry.token):
                heappop(self._heap)
            elif entry.run_at > now:
                break
            else:
                return heappop(self._heap)
        return None

    def next_delay(self, now: float, default_s: float = 0.1) -> float:
        """Seconds from `now` to the earliest entry, never negative; `default_s` for an empty queue. O(1)."""
        return max(0.0, self._heap[0].run_at - now) if self._heap else default_s

    def wake_on_push(self, event: _Settable) -> bool:
        """If the queue is empty, have the next `push` set `event` and return True; else return False.

        So a worker can wait for a command without asking ten times a second.
        """
        if self._heap:
            return False
        self._waiting = event
        return True
