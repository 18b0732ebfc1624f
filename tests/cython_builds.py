"""Extensions that tests compile against pysched, as its users do: without isolation, and without a network."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pysched

if TYPE_CHECKING:
    from types import ModuleType

_SETUP = """
import sys
from Cython.Build import cythonize
from setuptools import Extension, setup

name, installed = sys.argv[1:]
module = Extension(name, [f"{name}.pyx"], extra_compile_args=["-O0"])
setup(
    name=name,
    script_args=["-q", "build_ext", "--inplace"],
    ext_modules=cythonize([module], include_path=[installed], quiet=True),
)
"""

INSTALLED = str(Path(pysched.__file__).parent.parent)


def compile_module(source: Path, folder: Path) -> Path:
    """Compile the module `source` in `folder`: the file made there."""
    name = source.stem
    (folder / source.name).write_bytes(source.read_bytes())
    command = [sys.executable, "-c", _SETUP, name, INSTALLED]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    [built] = [path for path in folder.iterdir() if path.suffix in {".pyd", ".so"}]
    return built


def build_module(source: Path, folder: Path) -> ModuleType:
    """Compile the module `source` in `folder`, and import it from there."""
    name = source.stem
    built = compile_module(source, folder)
    spec = importlib.util.spec_from_file_location(name, built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
