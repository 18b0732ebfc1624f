"""What a row of the table measured, its goal, and whether this run met it."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.measure import Ratio, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Goal", "Result"]


@dataclass(frozen=True)
class Goal:
    """The cost of pysched, as a multiple of that of `peer` (absolute without one), is to be at most `limit`."""

    text: str
    limit: float
    peer: str | None = None


@dataclass(frozen=True)
class Result:
    """One value a round for each contender, in `unit`, less is better. The first contender is pysched."""

    row: str
    title: str
    unit: str
    values: dict[str, list[float]]
    goal: Goal | None = None
    note: str = ""
    middle: Callable[[Sequence[float]], float] = field(default=median, repr=False)
    """What stands for all rounds: the median, or `max` where one bad round is a failure."""

    @property
    def ours(self) -> str:
        return next(iter(self.values))

    @property
    def peers(self) -> list[str]:
        return list(self.values)[1:]

    def value(self, contender: str) -> float:
        return self.middle(self.values[contender])

    def ratio(self, peer: str) -> Ratio | None:
        return ratio(self.values[self.ours], self.values[peer])

    @property
    def met(self) -> bool | None:
        """None: there is no goal, or its peer was not measured."""
        if self.goal is None:
            return None
        if self.goal.peer is None:
            return self.value(self.ours) <= self.goal.limit
        if self.goal.peer not in self.values:
            return None
        against = self.ratio(self.goal.peer)
        return against is not None and against.median <= self.goal.limit

    def as_json(self) -> dict[str, Any]:
        ratios = {peer: self.ratio(peer) for peer in self.peers}
        return {
            "row": self.row,
            "title": self.title,
            "unit": self.unit,
            "medians": {contender: self.value(contender) for contender in self.values},
            "ratios": {peer: found and found._asdict() for peer, found in ratios.items()},
            "goal": self.goal and self.goal.text,
            "met": self.met,
            "note": self.note,
            "rounds": self.values,
        }
