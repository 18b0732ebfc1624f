"""Commands: submitting them beside a `heappush` of a callback, running them beside `pool.submit`.

`submit` hands in one command without key again and again; `submit-keyed` as many commands, each with a new string
for a key. The `heappush` beside them knows neither keys nor commands and checks nothing: it is a yardstick, whose
length grows with the size (see `bench.rows.register`), hence two sizes.

`due-commands` runs commands that are due on the scheduler's one thread, from `start()` to the last; `pool.submit` of
`command.execute` includes handing in, as there is no other way (see `bench.rows.dispatch`).
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import heap, pool
from bench.peers.engines import NATIVE, TWIN
from bench.result import Goal
from bench.row import MILLION, Timed

__all__ = ["ROWS"]

PLAIN = Goal("<= 0.18 of heappush", 0.18, "heapq.heappush")
KEYED = Goal("<= 0.35 of heappush", 0.35, "heapq.heappush")

ROWS = [
    Timed(
        "submit",
        "submit, no key, 10^5",
        {"pysched": NATIVE.submit, "heapq.heappush": heap.register, "twin": TWIN.submit},
        clock=cpu_ns,
        goal=PLAIN,
    ),
    Timed(
        "submit-million",
        "submit, no key, 10^6",
        {"pysched": NATIVE.submit, "heapq.heappush": heap.register},
        clock=cpu_ns,
        count=MILLION,
        goal=PLAIN,
    ),
    Timed(
        "submit-keyed",
        "submit, new keys, 10^5",
        {"pysched": NATIVE.submit_keyed, "heapq.heappush": heap.register, "twin": TWIN.submit_keyed},
        clock=cpu_ns,
        goal=KEYED,
    ),
    Timed(
        "submit-keyed-million",
        "submit, new keys, 10^6",
        {"pysched": NATIVE.submit_keyed, "heapq.heappush": heap.register},
        clock=cpu_ns,
        count=MILLION,
        goal=KEYED,
    ),
    Timed(
        "due-commands",
        "run due commands",
        {"pysched": NATIVE.run_commands, "pool.submit": pool.run_commands, "twin": TWIN.run_commands},
        goal=Goal(">= 60 times as fast", 1 / 60, "pool.submit"),
    ),
]
