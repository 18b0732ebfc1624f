"""What PYSCHED_DEBUG=1 adds: assertions about locks, which end the process, and counts of what lives."""

from __future__ import annotations

import importlib
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


@pytest.fixture(scope="module", params=["here", "PORTABLE"])
def program(tmp_path_factory, request):
    """debug_locks.c, compiled, also for other POSIX systems: it does not matter whether the engine is a debug build."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    target = tmp_path_factory.mktemp("debug_locks") / "debug_locks"
    options = ["-Werror", f"-DPYSCHED_{request.param}", "-I", HERE.parent / "engine"]
    command = [compiler, *options, HERE / "debug_locks.c", "-lpthread", "-o", target]
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
        ("5", "what it guards is broken"),
        ("6", "what it guards is broken"),
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


def test_a_debug_build_checks_the_invariants_whenever_the_mutex_is_given_back(impl, clock):
    if impl.__name__ != "pysched._engine":
        pytest.skip("of the compiled engine")
    checks = importlib.import_module("pysched._engine.invariants").checks
    if checks() is None:
        assert live_objects() is None
        return
    engine = impl.Engine(clock=clock)
    for change in (
        lambda: engine.call_later(1, nothing),
        lambda: engine.call_every(1, nothing, key="a"),
        lambda: engine.call_many([1, 2], nothing),
        lambda: engine.cancel_key("a"),
        engine.start,
        lambda: clock.advance(1),
        engine.stop,
    ):
        before = checks()
        change()
        assert checks() > before


def test_with_many_timers_only_some_of_the_checks_are_made(impl):
    if impl.__name__ != "pysched._engine" or live_objects() is None:
        pytest.skip("of a debug build")
    checks = importlib.import_module("pysched._engine.invariants").checks
    engine = impl.Engine()
    engine.call_many([60.0] * 10_000, nothing)
    before = checks()
    for _ in range(1_000):
        engine.call_later(60, nothing)
    assert 2 <= checks() - before <= 10  # 64 looks each, at 20,000 nodes and slots
