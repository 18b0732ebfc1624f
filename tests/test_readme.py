"""Each Python example of the README runs as it stands, and without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import assert_quiet, run_python

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def printed(block: str, engine: str) -> list[str]:
    process = run_python(block, engine=engine)
    assert_quiet(process)
    return process.stdout.splitlines()


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_examples_do_what_their_words_say(engine):
    of_engine, of_commands, of_clock = (printed(block, engine) for block in BLOCKS)

    assert of_engine.count("once") == 1
    assert of_engine.count("session expired") == 1
    assert "replaced" not in of_engine
    assert 1 <= of_engine.count("poll") <= 3
    assert of_engine[-1].startswith("EngineStats(scheduled=1004, ")

    assert of_commands.count("once") == 1
    assert of_commands.count("again") >= 2

    assert of_clock == []


@pytest.mark.parametrize("command", ["ci/demo", "ci/test"])
def test_the_commands_exist(command):
    assert (Path(__file__).parent.parent / command).stat().st_mode & 0o111
    assert command in README
