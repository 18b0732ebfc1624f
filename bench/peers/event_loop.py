"""asyncio and uvloop, which have the same API: one adapter for both. Keys are a dict of handles, as programs keep one.

Timers run on the thread of the loop, so it stands beside the inline engine; where it stands beside a pool it does
less. asyncio's loop is the default one of the platform. uvloop counts in whole milliseconds, and may be early by one.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from bench.measure import Prepared, Unavailable
from bench.peers.loops import adding, adding_keyed, cancelling, keeping, pairs, removing
from bench.workload import TOMORROW, delays, nothing

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from bench.workload import Plan

__all__ = ["ASYNCIO", "UVLOOP", "LoopPeer"]

DUE_SOON = 0.001  # s; uvloop makes no timer of a delay of 0, but calls back at its next turn


class _Table:
    """The handle of each key."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.handles: dict[str, asyncio.TimerHandle] = {}

    def add(self, delay: float, callback: Callable[[], object], key: str) -> None:
        old = self.handles.pop(key, None)
        if old is not None:
            old.cancel()
        self.handles[key] = self.loop.call_later(delay, callback)

    def remove(self, key: str) -> None:
        self.handles.pop(key).cancel()


class _CountingSelector(selectors.DefaultSelector):
    """Counts the returns from a wait."""

    wakeups = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        self.wakeups += 1
        return events


@dataclass(frozen=True)
class LoopPeer:
    module: str

    def make(self) -> Any:
        try:
            return import_module(self.module).new_event_loop()
        except ImportError:
            raise Unavailable(f"{self.module} is not installed") from None

    @contextmanager
    def new_loop(self) -> Iterator[Any]:
        loop = self.make()
        try:
            yield loop
        finally:
            loop.close()

    @contextmanager
    def register(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            yield adding(loop.call_later, count)

    @contextmanager
    def register_kept(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            yield keeping(loop.call_later, count)

    @contextmanager
    def cancel(self, count: int) -> Prepared:
        """Marks the handles; the loop throws them out of its heap later, which is not in this time."""
        with self.new_loop() as loop:
            yield cancelling([loop.call_later(delay, nothing) for delay in delays(count)])

    @contextmanager
    def add_keyed(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            yield adding_keyed(_Table(loop).add, pairs(count))

    @contextmanager
    def replace_keyed(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            timed = adding_keyed(_Table(loop).add, pairs(count))
            timed()
            yield timed

    @contextmanager
    def cancel_keyed(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            table = _Table(loop)
            waits = pairs(count)
            adding_keyed(table.add, waits)()
            yield removing(table.remove, [key for _, key in waits])

    @contextmanager
    def run_inline(self, count: int) -> Prepared:
        with self.new_loop() as loop:
            for _ in range(count):
                loop.call_later(DUE_SOON, nothing)
            loop.call_later(DUE_SOON, loop.stop)
            sleep(2 * DUE_SOON)
            yield loop.run_forever

    def pending(self, waits: array[float]) -> object:
        loop = self.make()
        for delay in waits:
            loop.call_later(delay, nothing)
        return loop

    def idle(self, count: int) -> tuple[Callable[[], int] | None, Callable[[], object]]:
        """A running loop with `count` timers for tomorrow: its wake-ups so far, if it can tell, and its stop."""
        selector = _CountingSelector()
        counts = self.module == "asyncio"
        loop = asyncio.SelectorEventLoop(selector) if counts else self.make()
        for delay in delays(count):
            loop.call_later(TOMORROW + delay, nothing)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        def stop() -> None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

        return (lambda: selector.wakeups) if counts else None, stop

    def lateness(self, plan: Plan) -> list[float]:
        """Seconds from each deadline (of `time.monotonic()`) to its callback."""
        late: list[float] = []

        with self.new_loop() as loop:
            for delay in plan.tomorrow():
                loop.call_later(delay, nothing)
            deadlines = plan.deadlines()

            def record(deadline: float) -> None:
                late.append(monotonic() - deadline)
                if len(late) == len(deadlines):
                    loop.stop()

            for deadline in deadlines:  # not `call_at`: before it runs, uvloop's idea of the time is stale
                loop.call_later(deadline - monotonic(), record, deadline)
            loop.run_forever()
        return late


ASYNCIO = LoopPeer("asyncio")
UVLOOP = LoopPeer("uvloop")
