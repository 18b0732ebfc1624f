"""Compiles meter.pyx; that pysched is installed is all that it needs of it."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

import pysched

setup(
    ext_modules=cythonize(
        [Extension("lateness_meter.meter", ["lateness_meter/meter.pyx"])],
        # Where `cimport pysched...` is found, also if pysched is an editable install, which is not on sys.path.
        include_path=[str(Path(pysched.__file__).parent.parent)],
        language_level=3,
        build_dir="build/cython",
    ),
)
