"""`Scheduler`: spread; and of all policies: what is refused, decorators, new grids.

What they do: test_scheduler_late (misfire_grace_time, catch_up), test_scheduler_overlap and test_scheduler_from_end.
"""

from __future__ import annotations

import inspect
import json
from datetime import datetime, timedelta, timezone

import pytest
from support import assert_quiet, nothing, run_python

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
KINDS = {
    "every": lambda s, *f, **o: s.every("10s", *f, **o),
    "cron": lambda s, *f, **o: s.cron("* * * * *", *f, **o),
    "after": lambda s, *f, **o: s.after(10, *f, **o),
    "at": lambda s, *f, **o: s.at(T0 + timedelta(seconds=10), *f, **o),
}
all_kinds = pytest.mark.parametrize("kind", KINDS)
repeated = pytest.mark.parametrize("kind", ["every", "cron"])


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    return lambda ctx: runs.append((clock.time(), (ctx.scheduled_time - T0).total_seconds()))


# spread: a stable part of what `jitter` draws anew each time.


@repeated
def test_a_spread_is_always_the_same_and_moves_no_slot(scheduler, clock, runs, note, kind):
    KINDS[kind](scheduler, note, spread="8s", id="k")
    slots = scheduler.next_runs("k", 5)
    next_run = scheduler.get_job("k").next_run_at
    clock.advance(400)
    delays = {round(at - slot, 6) for at, slot in runs}
    assert len(delays) == 1
    assert 0 < delays.pop() < 8
    assert [moment(slot) for _, slot in runs[:5]] == slots
    assert slots[0].second % 10 == 0
    assert (next_run - T0).total_seconds() == pytest.approx(runs[0][0], abs=1e-5)


def test_spreads_are_below_their_limit_and_all_over_it(scheduler, clock):
    for number in range(500):
        scheduler.every("10s", nothing, spread=5, id=f"k{number}")
    delays = [(scheduler.get_job(f"k{number}").next_run_at - moment(10)).total_seconds() for number in range(500)]
    assert all(0 <= delay < 5 for delay in delays)
    assert len(set(delays)) > 490
    assert all(any(low <= delay < low + 0.5 for delay in delays) for low in (0, 1, 2, 3, 4, 4.5))


def test_a_spread_is_the_same_in_every_process(engine_name, scheduler):
    process = run_python(PROGRAM, engine=engine_name)
    assert_quiet(process)
    for job_id in IDS:
        scheduler.every("10s", print, spread="10ms", id=job_id)
        scheduler.cron("* * * * *", print, spread="1h", id=f"{job_id} cron")
    scheduler.every("10s", print, spread=9)
    here = [str(scheduler.get_job(each["id"]).next_run_at) for each in scheduler.list_jobs()]
    assert json.loads(process.stdout) == here


IDS = ["a", "b", "\u00e4 b", "k" * 100]
PROGRAM = f"""
import json
from pysched import Scheduler
from pysched.testing import ManualClock
scheduler = Scheduler(clock=ManualClock(), timezone="UTC")
for job_id in {IDS!a}:
    scheduler.every("10s", print, spread="10ms", id=job_id)
    scheduler.cron("* * * * *", print, spread="1h", id=f"{{job_id}} cron")
scheduler.every("10s", print, spread=9)
print(json.dumps([str(scheduler.get_job(each["id"]).next_run_at) for each in scheduler.list_jobs()]))
"""


def test_a_known_spread(scheduler):
    """Pinned: another version must not move every job of a fleet."""
    scheduler.every("1h", nothing, spread="30m", id="k")
    delay = scheduler.get_job("k").next_run_at - moment(3600)
    assert delay == timedelta(microseconds=PINNED_US)


PINNED_US = 735_682_507


def test_without_an_id_it_is_that_of_the_name(scheduler):
    ids = [scheduler.every("10s", nothing, spread=5) for _ in range(2)]
    other = scheduler.every("10s", print, spread=5)
    delays = [scheduler.get_job(each).next_run_at for each in (*ids, other)]
    assert delays[0] == delays[1] != delays[2]


def test_a_spread_of_nothing(scheduler, clock, runs, note):
    scheduler.every("10s", note, spread=0)
    scheduler.every("10s", note, spread=None)
    clock.advance(10)
    assert runs == [(10, 10), (10, 10)]


def test_a_spread_that_is_longer_than_the_calendars_step(scheduler, clock, runs, note):
    """Each run is late by the same; none is left out."""
    scheduler.cron("* * * * *", note, spread="1h", id="k")
    clock.advance("2h")
    assert [slot for _, slot in runs[:3]] == [60, 120, 180]
    assert {round(at - slot, 6) for at, slot in runs} == {round(runs[0][0] - 60, 6)}
    assert scheduler.get_job("k").coalesced_count == 0


def test_the_immediate_run_is_not_spread(scheduler, clock, runs, note):
    scheduler.every("10s", note, spread=9, immediate=True, id="k")
    clock.advance(0)
    assert len(runs) == 1
    clock.advance(19.9)
    assert runs[1][0] > 10
    assert runs[1][1] == 10


def test_a_slot_before_until_runs_with_its_spread_after_it(scheduler, clock, runs, note):
    scheduler.every("10s", note, spread=9, until=moment(11), id="k")
    clock.advance(100)
    assert [slot for _, slot in runs] == [10]


# What is refused, by name, with nothing changed.


DURATION = [
    (-1, ValueError),
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    ("1x", ValueError),
    ("", ValueError),
    (timedelta(seconds=-1), ValueError),
    (10**9 + 1, ValueError),
    (b"1s", TypeError),
    ([], TypeError),
    (True, TypeError),
]
REFUSED = [
    *[("misfire_grace_time", value, error) for value, error in [(0, ValueError), *DURATION]],
    *[("spread", value, error) for value, error in DURATION],
    *[("jitter", value, error) for value, error in DURATION],
    *[("catch_up", value, ValueError) for value in ("", "two", "One", "ALL")],
    *[("catch_up", value, TypeError) for value in (None, True, 1, b"one")],
    *[("overlap", value, ValueError) for value in ("", "queued", "Skip")],
    *[("overlap", value, TypeError) for value in (None, False, 0, b"skip")],
]


@repeated
@pytest.mark.parametrize(("option", "value", "error"), REFUSED)
def test_values_that_are_refused(scheduler, kind, option, value, error):
    with pytest.raises(error, match=option):
        KINDS[kind](scheduler, nothing, **{option: value})
    with pytest.raises(error, match=option):  # as a decorator too, at once
        KINDS[kind](scheduler, **{option: value})
    assert len(scheduler) == 0
    scheduler._check()


@pytest.mark.parametrize("kind", ["after", "at"])
@pytest.mark.parametrize(("value", "error"), [(0, ValueError), *DURATION])
def test_graces_of_one_shots_that_are_refused(scheduler, kind, value, error):
    with pytest.raises(error, match="misfire_grace_time"):
        KINDS[kind](scheduler, nothing, misfire_grace_time=value)
    assert len(scheduler) == 0


@pytest.mark.parametrize("kind", ["after", "at"])
@pytest.mark.parametrize("option", ["catch_up", "overlap", "spread", "jitter", "from_end", "max_runs", "until"])
def test_what_one_shots_do_not_take(scheduler, kind, option):
    with pytest.raises(TypeError, match=option):
        KINDS[kind](scheduler, nothing, **{option: "one"})


@pytest.mark.parametrize("option", ["spread", "jitter"])
@pytest.mark.parametrize("value", ["10s", 10, 11, timedelta(seconds=10)])
def test_a_spread_of_an_interval_or_more_is_refused(scheduler, option, value):
    with pytest.raises(ValueError, match=option):
        scheduler.every("10s", nothing, **{option: value})
    scheduler.every("10s", nothing, **{option: 9.999999})


def test_each_is_below_the_interval_for_itself(scheduler, clock, runs, note):
    scheduler.every("10s", note, spread=9, jitter=9, id="k")
    clock.advance(1000)
    slots = [slot for _, slot in runs]
    assert slots == sorted(set(slots))
    assert all(0 <= at - slot < 18 for at, slot in runs)


@repeated
@pytest.mark.parametrize("policy", ["one", "none", "all"])
@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_every_combination_is_taken(scheduler, clock, runs, note, kind, policy, overlap):
    options = {"catch_up": policy, "overlap": overlap, "misfire_grace_time": "5s", "spread": 2, "jitter": 2}
    KINDS[kind](scheduler, note, max_instances=2, max_runs=3, **options)
    clock.advance(300)
    assert len(runs) == 3
    assert len(scheduler) == 0


# Decorators and signatures.


def test_decorators(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock)

    @scheduler.every("10s", catch_up="all", overlap="queue", misfire_grace_time=25, spread=1, id="every")
    def often():
        runs.append("every")

    @scheduler.cron("* * * * *", catch_up="none", id="cron")
    def minutely():
        runs.append("cron")

    @scheduler.after(5, misfire_grace_time=10, id="after")
    def late():
        runs.append("after")

    @scheduler.every("10s", from_end=True, id="from end")
    def paced():
        runs.append("from end")

    clock.advance(70)
    scheduler.start_background()
    clock.advance(0)
    assert sorted(runs) == ["every", "every", "from end"]
    assert scheduler.get_job("every").missed_count == 4
    often()
    minutely()
    assert runs[-2:] == ["every", "cron"]
    assert {each["id"] for each in scheduler.list_jobs()} == {"every", "cron", "from end"}
    assert callable(late)
    assert callable(paced)


ONCE = {"misfire_grace_time": None}
REPEATED = {**ONCE, "catch_up": "one", "overlap": "skip", "spread": None, "jitter": None}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("every", {**REPEATED, "from_end": False}), ("cron", REPEATED), ("after", ONCE), ("at", ONCE)],
)
def test_signatures_show_them(scheduler_type, kind, expected):
    parameters = inspect.signature(getattr(scheduler_type, kind)).parameters
    assert {name: parameters[name].default for name in expected} == expected
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in expected)
    assert ("from_end" in parameters) == (kind == "every")


# reschedule_job keeps them.


def test_a_new_grid_keeps_the_grace_and_the_policy(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", note, catch_up="all", misfire_grace_time=50, id="k")
    scheduler.reschedule_job("k", cron="* * * * *")
    scheduler.reschedule_job("k", every="20s")
    clock.advance(105)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [(105, 60), (105, 80), (105, 100)]
    assert scheduler.get_job("k").missed_count == 2


def test_a_new_grid_keeps_the_queue(scheduler, clock, runs):
    def job(ctx):
        runs.append((ctx.scheduled_time - T0).total_seconds())
        clock.sleep(25)

    scheduler.every("100s", job, overlap="queue", id="k")
    scheduler.reschedule_job("k", every="10s")
    clock.advance(60)
    assert runs[:4] == [10, 20, 30, 40]


def test_a_new_grid_keeps_the_spread(scheduler, clock, runs, note):
    scheduler.every("100s", note, spread=9, id="k")
    delay = scheduler.get_job("k").next_run_at - moment(100)
    scheduler.reschedule_job("k", every="20s")
    assert scheduler.get_job("k").next_run_at == moment(20) + delay
    scheduler.reschedule_job("k", cron="* * * * *")
    assert scheduler.get_job("k").next_run_at == moment(60) + delay


def test_a_new_grid_shorter_than_the_spread_is_refused(scheduler, clock):
    scheduler.every("100s", nothing, spread=50, id="k")
    before = scheduler.get_job("k")
    with pytest.raises(ValueError, match="spread"):
        scheduler.reschedule_job("k", every="50s")
    assert scheduler.get_job("k") == before
    scheduler.reschedule_job("k", every=50.000001)


def test_a_job_that_comes_once_from_then_on_has_no_spread(scheduler, clock, runs, note):
    scheduler.every("100s", note, spread=50, catch_up="all", overlap="queue", id="k")
    scheduler.reschedule_job("k", after="7s")
    clock.advance(7)
    assert runs == [(7, 7)]
    assert len(scheduler) == 0


def test_the_grace_of_a_one_shot_holds_for_the_grid_it_gets(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.after(5, note, misfire_grace_time=1, id="k")
    scheduler.reschedule_job("k", every="10s")
    clock.advance(15)
    scheduler.start_background()
    clock.advance(5)
    assert runs == [(20, 20)]
    scheduler.reschedule_job("k", at=moment(0))
    clock.advance(0)
    assert runs == [(20, 20)]
    assert len(scheduler) == 0


def test_options_of_the_scheduler_for_all_its_jobs(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock, defaults={"catch_up": "all", "misfire_grace_time": 25})
    scheduler.every("10s", note, id="k")
    scheduler.every("10s", note, catch_up="none", id="none")
    clock.advance(45)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [(45, 20), (45, 30), (45, 40)]
    for options in ({"catch_up": "two"}, {"spread": -1}, {"nonsense": 1}):
        with pytest.raises((ValueError, TypeError), match=next(iter(options))):
            make_scheduler(clock=clock, defaults=options)
