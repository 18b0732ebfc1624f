"""`Scheduler`: slots that were missed, as the scheduler was late: `misfire_grace_time`, then `catch_up`."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest
from support import nothing

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
POLICIES = ("one", "none", "all")
all_policies = pytest.mark.parametrize("policy", POLICIES)
INTERVALS = {
    "every": lambda s, f, **o: s.every("1m", f, id="k", **o),
    "cron": lambda s, f, **o: s.cron("* * * * *", f, id="k", **o),
}
both_kinds = pytest.mark.parametrize("kind", INTERVALS)
SINGLES = {
    "after": lambda s, f, **o: s.after(60, f, id="k", **o),
    "at": lambda s, f, **o: s.at(moment(60), f, id="k", **o),
}
once = pytest.mark.parametrize("kind", SINGLES)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    """Notes when it is called and for which slot, both in seconds of the clock; the wall clock must not be set."""
    return lambda ctx: runs.append((clock.time(), (ctx.scheduled_time - T0).total_seconds()))


@pytest.fixture
def slots(runs, clock):
    """Notes the slot only, in minutes of the wall clock."""
    return lambda ctx: runs.append((ctx.scheduled_time - T0) / timedelta(minutes=1))


def counts(scheduler, job_id="k"):
    info = scheduler.get_job(job_id)
    return info.missed_count, info.coalesced_count, info.started_count


# catch_up: which of the slots that were missed are run.


BEFORE_THE_START = {
    "one": ([(200, 180)], (2, 2, 1)),
    "none": ([], (3, 3, 0)),
    "all": ([(200, 60), (200, 120), (200, 180)], (0, 0, 3)),
}


@both_kinds
@all_policies
def test_slots_before_the_start(make_scheduler, clock, runs, note, kind, policy):
    scheduler = make_scheduler(clock=clock)
    INTERVALS[kind](scheduler, note, catch_up=policy)
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert (runs, counts(scheduler)) == BEFORE_THE_START[policy]
    clock.advance(40)
    assert runs[len(BEFORE_THE_START[policy][0]) :] == [(240, 240)]


@both_kinds
@all_policies
def test_slots_while_another_job_blocks_the_only_worker(scheduler, clock, runs, note, kind, policy):
    scheduler.after(30, lambda: clock.sleep(170))
    INTERVALS[kind](scheduler, note, catch_up=policy)
    clock.advance(100)
    assert clock.time() == 200
    clock.advance(0)
    assert (runs, counts(scheduler)) == BEFORE_THE_START[policy]
    clock.advance(40)
    assert runs[-1] == (240, 240)


@all_policies
def test_slots_while_the_job_itself_runs_are_not_missed(scheduler, clock, runs, policy):
    """They came while it was busy: that is for `overlap` to decide."""

    def job(ctx):
        runs.append(clock.time())
        if len(runs) == 1:
            clock.sleep(190)

    scheduler.every("1m", job, catch_up=policy, id="k")
    clock.advance(400)
    assert runs == [60, 300, 360]
    assert counts(scheduler)[:2] == (0, 3)


@pytest.mark.parametrize(
    ("policy", "expected", "missed"), [("one", [3], 2), ("none", [], 3), ("all", [1, 2, 3], 0)], ids=POLICIES
)
@pytest.mark.parametrize("how", ["suspend", "step_wall"])
def test_slots_of_a_calendar_that_a_suspended_machine_passed_over(
    scheduler, clock, runs, slots, how, policy, expected, missed
):
    scheduler.cron("* * * * *", slots, catch_up=policy, id="k")
    getattr(clock, how)(200)
    clock.advance(0)
    assert runs == expected
    assert counts(scheduler) == (missed, missed, len(expected))
    clock.advance(40)
    assert runs == [*expected, 4]


@all_policies
def test_a_slot_in_time_runs_with_each(scheduler, clock, runs, note, policy):
    scheduler.every("1m", note, catch_up=policy, id="k")
    clock.advance(600)
    assert runs == [(60 * n, 60 * n) for n in range(1, 11)]
    assert counts(scheduler) == (0, 0, 10)


@all_policies
def test_jitter_and_spread_are_not_lateness(scheduler, clock, runs, note, policy):
    scheduler.every("1m", note, catch_up=policy, jitter=20, spread=20, id="k")
    clock.advance(640)
    assert [slot for _, slot in runs] == [60 * n for n in range(1, 11)]
    assert all(0 <= at - slot < 40 for at, slot in runs)
    assert counts(scheduler) == (0, 0, 10)


def test_all_runs_at_most_a_thousand_of_one_gap_and_counts_the_rest(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1s", note, catch_up="all", id="k")
    clock.advance(2500.5)
    scheduler.start_background()
    assert clock.advance(0) == 1000
    assert runs == [(2500.5, slot) for slot in range(1, 1001)]
    assert counts(scheduler) == (1500, 1500, 1000)
    clock.advance(1)
    assert runs[-1] == (2501, 2501)


def test_all_of_exactly_a_thousand_leaves_none_out(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1s", note, catch_up="all", id="k")
    clock.advance(1000)
    scheduler.start_background()
    assert clock.advance(0) == 1000
    assert counts(scheduler) == (0, 0, 1000)


def test_all_is_in_order_with_one_instance_and_with_several(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, max_instances=3, catch_up="all")
    clock.advance(600)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [(600, 60 * n) for n in range(1, 11)]


def test_all_goes_on_while_slots_come(make_scheduler, clock, runs):
    """What is caught up takes time itself: the slots that come meanwhile are not its own fault, yet in order."""
    scheduler = make_scheduler(clock=clock)

    def job(ctx):
        runs.append((ctx.scheduled_time - T0).total_seconds())
        clock.sleep(1)

    scheduler.every("10s", job, catch_up="all", id="k")
    clock.advance(55)
    scheduler.start_background()
    clock.advance(45)
    assert runs == list(range(10, 110, 10))
    assert counts(scheduler) == (0, 0, 10)


def test_all_ends_with_max_runs(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, catch_up="all", max_runs=3)
    clock.advance(600)
    scheduler.start_background()
    clock.advance(600)
    assert runs == [(600, 60), (600, 120), (600, 180)]
    assert len(scheduler) == 0


def test_all_ends_with_until(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, catch_up="all", until=moment(240))
    clock.advance(600)
    scheduler.start_background()
    clock.advance(600)
    assert runs == [(600, 60), (600, 120), (600, 180)]
    assert len(scheduler) == 0


@both_kinds
def test_none_lets_a_job_end_whose_last_slot_was_missed(make_scheduler, clock, runs, note, kind):
    scheduler = make_scheduler(clock=clock)
    INTERVALS[kind](scheduler, note, catch_up="none", until=moment(200))
    clock.advance(600)
    scheduler.start_background()
    clock.advance(0)
    assert runs == []
    assert len(scheduler) == 0


def test_none_does_not_spend_max_runs(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, catch_up="none", max_runs=2)
    clock.advance(210)
    scheduler.start_background()
    clock.advance(600)
    assert runs == [(240, 240), (300, 300)]


@all_policies
def test_the_immediate_run_is_no_slot_that_was_missed(make_scheduler, clock, runs, note, policy):
    """One run at the start, and what is due by then is decided about as ever."""
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, catch_up=policy, immediate=True, id="k")
    clock.advance(30)
    scheduler.start_background()
    clock.advance(60)
    assert len(runs) == 2
    assert runs[0][0] == 30
    assert runs[1] == (60, 60)


@pytest.mark.parametrize(("policy", "caught_up"), [("one", 1), ("none", 0), ("all", 1000)])
def test_slots_of_a_calendar_are_counted_up_to_ten_thousand_a_gap(scheduler, clock, policy, caught_up):
    runs = []
    scheduler.cron("* * * * *", lambda: runs.append(clock.now()), catch_up=policy, id="k")
    began = time.thread_time()
    clock.suspend(timedelta(days=174 * 365, seconds=30))
    clock.advance(0)
    assert time.thread_time() - began < 2, "a gap of 174 years is to be counted in a moment"
    assert len(runs) == caught_up
    assert 9_999 <= counts(scheduler)[0] <= 10_001
    clock.advance(60)
    assert len(runs) == caught_up + 1


@both_kinds
@pytest.mark.parametrize(
    ("options", "missed"),
    [
        ({}, [(9_999, 9_999)]),
        ({"catch_up": "none"}, [(10_000, 10_000)]),
        ({"catch_up": "all"}, [(9_000, 10_000)]),
        ({"misfire_grace_time": "1h"}, [(9_940, 9_940), (59, 9_999)]),
    ],
    ids=["one", "none", "all", "grace"],
)
def test_a_gap_is_one_event_with_its_count_and_its_latest_slot(make_scheduler, clock, kind, options, missed):
    """What the grace leaves out is apart from what is not caught up with."""
    scheduler, events = make_scheduler(clock=clock, explain=2000), []
    scheduler.on("missed", events.append)
    INTERVALS[kind](scheduler, nothing, **options)
    clock.advance(600_030)
    scheduler.start_background()
    clock.advance(0)
    assert [(event.count, event.scheduled_time) for event in events] == [
        (count, moment(60 * latest)) for count, latest in missed
    ]
    late = [each for each in scheduler.explain("k") if each.decision == "late"]
    assert [(each.count, each.scheduled_time) for each in late] == [
        (each.count, each.scheduled_time) for each in events
    ]


# misfire_grace_time: slots that are later are left out, before `catch_up` decides.


WITH_A_GRACE = {
    "one": ([(200, 180)], (2, 2, 1)),
    "none": ([], (3, 3, 0)),
    "all": ([(200, 120), (200, 180)], (1, 1, 2)),
}


@both_kinds
@all_policies
def test_slots_later_than_the_grace_are_left_out_first(make_scheduler, clock, runs, note, kind, policy):
    """80 s: that of 120 is just in time, that of 60 is not."""
    scheduler = make_scheduler(clock=clock)
    INTERVALS[kind](scheduler, note, catch_up=policy, misfire_grace_time=80)
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert (runs, counts(scheduler)) == WITH_A_GRACE[policy]
    clock.advance(40)
    assert runs[-1] == (240, 240)


@both_kinds
@pytest.mark.parametrize(("grace", "ran"), [(20, True), ("19s", False), (timedelta(seconds=20), True), (19.999, False)])
def test_the_grace_is_inclusive(make_scheduler, clock, runs, note, kind, grace, ran):
    scheduler = make_scheduler(clock=clock)
    INTERVALS[kind](scheduler, note, misfire_grace_time=grace)
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert runs == ([(200, 180)] if ran else [])
    assert counts(scheduler)[0] == (2 if ran else 3)
    scheduler._check()


@pytest.mark.parametrize("options", [{"jitter": "50s"}, {"spread": "50s"}, {"jitter": 25, "spread": 25}])
@both_kinds
def test_jitter_and_spread_do_not_use_the_grace_up(scheduler, clock, runs, note, kind, options):
    INTERVALS[kind](scheduler, note, misfire_grace_time=1, **options)
    clock.advance(650)
    assert [slot for _, slot in runs] == [60 * n for n in range(1, 11)]
    assert counts(scheduler)[0] == 0


@pytest.mark.parametrize("option", ["jitter", "spread"])
def test_what_is_late_beside_its_jitter_is_left_out(make_scheduler, clock, runs, note, option):
    """Of slots that wait for a start, those whose own time was longer ago than the grace."""
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1m", note, id="k", misfire_grace_time=60, **{option: "10s"})
    clock.advance(1000)
    scheduler.start_background()
    clock.advance(0)
    assert [slot for _, slot in runs] == [960]
    assert counts(scheduler) == (15, 15, 1)


@once
def test_a_one_shot_later_than_the_grace_leaves_without_a_run(make_scheduler, clock, runs, note, kind):
    scheduler, events = make_scheduler(clock=clock), []
    for name in ("missed", "removed"):
        scheduler.on(name, events.append)
    SINGLES[kind](scheduler, note, misfire_grace_time=100)
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert runs == []
    assert [event.event for event in events] == ["missed", "removed"]
    assert (events[0].count, events[0].scheduled_time) == (1, moment(60))
    assert events[1].job.missed_count == 1
    with pytest.raises(KeyError):
        scheduler.get_job("k")
    SINGLES["after"](scheduler, note)
    scheduler._check()


@once
@pytest.mark.parametrize("grace", [140, None])
def test_a_one_shot_within_the_grace_runs(make_scheduler, clock, runs, note, kind, grace):
    scheduler = make_scheduler(clock=clock)
    SINGLES[kind](scheduler, note, misfire_grace_time=grace)
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [(200, 60)]


def test_a_moment_in_the_past_at_registration(scheduler, clock, runs, note):
    """It runs at once, unless it is longer ago than the grace."""
    clock.advance(100)
    scheduler.at(moment(0), note, id="no grace")
    scheduler.at(moment(0), note, misfire_grace_time=100, id="in time")
    scheduler.at(moment(0), note, misfire_grace_time=99, id="too late")
    clock.advance(0)
    assert runs == [(100, 0), (100, 0)]
    assert len(scheduler) == 0


@once
@pytest.mark.parametrize("pause", ["its own", "of all"])
def test_a_one_shot_that_is_late_because_of_a_pause_is_not_late(scheduler, clock, runs, note, kind, pause):
    SINGLES[kind](scheduler, note, misfire_grace_time=1)
    if pause == "its own":
        scheduler.pause_job("k")
    else:
        scheduler.pause()
    clock.advance(1000)
    assert runs == []
    if pause == "its own":
        scheduler.resume_job("k")
    else:
        scheduler.resume()
    clock.advance(0)
    assert runs == [(1000, 60)]
    assert len(scheduler) == 0


@once
def test_a_one_shot_that_waits_for_its_instance_is_not_late(scheduler, clock, runs, kind):
    """`run_job` holds the only instance for longer than the grace."""

    def job():
        runs.append(clock.time())
        if len(runs) == 1:
            clock.sleep(500)

    SINGLES[kind](scheduler, job, misfire_grace_time=1, on_error=nothing)
    clock.advance(30)
    assert scheduler.run_job("k")
    clock.advance(1000)
    assert runs == [30, 530]
    assert len(scheduler) == 0


@both_kinds
@pytest.mark.parametrize("pause", ["its own", "of all"])
def test_slots_of_a_pause_are_not_missed(scheduler, clock, runs, note, kind, pause):
    INTERVALS[kind](scheduler, note, catch_up="all", misfire_grace_time=1)
    if pause == "its own":
        scheduler.pause_job("k")
    else:
        scheduler.pause()
    clock.advance(210)
    scheduler.resume_job("k")
    scheduler.resume()
    clock.advance(30)
    assert runs == [(240, 240)]
    assert counts(scheduler)[:2] == (0, 0)
    assert scheduler.get_job("k").paused_count == 3


@all_policies
def test_a_grace_does_not_touch_retries_and_run_job(make_scheduler, clock, runs, note, policy):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def fails():
        runs.append(clock.time())
        raise ValueError

    scheduler.every("1h", fails, max_retries=2, retry_backoff=20, misfire_grace_time=1, catch_up=policy, id="k")
    clock.advance("1h")
    clock.advance(100)
    assert len(runs) == 3
    assert scheduler.run_job("k")
    clock.advance(100)
    assert len(runs) == 6
    assert counts(scheduler)[0] == 0


@both_kinds
def test_a_slot_that_waits_for_a_worker_is_not_late(make_scheduler, clock, runs, note, kind):
    """It was due in time: the grace is asked when the slot comes up, and then its run waits as long as it takes."""
    scheduler = make_scheduler(clock=clock)
    scheduler.start_background()
    INTERVALS[kind](scheduler, note, misfire_grace_time=10)
    clock.advance(60)
    scheduler.after(30, lambda: clock.sleep(35))
    clock.advance(60)
    assert runs[0] == (60, 60)
    clock.advance(60)
    assert counts(scheduler)[0] == 0
    assert [slot for _, slot in runs] == [60, 120, 180]


def test_a_clock_that_runs_a_little_late_misses_nothing_with_none(make_scheduler):
    """On the system's clock a slot is in time up to a second; here fifty slots of 20 ms, whatever the load."""
    scheduler, runs = make_scheduler(2), []
    scheduler.every("20ms", lambda: runs.append(1), catch_up="none", id="k", max_instances=2)
    scheduler.start_background()
    deadline = time.monotonic() + 20
    while len(runs) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.005)
