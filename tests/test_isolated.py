"""Runs the scripts of tests/isolated/, each in a process of its own: leaks, cycles, and the end of everything."""

from __future__ import annotations

import pytest
from support import SCRIPTS, assert_quiet, run_python


@pytest.mark.parametrize("flags", [(), ("-X", "dev")], ids=["plain", "dev"])
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_a_script_ends_well_and_in_silence(engine_name, script, flags):
    process = run_python(str(script), engine=engine_name, flags=flags)
    assert_quiet(process)
    assert process.stdout == ""
