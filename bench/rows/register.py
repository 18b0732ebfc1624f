"""Registering and cancelling: timers of one callback, due within an hour in no order, on an engine that is not started.

`register` makes a handle each and drops it at once, as a program does that never cancels; `register-kept` keeps the
handles. heapq's entry is its own handle. The delays exist before, as floats.

The size matters more than anything else here. The engine's timers cost the same at any size, but heapq's tuples and
asyncio's handles set off the cyclic garbage collector, which visits all of them again and again: of a `heappush` at
10^6 that is two thirds, at 10^4 next to nothing. In a program with few timers, or with the collector off, expect half
of a `heappush`, not a tenth. Each round begins with a new engine and includes the first touch of its memory by the
kernel, which reusing what other timers left would not.

Could mislead further: random due times are the cheap case of every heap (a new entry rises two levels on average) and
the usual one of time-outs; nobody runs meanwhile, so no lock is contended and no loop is woken. asyncio's handles
carry a context each, and its `call_later` may be called from one thread only.

`bulk` hands in one `array('d')`. C++'s `push` of the same number of bare nodes is the floor: no callback is kept.

`cancel` includes letting go of the callback. heapq and asyncio only mark the entry and let it lie in the heap until
it surfaces; the engine's price includes throwing such entries out whenever they outnumber the live ones. `sched` looks
each up from the start of its list and makes the list a heap again: its cost grows with the number of timers.

rust-py-scheduler and `schedule` know jobs of an interval only: they stand in `bench.rows.jobs`.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import NO_TIMERS, apscheduler3, cpp, heap, stdlib_sched
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.result import Goal
from bench.row import TO_MILLION, timed

__all__ = ["ROWS"]

QUARTER = Goal("<= 1/4 of heappush", 1 / 4, "heapq.heappush")

ROWS = [
    timed(
        "register",
        "call_later, handle dropped",
        {
            "pysched": NATIVE.register,
            "heapq.heappush": heap.register,
            "asyncio": ASYNCIO.register,
            "twin": TWIN.register,
        },
        clock=cpu_ns,
        goal=QUARTER,
        others={
            "uvloop": UVLOOP.register,
            "sched": stdlib_sched.register,
            "APScheduler 3": apscheduler3.register,
            "C++ priority_queue": cpp.push,
        },
        cannot=NO_TIMERS,
    ),
    timed(
        "register-kept",
        "call_later, handle kept",
        {
            "pysched": NATIVE.register_kept,
            "heapq.heappush": heap.register_kept,
            "asyncio": ASYNCIO.register_kept,
            "twin": TWIN.register_kept,
        },
        clock=cpu_ns,
        goal=QUARTER,
        others={"uvloop": UVLOOP.register_kept},
        cannot=NO_TIMERS,
        sizes=TO_MILLION,
    ),
    timed(
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
        goal_from=100_000,
    ),
    timed(
        "cancel",
        "handle.cancel",
        {
            "pysched": NATIVE.cancel,
            "heapq, marked": heap.cancel,
            "asyncio": ASYNCIO.cancel,
            "twin": TWIN.cancel,
        },
        clock=cpu_ns,
        others={"uvloop": UVLOOP.cancel, "sched": stdlib_sched.cancel},
        cannot=NO_TIMERS,
    ),
]
