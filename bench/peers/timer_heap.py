"""The engine's heap by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.workload import times_ns
from pysched._engine.heap import TimerHeap

__all__ = ["drain"]


@contextmanager
def drain(count: int) -> Iterator[Callable[[], object]]:
    heap = TimerHeap()
    for number, when in enumerate(times_ns(count)):
        heap.push(when, number)
    yield heap.drain
