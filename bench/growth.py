"""How the cost of one thing grows with their number: 1x is what everybody wants to see."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from bench.result import Goal, Result
from bench.sizes import power

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["growth"]

GOAL = Goal("<= 3x", 3.0)
COSTS = {"ns", "B"}


def growth(results: Iterable[Result]) -> list[Result]:
    """For each row of costs its growth from the smallest size to the largest that pysched was measured at.

    Contenders that were left out at that size are left out here. The goal is that of 10^4 to 10^7; it is judged with
    whatever sizes there are, which the title names. Results of one row stand together.
    """
    found = []
    for _, group in groupby(results, key=lambda result: (result.row, result.key)):
        rising = sorted(group, key=lambda result: result.count)
        first, last = rising[0], rising[-1]
        if first.unit in COSTS and first.count < last.count:
            found.append(_between(first, last))
    return found


def _between(first: Result, last: Result) -> Result:
    values = {
        who: [large / small for small, large in zip(first.values[who], last.values[who], strict=False)]
        for who in last.values
        if who in first.values and all(first.values[who])
    }
    absent = {who: "not measured at both sizes" for who in first.values if who not in values}
    sizes = f"from {power(first.count)} to {power(last.count)}"
    return Result(
        "growth",
        f"growth of the cost of {last.heading}",
        "x",
        values,
        GOAL,
        last.count,
        sizes,
        f"{last.row}-{last.key}",
        absent,
    )
