"""The heap of a timer table: which timer is due first.

Under the ground rules of `table`, of which this is the lowest part.
"""

from __future__ import annotations

import itertools
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysched._pure.timers import Timer

    Entry = tuple[int, int, Timer]  # due_ns, order, timer

__all__ = ["STALE_LIMIT", "Deadlines"]

STALE_LIMIT = 1024
"""The heap is rebuilt as soon as its stale entries outnumber the live timers and these."""


class Deadlines:
    """Entries of timers in order of (due, submission); what is done to several things at once is in `TimerTable`.

    An entry of the heap is live if its timer is armed with its order, else it is stale, and dropped when it
    comes to the root or at a rebuild. A new entry is pushed before its timer is armed, since that may fail;
    `_edition`, which changes with each change of the heap, then tells whether it is still there.
    """

    __slots__ = ("_edition", "_heap", "_orders", "armed", "live")

    def __init__(self) -> None:
        self.live = 0  # timers that may still start, armed or queued
        self.armed = 0
        self._heap: list[Entry] = []
        self._edition = 0
        self._orders = itertools.count()

    def head(self) -> Entry | None:
        """The entry of the earliest live timer, which is the root then. Amortised O(log n)."""
        while self._heap:
            entry = self._heap[0]
            timer = entry[2]
            if timer.armed and timer.order == entry[1]:
                return entry
            if self._heap and self._heap[0] is entry:
                # straight:
                self._edition += 1
                heappop(self._heap)
        return None

    def armed_timers(self) -> Iterator[Timer]:
        """The timers of the live heap entries, in no order."""
        return (timer for _, order, timer in self._heap if timer.armed and timer.order == order)

    def _push(self, timer: Timer) -> int:
        """Put an entry of a timer that is not armed into the heap; returns the edition that has it."""
        timer.order = next(self._orders)
        entry = (timer.due_ns, timer.order, timer)
        edition = self._edition + 1
        self._edition = edition
        heappush(self._heap, entry)
        return edition

    def _bound_stale(self) -> None:
        """Drop the stale entries, O(n), if they outnumber the live timers and `STALE_LIMIT`."""
        try:
            while len(self._heap) - self.armed > self.live + STALE_LIMIT:
                edition = self._edition
                heap = [entry for entry in self._heap if entry[2].armed and entry[2].order == entry[1]]
                heapify(heap)
                if self._edition == edition:
                    # straight:
                    self._edition = edition + 1
                    self._heap = heap
        except MemoryError:
            pass  # the next one who comes by will do it
