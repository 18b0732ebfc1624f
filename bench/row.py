"""Rows of the table: what is measured of whom, and how numbers become results.

A row measures one contender at a time, at one size, and gives named numbers: `numbers(who, count)`. Two runners use
that: `bench.together`, which takes what it can in one process, for `python -m bench`; and `bench.beside`, which gives
each side a process of its own at each size, for `python -m bench --peers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeAlias

from bench.measure import Operation, cost_ns, wall_ns
from bench.result import Goal, Result
from bench.sizes import power

__all__ = ["GROWTH", "MILLION", "TO_MILLION", "USUAL", "Column", "Numbers", "Row", "Timed", "timed"]

USUAL = 100_000
MILLION = 1_000_000
TO_MILLION = (10_000, 100_000, MILLION)
GROWTH = (*TO_MILLION, 10_000_000)

Numbers: TypeAlias = Mapping[str, float]
Values: TypeAlias = Mapping[str, Sequence[Numbers]]
"""One mapping of numbers a round for each contender."""


@dataclass(frozen=True)
class Column:
    """One number of a row, its title and its goal."""

    key: str
    title: str
    unit: str
    goal: Goal | None = None
    middle: Callable[[Sequence[float]], float] = field(default=median, repr=False)
    among: tuple[str, ...] = ()
    """Whom the column is about, the subject of the goal first; empty: all, the row's first contender first."""


@dataclass(frozen=True)
class Row:
    """Something to measure. The first contender is pysched; the row's module says the rest."""

    name: str
    columns: tuple[Column, ...]
    contenders: Mapping[str, Callable[[int], Any]]
    """How to measure each, here `count -> numbers`."""
    count: int = USUAL
    """The size for `python -m bench`."""
    sizes: tuple[int, ...] = GROWTH
    """The sizes for `--peers`."""
    others: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    """Contenders for `--peers` only: slow, or in need of a process of their own."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Peers that a reader may miss here, and why they are not here."""
    goal_from: int = 0
    goal_to: int = sys.maxsize
    """The goals are meant from this size to that."""
    grows: bool = True
    """The time that a measurement takes is proportional to its size."""
    size_text: Callable[[int], str] = field(default=power, repr=False)

    @property
    def everyone(self) -> list[str]:
        return [*self.contenders, *self.others]

    def numbers(self, who: str, count: int) -> Numbers:
        """Measures `who` in this process. Raises `Unavailable` where that cannot be."""
        numbers: Numbers = {**self.contenders, **self.others}[who](count)
        return numbers

    def results(self, values: Values, count: int, absent: Mapping[str, str]) -> list[Result]:
        """One for each column in which its first contender was measured."""
        results = []
        for column in self.columns:
            names = column.among or tuple(self.everyone)
            found = {
                who: [numbers[column.key] for numbers in values[who]]
                for who in names
                if values.get(who) and column.key in values[who][0]
            }
            if names[0] in found and (not column.among or len(found) > 1):
                results.append(
                    Result(
                        self.name,
                        column.title,
                        column.unit,
                        found,
                        column.goal if self.goal_from <= count <= self.goal_to else None,
                        count,
                        self.size_text(count),
                        column.key,
                        {} if column.among else dict(absent),
                        bool(column.among),
                        column.middle,
                    )
                )
        return results


@dataclass(frozen=True)
class Timed(Row):
    """Nanoseconds an operation, by `clock`: its contenders are `Operation`s. See `timed`."""

    clock: Callable[[], int] = field(default=wall_ns, repr=False)

    def numbers(self, who: str, count: int) -> Numbers:
        """The first, smaller call imports, compiles and starts what there is."""
        operation: Operation = {**self.contenders, **self.others}[who]
        cost_ns(operation, max(1, min(count // 10, 10_000)))
        return {"ns": cost_ns(operation, count, self.clock)}


def timed(
    name: str,
    title: str,
    contenders: Mapping[str, Operation],
    *,
    clock: Callable[[], int] = wall_ns,
    count: int = USUAL,
    sizes: tuple[int, ...] = GROWTH,
    goal: Goal | None = None,
    goal_from: int | None = None,
    others: Mapping[str, Operation] | None = None,
    cannot: Mapping[str, str] | None = None,
) -> Timed:
    """A row of one column. Its goal is meant from `goal_from` on, or else from `count` on."""
    return Timed(
        name,
        (Column("ns", title, "ns", goal),),
        contenders,
        count,
        sizes,
        others or {},
        cannot or {},
        goal_from=count if goal_from is None else goal_from,
        clock=clock,
    )
