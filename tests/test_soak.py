"""`bench.soak`: a short one is clean, on both engines; what is wrong is found, told with the seed, and is a status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import run_python

ROOT = str(Path(__file__).parent.parent)
SECONDS = {"native": 20, "pure": 8}


def soak(text):
    """Run it in a process of its own. The root comes last on the path, so that pysched is the one that is installed."""
    return run_python(f"import sys; sys.path.append({ROOT!r})\n{text}", timeout=110)


@pytest.mark.slow
@pytest.mark.real_time
def test_a_short_soak_is_clean(engine_name):
    seconds = SECONDS[engine_name]
    process = soak(
        f"from bench.soak import main\nsys.exit(main(['--seconds', '{seconds}', '--engine', '{engine_name}']))"
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.splitlines()[-1] == "clean"
    assert process.stderr == ""
    assert re.search(r"--seed \d+", process.stdout)
    assert re.search(r"forks [1-9]", process.stdout)
    assert re.search(r"time-outs [1-9]", process.stdout)
    assert re.search(r"wall clock set [1-9]", process.stdout)
    assert re.search(r"threads: (\d+) at the start, \1 at the end", process.stdout)


BREAKS = {
    "a run is lost": (
        "import pysched, random\n"
        "later = pysched.Engine.call_later\n"
        "Broken.call_later = lambda self, delay, *a, **k: later(\n"
        "    self, 9e9 if 0 < delay < 1 and random.random() < 0.01 else delay, *a, **k)\n"
    ),
    "a run comes twice": (
        "Broken.call_later = lambda self, *a, key=None: (\n"
        "    super(Broken, self).call_later(*a), super(Broken, self).call_later(*a, key=key))[1]\n"
    ),
    "a run is early": (
        "Broken.call_later = lambda self, delay, *a, **k: super(Broken, self).call_later(delay / 2, *a, **k)\n"
    ),
    "a cancel lies": "Broken.cancel_key = lambda self, key: not super(Broken, self).cancel_key(key)\n",
}


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_what_is_wrong_is_found(engine_name, broken):
    process = soak(
        "import os\n"
        f"os.environ['PYSCHED_ENGINE'] = '{engine_name}'\n"
        "import pysched\n"
        "class Broken(pysched.Engine):\n"
        "    pass\n"
        f"{broken}"
        "from bench import soak\n"
        "from bench.soaking import engines, life\n"
        "engines.Engine = Broken\n"
        "life.WAIT_S = 2.0\n"
        "makers = soak._makers\n"
        "soak._makers = lambda world: {'Engine, inline': makers(world)['Engine, inline']}\n"
        f"sys.exit(soak.main(['--seconds', '1', '--seed', '1', '--engine', '{engine_name}']))"
    )
    assert process.returncode == 1, process.stdout + process.stderr
    assert re.search(r"^not as it has to be: Engine", process.stdout, re.MULTILINE)
    assert process.stdout.splitlines()[-1].endswith("deviations, --seed 1")
