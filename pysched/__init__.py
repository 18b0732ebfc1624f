"""pysched: timers by the million, and schedulers of jobs and of commands, in one process.

`Scheduler` runs jobs at intervals, by cron expressions and once, with retries, time-outs and counters;
`CommandScheduler` runs commands, once or repeatedly, one at a time; `Engine`, below both, calls functions at given
times. All work the same on the compiled engine and on its twin in plain Python; `engine_name` says which this is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched.clock import Clock, SystemClock
from pysched.engine import CommandScheduler, Engine, TimerHandle, engine_name
from pysched.errors import JobCancelled, TimerLimitError
from pysched.stats import EngineStats, Lateness

if TYPE_CHECKING:
    from pysched.commands import (
        BasicSchedulerContext,
        Command,
        ErrorCallback,
        ScheduledCommand,
        SchedulerContext,
    )
    from pysched.current import current_run
    from pysched.events import EventName, JobEvent
    from pysched.explanations import Decision
    from pysched.forecast import preview
    from pysched.job import JobInfo
    from pysched.options import Duration
    from pysched.runner import JobRun
    from pysched.scheduler import Scheduler
    from pysched.scheduler_queue import QueuedCommand, TimedCommandQueue
    from pysched.token import CancelToken
    from pysched.worker import SchedulerWorker

__all__ = [
    "BasicSchedulerContext",
    "CancelToken",
    "Clock",
    "Command",
    "CommandScheduler",
    "Decision",
    "Duration",
    "Engine",
    "EngineStats",
    "ErrorCallback",
    "EventName",
    "JobCancelled",
    "JobEvent",
    "JobInfo",
    "JobRun",
    "Lateness",
    "QueuedCommand",
    "ScheduledCommand",
    "Scheduler",
    "SchedulerContext",
    "SchedulerWorker",
    "SystemClock",
    "TimedCommandQueue",
    "TimerHandle",
    "TimerLimitError",
    "__version__",
    "current_run",
    "engine_name",
    "preview",
]

__version__ = "0.1.0"

# Imported by who uses them first: their modules need dataclasses or datetime, whose import costs as much as all the
# rest.
_MODULES = {
    "BasicSchedulerContext": "commands",
    "CancelToken": "token",
    "Command": "commands",
    "Decision": "explanations",
    "Duration": "options",
    "ErrorCallback": "commands",
    "EventName": "events",
    "JobEvent": "events",
    "JobInfo": "job",
    "JobRun": "runner",
    "QueuedCommand": "scheduler_queue",
    "ScheduledCommand": "commands",
    "Scheduler": "scheduler",
    "SchedulerContext": "commands",
    "SchedulerWorker": "worker",
    "TimedCommandQueue": "scheduler_queue",
    "current_run": "current",
    "preview": "forecast",
}


if not TYPE_CHECKING:  # a type checker would take any name for one that there is

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
