"""CommandScheduler: every line of its contract and every fault of the reference, on a ManualClock."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_commands import TYPES_OF_ERRORS, Bare, FailingKey, Note, raiser, schedulers
from support import TOMORROW, label

from pysched.commands import BasicSchedulerContext, Command, ScheduledCommand

NAN, INF = float("nan"), float("inf")

NOT_NUMBERS = ["5", b"5", None, [], {}, (1,), object(), 1j, True, False, float, lambda: 1]
NOT_DELAYS = [NAN, INF, -INF, -1, -1e-9, Decimal("NaN"), Decimal(-1), Fraction(-1, 3), 10**400, -(10**400)]
HUGE = [2**31 / 1000, 2**32 / 1000 + 1, 50 * 86400, 2**63 / 1e9 + 1, 1e12, 10**18, 1e300]


@pytest.fixture
def make(impl):
    with schedulers(impl) as make:
        yield make


@pytest.fixture
def context():
    return BasicSchedulerContext()


@pytest.fixture
def scheduler(make, clock, context):
    """A scheduler with a context on `clock`, started."""
    scheduler = make(context, clock=clock)
    scheduler.start()
    return scheduler


@pytest.fixture
def stamp(clock):
    """Makes commands that note the time (in seconds) of each of their runs, and perhaps sleep or fail then."""

    def stamp(takes=0, fails=False, **attributes):
        def execute(context):
            command.times.append(clock.time())
            clock.sleep(takes)
            if fails:
                raise ValueError("it fails")

        command = Bare(execute)
        command.times = []
        vars(command).update(attributes)
        return command

    return stamp


def untouched(scheduler, clock, note):
    """Asserts that nothing is pending but `note`, submitted under the key "k" at time 0 for the time 5."""
    assert note.to == []
    scheduler.start()
    assert clock.advance(5) == 1
    assert note.to == [note.text]
    assert clock.advance(10**9) == 0


# ---------------------------------------------------------------- the constructor


def test_the_defaults(make):
    scheduler = make()
    assert (scheduler.name, scheduler.context) == ("scheduler", None)


def test_context_on_error_and_name_by_position(make, clock):
    errors, context = [], BasicSchedulerContext()
    scheduler = make(context, lambda exc, command: errors.append(exc), "mine", clock=clock)
    assert (scheduler.name, scheduler.context) == ("mine", context)
    scheduler.start()
    scheduler.submit(Bare(raiser(ValueError("x"))))
    clock.advance(0)
    assert [type(exc) for exc in errors] == [ValueError]


def test_context_on_error_and_name_by_name(make):
    scheduler = make(context="c", on_error=None, name="n", clock=None, max_workers=1)
    assert (scheduler.name, scheduler.context) == ("n", "c")


def test_clock_and_max_workers_are_keyword_only(make):
    with pytest.raises(TypeError):
        make(None, None, "n", None)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("on_error", 5, TypeError),
        ("on_error", "print", TypeError),
        ("name", 5, TypeError),
        ("name", None, TypeError),
        ("name", b"n", TypeError),
        ("name", "", ValueError),
        ("clock", 5, TypeError),
        ("clock", "now", TypeError),
        ("max_workers", 0, ValueError),
        ("max_workers", -1, ValueError),
        ("max_workers", True, TypeError),
        ("max_workers", None, TypeError),
        ("max_workers", 2.0, TypeError),
        ("max_workers", "2", TypeError),
    ],
)
def test_a_bad_argument_of_the_constructor_is_named(impl, option, value, error):
    with pytest.raises(error, match=option):
        impl.CommandScheduler(**{option: value})


def test_it_has_a_dict_and_weak_references(make):
    scheduler = make()
    scheduler.anything = 5
    assert scheduler.anything == 5
    assert scheduler.__dict__["anything"] == 5
    assert weakref.ref(scheduler)() is scheduler


def test_its_repr_names_it_and_asks_nobody(impl, make):
    class Silent(BasicSchedulerContext):
        def __repr__(self):
            pytest.fail("called")

    class Mine(impl.CommandScheduler):
        pass

    assert repr(make(Silent(), name="one")) == "<CommandScheduler 'one'>"
    assert repr(make(name="two", cls=Mine)) == "<Mine 'two'>"


def test_a_subclass_may_have_attributes_and_methods_of_any_name(impl, make, clock):
    """None of those that the scheduler uses itself can be hit by accident."""

    class Mine(impl.CommandScheduler):
        def __init__(self, **options):
            super().__init__(**options)
            self._engine = self._core = self._lock = self._running = self._on_error = self._context = "mine"
            self._thread = self._wake_event = self._stop_event = self._sequence = self._commands = "mine"

        def _run(self):
            pytest.fail("called")

        _due = _finish = _report = _execute = _start = _stop = _submit = _at_exit = _after_fork_in_child = _run

    scheduler, note = make(cls=Mine, clock=clock), Note("x", repeat_interval_s=1)
    scheduler.start()
    scheduler.submit(note)
    assert clock.advance(1) == 2
    scheduler.stop()
    assert note.to == ["x", "x"]


def test_nothing_is_returned(make, clock):
    scheduler = make(clock=clock)
    results = [
        scheduler.submit(Note("x")),
        scheduler.schedule(Note("x"), 1.0),
        scheduler.remove("k"),
        scheduler.start(),
        scheduler.start(),
        scheduler.stop(),
        scheduler.stop(timeout=None),
    ]
    assert results == [None] * 7


# ---------------------------------------------------------------- submit


def test_submit_runs_once_after_the_delay(scheduler, clock):
    note = Note("x")
    scheduler.submit(note, 5.0)
    assert clock.advance(4.999999999) == 0
    assert note.to == []
    assert clock.advance(0.000000001) == 1
    assert clock.advance(TOMORROW) == 0
    assert note.to == ["x"]


@pytest.mark.parametrize("arguments", [(), (0,), (0.0,), (-0.0,), (Decimal(0),)], ids=repr)
def test_submit_without_a_delay_runs_at_once(scheduler, clock, arguments):
    note = Note("x")
    scheduler.submit(note, *arguments)
    assert note.to == []
    assert clock.advance(0) == 1
    assert note.to == ["x"]


@pytest.mark.parametrize("delay", [1, 1.0, Fraction(1), Decimal(1)], ids=repr)
def test_a_delay_is_any_real_number_of_seconds(scheduler, clock, stamp, delay):
    command = stamp()
    scheduler.submit(command, delay_s=delay)
    clock.advance(10)
    assert command.times == [1.0]


def test_execute_is_handed_the_context(scheduler, clock, context):
    seen = []
    scheduler.submit(Bare(seen.append))
    clock.advance(0)
    assert seen == [context]
    assert seen[0] is context


def test_the_context_is_read_at_each_run(scheduler, clock):
    seen = []
    command = Bare(seen.append)
    command.repeat_interval_s = 1
    scheduler.submit(command)
    clock.advance(0)
    scheduler.context = "another"
    clock.advance(1)
    assert seen == [BasicSchedulerContext(), "another"]


def test_a_command_that_carries_a_repeat_interval_repeats(scheduler, clock, stamp):
    command = stamp(repeat_interval_s=2)
    scheduler.submit(command, 1)
    assert clock.advance(7) == 4
    assert command.times == [1, 3, 5, 7]


def test_an_instance_attribute_makes_a_plain_submit_repeat(scheduler, clock):
    class Plain(Command):
        runs = 0

        def execute(self, context):
            self.runs += 1

    once, repeating = Plain(), Plain()
    repeating.repeat_interval_s = 1.0
    scheduler.submit(once)
    scheduler.submit(repeating)
    clock.advance(3)
    assert (once.runs, repeating.runs) == (1, 4)


def test_one_object_may_be_submitted_any_number_of_times_without_a_key(scheduler, clock, stamp):
    command = stamp()
    for delay in (3, 1, 2, 1):
        scheduler.submit(command, delay)
    assert clock.advance(3) == 4
    assert command.times == [1, 1, 2, 3]


def test_what_execute_returns_is_ignored_and_released(scheduler, clock):
    class Result:
        pass

    results = []

    def execute(context):
        result = Result()
        results.append(weakref.ref(result))
        return result

    scheduler.submit(Bare(execute))
    clock.advance(0)
    assert results[0]() is None


def test_commands_may_be_submitted_before_start_and_their_delay_counts_from_the_call(make, clock, stamp):
    scheduler, command = make(clock=clock), stamp()
    scheduler.submit(command, 5)
    clock.advance(2)
    scheduler.start()
    assert clock.advance(10) == 1
    assert command.times == [5]


# ---------------------------------------------------------------- duck typing


def test_a_command_needs_nothing_but_execute(scheduler, clock):
    class Slotted:
        __slots__ = ()

        def execute(self, context):
            ran.append(self)

    ran = []
    scheduler.submit(command := Slotted())
    clock.advance(0)
    scheduler.schedule(command, 1)
    clock.advance(1)
    assert ran == [command] * 3


def test_missing_attributes_answered_by_getattr_count(scheduler, clock):
    class Dynamic:
        runs = 0

        def __getattr__(self, name):
            if name == "key":
                return "k"
            raise AttributeError(name)

        def execute(self, context):
            Dynamic.runs += 1

    scheduler.submit(Dynamic(), 1)
    scheduler.submit(Dynamic(), 2)
    assert clock.advance(5) == 1
    scheduler.submit(Dynamic(), 1)
    scheduler.remove("k")
    assert clock.advance(5) == 0


@pytest.mark.parametrize("command", [None, 5, "execute", object(), print, Command, [], lambda context: None], ids=label)
@pytest.mark.parametrize("method", ["submit", "schedule"])
def test_what_has_no_execute_is_refused_by_name(make, clock, command, method):
    scheduler = make(clock=clock)
    scheduler.submit(note := Note("x", key="k"), 5)
    if command is Command:
        command = type("NotCallable", (), {"execute": 5})()
    with pytest.raises(TypeError, match="command"):
        getattr(scheduler, method)(command, 1)
    untouched(scheduler, clock, note)


# ---------------------------------------------------------------- schedule


def test_schedule_runs_after_the_delay_and_then_its_interval_after_each_end(scheduler, clock, stamp):
    """Fixed delay, not a grid."""
    command = stamp(takes=3)
    scheduler.schedule(command, 10, 5)
    clock.advance(45)
    assert command.times == [5, 18, 31, 44]


def test_schedule_without_a_delay_runs_at_once(scheduler, clock, stamp):
    command = stamp()
    scheduler.schedule(command, 10)
    clock.advance(20)
    assert command.times == [0, 10, 20]


def test_schedule_repeats_whether_the_run_worked_or_raised(scheduler, clock, stamp, context):
    command = stamp(takes=1, fails=True)
    scheduler.schedule(command, interval_s=2, delay_s=0, key=None)
    clock.advance(7)
    assert command.times == [0, 3, 6]
    assert isinstance(context.last_error, ValueError)


def test_schedule_submits_a_scheduled_command_through_self_submit(impl, make, clock):
    submitted = []

    class Watching(impl.CommandScheduler):
        def submit(self, command, delay_s=0.0):
            submitted.append((command, delay_s))
            super().submit(command, delay_s)

    scheduler = make(cls=Watching, clock=clock)
    note = Note("x")
    scheduler.schedule(note, 2, 3, "k")
    scheduler.schedule(note, 4.5)
    assert submitted == [(ScheduledCommand(note, 2, "k"), 3), (ScheduledCommand(note, 4.5, None), 0.0)]
    assert all(type(command) is ScheduledCommand for command, _ in submitted)
    assert submitted[0][0].command is note
    scheduler.start()
    assert clock.advance(3) == 2


@pytest.mark.parametrize("arguments", [(1, -1), (1, NAN), (1, "5"), (0, 1), (NAN, 1), ("5", 1)], ids=repr)
def test_schedule_checks_its_arguments_before_it_calls_submit(make, clock, arguments):
    scheduler = make(clock=clock)
    scheduler.submit = lambda *args: pytest.fail("called")
    with pytest.raises((ValueError, TypeError), match=r"delay_s|\binterval_s"):
        scheduler.schedule(Note("x"), *arguments)


def test_a_submit_that_is_overridden_decides(impl, make, clock):
    class Dropping(impl.CommandScheduler):
        def submit(self, command, delay_s=0.0):
            if delay_s < 5:
                super().submit(command, delay_s + 1)

    scheduler, near, far = make(cls=Dropping, clock=clock), Note("near"), Note("far")
    scheduler.schedule(near, 100, 1)
    scheduler.schedule(far, 100, 9)
    scheduler.start()
    assert clock.advance(50) == 1
    assert (near.to, far.to) == (["near"], [])


def test_a_submit_assigned_to_the_instance_decides_too(make, clock):
    scheduler, submitted = make(clock=clock), []
    scheduler.submit = lambda *args: submitted.append(args)
    scheduler.schedule(note := Note("x"), 2, 3)
    assert submitted == [(ScheduledCommand(note, 2), 3)]


@pytest.mark.parametrize("end", [None, 7])
def test_repeat_interval_s_is_read_again_after_each_run(scheduler, clock, stamp, end):
    command = stamp(repeat_interval_s=2)
    scheduler.submit(command)
    clock.advance(2)
    command.repeat_interval_s = end
    clock.advance(20)
    assert command.times == [0, 2, 4] + ([] if end is None else [11, 18])


def test_a_command_may_change_its_pace_and_end_itself_from_inside(scheduler, clock):
    times = []

    def execute(context):
        times.append(clock.time())
        command.repeat_interval_s = {0: 1, 1: 10, 11: None}[clock.time()]

    command = Bare(execute)
    command.repeat_interval_s = 5
    scheduler.submit(command)
    clock.advance(100)
    assert times == [0, 1, 11]


def test_the_interval_of_a_scheduled_command_can_be_changed_from_on_error(make, clock, stamp):
    """`on_error` is given the ScheduledCommand, whose interval counts."""

    def on_error(exc, scheduled):
        scheduled.repeat_interval_s = {0: 3, 3: None}[clock.time()]

    scheduler, command = make(on_error=on_error, clock=clock), stamp(fails=True)
    scheduler.start()
    scheduler.schedule(command, 1)
    clock.advance(100)
    assert command.times == [0, 3]


def test_a_scheduled_commands_own_interval_does_not_count(scheduler, clock, stamp):
    command = stamp(repeat_interval_s=1)
    scheduler.schedule(command, 10)
    clock.advance(20)
    assert command.times == [0, 10, 20]


# ---------------------------------------------------------------- order


def test_order_is_by_time_then_by_submission(scheduler, clock):
    ran = []
    for number, delay in enumerate([3, 1, 2, 1, 3, 2]):
        scheduler.submit(Note((delay, number), ran), delay)
    clock.advance(3)
    assert ran == [(1, 1), (1, 3), (2, 2), (2, 5), (3, 0), (3, 4)]


def test_a_command_submitted_by_a_command_goes_behind_everything_due(scheduler, clock):
    ran = []
    scheduler.submit(Bare(lambda context: (ran.append("first"), scheduler.submit(Note("added", ran)))))
    scheduler.submit(Note("second", ran))
    scheduler.submit(Note("third", ran))
    assert clock.advance(0) == 4
    assert ran == ["first", "second", "third", "added"]


def test_a_repetition_counts_as_a_submission_at_the_end_of_the_run(scheduler, clock):
    ran = []
    scheduler.schedule(Note("repeats", ran), 1)
    scheduler.submit(Note("once", ran), 1)
    clock.advance(1)
    assert ran == ["repeats", "once", "repeats"]


def test_commands_are_never_compared(scheduler, clock):
    class Touchy(Note):
        def __eq__(self, other):
            pytest.fail("compared")

        __lt__ = __gt__ = __le__ = __ge__ = __ne__ = __eq__
        __hash__ = None

    ran = []
    for number in range(50):
        scheduler.submit(Touchy(number, ran, key=f"k{number % 25}"), 1)
    clock.advance(1)
    assert ran == list(range(25, 50))


# ---------------------------------------------------------------- keys


def test_a_new_submit_of_the_same_key_replaces_the_earlier_one(scheduler, clock, stamp):
    first, second, other = stamp(key="k"), stamp(key="k"), stamp(key="other")
    scheduler.submit(first, 1)
    scheduler.submit(other, 1)
    scheduler.submit(second, 2)
    assert clock.advance(5) == 2
    assert (first.times, second.times, other.times) == ([], [2], [1])


def test_a_replacement_may_come_earlier_than_what_it_replaces(scheduler, clock, stamp):
    command = stamp(key="k")
    scheduler.submit(command, 10)
    scheduler.submit(command, 1)
    assert clock.advance(20) == 1
    assert command.times == [1]


@pytest.mark.parametrize("new", ["submit", "schedule"])
@pytest.mark.parametrize("old", ["submit", "schedule"])
def test_submit_and_schedule_replace_each_other(scheduler, clock, stamp, old, new):
    def add(how, command, delay):
        if how == "submit":
            scheduler.submit(command, delay)
        else:
            scheduler.schedule(command, 1, delay)

    first, second = stamp(key="k"), stamp(key="k")
    add(old, first, 1)
    add(new, second, 2)
    clock.advance(4)
    assert first.times == []
    assert second.times == ([2] if new == "submit" else [2, 3, 4])


def test_schedules_key_overrides_the_commands(scheduler, clock, stamp):
    command = stamp(key="own")
    scheduler.schedule(command, 1, 1, key="override")
    scheduler.remove("own")
    assert clock.advance(2) == 2
    scheduler.remove("override")
    assert clock.advance(2) == 0


def test_schedule_without_a_key_uses_the_commands(scheduler, clock, stamp):
    scheduler.schedule(stamp(key="own"), 1, 1)
    scheduler.remove("own")
    assert clock.advance(2) == 0


def test_the_key_is_free_after_the_last_run(scheduler, clock, stamp):
    first, second = stamp(key="k"), stamp(key="k")
    scheduler.submit(first)
    clock.advance(0)
    scheduler.submit(second, 1)
    scheduler.submit(stamp(), 2)
    assert clock.advance(2) == 2
    assert (first.times, second.times) == ([0], [1])


def test_a_key_may_be_a_property_and_is_read_once_at_submit(scheduler, clock):
    class Counting(Command):
        reads = 0

        @property
        def key(self):
            self.reads += 1
            return f"read {self.reads}"

        def execute(self, context):
            pass

    command = Counting()
    command.repeat_interval_s = 1
    scheduler.submit(command)
    assert clock.advance(3) == 4
    assert command.reads == 1
    scheduler.remove("read 2")
    assert clock.advance(1) == 1
    scheduler.remove("read 1")
    assert clock.advance(10) == 0


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("key", "equal"),
    [
        ("key", str(b"key", "ascii")),
        (1, 1.0),
        (1, True),
        (0, 0.0),
        (("a", 1), ("a", 1)),
        (Point(1, 2), Point(1, 2)),
        ("", ""),
    ],
    ids=repr,
)
def test_keys_are_anything_hashable_and_equal_keys_are_one(scheduler, clock, stamp, key, equal):
    first, second = stamp(key=key), stamp(key=equal)
    scheduler.submit(first, 1)
    scheduler.submit(second, 1)
    assert clock.advance(1) == 1
    assert (first.times, second.times) == ([], [1])
    scheduler.submit(first, 1)
    scheduler.remove(equal)
    assert clock.advance(1) == 0


def test_keys_with_equal_hashes_are_kept_apart(scheduler, clock):
    class Key:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.value == other.value

    ran = []
    for round_ in range(2):
        for number in range(20):
            scheduler.submit(Note((round_, number), ran, key=Key(number)), 1)
    for number in range(0, 20, 2):
        scheduler.remove(Key(number))
    clock.advance(1)
    assert ran == [(1, number) for number in range(1, 20, 2)]


def test_a_key_that_is_not_equal_to_itself_is_still_itself(scheduler, clock):
    scheduler.submit(Note("a", key=NAN), 1)
    scheduler.submit(Note("b", key=NAN), 1)
    assert clock.advance(1) == 1
    scheduler.submit(Note("a", key=NAN), 1)
    scheduler.remove(NAN)
    assert clock.advance(1) == 0


@pytest.mark.parametrize("key", [[], {}, set(), bytearray()], ids=repr)
def test_an_unhashable_key_is_refused_by_name(make, clock, key):
    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    for call in (
        lambda: scheduler.submit(Note("y", key=key)),
        lambda: scheduler.schedule(Note("y"), 1, key=key),
        lambda: scheduler.schedule(Note("y", key=key), 1),
        lambda: scheduler.remove(key),
    ):
        with pytest.raises(TypeError, match="key"):
            call()
    untouched(scheduler, clock, note)


class Key:
    """A key that can be told to fail."""

    def __init__(self, value):
        self.value = value
        self.fails = None

    def __hash__(self):
        if self.fails == "__hash__":
            raise ZeroDivisionError
        return hash(self.value)

    def __eq__(self, other):
        if "__eq__" in (self.fails, other.fails):
            raise ZeroDivisionError
        return self.value == other.value


@pytest.mark.parametrize("where", ["__hash__", "__eq__"])
def test_a_key_that_fails_propagates_and_nothing_changes(make, clock, where):
    scheduler, note = make(clock=clock), Note("x", key=Key("k"))
    scheduler.submit(note, 5)
    bad = Key("k")
    bad.fails = where
    for call in (
        lambda: scheduler.submit(Note("y", key=bad)),
        lambda: scheduler.schedule(Note("y"), 1, key=bad),
        lambda: scheduler.remove(bad),
    ):
        with pytest.raises(ZeroDivisionError):
            call()
    scheduler._check()
    untouched(scheduler, clock, note)


@pytest.mark.parametrize("exc", [ValueError, AttributeError, KeyError, RuntimeError])
def test_properties_that_raise_propagate_and_nothing_changes(make, clock, exc):
    """AttributeError too, which a getattr with a default would take for a command without a key."""
    failing = FailingKey(exc("of the key"))
    failing.failing = True

    class FailingInterval(Command):
        key = "k"

        @property
        def repeat_interval_s(self):
            raise exc("of the interval")

        def execute(self, context):
            pytest.fail("ran")

    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    for call in (
        lambda: scheduler.submit(failing),
        lambda: scheduler.schedule(failing, 1),
        lambda: scheduler.submit(FailingInterval()),
    ):
        with pytest.raises(exc, match="of the"):
            call()
    scheduler._check()
    untouched(scheduler, clock, note)


@pytest.mark.parametrize("where", ["__hash__", "__eq__"])
@pytest.mark.parametrize("action", ["submit", "remove", "same key"])
def test_a_key_may_call_back_into_the_scheduler(make, clock, where, action):
    """No lock is held while it is hashed and compared."""
    scheduler = make(clock=clock)
    busy = []

    class Caller:
        def __init__(self, value):
            self.value = value

        def call(self, name):
            if name == where and not busy:
                busy.append(self)
                if action == "submit":
                    scheduler.submit(Note("inner", ran, key="inner"), 2)
                elif action == "remove":
                    scheduler.remove("unknown")
                else:
                    scheduler.submit(Note("same", ran, key=Caller(self.value)), 2)
                busy.pop()

        def __hash__(self):
            self.call("__hash__")
            return 7

        def __eq__(self, other):
            self.call("__eq__")
            return self.value == other.value

    ran = []
    scheduler.submit(Note("first", ran, key=Caller("k")), 1)
    scheduler.submit(Note("second", ran, key=Caller("k")), 3)
    scheduler._check()
    scheduler.start()
    clock.advance(5)
    assert ran == (["inner", "second"] if action == "submit" else ["second"])


# ---------------------------------------------------------------- remove


def test_remove_cancels_what_is_pending(scheduler, clock, stamp):
    removed, stays = stamp(key="k"), stamp(key="other")
    scheduler.submit(removed, 1)
    scheduler.submit(stays, 1)
    scheduler.remove("k")
    assert clock.advance(TOMORROW) == 1
    assert (removed.times, stays.times) == ([], [1])


def test_remove_ends_a_repetition(scheduler, clock, stamp):
    command = stamp(key="k")
    scheduler.schedule(command, 1)
    clock.advance(2)
    scheduler.remove("k")
    assert clock.advance(TOMORROW) == 0
    assert command.times == [0, 1, 2]


def test_remove_cancels_what_is_due_already(scheduler, clock):
    ran = []
    scheduler.submit(Bare(lambda context: scheduler.remove("k")))
    scheduler.submit(Note("removed", ran, key="k"))
    scheduler.submit(Note("stays", ran))
    assert clock.advance(0) == 2
    assert ran == ["stays"]


@pytest.mark.parametrize("key", ["unknown", "", None, 5, (), Point(1, 2)], ids=repr)
def test_unknown_keys_are_silent(make, clock, key):
    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    scheduler.remove(key)
    untouched(scheduler, clock, note)


def test_remove_of_none_does_not_touch_commands_without_a_key(scheduler, clock, stamp):
    scheduler.submit(stamp(), 1)
    scheduler.remove(None)
    assert clock.advance(1) == 1


def test_a_removed_key_can_be_submitted_again(scheduler, clock, stamp):
    command = stamp(key="k")
    scheduler.submit(command, 1)
    scheduler.remove("k")
    scheduler.submit(command, 2)
    clock.advance(5)
    assert command.times == [2]


def test_removed_from_inside_its_own_run_a_repeating_command_does_not_run_again(scheduler, clock):
    times = []

    def execute(context):
        times.append(clock.time())
        if len(times) == 3:
            scheduler.remove("k")

    scheduler.schedule(Bare(execute), 1, key="k")
    clock.advance(TOMORROW)
    assert times == [0, 1, 2]


def test_removed_from_inside_it_may_be_submitted_again_from_inside(scheduler, clock):
    ran = []

    def execute(context):
        ran.append(("old", clock.time()))
        scheduler.remove("k")
        scheduler.submit(new, 5)

    new = Bare(lambda context: ran.append(("new", clock.time())))
    new.key = "k"
    scheduler.schedule(Bare(execute), 1, key="k")
    clock.advance(TOMORROW)
    assert ran == [("old", 0), ("new", 5)]


def test_replaced_from_inside_its_own_run_only_the_new_one_goes_on(scheduler, clock):
    """The run itself is not interrupted."""
    ran = []

    def execute(context):
        ran.append(("old", clock.time()))
        scheduler.schedule(new, 10, 5, "k")
        ran.append(("old goes on", clock.time()))

    new = Bare(lambda context: ran.append(("new", clock.time())))
    scheduler.schedule(Bare(execute), 1, key="k")
    clock.advance(20)
    assert ran == [("old", 0), ("old goes on", 0), ("new", 5), ("new", 15)]


def test_a_command_that_submits_itself_again_from_inside(scheduler, clock):
    """The everyday way to repeat with a pace of one's own; with a key and an interval, the submit wins."""
    times = []

    def execute(context):
        times.append(clock.time())
        scheduler.submit(command, 3)

    command = Bare(execute)
    command.key = "k"
    command.repeat_interval_s = 100
    scheduler.submit(command)
    clock.advance(10)
    assert times == [0, 3, 6, 9]


def test_replaced_by_another_command_while_it_runs(scheduler, clock, stamp):
    """By one that comes due in time which the run itself lets pass."""
    old, new = stamp(takes=5), stamp(key="k")

    def execute(context):
        scheduler.submit(new, 1)
        old.execute(context)

    scheduler.schedule(Bare(execute), 1, key="k")
    clock.advance(20)
    assert (old.times, new.times) == ([0], [5])


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
def test_anything_a_command_raises_goes_to_on_error(make, clock, kind):
    errors, after, context = [], [], BasicSchedulerContext()
    error = kind("boom")
    scheduler = make(context, lambda *args: errors.append(args), clock=clock)
    scheduler.start()
    scheduler.submit(command := Bare(raiser(error)))
    scheduler.submit(Note("after", after))
    assert clock.advance(0) == 2
    assert errors == [(error, command)]
    assert errors[0][1] is command
    assert after == ["after"]
    assert context.last_error is None


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
def test_without_on_error_it_is_kept_in_the_context(scheduler, clock, context, kind):
    after, error = [], kind("boom")
    scheduler.submit(Bare(raiser(error)))
    scheduler.submit(Note("after", after))
    assert clock.advance(0) == 2
    assert context.last_error is error
    assert after == ["after"]


def test_a_context_needs_nothing_but_a_place_for_last_error(make, clock):
    class Mine:
        pass

    scheduler = make(mine := Mine(), clock=clock)
    scheduler.start()
    scheduler.submit(Bare(raiser(error := ValueError())))
    clock.advance(0)
    assert mine.last_error is error


def test_a_later_success_does_not_clear_last_error(scheduler, clock, context):
    scheduler.submit(Bare(raiser(error := ValueError())))
    scheduler.submit(Note("x"))
    clock.advance(0)
    assert context.last_error is error


def test_on_error_is_given_the_scheduled_command_for_schedule_and_the_users_object_for_submit(make, clock):
    given = []
    scheduler = make(on_error=lambda exc, command: given.append(command), clock=clock)
    scheduler.start()
    command = Bare(raiser(ValueError()))
    scheduler.submit(command)
    scheduler.schedule(command, 5, key="k")
    clock.advance(0)
    assert given[0] is command
    assert type(given[1]) is ScheduledCommand
    assert given[1].command is command
    assert (given[1].key, given[1].repeat_interval_s) == ("k", 5)


def test_on_error_is_called_once_for_each_error_and_the_repetition_goes_on(make, clock, stamp):
    errors = []
    scheduler = make(on_error=lambda exc, command: errors.append(clock.time()), clock=clock)
    scheduler.start()
    scheduler.schedule(stamp(fails=True), 1)
    clock.advance(4)
    assert errors == [0, 1, 2, 3, 4]


def test_the_interval_counts_from_the_end_of_the_error_handler(make, clock, stamp):
    scheduler = make(on_error=lambda exc, command: clock.sleep(2), clock=clock)
    scheduler.start()
    scheduler.schedule(command := stamp(takes=1, fails=True), 10)
    clock.advance(26)
    assert command.times == [0, 13, 26]


def test_on_error_may_remove_and_replace_the_command(make, clock, stamp):
    def on_error(exc, command):
        if command.key == "removed":
            scheduler.remove("removed")
        else:
            scheduler.submit(new, 5)

    scheduler = make(on_error=on_error, clock=clock)
    scheduler.start()
    removed, old, new = stamp(fails=True), stamp(fails=True), stamp(key="replaced")
    scheduler.schedule(removed, 1, key="removed")
    scheduler.schedule(old, 1, key="replaced")
    clock.advance(TOMORROW)
    assert (removed.times, old.times, new.times) == ([0], [0], [5])


def test_an_execute_that_cannot_be_called_so_is_an_error_of_the_command(scheduler, clock, context):
    scheduler.submit(Bare(lambda: pytest.fail("called without a context")))
    clock.advance(0)
    assert isinstance(context.last_error, TypeError)


def test_execute_is_looked_up_at_each_run(scheduler, clock, context):
    note = Bare(lambda context: None)
    scheduler.submit(note)
    del note.execute
    assert clock.advance(0) == 1
    assert isinstance(context.last_error, AttributeError)


BAD_INTERVALS = [
    *((value, ValueError) for value in (0, 0.0, -1, NAN, INF, -INF, 10**400)),
    *((value, TypeError) for value in (True, "5", [], object())),
]


@pytest.mark.parametrize(("value", "kind"), BAD_INTERVALS, ids=label)
def test_a_bad_repeat_interval_after_a_run_is_reported_and_ends_the_repetition(make, clock, value, kind):
    errors = []
    scheduler = make(on_error=lambda exc, command: errors.append((exc, command)), clock=clock)
    scheduler.start()

    def execute(context):
        command.repeat_interval_s = value

    command, after = Bare(execute), Note("after", repeat_interval_s=1)
    command.key, command.repeat_interval_s = "k", 1
    scheduler.submit(command)
    scheduler.submit(after)
    clock.advance(2)
    [(exc, culprit)] = errors
    assert type(exc) is kind
    assert "repeat_interval_s" in str(exc)
    assert culprit is command
    assert after.to == ["after"] * 3
    scheduler._check()


def test_a_repeat_interval_that_raises_after_a_run_is_reported_and_ends_the_repetition(scheduler, clock, context):
    class Fails(Command):
        key = "k"
        runs = 0

        @property
        def repeat_interval_s(self):
            if self.runs:
                raise SystemExit("no more")
            return 1

        def execute(self, context):
            self.runs += 1

    scheduler.submit(command := Fails())
    clock.advance(5)
    assert command.runs == 1
    assert isinstance(context.last_error, SystemExit)


def test_nothing_of_an_error_survives_its_report(make, clock):
    """Neither the exception nor the frames that it holds, without the garbage collector's help."""

    class Local:
        pass

    locals_, seen = [], []

    def execute(context):
        local = Local()
        locals_.append(weakref.ref(local))
        raise ValueError

    scheduler = make(on_error=lambda exc, command: seen.append(type(exc)), clock=clock)
    scheduler.start()
    command = Bare(execute)
    reference = weakref.ref(command)
    scheduler.submit(command)
    del command
    gc.collect()
    gc.disable()
    try:
        clock.advance(0)
        assert seen == [ValueError]
        assert locals_[0]() is None
        assert reference() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- validation

DELAYS = [*((value, ValueError) for value in NOT_DELAYS), *((value, TypeError) for value in NOT_NUMBERS)]
INTERVALS = [*DELAYS, (0, ValueError), (0.0, ValueError), (-0.0, ValueError), (Decimal(0), ValueError)]


@pytest.mark.parametrize(("value", "kind"), DELAYS, ids=label)
@pytest.mark.parametrize("method", ["submit", "schedule"])
def test_a_bad_delay_is_refused_by_name_and_changes_nothing(make, clock, method, value, kind):
    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    arguments = (Note("y", key="k"), value) if method == "submit" else (Note("y", key="k"), 1, value)
    with pytest.raises(kind, match="delay_s") as caught:
        getattr(scheduler, method)(*arguments)
    if kind is ValueError:
        assert "finite and >= 0" in str(caught.value)
    untouched(scheduler, clock, note)


@pytest.mark.parametrize(("value", "kind"), INTERVALS, ids=label)
def test_a_bad_interval_is_refused_by_name_and_changes_nothing(make, clock, value, kind):
    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    with pytest.raises(kind, match=r"\binterval_s") as caught:
        scheduler.schedule(Note("y", key="k"), value, 0)
    if kind is ValueError:
        assert "finite and > 0" in str(caught.value)
    untouched(scheduler, clock, note)


@pytest.mark.parametrize(
    ("value", "kind"),
    [case for case in INTERVALS if case[0] is not None],
    ids=label,
)
def test_a_bad_repeat_interval_is_refused_at_submit_and_changes_nothing(make, clock, value, kind):
    scheduler, note = make(clock=clock), Note("x", key="k")
    scheduler.submit(note, 5)
    with pytest.raises(kind, match="repeat_interval_s"):
        scheduler.submit(Note("y", key="k", repeat_interval_s=value))
    untouched(scheduler, clock, note)


@pytest.mark.parametrize("delay", HUGE)
def test_huge_delays_and_intervals_are_accepted_and_do_not_come(scheduler, clock, delay, stamp):
    late, never, soon = stamp(), stamp(key="k"), stamp()
    scheduler.submit(late, delay)
    scheduler.schedule(never, delay, delay)
    scheduler.schedule(soon, delay, 1)
    assert clock.advance(1000) == 1
    assert (late.times, never.times, soon.times) == ([], [], [1])
    scheduler.remove("k")
    assert clock.advance(1000) == 0


@pytest.mark.parametrize(("value", "kind"), DELAYS, ids=label)
def test_a_bad_timeout_of_stop_is_refused_by_name(scheduler, clock, value, kind):
    if value is None:
        scheduler.stop(None)
        return
    with pytest.raises(kind, match="timeout"):
        scheduler.stop(value)
    scheduler.submit(Note("x"))
    assert clock.advance(0) == 1, "it goes on"


# ---------------------------------------------------------------- start and stop


def test_nothing_runs_before_start(make, clock):
    scheduler, note = make(clock=clock), Note("x")
    scheduler.submit(note)
    assert clock.advance(10) == 0
    scheduler.start()
    assert note.to == []
    assert clock.advance(0) == 1
    assert note.to == ["x"]


def test_start_on_a_manual_clock_starts_no_thread(make, clock):
    before = threading.active_count()
    scheduler = make(clock=clock, max_workers=3)
    scheduler.start()
    assert threading.active_count() == before
    threads = []
    for _ in range(3):
        scheduler.submit(Bare(lambda context: threads.append(threading.current_thread())))
    assert clock.advance(0) == 3
    assert threads == [threading.current_thread()] * 3


def test_a_second_start_while_running_does_nothing(scheduler, clock):
    scheduler.start()
    scheduler.submit(note := Note("x", repeat_interval_s=1))
    scheduler.start()
    assert clock.advance(3) == 4
    assert note.to == ["x"] * 4


def test_stop_before_start_and_twice(make, clock):
    scheduler = make(clock=clock)
    scheduler.stop()
    scheduler.start()
    scheduler.stop()
    scheduler.stop()
    scheduler.submit(Note("x"))
    assert clock.advance(1) == 0
    scheduler.start()
    assert clock.advance(0) == 1


def test_after_stop_nothing_runs_and_after_start_what_was_pending_is_still_there(scheduler, clock, stamp):
    due, repeating, future = stamp(key="due"), stamp(repeat_interval_s=10), stamp()
    scheduler.submit(due, 5)
    scheduler.submit(repeating)
    scheduler.submit(future, 30)
    assert clock.advance(1) == 1
    scheduler.stop()
    assert clock.advance(19) == 0
    scheduler.start()
    assert clock.advance(0) == 2
    assert (due.times, repeating.times) == ([20], [0, 20])
    clock.advance(10)
    assert (repeating.times, future.times) == ([0, 20, 30], [30])


def test_what_came_due_while_stopped_keeps_its_order(scheduler, clock):
    ran = []
    for number, delay in enumerate([3, 1, 2, 1]):
        scheduler.submit(Note((delay, number), ran), delay)
    scheduler.stop()
    clock.advance(10)
    scheduler.submit(Note("last", ran))
    scheduler.start()
    clock.advance(0)
    assert ran == [(1, 1), (1, 3), (2, 2), (3, 0), "last"]


def test_submitted_and_removed_while_stopped(scheduler, clock, stamp):
    removed, replaced, new = stamp(key="a"), stamp(key="b"), stamp(key="b")
    scheduler.submit(removed)
    scheduler.submit(replaced)
    scheduler.stop()
    scheduler.remove("a")
    scheduler.submit(new)
    scheduler.start()
    assert clock.advance(0) == 1
    assert (removed.times, replaced.times, new.times) == ([], [], [0])


def test_fault_stop_from_inside_a_command_does_not_raise(scheduler, clock, context):
    ran = []
    scheduler.submit(Bare(lambda context: (scheduler.stop(), ran.append("stopped"))))
    scheduler.submit(Note("after", ran))
    assert clock.advance(10) == 1
    assert ran == ["stopped"]
    assert context.last_error is None
    scheduler.start()
    assert clock.advance(0) == 1
    assert ran == ["stopped", "after"]


def test_stop_and_start_from_inside_a_command(scheduler, clock, context):
    ran = []
    scheduler.submit(Bare(lambda context: (scheduler.stop(), scheduler.start(), ran.append("restarted"))))
    scheduler.submit(Note("after", ran))
    assert clock.advance(10) == 2
    assert ran == ["restarted", "after"]
    assert context.last_error is None


def test_a_repeating_command_that_stops_the_scheduler_goes_on_after_start(scheduler, clock):
    times = []

    def execute(context):
        times.append(clock.time())
        scheduler.stop()

    scheduler.schedule(Bare(execute), 1)
    assert clock.advance(10) == 1
    scheduler.start()
    assert clock.advance(0) == 1
    assert times == [0, 10]


def test_stop_from_inside_on_error(make, clock, stamp):
    scheduler = make(on_error=lambda exc, command: scheduler.stop(), clock=clock)
    scheduler.start()
    scheduler.schedule(command := stamp(fails=True), 1)
    assert clock.advance(10) == 1
    assert command.times == [0]


@pytest.mark.parametrize("attribute", ["_queue", "_cancellation"])
@pytest.mark.parametrize("place", ["instance", "class", "property", "slot"])
def test_a_replaced_queue_or_registry_is_a_type_error_at_start(impl, make, clock, attribute, place):
    """Never silence: the user believes that his own queue works."""
    body = {
        "instance": {},
        "class": {attribute: object()},
        "property": {attribute: property(lambda self: pytest.fail("read"))},
        "slot": {"__slots__": (attribute,)},
    }[place]
    scheduler = make(cls=type("Mine", (impl.CommandScheduler,), body), clock=clock)
    if place == "instance":
        setattr(scheduler, attribute, object())
    scheduler.submit(note := Note("x"))
    with pytest.raises(TypeError, match=f"^{attribute} "):
        scheduler.start()
    assert clock.advance(10) == 0
    if place == "instance":
        delattr(scheduler, attribute)
        scheduler.start()
        assert clock.advance(0) == 1
        assert note.to == ["x"]


# ---------------------------------------------------------------- the other faults of the reference


def test_fault_an_error_with_context_none_does_not_kill_the_loop(make, clock, logged):
    scheduler, after = make(None, clock=clock), []
    scheduler.start()
    scheduler.submit(Bare(raiser(ValueError("boom"))))
    scheduler.submit(Note("after", after, repeat_interval_s=1))
    clock.advance(2)
    assert after == ["after"] * 3
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("ERROR", True)
    assert "ValueError: boom" in text


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
def test_fault_an_exception_inside_on_error_does_not_kill_the_loop(make, clock, logged, kind):
    calls = []

    def on_error(exc, command):
        calls.append(exc)
        raise kind("of the handler")

    scheduler = make(on_error=on_error, clock=clock)
    scheduler.start()
    command = Bare(raiser(ValueError("of the command")))
    command.repeat_interval_s = 1
    scheduler.submit(command)
    assert clock.advance(4) == 5
    assert len(calls) == 5
    assert [(level, traceback) for level, _, traceback in logged] == [("ERROR", True)] * 5
    for _, text, _ in logged:
        assert "of the handler" in text
        assert "ValueError: of the command" in text


def test_a_handler_with_a_wrong_signature_is_a_failing_handler(make, clock, logged):
    scheduler = make(on_error=lambda: None, clock=clock)
    scheduler.start()
    scheduler.submit(Bare(raiser(ValueError())), 0)
    scheduler.submit(note := Note("after"))
    assert clock.advance(0) == 2
    assert note.to == ["after"]
    [(level, text, _)] = logged
    assert level == "ERROR"
    assert "TypeError" in text


class NoPlace:
    """A context that cannot keep an error."""

    __slots__ = ()


class Refuses:
    """A context that fails to."""

    @property
    def last_error(self):
        return None

    @last_error.setter
    def last_error(self, exc):
        raise SystemExit("no")


@pytest.mark.parametrize("context", [NoPlace(), Refuses()])
def test_a_context_that_cannot_keep_the_error_does_not_kill_the_loop(make, clock, logged, context):
    scheduler = make(context, clock=clock)
    scheduler.start()
    scheduler.submit(Bare(raiser(ValueError("of the command"))))
    scheduler.submit(note := Note("after"))
    assert clock.advance(0) == 2
    assert note.to == ["after"]
    assert {(level, traceback) for level, _, traceback in logged} == {("ERROR", True)}
    assert "ValueError: of the command" in logged[0][1]
    assert ("SystemExit: no" if isinstance(context, Refuses) else "AttributeError") in logged[-1][1]


def test_a_logging_handler_that_raises_does_not_kill_the_loop(make, clock, monkeypatch):
    unraisable = []
    monkeypatch.setattr(logging.getLogger("pysched"), "handle", raiser(SystemExit("of the logging handler")))
    monkeypatch.setattr(sys, "unraisablehook", lambda report: unraisable.append(report.exc_type))
    scheduler = make(clock=clock)
    scheduler.start()
    scheduler.submit(Bare(raiser(ValueError())))
    scheduler.submit(note := Note("after"))
    assert clock.advance(0) == 2
    assert note.to == ["after"]
    assert unraisable == [SystemExit]


class Holder:
    """A key, or what a command holds, whose end can be seen."""


@pytest.fixture
def no_gc():
    """What is released is released by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_fault_remove_of_unknown_keys_leaks_nothing(scheduler, clock, no_gc):
    keys = [Holder() for _ in range(100)]
    references = [weakref.ref(key) for key in keys]
    while keys:
        scheduler.remove(keys.pop())
    assert [reference() for reference in references] == [None] * 100
    scheduler._check()


@pytest.mark.parametrize("end", ["remove", "replace", "run", "fail"])
def test_a_key_is_released_when_nothing_holds_it(make, clock, no_gc, end):
    references, errors = [], []
    scheduler = make(on_error=lambda exc, command: errors.append(type(exc)), clock=clock)
    scheduler.start()

    class Failing(Command):
        key = None

        def __init__(self, key):
            self.key = key

        def execute(self, context):
            raise ValueError

    def submit():
        key = Holder()
        references.append(weakref.ref(key))
        scheduler.submit(Note("x", key=key) if end != "fail" else Failing(key), 1)
        if end == "remove":
            scheduler.remove(key)
        elif end == "replace":
            scheduler.submit(Note("y", key=key), 1)
            scheduler.remove(key)

    submit()
    assert clock.advance(1) == (end in ("run", "fail"))
    assert references[0]() is None
    assert errors == ([ValueError] if end == "fail" else [])


def test_fault_cancelled_entries_do_not_stay_with_what_they_hold_until_their_time_comes(scheduler, clock, no_gc):
    def submit(key):
        note = Note("x", key=key)
        references.append(weakref.ref(note))
        scheduler.submit(note, TOMORROW)

    references = []
    submit("removed")
    submit("replaced")
    scheduler.remove("removed")
    scheduler.submit(Note("y", key="replaced"), TOMORROW)
    assert [reference() for reference in references] == [None, None]


def test_what_has_run_is_released_at_once(scheduler, clock, no_gc):
    references = []

    def submit(**attributes):
        note = Note("x", **attributes)
        references.append(weakref.ref(note))
        scheduler.submit(note)

    submit()
    submit(key="k")
    clock.advance(0)
    assert [reference() for reference in references] == [None, None]


def test_fault_submit_does_not_log(scheduler, clock, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("pysched").setLevel(logging.DEBUG)
    try:
        scheduler.submit(Note("x", key="k"), 1)
        scheduler.submit(Note("x", key="k"), 1)
        scheduler.schedule(Note("x"), 1)
        scheduler.remove("k")
        scheduler.remove("unknown")
        assert clock.advance(1) == 2
        scheduler.stop()
        scheduler.start()
    finally:
        logging.getLogger("pysched").setLevel(logging.NOTSET)
    assert caplog.records == []


# ---------------------------------------------------------------- life


def test_a_scheduler_that_is_not_started_is_collected_with_its_commands(impl):
    scheduler, command = impl.CommandScheduler(), Note("x")
    references = [weakref.ref(scheduler), weakref.ref(command)]
    command.scheduler = scheduler
    scheduler.submit(command, TOMORROW)
    scheduler.schedule(command, TOMORROW, key="k")
    del scheduler, command
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_started_scheduler_is_kept_alive_until_it_is_stopped(impl, clock):
    note = Note("x")
    scheduler = impl.CommandScheduler(clock=clock)
    scheduler.submit(note, 5)
    scheduler.start()
    reference = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    assert clock.advance(5) == 1
    assert note.to == ["x"]
    gc.collect()
    assert reference() is not None
    reference().stop()
    gc.collect()
    assert reference() is None


def test_a_destructor_may_use_the_scheduler(scheduler, clock, no_gc):
    ran = []

    class Last(Note):
        def __del__(self):
            scheduler.submit(Note(("last words", self.text), ran))
            scheduler.remove("unknown")

    scheduler.submit(Last("removed", ran, key="k"), 5)
    scheduler.remove("k")
    scheduler.submit(Last("replaced", ran, key="k"), 5)
    scheduler.submit(Note("replacement", ran, key="k"), 1)
    scheduler.submit(Last("run", ran))
    clock.advance(1)
    assert ran == [
        ("last words", "removed"),
        ("last words", "replaced"),
        "run",
        ("last words", "run"),
        "replacement",
    ]


# ---------------------------------------------------------------- clocks


def test_several_schedulers_share_a_clock_and_the_older_goes_first(make, clock):
    ran = []
    first, second = make(name="first", clock=clock), make(name="second", clock=clock)
    for scheduler in (second, first):
        scheduler.start()
        scheduler.submit(Note((scheduler.name, 1), ran), 1)
        scheduler.submit(Note((scheduler.name, 2), ran), 2)
    assert clock.advance(2) == 4
    assert ran == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_late_is_better_than_never_and_nothing_is_early(scheduler, clock, stamp):
    blocking, late, on_time = stamp(takes=10), stamp(), stamp()
    scheduler.submit(blocking, 1)
    scheduler.submit(late, 2)
    scheduler.submit(on_time, 20)
    assert clock.advance(20) == 3
    assert (late.times, on_time.times) == ([11], [20])


def test_a_step_of_the_wall_clock_moves_nothing(scheduler, clock, stamp):
    scheduler.schedule(command := stamp(), 10, 10)
    clock.advance(30)
    clock.step_wall(-12 * 3600)
    clock.advance(30)
    clock.step_wall(174 * 365 * 86400)
    clock.advance(10)
    assert command.times == [10, 20, 30, 40, 50, 60, 70]


# ---------------------------------------------------------------- the twin alone


@pytest.mark.parametrize("interval", [None, 1])
def test_the_twin_runs_a_command_that_comes_due_before_its_submit_has_taken_the_key(clock, monkeypatch, interval):
    """As when the loop gets in between, which no test on threads can be made to see."""
    from pysched._pure import CommandScheduler, Engine

    call_later = Engine.call_later

    def and_let_the_loop_run(engine, delay, *args):
        handle = call_later(engine, delay, *args)
        if delay == 0:
            clock.advance(0)
        return handle

    scheduler, note = CommandScheduler(clock=clock), Note("x", key="k", repeat_interval_s=interval)
    scheduler.start()
    monkeypatch.setattr(Engine, "call_later", and_let_the_loop_run)
    scheduler.submit(note)
    scheduler._check()
    assert note.to == []
    clock.advance(2)
    assert note.to == ["x"] * (1 if interval is None else 3)
    scheduler.stop()
    scheduler._check()


# ---------------------------------------------------------------- everything at once, against a model


@dataclass
class Model:
    """What a CommandScheduler does, in a list."""

    now: int = 0
    count: int = 0
    pending: list = field(default_factory=list)  # [due, order, name, key, interval, action]
    trace: list = field(default_factory=list)

    def submit(self, name, delay, key, interval, action):
        self.remove(key)
        self.push(delay, name, key, interval, action)

    def push(self, delay, *what):
        self.count += 1
        self.pending.append([self.now + delay, self.count, *what])

    def remove(self, key):
        if key is not None:
            self.pending = [entry for entry in self.pending if entry[3] != key]

    def advance(self, delay):
        target = self.now + delay
        while due := [entry for entry in self.pending if entry[0] <= target]:
            entry = min(due)
            self.pending.remove(entry)
            when, _, name, key, interval, (action, other) = entry
            self.now = max(self.now, when)
            self.trace.append((self.now, name))
            wanted = True
            if action == "remove":
                self.remove(other)
                wanted = key is None or other != key
            elif action == "submit":
                self.submit(f"{name}+", 2, other, None, ("nothing", None))
                wanted = key is None or other != key
            elif action == "sleep":
                self.now += 3
            if wanted and interval is not None:
                self.push(interval, name, key, interval, ("nothing", None))
        self.now = max(self.now, target)


keys = st.sampled_from([None, "a", "b", "c"])
actions = st.tuples(st.sampled_from(["nothing", "remove", "submit", "sleep", "fail"]), keys)
operations = st.one_of(
    st.tuples(st.just("submit"), st.integers(0, 6), keys, st.none() | st.integers(1, 5), actions),
    st.tuples(st.just("schedule"), st.integers(0, 6), keys, st.integers(1, 5), actions),
    st.tuples(st.just("remove"), keys),
    st.tuples(st.just("advance"), st.integers(0, 8)),
)


@given(st.lists(operations, max_size=40))
def test_any_program_runs_as_in_the_model(impl, program):
    from pysched.testing import ManualClock

    clock, model, trace = ManualClock(), Model(), []
    scheduler = impl.CommandScheduler(BasicSchedulerContext(), clock=clock)
    scheduler.start()

    class Actor:
        def __init__(self, name, key, interval, action):
            self.name, self.key, self.repeat_interval_s, self.action = name, key, interval, action

        def execute(self, context):
            trace.append((clock.time(), self.name))
            (action, other), self.action = self.action, ("nothing", None)
            if action == "remove":
                scheduler.remove(other)
            elif action == "submit":
                scheduler.submit(Actor(f"{self.name}+", other, None, self.action), 2)
            elif action == "sleep":
                clock.sleep(3)
            elif action == "fail":
                raise ValueError

    for number, (operation, *arguments) in enumerate(program):
        if operation in ("submit", "schedule"):
            delay, key, interval, action = arguments
            if operation == "submit":
                scheduler.submit(Actor(f"{number}", key, interval, action), delay)
            else:
                scheduler.schedule(Actor(f"{number}", None, None, action), interval, delay, key)
            model.submit(f"{number}", delay, key, interval, action)
        elif operation == "remove":
            scheduler.remove(*arguments)
            model.remove(*arguments)
        else:
            runs = len(trace)
            assert clock.advance(*arguments) == len(trace) - runs
            model.advance(*arguments)
            assert trace == model.trace
        scheduler._check()
    scheduler.stop()


def test_a_command_whose_own_execute_hides_that_of_its_class_with_none_is_no_command(make, clock):
    class Hidden:
        def execute(self, context):
            raise AssertionError("hidden")

    hidden = Hidden()
    hidden.execute = None
    scheduler = make(clock=clock)
    scheduler.start()
    for call in (lambda: scheduler.submit(hidden), lambda: scheduler.schedule(hidden, 1)):
        with pytest.raises(TypeError, match=r"must have an execute\(context\) method"):
            call()
    assert clock.advance(10) == 0


def test_an_execute_of_none_is_an_error_when_it_runs_if_it_was_not_one_before(make, clock):
    """The compiled engine looks at a class once: what hides its `execute` in one command is met at the run."""

    class Command:
        def execute(self, context):
            pass

    errors = []
    scheduler = make(clock=clock, on_error=lambda exc, command: errors.append((type(exc), command)))
    scheduler.start()
    scheduler.submit(Command())
    hidden = Command()
    hidden.execute = None
    try:
        scheduler.submit(hidden)
    except TypeError as error:
        errors.append((type(error), hidden))
    clock.advance(1)
    assert errors == [(TypeError, hidden)]
