"""`python -m bench --peers`: every contender of a row in a process of its own, at each size.

One round takes the sizes in rising order, and at each size the sides one after the other; so a ratio of two sides is
of measurements that are seconds apart, and the growth of one side from size to size is of one round as well.

What would not fit into the memory that is free, or would take longer than the limit, is left out with the reason. Both
are predicted from the size before, in proportion to the number of timers; what takes longer than predicted is ended at
the limit. Who cannot do a size is not asked for a larger one. When a row's time is spent, the sizes that take longest
get fewer rounds, but each gets one.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from bench import probe
from bench.measure import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.result import Result
    from bench.row import Numbers, Row

__all__ = ["Limits", "Measured", "measured"]

BARE_BYTES = 50_000_000
BARE_S = 3.0
"""About what a process takes before the first timer, compiling and waiting included."""

TWIN_MOST = 100_000
"""The engine in plain Python is the oracle of the tests; that it is slow need not be measured at length."""


@dataclass(frozen=True)
class Limits:
    """Seconds that one measurement may take, and seconds for all rounds of a row but the first."""

    process_s: float
    row_s: float


class Measured:
    """What is known of a row, while its rounds go on."""

    def __init__(self, row: Row, sizes: Sequence[int], limits: Limits) -> None:
        self.row = row
        self.sizes = sorted(sizes)
        self.limits = limits
        self.numbers: dict[int, dict[str, list[Numbers]]] = {size: {who: [] for who in row.everyone} for size in sizes}
        self.absent: dict[int, dict[str, str]] = {size: dict(row.cannot) for size in sizes}
        self.spent: dict[int, list[float]] = {size: [] for size in sizes}
        """Seconds that each round of a size took."""
        self._last: dict[str, tuple[int, probe.Found]] = {}

    def round(self) -> None:
        """Every side once at every size for which there is time; those that failed in the first round are passed over.

        A later round in which somebody fails, as on a machine that is busy for a while, does not count at that size.
        """
        for size in self.sizes:
            spent = self.spent[size]
            if spent and sum(map(sum, self.spent.values())) + spent[-1] > self.limits.row_s:
                continue
            begin = perf_counter()
            try:
                found = {who: self._measure(who, size, first=not spent) for who in self._able(size)}
            except Unavailable:
                found = {}
            spent.append(perf_counter() - begin)
            for who, numbers in found.items():
                if numbers is not None:
                    self.numbers[size][who].append(numbers)

    def _able(self, size: int) -> Iterator[str]:
        """Nobody, once pysched is not able."""
        for who in self.row.everyone:
            if self.row.everyone[0] in self.absent[size]:
                return
            if who not in self.absent[size]:
                yield who

    def _measure(self, who: str, size: int, *, first: bool) -> Numbers | None:
        """None and a reason for its absence at the first try; later `Unavailable`."""
        if not first:
            return probe.measure(self.row.name, who, size, self.limits.process_s).numbers
        reason = self._too_much(who, size)
        if reason is None:
            try:
                found = probe.measure(self.row.name, who, size, self.limits.process_s)
            except Unavailable as failure:
                reason = str(failure)
            else:
                self._last[who] = (size, found)
                return found.numbers
        for larger in self.sizes:  # who cannot do a size can do no larger one
            if larger >= size:
                self.absent[larger].setdefault(who, reason)
        return None

    def _too_much(self, who: str, size: int) -> str | None:
        """Why a first measurement is not to be made; None if it may."""
        if not self.row.grows:
            return None
        if who == probe.TWIN and size > TWIN_MOST:
            return "the oracle of the tests is measured with fewer"
        if who not in self._last:
            return None
        smaller, found = self._last[who]
        times = size / smaller
        seconds = max(0.0, found.seconds - BARE_S) * times + BARE_S
        if seconds > self.limits.process_s:
            return f"would take about {seconds:.0f} s"
        needed = max(0, found.peak_bytes - BARE_BYTES) * times + BARE_BYTES
        if needed > psutil.virtual_memory().available * 0.8:
            return f"would need about {needed / 1e9:.0f} GB"
        return None

    def results(self) -> list[Result]:
        """Column by column, the sizes in rising order. A size that pysched could not do is told at the others."""
        first = self.row.everyone[0]
        lost = {
            f"{first}, {self.row.size_text(size)}": absent[first]
            for size, absent in self.absent.items()
            if first in absent
        }
        each = [
            self.row.results(self.numbers[size], size, {**self.absent[size], **lost})
            for size in self.sizes
            if first not in self.absent[size]
        ]
        order = {(column.key, column.title): number for number, column in enumerate(self.row.columns)}
        found = [result for results in each for result in results]
        return sorted(found, key=lambda result: order[result.key, result.heading])


def measured(row: Row, rounds: int, sizes: Sequence[int], limits: Limits) -> list[Result]:
    """The results of a row, all sizes of a column in rising order."""
    state = Measured(row, sizes, limits)
    for _ in range(rounds):
        state.round()
    return state.results()
