"""docs/reliability.md: every test that it names exists, and every promise names one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|") and not line.startswith(("| ---", "| promise ", "| check ", "| `ci/"))
]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)*)`", TEXT)))


@cache
def functions_of(path):
    """The tests that pytest collects of a module, those of a class as ``TestClass::test_name``."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = [("", body), *((f"{node.name}::", node.body) for node in body if isinstance(node, ast.ClassDef))]
    return {
        prefix + node.name
        for prefix, nodes in found
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_is_named_exists(name):
    path, _, function = name.partition("::")
    assert (TESTS / path).is_file()
    if not path.startswith("isolated/"):
        assert function in functions_of(TESTS / path)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_promise_names_its_tests_and_reports(row):
    promise, tests, reports = row
    assert promise.endswith(".")
    assert tests.split()
    assert all(test.strip("`") in NAMED for test in tests.split())
    assert not reports or re.fullmatch(r"[\w #,.-]+ #\d+", reports)


def test_the_table_is_read_at_all():
    assert len(ROWS) > 30
    assert len(NAMED) > 80
