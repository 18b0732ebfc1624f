"""What is shipped: the sdist holds every source, and the wheel built from it holds the library and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
VERSION = "0.1.0"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def build(kind: str, source: Path, target: Path) -> Path:
    """Build the sdist or wheel of `source` with what is installed here, and return the one file made."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", target, source]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    [made] = target.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree inside of the sdist."""
    target = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return target / f"pysched-{VERSION}"


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def in_wheel(wheel: Path) -> set[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist()}


def sources(folder: str, *suffixes: str) -> set[PurePosixPath]:
    """The files of the repository below `folder` that have one of `suffixes`."""
    return {
        PurePosixPath(path.relative_to(ROOT).as_posix())
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes
    }


def test_the_sdist_holds_every_source(unpacked):
    wanted = sources("engine", ".pyx", ".pxd", ".h") | sources("pysched", ".py", ".pyi", ".pxd")
    wanted |= {PurePosixPath("pysched/py.typed")}
    wanted |= {PurePosixPath(name) for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md")}
    assert {path for path in wanted if not (unpacked / path).is_file()} == set()


def test_the_sdist_holds_nothing_that_was_built(unpacked):
    built = {".c", ".html", ".o", ".pyc", ".pyd", ".so"}
    assert [path for path in unpacked.rglob("*") if path.suffix in built] == []
    assert not (unpacked / "build").exists()


def test_the_wheel_holds_all_modules_their_stubs_and_the_marker_of_a_typed_package(in_wheel):
    assert sources("pysched", ".py", ".pyi", ".pxd") <= in_wheel
    assert PurePosixPath("pysched/py.typed") in in_wheel
    for module in (ROOT / "engine").glob("*.pyx"):
        assert PurePosixPath(f"pysched/_engine/{module.stem}{EXTENSION_SUFFIXES[0]}") in in_wheel


def test_the_wheel_holds_no_sources_of_the_engine_and_nothing_beside_the_package(in_wheel):
    """But for the one declaration file that is meant for others."""
    found = {path for path in in_wheel if path.suffix in {".c", ".h", ".pxd", ".pyx"}}
    assert found == {PurePosixPath("pysched/_engine/capi.pxd")}
    assert {path.parts[0] for path in in_wheel} == {"pysched", f"pysched-{VERSION}.dist-info"}


def test_both_carry_the_version_and_the_license(sdist, wheel, in_wheel):
    assert sdist.name == f"pysched-{VERSION}.tar.gz"
    assert wheel.name.startswith(f"pysched-{VERSION}-cp{sys.version_info[0]}{sys.version_info[1]}-")
    assert PurePosixPath(f"pysched-{VERSION}.dist-info/licenses/LICENSE") in in_wheel


def test_a_module_of_cython_compiles_against_the_wheel_alone(wheel, tmp_path):
    """Its declarations need nothing that is not in it."""
    installed, module = tmp_path / "installed", tmp_path / "module"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    module.mkdir()
    (module / "user.pyx").write_text(
        "from pysched._engine.capi cimport pysched_close, pysched_open\n"
        "def open_and_close(engine):\n"
        "    pysched_close(pysched_open(engine))\n"
    )
    program = f"""
import sys; sys.path.insert(0, {str(installed)!r})
from pathlib import Path
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(
    name="user",
    script_args=["-q", "build_ext", "--inplace"],
    ext_modules=cythonize([Extension("user", ["user.pyx"])], include_path=[{str(installed)!r}], quiet=True),
)
sys.path.insert(0, "")
import pysched, user
assert pysched.__file__.startswith({str(installed)!r}), pysched.__file__
user.open_and_close(pysched.Engine())
"""
    process = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=module,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_the_wheel_works_where_it_is_installed(wheel, tmp_path):
    """Unpacked beside no source tree, it imports its own compiled engine, and that runs a timer."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import pysched, pysched._engine, pysched.testing
assert pysched.__file__.startswith({str(tmp_path)!r}), pysched.__file__
clock = pysched.testing.ManualClock()
engine = pysched.Engine(clock=clock)
engine.call_later(1, print, pysched.engine_name, pysched.__version__)
engine.start()
assert clock.advance(1) == 1
assert engine.stop()
"""
    process = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", program],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, f"native {VERSION}\n", "")
