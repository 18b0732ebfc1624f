"""Commands that several test modules use, and what they look at."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from support import WAIT

from pysched.commands import Command

TYPES_OF_ERRORS = [ValueError, KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException]


@dataclass
class Note(Command):
    """Appends its text to a list."""

    text: object
    to: list = field(default_factory=list)
    key: str | None = None
    repeat_interval_s: float | None = None

    def execute(self, context):
        self.to.append(self.text)


class Bare:
    """Duck-typed: neither `key` nor `repeat_interval_s`."""

    def __init__(self, function):
        self.execute = function


class FailingKey(Command):
    """Its `key` works until it is told to fail."""

    def __init__(self, exc):
        self.exc = exc
        self.failing = False

    @property
    def key(self):
        if self.failing:
            raise self.exc
        return "k"

    def execute(self, context):
        pytest.fail("ran")


def raiser(exc):
    def execute(*args):
        raise exc

    return execute


def always(command, token):
    return True


def drain(queue, now=float("inf"), is_active=always):
    out = []
    while (entry := queue.pop_ready(now, is_active)) is not None:
        out.append(entry)
    return out


def size_of(registry):
    return len(registry._active) + len(registry._foreign)


@contextmanager
def schedulers(impl):
    """A maker of command schedulers, which are stopped and checked at the end."""
    made = []

    def make(*args, cls=None, **options):
        scheduler = (cls or impl.CommandScheduler)(*args, **options)
        made.append(scheduler)
        return scheduler

    yield make
    for scheduler in made:
        scheduler.stop(WAIT)
        scheduler._check()
