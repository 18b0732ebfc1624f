"""The monitor itself: targets checked on their grids by an Engine, outages of services, and the books.

Who writes what: a check runs on a worker of the engine and writes to its own target, whose checks never overlap
(the engine's promise for periodic timers). What changed goes through a queue to the main thread, which alone
writes to the services. So nothing here needs a lock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched import Engine, TimerHandle
    from uptime.probe import Outcome, Url


@dataclass(eq=False)
class Target:
    """One URL and its checks so far."""

    url: Url
    timer: TimerHandle
    first_due: float
    checks: int = 0
    failures: int = 0
    up: bool = True
    seconds: float | None = None


class Change(NamedTuple):
    """A target was found down, or up again."""

    at: float
    target: Target
    up: bool
    reason: str


@dataclass
class Outage:
    """From the first check that failed until every target of the service answered again."""

    began: float
    reason: str
    ended: float | None = None

    def overlaps(self, since: float, until: float) -> bool:
        return self.began <= until and (self.ended is None or self.ended >= since)


@dataclass
class Service:
    """The targets of one server, and its outages."""

    name: str
    targets: list[Target] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    down: set[Target] = field(default_factory=set)

    def note(self, change: Change) -> None:
        if change.up:
            self.down.discard(change.target)
        else:
            self.down.add(change.target)
        if self.down and (not self.outages or self.outages[-1].ended is not None):
            self.outages.append(Outage(change.at, change.reason))
        elif not self.down and self.outages and self.outages[-1].ended is None:
            self.outages[-1].ended = change.at

    @property
    def checks(self) -> int:
        return sum(target.checks for target in self.targets)

    @property
    def failures(self) -> int:
        return sum(target.failures for target in self.targets)

    @property
    def seconds(self) -> float | None:
        """The median of how long each target's latest check took; None before the first."""
        taken = [target.seconds for target in self.targets if target.seconds is not None]
        return median(taken) if taken else None


@dataclass(frozen=True)
class Books:
    """Every check that fell due, told by the timers themselves, against what became of it."""

    planned: int  # slots of all targets before the end
    due: int  # slots that the timers have passed; more than planned if the last ones were late
    missing: int  # planned, yet a timer never came to them
    started: int
    skipped: int  # came due while the check before was still waiting or running
    unstarted: int  # at most so many were waiting when time was up
    done: int  # ended with an outcome
    errors: int  # ended with an exception: a fault of the monitor's

    @property
    def lost(self) -> int:
        """Checks that nothing accounts for; more done than due, or than started, is as wrong as less."""
        untold = self.due - self.started - self.skipped
        return self.missing + max(untold - self.unstarted, -untold, 0) + abs(self.started - self.done - self.errors)


class Monitor:
    """Checks every URL once an interval, the first checks spread evenly over one, for `seconds`."""

    def __init__(
        self,
        engine: Engine,
        urls: list[Url],
        probe: Callable[[Url], Outcome],
        *,
        interval: float,
        seconds: float,
    ) -> None:
        self.engine = engine
        self.services: dict[str, Service] = {}
        self._probe = probe
        self._interval = interval
        self._changes: SimpleQueue[Change] = SimpleQueue()
        self.began = engine.time()
        self.end = self.began + seconds
        self._targets = [self._add(url, interval * index / len(urls)) for index, url in enumerate(urls)]

    def _add(self, url: Url, offset: float) -> Target:
        def check() -> None:
            self._check(target)

        delay = max(0.0, self.began + offset - self.engine.time())
        timer = self.engine.call_every(self._interval, check, delay=delay)
        target = Target(url, timer, timer.when())
        self.services.setdefault(url.service, Service(url.service)).targets.append(target)
        return target

    def _check(self, target: Target) -> None:
        try:
            outcome = self._probe(target.url)
            target.seconds = outcome.seconds
            target.failures += not outcome.up
            if outcome.up != target.up:
                target.up = outcome.up
                self._changes.put(Change(self.engine.time(), target, outcome.up, outcome.reason))
            target.checks += 1
        finally:
            # The timer stands at its next slot. One that lies beyond the end makes this check the last.
            if target.timer.when() >= self.end:
                target.timer.cancel()

    def update(self) -> None:
        """Take in what the checks have found; on the main thread."""
        while True:
            try:
                change = self._changes.get_nowait()
            except Empty:
                return
            self.services[change.target.url.service].note(change)

    def finished(self) -> bool:
        """Whether every target has had its last check."""
        return len(self.engine) == 0

    def close(self) -> Books:
        """End what has not ended by itself, wait for the checks that run, and close the books."""
        unstarted = sum(target.timer.cancel() for target in self._targets)
        self.engine.stop()
        self.update()
        planned = due = missing = 0
        for target in self._targets:
            slots = round((target.timer.when() - target.first_due) / self._interval)
            wanted = max(0, math.ceil((self.end - target.first_due) / self._interval))
            planned += wanted
            due += slots
            missing += max(0, wanted - slots)
        stats = self.engine.stats()
        done = sum(target.checks for target in self._targets)
        return Books(planned, due, missing, stats.started, stats.coalesced, unstarted, done, stats.errors)
