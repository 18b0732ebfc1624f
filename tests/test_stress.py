"""ci/stress.py, a short round of each kind: its counts agree on both engines, and it goes on finding what they show."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from conftest import chosen_engines
from cython_builds import build_module
from support import EXECUTORS

HERE = Path(__file__).parent


@pytest.fixture
def stress(impl, scheduler_type, monkeypatch):
    """The script as a module, on `impl`."""
    spec = importlib.util.spec_from_file_location("stress", HERE.parent / "ci" / "stress.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "Engine", impl.Engine)
    monkeypatch.setattr(module, "CommandScheduler", impl.CommandScheduler)
    monkeypatch.setattr(module, "Scheduler", scheduler_type)
    monkeypatch.setattr(module, "ROUND_S", 0.2)
    return module


@pytest.mark.parametrize("options", EXECUTORS.values(), ids=EXECUTORS)
def test_engines(stress, options):
    stress.EngineRound(options, random.Random(1)).play()


def test_commands(stress):
    stress.play_commands(random.Random(1))


@pytest.mark.parametrize("daemon", [False, True])
def test_jobs(stress, daemon, logged):
    stress.play_jobs(random.Random(1), daemon)


@pytest.fixture(scope="session")
def storm(tmp_path_factory):
    """The compiled tests/native/native_storm.pyx."""
    return build_module(HERE / "native" / "native_storm.pyx", tmp_path_factory.mktemp("native_storm"))


@pytest.mark.skipif("native" not in chosen_engines(), reason="the twin has no C callbacks")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", EXECUTORS.values(), ids=EXECUTORS)
def test_c_functions_from_c_threads(stress, storm, impl, options):
    if impl.__name__ != "pysched._engine":
        pytest.skip("of the compiled engine")
    stress.play_storm(storm, options, random.Random(1))
