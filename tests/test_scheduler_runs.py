"""`Scheduler`: when jobs run: grids, lateness, order, instances, calendars."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, SteppedClock, comes_to_rest, nothing, pause, wait_until

from pysched.testing import ManualClock

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    return lambda: runs.append(clock.time())


# Intervals.


def test_a_job_of_three_seconds_does_not_drift(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(3)

    scheduler.every("10s", job)
    clock.advance(1005)
    assert runs == [10 * n for n in range(1, 101)]


def test_a_job_that_is_longer_than_its_interval_stays_on_the_grid(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(25)

    job_id = scheduler.every("10s", job)
    clock.advance(305)
    assert runs == list(range(10, 305, 30))
    assert scheduler.get_job(job_id).coalesced_count + len(runs) == 300 // 10


def test_two_instances_take_what_one_coalesces(make_scheduler):
    scheduler, release = make_scheduler(4), threading.Event()
    scheduler.every("10ms", lambda: release.wait(WAIT), max_instances=3, id="k")
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job("k").running == 3)
    assert wait_until(lambda: scheduler.get_job("k").coalesced_count > 3)
    assert scheduler.get_job("k").running == 3
    release.set()
    assert wait_until(lambda: scheduler.get_job("k").run_count > 5)


def test_late_is_better_than_never_and_one_is_enough(scheduler, clock, runs, note):
    """Three seconds are lost to another job; nothing is dropped by default."""
    scheduler.every("1h", lambda: clock.sleep(3))
    job_id = scheduler.every("1h", note)
    scheduler.after("1h", note)
    clock.advance("1h")
    assert runs == [3603, 3603]
    assert scheduler.get_job(job_id).coalesced_count == 0


def test_of_the_slots_that_were_missed_the_latest_runs(scheduler, clock):
    seen = []
    scheduler.every("10s", lambda: clock.sleep(34), max_runs=1)
    job_id = scheduler.every("10s", lambda ctx: seen.append((clock.time(), ctx.scheduled_time)))
    clock.advance(60)
    assert seen == [(44, T0 + timedelta(seconds=40)), *[(at, T0 + timedelta(seconds=at)) for at in (50, 60)]]
    assert scheduler.get_job(job_id).coalesced_count == 3


def test_an_early_wake_runs_no_slot_twice(make_scheduler, runs):
    """A clock that wakes up early each time: the next slot comes from the slot, never from now."""
    clock = SteppedClock()
    scheduler = make_scheduler(1, clock=clock)
    scheduler.every("10s", lambda: runs.append(clock.now_ns))
    scheduler.start_background()
    for seconds in range(10, 110, 10):
        clock.set(seconds - 0.003)
        clock.let_look()
        assert len(runs) == seconds // 10 - 1
        clock.set(seconds)
        assert wait_until(lambda count=seconds // 10: len(runs) == count)
    assert runs == [seconds * 10**9 for seconds in range(10, 110, 10)]


def test_a_cron_job_on_a_clock_that_wakes_early(make_scheduler, runs):
    clock = SteppedClock()
    scheduler = make_scheduler(1, clock=clock)
    scheduler.cron("* * * * *", lambda: runs.append(clock.now_ns))
    scheduler.start_background()
    for seconds in range(60, 660, 60):
        clock.set(seconds - 0.003)
        clock.let_look()
        assert len(runs) == seconds // 60 - 1
        clock.set(seconds)
        assert wait_until(lambda count=seconds // 60: len(runs) == count)
    assert runs == [seconds * 10**9 for seconds in range(60, 660, 60)]


def test_an_interval_does_not_care_for_the_wall_clock(scheduler, clock, runs, note):
    scheduler.every("10s", note)
    clock.advance(30)
    for step in ("-12h", None):
        clock.step_wall(timedelta(hours=-12) if step else timedelta(days=36500))
        clock.advance(30)
    assert runs == list(range(10, 100, 10))


def test_of_174_years_few_slots_are_counted(scheduler, clock, runs, note):
    """Of the calendar's 91 million the first ten thousand: what it takes has a bound."""
    cron = []
    scheduler.every("1s", note)
    scheduler.cron("* * * * *", lambda: cron.append(clock.time()), id="k")
    clock.step_wall(timedelta(days=174 * 365))
    clock.advance(60)
    assert runs == list(range(1, 61))
    assert cron == [0, 60]
    assert scheduler.get_job("k").coalesced_count == scheduler.get_job("k").missed_count == 10_000
    clock.advance(60)
    assert cron == [0, 60, 120]


def test_more_than_49_days(scheduler, clock, runs, note):
    """29 April to 1 March, and 100 days: no run before, one when it is due."""
    clock.advance(timedelta(days=119))
    cron = []
    scheduler.cron("0 9 1 3 *", lambda: cron.append(clock.now()))
    scheduler.every("2400h", note, id="k")
    clock.advance("60d")
    assert (cron, runs) == ([], [])
    clock.advance("100d")
    assert runs == [(119 + 100) * 86400]
    clock.advance("365d")
    assert cron == [datetime(2001, 3, 1, 9, tzinfo=UTC)]


@pytest.mark.parametrize("delay", [2**31 / 1000, 2**32 / 1000 + 1, 50 * 86400, 1e9])
def test_long_delays_do_not_come_at_once(make_scheduler, delay):
    scheduler, ran = make_scheduler(1), threading.Event()
    long = []
    scheduler.after(delay, lambda: long.append(1))
    scheduler.every(delay, lambda: long.append(1))
    scheduler.start_background()
    scheduler.after(0.02, ran.set)
    assert ran.wait(WAIT)
    assert long == []
    assert scheduler.stats().wakeups < 50


# Beyond the years that 64 bits of nanoseconds reach.


@pytest.mark.parametrize("year", [1, 1600, 1677, 2263, 2300, 9000])
def test_in_years_beyond_the_reach_of_the_engine(make_scheduler, runs, year, logged):
    """Intervals tick on; calendars and moments never come."""
    clock = ManualClock(datetime(year, 1, 1, tzinfo=UTC))
    scheduler, others = make_scheduler(clock=clock), []
    scheduler.start_background()
    scheduler.every("10s", lambda: runs.append(clock.time()), immediate=True)
    scheduler.every("10s", lambda ctx: runs.append(clock.time()), timeout=5)
    scheduler.cron("* * * * *", lambda: others.append("cron"))
    scheduler.at(datetime(2000 if year < 2000 else 9999, 1, 1, tzinfo=UTC), lambda: others.append("at"))
    scheduler.at(datetime(2262, 4, 11, tzinfo=UTC), lambda: others.append("at"))
    clock.advance(120)
    assert runs == [0] + [at for at in range(10, 130, 10) for _ in range(2)]
    assert others == []
    assert scheduler.list_jobs()
    assert [scheduler.get_job(job["id"]).running for job in scheduler.list_jobs()] == [0] * len(scheduler)
    scheduler._check()


@pytest.mark.parametrize("days", [100_000, -200_000, 3_000_000])
def test_a_wall_clock_that_is_set_to_beyond_the_reach_of_the_engine(scheduler, clock, runs, note, days):
    cron = []
    scheduler.every("10s", note)
    scheduler.cron("* * * * *", lambda: cron.append(clock.time()))
    clock.advance(60)
    assert cron == [60]
    clock.step_wall(timedelta(days=days))
    clock.advance(120)
    assert runs == list(range(10, 190, 10))
    assert cron == ([60, 60] if days > 0 else [60])  # the slots between, as one, at once
    assert [job["running"] for job in scheduler.list_jobs()] == [0, 0]
    scheduler._check()


@pytest.mark.parametrize("year", [1700, 1900, 1969])
def test_the_end_of_time_as_seen_from_long_before(make_scheduler, runs, year):
    """A moment so far off that its distance is beyond 64 bits is not due, nor looked at again and again."""
    clock = ManualClock(datetime(year, 1, 1, tzinfo=UTC))
    scheduler = make_scheduler(clock=clock)
    scheduler.start_background()
    far = scheduler.at(datetime(2262, 4, 1, tzinfo=UTC), lambda: runs.append("at"))
    cron = scheduler.cron("0 0 1 4 *", lambda: runs.append("cron"), start_at=datetime(2262, 1, 1, tzinfo=UTC))
    clock.advance("1d")
    assert runs == []
    for job_id in (far, cron):
        assert scheduler.get_job(job_id).running == 0
        scheduler.pause_job(job_id)
        scheduler.resume_job(job_id)
    clock.advance("1d")
    assert runs == []
    scheduler._check()


# One-shots.


def test_one_shots_leave_when_their_run_has_ended(scheduler, clock):
    seen = []
    ids = [
        scheduler.after(10, lambda: seen.append([scheduler.get_job(each).running for each in ids])),
        scheduler.at(T0 + timedelta(seconds=10), nothing),
    ]
    assert [scheduler.get_job(each).schedule for each in ids] == ["after 10s", "at 2000-01-01T00:00:10+00:00"]
    clock.advance(10)
    assert seen == [[1, 0]]
    for each in ids:
        with pytest.raises(KeyError):
            scheduler.get_job(each)
    assert len(scheduler) == 0


def test_a_one_shot_waits_for_its_instance(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(5)

    scheduler.after(3, job, id="k")
    assert scheduler.run_job("k")
    clock.advance(10)
    assert runs == [0, 5]
    assert len(scheduler) == 0


def test_one_shots_before_the_start(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.after(1, note)
    scheduler.at(T0 + timedelta(seconds=2), note)
    scheduler.after(10, note)
    clock.advance(5)
    scheduler.start_background()
    clock.advance(10)
    assert runs == [5, 5, 10]


# Order.


def test_the_order_is_of_due_time_then_submission(scheduler, clock, runs):
    for number in range(50):
        scheduler.after(1 + number % 5, runs.append, args=(number,))
    clock.advance(10)
    assert runs == sorted(range(50), key=lambda number: (number % 5, number))


def test_a_job_added_with_no_delay_goes_behind_what_is_due(scheduler, clock, runs):
    scheduler.after(1, lambda: scheduler.after(0, runs.append, args=("new",)))
    scheduler.after(1, runs.append, args=("a",))
    scheduler.after(1, runs.append, args=("b",))
    clock.advance(1)
    assert runs == ["a", "b", "new"]


def test_callables_are_never_compared(scheduler, clock, runs):
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            return True

        def __lt__(self, other):
            raise AssertionError("it is compared")

        def __call__(self):
            runs.append(1)

    job = Odd()
    scheduler.after(1, job, id="one")
    scheduler.after(1, job, id="two")
    scheduler.remove_job("two")
    clock.advance(1)
    assert runs == [1]


def test_a_manual_clock_counts_what_it_runs(scheduler, clock, logged):
    scheduler.every("1s", nothing)
    scheduler.every("1s", lambda: 1 / 0, max_retries=2, retry_backoff=0)
    scheduler.every("1s", nothing, timeout=0.5)
    assert clock.advance(1) == 5
    assert clock.advance(2) == 10


def test_a_scheduler_on_a_manual_clock_runs_nothing_before_the_start(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1s", note, immediate=True)
    assert clock.advance(10) == 0
    assert runs == []
    with pytest.raises(RuntimeError, match="clock"):
        scheduler.run()
    scheduler.start_background()
    assert clock.advance(0) > 0


def test_schedulers_share_a_clock_and_the_older_goes_first(make_scheduler, clock, runs):
    older, newer = make_scheduler(clock=clock), make_scheduler(clock=clock)
    newer.start_background()
    older.start_background()
    newer.every("1s", runs.append, args=("newer",))
    older.every("1s", runs.append, args=("older",))
    clock.advance(2)
    assert runs == ["older", "newer"] * 2


def test_a_callback_may_not_advance_the_clock(scheduler, clock, logged):
    job_id = scheduler.every("1s", lambda: clock.advance(1))
    clock.advance(1)
    assert "RuntimeError" in scheduler.get_job(job_id).last_error


# Calendars.


def test_a_year_of_a_weekday_job(scheduler, clock):
    seen = []
    scheduler.cron(
        "30 9 * * MON-FRI", lambda ctx: seen.append((ctx.scheduled_time, clock.now())), timezone="Europe/Paris"
    )
    clock.advance("366d")
    paris = ZoneInfo("Europe/Paris")
    days = [T0 + timedelta(days=n) for n in range(366)]
    expected = [datetime(each.year, each.month, each.day, 9, 30, tzinfo=paris) for each in days if each.weekday() < 5]
    assert [slot for slot, _ in seen] == expected
    assert [now for _, now in seen] == expected


def test_every_minute_of_a_month(scheduler, clock, runs, note):
    job_id = scheduler.cron("* * * * *", note)
    clock.advance("31d")
    assert runs == [60.0 * n for n in range(1, 31 * 1440 + 1)]
    assert scheduler.get_job(job_id).run_count == 31 * 1440


@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2000, 3, 25, 12, tzinfo=UTC), 24), (datetime(2000, 10, 28, 12, tzinfo=UTC), 24)]
)
def test_offset_changes_of_a_zone(make_scheduler, day, hours, runs):
    clock = ManualClock(day)
    scheduler, cron, minutes = make_scheduler(clock=clock), [], []
    scheduler.start_background()
    scheduler.every("1m", lambda: runs.append(clock.time()))
    scheduler.cron(
        "0 8 * * *", lambda: cron.append(clock.now().astimezone(ZoneInfo("Europe/Paris"))), timezone="Europe/Paris"
    )
    scheduler.cron("* * * * *", lambda: minutes.append(clock.time()), timezone="Europe/Paris")
    clock.advance(timedelta(hours=hours))
    assert len(runs) == hours * 60
    assert minutes == runs
    assert [(each.hour, each.minute) for each in cron] == [(8, 0)]


def test_cron_slots_that_were_missed_are_counted(scheduler, clock, runs, note):
    job_id = scheduler.cron("* * * * *", note)
    scheduler.after(30, lambda: clock.sleep(600))
    clock.advance(1000)
    info = scheduler.get_job(job_id)
    assert runs == [630, 660, 720, 780, 840, 900, 960]
    assert info.coalesced_count == 9


def test_cron_while_its_job_is_busy(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(150)

    job_id = scheduler.cron("* * * * *", job)
    clock.advance(540)
    assert runs == [60, 240, 420]
    assert scheduler.get_job(job_id).coalesced_count == 6


# In real time.


@pytest.mark.real_time
def test_a_sooner_job_wakes_a_loop_that_sleeps(make_scheduler):
    scheduler, ran = make_scheduler(1), threading.Event()
    scheduler.after("1h", nothing)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.running)
    pause(0.02)  # into its sleep
    scheduler.after("10ms", ran.set)
    assert ran.wait(WAIT)
    scheduler.remove_all_jobs()
    scheduler.shutdown()


@pytest.mark.real_time
def test_a_slow_callback_delays_nobody_while_a_worker_is_free(make_scheduler):
    scheduler, release, ran = make_scheduler(2), threading.Event(), threading.Event()
    scheduler.after(0, lambda: release.wait(2 * WAIT))
    scheduler.every("5ms", ran.set)
    scheduler.start_background()
    try:
        assert ran.wait(WAIT / 2)
        ran.clear()
        assert ran.wait(WAIT / 2)
    finally:
        release.set()


@pytest.mark.real_time
def test_idle_schedulers_do_not_wake(make_scheduler):
    scheduler = make_scheduler()
    for _ in range(1000):
        scheduler.every("1d", nothing)
    scheduler.cron("0 0 1 1 *", nothing)
    scheduler.start_background()
    assert comes_to_rest(lambda: scheduler.stats().wakeups, 0.3)


@pytest.mark.real_time
@pytest.mark.parametrize("workers", [1, 4])
def test_many_jobs_on_real_threads(make_scheduler, workers):
    scheduler = make_scheduler(workers)
    counts = [0] * 200

    def job(number):
        counts[number] += 1

    for number in range(200):
        scheduler.every("20ms", job, args=(number,), **({"timeout": 5} if number % 2 else {}))
    scheduler.start_background()
    assert wait_until(lambda: min(counts) >= 5)
    scheduler.shutdown()
    infos = scheduler.list_jobs()
    assert [info["run_count"] for info in infos] == counts
    assert all(info["error_count"] == 0 for info in infos)
    assert scheduler.stats().running == 0
