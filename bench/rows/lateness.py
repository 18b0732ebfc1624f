"""Lateness: from the deadline to the first line of the callback, in Python on all sides but C++'s.

Deadlines are evenly apart, all known beforehand, on one clock (`time.monotonic()`; APScheduler's is the wall clock).
The size is the rate, timers a second. Beside the engine in its kinds stand event loops, whose callbacks run inline; a
Python thread that sleeps to each deadline with `time.sleep` and hands nothing over; and the floor, a thread in C++ that
waits on a condition variable and calls nothing. rust-py-scheduler's jobs come once a second, so it has `rate` of them.

`lateness` runs them alone; `lateness-hogs` beside two threads of pure Python that never wait, so that whoever needs the
GIL waits for its switch interval, 5 ms, once or twice; `lateness-pending` beside 10^6 timers for tomorrow and a thread
that runs `gc.collect()` with a tenth of a second between two.

Could mislead: everything here is the kernel's scheduling. What else runs on the machine moves p99 and p99.9 more than
any code of ours; only ratios of runs seconds apart mean something. The kernel lets a sleeping thread oversleep by up to
its timer slack (50 us on Linux), which the engine's loop sets to the least: the greater part of the difference at p50.
uvloop counts in milliseconds: nearly half of its callbacks run up to one early, which counts as a lateness of 0 and is
shown. Where a contender cannot keep up with a rate, its lateness is that of a queue that grows all the time.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING

from bench.measure import Unavailable
from bench.peers import apscheduler3, cpp, sleeper, stdlib_sched
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.peers.schedulers import OURS, RUST
from bench.result import Goal
from bench.row import MILLION, Column, Row
from bench.workload import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from bench.row import Numbers

    Run = Callable[[Plan], list[float]]
    Load = Callable[[], AbstractContextManager[None]]

__all__ = ["ROWS"]

INLINE, SPIN, POOL, DAEMON = "pysched inline", "pysched inline, spin", "pysched pool(1)", "pysched daemon(4)"
THREAD = "time.sleep thread"
CONTENDERS: dict[str, Run] = {
    INLINE: NATIVE.lateness(),
    SPIN: NATIVE.lateness(spin=0.0005),
    POOL: NATIVE.lateness(1),
    DAEMON: NATIVE.lateness(4, daemon=True),
    THREAD: sleeper.lateness,
}
LOOPS: dict[str, Run] = {
    "asyncio": ASYNCIO.lateness,
    "uvloop": UVLOOP.lateness,
    "sched": stdlib_sched.lateness,
    "C++ sleeper": cpp.lateness,
    "twin, inline": TWIN.lateness(),
}
JOBS: dict[str, Run] = {
    "pysched Scheduler(1)": OURS.lateness,
    "rust-py-scheduler": RUST.lateness,
    "APScheduler 3": apscheduler3.lateness,
}
CANNOT = {"schedule": "looks once a second, or how often its user's loop does"}


@contextmanager
def alone() -> Iterator[None]:
    yield


@contextmanager
def hogs() -> Iterator[None]:
    """Two threads that are always in pure Python."""
    stop = threading.Event()

    def hog() -> None:
        number = 0
        while not stop.is_set():
            for _ in range(1000):
                number = number * 5 % 7919 + 1

    with _threads(stop, hog, hog):
        yield


@contextmanager
def collecting() -> Iterator[None]:
    stop = threading.Event()

    def collect() -> None:
        while not stop.is_set():
            gc.collect()
            sleep(0.1)

    with _threads(stop, collect):
        yield


@contextmanager
def _threads(stop: threading.Event, *targets: Callable[[], None]) -> Iterator[None]:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def lateness(run: Run, load: Load, pending: int) -> Callable[[int], Numbers]:
    """Percentiles in microseconds, and the share of callbacks that ran early, in percent."""

    def numbers(rate: int) -> Numbers:
        plan = Plan(rate, min(2.0, 50_000 / rate), pending)
        gc.collect()
        with load():
            late = sorted(run(plan))
        if len(late) < plan.count:
            raise Unavailable(f"cannot keep up: {plan.count - len(late):,} of {plan.count:,} did not run")
        return {
            **{f"p{percent}": max(0.0, late[int(len(late) * percent / 100)] * 1e6) for percent in (50, 99, 99.9)},
            "early": sum(each < 0.0 for each in late) * 100 / len(late),
        }

    return numbers


def _row(name: str, under: str, load: Load, sizes: tuple[int, ...], others: dict[str, Run], pending: int = 0) -> Row:
    def measured(runs: dict[str, Run]) -> dict[str, Callable[[int], Numbers]]:
        return {who: lateness(run, load, pending) for who, run in runs.items()}

    def versus(key: str, subject: str, other: str, goal: Goal | None) -> Column:
        return Column(key, f"lateness {key}{under}, {subject} beside {other}", "us", goal, among=(subject, other))

    return Row(
        name,
        (
            *(Column(key, f"lateness {key}{under}", "us") for key in ("p50", "p99", "p99.9")),
            Column("early", f"callbacks that ran early{under}", "%", Goal("0", 0.0), middle=max),
            versus("p50", POOL, THREAD, Goal("<= 0.8 of the thread", 0.8, THREAD)),
            versus("p99", POOL, THREAD, Goal("<= 1.5 of the thread", 1.5, THREAD)),
            versus("p50", DAEMON, INLINE, Goal("<= 1.35 of inline", 1.35, INLINE)),
            versus("p99", SPIN, INLINE, Goal("<= 0.3 of inline", 0.3, INLINE)),
        ),
        measured(CONTENDERS),
        count=1000,
        sizes=sizes,
        others=measured(others),
        cannot=CANNOT,
        goal_to=1000 if name == "lateness" else 0,
        grows=False,
        size_text="{:,}/s".format,
    )


ROWS = [
    _row("lateness", "", alone, (1000, 10_000, 100_000), {**LOOPS, **JOBS}),
    _row("lateness-hogs", " beside two busy threads", hogs, (1000,), {**LOOPS, **JOBS}),
    _row("lateness-pending", " with 10^6 pending and gc running", collecting, (1000,), LOOPS, MILLION),
]
