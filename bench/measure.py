"""Alternating measurement: every contender once a round, so that a drift of the machine meets all of them.

On a shared machine absolute times drift by half and more within minutes; the ratio of two measurements that were
taken seconds apart does not. So each round measures A, B, C, ... one after the other, a ratio is formed within each
round, and the median of these ratios is the result. Nothing here compares a time with a threshold.

The cyclic garbage collector is enabled with its default thresholds, as in a user's program: what a peer's objects
cost it is a part of the peer's price. `gc.collect()` runs before each measurement, outside of the timed part.

Operations that stay on one thread and never wait are timed by that thread's CPU clock (where it is fine enough), so
that being preempted by a neighbour is not taken for a cost; all others by the wall clock.

How this can mislead: a loop that does one thing keeps caches and branch predictors warmer than a program does, for
every contender; and the cost of the loop itself (some 10 ns a turn) is in every number, so that a ratio of two cheap
operations is nearer to 1 than that of the operations alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import median
from time import get_clock_info, perf_counter_ns, thread_time_ns
from typing import NamedTuple, TypeAlias, TypeVar

__all__ = ["Operation", "Prepared", "Ratio", "Unavailable", "alternate", "cost_ns", "cpu_ns", "ratio", "wall_ns"]

Operation: TypeAlias = Callable[[int], AbstractContextManager[Callable[[], object]]]
"""`operation(count)`: entering it sets the scene, calling what it yields does `count` operations and is timed,
leaving it cleans up."""

Prepared: TypeAlias = Iterator[Callable[[], object]]
"""What an `Operation` returns before `contextmanager` has made one of it."""

Found = TypeVar("Found")


class Unavailable(Exception):
    """A peer cannot be measured here; the message says why."""


class Ratio(NamedTuple):
    """Ours over theirs: the median over the rounds, and the extremes."""

    median: float
    low: float
    high: float


wall_ns = perf_counter_ns
cpu_ns = thread_time_ns if get_clock_info("thread_time").resolution <= 1e-6 else perf_counter_ns
"""CPU time of the calling thread."""


def cost_ns(operation: Operation, count: int, clock: Callable[[], int] = wall_ns) -> float:
    """Nanoseconds for each of `count` operations, measured once."""
    with operation(count) as timed:
        gc.collect()
        begin = clock()
        timed()
        return (clock() - begin) / count


def alternate(
    measures: Mapping[str, Callable[[], Found]], rounds: int
) -> tuple[dict[str, list[Found]], dict[str, str]]:
    """What `rounds` rounds found, in each of which every measure is taken once, in the order given.

    The second mapping gives the reasons of those that are unavailable; they are in the first one without anything.
    """
    found: dict[str, list[Found]] = {name: [] for name in measures}
    absent: dict[str, str] = {}
    for _ in range(rounds):
        for name, measure in measures.items():
            if name not in absent:
                try:
                    found[name].append(measure())
                except Unavailable as reason:
                    absent[name] = str(reason)
                    found[name].clear()
    return found, absent


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Formed within each round; None where a peer's cost is zero."""
    if not all(theirs):
        return None
    each = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Ratio(median(each), min(each), max(each))
