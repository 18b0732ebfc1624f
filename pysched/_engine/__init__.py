"""The compiled engine. Its modules are built from engine/*.pyx."""

import pysched._engine.fork  # noqa: F401  what it does, it does at import
from pysched._engine.commands import CommandScheduler
from pysched._engine.engine import Engine
from pysched._engine.handle import TimerHandle

__all__ = ["CommandScheduler", "Engine", "TimerHandle"]
