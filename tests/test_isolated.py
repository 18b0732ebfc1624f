"""Runs the scripts of tests/isolated/, each in a process of its own: leaks, cycles, and the end of everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import assert_quiet, run_python

SCRIPTS = sorted((Path(__file__).parent / "isolated").glob("*.py"))


def test_there_are_scripts():
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_ends_well_and_in_silence(engine_name, script):
    process = run_python(str(script), engine=engine_name)
    assert_quiet(process)
    assert process.stdout == ""
