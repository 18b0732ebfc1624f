"""Rows of the table: what they have in common, and those that time operations in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bench.measure import Operation, Unavailable, alternate, cost_ns
from bench.result import Goal, Result

__all__ = ["Row", "Settings", "Timed"]


@dataclass(frozen=True)
class Settings:
    """`quick`: a tenth of the size, for a look; the goals are meant for the full size."""

    quick: bool = False
    rounds: int = 7

    def size(self, full: int) -> int:
        return full // 10 if self.quick else full


class Row(Protocol):
    """Something to measure, under a name that `--only` takes."""

    @property
    def name(self) -> str: ...

    def run(self, settings: Settings) -> list[Result]: ...


@dataclass(frozen=True)
class Timed:
    """Nanoseconds an operation. The first contender is pysched; the docstring of the row's module says the rest."""

    name: str
    title: str
    contenders: Mapping[str, Operation]
    count: int = 200_000
    goal: Goal | None = None

    def run(self, settings: Settings) -> list[Result]:
        count = settings.size(self.count)
        measures = {}
        notes = []
        for name, operation in self.contenders.items():
            try:
                cost_ns(operation, count // 10)  # the first call imports, compiles, starts what there is
            except Unavailable as reason:
                notes.append(f"{name}: {reason}")
            else:
                measures[name] = partial(cost_ns, operation, count)
        values = alternate(measures, settings.rounds)
        return [Result(self.name, self.title, "ns", values, self.goal, note="; ".join(notes))]
