"""The timed rows of the table under pytest-benchmark: `pytest bench`, then its own options to compare and to save.

Small sizes, so that a run takes seconds: fit for a look at what a change did. `python -m bench` decides.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import Any

import pytest

from bench.measure import Operation, Unavailable
from bench.rows import TIMED

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
