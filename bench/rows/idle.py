"""A running loop with 10^5 timers for tomorrow, for two seconds, in a fresh process.

Wake-ups are counted by the engine (`stats().wakeups`), for asyncio by its selector; so that nobody has to believe an
engine about itself, the note gives the kernel's count of waits that ended in the whole process, less the measuring
thread's own. The worst round counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.probe import IDLE_SECONDS, measure
from bench.result import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.row import Row, Settings

__all__ = ["ROWS"]

COUNT = 100_000
CONTENDERS = ("pysched", "asyncio", "twin")


@dataclass(frozen=True)
class Idle:
    name: str = "idle"

    def run(self, settings: Settings) -> list[Result]:
        rounds: list[Mapping[str, Mapping[str, float]]] = [
            {who: measure("idle", who, settings.size(COUNT)) for who in CONTENDERS} for _ in range(settings.rounds)
        ]

        def values(number: str) -> dict[str, list[float]]:
            return {who: [found[who][number] for found in rounds] for who in CONTENDERS}

        switches = ", ".join(f"{who} {max(counts):.0f}" for who, counts in values("switches").items())
        span = f"in {IDLE_SECONDS:.0f} s, 10^5 pending"
        return [
            Result(
                self.name,
                f"wake-ups {span}",
                "",
                values("wakeups"),
                Goal("0", 0.0),
                note=f"waits ended by the kernel's count: {switches}",
                middle=max,
            ),
            Result(self.name, f"CPU time {span}", "ms", values("cpu_ms")),
        ]


ROWS: list[Row] = [Idle()]
