"""The life of a `Scheduler`: started, run, waited for, shut down, forked, ended."""

from __future__ import annotations

import math
import time
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from pysched.clock import NS, DrivingClock
from pysched.current import managed_run
from pysched.idle import wait_idle
from pysched.options import check_flag
from pysched.registry import Registry
from pysched.reports import log_warning
from pysched.schedule import parse_duration

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pysched.job import JobInfo
    from pysched.options import Duration
    from pysched.signals import SignalWatch

__all__ = ["Life"]

LOOK_S = 0.5  # how late a signal is noticed at most
EXIT_WAIT_S = 1.0
"""How long coroutines may take to end when the interpreter ends; then they end with their thread."""


class Life(Registry):
    """The part of a `Scheduler` that starts and ends it."""

    @property
    def running(self) -> bool:
        """Whether it is started and not shut down."""
        running: bool = self._engine.running
        return running

    def start_background(self) -> None:
        """Start on a thread of its own and return. RuntimeError if it runs; after `shutdown` a warning, no more."""
        if self._refuses_start():
            return
        self._engine.start()

    def run(self, handle_signals: bool = False, shutdown_timeout: Duration | None = 30) -> None:
        """Run until `shutdown()`; Ctrl-C ends it at once, as a KeyboardInterrupt, after tokens were fired.

        With `handle_signals`, on the main thread only (elsewhere a RuntimeError), SIGTERM and SIGINT are a
        `shutdown(timeout=shutdown_timeout)`, after which it returns; what is still running then is logged as a warning.
        A second signal ends it at once: a KeyboardInterrupt for SIGINT, and `SystemExit(143)` for SIGTERM, so that
        what the program does at its end is done, and its status is the one that supervisors know. What the two
        signals did before, they do again afterwards, from the second one on.
        """
        check_flag(handle_signals, "handle_signals")
        limit = math.inf
        if shutdown_timeout is not None:
            limit = parse_duration(shutdown_timeout, "shutdown_timeout", zero=True) / NS
        if handle_signals and current_thread() is not main_thread():
            raise RuntimeError("handle_signals=True goes with the main thread only, which is where Python handles them")
        if self._refuses_start():
            return
        if not handle_signals:
            self._run()
            return
        from pysched.signals import SignalWatch

        watch = SignalWatch(lambda: self._engine.stop(0.0))
        try:
            self._run_watched(watch, limit)
        finally:
            watch.restore()
            if watch.number is not None:
                self.shutdown(wait=False)

    def _run_watched(self, watch: SignalWatch, limit: float) -> None:
        watch.install()
        look = self._engine.call_alarm(0, watch.look)
        try:
            if watch.number is None:
                self._run()
        finally:
            look.cancel()
        if watch.number is not None:
            self._drain(watch, limit)
            left = self.shutdown(wait=False)
            if left:
                ids = ", ".join(f"{info.id} ({info.name})" for info in left)
                log_warning(f"{self.name}: shut down by a signal, but these jobs are still running: {ids}")

    def _drain(self, watch: SignalWatch, limit: float) -> None:
        """Shut down, and wait a short time at a time: a signal that comes right before a wait does not end it."""
        self.shutdown(wait=False)
        deadline = time.monotonic() + limit

        def is_over(wait: float) -> bool:
            return self._engine.stop(wait) and self._runner.coroutines.wait(wait) and self._events.end(wait)

        while not is_over(max(0.0, min(LOOK_S, deadline - time.monotonic()))):
            if watch.error is not None:
                raise watch.error
            if time.monotonic() >= deadline:
                return

    def _run(self) -> None:
        try:
            self._engine.run()
        except BaseException:
            if not self._engine.running:  # else another thread was faster to start it
                self._runner.cancel_all()
            raise

    def _refuses_start(self) -> bool:
        """Whether it was shut down, with a warning then. RuntimeError if it runs."""
        if self._closed:
            log_warning(f"{self.name} was shut down, which is one-way: it does not start again")
            return True
        if self._engine.running:
            raise RuntimeError(f"{self.name} is running already")
        return False

    def shutdown(self, wait: bool = True, timeout: Duration | None = None) -> list[JobInfo]:
        """Stop for good: fires every token, drops retries and queued runs, waits for what runs.

        Waits at most `timeout` (a duration; None: without limit), not at all if not `wait`, nor from inside a callback.
        Returns the jobs that are still running, removed ones too. Safe at any time, any number of times. TypeError for
        a `wait` that is no bool: ``shutdown(timeout=5)`` waits at most five seconds.
        """
        check_flag(wait, "wait")
        limit = None if timeout is None else parse_duration(timeout, "timeout", zero=True) / NS
        coroutines = self._runner.coroutines
        if not wait or coroutines.is_on_loop() or self._events.is_here or self._runner.is_own(managed_run.get()):
            limit = 0.0
        inside = self._engine.current() is not None  # `stop` does not wait there, and neither is anything else to
        began = time.monotonic()
        self._closed = True
        self._engine.close()
        self._runner.close()
        self._engine.stop(limit)
        self._runner.cancel_all()

        def left() -> float | None:
            if inside:
                return 0.0
            return None if limit is None else max(0.0, limit - (time.monotonic() - began))

        coroutines.wait(left())
        self._events.end(left())
        running = {
            each.reference: self._view.as_info(each, careful=True) for each in self._engine.snapshots() if each.running
        }
        for run, info in list(self._runner.abandoned.items()):
            reference = run.ticket.reference
            if reference not in running and info is not None:
                running[reference] = self._owner._try_info(reference, careful=True) or info
        for reference, departed in self._book.still_calling():
            running.setdefault(reference, departed)
        return list(running.values())

    def wait_idle(self, timeout: Duration | None = None) -> bool:
        """Wait until nothing is due, queued or running, nor waits for a retry; slots to come do not count.

        At most `timeout` (a duration; None: without limit): whether that came about. On a `ManualClock` it waits for
        nothing. What is due before a start is waited for; after `shutdown` only what runs. RuntimeError in a callback,
        and on the event loop that runs coroutines.
        """
        limit = None if timeout is None else parse_duration(timeout, "timeout", zero=True) / NS
        if self._runner.coroutines.is_on_loop():
            raise RuntimeError("wait_idle on the loop that runs the coroutines would wait for itself")
        return wait_idle(self._engine, self._runner, limit)

    def __enter__(self) -> Self:
        self.start_background()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    async def __aenter__(self) -> Self:
        """Start in the background; coroutines of jobs run on this event loop, unless there is a `loop`."""
        from asyncio import get_running_loop

        coroutines = self._runner.coroutines
        before = coroutines.captured
        coroutines.capture(get_running_loop())
        try:
            self.start_background()
        except BaseException:
            coroutines.capture(before)
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Shut down in a thread: the loop goes on meanwhile, and with it the coroutines that come to their end."""
        from pysched.coroutines import in_thread

        self.shutdown(wait=False)  # tokens fire now: what waits for them may fill all threads of the loop's executor
        await in_thread(self.shutdown)

    def _at_exit(self) -> None:
        self._closed = True
        self._engine.close()
        self._runner.close()
        if not isinstance(self._runner.clock, DrivingClock):
            self._runner.coroutines.wait(EXIT_WAIT_S)

    def _before_fork(self) -> None:
        self._runner.coroutines.before_fork()

    def _after_fork_in_parent(self) -> None:
        self._runner.coroutines.after_fork_in_parent()

    def _after_fork_in_child(self) -> None:
        self._book.after_fork_in_child()
        self._runner.forget_threads()
        self._events.after_fork_in_child()
        self._engine.settle()
