"""The timed rows of the table under pytest-benchmark: `pytest bench`, then its own options to compare and to save.

Small sizes, so that a run takes seconds: fit for a look at what a change did. `python -m bench` decides.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import Any

import pytest

from bench.measure import Operation, Unavailable
from bench.million import text
from bench.rows import TIMED
from bench.steady import CASES as STEADY
from bench.steady import Case, measure

COUNT = 10_000
ROUNDS = 5

CASES = [
    pytest.param(row.name, operation, id=f"{row.name}-{contender}")
    for row in TIMED
    for contender, operation in row.contenders.items()
]


@pytest.mark.parametrize(("group", "operation"), CASES)
def test_timed(benchmark: Any, group: str, operation: Operation) -> None:
    benchmark.group = f"{group} x {COUNT}"
    scene = ExitStack()

    def set_up() -> tuple[tuple[Any, ...], dict[str, Any]]:
        timed = scene.enter_context(operation(COUNT))
        gc.collect()
        return (timed,), {}

    def tear_down(_timed: object) -> None:
        scene.close()

    try:
        benchmark.pedantic(lambda timed: timed(), setup=set_up, teardown=tear_down, rounds=ROUNDS)
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        scene.close()


@pytest.mark.parametrize("case", STEADY, ids=lambda case: case.name)
def test_steady_load(case: Case) -> None:
    """The headline in small: every slot is either run or counted, once a second for each timer."""
    report = measure(case, timers=COUNT, seconds=2, settling_s=1.5)
    total = report.total
    assert (total.runs_per_s * total.at_s + total.missed) / total.at_s == pytest.approx(COUNT, rel=0.5)
    assert len(report.seconds) == 2
    assert sum(second.missed for second in report.seconds) == total.missed
    assert 0.0 <= total.p50_us <= total.p99_us < 1e6
    assert case.name in text([report.as_json()])
