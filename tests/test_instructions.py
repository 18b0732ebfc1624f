"""The guard of `ci/instructions`: what it compares, and with what. Counting needs valgrind, and is not done here."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import instructions

    return instructions


def test_counts_are_differences_of_sizes_and_the_least_of_rounds(guard: Any) -> None:
    few, many = guard.SIZES
    totals = []
    for cost in range(1, len(guard.OPERATIONS) + 1):
        for once in (5_000, 3_000, 4_000):  # what is done once, in three rounds
            totals += [999, once + few * cost, 77, once + many * cost]
    assert list(guard.per_operation(totals).values()) == list(range(1, len(guard.OPERATIONS) + 1))


def test_only_growth_beyond_the_tolerance_fails(guard: Any) -> None:
    baseline = {"same": 1000, "a little": 1000, "grown": 1000, "shrunk": 1000}
    counts = {"same": 1000, "a little": 1049, "grown": 1051, "shrunk": 500, "new": 9999}
    assert guard.compare(counts, baseline) == ["grown"]


@pytest.mark.parametrize(
    ("record", "switches"),
    [
        ("'linetrace': False [('PYSCHED_DEBUG', '0')]", []),
        ("'linetrace': False [('PYSCHED_DEBUG', '1'), ('PYSCHED_PORTABLE', '1')]", ["debug", "portable"]),
        ("'linetrace': True [('PYSCHED_DEBUG', '0'), ('CYTHON_TRACE_NOGIL', '1')]", ["coverage"]),
    ],
)
def test_builds_with_switches_are_not_compared(guard: Any, record: str, switches: list[str]) -> None:
    assert guard.switches_of(record) == switches
    baseline = {"build": "this", "instructions": {}}
    assert bool(guard.why_not(baseline, "this", switches)) == bool(switches)


def test_another_build_is_not_compared(guard: Any) -> None:
    assert "no baseline" in guard.why_not(None, "this", [])
    assert "another build (that)" in guard.why_not({"build": "that", "instructions": {}}, "this", [])


@pytest.mark.parametrize(
    ("module", "compiler"),
    [
        (b"..GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0..", "gcc-12"),
        (b"..clang version 17.0.6 (Fedora)..", "clang-17"),
        (b"..", "unknown"),
    ],
)
def test_the_key_names_python_compiler_and_architecture(guard: Any, module: bytes, compiler: str) -> None:
    assert re.fullmatch(rf"cpython-3\.{sys.version_info.minor} {compiler} \w+", guard.key_of(module))


def test_the_baseline_has_every_operation(guard: Any) -> None:
    baselines = json.loads(guard.BASELINE.read_text())
    assert baselines
    for baseline in baselines.values():
        assert list(baseline["instructions"]) == list(guard.OPERATIONS)
        assert min(baseline["instructions"].values()) > 0
