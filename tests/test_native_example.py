"""examples/native_callbacks is built as its README says, into a folder of its own, and does what it says."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import chosen_engines
from cython_builds import INSTALLED
from support import assert_quiet, run_python

EXAMPLE = Path(__file__).parent.parent / "examples" / "native_callbacks"

pytestmark = [
    pytest.mark.skipif("native" not in chosen_engines(), reason="the twin has no C callbacks"),
    pytest.mark.timeout(300),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that pip has installed the package into, without isolation and without a network."""
    source, target = tmp_path_factory.mktemp("source") / "native_callbacks", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so", "*.pyd"))
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-index", "--no-deps"]
    process = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", target, source],
        env={**os.environ, "CFLAGS": "-O0", "PYTHONPATH": INSTALLED},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    return target


@pytest.fixture
def run(installed, monkeypatch):
    """Runs a program that can import the package."""
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
    return functools.partial(run_python, engine="native")


@pytest.mark.real_time
def test_it_measures_a_timer_of_c_beside_one_of_python(run):
    process = run("import runpy; runpy.run_module('lateness_meter', run_name='__main__')", 0.3)
    assert_quiet(process)
    pattern = r"in C: +([\d,]+) calls, p50 [\d,]+ us, worst [\d,]+ us\nin Python: +([\d,]+) calls, .* us\n"
    found = re.fullmatch(pattern, process.stdout)
    assert found is not None, process.stdout
    assert int(found[1].replace(",", "")) > 0


def test_it_notes_what_comes_until_it_is_full_stopped_or_gone(run):
    program = """
        import pysched, gc
        from lateness_meter import Meter
        from pysched.testing import ManualClock
        clock = ManualClock()
        with pysched.Engine(clock=clock) as engine:
            meter, small = Meter(engine, 1, capacity=10), Meter(engine, 1, capacity=2)
            clock.advance(3)
            clock.sleep(1.25)
            clock.advance(0)
            assert meter.lateness() == [0, 0, 0, 0.25] and len(small) == 2
            assert meter.stop() and not meter.stop()
            clock.advance(3)
            assert len(meter) == 4 and len(engine) == 1
            del small
            assert len(engine) == 0
            other = Meter(engine, 1, capacity=1)
        del engine, clock
        gc.collect()
        assert len(other) == 0 and not other.stop()
        for arguments in ((None, 1, 1), (pysched.Engine(), 0, 1), (pysched.Engine(), 1, 0)):
            try:
                Meter(*arguments)
            except (TypeError, ValueError):
                continue
            raise AssertionError(arguments)
    """
    assert_quiet(run(program))
