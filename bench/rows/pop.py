"""Emptying a heap of random due times: the engine's heap by itself beside C++'s and Python's.

Both compiled heaps hold nodes of 16 bytes, are filled by pushing, and check that the nodes come in order. At this
size the time is that of cache misses, so it depends on the machine more than any other row, and on who else uses its
cache. heapq's entries are tuples that are freed on the way.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import cpp, heap, timer_heap
from bench.result import Goal
from bench.row import MILLION, timed

__all__ = ["ROWS"]

ROWS = [
    timed(
        "pop",
        "pop until empty",
        {
            "pysched": timer_heap.drain,
            "C++ priority_queue": cpp.drain,
            "heapq.heappop": heap.drain,
        },
        clock=cpu_ns,
        count=MILLION,
        goal=Goal("<= C++", 1.0, "C++ priority_queue"),
    ),
]
