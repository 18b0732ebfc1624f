"""What was asked of a scheduler, and what has to have come of it: the model of a soak.

Nothing here takes a lock, because a forked child and a callback anywhere may come by: what several threads write is
written by one operation that the interpreter does not interrupt, an append mostly.
"""

from __future__ import annotations

import math
from collections import Counter
from time import monotonic_ns

__all__ = ["Entry", "Lateness", "Slots", "World"]

MOST_FAULTS = 50


class Entry:
    """What comes once: when, and what became of it.

    `due_ns`: it must not start before. `label`: what a fault calls it. `expected`: how many attempts it takes.
    """

    __slots__ = ("cancelled", "due_ns", "expected", "gone_ns", "label", "since_ns", "starts", "what")

    def __init__(self, due_ns: int, what: str, label: str = "one-shot", expected: int = 1) -> None:
        self.due_ns = due_ns
        self.what = what
        self.label = label
        self.expected = expected
        self.since_ns = due_ns
        """Lateness counts from then: when it is due, or was let go after a pause."""
        self.starts: list[int] = []
        self.cancelled: list[bool] = []
        """A True for each cancel that said it prevented the run."""
        self.gone_ns: int | None = None
        """When a call had returned that ended it without saying whether it came in time: its key was given away."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is to come."""
        return len(self.starts) >= self.expected or bool(self.cancelled) or self.gone_ns is not None

    @property
    def was_prevented(self) -> bool:
        """Whether it counts as cancelled."""
        return not self.starts and (bool(self.cancelled) or self.gone_ns is not None)

    def fault(self, now_ns: int) -> str | None:
        """What is wrong with it, once nothing that is due by `now_ns` waits any more."""
        early = self.due_ns - min(self.starts, default=self.due_ns)
        if early > 0:
            return f"{self.label} ({self.what}) started {early} ns early"
        if len(self.starts) > self.expected:
            return f"{self.label} ({self.what}) started {len(self.starts)} times, not {self.expected}"
        if len(self.cancelled) > 1:
            return f"{self.label} ({self.what}): {len(self.cancelled)} cancels said that they prevented its run"
        if self.cancelled and self.starts:
            return f"{self.label} ({self.what}) started, though a cancel said that it had prevented that"
        if self.gone_ns is not None:
            if self.gone_ns < self.due_ns and self.starts:
                return f"{self.label} ({self.what}) started, though it was removed before it was due"
        elif not self.cancelled and self.due_ns <= now_ns and len(self.starts) < self.expected:
            return f"{self.label} ({self.what}) started {len(self.starts)} times, not {self.expected}: a run was lost"
        return None


class Slots:
    """What comes again and again on a grid: ``anchor_ns + k * interval_ns``, k from 0, and no slot before it."""

    def __init__(self, anchor_ns: int, interval_ns: int) -> None:
        self.anchor_ns = anchor_ns
        self.interval_ns = interval_ns
        self.doubt = 0
        """So many slots later the grid may really begin."""
        self.starts: list[int] = []
        self.passed: tuple[int, int] | None = None
        """How many slots had passed when it was cancelled, at least and at most."""

    def before(self, due_ns: int) -> int:
        """How many slots lie before that one."""
        return round((due_ns - self.anchor_ns) / self.interval_ns)

    def until(self, now_ns: int) -> int:
        """How many slots there are up to then, that instant included."""
        return max(0, (now_ns - self.anchor_ns) // self.interval_ns + 1)

    def fault(self) -> str | None:
        """Whether a run came before its slot: the n-th run, counted from 0, is of the n-th slot or of a later one."""
        for number, start in enumerate(sorted(self.starts)):
            early = self.anchor_ns + number * self.interval_ns - start
            if early > 0:
                return f"run {number} of a grid of {self.interval_ns} ns started {early} ns early"
        return None


class Lateness:
    """A histogram of delays in nanoseconds, 16 buckets an octave, so a percentile is at most 5 % too high."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.most_ns = 0

    def add(self, late_ns: int) -> None:
        """Two threads at once may lose one count, which is no matter here."""
        self._counts[int(16 * math.log2(max(late_ns, 1)))] += 1
        self.most_ns = max(self.most_ns, late_ns)

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    def percentile(self, share: float) -> float:
        """Nanoseconds that this share of all is not above; 0 if there are none."""
        left = share * self.count
        for bucket, count in sorted(self._counts.items()):
            left -= count
            if left <= 0:
                return min(math.pow(2, (bucket + 1) / 16), float(self.most_ns))
        return 0.0


class World:
    """What all drivers share: faults, counts and lateness, each by the kind of scheduler."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.counts: dict[str, Counter[str]] = {}
        self.lateness: dict[str, Lateness] = {}
        self.time_outs: list[str] = []
        """The warnings of time-outs that were logged and not yet expected by anyone."""

    def fault(self, kind: str, text: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{kind}: {text}")

    def open(self, kind: str) -> None:
        self.counts[kind] = Counter()
        self.lateness[kind] = Lateness()

    def started(self, kind: str, entry: Entry, held_until_ns: int) -> None:
        """A run of `entry` begins here and now; nothing could start before `held_until_ns`."""
        now = monotonic_ns()
        entry.starts.append(now)
        if len(entry.starts) == 1:
            self.lateness[kind].add(max(0, now - max(entry.due_ns, entry.since_ns, held_until_ns)))
