"""The engine's heap by itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.workload import times_ns
from pysched._engine import heap as engine_heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["drain"]


@contextmanager
def drain(count: int) -> Iterator[Callable[[], object]]:
    heap = engine_heap.TimerHeap()
    for number, when in enumerate(times_ns(count)):
        heap.push(when, number)
    yield heap.drain
