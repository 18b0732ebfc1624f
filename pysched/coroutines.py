"""Where the coroutines of jobs run: on the user's event loop, a private one, or one in the time of a ManualClock.

Ground rules. A worker calls the callback and hands over the awaitable that it gets; from then on everything about that
awaitable happens on the thread of its loop, in the order in which it was asked for: start, cancellation, end. What is
asked for waits in the lane of the loop, and one `call_soon_threadsafe` wakes the loop for all that waits. Each wake
sees to a bounded number and then lets the loop go on with its own work.

There is no lock: a start enters `calls` before it looks at `closing`, a stop sets `closing` before it looks at `calls`.
"""

from __future__ import annotations

import sys
import threading
import time
from _thread import RLock
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from pysched.apart import apart
from pysched.awaitables import discard
from pysched.clock import DrivingClock
from pysched.errors import JobCancelled
from pysched.refusals import says_closed
from pysched.reports import log_error

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Awaitable, Callable

    from pysched.clock import Clock
    from pysched.waiting import Waiters

__all__ = ["SHUT_DOWN", "TIMED_OUT", "CoroutineCall", "Coroutines", "in_thread"]

BATCH = 64
"""Starts and cancellations at one wake of a loop."""

LOOK_S = 0.05
"""How often who waits for coroutines looks whether their loop still runs."""

# Why a call is cancelled, each at most once, so that its clean-up is not interrupted by another word of the same.
NOT_AT_ALL, TIMED_OUT, SHUT_DOWN = 0, 1, 2


class OwnLoop(Protocol):
    """A loop that is made here and ended at the shutdown."""

    @property
    def loop(self) -> AbstractEventLoop: ...

    def stop_when_idle(self) -> None:
        """No call is left, and none will come."""

    def settle(self, timeout: float | None) -> None:
        """Wait for the end of its thread, or run what is to run at this instant, if there is no thread."""

    def leave_in_parent(self) -> None:
        """This is a forked child, and the loop is the parent's."""


class CoroutineCall:
    """The awaitable of an attempt, on its way to its end.

    `done(error)` is called at its end, on the thread of its loop; `name` becomes that of its task. The task runs in a
    copy of the context in which this is made.
    """

    __slots__ = ("_awaitable", "_cancelled", "_context", "_error", "_task", "done", "lane", "name", "value")

    def __init__(self, awaitable: Awaitable[object], name: str, done: Callable[[BaseException | None], object]) -> None:
        self._awaitable: Awaitable[object] | None = awaitable
        self._context = copy_context()
        self._cancelled = NOT_AT_ALL
        self._error: BaseException | None = None
        self._task: Task[None] | None = None
        self.value: object = None  # what it gave
        self.lane: Lane | None = None
        self.name = name
        self.done = done

    async def _attend(self) -> None:
        """What the task runs. Nothing leaves it: a KeyboardInterrupt would end the loop."""
        awaitable, self._awaitable = self._awaitable, None
        try:
            if awaitable is not None:
                self.value = await awaitable
        except BaseException as error:
            self._error = error

    def begin(self, loop: AbstractEventLoop, ended: Callable[[CoroutineCall], None]) -> None:
        """Make its task; `ended` is told of the end."""
        body = self._attend()
        try:
            self._task = self._context.run(loop.create_task, body, name=self.name)
        except BaseException:
            body.close()
            raise
        self._task.add_done_callback(lambda _: ended(self), context=self._context)

    def cancel_here(self, reason: int) -> None:
        """On the thread of its loop."""
        if self._task is not None and reason > self._cancelled:
            self._cancelled = reason
            self._task.cancel()

    def result(self) -> BaseException | None:
        """How it has ended; to be asked once."""
        task, self._task = self._task, None
        error, self._error = self._error, None
        if self._awaitable is not None:  # it was cancelled before its first step
            self.drop()
            if task is not None and task.cancelled():
                from asyncio import CancelledError

                error = CancelledError()
        return error

    def let_go(self) -> None:
        """It is over: the run and its result do not wait for the garbage collector."""
        self.done = _nothing
        self.value = None

    def drop(self) -> None:
        """It will not begin."""
        awaitable, self._awaitable = self._awaitable, None
        if awaitable is not None:
            try:
                discard(awaitable)
            except BaseException as failure:
                log_error("an awaitable that is not awaited could not be closed", failure)


class Lane:
    """What is asked of one loop, in order; `own` is set if the loop was made here."""

    __slots__ = ("_calls", "_ended", "_orders", "_woken", "loop", "own")

    def __init__(
        self,
        loop: AbstractEventLoop,
        own: OwnLoop | None,
        calls: dict[CoroutineCall, None],
        ended: Callable[[CoroutineCall, BaseException | None], None],
    ) -> None:
        self.loop = loop
        self.own = own
        self._calls = calls
        self._ended = ended
        self._orders: deque[tuple[CoroutineCall, int]] = deque()
        self._woken = False

    def ask(self, call: CoroutineCall, reason: int) -> None:
        """Begin the call, or with a reason cancel it. RuntimeError if the loop is closed; O(1)."""
        self._orders.append((call, reason))
        if not self._woken:
            self._wake()

    def _wake(self) -> None:
        self._woken = True
        try:
            self.loop.call_soon_threadsafe(self._serve)
        except BaseException:
            self._woken = False
            raise

    def _serve(self) -> None:
        self._woken = False  # before the look: what is asked for from now on wakes the loop again
        try:
            for _ in range(min(BATCH, len(self._orders))):
                self._see_to(*self._orders.popleft())
        finally:
            if self._orders:
                self._woken = True
                self.loop.call_soon(self._serve)  # behind what waits already

    def _see_to(self, call: CoroutineCall, reason: int) -> None:
        if call not in self._calls:
            return
        if reason:
            call.cancel_here(reason)
            return
        try:
            call.begin(self.loop, self._task_done)
        except BaseException as error:  # of a task factory of the user's, say
            self._ended(call, error)

    def _task_done(self, call: CoroutineCall) -> None:
        self._ended(call, call.result())


class Coroutines:
    """The coroutines in progress of one scheduler.

    `name()` is that of the scheduler; `given` a loop of the user's, or None; `waiters` are told of each end.
    """

    def __init__(
        self, clock: Clock | None, name: Callable[[], str], given: AbstractEventLoop | None, waiters: Waiters
    ) -> None:
        self._clock = clock if isinstance(clock, DrivingClock) else None
        self._name = name
        self._given = given
        self.captured: AbstractEventLoop | None = None
        self._lane: Lane | None = None  # of the loop that was used last
        self._own: Lane | None = None
        self._making = RLock()
        self._waiters = waiters
        self.calls: dict[CoroutineCall, None] = {}
        self.closing = False

    def capture(self, loop: AbstractEventLoop | None) -> None:
        """Use this loop of the user's from now on, unless there is a given one; None: no more."""
        self.captured = loop

    # -- one call --

    def start(self, call: CoroutineCall) -> None:
        """Hand a call over to the loop. What is raised says why it does not run; `done` is not called then."""
        self.calls[call] = None
        try:
            if self.closing:
                raise JobCancelled("the scheduler was shut down before the coroutine began")
            call.lane = self._lane_now()
            call.lane.ask(call, NOT_AT_ALL)
        except BaseException:
            self.calls.pop(call, None)
            call.drop()
            self._end_if_over()
            raise

    def cancel(self, call: CoroutineCall, reason: int) -> None:
        """Cancel it as soon as its loop has a moment; of a loop that is closed, it has failed."""
        lane = call.lane
        if lane is None or call not in self.calls:
            return
        try:
            self._check_open(lane)
            lane.ask(call, reason)
        except RuntimeError as error:
            if not says_closed(error, lane.loop):
                raise

    def _ended(self, call: CoroutineCall, error: BaseException | None) -> None:
        done = call.done
        try:
            call.drop()
            done(error)
        finally:
            call.let_go()
            self.calls.pop(call, None)
            self._waiters.notify()
            self._end_if_over()

    def _bury(self, lane: Lane) -> None:
        """A loop was closed with coroutines on it: they will never end."""
        for call in list(self.calls):
            if call.lane is lane and self.calls.pop(call, self) is None:
                self._ended(call, RuntimeError("the event loop was closed before the coroutine had ended"))

    # -- loops --

    def _lane_now(self) -> Lane:
        """That of the loop for a call that begins now. Raises RuntimeError if that loop cannot be used."""
        loop = self._given or self.captured
        if self._clock is not None or loop is None:
            return self._own_lane()
        lane = self._lane
        if lane is None or lane.loop is not loop:
            lane = self._lane = Lane(loop, None, self.calls, self._ended)
        self._check_open(lane)
        if self._given is None and not loop.is_running():
            raise RuntimeError("the event loop that the scheduler was started on is not running")
        return lane

    def _check_open(self, lane: Lane) -> None:
        """Raises RuntimeError if the loop is closed; what it ran has failed then."""
        if lane.loop.is_closed():
            self._bury(lane)
            raise RuntimeError("the event loop for the coroutines is closed")

    def _own_lane(self) -> Lane:
        lane = self._own
        if lane is None:
            with self._making:
                lane = self._own
                if lane is None:
                    own = self._make_loop()
                    lane = self._own = Lane(own.loop, own, self.calls, self._ended)
        return lane

    def _make_loop(self) -> OwnLoop:
        if self._clock is not None:
            from pysched.virtual_loop import VirtualLoop

            return VirtualLoop(self._clock)
        from pysched.private_loop import PrivateLoop

        return PrivateLoop(f"{self._name()}-asyncio")

    def is_on_loop(self) -> bool:
        """Whether this thread is the one that runs the coroutines: who waits for them here waits for ever."""
        asyncio = sys.modules.get("asyncio.events")
        loop = None if asyncio is None else asyncio._get_running_loop()
        if loop is None:
            return False
        loops = [lane.loop for lane in (self._own, self._lane) if lane is not None]
        if self._clock is None:
            loops += [each for each in (self._given, self.captured) if each is not None]
        return any(loop is each for each in loops)

    # -- the end --

    def close(self) -> None:
        """No call begins any more; a loop that was made here ends with the last of them."""
        self.closing = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        own = self._own
        if self.closing and own is not None and own.own is not None and not self.calls:
            own.own.stop_when_idle()

    def wait(self, timeout: float | None) -> bool:
        """Wait for the calls in progress, at most `timeout` seconds: whether none is left that can go on.

        Those on a loop that does not run are not waited for.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        own = self._own.own if self._own is not None else None
        if own is not None and self._clock is not None:
            own.settle(0.0)
            return not self.calls
        while True:
            for lane in {call.lane for call in list(self.calls)}:
                if lane is not None and lane.loop.is_closed():
                    self._bury(lane)
            left = None if deadline is None else deadline - time.monotonic()
            if not any(call.lane is None or call.lane.loop.is_running() for call in list(self.calls)):
                break
            if left is not None and left <= 0.0:
                return False
            self._waiters.wait_for(self._is_idle, LOOK_S if left is None else min(LOOK_S, left))
        if not self.calls and self.closing:
            self.captured = self._lane = None
            if own is not None and not self.is_on_loop():
                own.settle(left if left is None else max(0.0, left))
        return True

    def _is_idle(self) -> bool:
        return not self.calls

    def before_fork(self) -> None:
        """Let no fork come while a loop is made: a child that got half of an import could import asyncio no more."""
        self._making.acquire()

    def after_fork_in_parent(self) -> None:
        self._making.release()

    def after_fork_in_child(self) -> None:
        """The loops and what they run are the parent's."""
        calls = list(self.calls)
        self.calls.clear()
        self._making = RLock()
        own, self._own, self._lane = self._own, None, None
        if own is not None and own.own is not None:
            own.own.leave_in_parent()
        _left_in_parent.append(calls)
        self.captured = None
        if self._given is not None and self._given.is_running():  # not in this process, where nobody runs it
            self._given = None

    def __del__(self) -> None:
        """A scheduler that was not shut down leaves no thread behind."""
        own = self._own
        if own is not None and own.own is not None:
            own.own.stop_when_idle()


_left_in_parent: list[object] = []
"""In a forked child: what the parent's loops run. Kept, as to let go of a task that has not ended is told on stderr."""


def _nothing(error: BaseException | None) -> None:
    """In the place of what was told already."""


async def in_thread(function: Callable[[], object]) -> None:
    """Call it on a thread of its own, and wait for its end: all threads of the loop's executor may be taken.

    What it raises is logged if nobody waits any more.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def tell(failure: BaseException | None) -> None:
        if ended.done():
            report(failure)
        elif failure is None:
            ended.set_result(None)
        else:
            ended.set_exception(failure)

    def report(failure: BaseException | None) -> None:
        if failure is not None:
            log_error("a shutdown that nobody waits for any more has failed", failure)

    def call() -> None:
        failure = None
        try:
            function()
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(tell, failure)
        except RuntimeError as error:
            report(failure)
            if not says_closed(error, loop):
                raise

    apart(threading.Thread(target=call, name="pysched-shutdown", daemon=True).start)
    await ended
