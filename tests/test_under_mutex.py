"""Nothing of Python happens in compiled code while it holds a mutex: whoever waits for that one may hold the GIL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from under_mutex import Finding, Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parent.parent
FAULTS = Path(__file__).parent / "native" / "mutex_faults.pyx"

# The C files of a release build, as setup.py makes them, on all cores.
_TRANSLATE = """
import functools, os, runpy
import Cython.Build, setuptools

Cython.Build.cythonize = functools.partial(Cython.Build.cythonize, nthreads=os.cpu_count(), quiet=True)
setuptools.setup = lambda **options: None
runpy.run_path("setup.py")
"""

# Headers that know nothing of Python, whose functions may be called anywhere.
PLAIN_HEADERS = ("bits.h", "heap.h", "mutex.h", "platform.h")

PLAIN_C = {"calloc", "free", "malloc", "memcpy", "memset", "qsort", "realloc"}

HARMLESS = {
    # Nothing, unless Cython checks its own counting of references.
    *("__Pyx_GIVEREF", "__Pyx_GOTREF", "__Pyx_RefNannyFinishContext", "__Pyx_RefNannySetupContext", "__Pyx_XGIVEREF"),
    # They read a field of an object, and take no reference.
    *("PyBytes_CheckExact", "PyLong_CheckExact", "PyMethod_Check", "PyMethod_GET_FUNCTION", "PyMethod_GET_SELF"),
    *("PyList_GET_ITEM", "PyTuple_GET_ITEM", "PyTuple_GET_SIZE", "PyUnicode_CheckExact", "Py_TYPE"),
    # Of the system's threads: no interpreter is asked.
    *("PyThread_get_thread_ident", "PyThread_release_lock"),
}

# What only its place makes harmless.
EXPLAINED = {
    # `failure` and `_stale` were None before, which stays; what `self.failure` was, `_stale` keeps until the unlock.
    ("dispatch_begin", "__Pyx_DECREF_SET"),
    # Of two `str`, `int` or `bytes`: no code of anybody else's, no memory; the answer is True or False, which stay.
    ("keys_are_equal_in_c", "->tp_richcompare"),
    ("keys_are_equal_in_c", "Py_XDECREF"),
    # The collector's own, which only counts.
    ("owner_traverse_slots", "*"),
    # `core_alarm_due` and `native_due`, which are met by their names too.
    ("turns_is_due", "*"),
    # It does not wait, as the lock may be had.
    ("waiters_WakeEvent_clear", "PyThread_acquire_lock"),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The C of all modules of engine/, made by the last build where nothing changed, and of one full of faults."""
    folder = tmp_path_factory.mktemp("translated")
    for part in ("cimport-root", "cython"):
        if (ROOT / "build" / part).exists():
            shutil.copytree(ROOT / "build" / part, folder / "build" / part)
    if (ROOT / "build" / "options.txt").exists():  # by which setup.py knows whether that was a release build
        shutil.copy2(ROOT / "build" / "options.txt", folder / "build")
    shutil.copytree(ROOT / "engine", folder / "engine", ignore=shutil.ignore_patterns("*.c"))
    shutil.copy(FAULTS, folder / "engine")
    (folder / "pysched" / "_engine").mkdir(parents=True)
    for declarations in (ROOT / "pysched" / "_engine").glob("*.pxd"):
        shutil.copy(declarations, folder / "pysched" / "_engine")
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSCHED_")}
    process = subprocess.run(
        [sys.executable, "-c", _TRANSLATE], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    made = folder / "build" / "cython" / "engine"
    return {module.stem: (made / f"{module.stem}.c").read_text() for module in (folder / "engine").glob("*.pyx")}


def plain_name(function: str) -> str:
    """Of `__pyx_f_7pysched_7_engine_7waiters_9WakeEvent_8clear`: waiters_WakeEvent_clear."""
    return re.sub(r"(^|_)\d+(?=[A-Za-z_])", r"\1", re.sub(r"^__pyx_\w{1,2}_7pysched_7_engine_", "", function))


def allowed() -> set[str]:
    names = PLAIN_C | HARMLESS
    for header in PLAIN_HEADERS:
        text = (ROOT / "engine" / header).read_text()
        assert not re.search(r"\bPy[A-Z]|\bPy_(?!ssize_t)", text), f"{header} knows of Python"
        names |= set(re.findall(r"\b(pysched_\w+)\(", text))
    return names


def faults(findings: set[Finding]) -> dict[tuple[str, str], Finding]:
    """What is not known to be harmless, by function and by what it calls."""
    known = allowed()
    return {(plain_name(found.function), found.what): found for found in findings if found.what not in known}


@pytest.fixture(scope="module")
def engine(sources: dict[str, str]) -> Program:
    return Program(text for module, text in sources.items() if module != "mutex_faults")


def test_no_mutex_is_held_where_python_may_run(engine):
    found = faults(engine.calls_under_a_mutex())
    assert [str(found[key]) for key in sorted(found.keys() - EXPLAINED)] == []
    assert found.keys() >= EXPLAINED, "explained, but gone"


def test_every_function_that_needs_the_mutex_was_looked_at(engine):
    assert engine.calls_under_a_mutex()
    # Which the system calls after a fork, with all that `before` has locked.
    assert {plain_name(name) for name in engine.missed()} == {"fork_in_parent"}


def test_each_kind_of_fault_is_found(sources):
    found = faults(Program(sources.values()).calls_under_a_mutex())
    assert {function for function, what in found if function.startswith("mutex_faults_")} == {
        f"mutex_faults_{name}"
        for name in re.findall(r"^(?:cdef \w+|def) (\w+)\(", FAULTS.read_text(), re.MULTILINE)
        if not name.startswith("fine_")
    }
