"""`ThreadPoolExecutor.submit`: a pool of one thread that is given each call by itself.

Unlike the engines' rows this includes handing the work in: there is no other way to use it. The main thread hands in
while the pool's thread already works, and the two share the interpreter.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from bench.workload import Plain, nothing

if TYPE_CHECKING:
    from bench.measure import Prepared

__all__ = ["run_commands", "run_pool"]


@contextmanager
def run_pool(count: int) -> Prepared:
    done = Event()
    with ThreadPoolExecutor(1) as pool:

        def timed() -> None:
            submit = pool.submit
            for _ in range(count):
                submit(nothing)
            submit(done.set)
            done.wait()

        yield timed


@contextmanager
def run_commands(count: int) -> Prepared:
    done = Event()
    command = Plain()
    with ThreadPoolExecutor(1) as pool:

        def timed() -> None:
            submit = pool.submit
            for _ in range(count):
                submit(command.execute, None)
            submit(done.set)
            done.wait()

        yield timed
