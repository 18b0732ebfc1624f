"""`Scheduler`: remove, pause and resume, run_job, reschedule_job, next_runs."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, in_threads, nothing, wait_until

from pysched.testing import ManualClock

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
IDS = {
    "every": lambda s, f, **o: s.every("10s", f, **o),
    "cron": lambda s, f, **o: s.cron("* * * * *", f, **o),
    "after": lambda s, f, **o: s.after(10, f, **o),
    "at": lambda s, f, **o: s.at(T0 + timedelta(seconds=10), f, **o),
}
all_kinds = pytest.mark.parametrize("kind", IDS)
single = pytest.mark.parametrize("kind", ["after", "at"])
repeated = pytest.mark.parametrize("kind", ["every", "cron"])


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    return lambda: runs.append(clock.time())


def after(seconds):
    return T0 + timedelta(seconds=seconds)


# remove_job


@all_kinds
@pytest.mark.parametrize("options", [{}, {"timeout": 5}, {"id": "k"}], ids=["plain", "managed", "named"])
def test_removing_a_job_that_waits(scheduler, clock, runs, note, kind, options):
    job_id = IDS[kind](scheduler, note, **options)
    assert scheduler.remove_job(job_id) is True
    assert len(scheduler) == 0
    assert scheduler.list_jobs() == []
    with pytest.raises(KeyError):
        scheduler.remove_job(job_id)
    clock.advance(100)
    assert runs == []
    assert scheduler.stats().pending == 0


@all_kinds
def test_removing_a_paused_job(scheduler, clock, runs, note, kind):
    job_id = IDS[kind](scheduler, note)
    scheduler.pause_job(job_id)
    clock.advance(100)
    assert scheduler.remove_job(job_id) is True
    clock.advance(100)
    assert runs == []


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
@all_kinds
def test_removing_a_job_that_runs(scheduler, clock, runs, kind, options):
    """True for one that would have come again, False for one whose only run has started; the run goes on."""

    def job():
        runs.append(scheduler.remove_job(job_id))
        runs.append(len(scheduler))
        clock.sleep(100)
        runs.append("end")

    job_id = IDS[kind](scheduler, job, **options)
    clock.advance(1000)
    assert runs == [kind in ("every", "cron"), 0, "end"]
    assert scheduler.stats().running == 0


def test_removing_a_job_whose_last_run_goes_on(scheduler, clock, runs):
    def job():
        if len(runs) == 1:
            runs.append(scheduler.remove_job(job_id))
        else:
            runs.append(0)

    job_id = scheduler.every("10s", job, max_runs=2)
    clock.advance(100)
    assert runs == [0, True]


@pytest.mark.real_time
def test_removing_jobs_whose_runs_are_queued(make_scheduler):
    scheduler, started, release, runs = make_scheduler(1), threading.Event(), threading.Event(), []

    def hold():
        started.set()
        release.wait(WAIT)

    scheduler.after(0, hold)
    scheduler.start_background()
    assert started.wait(WAIT)
    once = scheduler.after(0, lambda: runs.append("once"))
    often = scheduler.every("1h", lambda: runs.append("often"), immediate=True, max_instances=2)
    assert wait_until(lambda: scheduler.stats().ready == 2)
    assert scheduler.run_job(often) is True
    assert scheduler.run_job(often) is False
    assert scheduler.remove_job(once) is True
    assert scheduler.remove_job(often) is True
    scheduler._check()
    release.set()
    assert scheduler._engine.wait_idle(WAIT)
    assert runs == []


def test_removing_a_one_shot_that_waits_for_a_retry(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    scheduler.after(0, lambda: 1 / 0, max_retries=3, retry_backoff=30, id="k")
    clock.advance(0)
    assert scheduler.get_job("k").running == 1
    assert scheduler.remove_job("k") is False
    assert len(scheduler) == 0


def test_each_of_a_hundred_jobs_removes_its_neighbour(scheduler, clock):
    ran = []

    def job(number):
        ran.append(number)
        scheduler.remove_job(f"k{number ^ 1}")

    for number in range(100):
        scheduler.every("1s", job, args=(number,), id=f"k{number}")
    clock.advance(1)
    assert ran == list(range(0, 100, 2))
    for info in scheduler.list_jobs():
        assert scheduler.remove_job(info["id"]) is True
    assert len(scheduler) == 0


def test_a_job_that_removes_itself_with_several_instances(make_scheduler):
    scheduler, removed, started = make_scheduler(4), [], []
    lock = threading.Lock()

    def job():
        with lock:
            started.append(1)
            if len(started) == 3:
                removed.append(scheduler.remove_job("k"))
        release.wait(WAIT)  # so that no fourth can start

    release = threading.Event()
    scheduler.every("10ms", job, max_instances=3, id="k")
    scheduler.start_background()
    assert wait_until(lambda: removed)
    release.set()
    assert removed == [True]
    assert scheduler._engine.wait_idle(WAIT)
    assert len(started) == 3
    assert len(scheduler) == 0


def test_the_late_end_of_a_removed_run_touches_nothing(scheduler, clock, runs):
    """Neither the counters of the job that has its id now, nor of one that has its place."""

    def job():
        scheduler.remove_job("k")
        for _ in range(3):
            scheduler.every("1h", nothing)
        scheduler.every("1h", nothing, id="k")
        clock.sleep(3)

    scheduler.every("10s", job, id="k")
    clock.advance(10)
    assert [(info["run_count"], info["running"], info["last_run_at"]) for info in scheduler.list_jobs()] == [
        (0, 0, None)
    ] * 4


# pause and resume


@repeated
def test_slots_of_a_paused_job_pass_by(scheduler, clock, runs, note, kind):
    period = 10 if kind == "every" else 60
    job_id = IDS[kind](scheduler, note)
    clock.advance(period)
    scheduler.pause_job(job_id)
    scheduler.pause_job(job_id)
    info = scheduler.get_job(job_id)
    assert (info.enabled, info.next_run_at) == (False, None)
    assert scheduler.next_runs(job_id, 5) == []
    clock.advance(3.5 * period)
    scheduler.resume_job(job_id)
    info = scheduler.get_job(job_id)
    assert (info.enabled, info.next_run_at, info.paused_count) == (True, after(5 * period), 3)
    clock.advance(period)
    assert runs == [period, 5 * period]
    assert info.coalesced_count == 0
    scheduler.resume_job(job_id)
    assert scheduler.get_job(job_id).paused_count == 3


def test_a_slot_at_the_very_moment_of_the_resume_has_passed(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note)
    scheduler.pause_job(job_id)
    clock.advance(10)
    scheduler.resume_job(job_id)
    clock.advance(10)
    assert runs == [20]


@single
def test_a_one_shot_whose_time_passed_in_a_pause_runs_on_resume(scheduler, clock, runs, note, kind):
    job_id = IDS[kind](scheduler, note)
    scheduler.pause_job(job_id)
    clock.advance(30)
    assert len(scheduler) == 1
    scheduler.resume_job(job_id)
    clock.advance(0)
    assert runs == [30]
    assert len(scheduler) == 0


@single
def test_a_one_shot_that_is_resumed_in_time(scheduler, clock, runs, note, kind):
    job_id = IDS[kind](scheduler, note)
    scheduler.pause_job(job_id)
    clock.advance(5)
    scheduler.resume_job(job_id)
    clock.advance(30)
    assert runs == [10]


def test_a_run_in_progress_goes_on_in_a_pause(scheduler, clock, runs):
    def job(cancel):
        scheduler.pause_job(job_id)
        scheduler.pause()
        runs.append((cancel.wait(5), scheduler.get_job(job_id).running))

    job_id = scheduler.every("10s", job)
    clock.advance(100)
    assert runs == [(False, 1)]
    assert scheduler.get_job(job_id).run_count == 1


def test_the_pause_of_all_is_apart_from_each_jobs_own(scheduler, clock, runs):
    one = scheduler.every("10s", runs.append, args=(1,))
    two = scheduler.every("10s", runs.append, args=(2,))
    scheduler.pause_job(one)
    scheduler.pause()
    assert scheduler.get_job(two).enabled is True
    clock.advance(25)
    assert runs == []
    scheduler.resume()
    clock.advance(10)
    assert runs == [2]
    assert scheduler.get_job(two).paused_count == 2
    scheduler.pause()
    scheduler.resume_job(one)
    clock.advance(10)
    assert runs == [2]
    scheduler.resume()
    clock.advance(10)
    assert runs == [2, 2, 1]  # a job is submitted anew when it is re-armed


def test_one_shots_wait_for_the_end_of_the_pause_of_all(scheduler, clock, runs, note):
    scheduler.pause()
    scheduler.after(10, note)
    scheduler.at(after(20), note)
    scheduler.after(100, note)
    clock.advance(50)
    assert runs == []
    scheduler.resume()
    clock.advance(0)
    assert runs == [50, 50]
    clock.advance(50)
    assert runs == [50, 50, 100]


def test_a_one_shot_in_both_pauses(scheduler, clock, runs, note):
    job_id = scheduler.after(10, note)
    scheduler.pause()
    clock.advance(20)
    scheduler.pause_job(job_id)
    scheduler.resume()
    clock.advance(20)
    scheduler.pause()
    scheduler.resume_job(job_id)
    clock.advance(20)
    assert runs == []
    scheduler.resume()
    clock.advance(0)
    assert runs == [60]


@repeated
@pytest.mark.parametrize("pause", ["of the job", "of all"])
def test_a_pause_before_the_start_keeps_the_run_at_the_start(make_scheduler, clock, runs, note, kind, pause):
    scheduler = make_scheduler(clock=clock)
    IDS[kind](scheduler, note, id="k", immediate=True)
    if pause == "of all":
        scheduler.pause()
        scheduler.resume()
    else:
        scheduler.pause_job("k")
        scheduler.resume_job("k")
    clock.advance(5)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [5]
    clock.advance("1m")
    assert scheduler.get_job("k").started_count == len(runs) > 1


def test_pauses_before_the_start(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.pause()
    job_id = scheduler.every("10s", note)
    clock.advance(25)
    scheduler.start_background()
    clock.advance(10)
    assert runs == []
    scheduler.resume()
    clock.advance(10)
    assert runs == [40]
    assert scheduler.get_job(job_id).paused_count == 3


# run_job


@all_kinds
def test_run_job_runs_besides_the_slots(scheduler, clock, runs, note, kind):
    job_id = IDS[kind](scheduler, note)
    before = scheduler.get_job(job_id).next_run_at
    clock.advance(3)
    assert scheduler.run_job(job_id) is True
    assert scheduler.get_job(job_id).running == 1
    clock.advance(0)
    assert runs == [3]
    info = scheduler.get_job(job_id)
    assert (info.next_run_at, info.run_count, info.running) == (before, 1, 0)
    clock.advance(57)
    assert runs == {"every": [3, 10, 20, 30, 40, 50, 60], "cron": [3, 60]}.get(kind, [3, 10])


@all_kinds
def test_run_job_of_a_paused_job(scheduler, clock, runs, note, kind):
    job_id = IDS[kind](scheduler, note)
    scheduler.pause_job(job_id)
    scheduler.pause()
    assert scheduler.run_job(job_id) is True
    clock.advance(100)
    assert runs == [0]
    assert scheduler.get_job(job_id).enabled is False


def test_run_job_honours_max_instances(scheduler, clock):
    job_id = scheduler.every("1h", nothing, max_instances=3)
    assert [scheduler.run_job(job_id) for _ in range(5)] == [True, True, True, False, False]
    assert scheduler.get_job(job_id).running == 3
    assert clock.advance(0) == 3
    assert scheduler.get_job(job_id).coalesced_count == 0
    scheduler._check()


def test_run_job_from_inside(scheduler, clock, runs):
    def job():
        runs.append((clock.time(), scheduler.run_job(job_id)))

    job_id = scheduler.every("10s", job)
    clock.advance(10)
    assert runs == [(10, False)]


def test_run_job_when_not_running(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    job_id = scheduler.every("1s", nothing)
    with pytest.raises(RuntimeError, match="not running"):
        scheduler.run_job(job_id)
    with pytest.raises(KeyError):
        scheduler.run_job("unknown")
    scheduler.start_background()
    scheduler.shutdown()
    with pytest.raises(RuntimeError, match="not running"):
        scheduler.run_job(job_id)


def test_the_scheduled_time_of_run_job_is_now(scheduler, clock):
    seen = []
    job_id = scheduler.every("10s", lambda ctx: seen.append(ctx.scheduled_time))
    at = scheduler.cron("0 0 1 1 *", lambda ctx: seen.append(ctx.scheduled_time))
    clock.advance(3)
    scheduler.run_job(job_id)
    scheduler.run_job(at)
    clock.advance(0)
    assert seen == [after(3)] * 2


def test_run_job_while_the_job_is_late(scheduler, clock, runs, note):
    """A run that was asked for is no reason to coalesce what comes after it."""
    job_id = scheduler.every("10s", note)
    for _ in range(5):
        clock.advance(10)
        scheduler.run_job(job_id)
    clock.advance(9)
    assert runs == [10, 10, 20, 20, 30, 30, 40, 40, 50, 50]
    assert scheduler.get_job(job_id).coalesced_count == 0


def test_shutdown_drops_a_run_that_was_asked_for(scheduler, clock, runs, note):
    job_id = scheduler.every("1h", note)
    scheduler.run_job(job_id)
    assert scheduler.shutdown() == []
    info = scheduler.get_job(job_id)
    assert (info.running, info.started_count) == (0, 0)
    assert scheduler.stats().dropped == 1
    assert scheduler.stats().ready == 0


# reschedule_job

GRIDS = {
    "every": ({"every": "7s"}, "every 7s", 7),
    "cron": ({"cron": "* * * * *"}, "cron * * * * *", 60),
    "after": ({"after": 7}, "after 7s", 7),
    "at": ({"at": after(47)}, "at 2000-01-01T00:00:47+00:00", 47),
}


@all_kinds
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("options", [{}, {"timeout": 5, "tags": ["t"], "name": "n"}], ids=["plain", "managed"])
def test_any_grid_from_any_grid(scheduler, clock, runs, note, kind, grid, options):
    job_id = IDS[kind](scheduler, note, **options)
    order = scheduler.every("1d", nothing)
    clock.advance(5)
    arguments, shown, first = GRIDS[grid]
    first += 5 if grid in ("every", "after") else 0
    assert scheduler.reschedule_job(job_id, **arguments) is None
    info = scheduler.get_job(job_id)
    assert (info.schedule, info.next_run_at) == (shown, after(first))
    assert (info.timeout, info.tags, info.name) == (
        options.get("timeout"),
        set(options.get("tags", ())),
        options.get("name", "<lambda>"),
    )
    assert [each["id"] for each in scheduler.list_jobs()] == [job_id, order]
    clock.advance(first - 5 - 0.1)
    assert runs == []
    clock.advance(0.1)
    assert runs == [first]
    if grid in ("after", "at"):
        with pytest.raises(KeyError):
            scheduler.get_job(job_id)
        assert len(scheduler) == 1
    else:
        second = first + (7 if grid == "every" else 60)
        clock.advance(second - first)
        assert runs == [first, second]


def test_counters_and_pauses_stay(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note)
    clock.advance(30)
    scheduler.pause_job(job_id)
    scheduler.reschedule_job(job_id, every="1s")
    info = scheduler.get_job(job_id)
    assert (info.run_count, info.enabled, info.next_run_at, info.schedule) == (3, False, None, "every 1s")
    clock.advance(10.5)
    scheduler.resume_job(job_id)
    clock.advance(1)
    assert runs == [10, 20, 30, 41]
    assert scheduler.get_job(job_id).paused_count == 10


def test_a_one_shot_that_becomes_a_grid_in_a_pause_of_all(scheduler, clock, runs, note):
    """It was waiting for the resume; now its slots pass by."""
    job_id = scheduler.after(10, note)
    scheduler.pause()
    clock.advance(20)
    scheduler.reschedule_job(job_id, every="10s")
    clock.advance(35)
    scheduler.resume()
    clock.advance(5)
    assert runs == [60]
    info = scheduler.get_job(job_id)
    assert (info.paused_count, info.coalesced_count) == (3, 0)


def test_start_at(scheduler, clock, runs, note):
    job_id = scheduler.every("1h", note)
    scheduler.reschedule_job(job_id, every="10s", start_at=after(3))
    clock.advance(25)
    assert runs == [3, 13, 23]
    scheduler.reschedule_job(job_id, cron="* * * * *", start_at=after(180))
    clock.advance(200)
    assert runs == [3, 13, 23, 180]


@pytest.mark.parametrize("grid", GRIDS)
def test_from_inside_a_run(scheduler, clock, runs, grid):
    def job():
        runs.append(clock.time())
        if len(runs) == 1:
            scheduler.reschedule_job(job_id, **GRIDS[grid][0])
            assert scheduler.get_job(job_id).running == 1

    job_id = scheduler.every("10s", job)
    clock.advance(100)
    assert (
        runs
        == {"every": [10, *range(17, 111, 7)], "cron": [10, 60], "after": [10, 17], "at": [10, 47]}[grid][: len(runs)]
    )
    assert len(runs) == {"every": 13, "cron": 2, "after": 2, "at": 2}[grid]


@single
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_a_one_shot_that_reschedules_itself_stays(scheduler, clock, runs, kind, options):
    def job():
        runs.append(clock.time())
        if len(runs) < 5:
            scheduler.reschedule_job("k", after=3)

    IDS[kind](scheduler, job, id="k", **options)
    clock.advance(60)
    assert runs == [10, 13, 16, 19, 22]
    assert len(scheduler) == 0


def test_a_failing_one_shot_that_reschedules_itself(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job():
        runs.append(clock.time())
        scheduler.reschedule_job("k", after=3)
        raise ValueError("once more")

    scheduler.after(10, job, id="k")
    clock.advance(14)
    info = scheduler.get_job("k")
    assert runs == [10, 13]
    assert (info.error_count, info.last_error) == (2, "ValueError: once more")


def test_a_queued_run_is_dropped(scheduler, clock, runs, note):
    job_id = scheduler.every("1h", note)
    scheduler.run_job(job_id)
    scheduler.reschedule_job(job_id, every="10s")
    assert scheduler.get_job(job_id).running == 0
    clock.advance(10)
    assert runs == [10]
    scheduler._check()


def until_of(scheduler, job_id):
    return scheduler._engine.snapshot(scheduler._book.reference_of(job_id)).until


@pytest.mark.parametrize("end", [datetime(2100, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)], ids=str)
def test_a_far_until_is_kept_on_other_clocks(scheduler, clock, runs, note, end):
    end_ns = (end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    scheduler.every("1h", note, until=end, id="k")
    for grid in ({"cron": "0 * * * *"}, {"every": "1h"}, {"cron": "0 * * * *"}, {"every": "1h"}):
        assert until_of(scheduler, "k") == end_ns
        scheduler.reschedule_job("k", **grid)
        assert until_of(scheduler, "k") == end_ns
    clock.advance("2h")
    assert runs == [3600, 7200]


@pytest.mark.parametrize("year", [1700, 1900, 2000, 2200])
@pytest.mark.parametrize("end", [datetime(2262, 4, 11, 23, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)], ids=str)
@pytest.mark.parametrize("first", ["every", "cron"])
def test_an_until_at_the_end_of_time_does_not_overflow(make_scheduler, runs, year, end, first):
    """It may become the end of time, no more: the job runs on."""
    clock = ManualClock(datetime(year, 1, 1, tzinfo=UTC))
    scheduler = make_scheduler(clock=clock)
    scheduler.start_background()
    if first == "cron":
        scheduler.cron("0 * * * *", lambda: runs.append(clock.time()), until=end, id="k")
    else:
        scheduler.every("1h", lambda: runs.append(clock.time()), until=end, id="k")
    grids = [{"every": "1h"}, {"cron": "0 * * * *"}]
    if year < 1840:  # no calendar before
        grids = [{"every": "1h"}] * 2
    for turn, grid in enumerate([*grids, *grids]):
        scheduler.reschedule_job("k", **grid)
        clock.advance("1h")
        assert runs == [3600 * (n + 1) for n in range(turn + 1)]
        assert scheduler.next_runs("k", 3)


def test_until_holds_on_the_new_grid(scheduler, clock, runs, note):
    job_id = scheduler.every("1s", note, until=after(200))
    scheduler.reschedule_job(job_id, cron="* * * * *")
    assert scheduler.next_runs(job_id, 9) == [after(60), after(120), after(180)]
    clock.advance(70)
    scheduler.reschedule_job(job_id, every="50s")
    clock.advance("1d")
    assert runs == [60, 120, 170]
    assert len(scheduler) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"every": "200s"},
        {"cron": "0 12 * * *"},
        {"every": "1s", "start_at": after(200)},
        {"after": 200},
        {"at": after(200)},
    ],
)
def test_a_new_grid_after_until_is_refused(scheduler, clock, runs, note, arguments):
    job_id = scheduler.every("90s", note, until=after(200))
    before = scheduler.list_jobs()
    with pytest.raises(ValueError, match="until"):
        scheduler.reschedule_job(job_id, **arguments)
    assert scheduler.list_jobs() == before
    clock.advance(500)
    assert runs == [90, 180]


def test_a_jitter_that_is_too_long_for_the_new_grid_is_refused(scheduler):
    job_id = scheduler.every("10s", nothing, jitter=5)
    before = scheduler.list_jobs()
    with pytest.raises(ValueError, match="jitter"):
        scheduler.reschedule_job(job_id, every="5s")
    assert scheduler.list_jobs() == before
    scheduler.reschedule_job(job_id, every="6s")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "exactly one"),
        ({"every": "1s", "after": 1}, "exactly one"),
        ({"cron": "* * * * *", "at": after(9)}, "exactly one"),
        ({"timezone": "UTC"}, "exactly one"),
        ({"every": "1s", "timezone": "UTC"}, "timezone"),
        ({"after": 1, "start_at": after(9)}, "start_at"),
        ({"every": 0}, "every"),
        ({"every": "x"}, "every"),
        ({"after": -1}, "after"),
        ({"cron": "x"}, "cron"),
        ({"cron": 5}, "^cron must"),
        ({"cron": "* * * * *", "timezone": "Nowhere/City"}, "timezone"),
        ({"at": after(9).replace(tzinfo=None)}, "at"),
        ({"at": 9}, "at"),
        ({"every": "1s", "start_at": 9}, "start_at"),
    ],
    ids=str,
)
def test_refusals_change_nothing(scheduler, clock, arguments, named):
    job_id = scheduler.every("10s", nothing)
    before = scheduler.list_jobs()
    with pytest.raises((TypeError, ValueError), match=named):
        scheduler.reschedule_job(job_id, **arguments)
    assert scheduler.list_jobs() == before
    with pytest.raises(KeyError):
        scheduler.reschedule_job("unknown", **arguments)
    scheduler._check()


def test_rescheduling_a_removed_job_leaves_nothing(scheduler):
    job_id = scheduler.every("10s", nothing)
    scheduler.remove_job(job_id)
    with pytest.raises(KeyError):
        scheduler.reschedule_job(job_id, after=5)
    assert not scheduler._book.options


def test_it_wakes_a_loop_that_sleeps(make_scheduler):
    scheduler, ran = make_scheduler(1), threading.Event()
    job_id = scheduler.every("1h", ran.set)
    scheduler.start_background()
    scheduler.reschedule_job(job_id, every="10ms")
    assert ran.wait(WAIT)


# next_runs


def test_next_runs_of_each_kind(scheduler, clock):
    clock.advance(5)
    ids = {kind: register(scheduler, nothing) for kind, register in IDS.items()}
    assert scheduler.next_runs(ids["every"], 3) == [after(15), after(25), after(35)]
    assert scheduler.next_runs(ids["cron"], 2) == [after(60), after(120)]
    assert scheduler.next_runs(ids["after"], 3) == [after(15)]
    assert scheduler.next_runs(ids["at"], 3) == [after(10)]
    assert all(scheduler.next_runs(each, 0) == [] for each in ids.values())


def test_next_runs_end_with_until_and_max_runs(scheduler, clock):
    job_id = scheduler.every("10s", nothing, until=after(40))
    assert scheduler.next_runs(job_id, 9) == [after(10), after(20), after(30)]
    job_id = scheduler.every("10s", nothing, max_runs=3)
    clock.advance(10)
    assert scheduler.next_runs(job_id, 9) == [after(20), after(30)]
    job_id = scheduler.cron("* * * * *", nothing, until=after(130))
    assert scheduler.next_runs(job_id, 9) == [after(60), after(120)]


@repeated
def test_next_runs_leave_room_for_the_run_at_the_start(make_scheduler, clock, runs, note, kind):
    """It is one of `max_runs`, and no slot."""
    scheduler = make_scheduler(clock=clock)
    IDS[kind](scheduler, note, id="two", max_runs=2, immediate=True)
    IDS[kind](scheduler, note, id="one", max_runs=1, immediate=True)
    IDS[kind](scheduler, note, id="any", immediate=True)
    assert [len(scheduler.next_runs(job_id, 5)) for job_id in ("two", "one", "any")] == [1, 0, 5]
    (coming,) = scheduler.next_runs("two", 5)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [0, 0, 0]
    assert scheduler.next_runs("two", 5) == [coming]
    scheduler.remove_job("any")
    clock.advance("1h")
    assert [T0 + timedelta(seconds=at) for at in runs[3:]] == [coming]
    assert len(scheduler) == 0


def test_next_runs_are_what_comes(scheduler, clock, runs, note):
    job_id = scheduler.cron("*/7 3,4 * * *", note, timezone="Asia/Tokyo")
    expected = scheduler.next_runs(job_id, 50)
    clock.advance("4d")
    assert [after(run) for run in runs[:50]] == expected
    assert {each.tzinfo for each in expected} == {ZoneInfo("Asia/Tokyo")}


@pytest.mark.parametrize("n", [-1, 1.0, True, "1", None, 10**6 + 1], ids=repr)
def test_next_runs_refuses(scheduler, n):
    job_id = scheduler.every("10s", nothing)
    with pytest.raises((TypeError, ValueError), match="n must"):
        scheduler.next_runs(job_id, n)


# All of it from many threads.


@pytest.mark.stress
def test_control_from_many_threads(make_scheduler):
    scheduler = make_scheduler(2, on_error=nothing)
    scheduler.start_background()

    def work(seed):
        import random

        choose = random.Random(seed)
        for step in range(300):
            job_id = f"k{choose.randrange(10)}"
            try:
                match choose.randrange(9):
                    case 0:
                        scheduler.every(
                            choose.choice([0.001, 0.01, 1]), lambda: None, id=job_id, replace=choose.random() < 0.5
                        )
                    case 1:
                        scheduler.after(
                            choose.choice([0, 0.001]), lambda: 1 / 0, id=job_id, max_retries=2, retry_backoff=0.001
                        )
                    case 2:
                        scheduler.cron("* * * * * *", nothing, seconds=True, id=job_id, max_instances=2)
                    case 3:
                        scheduler.remove_job(job_id)
                    case 4:
                        scheduler.pause_job(job_id)
                    case 5:
                        scheduler.resume_job(job_id)
                    case 6:
                        scheduler.run_job(job_id)
                    case 7:
                        scheduler.reschedule_job(
                            job_id, **choose.choice([{"every": 0.002}, {"after": 0}, {"cron": "* * * * *"}])
                        )
                    case 8:
                        scheduler.list_jobs()
                        scheduler.next_runs(job_id, 3)
            except (KeyError, ValueError):
                pass
            if step % 50 == 0:
                scheduler._check()

    in_threads(*[lambda seed=seed: work(seed) for seed in range(4)])
    scheduler.remove_all_jobs()
    assert scheduler._engine.wait_idle(WAIT)
    assert wait_until(lambda: not scheduler._runner.all_open())
    assert len(scheduler) == 0
    assert not scheduler._book.ids
    assert not scheduler._book.options
    assert not scheduler._book.errors


@pytest.mark.parametrize("pause", ["pause", "pause_job"])
def test_one_shots_of_one_time_run_in_the_order_of_registration_after_a_pause(scheduler, clock, runs, pause):
    for job_id in [scheduler.after(100, nothing) for _ in range(3)]:
        scheduler.remove_job(job_id)  # places that are given out again, the last one first
    ids = [scheduler.after(1, lambda n=n: runs.append(n)) for n in range(6)]
    if pause == "pause":
        scheduler.pause()
    else:
        for job_id in ids:
            scheduler.pause_job(job_id)
    clock.advance(5)
    if pause == "pause":
        scheduler.resume()
    else:
        for job_id in ids:
            scheduler.resume_job(job_id)
    clock.advance(0)
    assert runs == [0, 1, 2, 3, 4, 5]


def test_ending_a_pause_while_jobs_come_and_go(make_scheduler):
    scheduler = make_scheduler(2)
    kept = [scheduler.every("1h", nothing) for _ in range(700)]
    scheduler.start_background()

    def switch():
        for _ in range(30):
            scheduler.pause()
            scheduler.resume()

    def change():
        for _ in range(300):
            mine = scheduler.after(0.0001, nothing)
            scheduler.pause_job(kept[0])
            scheduler.resume_job(kept[0])
            try:
                scheduler.remove_job(mine)
            except KeyError:
                pass

    in_threads(switch, change, change)
    scheduler.resume()
    assert wait_until(lambda: len(scheduler) == len(kept))
    scheduler._check()
    assert all(job["enabled"] and job["next_run_at"] for job in scheduler.list_jobs())


def test_a_cron_job_keeps_its_zone_its_seconds_and_its_hash_on_a_new_grid(scheduler, clock):
    tokyo = ZoneInfo("Asia/Tokyo")
    scheduler.cron("0 9 * * *", nothing, timezone="Asia/Tokyo", id="zone")
    scheduler.reschedule_job("zone", cron="0 10 * * *")
    assert scheduler.next_runs("zone", 1) == [datetime(2000, 1, 1, 10, tzinfo=tokyo)]
    assert str(scheduler.get_job("zone").timezone) == "Asia/Tokyo"
    scheduler.reschedule_job("zone", cron="0 10 * * *", timezone="UTC")
    assert scheduler.next_runs("zone", 1) == [datetime(2000, 1, 1, 10, tzinfo=UTC)]

    scheduler.cron("0 0 9 * * *", nothing, seconds=True, id="seconds")
    scheduler.reschedule_job("seconds", cron="30 0 9 * * *")
    assert scheduler.next_runs("seconds", 1)[0].second == 30
    with pytest.raises(ValueError, match="needs 6 fields"):
        scheduler.reschedule_job("seconds", cron="0 9 * * *")

    scheduler.cron("H 9 * * *", nothing, hashed=True, id="hashed")
    before = scheduler.next_runs("hashed", 1)[0]
    scheduler.reschedule_job("hashed", cron="H 10 * * *")
    assert scheduler.next_runs("hashed", 1)[0] == before + timedelta(hours=1)


@pytest.mark.parametrize("trigger", [{"after": "1m"}, {"at": T0 + timedelta(minutes=1)}], ids=["after", "at"])
def test_jitter_is_of_jobs_that_are_repeated(scheduler, clock, runs, note, trigger):
    for n in range(5):
        scheduler.every("1h", note, jitter="30m", id=f"job {n}")
        scheduler.reschedule_job(f"job {n}", **trigger)
    clock.advance("1h")
    assert runs == [60.0] * 5
