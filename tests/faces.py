"""`Engine`, `CommandScheduler` and `Scheduler` behind one small interface, for what all three promise.

Entries have a key, or None.  `every` is a grid, but for commands, whose interval counts from the end of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Act:
    """A command of a function without parameters."""

    def __init__(self, function: Callable[[], object], key: object) -> None:
        self.function = function
        self.key = key

    def execute(self, context: object) -> object:
        return self.function()


class Face:
    """What the three have in common."""

    restarts = True

    def __init__(self, made: Any) -> None:
        self.made = made

    def close(self) -> None:
        assert self.stop(WAIT), "a callback was left running"
        self.made._check()

    def stop(self, timeout: float | None = None) -> bool:
        """Whether nothing is left running."""
        raise NotImplementedError


class EngineFace(Face):
    def __init__(self, impl: ModuleType, workers: int | None = None, **options: Any) -> None:
        super().__init__(impl.Engine(workers, **options))

    def once(self, delay: float, function: Any, key: object = None) -> None:
        self.made.call_later(delay, function, key=key)

    def every(self, interval: float, function: Any, key: object = None) -> None:
        self.made.call_every(interval, function, key=key)

    def cancel(self, key: object) -> bool | None:
        return self.made.cancel_key(key)

    def start(self) -> None:
        self.made.start()

    def stop(self, timeout: float | None = None) -> bool:
        return self.made.stop(timeout)


class CommandFace(Face):
    def __init__(self, impl: ModuleType, workers: int | None = None, **options: Any) -> None:
        super().__init__(impl.CommandScheduler(max_workers=workers or 1, **options))

    def once(self, delay: float, function: Any, key: object = None) -> None:
        self.made.submit(Act(function, key), delay)

    def every(self, interval: float, function: Any, key: object = None) -> None:
        self.made.schedule(Act(function, key), interval, interval)

    def cancel(self, key: object) -> bool | None:
        """None: `remove` does not say whether it prevented anything."""
        return self.made.remove(key)

    def start(self) -> None:
        self.made.start()

    def stop(self, timeout: float | None = None) -> bool:
        self.made.stop(timeout)
        return True


class SchedulerFace(Face):
    restarts = False

    def __init__(self, impl: ModuleType, workers: int | None = None, **options: Any) -> None:
        from conftest import scheduler_type_of

        super().__init__(scheduler_type_of(impl)(workers or 1, timezone="UTC", **options))

    def once(self, delay: float, function: Any, key: str | None = None) -> None:
        self.made.after(delay, function, id=key, replace=key is not None)

    def every(self, interval: float, function: Any, key: str | None = None) -> None:
        self.made.every(interval, function, id=key, replace=key is not None)

    def cancel(self, key: str) -> bool | None:
        try:
            return self.made.remove_job(key)
        except KeyError:
            return False

    def start(self) -> None:
        self.made.start_background()

    def stop(self, timeout: float | None = None) -> bool:
        return self.made.shutdown(timeout=timeout) == []


FACES: dict[str, type[Any]] = {"engine": EngineFace, "commands": CommandFace, "scheduler": SchedulerFace}

all_faces = pytest.mark.parametrize("kind", FACES)
restartable = pytest.mark.parametrize("kind", [name for name, face in FACES.items() if face.restarts])

CONSTRUCT = {
    "engine": "Engine({workers})",
    "commands": "CommandScheduler(max_workers={workers} or 1)",
    "scheduler": 'Scheduler({workers} or 1, timezone="UTC")',
}
"""Source text that makes one, in programs that run in a process of their own."""

PRELUDE = """
import atexit, logging, os, signal, sys, threading, time
from pysched import CommandScheduler, Engine, Scheduler

class Act:
    key = None
    repeat_interval_s = None
    def __init__(self, function):
        self.function = function
    def execute(self, context):
        return self.function()

def once(made, delay, function):
    match made:
        case Engine():
            made.call_later(delay, function)
        case CommandScheduler():
            made.submit(Act(function), delay)
        case Scheduler():
            made.after(delay, function, on_error=lambda error, run: None)

def every(made, interval, function):
    match made:
        case Engine():
            made.call_every(interval, function)
        case CommandScheduler():
            made.schedule(Act(function), interval, interval)
        case Scheduler():
            made.every(interval, function, on_error=lambda error, run: None)

def start(made):
    made.start_background() if isinstance(made, Scheduler) else made.start()

def stop(made, timeout):
    return made.shutdown(timeout=timeout) if isinstance(made, Scheduler) else made.stop(timeout)
"""
"""The same interface as functions, for those programs."""


def program(kind: str, text: str, workers: int | None = None) -> str:
    """`PRELUDE`, `made` as what `kind` says, and `text`."""
    lines = [line.removeprefix("        ") for line in text.splitlines()]
    return PRELUDE + f"\nmade = {CONSTRUCT[kind].format(workers=workers)}\n" + "\n".join(lines)
