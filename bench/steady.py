"""A steady load: many periodic timers of one second, measured second by second in a process of its own.

They are registered before the start, `call_every(1.0)` or `every("1s")` and nothing else, at an even pace over a whole
number of seconds: so the first is due a second after it was registered, the next a little later, and the load of each
second is the same. The start comes late for most of them, which then run at once; what the first `SETTLING_S` seconds
bring is not counted.

Every timer calls a Python function that does nothing, except for one in a thousand, whose function notes how late it
is: its lateness is the time since its own registration, modulo the second. That is exact as long as no slot is missed,
which the engine counts (`coalesced`). CPU time is that of the whole process, so also that of this measurement, over
the wall time.
"""

from __future__ import annotations

import gc
from dataclasses import asdict, dataclass
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

from bench.workload import nothing
from pysched import Engine, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CASES", "Case", "Report", "Second", "measure"]

INTERVAL_S = 1.0
SETTLING_S = 3.0
PACE = 100  # timers are registered at once, before a look at the clock
PROBES = 1000  # one timer in so many notes its lateness


@dataclass(frozen=True)
class Case:
    """Who runs the timers, and where; all with one thread for callbacks."""

    api: str
    """"engine" or "scheduler"."""
    workers: str
    """"inline" (the engine's own thread), "pool" or "daemon"."""

    @property
    def name(self) -> str:
        return f"{self.api}-{self.workers}"


CASES = [
    Case("engine", "inline"),
    Case("engine", "pool"),
    Case("engine", "daemon"),
    Case("scheduler", "pool"),
]


@dataclass(frozen=True)
class Second:
    """What was measured of one second."""

    at_s: float
    runs_per_s: int
    missed: int
    cpu: float
    p50_us: float
    p99_us: float
    rss_mb: float


@dataclass(frozen=True)
class Report:
    """What was measured of one case; `total` is of all seconds together, and its `at_s` is how many."""

    case: str
    timers: int
    register_s: float
    total: Second
    seconds: list[Second]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Load:
    """One of the two APIs, in the terms of this module."""

    subject: Any
    register: Callable[[Callable[[], object]], object]
    start: Callable[[], object]
    stop: Callable[[], object]


def load_of(case: Case) -> Load:
    daemon = case.workers == "daemon"
    if case.api == "scheduler":
        scheduler = Scheduler(1)
        return Load(
            scheduler,
            lambda callback: scheduler.every(f"{INTERVAL_S:.0f}s", callback),
            scheduler.start_background,
            scheduler.shutdown,
        )
    make: Any = Engine
    engine = make() if case.workers == "inline" else make(1, daemon=daemon)
    return Load(engine, lambda callback: engine.call_every(INTERVAL_S, callback), engine.start, engine.stop)


def register(load: Load, timers: int, late: list[float]) -> float:
    """Registers all timers, at a pace that the API can keep; returns seconds."""

    def probe(registered: float) -> Callable[[], None]:
        return lambda: late.append((monotonic() - registered) % INTERVAL_S)

    span = INTERVAL_S * (1 if isinstance(load.subject, Engine) else 4) * max(1, timers // 1_000_000)
    begin = monotonic()
    for number in range(timers):
        if number % PACE == 0:
            while monotonic() < begin + span * number / timers:
                pass
        load.register(probe(monotonic()) if number % PROBES == 0 else nothing)
    return monotonic() - begin


def measure(case: Case, timers: int, seconds: int, settling_s: float = SETTLING_S) -> Report:
    """Runs the load; `seconds` >= 1 are measured."""
    late: list[float] = []
    load = load_of(case)
    register_s = register(load, timers, late)
    gc.collect()
    load.start()
    try:
        sleep(settling_s)
        first = before = instant(load)
        first_late = len(late)
        measured: list[Second] = []
        for number in range(1, seconds + 1):
            seen = len(late)
            sleep(max(0.0, first[0] + number - monotonic()))
            now = instant(load)
            measured.append(between(first, before, now, late[seen:]))
            before = now
        total = between(first, first, before, late[first_late:])
    finally:
        load.stop()
    return Report(case.name, timers, round(register_s, 3), total, measured)


Instant = tuple[float, float, int, int]


def instant(load: Load) -> Instant:
    stats = load.subject.stats()
    return monotonic(), process_time(), stats.started, stats.coalesced


def between(first: Instant, a: Instant, b: Instant, late: list[float]) -> Second:
    late = sorted(late) or [float("nan")]
    wall = b[0] - a[0]
    return Second(  # more digits a measurement does not know
        at_s=round(b[0] - first[0], 3),
        runs_per_s=round((b[2] - a[2]) / wall),
        missed=b[3] - a[3],
        cpu=round((b[1] - a[1]) / wall, 3),
        p50_us=round(late[len(late) // 2] * 1e6, 1),
        p99_us=round(late[len(late) * 99 // 100] * 1e6, 1),
        rss_mb=round(psutil.Process().memory_info().rss / 1e6, 1),
    )
