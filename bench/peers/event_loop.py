"""asyncio: `loop.call_later` and its handles. Keys are a dict of handles, as applications keep one.

The loop is the default one of the platform. Its timers run on the thread of the loop, so it stands beside the inline
engine; where it stands beside a pool it does less.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from bench.workload import TOMORROW, delays, keys, nothing

if TYPE_CHECKING:
    from array import array

__all__ = [
    "add_keyed",
    "cancel",
    "cancel_keyed",
    "idle",
    "lateness",
    "pending",
    "register",
    "register_kept",
    "replace_keyed",
    "run_inline",
]

Prepared = Iterator[Callable[[], object]]


@contextmanager
def _new_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


@contextmanager
def register(count: int) -> Prepared:
    waits = delays(count)
    with _new_loop() as loop:
        call_later = loop.call_later

        def timed() -> None:
            for delay in waits:
                call_later(delay, nothing)

        yield timed


@contextmanager
def register_kept(count: int) -> Prepared:
    waits = delays(count)
    kept: list[object] = []
    with _new_loop() as loop:
        call_later = loop.call_later

        def timed() -> None:
            keep = kept.append
            for delay in waits:
                keep(call_later(delay, nothing))

        yield timed


@contextmanager
def cancel(count: int) -> Prepared:
    """Marks the handles; the loop throws them out of its heap later, which is not in this time."""
    with _new_loop() as loop:
        handles = [loop.call_later(delay, nothing) for delay in delays(count)]

        def timed() -> None:
            for handle in handles:
                handle.cancel()

        yield timed


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


@contextmanager
def add_keyed(count: int) -> Prepared:
    pairs = list(zip(delays(count), keys(count), strict=True))
    with _new_loop() as loop:
        add = _Table(loop).add

        def timed() -> None:
            for delay, key in pairs:
                add(delay, nothing, key)

        yield timed


@contextmanager
def replace_keyed(count: int) -> Prepared:
    pairs = list(zip(delays(count), keys(count), strict=True))
    with _new_loop() as loop:
        add = _Table(loop).add
        for delay, key in pairs:
            add(delay, nothing, key)

        def timed() -> None:
            for delay, key in pairs:
                add(delay, nothing, key)

        yield timed


@contextmanager
def cancel_keyed(count: int) -> Prepared:
    names = keys(count)
    with _new_loop() as loop:
        table = _Table(loop)
        for delay, key in zip(delays(count), names, strict=True):
            table.add(delay, nothing, key)

        def timed() -> None:
            for key in names:
                table.remove(key)

        yield timed


@contextmanager
def run_inline(count: int) -> Prepared:
    with _new_loop() as loop:
        for _ in range(count):
            loop.call_later(0.0, nothing)
        loop.call_later(0.0, loop.stop)
        yield loop.run_forever


def pending(waits: array[float]) -> object:
    loop = asyncio.new_event_loop()
    for delay in waits:
        loop.call_later(delay, nothing)
    return loop


class _CountingSelector(selectors.DefaultSelector):
    """Counts the returns from a wait."""

    wakeups = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        self.wakeups += 1
        return events


def idle(count: int) -> tuple[Callable[[], int], Callable[[], object]]:
    """A running loop with `count` timers for tomorrow: its wake-ups so far, and its stop."""
    selector = _CountingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    for delay in delays(count):
        loop.call_later(TOMORROW + delay, nothing)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def stop() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    return lambda: selector.wakeups, stop


def lateness(deadlines: Sequence[float]) -> list[float]:
    """Seconds from each deadline (of `time.monotonic()`, which is the loop's clock) to its callback."""
    late: list[float] = []

    def record(deadline: float) -> None:
        late.append(monotonic() - deadline)

    with _new_loop() as loop:
        schedule: Any = loop.call_at
        for deadline in deadlines:
            schedule(deadline, record, deadline)
        schedule(deadlines[-1] + 0.001, loop.stop)
        loop.run_forever()
    return late
