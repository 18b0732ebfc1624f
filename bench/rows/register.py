"""Registering and cancelling: timers of one callback, due within an hour in no order, on an engine that is not started.

`register` makes a handle each and drops it at once, as a program does that never cancels; `register-kept` keeps the
handles, whose memory then is new each time. heapq's entry is its own handle. The delays exist before, as floats.
Could mislead: random due times are the cheap case of every heap (a new entry rises two levels on average), and the
usual one of time-outs; nobody runs meanwhile, so no lock is contended and no loop is woken. asyncio's handles carry
a context each, and its `call_later` may be called from one thread only.

`bulk` hands in one `array('d')`. C++'s `push` of the same number of bare nodes is the floor: no callback is kept.

`cancel` includes letting go of the callback. heapq and asyncio only mark the entry and let it lie in the heap until
it surfaces; the engine's price includes throwing such entries out whenever they outnumber the live ones.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import cpp, event_loop, heap
from bench.peers.engines import NATIVE, TWIN
from bench.result import Goal
from bench.row import Timed

__all__ = ["ROWS"]

QUARTER = Goal("<= 1/4 of heappush", 1 / 4, "heapq.heappush")

ROWS = [
    Timed(
        "register",
        "call_later, handle dropped",
        {
            "pysched": NATIVE.register,
            "heapq.heappush": heap.register,
            "asyncio call_later": event_loop.register,
            "twin": TWIN.register,
        },
        clock=cpu_ns,
        goal=QUARTER,
    ),
    Timed(
        "register-kept",
        "call_later, handle kept",
        {
            "pysched": NATIVE.register_kept,
            "heapq.heappush": heap.register_kept,
            "asyncio call_later": event_loop.register_kept,
            "twin": TWIN.register_kept,
        },
        clock=cpu_ns,
        goal=QUARTER,
    ),
    Timed(
        "bulk",
        "call_many",
        {
            "pysched": NATIVE.bulk,
            "C++ priority_queue": cpp.push,
            "heapq.heapify": heap.bulk,
            "twin": TWIN.bulk,
        },
        clock=cpu_ns,
        count=500_000,
        goal=Goal("<= 50 ns", 50.0),
    ),
    Timed(
        "cancel",
        "handle.cancel",
        {
            "pysched": NATIVE.cancel,
            "heapq, marked": heap.cancel,
            "asyncio cancel": event_loop.cancel,
            "twin": TWIN.cancel,
        },
        clock=cpu_ns,
    ),
]
