"""`JobEngine`: the half of a `Scheduler` that knows of slots, counts and clocks; on a ManualClock, which is one worker.

What needs threads, forks or executors is in test_job_engine_threads.py.
"""

from __future__ import annotations

import random

import pytest
from jobs import WALL, Jobs, S
from support import TOMORROW, nothing

from pysched.clock import NEVER


@pytest.fixture
def jobs(impl, clock):
    """Not started."""
    jobs = Jobs(impl, clock)
    yield jobs
    assert jobs.stop(None)
    jobs._check()


@pytest.fixture
def times(clock):
    """Times at which `note` was called, in seconds."""
    return []


@pytest.fixture
def note(clock, times):
    return lambda: times.append(clock.time())


# The grid.


def test_what_fell_before_the_start_collapses_into_one_run_and_the_grid_goes_on(jobs, clock, times, note):
    job = jobs.every(0.5, note)
    clock.advance(1.51)
    assert times == []
    jobs.start()
    clock.advance(1.5)
    assert times == [1.51, 2.0, 2.5, 3.0]
    seen = jobs.look(job)
    assert (seen.started, seen.succeeded, seen.coalesced) == (4, 4, 2)
    assert (seen.next, seen.slot) == (WALL + 7 * S // 2,) * 2


def test_the_next_slot_counts_from_the_slot_and_not_from_the_run(jobs, clock, times, note):
    jobs.start()
    jobs.every(1, lambda: (note(), clock.sleep(0.3)))
    jobs.every(1, lambda: clock.sleep(0.4), first=0.9)
    clock.advance(3)
    assert times == [1.3, 2.3, 3.3]


def test_slots_that_come_while_the_job_runs_are_coalesced(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, lambda: (note(), clock.sleep(2.5)))
    clock.advance(4)
    clock.advance(3)
    assert times == [1, 4, 7]
    seen = jobs.look(job)
    assert (seen.started, seen.coalesced, jobs.stats().coalesced) == (3, 6, 6)


def test_of_slots_missed_while_another_ran_the_latest_comes(jobs, clock, times):
    """The engine was late, the job was not busy: its latest slot runs, although it has passed."""
    jobs.start()
    jobs.after(0.5, clock.sleep, 3)
    job = jobs.every(1, lambda: times.append(jobs.current()[2] - WALL))
    clock.advance(0.5)
    clock.advance(1)
    assert times == [3 * S, 4 * S]
    assert jobs.look(job).coalesced == 2


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_as_many_runs_of_a_job_may_wait_and_run_as_it_has_instances(jobs, clock, instances):
    """A managed run keeps its instance until its ticket is finished, whatever becomes of the call."""
    tickets = []
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, instances=instances)
    clock.advance(5)
    assert len(tickets) == instances
    seen = jobs.look(job)
    assert (seen.running, seen.started, seen.coalesced, seen.succeeded) == (instances, instances, 5 - instances, 0)
    tickets[0].finish(False)
    clock.advance(1)
    assert len(tickets) == instances + 1
    assert [ticket.number for ticket in tickets] == [*range(1, instances + 2)]
    assert [ticket.scheduled_wall_ns - WALL for ticket in tickets] == [*(k * S for k in range(1, instances + 1)), 6 * S]
    for ticket in tickets:
        ticket.finish(False)
    seen = jobs.look(job)
    assert (seen.running, seen.succeeded) == (0, instances + 1)


def test_slots_that_came_while_all_instances_were_taken_do_not_run_when_one_is_free(jobs, clock, times, note):
    """They are coalesced, even if nobody looks at them before the instance is free."""
    tickets = []
    jobs.start()
    job = jobs.every(1, lambda ticket: (note(), tickets.append(ticket)), managed=True)
    clock.advance(1)
    jobs.after(0.5, lambda: (clock.sleep(1), tickets[0].finish(False)))
    clock.advance(1)
    jobs._check()
    assert times == [1]
    assert jobs.look(job).coalesced == 1
    clock.advance(1)
    assert times == [1, 3]


def test_runs_start_in_the_order_of_due_and_registration(jobs, clock, times):
    random.seed(7)
    dues = [random.choice([1, 2, 3]) for _ in range(60)]
    for number, due in enumerate(dues):
        (jobs.after if number % 2 else jobs.every)(due, times.append, (due, number))
    jobs.start()
    clock.advance(1)
    assert times == sorted((due, number) for number, due in enumerate(dues) if due == 1)


def test_a_job_re_armed_goes_behind_what_was_registered_before(jobs, clock, times):
    jobs.start()
    jobs.every(1, times.append, "every")
    jobs.after(2, times.append, "once")
    clock.advance(2)
    assert times == ["every", "once", "every"]


def test_jitter_is_added_only_within_its_bounds_and_moves_no_grid(jobs, clock, times):
    slots = []
    job = jobs.every(10, lambda: (times.append(clock.time()), slots.append(jobs.current()[2] - WALL)), jitter=5)
    jobs.start()
    clock.advance(2000)
    clock.advance(5)
    assert slots == [10 * S * k for k in range(1, 201)]
    late = [time - slot / S for time, slot in zip(times, slots, strict=True)]
    assert all(0 <= each < 5 for each in late)
    assert len(set(late)) > 150, "it is drawn anew for each run"
    assert min(late) < 0.5
    assert max(late) > 4.5
    seen = jobs.look(job)
    assert seen.slot == WALL + 2010 * S
    assert 0 <= seen.next - seen.slot < 5 * S


def test_until_is_exclusive_and_the_job_leaves_with_its_last_run(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note, until=3)
    assert jobs.look(job).until == WALL + 3 * S
    clock.advance(2.5)
    assert times == [1, 2]
    assert jobs.snapshot(job) is None
    assert (jobs.owner.left, len(jobs)) == ([job], 0)
    assert jobs.remove(job) is None


def test_a_slot_before_until_runs_however_late(jobs, clock, times, note):
    jobs.every(1, note, until=3.5)
    clock.advance(10)
    jobs.start()
    clock.advance(10)
    assert times == [10]
    assert len(jobs) == 0


def test_a_job_ends_whose_last_slots_were_coalesced(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, until=3.5)
    clock.advance(9)
    assert jobs.look(job).coalesced == 2
    assert jobs.look(job).next is None
    tickets[0].finish(False)
    assert jobs.owner.left == [job]


def test_max_runs_counts_runs_that_started(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note, max_runs=3, immediate=True)
    clock.advance(0)
    assert jobs.run_job(job)
    clock.advance(1)
    assert jobs.look(job).ticks_left == 1
    clock.advance(5)
    assert times == [0, 0, 1, 2]
    assert jobs.owner.left == [job]


def test_immediate_is_one_run_at_the_registration_and_leaves_the_grid(jobs, clock, times, note):
    job = jobs.every(1, note, immediate=True)
    assert (jobs.look(job).next, jobs.look(job).slot) == (WALL, WALL + S)
    clock.advance(2.25)
    jobs.start()
    clock.advance(1)
    assert times == [2.25, 3]
    assert jobs.look(job).coalesced == 2


def test_a_slot_at_the_end_of_time_never_comes_and_keeps_its_job(jobs, clock):
    job = jobs.add(nothing, (), 0, None, NEVER)
    jobs.start()
    clock.advance(10**9)
    assert jobs.look(job).next is None
    assert jobs.pause(job)
    assert jobs.resume(job)
    assert jobs.look(job).enabled
    assert jobs.owner.left == []


# Single slots.


def test_a_single_slot_runs_once_and_its_job_leaves(jobs, clock, times, note):
    jobs.start()
    job = jobs.after(1.5, note)
    assert jobs.look(job).single
    clock.advance(5)
    assert (times, jobs.owner.left, len(jobs)) == ([1.5], [job], 0)


def test_a_single_slot_on_the_wall_clock(jobs, clock, times, note):
    jobs.start()
    job = jobs.at(WALL + 5 * S, note)
    assert jobs.look(job).next == jobs.look(job).slot == WALL + 5 * S
    jobs.at(WALL - 5 * S, note)
    clock.advance(5)
    assert times == [0, 5]


def test_a_wall_clock_set_back_makes_nothing_early(jobs, clock, times, note):
    jobs.start()
    jobs.at(WALL + 5 * S, note)
    jobs.every(3, note)
    clock.advance(1)
    clock.step_wall(-10)
    clock.advance(20)
    assert times == [3, 6, 9, 12, 15, 15, 18, 21]


def test_a_single_slot_that_finds_its_instances_busy_is_owed(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.after(1, tickets.append, managed=True)
    assert jobs.run_job(job)
    clock.advance(2)
    assert len(tickets) == 1
    jobs._check()
    assert jobs.owner.left == []
    tickets[0].finish(False)
    jobs._check()
    clock.advance(0)
    assert [ticket.scheduled_wall_ns - WALL for ticket in tickets] == [0, S]
    tickets[1].finish(True)
    assert jobs.owner.left == [job]


def test_the_job_of_a_single_slot_stays_until_its_run_has_ended(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.after(1, tickets.append, managed=True)
    clock.advance(60)
    assert (jobs.look(job).running, jobs.look(job).next) == (1, None)
    tickets[0].finish(False)
    assert jobs.snapshot(job) is None


def test_add_plain_takes_only_callbacks_without_parameters(jobs, clock, times):
    class Device:
        def poll(self):
            times.append("method")

        async def later(self):
            pass

    def plain():
        times.append("function")

    assert jobs.add_plain(lambda number=1: None, S) is None
    assert jobs.add_plain(times.append, S) is None
    assert jobs.add_plain(Device().later, S) is None
    assert jobs.add_plain(Device, S) is None
    assert len(jobs) == 0
    every, method, once = (
        jobs.add_plain(plain, S),
        jobs.add_plain(Device().poll, 2 * S),
        jobs.add_plain(plain, S, None, True),
    )
    cron = jobs.add_plain(plain, 0, jobs.schedule("* * * * *"))
    assert [each[:2] for each in (every, method, once, cron)] == ["p-"] * 4
    seen = [jobs.look(int(each.removeprefix("p-"), 16)) for each in (every, method, once, cron)]
    assert [each.next - WALL for each in seen] == [S, 2 * S, S, 60 * S]
    assert [each.single for each in seen] == [False, False, True, False]
    assert [each.period for each in seen] == [S, 2 * S, S, 0]
    jobs.start()
    clock.advance(2)
    assert times == ["function", "function", "method", "function"]


# Schedules.


def test_cron_jobs_run_on_the_slots_of_their_schedule(jobs, clock, times, note):
    jobs.start()
    schedule = jobs.schedule("*/15 * * * *", label="quarters")
    job = jobs.cron(schedule, note)
    seen = jobs.look(job)
    assert (seen.schedule, seen.schedule.label, seen.period) == (schedule, "quarters", 0)
    clock.advance("1h")
    assert times == [900, 1800, 2700, 3600]
    assert [*zip(range(3), schedule.slots(seen.slot), strict=False)] == [
        (k, WALL + 900 * S * (k + 1)) for k in range(3)
    ]


def test_a_thousand_jobs_on_one_schedule_compute_one_step_a_minute(jobs, clock, times, note):
    jobs.start()
    schedule = jobs.schedule("* * * * *")
    references = [jobs.cron(schedule, note) for _ in range(1000)]
    assert schedule.jobs == 1000
    before = schedule.steps
    clock.advance("5m")
    assert len(times) == 5000
    assert schedule.steps - before == 5
    for reference in references:
        jobs.remove(reference)
    assert schedule.jobs == 0
    jobs._check()


def test_slots_of_a_schedule_that_passed_are_counted_up_to_a_limit(jobs, clock, times, note):
    one, many = jobs.schedule("* * * * *"), jobs.schedule("* * * * * *", seconds=True)
    few, most = jobs.cron(one, note), jobs.cron(many, note)
    clock.advance("1d")
    jobs.start()
    clock.advance(0)
    assert times == [86400, 86400]
    assert jobs.look(few).coalesced == 1439
    assert jobs.look(most).coalesced == 10_000
    assert jobs.look(most).slot == WALL + 86401 * S


def test_a_schedule_that_never_comes_again_ends_its_job(jobs, clock, times, note):
    jobs.start()
    job = jobs.cron(jobs.schedule("* * * * *"), note, until=150)
    clock.advance("5m")
    assert times == [60, 120]
    assert jobs.owner.left == [job]


def test_many_schedules_come_and_go(jobs, clock):
    kept = jobs.schedule("* * * * *", label="kept")
    job = jobs.cron(kept, nothing)
    label = kept.label
    del kept
    for minute in range(300):
        assert jobs.remove(jobs.cron(jobs.schedule(f"{minute % 60} * * * *"), nothing))
    assert jobs.look(job).schedule.label == label
    assert jobs.look(job).schedule.jobs == 1


# Pauses.


def test_slots_of_a_paused_job_pass_by_and_are_counted(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note)
    clock.advance(1)
    assert jobs.pause(job)
    assert (jobs.look(job).enabled, jobs.look(job).next) == (False, None)
    clock.advance(3.5)
    assert times == [1]
    assert jobs.resume(job)
    seen = jobs.look(job)
    assert (seen.enabled, seen.next, seen.paused, seen.coalesced) == (True, WALL + 5 * S, 3, 0)
    clock.advance(1)
    assert times == [1, 5]


def test_a_single_slot_that_passed_in_a_pause_runs_on_resume(jobs, clock, times, note):
    jobs.start()
    job = jobs.after(1, note)
    assert jobs.pause(job)
    clock.advance(5)
    assert jobs.look(job).next is None
    assert jobs.resume(job)
    assert jobs.look(job).next == WALL + S
    clock.advance(0)
    assert (times, jobs.owner.left) == ([5], [job])


def test_a_paused_job_whose_slots_end_leaves_on_resume(jobs, clock):
    jobs.start()
    job = jobs.every(1, nothing, until=3)
    jobs.pause(job)
    clock.advance(5)
    assert jobs.look(job).enabled is False
    assert jobs.resume(job)
    assert jobs.owner.left == [job]


def test_a_pause_twice_and_a_resume_of_what_is_not_paused_change_nothing(jobs, clock):
    job = jobs.every(1, nothing)
    before = jobs.look(job)
    assert jobs.resume(job)
    assert jobs.look(job) == before
    assert jobs.pause(job)
    paused = jobs.look(job)
    assert jobs.pause(job)
    assert jobs.look(job) == paused
    for unknown in (0, job + 1, 1 << 60):
        assert jobs.pause(unknown) is False
        assert jobs.resume(unknown) is False
        assert jobs.run_job(unknown) is None
        assert jobs.regrid(unknown, 1) is False
        assert jobs.remove(unknown) is None
        assert jobs.snapshot(unknown) is None


def test_all_jobs_pause_apart_from_each_by_itself(jobs, clock, times):
    jobs.start()
    every = jobs.every(1, times.append, "every")
    alone = jobs.every(1, times.append, "alone")
    once = jobs.after(1, times.append, "once")
    jobs.pause(alone)
    jobs.pause_all()
    clock.advance(3.5)
    assert times == []
    assert [jobs.look(each).enabled for each in (every, alone, once)] == [True, False, True]
    assert jobs.look(every).paused == 3
    jobs.resume_all()
    jobs._check()
    clock.advance(0.5)
    assert times == ["once", "every"]
    jobs.resume(alone)
    clock.advance(1)
    assert times == ["once", "every", "every", "alone"]
    assert jobs.look(alone).paused == 4


def test_a_job_resumed_while_all_are_paused_waits_for_all(jobs, clock, times, note):
    jobs.start()
    job = jobs.after(1, note)
    jobs.pause_all()
    jobs.pause(job)
    clock.advance(2)
    jobs.resume(job)
    clock.advance(1)
    assert times == []
    jobs.resume_all()
    clock.advance(0)
    assert times == [3]


def test_runs_in_progress_go_on_in_a_pause(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True)
    clock.advance(1)
    jobs.pause(job)
    tickets[0].finish(True)
    seen = jobs.look(job)
    assert (seen.running, seen.failed, seen.failing, seen.enabled) == (0, 1, True, False)


# Runs besides the slots.


def test_run_job_runs_once_more_and_moves_no_grid(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(2, note)
    clock.advance(1)
    assert jobs.run_job(job) is True
    assert jobs.run_job(job) is False, "its only instance is taken, although it has not started"
    assert jobs.look(job).running == 1
    clock.advance(0)
    assert (times, jobs.look(job).next) == ([1], WALL + 2 * S)
    jobs.pause(job)
    assert jobs.run_job(job)
    clock.advance(5)
    assert times == [1, 1]


@pytest.mark.parametrize("instances", [1, 2])
def test_run_job_from_inside_honours_the_instances(jobs, clock, instances):
    results = []
    jobs.start()
    job = jobs.every(1, lambda: len(results) < 3 and results.append(jobs.run_job(job)), instances=instances, until=1.5)
    clock.advance(1)
    assert results == [instances == 2] * (3 if instances == 2 else 1)


def test_a_run_shows_the_slot_and_the_number_that_it_has(jobs, clock):
    seen = []
    jobs.start()
    job = jobs.every(1, lambda: seen.append(jobs.current()))
    clock.advance(2)
    jobs.run_job(job)
    clock.advance(0.5)
    assert seen == [(job, 1, WALL + S), (job, 2, WALL + 2 * S), (job, 3, WALL + 2 * S)]
    assert jobs.current() is None


def test_a_retry_or_a_time_out_is_no_run_of_a_job(jobs, clock):
    seen = []
    jobs.start()
    jobs.call_later(S, lambda: seen.append(jobs.current()))
    jobs.call_alarm(S, lambda: seen.append(jobs.current()))
    clock.advance(1)
    assert seen == [None, None]


# New grids.


def test_a_new_grid_counts_from_now_and_keeps_what_was_counted(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note)
    clock.advance(2)
    assert jobs.regrid(job, 3)
    seen = jobs.look(job)
    assert (seen.started, seen.period, seen.next) == (2, 3 * S, WALL + 5 * S)
    clock.advance(6)
    assert times == [1, 2, 5, 8]


def test_from_an_interval_to_a_schedule_to_a_single_slot(jobs, clock, times, note):
    jobs.start()
    schedule = jobs.schedule("* * * * *")
    job = jobs.every(10, note)
    clock.advance(10)
    assert jobs.reschedule(job, 0, schedule, schedule.next(jobs.wall_ns()), True)
    assert schedule.jobs == 1
    clock.advance(110)
    assert times == [10, 60, 120]
    assert jobs.reschedule(job, 0, None, jobs.now() + 5 * S, False)
    assert (schedule.jobs, jobs.look(job).single) == (0, True)
    clock.advance(60)
    assert times == [10, 60, 120, 125]
    assert jobs.owner.left == [job]


def test_a_run_that_waits_is_dropped_by_a_new_grid_and_one_in_progress_goes_on(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note, instances=2)
    assert jobs.run_job(job)
    assert jobs.run_job(job)
    assert jobs.regrid(job, 5)
    seen = jobs.look(job)
    assert (seen.running, seen.started) == (0, 0)
    clock.advance(4)
    assert times == []
    inside = jobs.every(1, lambda: (note(), jobs.regrid(inside, 10)))
    clock.advance(11)
    assert times == [5, 5, 10, 15, 15]
    assert jobs.look(inside).succeeded == 2


def test_a_new_grid_for_a_job_whose_only_slot_has_come(jobs, clock, times, note):
    jobs.start()
    once = jobs.after(1, lambda: (note(), len(times) < 3 and jobs.reschedule(once, 0, None, jobs.now() + 2 * S, False)))
    clock.advance(10)
    assert times == [1, 3, 5]
    assert jobs.owner.left == [once]


def test_a_paused_job_stays_paused_on_its_new_grid(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note)
    jobs.pause(job)
    jobs.regrid(job, 2)
    assert (jobs.look(job).enabled, jobs.look(job).next) == (False, None)
    clock.advance(3)
    jobs.resume(job)
    assert (jobs.look(job).paused, jobs.look(job).next) == (1, WALL + 4 * S)
    ticket = []
    single = jobs.after(1, ticket.append, managed=True)
    clock.advance(1)
    jobs.pause(single)
    jobs.regrid(single, 2)
    clock.advance(10)
    assert len(ticket) == 1, "it was paused while its run was in progress"
    assert jobs.look(single).enabled is False


def test_a_new_grid_ends_a_pause_of_all_for_a_slot_that_has_passed(jobs, clock, times, note):
    jobs.start()
    job = jobs.after(1, note)
    jobs.pause_all()
    clock.advance(2)
    jobs.regrid(job, 2)
    clock.advance(5)
    assert jobs.look(job).paused == 2
    jobs.resume_all()
    clock.advance(1)
    assert times == [8]


def test_until_stays_where_it_is_whatever_clock_the_new_grid_is_on(jobs, clock, times, note):
    jobs.start()
    clock.advance(5)
    job = jobs.every(1, note, until=600)
    end = jobs.look(job).until
    schedule = jobs.schedule("* * * * *")
    jobs.reschedule(job, 0, schedule, schedule.next(jobs.wall_ns()), True)
    assert jobs.look(job).until == end == WALL + 605 * S
    jobs.regrid(job, 60)
    assert jobs.look(job).until == end
    clock.advance(1000)
    assert times == [65 + 60 * k for k in range(9)]
    assert jobs.owner.left == [job]


def test_a_new_grid_without_a_slot_before_until_ends_the_job(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, note, until=10)
    paused = jobs.every(1, note, until=10)
    jobs.pause(paused)
    assert jobs.regrid(job, 10)
    assert jobs.regrid(paused, 60)
    assert jobs.owner.left == [job, paused]
    clock.advance(20)
    assert times == []


def test_max_runs_holds_on_a_new_grid(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(1, lambda: (note(), jobs.regrid(job, 1)), max_runs=2)
    clock.advance(9)
    assert times == [1, 2]
    assert jobs.owner.left == [job]


def test_a_run_that_was_dropped_counts_for_no_max_runs(jobs, clock, times):
    """It has not started. Two jobs are due at once; the first, in its run, drops that of the second."""
    jobs.start()
    jobs.pause_all()
    jobs.resume_all()
    tickets = []
    job = jobs.every(1, tickets.append, managed=True, max_runs=2)
    clock.advance(1)
    assert jobs.look(job).ticks_left == 1
    jobs.run_job(job)
    jobs.regrid(job, 1)
    assert jobs.look(job).ticks_left == 1
    tickets[0].finish(False)
    clock.advance(5)
    assert len(tickets) == 2
    tickets[1].finish(False)
    assert jobs.owner.left == [job]


def test_room_for_a_job_is_room_for_all_its_grids(jobs, clock, times):
    """Each new grid leaves a node of the heap behind, each pause too."""
    for count in (59, 60, 61):
        references = [jobs.every(1000, nothing) for _ in range(count)]
        for reference in references[:3] * 100:
            assert jobs.regrid(reference, 1000)
            assert jobs.pause(reference)
            assert jobs.resume(reference)
            jobs._check()
        for reference in references:
            jobs.remove(reference)


def test_runs_that_are_dropped_leave_no_entry_that_crowds_out_others(jobs, clock, times):
    jobs.start()
    other = jobs.every(1000, times.append, "other")
    assert jobs.run_job(other)
    job = jobs.every(1000, times.append, "job")
    for _ in range(5000):
        assert jobs.run_job(job)
        assert jobs.regrid(job, 1000)
    wide = [jobs.every(1000, times.append, "gone", instances=300) for _ in range(2)]
    for each in wide:
        for _ in range(300):
            assert jobs.run_job(each)
        assert jobs.remove(each)
    jobs._check()
    clock.advance(0)
    assert times == ["other"]


# Removal.


def test_remove_a_pending_job(jobs, clock, times, note):
    jobs.start()
    for job in (jobs.every(1, note), jobs.after(1, note), jobs.cron(jobs.schedule("* * * * *"), note)):
        assert jobs.remove(job) is True
        assert jobs.remove(job) is None
        jobs._check()
    clock.advance("5m")
    assert (times, len(jobs), jobs.owner.left) == ([], 0, [])


def test_remove_a_job_whose_runs_wait(jobs, clock, times, note):
    jobs.start()
    for instances in (1, 3):
        job = jobs.every(1, note, instances=instances)
        for _ in range(instances):
            assert jobs.run_job(job)
        assert jobs.stats().ready == instances
        assert jobs.remove(job) is True
        jobs._check()
        assert jobs.stats().ready == 0
    clock.advance(2)
    assert times == []


def test_remove_a_job_that_runs(jobs, clock, times):
    results = []
    jobs.start()
    every = jobs.every(1, lambda: results.append(jobs.remove(every)))
    once = jobs.after(1, lambda: results.append(jobs.remove(once)))
    clock.advance(5)
    assert results == [True, False], "of a single slot that runs nothing was to come"
    assert (len(jobs), jobs.owner.left) == (0, [])
    assert jobs.stats().started == 2
    jobs._check()


def test_remove_a_job_of_a_ticket(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.after(1, tickets.append, managed=True)
    clock.advance(1)
    assert jobs.remove(job) is False
    jobs._check()
    other = jobs.every(1, nothing)
    tickets[0].finish(True)
    seen = jobs.look(other)
    assert (seen.failed, seen.running, jobs.owner.left) == (0, 0, [])
    assert jobs.stats().errors == 1


def test_remove_a_paused_job(jobs, clock, times, note):
    jobs.start()
    for job in (jobs.every(1, note), jobs.after(1, note)):
        jobs.pause(job)
        assert jobs.remove(job) is True
        jobs._check()
    clock.advance(5)
    assert (times, len(jobs)) == ([], 0)


def test_remove_a_single_slot_that_is_owed(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.after(1, tickets.append, managed=True)
    jobs.run_job(job)
    clock.advance(2)
    assert jobs.remove(job) is True
    tickets[0].finish(False)
    clock.advance(5)
    assert len(tickets) == 1


def test_a_reference_is_never_used_twice(jobs):
    seen = set()
    for _ in range(300):
        job = jobs.every(1, nothing)
        assert job not in seen
        seen.add(job)
        jobs.remove(job)


# Errors and tickets.


def test_an_error_is_told_before_the_run_is_accounted_for(jobs, clock):
    seen = []

    def told(reference, error):
        assert jobs.current() == (job, 1, WALL + S)
        seen.append((reference, repr(error), jobs.look(job).running, jobs.look(job).failed))

    jobs.owner._job_failed = told
    jobs.start()
    job = jobs.every(1, lambda: 1 / 0)
    clock.advance(1)
    assert seen == [(job, "ZeroDivisionError('division by zero')", 1, 0)]
    after = jobs.look(job)
    assert (after.failed, after.failing, after.succeeded, after.running) == (1, True, 0, 0)
    assert jobs.stats().errors == 1


def test_a_tick_that_succeeds_ends_a_failure(jobs, clock):
    jobs.start()
    job = jobs.every(1, lambda: 1 / (jobs.look(job).started - 1))
    clock.advance(1)
    assert jobs.look(job).failing
    clock.advance(1)
    seen = jobs.look(job)
    assert (seen.failing, seen.failed, seen.succeeded, seen.last_start, seen.last_end) == (
        (False, 1, 1, WALL + 2 * S, WALL + 2 * S)
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_no_error_of_a_job_leaves_the_loop(jobs, clock, error):
    def fail():
        raise error

    jobs.start()
    jobs.every(1, fail)
    clock.advance(2)
    assert [repr(error()) for _ in range(2)] == [text for _, text in jobs.owner.failed]


def test_an_owner_that_fails_is_logged(jobs, clock, logged):
    jobs.owner._job_failed = jobs.owner._job_left = lambda *args: 1 / 0
    jobs.start()
    jobs.after(1, lambda: {}[0])
    clock.advance(1)
    assert [line.splitlines()[0] for _, line, _ in logged] == [
        "jobs: an error could not be reported",
        "jobs: the end of a job could not be told",
    ]
    assert len(jobs) == 0


def test_an_awaitable_is_handed_over_with_a_ticket(jobs, clock):
    async def coroutine():
        pass

    jobs.start()
    job = jobs.every(1, coroutine)
    clock.advance(1)
    ((ticket, awaitable),) = jobs.owner.returned
    awaitable.close()
    assert (ticket.reference, ticket.number) == (job, 1)
    assert (jobs.look(job).running, jobs.look(job).succeeded) == (1, 0), "its slot is taken until the ticket says so"
    clock.advance(1)
    assert jobs.look(job).coalesced == 1
    assert [ticket.claim() for _ in range(2)] == [True, False]
    ticket.finish(False)
    ticket.finish(True)
    assert (jobs.look(job).running, jobs.look(job).succeeded, jobs.look(job).failed) == (0, 1, 0)


def test_an_awaitable_may_have_ended_before_its_call_has(jobs, clock):
    """On a loop of its own."""
    seen = []

    async def coroutine():
        pass

    def take(ticket, awaitable):
        awaitable.close()
        ticket.finish(False)
        jobs._check()
        seen.append((jobs.look(ticket.reference).running, jobs.stats().running))

    jobs.owner._job_returned = take
    jobs.start()
    jobs.every(1, coroutine)
    clock.advance(1)
    assert seen == [(0, 1)]
    jobs._check()


def test_an_owner_that_does_not_take_an_awaitable_fails_the_run(jobs, clock):
    async def coroutine():
        pass

    def refuse(ticket, awaitable):
        awaitable.close()
        raise ValueError("not now")

    jobs.owner._job_returned = refuse
    jobs.start()
    job = jobs.every(1, coroutine)
    clock.advance(2)
    assert jobs.owner.failed == [(job, "ValueError('not now')")] * 2
    assert (jobs.look(job).running, jobs.look(job).failed) == (0, 2)


def test_who_claims_a_ticket_first_may_end_the_run(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True)
    clock.advance(1)
    (ticket,) = tickets
    assert ticket.reference == job
    assert [ticket.claim() for _ in range(3)] == [True, False, False]
    assert jobs.look(job).running == 1
    ticket.finish(True, True)
    ticket.finish(False)
    ticket.give_back()
    seen = jobs.look(job)
    assert (seen.running, seen.succeeded, seen.failed, seen.timed_out, seen.failing) == (0, 0, 1, 1, True)
    assert jobs.stats().errors == 1
    assert not ticket.claim()


def test_a_ticket_finished_is_claimed(jobs, clock):
    tickets = []
    jobs.start()
    jobs.every(1, tickets.append, managed=True, instances=2)
    clock.advance(2)
    tickets[0].finish(False)
    tickets[1].give_back()
    assert not any(ticket.claim() for ticket in tickets)


def test_a_run_given_back_has_no_outcome(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True)
    clock.advance(1)
    tickets[0].give_back()
    seen = jobs.look(job)
    assert (seen.running, seen.succeeded, seen.failed, seen.last_end, seen.started) == (0, 0, 0, None, 1)
    clock.advance(1)
    assert len(tickets) == 2


def test_a_managed_callback_that_raises_ends_its_run(jobs, clock):
    def fail(ticket):
        raise LookupError(ticket.number)

    jobs.start()
    job = jobs.every(1, fail, managed=True)
    clock.advance(2)
    assert jobs.owner.failed == [(job, "LookupError(1)"), (job, "LookupError(2)")]
    seen = jobs.look(job)
    assert (seen.running, seen.failed) == (0, 2)
    assert jobs.stats().errors == 2


def test_a_ticket_is_made_by_an_engine_only(jobs):
    with pytest.raises(TypeError):
        jobs.tickets.Ticket()


# Time-outs.


def test_alarms_fire_while_a_callback_sleeps_and_nothing_else_does(jobs, clock, times, note):
    jobs.start()
    jobs.every(1, note, first=1.5)
    jobs.call_alarm(3 * S, lambda: times.append(("alarm", clock.time())))
    handle = jobs.call_alarm(2 * S, lambda: times.append("cancelled"))
    jobs.after(1, clock.sleep, 4)
    assert jobs._next_alarm_ns() == 2 * S
    assert handle.cancel()
    assert jobs._next_alarm_ns() == 3 * S
    assert clock.advance(1) == 1
    assert times == [("alarm", 3.0)]
    assert jobs._next_alarm_ns() is None
    assert clock.advance(0) == 1
    assert times == [("alarm", 3.0), 5.0]
    jobs._check()


def test_alarms_in_their_turn_are_no_runs(jobs, clock, times):
    jobs.start()
    jobs.after(1, times.append, "first")
    handle = jobs.call_alarm(S, lambda: times.append("alarm"))
    jobs.after(1, times.append, "second")
    retry = jobs.call_later(S, lambda: times.append("retry"))
    before = jobs.stats()
    assert (before.scheduled, before.pending) == (3, 4)
    assert clock.advance(1) == 3
    assert times == ["first", "alarm", "second", "retry"]
    after = jobs.stats()
    assert (after.started, after.cancelled, after.pending, after.lateness.count) == (3, 0, 0, 3)
    assert handle.done()
    assert not handle.cancel()
    assert retry.done()


def test_alarms_of_one_instant_fire_in_order(jobs, clock, times):
    jobs.start()
    old = [jobs.call_alarm(9 * S, nothing) for _ in range(3)]
    jobs.call_alarm(2 * S, lambda: times.append(1))
    for handle in old:
        handle.cancel()
    jobs.call_alarm(2 * S, lambda: times.append(2))
    jobs.after(1, clock.sleep, 3)
    clock.advance(1)
    assert times == [1, 2]


@pytest.mark.parametrize("asleep", [False, True])
def test_an_alarm_that_raises_is_logged(jobs, clock, logged, asleep):
    jobs.start()
    jobs.call_alarm(2 * S, lambda: 1 / 0)
    if asleep:
        jobs.after(1, clock.sleep, 3)
    clock.advance(2)
    ((level, text, has_traceback),) = logged
    assert (level, text.splitlines()[0], has_traceback) == ("ERROR", "jobs: a callback raised an exception", True)
    jobs._check()


def test_a_stopped_engine_has_no_alarm_to_run(jobs, clock):
    jobs.call_alarm(S, nothing)
    assert jobs._next_alarm_ns() is None


# Stop.


def test_a_stop_drops_the_runs_that_wait_and_counts_them(jobs, clock, times, note):
    jobs.start()
    job = jobs.every(5, note, instances=2)
    jobs.run_job(job)
    jobs.run_job(job)
    assert jobs.stop(None)
    assert not jobs.running
    seen = jobs.look(job)
    assert (seen.running, jobs.stats().dropped, jobs.stats().ready) == (0, 2, 0)
    jobs.start()
    clock.advance(5)
    assert times == [5]


def test_a_stop_from_inside_drops_the_runs_that_wait(jobs, clock, times, note):
    jobs.start()
    other = jobs.every(9, note)
    jobs.after(1, lambda: (jobs.run_job(other), times.append(jobs.stop(None))))
    clock.advance(20)
    assert times == [True]
    assert jobs.look(other).running == 0
    assert jobs.stats().dropped == 1


def test_a_run_besides_that_a_stop_drops_brings_no_single_slot_back(jobs, clock):
    tickets = []
    jobs.start()
    job = jobs.after(1, tickets.append, managed=True, instances=2)
    clock.advance(1)
    assert jobs.run_job(job)
    jobs.stop(None)
    assert jobs.look(job).running == 1
    jobs.start()
    clock.advance(5)
    assert len(tickets) == 1
    tickets[0].finish(False)
    assert jobs.owner.left == [job]


def test_a_job_that_leaves_by_a_stop_is_told_of(jobs, clock):
    jobs.start()
    job = jobs.every(1, nothing, until=1.5)
    jobs.after(1, lambda: (jobs.run_job(job), jobs.stop(None)))
    clock.advance(1)
    jobs.start()
    clock.advance(1)
    jobs.stop(None)
    assert job in jobs.owner.left
    assert len(jobs) == 0


# Views.


def test_snapshots_are_in_the_order_of_registration(jobs, clock):
    references = [jobs.every(1 + k % 3, nothing) for k in range(1500)]
    for reference in references[::3]:
        jobs.remove(reference)
    more = [jobs.every(1, nothing) for _ in range(600)]
    kept = [reference for k, reference in enumerate(references) if k % 3]
    assert [found.reference for found in jobs.snapshots()] == kept + more
    assert len(jobs) == len(kept) + 600


def test_what_a_snapshot_tells(jobs, clock):
    class Device:
        def poll(self, number):
            pass

    device = Device()
    job = jobs.every(2, device.poll, 7, first=3, until=100, max_runs=9, instances=4)
    assert jobs.look(job)[2:] == (
        *(device.poll, WALL + 3 * S, True, False, 2 * S, None, False, 0, 0, 0, 0, 0, 0, 0, None, None, 0, 0, 0, 4),
        *(WALL + 3 * S, WALL + 100 * S, 9, False),
    )
    jobs.start()
    clock.advance(3)
    seen = jobs.look(job)
    assert (seen.last_start, seen.last_end, seen.started, seen.succeeded) == (WALL + 3 * S, WALL + 3 * S, 1, 1)


def test_what_is_wrong_is_refused(impl, jobs, clock):
    make = jobs.module.JobEngine
    for executor in (True, "4", 1.5, object()):
        with pytest.raises(TypeError, match="^executor must be"):
            make(jobs.owner, executor, clock, "x", "p")
    with pytest.raises(ValueError, match="^executor"):
        make(jobs.owner, 0, clock, "x", "p")
    with pytest.raises(TypeError, match="^clock must have"):
        make(jobs.owner, 1, 5, "x", "p")
    with pytest.raises(ValueError, match="^name must not be empty"):
        make(jobs.owner, 1, clock, "", "p")
    assert jobs.name == "jobs"
    with pytest.raises(TypeError):
        jobs.schedules.CalendarSchedule(None)


def test_what_was_removed_is_within_bounds_while_the_others_run(jobs, clock, times, note):
    """Of as many as may be kept beside those that live, 1024 more; `_check()` holds at each start of one of these."""
    jobs.start()
    for _ in range(20):
        jobs.after(1, lambda: (jobs._check(), note()))
    jobs.after(TOMORROW, nothing)  # before those that are removed, which would be dropped if they came to be first
    for job in [jobs.after(TOMORROW, nothing) for _ in range(21 + 1024)]:
        assert jobs.remove(job)
    jobs._check()
    clock.advance(1)
    assert times == [1.0] * 20
