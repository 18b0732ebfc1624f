"""Running callbacks that are due: from `start()` to the last one, threads started included.

`dispatch`: through a `ThreadPoolExecutor` of one thread, timers due in order of submission. The timers exist before,
while `pool.submit` has to be called for each callback, so `dispatch-all` does the whole way on both sides:
`call_later(0.0)` on a running engine and the run, beside `submit` and the run. There registering and running share
the interpreter, as they do in a program.

Due in order of submission is the best case of the heap, whose nodes then lie in order; `dispatch-shuffled` is the
same with due times in no order. asyncio runs its callbacks on the loop's own thread, without a hand-over.

`inline` is the engine's own thread beside asyncio's and beside the smallest loop over heapq that works.
"""

from __future__ import annotations

from bench.peers import NO_TIMERS, apscheduler3, heap, pool, stdlib_sched
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.result import Goal
from bench.row import TO_MILLION, timed

__all__ = ["ROWS"]

ROWS = [
    timed(
        "dispatch",
        "run through a pool of 1, in order",
        {
            "pysched": NATIVE.run_pool,
            "pool.submit": pool.run_pool,
            "asyncio": ASYNCIO.run_inline,
            "twin": TWIN.run_pool,
        },
        goal=Goal(">= 40 times as fast", 1 / 40, "pool.submit"),
        others={"uvloop": UVLOOP.run_inline, "APScheduler 3": apscheduler3.dispatch},
        cannot=NO_TIMERS,
    ),
    timed(
        "dispatch-shuffled",
        "run through a pool of 1, shuffled",
        {
            "pysched": NATIVE.run_pool_shuffled,
            "pool.submit": pool.run_pool,
            "twin": TWIN.run_pool_shuffled,
        },
        sizes=TO_MILLION,
    ),
    timed(
        "dispatch-all",
        "call_later(0.0) and run, pool of 1",
        {
            "pysched": NATIVE.register_and_run,
            "pool.submit": pool.run_pool,
            "twin": TWIN.register_and_run,
        },
        sizes=TO_MILLION,
    ),
    timed(
        "inline",
        "run on the loop's thread, in order",
        {
            "pysched": NATIVE.run_inline,
            "asyncio": ASYNCIO.run_inline,
            "heappop and call": heap.run_inline,
            "twin": TWIN.run_inline,
        },
        others={"uvloop": UVLOOP.run_inline, "sched": stdlib_sched.run_inline},
        sizes=TO_MILLION,
    ),
]
