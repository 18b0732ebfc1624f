"""What every contender is given: the same delays, callbacks, commands and keys."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

from pysched import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOMORROW", "Keyed", "Plain", "Plan", "commands_with_keys", "delays", "keys", "nothing", "times_ns"]

TOMORROW = 86400.0


def nothing() -> None:
    """The callback of all timers: a Python function, so that calling it costs every contender the same."""


@lru_cache(maxsize=2)
def delays(count: int) -> tuple[float, ...]:
    """Seconds within the next hour, in no order, the same in every run; none comes due while it is measured."""
    random = Random(1).random
    return tuple([60.0 + 3600.0 * random() for _ in range(count)])


@lru_cache(maxsize=2)
def times_ns(count: int) -> array[int]:
    """Whole nanoseconds within an hour, in no order."""
    random = Random(2).random
    return array("q", [int(3.6e12 * random()) for _ in range(count)])


def keys(count: int) -> list[str]:
    """New strings, whose hashes are not computed yet, as in a program that makes a key from a name."""
    return [f"session-{number}" for number in range(count)]


@dataclass(frozen=True)
class Plan:
    """Timers that come due one after the other, evenly, for a while: `rate` a second, beside `pending` for tomorrow."""

    rate: int
    seconds: float
    pending: int = 0

    @property
    def count(self) -> int:
        return int(self.rate * self.seconds)

    def tomorrow(self) -> Iterator[float]:
        """The delays of those that do not come due, in seconds."""
        return (TOMORROW + delay for delay in delays(self.pending))

    def deadlines(self) -> list[float]:
        """On `time.monotonic()`, in seconds, the first one after as long as anybody needs to register them all."""
        first = monotonic() + 0.2 + self.count * 25e-6
        return [first + number / self.rate for number in range(self.count)]


class Plain(Command):
    """A command without key: one object may be submitted any number of times."""

    def execute(self, context: object) -> None:
        pass


@dataclass
class Keyed(Command):
    """What users' commands look like: a dataclass with a key of its own."""

    key: str

    def execute(self, context: object) -> None:
        pass


def commands_with_keys(count: int) -> list[Keyed]:
    return [Keyed(key) for key in keys(count)]
