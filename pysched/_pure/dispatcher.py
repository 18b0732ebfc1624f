"""`Dispatcher`: what the twin's kinds of engine have in common, a core and the life of its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pysched import lifecycle
from pysched._pure.arguments import checked_name
from pysched._pure.loop import Loop

if TYPE_CHECKING:
    from pysched._pure.core import Core

__all__ = ["Dispatcher"]


class Dispatcher:
    __slots__ = ("__weakref__", "_core", "_loop")

    _core: Core

    def __init__(self, core: Core, executor: Any, daemon: bool = False, spin_ns: int = 0) -> None:
        """`executor` and `daemon`: as `Engine` takes them, and checked."""
        self._core = core
        self._loop = Loop(core, executor, daemon, spin_ns)
        lifecycle.register(self)

    @property
    def name(self) -> str:
        """The name in logs and of threads: a str that is not empty, else TypeError or ValueError.

        May be set at any time; threads have the name of the time of the start.
        """
        return self._core.name

    @name.setter
    def name(self, value: str) -> None:
        self._core.name = checked_name(value)

    @name.deleter
    def name(self) -> None:
        raise AttributeError("name cannot be deleted")

    def __reduce__(self) -> NoReturn:
        # Also what `copy` asks: a copy would be a second owner of one loop.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    @property
    def running(self) -> bool:
        """Whether the engine is started and not stopped.  O(1)."""
        session = self._core.session
        return session is not None and not session.stopping

    # -- what the clock and the interpreter call --------------------------------------------------------

    def _next_due_ns(self) -> int | None:
        with self._core.lock:
            return self._core.table.first_due_ns()

    def _run_next(self, now_ns: int) -> bool:
        return self._loop.run_next(now_ns)

    def _next_alarm_ns(self) -> int | None:
        """When the earliest time-out of a run is due; None if there is none.  See `JobEngine`."""
        return None

    def _run_alarm(self) -> None:
        """Runs it."""

    def _at_exit(self) -> None:
        self._loop.at_exit()

    def _before_fork(self) -> None:
        self._core.lock.acquire()

    def _after_fork_in_parent(self) -> None:
        self._core.lock.release()

    def _after_fork_in_child(self) -> None:
        self._loop.after_fork_in_child(self)
