"""The compiled engine. Its modules are built from engine/*.pyx."""

from . import fork as fork
from .commands import CommandScheduler
from .engine import Engine
from .handle import TimerHandle

__all__ = ["CommandScheduler", "Engine", "TimerHandle"]
