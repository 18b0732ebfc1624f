"""Timers that are added and cancelled at once, as time-outs are that hardly ever fire, beside 10^5 that live on.

A pair is a `call_later` for half a minute and a `cancel` of its handle; its price includes throwing out of the heap
what was cancelled. `churn-key`: the same by key, `call_later(key=)` and `cancel_key`, with keys that come again. The
memory is the growth of the resident set over all pairs, after as many to warm up that what was cancelled has been
thrown out once; what an add alone takes is measured afterwards, on an engine of its own with as many live ones.

asyncio's loop throws its cancelled handles out when it turns, so here it turns once in a thousand pairs, at no charge.
heapq and C++ are not here: they keep what was cancelled until its time comes, of 10^7 pairs gigabytes.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from bench.measure import cpu_ns
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.result import Goal
from bench.row import Column, Row
from bench.workload import delays, keys, nothing

if TYPE_CHECKING:
    from bench.peers.event_loop import LoopPeer
    from bench.row import Numbers

__all__ = ["ROWS"]

LIVE = 100_000
WARM_UP = 2 * LIVE
ALONE = 100_000  # adds without a cancel
TURN = 1_000
TIMEOUT_S = 30.0

Turn = Callable[[], object]
Timers = Callable[[], AbstractContextManager[tuple[Any, Turn]]]
"""Makes what has a `call_later`, and what lets it turn."""


def of_engine(make: Callable[..., Any]) -> Timers:
    @contextmanager
    def timers() -> Iterator[tuple[Any, Turn]]:
        yield make(), nothing

    return timers


def of_loop(peer: LoopPeer) -> Timers:
    @contextmanager
    def timers() -> Iterator[tuple[Any, Turn]]:
        with peer.new_loop() as loop:
            yield loop, lambda: loop.run_until_complete(asyncio.sleep(0))

    return timers


def by_handle(timers: Timers) -> Callable[[int], Numbers]:
    def add(subject: Any, count: int) -> None:
        call_later = subject.call_later
        for _ in range(count):
            call_later(TIMEOUT_S, nothing)

    def pair(subject: Any, count: int) -> None:
        call_later = subject.call_later
        for _ in range(count):
            call_later(TIMEOUT_S, nothing).cancel()

    return lambda count: churn(timers, add, pair, count)


def by_key(timers: Timers) -> Callable[[int], Numbers]:
    fresh = keys(ALONE)
    again = keys(TURN)

    def add(subject: Any, count: int) -> None:
        call_later = subject.call_later
        for key in fresh[:count]:
            call_later(TIMEOUT_S, nothing, key=key)

    def pair(subject: Any, count: int) -> None:
        call_later, cancel_key = subject.call_later, subject.cancel_key
        for key in again[:count]:
            call_later(TIMEOUT_S, nothing, key=key)
            cancel_key(key)

    return lambda count: churn(timers, add, pair, count)


def churn(
    timers: Timers, add: Callable[[Any, int], None], pair: Callable[[Any, int], None], count: int
) -> dict[str, float]:
    """Nanoseconds of CPU time a pair, its ratio to an add alone, and the growth of the resident set in MB."""
    import psutil  # type: ignore[import-untyped]

    rounds = max(1, count // TURN)
    with filled(timers) as (subject, turn):
        for _ in range(WARM_UP // TURN):
            pair(subject, TURN)
            turn()
        gc.collect()
        process = psutil.Process()
        before = process.memory_info().rss
        pair_ns = 0
        for _ in range(rounds):
            pair_ns += _timed(pair, subject, TURN)
            turn()
        gc.collect()
        grown = process.memory_info().rss - before
    with filled(timers) as (subject, _):
        add_ns = _timed(add, subject, ALONE) / ALONE
    each = pair_ns / (rounds * TURN)
    return {"pair_ns": each, "pair_per_add": each / add_ns, "grown_mb": grown / 1e6}


@contextmanager
def filled(timers: Timers) -> Iterator[tuple[Any, Turn]]:
    with timers() as (subject, turn):
        for delay in delays(LIVE):
            subject.call_later(delay, nothing)
        gc.collect()
        yield subject, turn


def _timed(action: Callable[[Any, int], None], subject: Any, count: int) -> int:
    begin = cpu_ns()
    action(subject, count)
    return cpu_ns() - begin


def columns(what: str) -> tuple[Column, ...]:
    return (
        Column("pair_ns", f"{what}, a pair", "ns"),
        Column("pair_per_add", f"{what}, a pair over an add alone", "x", Goal("<= 2 x", 2.0)),
        Column("grown_mb", f"{what}, growth of memory over all pairs", "MB", Goal("<= 4 MB", 4.0), max),
    )


ROWS = [
    Row(
        "churn",
        columns("add and cancel"),
        {"pysched": by_handle(of_engine(NATIVE.engine))},
        count=10_000_000,
        others={
            "asyncio": by_handle(of_loop(ASYNCIO)),
            "uvloop": by_handle(of_loop(UVLOOP)),
            "twin": by_handle(of_engine(TWIN.engine)),
        },
        cannot={
            "heapq.heappush": "keeps what was cancelled until its time comes",
            "C++ priority_queue": "keeps what was cancelled until its time comes",
        },
        goal_from=1_000_000,
    ),
    Row(
        "churn-key",
        columns("add with a key and cancel by key"),
        {"pysched": by_key(of_engine(NATIVE.engine))},
        count=10_000_000,
        others={"twin": by_key(of_engine(TWIN.engine))},
        goal_from=1_000_000,
    ),
]
