"""What every contender is given: the same delays, callbacks, commands and keys."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from pysched import Command

__all__ = ["TOMORROW", "Keyed", "Plain", "commands_with_keys", "delays", "keys", "nothing", "times_ns"]

TOMORROW = 86400.0


def nothing() -> None:
    """The callback of all timers: a Python function, so that calling it costs every contender the same."""


@lru_cache(maxsize=2)
def delays(count: int) -> tuple[float, ...]:
    """Seconds within the next hour, in no order, the same in every run; none comes due while it is measured."""
    random = Random(1)
    return tuple(random.uniform(60.0, 3660.0) for _ in range(count))


@lru_cache(maxsize=2)
def times_ns(count: int) -> array[int]:
    """Whole nanoseconds within an hour, in no order."""
    random = Random(2)
    return array("q", (random.randrange(3_600_000_000_000) for _ in range(count)))


def keys(count: int) -> list[str]:
    """New strings, whose hashes are not computed yet, as in a program that makes a key from a name."""
    return [f"session-{number}" for number in range(count)]


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
