"""The classes of the reference that users construct themselves: context, command, registry, queue.

They stand alone: no engine takes part. The worker has a module of its own.
"""

from __future__ import annotations

import dataclasses
import weakref
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_commands import Bare, FailingKey, Note, always, drain, size_of

from pysched.cancellation import CancellationRegistry
from pysched.commands import BasicSchedulerContext, Command, ScheduledCommand
from pysched.scheduler_queue import QueuedCommand, TimedCommandQueue

# ---------------------------------------------------------------- context


def test_a_context_starts_without_an_error():
    assert BasicSchedulerContext().last_error is None
    assert [f.name for f in dataclasses.fields(BasicSchedulerContext)] == ["last_error"]


def test_users_derive_their_own_context_dataclasses():
    @dataclass
    class Mine(BasicSchedulerContext):
        seen: list = field(default_factory=list)
        limit: int = 3

    mine = Mine(limit=5)
    assert (mine.last_error, mine.seen, mine.limit) == (None, [], 5)
    assert mine == Mine(None, [], 5)


# ---------------------------------------------------------------- command


def test_a_command_is_abstract():
    with pytest.raises(TypeError, match="execute"):
        Command()


def test_the_class_attributes_of_a_command():
    assert (Command.key, Command.repeat_interval_s) == (None, None)


def test_a_dataclass_derived_from_command_has_only_its_own_fields():
    @dataclass
    class Mine(Command):
        host: str
        port: int = 80

        def execute(self, context):
            return None

    assert [f.name for f in dataclasses.fields(Mine)] == ["host", "port"]
    assert (Mine("a").key, Mine("a").repeat_interval_s) == (None, None)
    mine = Mine("a")
    mine.repeat_interval_s = 5.0
    assert (mine.repeat_interval_s, Mine.repeat_interval_s) == (5.0, None)


def test_a_scheduled_command_is_a_dataclass_and_a_command():
    names = [(f.name, f.default) for f in dataclasses.fields(ScheduledCommand)]
    assert names == [("command", dataclasses.MISSING), ("repeat_interval_s", None), ("key_override", None)]
    note = Note("x")
    assert isinstance(ScheduledCommand(note), Command)
    assert ScheduledCommand(note, 2.0, "k") == ScheduledCommand(command=note, repeat_interval_s=2.0, key_override="k")


@pytest.mark.parametrize(
    ("own", "override", "expected"),
    [
        (None, None, None),
        ("own", None, "own"),
        (None, "over", "over"),
        ("own", "over", "over"),
        ("own", "", ""),
    ],
)
def test_the_key_of_a_scheduled_command_is_the_override_or_else_the_commands(own, override, expected):
    assert ScheduledCommand(Note("x", key=own), 1.0, override).key == expected


def test_the_key_of_a_scheduled_command_follows_a_property_and_takes_a_missing_one_for_none():
    failing = FailingKey(AttributeError("a fault of its own"))
    assert ScheduledCommand(failing).key == "k"
    assert ScheduledCommand(Bare(print)).key is None
    failing.failing = True
    with pytest.raises(AttributeError, match="a fault of its own"):
        _ = ScheduledCommand(failing).key


def test_a_scheduled_command_delegates_execute():
    contexts = []
    ScheduledCommand(Bare(contexts.append)).execute("the context")
    assert contexts == ["the context"]


# ---------------------------------------------------------------- registry


def test_without_a_key_there_is_no_token_and_everything_is_active():
    registry = CancellationRegistry()
    assert registry.new_token(Note("x")) is None
    assert registry.new_token(Bare(print)) is None
    registry.activate(Note("x"), None)
    for token in (None, object(), "anything"):
        assert registry.is_active(Note("x"), token)
        assert registry.is_active(Bare(print), token)


def test_a_token_is_active_from_activate_on():
    registry, note = CancellationRegistry(), Note("x", key="k")
    token = registry.new_token(note)
    assert token is not None
    assert token is not registry.new_token(note)
    assert not registry.is_active(note, token)
    registry.activate(note, token)
    assert registry.is_active(note, token)


def test_activating_another_token_of_the_key_cancels_the_first():
    registry, first, second = CancellationRegistry(), Note("x", key="k"), Note("y", key="k")
    old, new = registry.new_token(first), registry.new_token(second)
    registry.activate(first, old)
    registry.activate(second, new)
    assert (registry.is_active(first, old), registry.is_active(second, new)) == (False, True)
    other = Note("z", key="other")
    registry.activate(other, token := registry.new_token(other))
    assert registry.is_active(second, new)
    assert registry.is_active(other, token)


def test_remove_cancels():
    registry, note = CancellationRegistry(), Note("x", key="k")
    registry.activate(note, token := registry.new_token(note))
    registry.remove("k")
    assert not registry.is_active(note, token)
    assert not registry.is_active(note, None)
    registry.remove("k")


def test_activity_goes_by_the_identity_of_the_token():
    class Same:
        def __eq__(self, other):
            return True

        __hash__ = None

    registry, note = CancellationRegistry(), Note("x", key="k")
    registry.activate(note, token := Same())
    assert registry.is_active(note, token)
    assert not registry.is_active(note, Same())
    assert not registry.is_active(note, None)


def test_tokens_of_ones_own_make_replace_ours_and_are_replaced():
    registry, note = CancellationRegistry(), Note("x", key="k")
    ours, theirs = registry.new_token(note), object()
    for token, other in ((ours, theirs), (theirs, ours), (ours, theirs)):
        registry.activate(note, token)
        assert registry.is_active(note, token)
        assert not registry.is_active(note, other)
    registry.activate(note, theirs)
    registry.remove("k")
    assert not registry.is_active(note, theirs)


def test_fault_remove_of_unknown_keys_leaks_nothing():
    registry = CancellationRegistry()
    for number in range(1000):
        registry.remove(number)
    assert size_of(registry) == 0


def test_a_registry_keeps_nothing_of_what_has_run():
    registry = CancellationRegistry()
    notes = [Note(number, key=f"k{number}") for number in range(100)]
    tokens = [registry.new_token(note) for note in notes]
    for note, token in zip(notes, tokens, strict=True):
        registry.activate(note, token)
    assert size_of(registry) == 100
    del tokens, token
    assert size_of(registry) == 0


# ---------------------------------------------------------------- queue


def test_a_queued_command_is_a_dataclass_ordered_by_time_then_sequence():
    assert [f.name for f in dataclasses.fields(QueuedCommand)] == ["run_at", "sequence", "token", "command"]
    entries = [QueuedCommand(run_at, sequence, object(), object()) for run_at in (1.0, 2.0) for sequence in (0, 1)]
    assert sorted([*entries[2:], *entries[:2]]) == entries
    assert QueuedCommand(1.0, 0, "a", "b") == QueuedCommand(1.0, 0, "c", "d")
    assert QueuedCommand(1.0, 0, "a", "b") < QueuedCommand(1.0, 1, "a", "b") < QueuedCommand(2.0, 0, "a", "b")


def test_pop_ready_gives_the_earliest_that_is_due():
    queue = TimedCommandQueue()
    assert queue.pop_ready(1e9, always) is None
    late, soon = Note("late"), Note("soon")
    queue.push(2.0, "token of late", late)
    queue.push(1.0, "token of soon", soon)
    assert queue.pop_ready(0.999, always) is None
    entry = queue.pop_ready(1.0, always)
    assert (entry.run_at, entry.token, entry.command) == (1.0, "token of soon", soon)
    assert queue.pop_ready(1.0, always) is None
    assert queue.pop_ready(5.0, always).command is late
    assert queue.pop_ready(5.0, always) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60), st.integers(-1, 6))
def test_order_ties_and_inactive_entries_against_a_sorted_list(pushes, now):
    queue = TimedCommandQueue()
    for number, (run_at, active) in enumerate(pushes):
        queue.push(run_at, active, number)
    expected = sorted((run_at, number) for number, (run_at, active) in enumerate(pushes) if active)
    first = drain(queue, now, lambda command, token: token)
    rest = drain(queue, 6, lambda command, token: token)
    assert [(entry.run_at, entry.command) for entry in first + rest] == expected
    assert all(entry.run_at <= now for entry in first)
    assert all(entry.run_at > now for entry in rest)


def test_commands_are_never_compared():
    class Touchy(Note):
        def __eq__(self, other):
            pytest.fail("compared")

        __lt__ = __gt__ = __eq__

    queue = TimedCommandQueue()
    for number in range(20):
        queue.push(1.0, Touchy(None), Touchy(number))
    assert [entry.command.text for entry in drain(queue)] == list(range(20))


def test_pop_ready_drops_inactive_entries_on_the_way():
    queue, asked = TimedCommandQueue(), []
    for number in range(4):
        queue.push(number, number == 3, f"command {number}")

    def is_active(command, token):
        asked.append((command, token))
        return token

    assert queue.pop_ready(10, is_active).command == "command 3"
    assert asked == [(f"command {number}", number == 3) for number in range(4)]
    assert drain(queue) == []


def test_next_delay():
    queue = TimedCommandQueue()
    assert queue.next_delay(5.0) == 0.1
    assert queue.next_delay(5.0, 7.0) == 7.0
    assert queue.next_delay(now=5.0, default_s=8.0) == 8.0
    queue.push(12.0, None, Note("x"))
    queue.push(6.5, None, Note("y"))
    assert queue.next_delay(5.0) == 1.5
    assert queue.next_delay(6.5) == 0.0
    assert queue.next_delay(1e6, 7.0) == 0.0


def test_fault_cancelled_entries_do_not_stay_until_their_time_comes():
    """The first in line goes at the next look; the others before they can be most of the queue."""
    queue = TimedCommandQueue()
    first = Note("first")
    gone = weakref.ref(first)
    queue.push(1000.0, "cancelled", first)
    queue.push(2000.0, "wanted", kept := Note("kept"))
    del first
    assert queue.pop_ready(0.0, lambda command, token: token == "wanted") is None
    assert gone() is None
    assert queue.next_delay(0.0) == 2000.0

    largest = 0
    for number in range(10_000):
        queue.push(3000.0 + number, "cancelled", Note(number))
        queue.pop_ready(0.0, lambda command, token: token == "wanted")
        largest = max(largest, len(queue._heap))
    assert largest <= 1100
    assert [entry.command for entry in drain(queue, is_active=lambda _, token: token == "wanted")] == [kept]


def test_a_sweep_loses_nothing_and_keeps_the_order():
    queue = TimedCommandQueue()
    numbers = [number * 7919 % 5000 for number in range(5000)]
    for number in numbers:
        queue.push(number, number % 5 == 0, number)
    ran = [entry.command for entry in drain(queue, is_active=lambda command, token: token)]
    assert ran == list(range(0, 5000, 5))


def test_an_is_active_that_raises_changes_nothing():
    queue = TimedCommandQueue()
    queue.push(1.0, None, note := Note("x"))

    def is_active(command, token):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        queue.pop_ready(2.0, is_active)
    assert queue.pop_ready(2.0, always).command is note


def test_a_time_that_is_no_number_is_refused():
    queue = TimedCommandQueue()
    with pytest.raises(ValueError, match="run_at"):
        queue.push(float("nan"), None, Note("x"))
    assert drain(queue) == []
    queue.push(float("inf"), None, Note("never"))
    assert queue.pop_ready(1e300, always) is None
    assert queue.next_delay(0.0) == float("inf")


def test_a_queue_is_no_falsy_object_when_it_is_empty():
    """`self.queue = queue or TimedCommandQueue()` is everyday code."""
    assert TimedCommandQueue()
    assert CancellationRegistry()
