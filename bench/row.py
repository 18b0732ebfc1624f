"""Rows of the table: what they have in common, and those that time operations in this process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bench.measure import Operation, Unavailable, alternate, cost_ns, wall_ns
from bench.result import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MILLION", "Row", "Settings", "Timed"]

USUAL = 100_000
MILLION = 1_000_000


@dataclass(frozen=True)
class Settings:
    """`quick`: a tenth of the size, for a look; the goals are meant for the full size."""

    quick: bool = False
    rounds: int = 5

    def size(self, full: int) -> int:
        return full // 10 if self.quick else full


class Row(Protocol):
    """Something to measure, under a name that `--only` takes."""

    @property
    def name(self) -> str: ...

    def run(self, settings: Settings) -> list[Result]: ...


@dataclass(frozen=True)
class Timed:
    """Nanoseconds an operation, by `clock`. The first contender is pysched; the row's module says the rest."""

    name: str
    title: str
    contenders: Mapping[str, Operation]
    clock: Callable[[], int] = wall_ns
    count: int = USUAL
    goal: Goal | None = None

    def run(self, settings: Settings) -> list[Result]:
        count = settings.size(self.count)
        absent = {name: reason for name, operation in self.contenders.items() if (reason := _warm_up(operation, count))}
        measures = {
            name: partial(cost_ns, operation, count, self.clock)
            for name, operation in self.contenders.items()
            if name not in absent
        }
        values = alternate(measures, settings.rounds)
        note = "; ".join(f"{name}: {reason}" for name, reason in absent.items())
        return [Result(self.name, self.title, "ns", values, self.goal, note)]


def _warm_up(operation: Operation, count: int) -> str | None:
    """The first call imports, compiles and starts what there is; returns why the operation cannot be measured."""
    try:
        cost_ns(operation, count // 10)
    except Unavailable as reason:
        return str(reason)
    return None
