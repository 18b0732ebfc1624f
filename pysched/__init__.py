"""pysched: timers by the million, and a scheduler of commands, in one process.

`Engine` calls functions at given times; `CommandScheduler` runs commands, once or repeatedly. Both work
the same on the compiled engine and on its twin in plain Python; `engine_name` says which this is.
"""

from __future__ import annotations

from pysched.clock import Clock, SystemClock
from pysched.commands import (
    BasicSchedulerContext,
    Command,
    ErrorCallback,
    ScheduledCommand,
    SchedulerContext,
)
from pysched.engine import Engine, TimerHandle, engine_name
from pysched.errors import TimerLimitError
from pysched.scheduler import CommandScheduler
from pysched.scheduler_queue import QueuedCommand, TimedCommandQueue
from pysched.stats import EngineStats, Lateness
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
