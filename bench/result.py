"""What a row of the table measured, its goal, and whether this run met it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    heading: str
    unit: str
    values: dict[str, list[float]]
    goal: Goal | None = None
    count: int = 0
    """The size at which it was measured, and how a reader is told of it."""
    size: str = ""
    key: str = ""
    """Names the number among those of its row."""
    absent: dict[str, str] = field(default_factory=dict)
    """Peers that were not measured, and why."""
    pair: bool = False
    """Two contenders of another result beside each other, for the sake of a goal."""
    middle: Callable[[Sequence[float]], float] = field(default=median, repr=False)
    """What stands for all rounds: the median, or `max` where one bad round is a failure."""

    @property
    def title(self) -> str:
        return f"{self.heading}, {self.size}" if self.size else self.heading

    @property
    def ours(self) -> str:
        return next(iter(self.values))

    @property
    def peers(self) -> list[str]:
        return list(self.values)[1:]

    def value(self, contender: str) -> float:
        return self.middle(self.values[contender])

    def ratio(self, peer: str) -> Ratio | None:
        """Ours over theirs."""
        return ratio(self.values[self.ours], self.values[peer])

    def multiple(self, peer: str) -> float | None:
        """Theirs over ours, the median of the rounds; None where ours is zero."""
        found = ratio(self.values[peer], self.values[self.ours])
        return found and found.median

    def beside(self, peer: str | None) -> Result:
        """The same with no other peer than this one."""
        values = {who: found for who, found in self.values.items() if who in (self.ours, peer)}
        return replace(self, values=values, absent={})

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
            "column": self.key,
            "title": self.title,
            "unit": self.unit,
            "middles": {who: _short(self.value(who)) for who in self.values},
            "ratios": {peer: found and [_short(value) for value in found] for peer, found in ratios.items()},
            "goal": self.goal and self.goal.text,
            "met": self.met,
            "count": self.count,
            "absent": self.absent,
            "rounds": {who: [_short(value) for value in found] for who, found in self.values.items()},
        }


def _short(value: float) -> float:
    """Four digits say all that a measurement knows."""
    return float(f"{value:.4g}")
