"""The compiled engine. Its modules are built from engine/*.pyx.

They keep what they know once a process, so they serve one interpreter, the main one. Which is looked at before any of
them is loaded: the first interpreter to load one would be the only one that can.
"""

from pysched.interpreters import in_main_interpreter

if not in_main_interpreter():
    raise ImportError(
        "the compiled engine of pysched works in the main interpreter only; "
        "in sub-interpreters, set PYSCHED_ENGINE=pure",
        name="pysched._engine",
    )

try:
    import pysched._engine.fork  # noqa: F401  what it does, it does at import
except ModuleNotFoundError as error:
    if error.name != "pysched._engine.fork":
        raise
    from os.path import abspath, dirname

    folder = dirname(dirname(dirname(abspath(__file__))))
    raise ImportError(
        f"the compiled engine of pysched is not built, for this Python, in {folder}, which comes before an installed "
        "pysched: leave the folder, build it there with ci/demo or `pip install -e .`, or set PYSCHED_ENGINE=pure",
        name="pysched._engine",
    ) from error

from pysched._engine.commands import CommandScheduler
from pysched._engine.engine import Engine
from pysched._engine.handle import TimerHandle

__all__ = ["CommandScheduler", "Engine", "TimerHandle"]
