"""`Scheduler.on`: what listeners are told, in which order, and when."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
import weakref
from datetime import datetime, timedelta, timezone
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, Intruder, nothing, wait_until

from pysched import JobCancelled, Scheduler
from pysched import events as events_module
from pysched.events import EventName, Events, JobEvent

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
NAMES = get_args(EventName)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


def fails():
    raise ValueError("no luck")


@pytest.fixture
def events():
    return []


def listen(scheduler, events, *names):
    for name in names or NAMES:
        scheduler.on(name, events.append)


def names_of(events):
    return [event.event for event in events]


@pytest.fixture
def quiet(make_scheduler, clock, events):
    """A scheduler on `clock`, started, all of whose events are in `events`; its errors are not logged."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    listen(scheduler, events)
    scheduler.start_background()
    return scheduler


# Each event and its fields.


def fields(event):
    """What is not as it is in most events."""
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    standard = {"lateness": None, "duration": None, "error": None, "result": None, "count": 1, "run": None}
    for name in ("event", "time", "job", "job_id", "job_name"):
        del values[name]
    return {name: value for name, value in values.items() if value != standard.get(name)}


def test_added(quiet, clock, events):
    clock.advance(5)
    quiet.every("10s", nothing, id="k", tags={"t"})
    [event] = events
    assert (event.event, event.time, fields(event)) == ("added", moment(5), {})
    # It is told before the job may run, when it is not known yet when that will be.
    assert dataclasses.replace(event.job, next_run_at=moment(15)) == quiet.get_job("k")
    assert event.job.tags == {"t"}


@pytest.mark.parametrize("how", ["plain", "named", "managed"])
def test_added_of_each_kind(quiet, events, how):
    options = {"plain": {}, "named": {"id": "k"}, "managed": {"timeout": 5}}[how]
    ids = [
        quiet.every("10s", nothing, **options),
        quiet.cron("* * * * *", nothing, **{**options, **({"id": "c"} if how == "named" else {})}),
        quiet.after(1, nothing, **{**options, **({"id": "a"} if how == "named" else {})}),
        quiet.at(moment(1), nothing, **{**options, **({"id": "at"} if how == "named" else {})}),
    ]
    assert [event.job.id for event in events] == ids
    assert names_of(events) == ["added"] * 4


def test_removed_by_hand(quiet, clock, events):
    quiet.every("10s", nothing, id="k")
    clock.advance(25)
    before = quiet.get_job("k")
    events.clear()
    quiet.remove_job("k")
    [event] = events
    assert (event.event, event.time, fields(event)) == ("removed", moment(25), {})
    assert event.job == before
    assert event.job.run_count == 2


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_removed_when_it_leaves(quiet, clock, events, options):
    """As it was at its end: the last run is counted."""
    quiet.after("10s", nothing, id="once", **options)
    quiet.every("10s", nothing, max_runs=2, id="twice", **options)
    clock.advance(30)
    removed = [event for event in events if event.event == "removed"]
    assert [(event.job.id, event.time, event.job.run_count) for event in removed] == [
        ("once", moment(10), 1),
        ("twice", moment(20), 2),
    ]
    assert [event.job.running for event in removed] == [0, 0]


def test_removed_and_added_by_replace(quiet, events):
    quiet.every("10s", nothing, id="k")
    quiet.every("20s", nothing, id="k", replace=True)
    assert [(event.event, event.job.schedule) for event in events] == [
        ("added", "every 10s"),
        ("removed", "every 10s"),
        ("added", "every 20s"),
    ]


def test_removed_all(quiet, events):
    for number in range(3):
        quiet.every("10s", nothing, id=f"k{number}")
    events.clear()
    quiet.remove_all_jobs()
    assert [(event.event, event.job.id) for event in events] == [("removed", f"k{number}") for number in range(3)]


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_started_and_succeeded(quiet, clock, events, options):
    def job():
        clock.sleep(2.5)
        return {"answer": 42}

    quiet.every("10s", job, id="k", **options)
    quiet.after("10s", lambda: clock.sleep(1), id="z")
    events.clear()
    clock.advance(10)
    started, succeeded = events[:2]
    assert (started.event, succeeded.event) == ("started", "succeeded")
    assert (started.time, started.scheduled_time, started.lateness, started.duration) == (
        moment(10),
        moment(10),
        0,
        None,
    )
    assert (started.job.running, started.job.started_count, started.job.run_count) == (1, 1, 0)
    assert (started.run.job_id, started.run.attempt, started.run.scheduled_time) == ("k", 1, moment(10))
    assert (succeeded.time, succeeded.duration, succeeded.result) == (moment(12.5), 2.5, {"answer": 42})
    assert (succeeded.scheduled_time, succeeded.error, succeeded.count) == (moment(10), None, 1)
    assert succeeded.run is started.run
    assert (succeeded.job.running, succeeded.job.run_count, succeeded.job.last_run_at) == (0, 1, moment(12.5))
    late = events[2]
    assert (late.event, late.job.id, late.lateness, late.time) == ("started", "z", 2.5, moment(12.5))


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_error(quiet, clock, events, options):
    def job():
        clock.sleep(2)
        raise ValueError("no luck")

    quiet.every("10s", job, id="k", **options)
    events.clear()
    clock.advance(10)
    assert names_of(events) == ["started", "error"]
    event = events[1]
    assert str(event.error) == "no luck"
    assert (event.time, event.duration, event.scheduled_time, event.result) == (moment(12), 2, moment(10), None)
    assert (event.run.job_id, event.run.attempt) == ("k", 1)
    assert event.job.id == "k"
    assert quiet.get_job("k").error_count == 1


def test_retries(quiet, clock, events):
    """An error for each attempt, a retry where another follows; the duration of a success is over all of them."""

    def job(ctx):
        clock.sleep(1)
        if ctx.attempt < 3:
            raise ValueError

    quiet.every("10s", job, id="k", max_retries=5, retry_backoff=0)
    events.clear()
    clock.advance(13)
    assert names_of(events) == ["started", "error", "retry", "error", "retry", "succeeded"]
    assert [event.run.attempt for event in events] == [1, 1, 1, 2, 2, 3]
    assert [event.duration for event in events] == [None, 1, None, 1, None, 3]
    assert all(event.scheduled_time == moment(10) for event in events)
    assert events[2].error is events[1].error


def test_retries_that_all_fail(quiet, clock, events):
    quiet.after("10s", fails, id="k", max_retries=1, retry_backoff=0)
    events.clear()
    clock.advance(20)
    assert names_of(events) == ["started", "error", "retry", "error", "removed"]
    assert events[-1].job.error_count == 1


def test_timeout(quiet, clock, events):
    def job():
        clock.sleep(20)

    quiet.every("30s", job, id="k", timeout=5)
    events.clear()
    clock.advance(35)
    clock.advance(0)
    assert names_of(events) == ["started", "timeout"]
    event = events[1]
    assert (event.time, event.duration, event.scheduled_time) == (moment(35), 5, moment(30))
    assert event.run.cancel.cancelled
    assert (event.job.timeout_count, event.job.error_count, event.job.running) == (1, 1, 0)
    assert event.job.last_error == "TimeoutError: timed out after 5 s"


def test_missed(make_scheduler, clock, events):
    scheduler = make_scheduler(clock=clock)
    listen(scheduler, events, "missed", "started")
    scheduler.every("10s", nothing, id="k")
    clock.advance(45)
    scheduler.start_background()
    clock.advance(0)
    assert names_of(events) == ["missed", "started"]
    missed, started = events
    assert (missed.count, missed.scheduled_time, missed.time) == (3, moment(30), moment(45))
    assert (started.scheduled_time, started.lateness) == (moment(40), 0)
    assert missed.run is None
    assert missed.job.missed_count == 3


def test_coalesced(quiet, clock, events):
    quiet.every("10s", lambda: clock.sleep(25), id="k")
    events.clear()
    clock.advance(40)
    assert names_of(events)[:3] == ["started", "succeeded", "coalesced"]
    event = events[2]
    assert (event.count, event.scheduled_time, event.job.coalesced_count) == (2, moment(30), 2)


def test_paused_and_resumed(quiet, clock, events):
    quiet.every("10s", nothing, id="k")
    events.clear()
    quiet.pause_job("k")
    clock.advance(25)
    quiet.resume_job("k")
    assert [(event.event, event.time, event.job.enabled, fields(event)) for event in events] == [
        ("paused", moment(0), False, {}),
        ("resumed", moment(25), True, {}),
    ]
    assert events[1].job.paused_count == 2


def test_paused_and_resumed_of_all(quiet, events):
    quiet.every("10s", nothing)
    events.clear()
    quiet.pause()
    quiet.resume()
    assert [(event.event, event.job) for event in events] == [("paused", None), ("resumed", None)]


@pytest.mark.real_time
def test_dropped(make_scheduler, events):
    """Runs that were due when the scheduler was shut down."""
    scheduler, began, release = make_scheduler(1), threading.Event(), threading.Event()
    listen(scheduler, events, "dropped")

    def hold():
        began.set()
        release.wait(WAIT)

    scheduler.after(0, hold)
    scheduler.start_background()
    assert began.wait(WAIT)
    scheduler.every("1h", nothing, immediate=True, id="k")
    assert wait_until(lambda: scheduler.stats().ready == 1)
    scheduler.shutdown(wait=False)
    release.set()
    assert scheduler.shutdown(timeout=WAIT) == []
    assert wait_until(lambda: events)
    assert [(event.event, event.job.id, event.count) for event in events] == [("dropped", "k", 1)]
    assert scheduler.stats().dropped == 1


# Order.


def test_a_run_and_its_end_come_before_the_end_of_its_job(quiet, clock, events):
    quiet.after("1s", nothing, id="plain")
    quiet.after("1s", nothing, id="managed", timeout=5)
    quiet.after("1s", fails, id="fails")
    clock.advance(1)
    for job_id in ("plain", "managed", "fails"):
        assert [event.event for event in events if event.job.id == job_id] == [
            "added",
            "started",
            "error" if job_id == "fails" else "succeeded",
            "removed",
        ]


def test_missed_comes_before_started(make_scheduler, clock, events):
    scheduler = make_scheduler(clock=clock)
    listen(scheduler, events)
    scheduler.every("10s", nothing, id="k", max_runs=1)
    clock.advance(35)
    scheduler.start_background()
    clock.advance(0)
    assert names_of(events) == ["added", "missed", "started", "succeeded", "removed"]


def test_a_listener_is_called_before_what_follows(quiet, clock):
    """On a ManualClock events are told at once, on the thread that moves it."""
    order, threads = [], set()
    for name in ("started", "succeeded"):
        quiet.on(name, lambda event: (order.append(event.event), threads.add(threading.current_thread())))
    quiet.after("1s", lambda: order.append("first"))
    quiet.after("1s", lambda: order.append("second"))
    clock.advance(1)
    assert order == ["started", "first", "succeeded", "started", "second", "succeeded"]
    assert threads == {threading.current_thread()}


@pytest.mark.real_time
def test_events_of_a_job_come_in_order_on_real_threads(make_scheduler):
    scheduler, told = make_scheduler(4), {}
    for name in ("started", "succeeded", "removed"):
        scheduler.on(name, lambda event: told.setdefault(event.job.id, []).append(event.event))
    scheduler.start_background()
    for number in range(20):
        scheduler.every("1ms", nothing, max_runs=20, id=f"k{number}")
    assert wait_until(lambda: sum(events[-1:] == ["removed"] for events in list(told.values())) == 20)
    assert all(events == ["started", "succeeded"] * 20 + ["removed"] for events in told.values())


# Events and listeners as things.


def test_events_are_frozen(quiet, clock, events):
    quiet.after("1s", nothing)
    clock.advance(1)
    for event in events:
        assert type(event) is JobEvent
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.count = 2


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Asia/Kathmandu"])
def test_times_are_in_the_jobs_zone(make_scheduler, clock, events, zone):
    scheduler = make_scheduler(clock=clock, timezone="America/New_York")
    listen(scheduler, events)
    scheduler.start_background()
    scheduler.cron("* * * * *", nothing, timezone=zone, max_runs=1)
    clock.advance(60)
    scheduler.pause()
    assert len(events) == 5
    *of_job, of_all = events
    assert all(event.time.tzinfo == ZoneInfo(zone) for event in of_job)
    assert of_job[1].scheduled_time.tzinfo == ZoneInfo(zone)
    assert of_job[1].scheduled_time == moment(60)
    assert of_all.time.tzinfo == ZoneInfo("America/New_York")


def test_what_on_returns_ends_it_any_number_of_times(scheduler, clock, events):
    ends = scheduler.on("started", events.append)
    scheduler.every("1s", nothing)
    clock.advance(2)
    for _ in range(3):
        ends()
    clock.advance(2)
    assert len(events) == 2


def test_the_same_function_twice(scheduler, clock, events):
    first = scheduler.on("started", events.append)
    second = scheduler.on("started", events.append)
    scheduler.every("1s", nothing)
    clock.advance(1)
    assert len(events) == 2
    first()
    first()
    clock.advance(1)
    assert len(events) == 3
    second()
    clock.advance(1)
    assert len(events) == 3


def test_listeners_are_called_in_the_order_of_addition(scheduler, clock):
    order = []
    for number in range(5):
        scheduler.on("started", lambda event, number=number: order.append(number))
    scheduler.after(0, nothing)
    clock.advance(0)
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("event", ["", "start", "Started", "*", "late"])
def test_unknown_events_are_refused(scheduler, event):
    with pytest.raises(ValueError, match="event must be one of added, removed"):
        scheduler.on(event, nothing)


@pytest.mark.parametrize("event", [None, 1, b"started", ["started"]])
def test_what_is_no_name_is_refused(scheduler, event):
    with pytest.raises(TypeError, match="event must be a str"):
        scheduler.on(event, nothing)


@pytest.mark.parametrize("listener", [None, 1, "print"])
def test_what_cannot_be_called_is_refused(scheduler, listener):
    with pytest.raises(TypeError, match="fn must be callable"):
        scheduler.on("started", listener)


def test_every_name_can_be_listened_to(scheduler):
    for name in NAMES:
        scheduler.on(name, nothing)()


# Listeners that misbehave.


@pytest.mark.parametrize("error", [ValueError("no luck"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_listener_raises_is_logged_and_hurts_nobody(scheduler, clock, events, logged, error):
    def listener(event):
        raise error

    scheduler.on("started", listener)
    scheduler.on("started", events.append)
    scheduler.every("1s", nothing, id="k")
    clock.advance(2)
    assert len(events) == 2
    assert scheduler.get_job("k").run_count == 2
    assert [(level, has) for level, _, has in logged] == [("ERROR", True)] * 2
    assert "a listener of 'started' raised an exception" in logged[0][1]


@pytest.mark.real_time
def test_a_slow_listener_delays_no_job(make_scheduler):
    scheduler, release, runs, told = make_scheduler(1), threading.Event(), [], []

    def slow(event):
        told.append(event)
        release.wait(WAIT)

    scheduler.on("started", slow)
    scheduler.every("1ms", lambda: runs.append(1))
    scheduler.start_background()
    assert wait_until(lambda: len(runs) > 50)
    assert len(told) == 1
    release.set()
    assert wait_until(lambda: len(told) > 50)


@pytest.mark.real_time
def test_ten_thousand_wait_then_the_oldest_are_dropped_and_counted(make_scheduler, logged):
    scheduler, began, release, told = make_scheduler(1), threading.Event(), threading.Event(), []

    def slow(event):
        began.set()
        release.wait(WAIT)
        told.append(event.job.id)

    scheduler.on("added", slow)
    scheduler.every("1h", nothing, id="first")
    assert began.wait(WAIT)
    for number in range(10_500):
        scheduler.every("1h", nothing, id=f"k{number}")
    assert [entry[0] for entry in logged] == ["WARNING"]
    assert "listeners are too slow" in logged[0][1]
    assert scheduler._events.lost == 500
    release.set()
    assert wait_until(lambda: len(told) == 10_001)
    assert told == ["first", *(f"k{number}" for number in range(500, 10_500))]
    assert len(logged) == 1


def test_a_listener_that_shuts_down(make_scheduler, clock, events):
    scheduler = make_scheduler(clock=clock)
    scheduler.on("started", lambda event: scheduler.shutdown())
    listen(scheduler, events, "started", "succeeded")
    scheduler.start_background()
    scheduler.every("1s", nothing)
    clock.advance(10)
    assert not scheduler.running
    assert names_of(events) == ["started", "succeeded"]


@pytest.mark.real_time
def test_a_listener_that_shuts_down_on_its_thread_does_not_wait(make_scheduler):
    scheduler, release, result = make_scheduler(2), threading.Event(), []
    scheduler.on("started", lambda event: result.append(scheduler.shutdown()))
    scheduler.start_background()
    scheduler.after(0, lambda: release.wait(WAIT), id="k")
    assert wait_until(lambda: result)
    assert [info.id for info in result[0]] == ["k"]
    assert not scheduler.running
    release.set()


def test_a_listener_that_removes_and_registers(scheduler, clock):
    order = []

    def again(event):
        order.append((event.event, event.job.id))
        if event.event == "started" and event.job.id == "k":
            scheduler.remove_job("k")
            scheduler.after("1s", nothing, id="next")

    for name in ("started", "removed", "added"):
        scheduler.on(name, again)
    scheduler.every("1s", nothing, id="k")
    clock.advance(10)
    assert order == [
        ("added", "k"),
        ("started", "k"),
        ("removed", "k"),
        ("added", "next"),
        ("started", "next"),
        ("removed", "next"),
    ]


@pytest.mark.real_time
def test_listeners_that_use_the_scheduler_on_their_thread(make_scheduler):
    scheduler, seen = make_scheduler(2), []

    def listener(event):
        try:
            scheduler.get_job(event.job.id)
            scheduler.run_job(event.job.id)
            scheduler.pause_job(event.job.id)
            scheduler.explain(event.job.id)
            scheduler.remove_job(event.job.id)
        except KeyError:
            seen.append("gone")
        else:
            seen.append(str(scheduler))

    scheduler.on("added", listener)
    scheduler.start_background()
    for _ in range(50):
        scheduler.every("1h", nothing)
    assert wait_until(lambda: len(seen) == 50)
    assert len(scheduler) == 0


def test_a_listener_that_listens_and_one_that_leaves(scheduler, clock, events):
    """Who comes while an event is told gets the next one; who leaves meanwhile may still get this one."""
    ends = []

    def first(event):
        if not ends:
            ends.append(scheduler.on("started", events.append))
        else:
            ends[0]()

    scheduler.on("started", first)
    scheduler.every("1s", nothing)
    clock.advance(1)
    assert events == []
    clock.advance(5)
    assert len(events) == 1


# Threads.


@pytest.mark.real_time
def test_the_thread_has_its_name_and_comes_with_the_first_event(make_scheduler):
    scheduler, names = make_scheduler(1, name="tick"), []

    def there():
        return [thread.name for thread in threading.enumerate() if thread.name == "tick-events"]

    scheduler.on("added", lambda event: names.append(threading.current_thread().name))
    assert there() == []
    scheduler.every("1h", nothing)
    assert wait_until(lambda: names)
    assert names == there() == ["tick-events"]
    scheduler.shutdown()
    assert there() == []


@pytest.mark.parametrize("moment", ["before it", "before it begins", "after it"])
def test_ctrl_c_in_the_start_of_the_thread_gives_no_second_one_and_costs_no_event(
    make_scheduler, logged, monkeypatch, moment
):
    """It comes out of the call, and is logged, as one anywhere in the telling."""
    scheduler, told, ended = make_scheduler(1, name="tick"), [], threading.Event()
    begin, interrupted = events_module.start_new_thread, threading.Event()

    def act(action, args):
        if moment == "before it begins":
            assert interrupted.wait(WAIT)
        action(*args)
        ended.set()

    def start_new_thread(action, args):
        monkeypatch.setattr(events_module, "start_new_thread", begin)
        if moment != "before it":
            begin(act, (action, args))
        if moment == "after it":
            assert ended.wait(WAIT)
        raise KeyboardInterrupt

    monkeypatch.setattr(events_module, "start_new_thread", start_new_thread)
    scheduler.on("added", lambda event: told.append((event.job_id, threading.current_thread().ident)))
    with pytest.raises(KeyboardInterrupt):
        scheduler.every("1h", nothing, id="k0")
    interrupted.set()
    for number in range(1, 3):
        scheduler.every("1h", nothing, id=f"k{number}")
        if number == 1:
            assert moment == "before it" or ended.wait(WAIT)
    assert wait_until(lambda: len(told) == 3)
    assert [job_id for job_id, _ in told] == ["k0", "k1", "k2"]
    assert len({ident for _, ident in told}) == 1
    assert len([thread for thread in threading.enumerate() if thread.name == "tick-events"]) == 1
    assert ["KeyboardInterrupt" in text for _, text, _ in logged] == [True]


def test_no_thread_with_a_manual_clock(quiet, clock, events):
    before = set(threading.enumerate())
    quiet.every("1s", nothing)
    clock.advance(10)
    assert len(events) > 10
    assert set(threading.enumerate()) == before


def test_no_thread_without_listeners(make_scheduler):
    scheduler, done = make_scheduler(1), threading.Event()
    scheduler.on("started", nothing)()
    scheduler.start_background()
    scheduler.after(0, done.set)
    assert done.wait(WAIT)
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("-events")]


@pytest.mark.real_time
def test_shutdown_tells_what_waits(make_scheduler):
    scheduler, told = make_scheduler(1), []
    scheduler.on("added", lambda event: told.append(event.job.id))
    for number in range(1000):
        scheduler.every("1h", nothing, id=f"k{number}")
    scheduler.shutdown()
    assert told == [f"k{number}" for number in range(1000)]


@pytest.mark.real_time
def test_shutdown_waits_for_listeners_no_longer_than_its_timeout(make_scheduler):
    scheduler, began, release = make_scheduler(1), threading.Event(), threading.Event()

    def slow(event):
        began.set()
        release.wait(WAIT)

    scheduler.on("added", slow)
    scheduler.every("1h", nothing)
    assert began.wait(WAIT)
    assert scheduler.shutdown(timeout=0.05) == []
    release.set()


# Added while jobs run.


@pytest.mark.parametrize("options", [{}, {"timeout": 60}, {"id": "k"}], ids=["plain", "managed", "named"])
def test_listeners_added_later_are_told_of_jobs_that_are_there(scheduler, clock, events, options):
    scheduler.every("10s", lambda: 42, **options)
    scheduler.after("35s", fails, on_error=nothing)
    clock.advance(15)
    listen(scheduler, events, "started", "succeeded", "error", "removed", "missed")
    clock.advance(25)
    assert names_of(events) == [
        *["started", "succeeded"] * 2,
        *["started", "error", "removed"],
        *["started", "succeeded"],
    ]
    assert [event.result for event in events if event.event == "succeeded"] == [42, 42, 42]


def test_added_in_a_run(scheduler, clock, events):
    """The run that goes on is not told of any more if it is a plain one; the next is."""
    scheduler.every("10s", lambda: listen(scheduler, events, "succeeded") if clock.time() == 10 else 1)
    clock.advance(30)
    assert [event.result for event in events][-2:] == [1, 1]


def test_ended_in_a_run(scheduler, clock, events):
    ends = [scheduler.on(name, events.append) for name in ("started", "succeeded")]
    scheduler.every("10s", lambda: [end() for end in ends])
    clock.advance(30)
    assert names_of(events) == ["started"]
    assert scheduler.list_jobs()[0]["run_count"] == 3


@pytest.mark.parametrize("listened", [True, False])
def test_runs_are_the_same_with_listeners_and_without(make_scheduler, clock, listened, logged):
    """Counters, errors, the current run."""
    from pysched import current_run

    scheduler, seen = make_scheduler(clock=clock), []
    if listened:
        listen(scheduler, [])
    scheduler.start_background()

    def job():
        run = current_run()
        seen.append((run.job_id, run.attempt, run.scheduled_time))
        assert current_run() is run
        if len(seen) == 2:
            raise ValueError

    scheduler.every("10s", job, id="k")
    clock.advance(30)
    assert seen == [("k", 1, moment(10 * n)) for n in (1, 2, 3)]
    info = scheduler.get_job("k")
    assert (info.run_count, info.error_count, info.started_count) == (2, 1, 3)
    assert [entry[0] for entry in logged] == ["ERROR"]
    assert "job k (" in logged[0][1]


# Coroutines.


def test_coroutines(quiet, clock, events):
    async def job():
        await asyncio.sleep(3)
        if clock.time() > 20:
            raise ValueError("no luck")
        return 42

    quiet.every("10s", job, id="k")
    events.clear()
    clock.advance(25)
    assert names_of(events) == ["started", "succeeded", "started", "error"]
    assert (events[1].result, events[1].duration, events[1].time) == (42, 3, moment(13))
    assert (str(events[3].error), events[3].duration) == ("no luck", 3)


def test_a_plain_function_that_returns_an_awaitable(quiet, clock, events):
    async def answer():
        await asyncio.sleep(3)
        return 42

    quiet.every("10s", lambda: answer(), id="k")
    events.clear()
    clock.advance(15)
    assert names_of(events) == ["started", "succeeded"]
    assert (events[1].result, events[1].duration) == (42, 3)


def test_a_coroutine_that_times_out(quiet, clock, events):
    async def job():
        await asyncio.sleep(30)

    quiet.every("60s", job, id="k", timeout=5)
    events.clear()
    clock.advance(70)
    assert names_of(events) == ["started", "timeout"]
    assert events[1].duration == 5


@pytest.mark.real_time
def test_coroutines_on_real_loops(make_scheduler):
    scheduler, told = make_scheduler(1), []

    async def job():
        await asyncio.sleep(0.001)
        return 42

    scheduler.on("succeeded", lambda event: told.append(event.result))
    scheduler.start_background()
    scheduler.every("5ms", job, max_runs=5)
    assert wait_until(lambda: told == [42] * 5)


# Nothing is left.


def test_a_scheduler_that_is_dropped_takes_its_listeners_along(scheduler_type, clock):
    class Listener:
        def __call__(self, event):
            pass

    listener = Listener()
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    scheduler.on("started", listener)
    scheduler.every("1s", nothing)
    gone = weakref.ref(listener), weakref.ref(scheduler)
    del listener, scheduler
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_a_listener_that_has_ended_is_let_go(scheduler, clock):
    class Listener:
        def __call__(self, event):
            pass

    listener = Listener()
    ends = scheduler.on("started", listener)
    gone = weakref.ref(listener)
    scheduler.after(0, nothing)
    clock.advance(0)
    del listener
    ends()
    del ends
    gc.collect()
    assert gone() is None


def test_results_are_not_kept(scheduler, clock):
    class Result:
        pass

    kept = []
    scheduler.on("succeeded", lambda event: kept.append(weakref.ref(event.result)))
    scheduler.every("1s", Result, max_runs=3)
    clock.advance(10)
    gc.collect()
    assert [each() for each in kept] == [None] * 3


def test_what_is_exported():
    import pysched

    assert pysched.JobEvent is JobEvent
    assert isinstance(Scheduler.on.__doc__, str)


def test_the_last_missed_slot_of_a_job_names_it(scheduler, clock, events):
    listen(scheduler, events, "missed", "removed")
    scheduler.at(clock.now() - timedelta(hours=1), nothing, misfire_grace_time=5, id="late")
    clock.advance(1)
    assert [(event.event, event.job_id, event.job_name) for event in events] == [
        ("missed", "late", "nothing"),
        ("removed", "late", "nothing"),
    ]
    assert events[0].job is not None


def test_a_run_that_was_cancelled_is_no_error(scheduler, clock, events):
    listen(scheduler, events, "started", "error", "succeeded")

    def job():
        raise JobCancelled("enough")

    scheduler.every(1, job, id="k")
    clock.advance(1)
    assert [event.event for event in events] == ["started"]
    assert scheduler.get_job("k").error_count == 1


def test_a_listener_that_would_have_to_be_awaited_is_refused(scheduler):
    async def listener(event):
        pass

    with pytest.raises(TypeError, match="fn"):
        scheduler.on("error", listener)


MOST_MOMENTS = 200


def event_of(job_id):
    return JobEvent("added", T0, job_id, "a job", None)


def test_a_signal_handler_that_raises_amid_the_first_event_leaves_listeners_that_are_told():
    """At whatever moment it comes: it comes out, one thread tells what was put in, and the end of it is not awaited."""

    def interrupt():
        raise KeyboardInterrupt

    for moment in range(1, MOST_MOMENTS):
        told, idents = [], set()
        events = Events("scheduler", driven=False)
        events.add("added", lambda event, told=told: told.append(event.job_id))
        events.add("added", lambda _, idents=idents: idents.add(threading.get_ident()))
        interrupted = False
        try:
            with Intruder(moment, interrupt) as intruder:
                events.put(event_of("first"))
        except KeyboardInterrupt:
            interrupted = True
        assert interrupted == intruder.came, moment
        events.put(event_of("second"))
        assert events.end(WAIT), moment
        assert told in (["first", "second"], ["second"]), moment
        assert len(idents) == 1, moment
        if not intruder.came:
            assert told == ["first", "second"]
            break
    assert 5 < moment < MOST_MOMENTS - 1


def test_a_shutdown_while_the_thread_for_listeners_begins(monkeypatch):
    """Python cannot join a thread that has a number already and has not told that it is there."""
    go = threading.Event()
    set_native_id = threading.Thread._set_native_id

    def linger(thread):
        go.wait(WAIT)
        set_native_id(thread)

    monkeypatch.setattr(threading.Thread, "_set_native_id", linger)
    told = []
    events = Events("scheduler", driven=False)
    events.add("added", told.append)
    events.put(event_of("first"))
    assert wait_until(lambda: (thread := events._threads.get("by")) is not None and thread.ident is not None)
    assert events.end(0.01) is False
    go.set()
    assert events.end(WAIT) is True
    assert len(told) == 1


CALLS_THAT_ARE_TOLD = {
    "added": lambda scheduler: scheduler.every("1h", nothing, id="job"),
    "paused": lambda scheduler: scheduler.pause_job("job"),
    "resumed": lambda scheduler: scheduler.resume_job("job"),
    "removed": lambda scheduler: scheduler.remove_job("job"),
}


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("event", CALLS_THAT_ARE_TOLD)
def test_a_ctrl_c_while_an_event_is_made_comes_out_of_the_call_which_is_done(
    make_scheduler, clock, logged, monkeypatch, event, raised
):
    """Whoever reads the log learns that the event was not told."""
    scheduler, ran = make_scheduler(clock=clock), []
    scheduler.on(event, nothing)
    if event != "added":
        scheduler.every("1h", lambda: ran.append(1), id="job")
    if event == "resumed":
        scheduler.pause_job("job")

    def comes(*args):
        raise raised

    with monkeypatch.context() as patched:
        patched.setattr(scheduler._owner.announcer, "_made", comes)
        with pytest.raises(raised):
            CALLS_THAT_ARE_TOLD[event](scheduler)
    assert [f"listeners of {event!r} could not be told" in text for _, text, _ in logged] == [True]
    jobs = scheduler.list_jobs()
    assert [job["id"] for job in jobs] == ([] if event == "removed" else ["job"])
    scheduler.start_background()
    clock.advance(3600)
    assert scheduler._runner.all_open() == []
    assert sum(job["run_count"] for job in scheduler.list_jobs()) == (event in ("added", "resumed"))
    scheduler._check()
