"""`CommandScheduler` under random acts. It tells no counts, so each command is followed by itself."""

from __future__ import annotations

from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, ClassVar

from bench.soaking.life import KEYS, WAIT_S, Life, delay_us
from pysched import BasicSchedulerContext, Command, CommandScheduler

if TYPE_CHECKING:
    from random import Random

    from bench.soaking.book import Entry, World

__all__ = ["CommandLife"]

MOST_REPEATING = 5


class Once(Command):
    """Runs an entry, and sees to it that no more run at once than may."""

    def __init__(self, life: CommandLife, entry: Entry, key: str | None = None) -> None:
        self.life = life
        self.entry = entry
        self._key = key

    @property
    def key(self) -> str | None:
        return self._key

    def execute(self, context: object) -> None:
        self.life.expect(context is self.life.context, "a command was given another context")
        with self.life.inside(self.key):
            self.life.fire(self.entry)


class Again(Command):
    """Runs again and again; the interval counts from the end of each run."""

    def __init__(self, life: CommandLife, key: str, interval: int, deed: str) -> None:
        self.life = life
        self._key = key
        self.interval_ns = interval * 1000
        self.deed = deed
        self.due_ns = 0
        self.gone_ns: int | None = None
        self.starts: list[int] = []

    @property
    def key(self) -> str:
        return self._key

    def execute(self, context: object) -> None:
        now = monotonic_ns()
        self.starts.append(now)
        if now < self.due_ns:
            self.life.fault(f"a repeating command started {self.due_ns - now} ns early")
        if self.gone_ns is not None and self.gone_ns < self.due_ns:
            self.life.fault("a repeating command started after its removal")
        with self.life.inside(self.key):
            try:
                self.life.do(self.deed)
            finally:
                self.due_ns = monotonic_ns() + self.interval_ns


class Inside:
    """Counts who is inside of a command, in all and of each key."""

    def __init__(self, life: CommandLife, key: str | None) -> None:
        self.life = life
        self.key = key

    def __enter__(self) -> None:
        self.life.all_inside.append(self.key)
        if len(self.life.all_inside) > self.life.workers:
            self.life.fault(f"{len(self.life.all_inside)} commands at once")
        if self.key is not None and self.life.all_inside.count(self.key) > 1:
            self.life.fault(f"two commands of the key {self.key} at once")

    def __exit__(self, *exc_info: object) -> None:
        self.life.all_inside.remove(self.key)


class CommandLife(Life):
    """With `workers` 1 commands run one at a time, with more those of one key do."""

    acts: ClassVar = {
        "add": 30,
        "add_keyed": 25,
        "remove": 10,
        "add_repeating": 2,
        "remove_repeating": 2,
        "check": 1,
        "stop_and_start": 1,
    }

    def __init__(self, kind: str, world: World, random: Random, workers: int) -> None:
        super().__init__(kind, world, random)
        self.workers = workers
        self.context = BasicSchedulerContext()
        self.made = CommandScheduler(self.context, self.on_error, kind, max_workers=workers)
        self.all_inside: list[str | None] = []
        self.repeating: list[Again] = []
        self.ended: list[Again] = []
        self.runs = False

    def begin(self) -> None:
        if self.random.random() < 0.5:
            self._start()

    def _start(self) -> None:
        self.held_until_ns = monotonic_ns()
        self.made.start()
        self.runs = True

    def inside(self, key: str | None) -> Inside:
        return Inside(self, key)

    # -- acts --

    def add(self) -> None:
        delay = delay_us(self.random)
        self.made.submit(Once(self, self.entry(delay, label="command")), delay / 1e6)

    def add_keyed(self) -> None:
        key = f"k{self.random.randrange(KEYS)}"
        delay = delay_us(self.random)
        entry = self.entry(delay, label="keyed command")
        if self.workers > 1:
            entry.since_ns = NOT_MEASURED  # it may have to wait for another of its key
        self.made.submit(Once(self, entry, key), delay / 1e6)
        before = self.held.get(key)
        if before is not None:
            before.gone_ns = monotonic_ns()
        self.held[key] = entry

    def remove(self) -> None:
        key = f"k{self.random.randrange(KEYS)}"
        self.made.remove(key)
        entry = self.held.pop(key, None)
        if entry is not None:
            entry.gone_ns = monotonic_ns()

    def add_from_inside(self) -> None:
        delay = delay_us(self.random)
        self.made.submit(Once(self, self.entry(delay, "nothing", "command of a command")), delay / 1e6)

    def add_repeating(self) -> None:
        if len(self.repeating) >= MOST_REPEATING:
            return
        interval, delay = self.random.choice((1_000, 5_000, 30_000)), delay_us(self.random)
        deed = self.random.choices(*self.deeds)[0]
        command = Again(self, f"r{self.counts['add_repeating']}", interval, deed)
        command.due_ns = monotonic_ns() + delay * 1000
        self.made.schedule(command, interval / 1e6, delay / 1e6)
        self.repeating.append(command)

    def remove_repeating(self) -> None:
        if self.repeating:
            command = self.repeating.pop()
            self.made.remove(command.key)
            command.gone_ns = monotonic_ns()
            self.ended.append(command)

    def check(self) -> None:
        self.made._check()

    def stop_and_start(self) -> None:
        if not self.runs:
            self._start()
            return
        if self.random.random() < 0.3:
            self.made.stop(0)
        self._stop()
        before = self.started_in_all()
        sleep(self.random.choice((0, 0.001, 0.03)))
        self.expect(self.started_in_all() == before, "something started while it was stopped")
        if self.random.random() < 0.7:
            self._start()

    def _stop(self) -> None:
        self.made.stop(WAIT_S)
        self.runs = False
        self.expect(not self.all_inside, "a stop without haste left a command running")

    # -- the end --

    def settle(self) -> None:
        self._start()
        self.wait_for_entries()
        for command in self.repeating:  # they go on, as long as they are there
            if command.due_ns < monotonic_ns() + WAIT_S * 1_000_000_000:
                count = len(command.starts)
                self.wait_for(lambda: len(command.starts) > count, "another run of a repeating command")  # noqa: B023
        self._stop()
        self.check_that_it_is_still()
        self.check_entries()
        self.check_failures()
        self.made._check()
        self.counts["repeated"] += sum(len(command.starts) for command in [*self.repeating, *self.ended])

    def started_in_all(self) -> int:
        return super().started_in_all() + sum(len(command.starts) for command in [*self.repeating, *self.ended])


NOT_MEASURED = 1 << 62
"""Lateness since then: of what is not late for all that it starts after it was due."""
