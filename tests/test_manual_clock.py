"""ManualClock: nothing happens but in advance(), and there in the order of (due, age of the engine)."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from support import WAIT, in_other_thread, nothing

from pysched.clock import NEVER, Clock, DrivingClock
from pysched.testing import ManualClock

YEAR_2000 = 946_684_800 * 10**9


class Driven:
    """The least that a clock can drive: a list of (due, callback)."""

    def __init__(self, clock, *timers):
        self.clock = clock
        self.timers = sorted(timers, key=lambda timer: timer[0])
        self.age = clock.enlist()
        clock.attach(self.age, self)

    def _next_due_ns(self):
        return self.timers[0][0] if self.timers else None

    def _run_next(self, now_ns):
        if not self.timers or self.timers[0][0] > now_ns:
            return False
        self.timers.pop(0)[1]()
        return True


# -- time -----------------------------------------------------------------------------------------------


def test_it_stands_still_at_zero_and_the_year_2000():
    clock = ManualClock()
    assert isinstance(clock, Clock)
    assert isinstance(clock, DrivingClock)
    assert (clock.time(), clock.time_ns(), clock.wall_ns()) == (0.0, 0, YEAR_2000)
    assert clock.now() == datetime(2000, 1, 1, tzinfo=timezone.utc)
    assert type(clock.time()) is float
    assert repr(clock) == "<ManualClock time=0.0>"


@pytest.mark.parametrize(
    "wall",
    [
        datetime(2024, 2, 29, 12, tzinfo=timezone.utc),
        datetime(1969, 12, 31, tzinfo=timezone.utc),
        datetime(2024, 7, 1, 0, 30, 0, 5, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_the_wall_clock_starts_where_it_is_told(wall):
    clock = ManualClock(wall)
    assert clock.now() == wall
    assert clock.now().utcoffset() == timedelta(0)
    clock.advance(1.5)
    assert clock.now() == wall + timedelta(seconds=1.5)


def test_a_naive_wall_clock_is_refused():
    with pytest.raises(ValueError, match="wall.*aware"):
        ManualClock(datetime(2024, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("wall", [0, 1.5, "2024-01-01", None])
def test_a_wall_clock_that_is_no_datetime_is_refused(wall):
    with pytest.raises(TypeError, match="wall"):
        ManualClock(wall)


@pytest.mark.parametrize(
    ("duration", "ns"),
    [
        (0, 0),
        (3, 3 * 10**9),
        (0.25, 250_000_000),
        (1e-9, 1),
        (Decimal("0.1"), 100_000_000),
        (timedelta(days=1, microseconds=1), 86_400 * 10**9 + 1000),
        (timedelta(0), 0),
        ("250ms", 250_000_000),
        ("3d", 3 * 86_400 * 10**9),
        ("1h30m", 5_400 * 10**9),
        ("1d2h3m4s5ms", (86_400 + 7_200 + 180 + 4) * 10**9 + 5_000_000),
        ("1m1ms", 60_001_000_000),
        ("90s", 90 * 10**9),
        ("0s", 0),
        ("007m", 420 * 10**9),
        (" 2s\t\n", 2 * 10**9),
    ],
)
def test_durations(duration, ns):
    for move in (ManualClock.advance, ManualClock.sleep):
        clock = ManualClock()
        move(clock, duration)
        assert (clock.time_ns(), clock.wall_ns()) == (ns, YEAR_2000 + ns)
    for move in (ManualClock.suspend, ManualClock.step_wall):
        clock = ManualClock()
        move(clock, duration)
        assert (clock.time_ns(), clock.wall_ns()) == (0, YEAR_2000 + ns)


@pytest.mark.parametrize("method", ["advance", "sleep", "suspend", "step_wall"])
@pytest.mark.parametrize(
    "duration",
    [
        "", " ", "5", "s", "1 s", "1h 30m", "30m1h", "1h1h", "1.5h", "-1s", "+1s", "1S", "1w", "1us", "1ms1s",
        "1h30", "1_000s", "\N{ARABIC-INDIC DIGIT ONE}s", "1s\0", float("nan"), float("inf"), 10**400,
    ],
)  # fmt: skip
def test_what_is_no_duration_is_a_value_error_and_moves_nothing(method, duration):
    clock = ManualClock()
    if (method, duration) == ("step_wall", "-1s"):
        clock.step_wall(duration)  # the only one that goes back
        assert clock.now() == datetime(1999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
        return
    with pytest.raises(ValueError, match="^duration must be "):
        getattr(clock, method)(duration)
    assert (clock.time_ns(), clock.wall_ns()) == (0, YEAR_2000)


@pytest.mark.parametrize("method", ["advance", "sleep", "suspend", "step_wall"])
@pytest.mark.parametrize("duration", [None, True, b"1s", [1], object()])
def test_what_is_no_number_is_a_type_error(method, duration):
    clock = ManualClock()
    with pytest.raises(TypeError, match="^duration must be "):
        getattr(clock, method)(duration)
    assert (clock.time_ns(), clock.wall_ns()) == (0, YEAR_2000)


@pytest.mark.parametrize("method", ["advance", "sleep", "suspend"])
@pytest.mark.parametrize("duration", [-1, -1e-9, timedelta(microseconds=-1)])
def test_time_does_not_go_back(method, duration):
    clock = ManualClock()
    with pytest.raises(ValueError, match="^duration must be finite and >= 0, got"):
        getattr(clock, method)(duration)
    assert clock.time_ns() == 0


@pytest.mark.parametrize("duration", [-3600, -3600.0, timedelta(hours=-1)])
def test_the_wall_clock_may_be_set_back(duration):
    clock = ManualClock()
    clock.step_wall(duration)
    assert (clock.time_ns(), clock.wall_ns()) == (0, YEAR_2000 - 3600 * 10**9)


@pytest.mark.parametrize("duration", [1e18, 10**18, 1e300, f"{10**18}s", "9" * 5000 + "d"])
def test_a_huge_advance_ends_at_the_end_of_time(engine, clock, duration):
    engine.call_later(1, nothing)
    engine.call_every(10**9, nothing)
    engine.call_later(1e18, pytest.fail, "ran")
    assert clock.advance(duration) == 10
    assert clock.time_ns() == NEVER
    assert clock.advance(duration) == 0
    clock.sleep(duration)
    assert clock.time_ns() == NEVER


def test_nobody_waits_for_it():
    with pytest.raises(RuntimeError, match="wait"):
        ManualClock().wait(threading.Event(), 1)


# -- advance --------------------------------------------------------------------------------------------


def test_time_stands_at_each_due_instant_and_ends_at_the_target(engine, clock):
    seen = []
    for delay in (3, 1, 2, 2, 5):
        engine.call_later(delay, lambda: seen.append(clock.time()))
    assert clock.advance(4) == 4
    assert seen == [1, 2, 2, 3]
    assert clock.time() == 4
    assert clock.advance(1) == 1


def test_what_is_due_exactly_at_the_target_runs(engine, clock):
    engine.call_later(0.1 + 0.2, nothing)
    assert clock.advance(0.2999999) == 0
    assert clock.advance(0.0000001) == 1


def test_what_becomes_due_on_the_way_runs_too(engine, clock):
    seen = []

    def chain(left):
        seen.append(clock.time())
        if left:
            engine.call_later(1, chain, left - 1)

    engine.call_later(0, chain, 100)
    assert clock.advance(50) == 51
    assert seen == list(range(51))


def test_advancing_by_zero_runs_what_is_due(engine, clock):
    engine.call_later(0, nothing)
    assert clock.advance(0) == 1
    assert clock.advance(0) == 0


def test_nothing_is_done_for_what_is_not_attached(make_engine, clock):
    engine = make_engine(clock=clock)
    engine.call_later(1, nothing)
    assert clock.advance(5) == 0
    engine.start()
    engine.stop()
    assert clock.advance(5) == 0
    engine.start()
    assert clock.advance(0) == 1


def test_sleeping_in_a_callback_makes_others_late_and_starts_none(engine, clock):
    seen = []

    def sleep():
        seen.append(("a", clock.time()))
        clock.sleep(10)
        seen.append(("b", clock.time()))

    engine.call_later(1, sleep)
    engine.call_later(2, lambda: seen.append(("c", clock.time())))
    engine.call_later(11.5, lambda: seen.append(("d", clock.time())))
    assert clock.advance(3) == 2
    assert seen == [("a", 1), ("b", 11), ("c", 11)]
    assert clock.time() == 11
    assert clock.advance(1) == 1


def test_only_what_is_due_by_the_target_runs_however_far_a_callback_sleeps(engine, clock):
    seen = []
    engine.call_later(1, clock.sleep, 100)
    engine.call_later(2, seen.append, "by the target")
    engine.call_later(3, seen.append, "after it")
    assert clock.advance(2) == 2
    assert (seen, clock.time()) == (["by the target"], 101)
    assert clock.advance(0) == 1


def test_sleeping_outside_of_callbacks_starts_nothing(engine, clock):
    seen = []
    engine.call_later(1, lambda: seen.append(clock.time()))
    clock.sleep(5)
    assert seen == []
    assert clock.advance(0) == 1
    assert seen == [5]


# -- several on one clock -------------------------------------------------------------------------------


def test_at_one_instant_the_older_goes_first():
    clock, seen = ManualClock(), []
    drivens = [
        Driven(clock, (10, lambda name=name: seen.append((name, clock.time_ns()))), (20, nothing)) for name in "abc"
    ]
    clock.detach(drivens[0])
    clock.attach(drivens[0].age, drivens[0])  # a restart makes it no younger
    assert clock.advance(10e-9) == 3
    assert seen == [("a", 10), ("b", 10), ("c", 10)]


def test_over_several_the_earliest_goes_first():
    clock, seen = ManualClock(), []
    for name, dues in (("a", (1, 4, 6)), ("b", (2, 3, 6))):
        Driven(clock, *[(due, lambda name=name: seen.append((clock.time_ns(), name))) for due in dues])
    clock.advance(1)
    assert seen == [(1, "a"), (2, "b"), (3, "b"), (4, "a"), (6, "a"), (6, "b")]


def test_engines_share_a_clock_in_the_order_of_their_making(make_engine, clock):
    seen = []
    first, second = make_engine(clock=clock), make_engine(clock=clock)
    second.call_later(1, seen.append, "second")
    first.call_later(1, seen.append, "first")
    second.start()
    first.start()
    assert clock.advance(1) == 2
    assert seen == ["first", "second"]


def test_a_callback_may_attach_and_detach():
    clock, seen = ManualClock(), []
    doomed = Driven(clock, (2, lambda: seen.append("doomed")))

    def swap():
        clock.detach(doomed)
        Driven(clock, (2, lambda: seen.append("new")))

    Driven(clock, (1, swap))
    assert clock.advance(1) == 2
    assert seen == ["new"]


def test_detaching_what_was_never_attached_does_nothing():
    clock = ManualClock()
    stranger = Driven(ManualClock())
    clock.detach(stranger)


def test_a_clock_keeps_what_it_drives_alive_and_no_more():
    import gc
    import weakref

    clock = ManualClock()
    reference = weakref.ref(Driven(clock))
    gc.collect()
    driven = reference()
    assert driven is not None
    clock.detach(driven)
    del driven
    gc.collect()
    assert reference() is None


# -- misuse ---------------------------------------------------------------------------------------------


def test_advance_in_a_callback_is_an_error_and_breaks_nothing(make_engine, clock):
    errors = []
    engine = make_engine(clock=clock, on_error=lambda exc, handle: errors.append(exc))
    engine.start()
    engine.call_later(1, clock.advance, 1)
    engine.call_later(2, nothing)
    assert clock.advance(3) == 2
    [error] = errors
    assert isinstance(error, RuntimeError)
    assert "sleep()" in str(error)
    assert clock.time() == 3


def test_a_second_thread_in_advance_is_an_error(engine, clock):
    inside, release, errors = threading.Event(), threading.Event(), []

    def block():
        inside.set()
        release.wait(WAIT)

    def advance():
        assert inside.wait(WAIT)
        try:
            clock.advance(1)
        except RuntimeError as error:
            errors.append(str(error))
        release.set()

    engine.call_later(1, block)
    thread = threading.Thread(target=advance)
    thread.start()
    assert clock.advance(2) == 1
    thread.join(WAIT)
    assert len(errors) == 1
    assert "another thread" in errors[0]
    assert clock.time() == 2


def test_threads_may_take_turns(clock):
    assert in_other_thread(lambda: clock.advance(1))
    clock.advance(1)
    assert clock.time() == 2


def test_other_threads_may_look_and_sleep_meanwhile(engine, clock):
    engine.call_later(1, lambda: in_other_thread(lambda: (clock.sleep(5), clock.time(), clock.now(), clock.wall_ns())))
    clock.advance(2)
    assert clock.time() == 6


def test_a_callback_that_comes_back_at_once_for_ever_is_an_error(monkeypatch, engine, clock):
    monkeypatch.setattr("pysched.testing._CALLBACKS_AN_INSTANT", 100)

    def again():
        engine.call_later(0, again)

    engine.call_later(1, again)
    with pytest.raises(RuntimeError, match=r"more than 100 callbacks ran at 1\.0 s"):
        clock.advance(2)
    assert clock.time() == 1
    clock.sleep(1)
    assert engine.stop()
    assert clock.advance(1) == 0


def test_many_callbacks_at_many_instants_are_fine(monkeypatch, engine, clock):
    monkeypatch.setattr("pysched.testing._CALLBACKS_AN_INSTANT", 100)
    engine.call_every(1, nothing)
    engine.call_many([1] * 99, nothing)
    assert clock.advance(500) == 599
    engine.call_many([1] * 150, clock.sleep, [(1e-9,)] * 150)
    assert clock.advance(1) == 151


def test_what_a_driven_raises_leaves_advance_usable():
    clock = ManualClock()

    def fail():
        raise KeyboardInterrupt

    Driven(clock, (1, fail), (2, nothing))
    with pytest.raises(KeyboardInterrupt):
        clock.advance(1)
    assert clock.time_ns() == 1
    assert clock.advance(1) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_advances_may_use_its_clock(engine, clock):
    inside, release = threading.Event(), threading.Event()
    engine.call_later(1, lambda: (inside.set(), release.wait(WAIT)))
    thread = threading.Thread(target=clock.advance, args=(1,))
    thread.start()
    try:
        assert inside.wait(WAIT)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                clock.advance(1)
                status = 0 if clock.time() == 2 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        release.set()
        thread.join(WAIT)


@pytest.mark.parametrize("move", ["advance", "sleep", "suspend", "step_wall"])
@pytest.mark.parametrize("value", [None, [], 1j, True])
def test_the_message_says_what_a_duration_may_be(clock, move, value):
    with pytest.raises(TypeError, match=r'^duration must be a number of seconds, a string like "1h30m" or a timedelta'):
        getattr(clock, move)(value)
    assert clock.time() == 0
