"""An event loop in the time of a `DrivingClock`, which steps it: nothing in it ever waits for real.

Coroutines of jobs on a ManualClock run here. `advance` sees the loop as one more thing to run: it is due at once
as long as something in it is ready, else at the first of its timers. What runs in other threads elsewhere
(`asyncio.to_thread`, executors) is called here, on the thread that moves the clock, to its end.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from contextvars import copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from pysched.clock import NEVER, instant_ns

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from pysched.clock import DrivingClock

__all__ = ["VirtualLoop"]

STEPS_AN_INSTANT = 1_000_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs when its clock says so, or in `settle`; on whichever thread that is.

    It knows that it has something to do without a look at the queue of its base class: what gets into that queue goes
    through `call_soon`, but for input and output, which is looked at in each step.
    """

    def __init__(self, clock: DrivingClock) -> None:
        self._driver = clock
        self._timers: list[tuple[int, int, asyncio.TimerHandle, Callable[[], object]]] = []
        self._numbers = count()
        self._crowd = 64  # how many timers there may be before cancelled ones are looked for
        self._asked = 0  # calls of call_soon since the last step
        self._instant, self._steps = -1, 0  # how many steps were made at that time
        self._leaving = False
        super().__init__()
        self.set_exception_handler(_tell)
        clock.attach(clock.enlist(), self)

    @property
    def loop(self) -> VirtualLoop:
        return self

    # -- what makes its time the clock's --

    def time(self) -> float:
        return self._driver.time_ns() / 1e9

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        due = NEVER if when == math.inf else instant_ns(when, "when")
        if len(self._timers) >= self._crowd:
            self._timers = [each for each in self._timers if not each[2].cancelled()]
            heapify(self._timers)
            self._crowd = 2 * len(self._timers) + 64
        fire: Callable[[], object] = partial(self.call_soon, callback, *args, context=context)
        heappush(self._timers, (due, next(self._numbers), timer, fire))
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self._asked += 1
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)  # nobody sleeps who would have to be woken

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ARG002
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    # -- what the clock asks and does --

    def _next_due_ns(self) -> int | None:
        if self._asked:
            return -NEVER  # before everything else: what began at this instant goes on first
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        due = self._timers[0][0] if self._timers else NEVER
        return None if due == NEVER else due

    def _run_next(self, now_ns: int) -> bool:
        """Run what is ready, or else the first timer, and all that comes of it now; that counts as no callback."""
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "coroutines of jobs cannot run inside of a running event loop: use `await clock.advance_async(...)`"
            )
        if not self._asked and self._timers and self._timers[0][0] <= now_ns:
            _, _, timer, fire = heappop(self._timers)
            if not timer.cancelled():
                fire()
        self._run_ready()
        return False

    def _next_step_ns(self) -> int | None:
        """While a callback sleeps, coroutines go on as on a thread of their own; but not while one of them sleeps."""
        if self.is_running() or asyncio._get_running_loop() is not None:
            return None
        return self._next_due_ns()

    def _next_alarm_ns(self) -> int | None:
        """None: it has no time-outs of runs."""

    def _run_alarm(self) -> None:
        """There is none."""

    def _run_ready(self) -> None:
        while self._asked:
            now = self._driver.time_ns()
            self._steps = self._steps + 1 if now == self._instant else 0
            self._instant = now
            if self._steps > STEPS_AN_INSTANT:
                raise RuntimeError(f"coroutines made more than {STEPS_AN_INSTANT} steps at {self.time()} s")
            self._asked = 0
            super().call_soon(self.stop)  # behind all that is ready now
            try:
                self.run_forever()
            except BaseException:  # of a task of the user's that raised KeyboardInterrupt, say
                self._asked += 1  # what was ready behind it still is
                raise
        if self._leaving and not self.is_closed():
            self._wind_up()

    # -- the end --

    def stop_when_idle(self) -> None:
        self._leaving = True

    def settle(self, timeout: float | None) -> None:  # noqa: ARG002
        """Run what is ready; inside of a running loop, which an event loop cannot be run in, on another thread."""
        if self.is_running() or self.is_closed():
            return  # else its clock goes on with it
        if asyncio._get_running_loop() is None:
            self._settle()
        else:
            thread = threading.Thread(target=self._settle)
            thread.start()
            thread.join()

    def _settle(self) -> None:
        self._steps = 0
        self._run_ready()

    def _wind_up(self) -> None:
        """Close it, after what the coroutines of jobs have left behind was cancelled."""
        self._leaving = False
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.create_task(self.shutdown_asyncgens())
        self._run_ready()
        self._leaving = True
        self._driver.detach(self)
        self.close()

    def leave_in_parent(self) -> None:
        self._leaving = True
        self._driver.detach(self)
        _in_parent.append(self)

    def __del__(self) -> None:
        """Close it without a warning: its clock has gone, with all that ran on it."""
        if not self.is_closed() and not self.is_running():
            self._leaving = True
            self.set_debug(False)  # what is cancelled in debug mode is shown with its source line, for which it is late
            self.close()


_in_parent: list[VirtualLoop] = []
"""In a forked child. Not to be closed here: what it waits with is shared with the parent."""


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of a task that is dropped before its end nothing is told once the interpreter ends, or after a shutdown."""
    if not (isinstance(loop, VirtualLoop) and loop._leaving) and not sys.is_finalizing():
        loop.default_exception_handler(context)
