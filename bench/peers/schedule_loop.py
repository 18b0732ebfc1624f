"""`schedule`: jobs of an interval, run by the loop that its documentation tells users to write, on that thread.

That loop sleeps a second between two looks, so a lateness would be that of the loop, and is not measured.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib import import_module
from time import sleep
from typing import TYPE_CHECKING, Any

from bench.measure import Prepared, Unavailable
from bench.workload import nothing

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

__all__ = ["every", "idle", "pending", "run_due"]


def _scheduler() -> Any:
    try:
        return import_module("schedule").Scheduler()
    except ImportError:
        raise Unavailable("schedule is not installed") from None


@contextmanager
def every(count: int) -> Prepared:
    scheduler = _scheduler()

    def timed() -> None:
        for _ in range(count):
            scheduler.every(1).hours.do(nothing)

    yield timed


@contextmanager
def run_due(count: int) -> Prepared:
    """One `run_pending` with all jobs due."""
    scheduler = _scheduler()
    for _ in range(count):
        scheduler.every(1).seconds.do(nothing)
    sleep(1.05)
    yield scheduler.run_pending


def pending(waits: array[float]) -> object:
    scheduler = _scheduler()
    for _ in waits:
        scheduler.every(1).hours.do(nothing)
    return scheduler


def idle(count: int) -> tuple[None, Callable[[], object]]:
    scheduler = _scheduler()
    for _ in range(count):
        scheduler.every(1).hours.do(nothing)
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(1.0):
            scheduler.run_pending()

    thread = threading.Thread(target=loop)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return None, end
