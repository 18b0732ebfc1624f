"""What PYSCHED_DEBUG=1 adds: assertions about locks, which end the process, and counts of what lives."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import live_objects
from support import nothing

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a C compiler with the options of POSIX")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """debug_locks.c, compiled: it does not matter whether the engine is a debug build."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    target = tmp_path_factory.mktemp("debug_locks") / "debug_locks"
    command = [compiler, "-I", HERE.parent / "engine", HERE / "debug_locks.c", "-lpthread", "-o", target]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("1", "a mutex is locked twice"),
        ("2", "a mutex is needed that is not held here"),
        ("3", "a mutex is needed that is not held here"),
        ("4", "foreign code is to run while a mutex is held"),
    ],
)
def test_a_fault_of_locking_ends_the_process(program, fault, message):
    process = subprocess.run([program, fault], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (-signal.SIGABRT, f"pysched: {message}, in main\n")


def test_what_is_right_passes(program):
    process = subprocess.run([program, "0"], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


def test_live_objects_are_counted_in_debug_builds_only(impl, clock):
    if impl.__name__ != "pysched._engine":
        pytest.skip("of the compiled engine")
    before = live_objects()
    engine = impl.Engine(clock=clock)
    handle = engine.call_later(1, nothing, 2, key="a")
    during = live_objects()
    if before is None:
        assert during is None
        return
    assert during is not None
    assert {kind: during[kind] - before[kind] for kind in before} == {
        "cores": 1,
        "slots": 1,
        "jobs": 0,
        "references": 3,
    }
    assert handle.cancel()
    after = live_objects()
    assert after is not None
    assert {kind: after[kind] - before[kind] for kind in before} == {"cores": 1, "slots": 0, "jobs": 0, "references": 0}
