"""`Scheduler`: steps of the wall clock, on a ManualClock and on a clock of the user's behind the protocol."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from support import WAIT, comes_to_rest, nothing, pause, wait_until

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = 3600


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    """Notes the wall clock at each call and the slot, in seconds."""
    return lambda ctx: runs.append(((clock.now() - T0).total_seconds(), (ctx.scheduled_time - T0).total_seconds()))


def slots(runs):
    return [slot for _, slot in runs]


# Forward.


FORWARD = {
    "one": ([(330, 300)], 4),
    "none": ([], 5),
    "all": ([(330, slot) for slot in (60, 120, 180, 240, 300)], 0),
}


@pytest.mark.parametrize("policy", FORWARD)
@pytest.mark.parametrize("how", ["step_wall", "suspend"])
def test_slots_passed_over_are_missed(scheduler, clock, runs, note, policy, how):
    scheduler.cron("* * * * *", note, catch_up=policy, id="k")
    clock.advance(30)
    getattr(clock, how)(300)
    clock.advance(0)
    expected, missed = FORWARD[policy]
    assert runs == expected
    assert scheduler.get_job("k").missed_count == missed
    clock.advance(30)
    assert runs == [*expected, (360, 360)]


@pytest.mark.parametrize("policy", FORWARD)
def test_slots_passed_over_after_runs_are_missed_too(scheduler, clock, runs, note, policy):
    """Those were not in progress when the slots were due."""
    scheduler.cron("* * * * *", note, catch_up=policy, id="k")
    clock.advance(70)
    runs.clear()
    clock.step_wall(300)
    clock.advance(0)
    info = scheduler.get_job("k")
    assert info.coalesced_count == info.missed_count == FORWARD[policy][1]
    assert len(runs) == len(FORWARD[policy][0])


def test_with_a_grace(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note, misfire_grace_time=20, id="k")
    clock.step_wall(330)
    clock.advance(0)
    assert runs == []
    assert scheduler.get_job("k").missed_count == 5


def test_at(scheduler, clock, runs, note):
    """One that was passed over runs at once, one that comes nearer in time."""
    scheduler.at(moment(100), note)
    scheduler.at(moment(1000), note)
    scheduler.at(moment(100), note, misfire_grace_time=10)
    clock.step_wall(300)
    clock.advance(0)
    assert runs == [(300, 100)]
    clock.advance(699)
    assert len(runs) == 1
    clock.advance(1)
    assert runs[-1] == (1000, 1000)
    assert len(scheduler) == 0


def test_a_step_of_less_than_a_second_misses_nothing(scheduler, clock, runs, note):
    """It makes due sooner or later what is on the wall clock, no more."""
    scheduler.cron("* * * * *", note, id="k")
    for step in (0.9, -0.9, 0.5, -0.5, 0.001):
        clock.step_wall(step)
        clock.advance(60)
    assert slots(runs) == [60, 120, 180, 240, 300]
    assert all(at == slot for at, slot in runs)
    assert scheduler.get_job("k").missed_count == 0


# Back by less than three hours.


@pytest.mark.parametrize("back", [1, 60, 300, 3 * HOUR - 1])
def test_back_wildcards_are_planned_anew_and_minutes_repeat(scheduler, clock, runs, note, back):
    scheduler.cron("* * * * *", note, id="k")
    clock.advance(4 * HOUR)
    runs.clear()
    clock.step_wall(-back)
    clock.advance(120)
    now = 4 * HOUR - back
    first = (now // 60 + 1) * 60
    assert runs == [(first, first), (first + 60, first + 60)]


def test_back_fixed_times_keep_their_next_slot(scheduler, clock, runs, note):
    """So a daily job does not run twice."""
    scheduler.cron("30 1 * * *", note, id="k")
    clock.advance(2 * HOUR)
    assert slots(runs) == [5400]
    clock.step_wall(-HOUR)
    clock.advance(HOUR)
    assert slots(runs) == [5400]
    assert scheduler.get_job("k").next_run_at == moment(24 * HOUR + 5400)
    clock.advance(24 * HOUR)
    assert runs == [(5400, 5400), (24 * HOUR + 5400, 24 * HOUR + 5400)]


@pytest.mark.parametrize(
    ("expression", "repeats"),
    [("* * * * *", True), ("*/10 * * * *", True), ("*/10 1 * * *", True), ("30 * * * *", True), ("30 1 * * *", False)],
)
def test_back_by_the_first_character(scheduler, clock, runs, note, expression, repeats):
    scheduler.cron(expression, note)
    clock.advance(1.75 * HOUR)
    before = len(runs)
    clock.step_wall(-0.5 * HOUR)
    clock.advance(0.5 * HOUR)
    assert (len(runs) > before) is repeats


@pytest.mark.parametrize("back", [60, HOUR, 3 * HOUR, 100 * HOUR])
def test_back_at_keeps_its_moment(scheduler, clock, runs, note, back):
    """It comes when the wall clock says so, once, however far that is now."""
    scheduler.at(moment(4 * HOUR + 60), note)
    clock.advance(4 * HOUR)
    clock.step_wall(-back)
    clock.advance(back + 59)
    assert runs == []
    clock.advance(1)
    assert runs == [(4 * HOUR + 60, 4 * HOUR + 60)]


def test_back_at_that_has_run_does_not_run_again(scheduler, clock, runs, note):
    scheduler.at(moment(60), note)
    clock.advance(100)
    clock.step_wall(-80)
    clock.advance(1000)
    assert runs == [(60, 60)]


def test_it_is_never_early(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note)
    for step in (-30, 20, -90, 45, -1.5, -7000):
        clock.step_wall(step)
        clock.advance(50)
    assert all(at >= slot for at, slot in runs)


# Back by three hours or more.


def test_back_by_three_hours_all_calendars_are_planned_anew(scheduler, clock, runs, note):
    scheduler.cron("30 1 * * *", note, id="fixed")
    clock.advance(4 * HOUR)
    assert slots(runs) == [5400]
    clock.step_wall(-3 * HOUR)
    assert scheduler.get_job("fixed").next_run_at == moment(5400)
    clock.advance(HOUR)
    assert slots(runs) == [5400, 5400]


def test_until_and_start_at_hold_when_planned_anew(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note, start_at=moment(4 * HOUR - 60), until=moment(4 * HOUR + 150))
    clock.advance(4 * HOUR + 90)
    assert slots(runs) == [4 * HOUR - 60, 4 * HOUR, 4 * HOUR + 60]
    runs.clear()
    clock.step_wall(-4 * HOUR)
    clock.advance(4 * HOUR + 1000)
    assert slots(runs) == [4 * HOUR - 60, 4 * HOUR, 4 * HOUR + 60, 4 * HOUR + 120]
    assert len(scheduler) == 0


def test_a_century_back_and_forth(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note, id="k")
    scheduler.every("1m", nothing, id="e")
    clock.step_wall(timedelta(days=-36525))
    clock.advance(60)
    assert len(runs) == 1
    clock.step_wall(timedelta(days=36525))
    clock.advance(60)
    assert slots(runs)[-1] == 120
    assert scheduler.get_job("e").run_count == 2
    scheduler._check()


# Pauses.


@pytest.mark.parametrize("pause", ["its own", "of all"])
@pytest.mark.parametrize("step", [330, -330])
def test_in_a_pause(scheduler, clock, runs, note, pause, step):
    """Slots pass by, and the next one is that of the new time."""
    scheduler.cron("* * * * *", note, id="k")
    clock.advance(1000)
    runs.clear()
    if pause == "its own":
        scheduler.pause_job("k")
    else:
        scheduler.pause()
    clock.step_wall(step)
    clock.advance(5)
    assert runs == []
    scheduler.resume_job("k")
    scheduler.resume()
    clock.advance(60)
    now = 1005 + step
    following = (now // 60 + 1) * 60
    assert runs == [(following, following)]
    info = scheduler.get_job("k")
    assert info.missed_count == 0
    if step > 0:
        assert info.paused_count == 6


def test_at_in_a_pause(scheduler, clock, runs, note):
    scheduler.at(moment(100), note, id="k", misfire_grace_time=1)
    scheduler.pause_job("k")
    clock.step_wall(200)
    clock.advance(10)
    scheduler.resume_job("k")
    clock.advance(0)
    assert runs == [(210, 100)]


# What lives on the monotonic clock.


@pytest.mark.parametrize("step", [5 * HOUR, -5 * HOUR, 1.5, -1.5, timedelta(days=36525)])
def test_what_does_not_move(make_scheduler, clock, step):
    """Intervals, delays, retries, time-outs."""
    scheduler, told = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()

    def retried(ctx):
        told.append(("retried", ctx.attempt))
        if ctx.attempt == 1:
            raise ValueError

    scheduler.every("10s", lambda: told.append(("every", clock.time())))
    scheduler.after("25s", lambda: told.append(("after", clock.time())))
    scheduler.every("1h", lambda ctx: ctx.cancel.wait(5) or told.append("no"), timeout=3, start_at=moment(22), id="t")
    scheduler.after("5s", retried, max_retries=1, retry_backoff=20)
    scheduler.cron("0 0 1 1 *", nothing)
    clock.advance(7)
    clock.step_wall(step)
    clock.advance(28)
    assert [each for each in told if each[0] == "every"] == [("every", 10), ("every", 20), ("every", 30)]
    assert ("after", 25) in told
    assert [each for each in told if each[0] == "retried"] == [("retried", 1), ("retried", 2)]
    assert scheduler.get_job("t").timeout_count == 1
    assert "no" not in told


def test_scheduled_times_of_intervals_are_told_on_the_new_clock(scheduler, clock, runs, note):
    scheduler.every("10s", note)
    clock.advance(10)
    clock.step_wall(1000)
    clock.advance(10)
    assert runs == [(10, 10), (1020, 1020)]


# Order.


@pytest.mark.parametrize("step", [0.4, -0.4, 30, -30])
def test_jobs_of_one_slot_keep_their_order_whenever_they_were_registered(scheduler, clock, step):
    """The clocks drift against each other meanwhile: equal slots stay equal."""
    order = []
    for number in range(8):
        scheduler.cron("0 * * * *", lambda number=number: order.append(number), id=f"k{number}")
        clock.advance(1)
        clock.step_wall(step)
    if step == 30:
        clock.step_wall(-200)
    clock.advance(HOUR)
    assert order == list(range(8))


@pytest.mark.parametrize("step", [300, -300])
def test_order_after_a_step(scheduler, clock, step):
    order = []
    for number in range(20):
        scheduler.cron("* * * * *", lambda number=number: order.append(number))
        scheduler.at(moment(900), lambda number=number: order.append(100 + number))
    clock.advance(590)
    order.clear()
    clock.step_wall(step)
    clock.advance(60)
    if step > 0:
        assert [each for each in order if each < 100] == [*range(20), *range(20)]
        assert [each for each in order if each >= 100] == list(range(100, 120))
    else:
        assert order == list(range(20))


# A clock of the user's, with a real loop.


class SettableClock:
    """Real time, but for the wall clock, which can be set; waits as long as it is told to."""

    def __init__(self, wall=T0):
        self.offset_ns = int(wall.timestamp()) * 10**9 - time.monotonic_ns()

    def time_ns(self):
        return time.monotonic_ns()

    def wall_ns(self):
        return time.monotonic_ns() + self.offset_ns

    def wait(self, event, timeout):
        event.wait(timeout)

    def step(self, seconds):
        self.offset_ns += round(seconds * 1e9)


@pytest.fixture
def settable():
    return SettableClock(moment(30))


def within(seconds, predicate):
    """How long it took, at most `seconds`, and some more for a loaded machine."""
    began = time.monotonic()
    assert wait_until(predicate, WAIT)
    took = time.monotonic() - began
    assert took < seconds + 5, f"noticed after {took} s"


@pytest.mark.real_time
@pytest.mark.parametrize(("policy", "count"), [("one", 1), ("none", 0), ("all", 3)])
def test_a_step_forward_is_noticed_within_a_second(make_scheduler, settable, policy, count):
    scheduler, slots = make_scheduler(2, clock=settable), []
    scheduler.cron("0 * * * *", lambda ctx: slots.append(ctx.scheduled_time), catch_up=policy, id="k")
    scheduler.start_background()
    pause(0.05)  # into its sleep
    settable.step(3 * HOUR)
    missed = 3 if policy == "none" else 3 - count
    within(1, lambda: len(slots) == count and scheduler.get_job("k").missed_count == missed)
    assert slots == [moment(n * HOUR) for n in range(4 - count, 4)]
    assert scheduler.get_job("k").next_run_at == moment(4 * HOUR)


@pytest.mark.real_time
def test_at_is_noticed_within_a_second(make_scheduler, settable):
    scheduler, done = make_scheduler(1, clock=settable), threading.Event()
    scheduler.at(moment(HOUR), done.set)
    scheduler.start_background()
    assert not done.wait(0.05)
    settable.step(HOUR)
    within(1, done.is_set)


@pytest.mark.real_time
@pytest.mark.parametrize("how", ["registered", "rescheduled", "resumed"])
def test_a_loop_that_sleeps_without_looking_begins_to_look(make_scheduler, settable, how):
    """Without jobs on the wall clock nobody looks at it; with the first one somebody does."""
    scheduler, done = make_scheduler(1, clock=settable), threading.Event()
    scheduler.every("1h", done.set if how == "rescheduled" else nothing, id="k")
    if how == "resumed":
        scheduler.at(moment(HOUR), done.set, id="a")
        scheduler.pause_job("a")
    scheduler.start_background()
    pause(0.1)  # into its sleep
    if how == "registered":
        scheduler.at(moment(HOUR), done.set)
    elif how == "rescheduled":
        scheduler.reschedule_job("k", at=moment(HOUR))
    else:
        scheduler.resume_job("a")
    assert not done.wait(0.05)
    settable.step(2 * HOUR)
    within(1, done.is_set)


@pytest.mark.real_time
def test_a_step_back_is_noticed_before_the_old_time_comes(make_scheduler, settable):
    """Slots that were a second away are 40 s and an hour away now."""
    scheduler, slots = make_scheduler(1, clock=settable), []
    settable.step(29)
    scheduler.cron("* * * * *", lambda ctx: slots.append(ctx.scheduled_time), id="wild")
    scheduler.at(moment(60.5), lambda: slots.append("at"), id="at")
    scheduler.start_background()
    settable.step(20 - HOUR)
    pause(1.7)
    assert slots == []
    assert scheduler.get_job("wild").next_run_at == moment(120 - HOUR)
    assert scheduler.get_job("at").next_run_at == moment(60.5)


@pytest.mark.real_time
def test_the_next_run_of_a_calendar_is_its_slot_to_the_nanosecond(make_scheduler):
    """The two clocks are never read at one instant: that must not be seen, least of all in whole seconds."""
    scheduler = make_scheduler(1)
    scheduler.cron("0 0 1 1 *", nothing, id="k")
    scheduler.at(datetime(2200, 1, 1, tzinfo=UTC), nothing, id="a")
    scheduler.start_background()
    slot = scheduler.next_runs("k", 1)[0]
    for _ in range(200):
        assert scheduler.get_job("k").next_run_at == slot
        assert scheduler.get_job("a").next_run_at == datetime(2200, 1, 1, tzinfo=UTC)
        assert scheduler.list_jobs()[0]["next_run_at"] == str(round(slot.timestamp()))
        pause(0.0005)


@pytest.mark.real_time
@pytest.mark.parametrize("beside", ["alone", "a calendar"])
def test_a_grid_that_begins_at_a_time_of_the_wall_clock_is_shown_to_the_nanosecond(make_scheduler, beside):
    scheduler, seen = make_scheduler(1), []
    if beside == "a calendar":
        scheduler.cron("0 0 1 1 *", nothing)
    now = datetime.now(UTC).replace(microsecond=0)
    for number in range(50):
        scheduler.every("1h", nothing, start_at=now + timedelta(hours=1), id=f"k{number}")
    scheduler.every("100ms", lambda ctx: seen.append(ctx.scheduled_time), start_at=now - timedelta(hours=1))
    scheduler.start_background()
    for number in range(50):
        assert scheduler.get_job(f"k{number}").next_run_at == now + timedelta(hours=1)
        assert scheduler.next_runs(f"k{number}", 2)[1] == now + timedelta(hours=2)
    assert wait_until(lambda: len(seen) > 3)
    assert {slot.microsecond % 100_000 for slot in seen} == {0}


@pytest.mark.real_time
def test_intervals_do_not_move_on_a_real_loop(make_scheduler, settable):
    scheduler, times = make_scheduler(1, clock=settable), []
    scheduler.every("50ms", lambda: times.append(time.monotonic()), id="k")
    scheduler.cron("0 0 1 1 *", nothing)
    scheduler.start_background()
    for step in (HOUR, -HOUR, 10 * HOUR, -10 * HOUR, 1.5):
        count = len(times)
        settable.step(step)
        assert wait_until(lambda count=count: len(times) > count + 1)
    assert scheduler.get_job("k").missed_count <= len(times)
    assert times == sorted(times)


@pytest.mark.real_time
def test_no_step_no_wake_ups_but_the_look(make_scheduler, settable):
    """With jobs on the wall clock it is looked at about once a second; without, never."""
    scheduler = make_scheduler(1, clock=settable)
    scheduler.every("1h", nothing)
    scheduler.start_background()
    assert comes_to_rest(lambda: scheduler.stats().wakeups, 1.2)
    scheduler.cron("0 0 1 1 *", nothing)
    before = scheduler.stats().wakeups
    pause(2.2)
    assert scheduler.stats().wakeups - before <= 6
