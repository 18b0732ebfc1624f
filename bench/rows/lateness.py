"""Lateness at 1,000 timers a second: from the deadline to the first line of the callback, in Python on both sides.

The engine hands each callback to a pool of two threads; beside it a Python thread sleeps to the same deadlines with
`time.sleep` and hands nothing over. Deadlines are a millisecond apart, all known beforehand, on one clock
(`time.monotonic()`). asyncio and the twin, which also uses a pool of two, stand beside for comparison.

Could mislead: everything here is the kernel's scheduling. What else runs on the machine moves p99 more than any code
of ours; only ratios of runs seconds apart mean something. The kernel lets a sleeping thread oversleep by up to its
timer slack (50 us on Linux), which the engine's loop sets to the least: the greater part of the difference at p50.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from bench.peers import event_loop, sleeper
from bench.peers.engines import NATIVE, TWIN
from bench.result import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.row import Row, Settings

__all__ = ["ROWS"]

RATE = 1000
SECONDS = 3.0
CONTENDERS: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "pysched": NATIVE.lateness,
    "time.sleep thread": sleeper.lateness,
    "asyncio": event_loop.lateness,
    "twin": TWIN.lateness,
}
GOALS = {
    50: Goal("<= 0.8 of the thread", 0.8, "time.sleep thread"),
    99: Goal("<= 1.5 of the thread", 1.5, "time.sleep thread"),
}


@dataclass(frozen=True)
class LatenessRow:
    name: str = "lateness"

    def run(self, settings: Settings) -> list[Result]:
        count = int(RATE * SECONDS) // (5 if settings.quick else 1)
        values: dict[int, dict[str, list[float]]] = {percent: {who: [] for who in CONTENDERS} for percent in GOALS}
        for _ in range(settings.rounds):
            for who, run in CONTENDERS.items():
                late = _sorted_microseconds(run, count)
                for percent, found in values.items():
                    found[who].append(late[len(late) * percent // 100])
        return [
            Result(self.name, f"lateness p{percent}, 1,000/s, pool of 2", "us", values[percent], goal)
            for percent, goal in GOALS.items()
        ]


def _sorted_microseconds(run: Callable[[Sequence[float]], list[float]], count: int) -> list[float]:
    gc.collect()
    first = monotonic() + 0.1
    late = run([first + number / RATE for number in range(count)])
    assert len(late) == count, f"{count - len(late)} of {count} did not run"
    assert min(late) >= 0.0, "a callback ran early"
    return sorted(seconds * 1e6 for seconds in late)


ROWS: list[Row] = [LatenessRow()]
