"""A program written for the reference, with nothing changed but the name of the package it imports.

It runs as a user runs it: in a process of its own, on real threads, with each engine.
"""

from __future__ import annotations

import json

import pytest
from support import assert_quiet, run_python

PROGRAM = '''
import json
import logging
import sys
import threading
from dataclasses import dataclass, field

from pysched import BasicSchedulerContext, Command, CommandScheduler, ErrorCallback, SchedulerContext
from pysched import QueuedCommand, ScheduledCommand, SchedulerWorker, TimedCommandQueue
from pysched.cancellation import CancellationRegistry
from pysched.commands import BasicSchedulerContext as SameContext
from pysched.commands import Command as SameCommand
from pysched.commands import ErrorCallback as SameCallback
from pysched.commands import ScheduledCommand as SameScheduled
from pysched.commands import SchedulerContext as SameProtocol
from pysched.scheduler import CommandScheduler as SameScheduler
from pysched.scheduler_queue import QueuedCommand as SameQueued
from pysched.scheduler_queue import TimedCommandQueue as SameQueue
from pysched.worker import SchedulerWorker as SameWorker

assert SameContext is BasicSchedulerContext and SameCommand is Command and SameCallback is ErrorCallback
assert SameScheduled is ScheduledCommand and SameProtocol is SchedulerContext
assert SameScheduler is CommandScheduler
assert SameQueued is QueuedCommand and SameQueue is TimedCommandQueue and SameWorker is SchedulerWorker


@dataclass
class AppContext(BasicSchedulerContext):
    """A derived context: what the commands share, without locks."""

    readings: dict[str, int] = field(default_factory=dict)
    flushed: list[dict[str, int]] = field(default_factory=list)


@dataclass
class Poll(Command):
    """A dataclass command, whose key is a property."""

    device: str
    times: int

    @property
    def key(self):
        return f"poll-{self.device}"

    def execute(self, context: AppContext) -> None:
        count = context.readings.get(self.device, 0) + 1
        context.readings[self.device] = count
        if count == self.times:
            done[self.device].set()


@dataclass
class Beat(Command):
    """An instance attribute `repeat_interval_s` makes a plain submit repeat; it ends itself."""

    beats: int

    def __post_init__(self):
        self.repeat_interval_s = 0.001

    def execute(self, context):
        self.beats -= 1
        if self.beats == 0:
            self.repeat_interval_s = None
            done["beat"].set()


@dataclass
class Flush(Command):
    key: str | None = "flush"

    def execute(self, context):
        context.flushed.append(dict(context.readings))
        done["flush"].set()


class Fails(Command):
    def __init__(self, text):
        self.text = text

    def execute(self, context):
        raise RuntimeError(self.text)


class Exits(Command):
    def execute(self, context):
        sys.exit(5)


class Quacks:
    """Not a Command, but it has all that one needs."""

    key = None
    repeat_interval_s = None

    def execute(self, context):
        done["duck"].set()


class Logged(CommandScheduler):
    """A subclass that watches submit, which schedule goes through, too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.submitted = []

    def submit(self, command, delay_s=0.0):
        self.submitted.append(type(command).__name__)
        super().submit(command, delay_s=delay_s)


done = {name: threading.Event() for name in ("a", "b", "beat", "flush", "duck", "errors")}


def wait(name):
    assert done[name].wait(20), name


# Polls, with a scheduler that keeps its errors in the context.
context = AppContext()
scheduler = Logged(context, name="app")
scheduler.start()
scheduler.start()
assert scheduler.name == "app" and scheduler.context is context
assert [t.daemon for t in threading.enumerate() if t.name == "app_t"] == [True]
scheduler.schedule(Poll("a", 3), 0.001)
scheduler.schedule(Poll("b", 3), interval_s=0.001, delay_s=0.002, key="other")
beat = Beat(4)
scheduler.submit(beat)
scheduler.submit(Quacks())
for name in ("a", "b", "beat", "duck"):
    wait(name)
scheduler.remove("poll-a")
scheduler.remove("other")
scheduler.remove("never seen")
for delay in (1000.0, 500.0, 0.0):
    scheduler.submit(Flush(), delay_s=delay)
wait("flush")
failure = Fails("kept in the context")
scheduler.submit(failure)
scheduler.submit(Exits())
done["flush"].clear()
scheduler.submit(Flush(), 0.001)
wait("flush")
scheduler.stop()
assert isinstance(context.last_error, SystemExit), context.last_error
assert context.readings["a"] >= 3 and context.readings["b"] >= 3
assert beat.beats == 0
assert len(context.flushed) == 2
try:
    scheduler.submit(Flush(), -1)
    raise AssertionError
except ValueError as exc:
    assert "delay_s" in str(exc)

# Errors, with a handler.
seen = []


def on_error(exc: BaseException, command: Command) -> None:
    seen.append((str(exc), command))
    if len(seen) >= 3:
        done["errors"].set()


plain, repeated = Fails("plain"), Fails("repeated")
handled = CommandScheduler(on_error=on_error)
handled.submit(plain)
handled.schedule(repeated, 0.001, key="k")
handled.start()
wait("errors")
handled.stop(timeout=None)
(text, command), *others = seen
assert text == "plain" and command is plain
for text, command in others:
    assert text == "repeated"
    assert isinstance(command, ScheduledCommand)
    assert command.command is repeated and command.key == "k" and command.key_override == "k"
    assert command.repeat_interval_s == 0.001

# What was pending at stop() is still there.
flushed = CommandScheduler(AppContext())
flushed.submit(Flush())
flushed.start()
flushed.stop()
done["flush"].clear()
flushed.submit(Flush())
flushed.start()
wait("flush")
flushed.stop()

# The parts, put together by hand.
queue, registry, lock = TimedCommandQueue(), CancellationRegistry(), threading.Lock()
wake, stop = threading.Event(), threading.Event()
by_hand = AppContext()
worker = SchedulerWorker(
    queue, registry, lock, wake, stop, by_hand, lambda exc: setattr(by_hand, "last_error", exc), None
)
thread = threading.Thread(target=worker.run, daemon=True)
thread.start()


def push(command, run_at):
    with lock:
        token = registry.new_token(command)
        registry.activate(command, token)
        queue.push(run_at, token, command)
    wake.set()


done["flush"].clear()
push(failure, 0.0)
push(Flush(), 1e9)
push(Flush(), 0.0)
wait("flush")
stop.set()
wake.set()
thread.join(20)
assert not thread.is_alive()
assert str(by_hand.last_error) == "kept in the context"
assert len(by_hand.flushed) == 1

print(json.dumps({"submitted": scheduler.submitted}))
'''


@pytest.mark.parametrize("engine", ["native", "pure"])
def test_a_program_written_for_the_reference_runs_unchanged(engine):
    process = run_python(PROGRAM, engine=engine)
    assert_quiet(process)
    assert json.loads(process.stdout)["submitted"] == [
        "ScheduledCommand",
        "ScheduledCommand",
        "Beat",
        "Quacks",
        "Flush",
        "Flush",
        "Flush",
        "Fails",
        "Exits",
        "Flush",
        "Flush",
    ]
