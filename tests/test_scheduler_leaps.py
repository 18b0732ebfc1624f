"""`Scheduler`: hours and centuries that pass at once, in a suspend or by a set clock, and zones that change."""

from __future__ import annotations

import threading
import time
import tracemalloc
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, nothing, wait_until

from pysched.testing import ManualClock

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = 3600
CENTURIES = 174 * 365 * 86400


def test_twelve_hours_back_are_no_silence(scheduler, clock):
    """The step is a correction: the calendar is planned anew from it, and the interval does not notice."""
    interval, cron = [], []
    clock.advance(12 * HOUR + 60)
    scheduler.every("10s", lambda: interval.append(clock.time()))
    scheduler.cron("*/5 * * * *", lambda: cron.append(clock.now()))
    clock.advance(30)
    before = clock.time()
    clock.step_wall(-12 * HOUR)
    clock.advance(60)
    assert interval[3:] == [before + 10 * n for n in range(1, 7)]
    clock.advance(600)
    # It is 00:01:30 again after the step.
    assert cron == [T0 + timedelta(minutes=5), T0 + timedelta(minutes=10)]


@pytest.mark.parametrize("how", ["step_wall", "suspend"])
def test_174_years_ahead_cost_neither_time_nor_memory(scheduler, clock, how):
    """The interval lives on; of 91 million minutes one is made up for, and none is ever listed."""
    interval, cron = [], []
    scheduler.every("1s", lambda: interval.append(clock.time()))
    scheduler.cron("* * * * *", lambda: cron.append(clock.now()), id="k")
    clock.advance(1)
    tracemalloc.start()
    try:
        getattr(clock, how)(CENTURIES)
        clock.advance(3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert interval == [1, 2, 3, 4]
    assert len(cron) == 1
    info = scheduler.get_job("k")
    assert (info.started_count, info.missed_count) == (1, 10_000)


def test_on_a_loop_of_its_own_174_years_are_one_run(make_scheduler):
    class Clock:
        offset_ns = int(T0.timestamp()) * 10**9

        def time_ns(self):
            return time.monotonic_ns()

        def wall_ns(self):
            return time.monotonic_ns() + self.offset_ns

        def wait(self, event, timeout):
            event.wait(0.005 if timeout is None else min(timeout, 0.005))

    clock, runs, ticked = Clock(), [], threading.Event()
    scheduler = make_scheduler(2, clock=clock)
    scheduler.cron("0 0 * * *", lambda ctx: runs.append(ctx.scheduled_time))
    scheduler.start_background()
    clock.offset_ns += CENTURIES * 10**9
    assert wait_until(lambda: runs)
    scheduler.after(0.02, ticked.set)
    assert ticked.wait(WAIT)
    assert len(runs) == 1
    assert runs[0].year == 2173


def test_a_machine_that_sleeps_from_eight_to_four(make_scheduler):
    """Its monotonic clock stands still: the 9 o'clock job comes on resume, once; `after` counts from there."""
    clock = ManualClock(T0.replace(hour=8))
    scheduler, nine, once, hourly = make_scheduler(clock=clock), [], [], []
    scheduler.start_background()
    scheduler.cron("0 9 * * *", lambda ctx: nine.append((clock.now().hour, ctx.scheduled_time.hour)))
    scheduler.after("1h", lambda: once.append(clock.time()))
    scheduler.every("1h", lambda: hourly.append(clock.time()))
    clock.suspend("8h")
    clock.advance(0)
    assert nine == [(16, 9)]
    clock.advance("1h")
    assert once == hourly == [HOUR]
    clock.advance("15h")
    assert nine == [(16, 9)]
    clock.advance("1h")
    assert nine == [(16, 9), (9, 9)]


@pytest.mark.parametrize("change", [datetime(2024, 3, 31, tzinfo=UTC), datetime(2024, 10, 27, tzinfo=UTC)])
def test_over_a_change_of_the_offset_hours_have_sixty_minutes_and_days_one_eight_o_clock(make_scheduler, change):
    """Paris, three days before to three days after."""
    zone, clock = ZoneInfo("Europe/Paris"), ManualClock(change - timedelta(days=3))
    scheduler, minutes, every_minute, daily = make_scheduler(clock=clock, timezone=zone), [], [], []
    scheduler.start_background()
    scheduler.every("1m", lambda: minutes.append(clock.time()))
    scheduler.cron("* * * * *", lambda: every_minute.append(clock.time()))
    scheduler.cron("0 8 * * *", lambda: daily.append(clock.now().astimezone(zone)))
    scheduler.cron("0 12 * * *", lambda: daily.append(clock.now().astimezone(zone)))
    clock.advance("6d")
    assert minutes == every_minute == [60 * n for n in range(1, 6 * 1440 + 1)]
    assert [each.hour for each in daily] == [8, 12] * 6
    assert [each.minute for each in daily] == [0] * 12
    assert len({each.date() for each in daily}) == 6


def test_a_yearly_job_and_a_hundred_days(scheduler, clock):
    """From 29 April to 1 March, over every limit of 24.8 and 49.7 days; nothing wakes in between."""
    clock.advance(timedelta(days=119))
    runs = []
    scheduler.cron("0 9 1 3 *", lambda: runs.append(clock.now()))
    scheduler.every("2400h", nothing, id="k")
    assert clock.advance("60d") == 0
    assert clock.advance("40d") == 1
    clock.advance("365d")
    assert runs == [datetime(2001, 3, 1, 9, tzinfo=UTC)]
    assert scheduler.get_job("k").run_count == 4
