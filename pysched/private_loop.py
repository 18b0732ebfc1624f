"""An event loop on a thread of its own, for the coroutines of a scheduler that was given none."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from typing import Any

from pysched.apart import apart
from pysched.refusals import says_closed
from pysched.reports import log_error, printable
from pysched.waiting import join

__all__ = ["PrivateLoop"]

LEAVE_S = 1.0
"""How long tasks that coroutines of jobs have left behind may take to end, once they are cancelled."""


class PrivateLoop:
    """Runs from its making until `stop`. Its thread is a daemon: a coroutine that hangs holds no exit up."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._over = False
        self._left = False
        self.loop.set_exception_handler(self._report)
        self._thread = threading.Thread(target=self._serve, name=printable(name), daemon=True)
        try:
            apart(self._begin)
        except BaseException:
            self._over = True  # it may have begun: a signal handler of this thread has raised
            self.stop_when_idle()
            raise

    def _begin(self) -> None:
        try:
            self._thread.start()
        except BaseException:
            self.loop.close()
            raise

    def _serve(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            while not self._over:  # a coroutine may stop the loop that it runs on
                self._run()
            if not self._left:
                self._wind_up()
        finally:
            asyncio.set_event_loop(None)
            if not self._left:
                loop.close()

    def _wind_up(self) -> None:
        ending = self.loop.create_task(wind_up())
        ending.add_done_callback(lambda _: self.loop.stop())
        while not (ending.done() or self._left):  # another shutdown, or what has been left behind, may stop the loop
            self._run()
        if ending.done():
            ending.result()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        except BaseException as error:  # of a task of the user's that raised KeyboardInterrupt, say
            if self._left:
                return  # its steps were taken from under it
            log_error("a task on the loop of a scheduler raised an exception", error)

    def stop_when_idle(self) -> None:
        self._over = True
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError as error:
            if not says_closed(error, self.loop):
                raise

    def settle(self, timeout: float | None) -> None:
        if self._thread is not threading.current_thread():
            join(self._thread, None if timeout is None else time.monotonic() + timeout)

    def leave_in_parent(self) -> None:
        """In a forked child. If one of its coroutines has forked, the loop ends after this step, the thread too."""
        self._over = self._left = True
        _in_parent.append(self.loop)
        if self._thread is threading.current_thread():
            self.loop.stop()
            ready = getattr(self.loop, "_ready", None)  # other coroutines' steps, which are the parent's too
            if isinstance(ready, deque):
                _in_parent.append(list(ready))
                ready.clear()

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Of a task that is dropped before its end nothing is told once the interpreter ends, or after a shutdown."""
        if not self._over and not sys.is_finalizing():
            loop.default_exception_handler(context)


_in_parent: list[object] = []
"""In a forked child: loops, not to be closed, as what they wait with is shared with the parent; and what they would do
next, not to be let go of, as that of a task that has not ended is told on stderr."""


async def wind_up() -> None:
    """Cancel what the coroutines of jobs have left behind, as `asyncio.run` does, and wait for it a moment."""
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=LEAVE_S)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
