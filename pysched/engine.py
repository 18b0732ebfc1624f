"""Chooses the engine: the compiled one, or its twin in plain Python.

The environment variable ``PYSCHED_ENGINE`` is read once, at import: ``native`` (the default, also when it is
empty) or ``pure``. A compiled engine that cannot be imported raises its own error; it is never silently replaced.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

__all__ = [
    "Calendar",
    "CalendarSchedule",
    "CommandScheduler",
    "Engine",
    "JobEngine",
    "Snapshot",
    "TimerHandle",
    "Zone",
    "engine_name",
]

_choice = os.environ.get("PYSCHED_ENGINE") or "native"

engine_name: Literal["native", "pure"]
"""Which engine this process uses."""

if TYPE_CHECKING or _choice == "native":
    from pysched._engine import CommandScheduler, Engine, TimerHandle

    if TYPE_CHECKING:
        from pysched._engine.calendar import Calendar, Zone
        from pysched._engine.job_engine import JobEngine
        from pysched._engine.schedule import CalendarSchedule
        from pysched._engine.snapshot import Snapshot

    engine_name = "native"
elif _choice == "pure":
    from pysched._pure import CommandScheduler, Engine, TimerHandle

    engine_name = "pure"
else:
    raise ValueError(f"PYSCHED_ENGINE must be native or pure, got {_choice!r}")


_LATE = {
    "Calendar": "calendar",
    "CalendarSchedule": "schedule",
    "JobEngine": "job_engine",
    "Snapshot": "snapshot",
    "Zone": "calendar",
}


def __getattr__(name: str) -> object:
    """What only a `Scheduler` needs is imported by who uses it first: with it comes datetime."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    package = {"native": "pysched._engine", "pure": "pysched._pure"}[engine_name]
    value = getattr(import_module(f"{package}.{_LATE[name]}"), name)
    globals()[name] = value
    return value
