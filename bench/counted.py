"""What `bench.instructions` counts: `python -m bench.counted`, under callgrind, on the native engine.

Each operation is done once to warm up, then `ROUNDS` times in each of two sizes. `mark` stands before and after each
of these, and callgrind writes down what was executed since the mark before (`--dump-before`): so every second of its
dumps is what a size took, and the difference of the two sizes is free of everything that is done once. Rounds are there
because what happens now and then (an arena of memory, a thread that wakes) only adds: the least of them counts.

The operations are those of the bench, so that both speak of the same; here are only those that it has not: re-arming
a periodic timer, and jobs that are due, without the polling of `bench.peers`.
"""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from threading import Event
from time import monotonic_ns
from typing import TYPE_CHECKING

from bench.peers.engines import NATIVE, until_last
from bench.peers.schedulers import OURS
from bench.workload import nothing

if TYPE_CHECKING:
    from bench.measure import Operation, Prepared

__all__ = ["MARK", "OPERATIONS", "ROUNDS", "SIZES"]

SIZES = (1_000, 4_000)
ROUNDS = 3

MARK = "getppid"
"""A function of the C library that nothing else here calls."""

mark = os.getppid
HOUR_NS = 3_600_000_000_000


@contextmanager
def rearm(count: int) -> Prepared:
    """Periodic timers that are due once, run inline and armed again for the next hour."""
    engine = NATIVE.engine()
    for _ in range(count):
        engine.call_every(3600.0, nothing, delay=0.0)
    with until_last(engine) as timed:
        yield timed


@contextmanager
def due_job(count: int) -> Prepared:
    """Jobs like those of `every("1h")`, whose first slot is now: each run once by one worker and armed again."""
    scheduler = OURS.make(1)
    done = Event()
    for callback in (*[nothing] * count, done.set):
        scheduler._engine.add(callback, (), HOUR_NS, None, monotonic_ns(), False)

    def timed() -> None:
        scheduler.start_background()
        done.wait()

    yield timed
    scheduler.shutdown()


OPERATIONS: dict[str, Operation] = {
    "register": NATIVE.register,
    "register with a key": NATIVE.add_keyed,
    "cancel": NATIVE.cancel,
    "cancel by key": NATIVE.cancel_keyed,
    "dispatch inline": NATIVE.run_inline,
    "dispatch through a pool": NATIVE.run_pool,
    "re-arm": rearm,
    "Scheduler.every": OURS.every,
    "due job": due_job,
    "CommandScheduler.submit": NATIVE.submit,
}


def main() -> None:
    gc.disable()  # when it runs depends on what was allocated before
    for operation in OPERATIONS.values():
        with operation(SIZES[0]) as timed:
            timed()
        for size in SIZES * ROUNDS:
            with operation(size) as timed:
                mark()
                timed()
                mark()


if __name__ == "__main__":
    main()
