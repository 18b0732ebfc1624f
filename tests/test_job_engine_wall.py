"""What a step of the wall clock does to jobs, and what it does not: on a ManualClock, and on clocks of users."""

from __future__ import annotations

import threading

import pytest
from jobs import WALL, Jobs, S
from support import WAIT, nothing, wait_until

from pysched.clock import NEVER

MINUTE, HOUR = 60, 3600


@pytest.fixture
def jobs(impl, clock):
    jobs = Jobs(impl, clock)
    jobs.start()
    yield jobs
    assert jobs.stop(None)
    jobs._check()


@pytest.fixture
def runs():
    """Slots that ran, and when: seconds since the start, slots on the wall clock."""
    return []


@pytest.fixture
def note(jobs, clock, runs):
    return lambda: runs.append(((jobs.current()[2] - WALL) / S, clock.time()))


def due(jobs, job):
    """When it is due next, seconds on the wall clock."""
    found = jobs.look(job).next
    return None if found is None else (found - WALL) / S


@pytest.fixture(params=["wildcard", "fixed"])
def minutely(request, jobs):
    """Every minute: by a wildcard, or by a list of all minutes of all hours, which DST and steps leave alone."""
    if request.param == "wildcard":
        return jobs.schedule("* * * * *")
    every = ",".join(map(str, range(60)))
    return jobs.schedule(f"{every} {','.join(map(str, range(24)))} * * *")


# Forward.


def test_a_step_forward_brings_slots_which_were_missed(jobs, clock, note, runs, minutely):
    job = jobs.cron(minutely, note)
    clock.advance(30)
    clock.step_wall(3 * MINUTE)
    clock.advance(0)
    assert runs == [(180, 30)]
    seen = jobs.look(job)
    assert (seen.started, seen.coalesced, seen.missed) == (1, 2, 2)
    clock.advance(30)
    assert runs == [(180, 30), (240, 60)]


@pytest.mark.parametrize(("catch_up", "expected", "missed"), [("none", [], 3), ("all", [60, 120, 180], 0)])
def test_a_step_forward_is_caught_up_with_as_the_job_wants_it(
    jobs, clock, note, runs, minutely, catch_up, expected, missed
):
    job = jobs.cron(minutely, note, catch_up=catch_up)
    clock.advance(30)
    clock.step_wall(3 * MINUTE)
    clock.advance(0)
    assert [slot for slot, _ in runs] == expected
    assert jobs.look(job).missed == missed


def test_a_suspend_is_a_step_forward(jobs, clock, note, runs):
    jobs.at(WALL + HOUR * S, note)
    clock.suspend("2h")
    assert clock.advance(0) == 1
    assert runs == [(HOUR, 0)]


def test_a_short_step_forward_makes_nobody_late(jobs, clock, note, runs, minutely):
    jobs.cron(minutely, note)
    clock.advance(30)
    clock.step_wall(0.5)
    clock.advance(30)
    assert runs == [(60, 59.5)]
    clock.advance(60)
    assert runs[1:] == [(120, 119.5)]


# Back.


@pytest.mark.parametrize("step", [0.5, 0.9])
def test_a_short_step_back_repeats_nothing(jobs, clock, note, runs, minutely, step):
    jobs.cron(minutely, note)
    clock.advance(60)
    clock.step_wall(-step)
    clock.advance(60)
    clock.advance(1)
    assert runs == [(60, 60), (120, 120 + step)]


@pytest.mark.parametrize("step", [1, 5 * MINUTE, 3 * HOUR - 1])
def test_after_a_step_back_wildcards_repeat_and_fixed_times_wait(jobs, clock, note, runs, step):
    wildcard = jobs.cron(jobs.schedule("* * * * *"), note)
    fixed = jobs.cron(jobs.schedule("2 0 * * *"), note)
    single = jobs.at(WALL + 90 * S, note)
    clock.advance(60.5)
    clock.step_wall(-step)
    after = 60.5 - step
    assert due(jobs, wildcard) == after // 60 * 60 + 60
    assert (due(jobs, fixed), due(jobs, single)) == (120, 90)
    clock.advance(step + 60)
    assert [slot for slot, _ in runs].count(120) == 2
    assert [slot for slot, _ in runs].count(90) == 1
    assert all(time == slot or time == slot + step for slot, time in runs)


@pytest.mark.parametrize("step", [3 * HOUR, 24 * HOUR])
def test_a_step_back_of_three_hours_plans_all_calendars_anew(jobs, clock, note, runs, step):
    """A correction: the time was wrong."""
    fixed = jobs.cron(jobs.schedule("30 * * * *"), note)
    daily = jobs.cron(jobs.schedule("0 23 * * *"), note)
    single = jobs.at(WALL + HOUR * S, note)
    clock.advance(30 * MINUTE)
    clock.step_wall(-step)
    assert due(jobs, fixed) == 90 * MINUTE - step
    assert due(jobs, daily) == -HOUR
    assert due(jobs, single) == HOUR
    clock.advance(step + 30 * MINUTE)
    assert [slot for slot, _ in runs].count(HOUR) == 1


def test_small_steps_add_up_to_no_step(jobs, clock, note, runs):
    """A clock that is slewed: nothing runs twice, nobody is late."""
    jobs.cron(jobs.schedule("* * * * * *", seconds=True), note)
    for _ in range(40):
        clock.advance(0.25)
        clock.step_wall(-0.05)
        clock.advance(0)
    assert [slot for slot, _ in runs] == list(range(1, 9))


def test_a_step_never_moves_an_interval_or_a_delay(jobs, clock, note, runs):
    every, after = jobs.every(50, note), jobs.after(75, note)
    jobs.cron(jobs.schedule("* * * * *"), nothing)
    clock.advance(25)
    for step in (-HOUR, 2 * HOUR, 4.5 * HOUR, -12 * HOUR):
        clock.step_wall(step)
        assert jobs.look(every).next - jobs.wall_ns() == 25 * S
        assert jobs.look(after).next - jobs.wall_ns() == 50 * S
    clock.advance(50)
    assert [time for _, time in runs] == [50, 75]


@pytest.mark.parametrize("step", [-2 * HOUR, -4 * HOUR])
def test_no_slot_is_before_the_beginning(jobs, clock, note, step):
    begin = WALL + 2 * MINUTE * S
    job = jobs.cron(jobs.schedule("* * * * *"), note, begin=begin)
    clock.advance("3m")
    assert jobs.look(job).started == 3
    clock.step_wall(step)
    assert due(jobs, job) == 120, "the beginning is a slot"


def test_until_holds_after_a_step(jobs, clock, note, runs):
    job = jobs.cron(jobs.schedule("* * * * *"), note, until=90)
    clock.advance(30)
    clock.step_wall(5 * MINUTE)
    clock.advance(0)
    assert (runs, jobs.owner.left) == ([(60, 30)], [job])


# Jobs in other states.


def test_a_paused_job_is_planned_anew(jobs, clock, note, runs):
    job = jobs.cron(jobs.schedule("* * * * *"), note)
    jobs.pause(job)
    clock.step_wall(-10 * MINUTE)
    clock.advance("2m")
    assert jobs.look(job).paused == 2
    jobs.resume(job)
    assert (jobs.look(job).paused, due(jobs, job)) == (2, -7 * MINUTE)
    clock.advance("1m")
    assert runs == [(-7 * MINUTE, 3 * MINUTE)]


def test_a_pause_over_a_step_forward_lets_the_slots_pass(jobs, clock, note, runs):
    job = jobs.cron(jobs.schedule("* * * * *"), note)
    jobs.pause_all()
    clock.step_wall("1h")
    clock.advance(0)
    assert jobs.look(job).paused == 60
    jobs.resume_all()
    clock.advance(0)
    assert runs == []


def test_an_immediate_run_comes_whatever_the_clock_does(jobs, clock, note, runs):
    jobs.stop(None)
    job = jobs.cron(jobs.schedule("* * * * *"), note, immediate=True)
    clock.step_wall(-HOUR)
    assert due(jobs, job) == -HOUR
    jobs.start()
    clock.advance(0)
    assert runs == [(-HOUR, 0)]
    assert due(jobs, job) == MINUTE - HOUR


def test_a_slot_that_is_owed_comes_after_a_step(jobs, clock):
    tickets = []
    job = jobs.at(WALL + 10 * S, tickets.append, managed=True)
    assert jobs.run_job(job)
    clock.advance(10)
    clock.step_wall(-5)
    tickets[0].finish(False)
    clock.advance(5)
    assert [ticket.scheduled_wall_ns for ticket in tickets] == [WALL, WALL + 10 * S]


def test_an_engine_that_is_stopped_notices_a_step_when_it_is_asked(jobs, clock):
    job = jobs.cron(jobs.schedule("* * * * *"), nothing)
    jobs.stop(None)
    clock.step_wall(-HOUR)
    assert due(jobs, job) == MINUTE - HOUR
    jobs._check()


def test_jitter_and_delay_stay_as_they_were_drawn(jobs, clock, runs):
    job = jobs.cron(jobs.schedule("0 * * * *"), nothing, jitter=100, delay=50)
    before = jobs.look(job)
    for step in (0.01, -0.02, 7, -HOUR):
        clock.step_wall(step)
        seen = jobs.look(job)
        assert seen.next - seen.slot == before.next - before.slot


def test_jobs_of_one_slot_stay_in_order_after_the_clock_has_drifted(jobs, clock):
    """Whenever they were registered, and beside an interval that is due with them."""
    seen = []
    hourly = jobs.schedule("0 * * * *")
    for number in range(20):
        if number == 10:
            jobs.add(seen.append, (number,), 0, None, HOUR * S - 2_900_000)
        elif number % 3:
            jobs.cron(hourly, seen.append, number)
        else:
            jobs.at(WALL + HOUR * S, seen.append, number)
        clock.advance(1)
        clock.step_wall(0.003 if number == 5 else 0.0001 if number % 2 else -0.0001)
    clock.advance(HOUR)
    assert seen == list(range(20))


def test_a_reschedule_onto_the_wall_clock_and_away(jobs, clock, note, runs):
    seconds = jobs.schedule("* * * * * *", seconds=True)
    job = jobs.every(10, note)
    clock.step_wall(100)
    assert jobs.reschedule(job, 0, seconds, seconds.next(jobs.wall_ns()), True)
    clock.step_wall(-50)
    clock.advance(1)
    assert runs == [(51, 1)]
    assert jobs.regrid(job, 10)
    clock.step_wall(-50)
    clock.advance(9)
    assert len(runs) == 1
    clock.advance(1)
    assert len(runs) == 2


@pytest.mark.parametrize("step", [10**10, -(10**10), 10**18, -(10**18)])
def test_steps_to_the_ends_of_time(jobs, clock, step):
    job = jobs.cron(jobs.schedule("* * * * *"), nothing)
    single = jobs.at(NEVER - (1 << 56), nothing)
    clock.step_wall(step)
    clock.advance(0)
    jobs._check()
    assert jobs.has(single) == (step < 0)
    assert jobs.look(job).started == (step > 0)


# Clocks of users.


class Clock:
    """Stands still, and remembers how long it was asked to wait."""

    def __init__(self):
        self.now, self.wall = 0, WALL
        self.waits = []
        self.looked = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def time_ns(self):
        return self.now

    def wall_ns(self):
        return self.wall

    def wait(self, event, timeout):
        self.waits.append(timeout)
        self.looked.release()
        event.wait(0.001)


def test_a_users_clock_is_looked_at_once_a_second_while_there_are_jobs_on_the_wall_clock(impl):
    clock = Clock()
    jobs = Jobs(impl, clock)
    jobs.every(HOUR, nothing)
    jobs.start()
    try:
        assert clock.looked.acquire(timeout=WAIT)
        assert clock.waits[0] == HOUR
        seen = []
        job = jobs.cron(jobs.schedule("0 12 * * *"), seen.append, 1)
        assert wait_until(lambda: clock.waits[-1] == 1)
        clock.wall += 12 * HOUR * S
        assert wait_until(lambda: seen == [1])
        jobs.remove(job)
        assert wait_until(lambda: clock.waits[-1] == HOUR)
    finally:
        assert jobs.stop(WAIT)
    jobs._check()


@pytest.mark.parametrize("how", ["add", "reschedule"])
def test_a_loop_that_sleeps_is_woken_to_watch_the_wall_clock(impl, how):
    """Although the new job is due after what it sleeps for."""

    class Sleeping(Clock):
        def wait(self, event, timeout):
            self.waits.append(timeout)
            self.looked.release()
            event.wait(5 * WAIT if timeout == HOUR else 0.001)

    clock = Sleeping()
    jobs = Jobs(impl, clock)
    every = jobs.every(2 * HOUR, nothing)
    jobs.every(HOUR, nothing)
    jobs.start()
    try:
        assert clock.looked.acquire(timeout=WAIT)
        noon = jobs.schedule("0 12 * * *")
        if how == "add":
            jobs.cron(noon, nothing)
        else:
            assert jobs.reschedule(every, 0, noon, noon.next(WALL), True)
        assert wait_until(lambda: 1 in clock.waits)
        assert clock.waits[0] == HOUR
    finally:
        assert jobs.stop(WAIT)
