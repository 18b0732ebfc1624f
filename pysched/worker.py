"""A loop that runs queued commands, for programs that bring their own thread, queue or cancellation.

`CommandScheduler` does not use it. Ground rules: under the lock that it is given the worker calls the queue
and the registry (and through the registry the commands' `key`), nothing else; commands, `repeat_interval_s`,
error handlers and destructors of dropped commands run without it.
"""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pysched.apart import apart, is_refusal
from pysched.attributes import attribute_or_none
from pysched.awaitables import refusal_of
from pysched.clock import interval_ns
from pysched.commands import ErrorCallback
from pysched.reports import call_handler, log_error
from pysched.scheduler_queue import TimedCommandQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pysched.commands import Command

__all__ = ["ErrorCallback", "SchedulerWorker"]

_POLL_S = 0.1
"""How often an empty queue wants to be asked again: its `next_delay(now, default_s=0.1)`."""


class _Event(Protocol):
    """What is used of a threading.Event."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class _Entry(Protocol):
    @property
    def token(self) -> Any: ...
    @property
    def command(self) -> Any: ...


class _Queue(Protocol):
    """What is used of a TimedCommandQueue."""

    def push(self, run_at: float, token: Any, command: Any) -> object: ...
    def pop_ready(self, now: float, is_active: Callable[[Command, object | None], bool]) -> _Entry | None: ...
    def next_delay(self, now: float) -> float: ...


class _Cancellation(Protocol):
    """What is used of a CancellationRegistry."""

    def is_active(self, command: Any, token: Any) -> bool: ...


class SchedulerWorker:
    """Runs the commands of a queue, one at a time, on the thread that calls `run()`.

    `queue`, `cancellation`: a `TimedCommandQueue` and a `CancellationRegistry`, or anything that has their
    methods. Times are seconds of `time.monotonic()`. `lock` guards both: hold it to use them from outside.

    `wake_event`: set it after a push. `stop_event`: set it to end the loop.

    `context` is handed to each command. An error of a command (anything it raises, SystemExit included) goes
    to `on_error(exc, command)`; without, to `set_last_error(exc)`; without either, to the context or else to
    the logger `pysched`. A handler that fails is logged, and the loop goes on. An error of the queue leaves
    `run()`.

    Nothing is polled: while our own queue is empty the next push wakes the worker, `wake_event` or not. Only
    a queue with a `next_delay` of its own is asked as often as that says.
    """

    def __init__(
        self,
        queue: _Queue,
        cancellation: _Cancellation,
        lock: AbstractContextManager[Any],
        wake_event: _Event,
        stop_event: _Event,
        context: Any,
        set_last_error: Callable[[BaseException], object] | None,
        on_error: ErrorCallback | None = None,
    ) -> None:
        self._queue = queue
        self._cancellation = cancellation
        self._lock = lock
        self._wake_event = wake_event
        self._stop_event = stop_event
        self._context = context
        self._set_last_error = set_last_error
        self._on_error = on_error

    def run(self) -> None:
        """Run commands as they come due until `stop_event` is set."""
        stop_wakes = False
        while True:
            self._wake_event.clear()  # before the look at what it tells of
            if self._stop_event.is_set():
                return
            pause = self._run_next()
            if pause > _POLL_S and not stop_wakes:
                # From here on a wait is longer than a poll, and whoever stops us may set `stop_event` alone.
                stop_wakes = self._wake_on_stop()
                pause = pause if stop_wakes else _POLL_S
            if pause > 0:
                self._wake_event.wait(pause if pause < threading.TIMEOUT_MAX else None)

    def _run_next(self) -> float:
        """Run the command that is due, if any; returns how long to wait then, in seconds."""
        dropped: list[object] = []
        failed: list[tuple[BaseException, Command]] = []

        def is_active(command: Command, token: object | None) -> bool:
            if self._is_active(command, token, failed):
                return True
            dropped.append(command)  # so that it is released after the lock
            return False

        with self._lock:
            now = time.monotonic()
            entry = self._queue.pop_ready(now, is_active)
            pause = 0.0 if entry is not None else self._pause(now)
        self._report_all(failed)
        if entry is not None:
            self._execute(entry.command, entry.token)
        return pause

    def _pause(self, now: float) -> float:
        """Seconds to wait with nothing due: infinite if the push that ends the wait will set `wake_event`."""
        queue: Any = self._queue
        # Our own `next_delay` says 0.1 when nothing waits at all. A user's means it: "ask again after that".
        is_ours = getattr(queue.next_delay, "__func__", None) is TimedCommandQueue.next_delay
        if is_ours and queue.wake_on_push(self._wake_event):
            return math.inf
        return float(queue.next_delay(now))

    def _execute(self, command: Command, token: object | None) -> None:
        """Run a command, and push it again if it repeats and is still wanted."""
        try:
            refused = refusal_of(command.execute(self._context))
            if refused is not None:
                raise refused
        except BaseException as exc:
            self._report(exc, command)
        try:
            interval_s = attribute_or_none(command, "repeat_interval_s")
            if interval_s is not None:
                interval_s = interval_ns(interval_s, "repeat_interval_s") / 1e9
        except BaseException as exc:
            self._report(exc, command)
            return
        if interval_s is None:
            return
        failed: list[tuple[BaseException, Command]] = []
        with self._lock:
            if self._is_active(command, token, failed):
                self._queue.push(time.monotonic() + interval_s, token, command)
        self._report_all(failed)

    def _is_active(self, command: Command, token: object | None, failed: list[tuple[BaseException, Command]]) -> bool:
        """The registry's answer; a `key` that fails is an error of its command, and ends it."""
        try:
            return self._cancellation.is_active(command, token)
        except BaseException as exc:
            failed.append((exc, command))
            return False

    def _report_all(self, failed: list[tuple[BaseException, Command]]) -> None:
        while failed:
            self._report(*failed.pop(0))

    def _report(self, exc: BaseException, command: Command) -> None:
        """Hand an error to whom it concerns. Never raises."""
        if self._on_error is not None:
            call_handler(self._on_error, exc, command)
            return
        try:
            if self._set_last_error is not None:
                self._set_last_error(exc)
            elif self._context is not None:
                self._context.last_error = exc
            else:
                log_error("a command raised an exception", exc)
        except BaseException as failure:
            log_error("a command raised an exception", exc)
            log_error("it could not be stored", failure)

    def _wake_on_stop(self) -> bool:
        """Have `stop_event` set `wake_event`; False if there can be no thread for it."""
        thread = threading.Thread(
            target=_relay, args=(self._stop_event, self._wake_event), name="pysched-stop", daemon=True
        )
        try:
            return apart(partial(_started, thread))
        except RuntimeError as error:
            if not is_refusal(error):  # but what a signal handler has raised
                raise
            return False


def _started(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _relay(source: _Event, target: _Event) -> None:
    source.wait()
    target.set()
