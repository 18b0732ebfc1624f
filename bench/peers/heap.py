"""`heapq`: what one writes by hand.

Registering is `heappush(heap, (time, sequence, callback))`, with the sequence that keeps equal times in order and
callbacks out of the comparison. Keys and cancellation follow the recipe in the documentation of `heapq`: mutable
entries, a dict from key to entry, and entries that are marked as removed and stay until their time comes.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import count as counter
from time import monotonic
from typing import TYPE_CHECKING, Any

from bench.peers.loops import adding_keyed, pairs, removing
from bench.workload import delays, nothing, times_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measure import Prepared

__all__ = [
    "add_keyed",
    "bulk",
    "cancel",
    "cancel_keyed",
    "drain",
    "pending",
    "register",
    "register_kept",
    "replace_keyed",
    "run_inline",
]

Removed = None


@contextmanager
def register(count: int) -> Prepared:
    heap: list[Any] = []
    sequence = counter()
    waits = delays(count)

    def timed() -> None:
        for delay in waits:
            heappush(heap, (monotonic() + delay, next(sequence), nothing))

    yield timed


@contextmanager
def register_kept(count: int) -> Prepared:
    """The entry is the handle."""
    heap: list[Any] = []
    kept: list[object] = []
    sequence = counter()
    waits = delays(count)

    def timed() -> None:
        keep = kept.append
        for delay in waits:
            entry = (monotonic() + delay, next(sequence), nothing)
            heappush(heap, entry)
            keep(entry)

    yield timed


@contextmanager
def bulk(count: int) -> Prepared:
    """All tuples at once, then one `heapify`."""
    heap: list[Any] = []
    sequence = counter()
    waits = array("d", delays(count))

    def timed() -> None:
        now = monotonic()
        heap.extend((now + delay, next(sequence), nothing) for delay in waits)
        heapify(heap)

    yield timed


@contextmanager
def cancel(count: int) -> Prepared:
    heap: list[Any] = []
    entries = [[delay, number, nothing] for number, delay in enumerate(delays(count))]
    for entry in entries:
        heappush(heap, entry)

    def timed() -> None:
        for entry in entries:
            entry[-1] = Removed

    yield timed


class _Table:
    """The recipe: a heap, and a dict that finds the entry of a key."""

    def __init__(self) -> None:
        self.heap: list[Any] = []
        self.entries: dict[str, list[Any]] = {}
        self.sequence = counter()

    def add(self, delay: float, callback: Callable[[], object], key: str) -> None:
        if key in self.entries:
            self.remove(key)
        entry = [monotonic() + delay, next(self.sequence), callback]
        self.entries[key] = entry
        heappush(self.heap, entry)

    def remove(self, key: str) -> None:
        self.entries.pop(key)[-1] = Removed


@contextmanager
def add_keyed(count: int) -> Prepared:
    yield adding_keyed(_Table().add, pairs(count))


@contextmanager
def replace_keyed(count: int) -> Prepared:
    timed = adding_keyed(_Table().add, pairs(count))
    timed()
    yield timed


@contextmanager
def cancel_keyed(count: int) -> Prepared:
    table = _Table()
    waits = pairs(count)
    adding_keyed(table.add, waits)()
    yield removing(table.remove, [key for _, key in waits])


@contextmanager
def run_inline(count: int) -> Prepared:
    """The smallest loop there is: pop what is due, call it."""
    heap: list[Any] = []
    sequence = counter()
    for _ in range(count):
        heappush(heap, (monotonic(), next(sequence), nothing))

    def timed() -> None:
        while heap and heap[0][0] <= monotonic():
            heappop(heap)[2]()

    yield timed


@contextmanager
def drain(count: int) -> Prepared:
    heap: list[Any] = []
    for number, when in enumerate(times_ns(count)):
        heappush(heap, (when, number, nothing))

    def timed() -> None:
        while heap:
            heappop(heap)

    yield timed


def pending(waits: array[float]) -> object:
    heap: list[Any] = []
    sequence = counter()
    for delay in waits:
        heappush(heap, (monotonic() + delay, next(sequence), nothing))
    return heap
