"""Commands: submitting them beside a `heappush` of a callback, running them beside `pool.submit`.

`submit` hands in one command without key again and again; `submit-keyed` as many commands, each with a new string
for a key. The `heappush` beside them knows neither keys nor commands and checks nothing: it is a yardstick, whose
length grows with the size (see `bench.rows.register`).

`due-commands` runs commands that are due on the scheduler's one thread, from `start()` to the last; `pool.submit` of
`command.execute` includes handing in, as there is no other way (see `bench.rows.dispatch`).
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import heap, pool
from bench.peers.engines import NATIVE, TWIN
from bench.result import Goal
from bench.row import TO_MILLION, timed

__all__ = ["ROWS"]

PLAIN = Goal("<= 0.18 of heappush", 0.18, "heapq.heappush")
KEYED = Goal("<= 0.35 of heappush", 0.35, "heapq.heappush")

ROWS = [
    timed(
        "submit",
        "submit, no key",
        {"pysched": NATIVE.submit, "heapq.heappush": heap.register, "twin": TWIN.submit},
        clock=cpu_ns,
        goal=PLAIN,
    ),
    timed(
        "submit-keyed",
        "submit, new keys",
        {"pysched": NATIVE.submit_keyed, "heapq.heappush": heap.register, "twin": TWIN.submit_keyed},
        clock=cpu_ns,
        goal=KEYED,
        sizes=TO_MILLION,
    ),
    timed(
        "due-commands",
        "run due commands",
        {"pysched": NATIVE.run_commands, "pool.submit": pool.run_commands, "twin": TWIN.run_commands},
        goal=Goal(">= 60 times as fast", 1 / 60, "pool.submit"),
    ),
]
