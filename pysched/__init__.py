"""pysched: timers by the million, and a scheduler of commands, in one process.

`Engine` calls functions at given times; `CommandScheduler` runs commands, once or repeatedly. Both work
the same on the compiled engine and on its twin in plain Python; `engine_name` says which this is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pysched.clock import Clock, SystemClock
from pysched.engine import CommandScheduler, Engine, TimerHandle, engine_name
from pysched.errors import TimerLimitError
from pysched.stats import EngineStats, Lateness

if TYPE_CHECKING:
    from pysched.commands import BasicSchedulerContext, Command, ErrorCallback, ScheduledCommand, SchedulerContext
    from pysched.scheduler_queue import QueuedCommand, TimedCommandQueue
    from pysched.worker import SchedulerWorker

__all__ = [
    "BasicSchedulerContext",
    "Clock",
    "Command",
    "CommandScheduler",
    "Engine",
    "EngineStats",
    "ErrorCallback",
    "Lateness",
    "QueuedCommand",
    "ScheduledCommand",
    "SchedulerContext",
    "SchedulerWorker",
    "SystemClock",
    "TimedCommandQueue",
    "TimerHandle",
    "TimerLimitError",
    "__version__",
    "engine_name",
]

__version__ = "0.1.0"

# Imported when they are first asked for: `dataclasses` alone takes half as long as all the rest.
_LATER = {
    "BasicSchedulerContext": "pysched.commands",
    "Command": "pysched.commands",
    "ErrorCallback": "pysched.commands",
    "ScheduledCommand": "pysched.commands",
    "SchedulerContext": "pysched.commands",
    "QueuedCommand": "pysched.scheduler_queue",
    "TimedCommandQueue": "pysched.scheduler_queue",
    "SchedulerWorker": "pysched.worker",
}
_MODULES = frozenset({"cancellation", "commands", "scheduler", "scheduler_queue", "worker"})


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"pysched.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
