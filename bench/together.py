"""`python -m bench`: each row at its usual size; what can be, side by side in this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import probe
from bench.measure import alternate
from bench.row import Timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.result import Result
    from bench.row import Numbers, Row

__all__ = ["measured"]


def measured(row: Row, rounds: int, *, quick: bool = False) -> list[Result]:
    """The results of a row. `quick`: a tenth of the size, for a look; the goals are meant for the full size."""
    count = row.count // 10 if quick and row.grows else row.count
    here: Callable[[str, int], Numbers] = row.numbers if isinstance(row, Timed) else partial(_in_a_process, row.name)
    values, absent = alternate({who: partial(here, who, count) for who in row.contenders}, rounds)
    return row.results(values, count, absent)


def _in_a_process(row: str, who: str, count: int) -> Numbers:
    return probe.measure(row, who, count).numbers
