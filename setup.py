"""Builds the engine: every engine/X.pyx becomes the extension module pysched._engine.X.

Everything else stands in pyproject.toml. Four switches, read from the environment:

PYSCHED_DEBUG=1     symbols, little optimisation, Cython's checks of indices and unset variables, and our own of locks
                    and of what lives (engine/mutex.h, `pysched._engine.core.live_objects`); tests may let allocations
                    fail (engine/memory.pxd)
PYSCHED_PORTABLE=1  what POSIX systems other than Linux get, to be tested on Linux
PYSCHED_SANITIZE=X  gcc's or clang's sanitizers, as for -fsanitize: "address,undefined" or "thread" (see ci/sanitize)
PYSCHED_COVERAGE=1  line tracing for coverage.py's Cython plugin; the C files land beside their sources
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup

# All paths are relative to this file: setuptools refuses absolute ones, and pip may build from elsewhere.
os.chdir(Path(__file__).resolve().parent)

ENGINE = Path("engine")
PUBLIC = Path("pysched", "_engine")
BUILD = Path("build")
CIMPORT_ROOT = BUILD / "cimport-root"

DEBUG = os.environ.get("PYSCHED_DEBUG") == "1"
COVERAGE = os.environ.get("PYSCHED_COVERAGE") == "1"
SANITIZE = os.environ.get("PYSCHED_SANITIZE")

DIRECTIVES = {
    "language_level": 3,
    "freethreading_compatible": True,
    # Methods as C descriptors, which the interpreter calls faster than function objects.
    "binding": False,
    # Indices and divisors in engine/ are the engine's own, never a caller's.
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": DEBUG,
    # Signatures that inspect.signature() and help() can read, although methods are C descriptors.
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "linetrace": COVERAGE,
}

MACROS = [("PYSCHED_DEBUG", "1" if DEBUG else "0")]
if os.environ.get("PYSCHED_PORTABLE") == "1":
    MACROS.append(("PYSCHED_PORTABLE", "1"))
if COVERAGE:
    MACROS.append(("CYTHON_TRACE_NOGIL", "1"))


def compile_args() -> list[str]:
    if sys.platform == "win32":
        return ["/Od", "/Zi"] if DEBUG else ["/O2"]
    if SANITIZE:
        return [*sanitizers(), "-O1", "-g", "-fno-omit-frame-pointer"]
    if DEBUG:
        return ["-O1", "-g", "-UNDEBUG"]
    return ["-O3", "-g0"]


def sanitizers() -> list[str]:
    """What compiler and linker are told; the first fault ends the process."""
    return [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"] if SANITIZE else []


def mirror_declarations() -> list[str]:
    """Copy all .pxd and .h files to where `cimport pysched._engine.X` finds them; return their names.

    Those of engine/, and what is installed for users' own Cython modules (pysched/_engine/capi.pxd).

    Cython knows nothing of setuptools' `package_dir` and takes a .pxd in engine/ for a top-level module, so
    the tree it searches is laid out as the package is. copy2 keeps the times: an untouched header leads to
    no rebuild, a newer one to that of every module that includes it.
    """
    package = CIMPORT_ROOT / "pysched" / "_engine"
    package.mkdir(parents=True, exist_ok=True)
    sources = sorted([*ENGINE.glob("*.pxd"), *ENGINE.glob("*.h"), *PUBLIC.glob("*.pxd")])
    names = {source.name for source in sources}
    for copy in package.iterdir():
        if copy.name not in names:
            copy.unlink()
    for source in sources:
        shutil.copy2(source, package)
    return [str(source) for source in sources]


def extensions() -> list[Extension]:
    modules = sorted(ENGINE.glob("*.pyx"))
    if not modules:
        return []
    from Cython import __version__ as cython_version
    from Cython.Build import cythonize

    # Neither Cython nor setuptools looks at options when it decides what is up to date, so they are kept in a
    # file that every extension depends on.
    options = f"Cython {cython_version}\n{DIRECTIVES}\n{MACROS}\n{compile_args()}\n"
    record = BUILD / "options.txt"
    changed = not record.exists() or record.read_text() != options
    depends = [*mirror_declarations(), str(record)]
    if changed:
        record.write_text(options)
    try:
        return cythonize(
            [
                Extension(
                    f"pysched._engine.{module.stem}",
                    [str(module)],
                    include_dirs=[str(ENGINE)],
                    depends=depends,
                    define_macros=MACROS,
                    extra_compile_args=compile_args(),
                    extra_link_args=sanitizers(),
                )
                for module in modules
            ],
            compiler_directives=DIRECTIVES,
            include_path=[str(CIMPORT_ROOT)],
            # coverage.py finds the Cython source of a line through the C file beside it.
            build_dir=None if COVERAGE else str(BUILD / "cython"),
            force=changed,
        )
    except BaseException:
        if changed:  # some C files are still of the old options
            record.unlink()
        raise


setup(
    ext_modules=extensions(),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
