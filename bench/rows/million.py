"""10^6 pending timers of one callback, in a fresh process for each contender and round, so that nothing else counts.

`memory`: growth of the resident set from before the first timer to after the last, over the number of timers. What an
allocator keeps in reserve but never touched does not count, what it touched and freed again does: so it includes the
holes that doubling arrays leave. Tables double, so that just after a doubling a timer costs more than just before
it. Handles are dropped, except in the line that says so; keys and arguments would come on top.

`gc`: a full `gc.collect()`, the median of three after one that is not counted. It includes the few milliseconds that
the interpreter's own modules take, which the note shows. Timers with a callback of their own each would add those
callbacks to both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import alternate
from bench.probe import measure
from bench.result import Goal, Result
from bench.row import MILLION

if TYPE_CHECKING:
    from bench.row import Row, Settings

__all__ = ["ROWS"]


@dataclass(frozen=True)
class Memory:
    name: str = "memory"

    def run(self, settings: Settings) -> list[Result]:
        def grown(who: str) -> float:
            return measure("memory", who, settings.size(MILLION))["bytes"]

        contenders = ("pysched", "pysched, handles kept", "heapq.heappush", "asyncio call_later", "twin")
        values = alternate({who: partial(grown, who) for who in contenders}, settings.rounds)
        return [Result(self.name, "memory a pending timer", "B", values, Goal("<= 80 B", 80.0))]


@dataclass(frozen=True)
class Collection:
    name: str = "gc"

    def run(self, settings: Settings) -> list[Result]:
        empty: list[float] = []

        def pause(who: str) -> float:
            numbers = measure("collection", who, settings.size(MILLION))
            empty.append(numbers["empty_ms"])
            return numbers["full_ms"]

        contenders = ("pysched", "asyncio call_later", "heapq.heappush", "twin")
        values = alternate({who: partial(pause, who) for who in contenders}, settings.rounds)
        note = f"without any timer {median(empty):.1f} ms"
        goal = Goal("<= 1/12 of asyncio", 1 / 12, "asyncio call_later")
        return [Result(self.name, "gc.collect(), 10^6 pending", "ms", values, goal, note)]


ROWS: list[Row] = [Memory(), Collection()]
