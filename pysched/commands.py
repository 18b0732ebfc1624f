"""Commands: what a `CommandScheduler` runs, and the context that it hands to them.

A command is any object with an `execute(context)` method; deriving it from `Command` is a convenience.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pysched.attributes import attribute_or_none

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["BasicSchedulerContext", "Command", "ErrorCallback", "ScheduledCommand", "SchedulerContext"]


class SchedulerContext(Protocol):
    """What a scheduler needs of a context: a place for the last error of a command."""

    last_error: BaseException | None


@dataclass
class BasicSchedulerContext:
    """The smallest context. Derive your own dataclass from it and add what your commands share.

    Commands run one at a time (as long as `max_workers` is 1), so they may change a context without locks.
    """

    last_error: BaseException | None = None


class Command(ABC):
    """Something to run later, once or repeatedly.

    `key`: at most one submission of a key waits at a time, the newest; None: any number. It is read once,
    when the command is submitted, and may be a property.

    `repeat_interval_s`: None: the command runs once; else seconds from the end of a run to the next. It is
    read when the command is submitted and again after each run, so a command can end its repetition, or
    change its pace, by setting it. Not so inside a `ScheduledCommand`, as `CommandScheduler.schedule` makes them:
    there the interval of the `ScheduledCommand` counts, and this one is not looked at.
    """

    if TYPE_CHECKING:
        # Whatever is hashable, in whatever way it is given: a class attribute, a dataclass's field, a property.
        @property
        def key(self) -> Hashable | None: ...
    else:
        key = None
    repeat_interval_s: float | None = None

    @abstractmethod
    def execute(self, context: Any) -> None:
        """Do the work. What this raises goes to the scheduler's `on_error`, or is kept in the context."""


ErrorCallback = Callable[[BaseException, Command], object]
"""`on_error(exc, command)`: told of each error, on the thread that ran the command; what it returns is ignored."""


@dataclass
class ScheduledCommand(Command):
    """What `CommandScheduler.schedule` submits: a command with an interval and perhaps a key of its own.

    It is this that repeats: its `repeat_interval_s` counts, not the command's, and errors are told of it.
    """

    command: Command
    repeat_interval_s: float | None = None
    key_override: Hashable | None = None

    @property
    def key(self) -> Hashable | None:
        """`key_override`, or else the key of the wrapped command, which may lack one."""
        if self.key_override is not None:
            return self.key_override
        key: Hashable | None = attribute_or_none(self.command, "key")
        return key

    def execute(self, context: Any) -> Any:
        # What it returns is nothing, or an error that the scheduler reports: a coroutine, which nothing would await.
        return self.command.execute(context)
