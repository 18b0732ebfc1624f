"""`Scheduler.explain`: the latest decisions about a job."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, nothing, wait_until

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


def fails():
    raise ValueError


@pytest.fixture
def explained(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    return scheduler


def told(scheduler, job_id="k"):
    """(decision, slot in seconds, count) each."""
    return [
        (each.decision, (each.scheduled_time - T0).total_seconds(), each.count) for each in scheduler.explain(job_id)
    ]


# Each decision.


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_ran(explained, clock, options):
    explained.after(5, lambda: clock.sleep(10))
    explained.every("10s", nothing, id="k", **options)
    assert explained.explain("k") == []
    clock.advance(20)
    assert told(explained) == [("ran", 10, 1), ("ran", 20, 1)]
    assert [each.time for each in explained.explain("k")] == [moment(15), moment(20)]
    assert [each.lateness for each in explained.explain("k")] == [5, 0]


def test_coalesced(explained, clock):
    explained.every("10s", lambda: clock.sleep(25), id="k")
    clock.advance(40)
    clock.advance(0)
    assert told(explained)[:3] == [("ran", 10, 1), ("coalesced", 30, 2), ("ran", 40, 1)]


@pytest.mark.parametrize("kind", ["every", "cron"])
def test_late(make_scheduler, clock, kind):
    """Of the slots missed the latest; then the one that ran."""
    scheduler = make_scheduler(clock=clock)
    getattr(scheduler, kind)("1m" if kind == "every" else "* * * * *", nothing, id="k")
    clock.advance(200)
    scheduler.start_background()
    clock.advance(0)
    assert told(scheduler) == [("late", 120, 2), ("ran", 180, 1)]
    assert [each.time for each in scheduler.explain("k")] == [moment(200)] * 2
    assert scheduler.explain("k")[0].lateness == 0


@pytest.mark.parametrize("pause", ["its own", "of all"])
def test_paused(explained, clock, pause):
    explained.every("10s", nothing, id="k")
    if pause == "its own":
        explained.pause_job("k")
    else:
        explained.pause()
    clock.advance(35)
    explained.resume_job("k")
    explained.resume()
    clock.advance(10)
    assert sum(count for decision, _, count in told(explained) if decision == "paused") == 3
    assert told(explained)[-1] == ("ran", 40, 1)
    assert told(explained)[-2][:2] == ("paused", 30)


def test_queued(explained, clock):
    explained.every("10s", lambda: clock.sleep(25), overlap="queue", max_runs=3, id="k")
    clock.advance(20)
    decisions = told(explained)
    assert decisions[:2] == [("ran", 10, 1), ("queued", 30, 2)]


@pytest.mark.real_time
def test_pool_full(make_scheduler):
    scheduler, began, release = make_scheduler(1), threading.Event(), threading.Event()

    def hold():
        began.set()
        release.wait(WAIT)

    scheduler.after(0, hold)
    scheduler.start_background()
    assert began.wait(WAIT)
    time.sleep(0.002)  # the worker is stuck, not only busy
    scheduler.every("1h", nothing, immediate=True, id="k")
    assert wait_until(lambda: [each.decision for each in scheduler.explain("k")] == ["pool full"])
    release.set()
    assert wait_until(lambda: [each.decision for each in scheduler.explain("k")] == ["pool full", "ran"])
    assert scheduler.explain("k")[1].lateness >= 0


def test_retry(explained, clock):
    explained.every("10s", fails, max_retries=2, retry_backoff=0, id="k")
    clock.advance(10)
    assert told(explained) == [("ran", 10, 1), ("retry", 10, 1), ("retry", 10, 1)]


def test_timeout(explained, clock):
    explained.every("10s", lambda ctx: ctx.cancel.wait(60), timeout=5, id="k")
    clock.advance(10)
    assert told(explained) == [("ran", 10, 1), ("timeout", 10, 1)]
    assert explained.explain("k")[1].time == moment(15)


def test_dropped(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    scheduler.start_background()
    scheduler.every("10s", lambda: (scheduler.run_job("k"), scheduler.shutdown()), max_instances=2, id="k")
    clock.advance(10)
    assert [each[0] for each in told(scheduler)] == ["ran", "dropped"]


def test_run_job(explained, clock):
    explained.every("10s", nothing, id="k")
    clock.advance(3)
    explained.run_job("k")
    clock.advance(0)
    assert told(explained) == [("ran", 3, 1)]


def test_a_grace(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", nothing, misfire_grace_time=12, id="k")
    clock.advance(45)
    scheduler.start_background()
    clock.advance(0)
    assert told(scheduler) == [("late", 30, 3), ("ran", 40, 1)]


def test_a_step_of_the_wall_clock(explained, clock):
    explained.cron("* * * * *", nothing, id="k")
    clock.step_wall(200)
    clock.advance(0)
    assert told(explained) == [("late", 120, 2), ("ran", 180, 1)]
    assert [each.time for each in explained.explain("k")] == [moment(200)] * 2


# How many.


@pytest.mark.parametrize("most", [1, 2, 16, 100])
def test_the_latest_are_kept(make_scheduler, clock, most):
    scheduler = make_scheduler(clock=clock, explain=most)
    scheduler.start_background()
    scheduler.every("1s", nothing, id="k")
    for seconds in range(1, 60):
        clock.advance(1)
        assert told(scheduler) == [("ran", slot, 1) for slot in range(max(1, seconds - most + 1), seconds + 1)]


def test_sixteen_by_default(explained, clock):
    explained.every("1s", nothing, id="k")
    clock.advance(100)
    assert told(explained) == [("ran", slot, 1) for slot in range(85, 101)]


def test_none(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, explain=0)
    scheduler.start_background()
    scheduler.every("1s", lambda: clock.sleep(5), max_retries=1, timeout=2, id="k")
    clock.advance(100)
    assert scheduler.explain("k") == []


def test_the_most(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, explain=10_000)
    scheduler.start_background()
    scheduler.every("1s", nothing, id="k")
    clock.advance(11_000)
    assert told(scheduler) == [("ran", slot, 1) for slot in range(1001, 11_001)]


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (10_001, ValueError), (True, TypeError), (1.0, TypeError), ("16", TypeError), (None, TypeError)],
)
def test_bad_numbers(scheduler_type, value, error):
    with pytest.raises(error, match="explain"):
        scheduler_type(explain=value, timezone="UTC")


@pytest.mark.parametrize("most", [0, 16])
def test_unknown_ids(make_scheduler, clock, most):
    scheduler = make_scheduler(clock=clock, explain=most)
    scheduler.start_background()
    scheduler.after(1, nothing, id="k")
    clock.advance(1)
    for job_id in ("k", "never there", ""):
        with pytest.raises(KeyError):
            scheduler.explain(job_id)


def test_a_job_that_gets_the_id_has_decisions_of_its_own(explained, clock):
    explained.every("1s", nothing, id="k")
    clock.advance(5)
    explained.every("10s", nothing, id="k", replace=True)
    assert explained.explain("k") == []
    clock.advance(10)
    assert told(explained) == [("ran", 15, 1)]


def test_they_stay_on_a_new_grid(explained, clock):
    explained.every("1s", nothing, id="k")
    clock.advance(2)
    explained.reschedule_job("k", every="10s")
    clock.advance(10)
    assert told(explained) == [("ran", 1, 1), ("ran", 2, 1), ("ran", 12, 1)]


def test_each_job_has_its_own(explained, clock):
    explained.every("1s", nothing, id="a")
    explained.every("3s", nothing, id="b")
    clock.advance(6)
    assert told(explained, "a") == [("ran", slot, 1) for slot in range(1, 7)]
    assert told(explained, "b") == [("ran", 3, 1), ("ran", 6, 1)]


# How they look.


@pytest.mark.parametrize("zone", ["Europe/Paris", "Asia/Kathmandu"])
def test_times_are_aware_and_in_the_jobs_zone(make_scheduler, clock, zone):
    scheduler = make_scheduler(clock=clock, timezone="America/New_York")
    scheduler.start_background()
    scheduler.cron("* * * * *", nothing, timezone=zone, id="k")
    scheduler.every("1m", nothing, id="e")
    clock.advance(60)
    [of_zone], [of_scheduler] = scheduler.explain("k"), scheduler.explain("e")
    for each, expected in ((of_zone, zone), (of_scheduler, "America/New_York")):
        assert each.time == each.scheduled_time == moment(60)
        assert each.time.tzinfo == each.scheduled_time.tzinfo == ZoneInfo(expected)


def test_as_text(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", nothing, id="k")
    clock.advance(45)
    scheduler.start_background()
    clock.advance(0)
    assert [str(each) for each in scheduler.explain("k")] == [
        "2000-01-01T00:00:45+00:00 late x3 (slot 2000-01-01T00:00:30+00:00)",
        "2000-01-01T00:00:45+00:00 ran (slot 2000-01-01T00:00:40+00:00, 0.000000 s late)",
    ]


def test_a_decision_is_a_tuple_that_cannot_be_changed(explained, clock):
    explained.every("1s", nothing, id="k")
    clock.advance(1)
    [decision] = explained.explain("k")
    assert decision == ("ran", moment(1), moment(1), 1, 0.0)
    with pytest.raises(AttributeError):
        decision.count = 2
    explained.explain("k").clear()
    assert len(explained.explain("k")) == 1


def test_inside_a_run(explained, clock):
    seen = []
    explained.every("1s", lambda: seen.append(told(explained)), id="k")
    clock.advance(2)
    assert seen == [[("ran", 1, 1)], [("ran", 1, 1), ("ran", 2, 1)]]


def test_together_with_listeners(explained, clock):
    """Both see the same."""
    events = []
    for name in ("missed", "coalesced"):
        explained.on(name, events.append)
    explained.every("10s", lambda: clock.sleep(25), id="k")
    explained.every("10s", nothing, id="other")
    clock.advance(100)
    for job_id in ("k", "other"):
        noted = [each for each in told(explained, job_id) if each[0] in ("late", "coalesced")]
        assert noted == [
            (
                "late" if event.event == "missed" else event.event,
                (event.scheduled_time - T0).total_seconds(),
                event.count,
            )
            for event in events
            if event.job.id == job_id
        ]
