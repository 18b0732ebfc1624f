"""`ci/instructions`: instructions an operation, by valgrind's callgrind, against the committed baseline.

A neighbour on the machine moves every time that is measured; what is executed it does not move. So a change that makes
an operation dearer by a twentieth is seen, in one run of half a minute. What is counted is everything that is executed
in the process, on all its threads: the engine, the interpreter and the C library.

A baseline holds for one minor version of CPython, major version of the compiler and architecture, and for one build of
them: the interpreter's version and options, that of Cython, and the C library. Elsewhere, and for a debug, coverage or
portable build, the counts are only shown. They do not tell how long an instruction takes: a cache miss counts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

import pysched._engine
from bench.counted import MARK, OPERATIONS, ROUNDS, SIZES

__all__ = ["build_of", "compare", "key_of", "per_operation"]

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.05

Counts = dict[str, float]
"""Instructions an operation, by its name."""


class Baseline(TypedDict):
    build: str
    instructions: Counts


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 if an operation has grown; 0 if none has, or if there is nothing to compare with."""
    parser = argparse.ArgumentParser(prog="ci/instructions", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write what is counted as the new baseline of this build")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        print("instructions: skipped, there is no valgrind here")
        return 0
    switches = switches_of((ROOT / "build" / "options.txt").read_text())
    if options.update and switches:
        parser.error(f"a {' and '.join(switches)} build is no baseline")
    key, build = key_of(extension()), build_of()
    baselines: dict[str, Baseline] = json.loads(BASELINE.read_text())
    baseline = baselines.get(key)
    counts = count()
    reason = why_not(baseline, build, switches)
    print(f"{key} ({build})")
    print(*table(counts, {} if baseline is None else baseline["instructions"]), sep="\n")
    if options.update:
        baselines[key] = {"build": build, "instructions": {name: round(counted) for name, counted in counts.items()}}
        BASELINE.write_text(json.dumps(dict(sorted(baselines.items())), indent=1) + "\n")
        return 0
    if baseline is None or reason:
        print(f"not compared: {reason}")
        return 0
    grown = compare(counts, baseline["instructions"])
    if grown:  # where malloc finds its memory moves a count now and then by some percent: not twice
        again = count()
        grown = [name for name in compare(again, baseline["instructions"]) if name in grown]
    if grown:
        print(f"grown by more than {TOLERANCE:.0%}: {', '.join(grown)}. If that is its price: ci/instructions --update")
    return bool(grown)


# -- what was built -------------------------------------------------------------------------------------------------


def extension() -> bytes:
    """The compiled module that holds the engine's class."""
    file = sys.modules[pysched._engine.Engine.__module__].__file__
    assert file is not None
    return Path(file).read_bytes()


def key_of(module: bytes) -> str:
    """By what a baseline is found; compilers leave their names in what they make."""
    made_by = re.search(rb"GCC: \([^)]*\) (\d+)|clang version (\d+)", module)
    compiler = "unknown"
    if made_by:
        compiler = f"gcc-{made_by[1].decode()}" if made_by[1] else f"clang-{made_by[2].decode()}"
    return f"cpython-{sys.version_info.major}.{sys.version_info.minor} {compiler} {platform.machine()}"


def build_of() -> str:
    """What moves the counts without a change of ours."""
    given = sysconfig.get_config_var("CONFIG_ARGS") or ""
    options = [name for name in ("enable-optimizations", "with-lto", "enable-shared") if name in given]
    interpreter = " ".join([platform.python_version(), platform.python_compiler(), *options])
    return f"{interpreter}, Cython {version('cython')}, {' '.join(platform.libc_ver())}"


def switches_of(record: str) -> list[str]:
    """The switches of setup.py that a build was made with, by what it has recorded of its options."""
    found = {
        "debug": "('PYSCHED_DEBUG', '1')",
        "coverage": "'linetrace': True",
        "portable": "('PYSCHED_PORTABLE', '1')",
    }
    return [name for name, text in found.items() if text in record]


def why_not(baseline: Baseline | None, build: str, switches: list[str]) -> str:
    """Why the counts cannot be compared with the baseline; empty if they can."""
    if switches:
        return f"this is a {' and '.join(switches)} build"
    if baseline is None:
        return "there is no baseline for this platform"
    if baseline["build"] != build:
        return f"the baseline is that of another build ({baseline['build']})"
    return ""


# -- counting and comparing -----------------------------------------------------------------------------------------


def count() -> Counts:
    """Runs `bench.counted` under callgrind."""
    with TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            f"--callgrind-out-file={folder}/out",
            f"--dump-before={MARK}",
            *(sys.executable, "-m", "bench.counted"),
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSCHED", "PYTHON"))}
        # By pymalloc a handle made and dropped costs 2 % more where its pool is about to be full, by chance.
        steady = {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}
        subprocess.run(command, cwd=ROOT, env={**environment, **steady}, check=True)
        marks = 2 * len(SIZES) * ROUNDS * len(OPERATIONS)
        return per_operation([total(Path(folder, f"out.{dump}")) for dump in range(1, marks + 1)])


def total(dump: Path) -> int:
    """What callgrind has counted for one dump."""
    with dump.open() as lines:
        for line in lines:
            name, _, number = line.partition(":")
            if name in ("summary", "totals"):
                return int(number)
    raise ValueError(f"{dump} has no total")


def per_operation(totals: list[int]) -> Counts:
    """From the dumps in order: of each operation `ROUNDS` times what came before the small size, that, and the same
    of the large one.
    """
    counts = {}
    share = len(totals) // len(OPERATIONS)
    for number, name in enumerate(OPERATIONS):
        taken = totals[number * share : (number + 1) * share]
        counts[name] = (min(taken[3::4]) - min(taken[1::4])) / (SIZES[1] - SIZES[0])
    return counts


def compare(counts: Counts, baseline: Counts) -> list[str]:
    """The operations that have grown; those that the baseline does not know have not."""
    return [name for name, now in counts.items() if now > baseline.get(name, now) * (1 + TOLERANCE)]


def table(counts: Counts, baseline: Counts) -> list[str]:
    """One line an operation, with its change against the baseline."""
    width = max(map(len, counts))
    return [
        f"{name:<{width}} {now:>9,.0f}" + (f" {now / baseline[name] - 1:+7.1%}" if name in baseline else "")
        for name, now in counts.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
