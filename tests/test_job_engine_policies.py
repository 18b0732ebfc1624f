"""What becomes of slots that come late, or while all instances are busy: `JobEngine` on a ManualClock.

Steps of the wall clock are in test_job_engine_wall.py.
"""

from __future__ import annotations

import pytest
from jobs import WALL, Jobs, S
from support import nothing

from pysched.clock import NEVER


@pytest.fixture
def jobs(impl, clock):
    """Not started; it notes and tells what it decides."""
    jobs = Jobs(impl, clock)
    jobs.explain(16)
    jobs.observe(1000)
    yield jobs
    assert jobs.stop(None)
    jobs._check()


@pytest.fixture
def slots():
    """Slots that ran, in seconds since the start of the clock."""
    return []


@pytest.fixture
def note(jobs, slots):
    return lambda: slots.append((jobs.current()[2] - WALL) / S)


@pytest.fixture
def tickets():
    return []


def told(jobs, job=None):
    """What the owner was told of: decision, latest slot in seconds, count."""
    return [
        (decision, (slot - WALL) / S, count)
        for reference, decision, _, slot, count, _ in jobs.owner.decided
        if job in (None, reference)
    ]


def noted(jobs, job):
    return [(decision, (slot - WALL) / S, count) for decision, _, slot, count, _ in jobs.decisions(job)]


def counts(jobs, job):
    seen = jobs.look(job)
    return seen.started, seen.coalesced, seen.missed


# Catching up.


@pytest.mark.parametrize(
    ("catch_up", "expected", "missed"),
    [("one", [3, 4], 2), ("none", [4], 3), ("all", [1, 2, 3, 4], 0)],
)
@pytest.mark.parametrize("kind", ["every", "cron"])
def test_slots_that_were_missed_are_caught_up_with_as_the_job_wants_it(
    jobs, clock, slots, note, catch_up, expected, missed, kind
):
    if kind == "every":
        job = jobs.every(1, note, catch_up=catch_up)
    else:
        job = jobs.cron(jobs.schedule("* * * * * *", seconds=True), note, catch_up=catch_up)
    clock.advance(3.5)
    jobs.start()
    clock.advance(0.5)
    assert slots == expected
    assert counts(jobs, job) == (len(expected), missed, missed)
    latest = 2 if catch_up == "one" else 3
    assert told(jobs) == ([("missed", expected[0] - 1 if catch_up == "one" else latest, missed)] if missed else [])
    assert jobs.stats().coalesced == missed


@pytest.mark.parametrize("catch_up", ["one", "none", "all"])
def test_a_slot_in_time_is_never_missed(jobs, clock, slots, note, catch_up):
    jobs.start()
    job = jobs.every(1, note, catch_up=catch_up)
    clock.advance(5)
    assert slots == [1, 2, 3, 4, 5]
    assert counts(jobs, job) == (5, 0, 0)


def test_catching_up_with_none_after_another_job_was_slow(jobs, clock, slots, note):
    """On a clock that a test moves the tolerance is 0: whatever is late was missed."""
    jobs.start()
    jobs.after(0.5, clock.sleep, 1)
    job = jobs.every(1, note, catch_up="none")
    clock.advance(3)
    assert slots == [2, 3]
    assert counts(jobs, job) == (2, 1, 1)


@pytest.mark.parametrize("kind", ["every", "cron"])
def test_at_most_a_thousand_slots_of_a_gap_are_caught_up_with(jobs, clock, slots, note, kind):
    if kind == "every":
        job = jobs.every(1, note, catch_up="all")
    else:
        job = jobs.cron(jobs.schedule("* * * * * *", seconds=True), note, catch_up="all")
    clock.advance(1234)
    jobs.start()
    clock.advance(0)
    assert slots == list(range(1, 1001))
    assert counts(jobs, job) == (1000, 234, 234)
    assert told(jobs) == [("missed", 1234, 234)]
    clock.advance(1)
    assert slots[-1] == 1235


def test_slots_of_an_interval_are_counted_exactly(jobs, clock, note):
    """More than 32 bits hold, too."""
    one = jobs.every(0.001, note)
    every = jobs.every(0.001, nothing, catch_up="all")
    clock.advance(10_000_000)
    jobs.start()
    clock.advance(0)
    assert counts(jobs, one) == (1, 10**10 - 1, 10**10 - 1)
    assert counts(jobs, every) == (1000, 10**10 - 1000, 10**10 - 1000)
    assert {count for _, _, count in told(jobs)} == {2**32 - 1}


@pytest.mark.parametrize(
    ("catch_up", "expected", "missed"),
    [("one", [86_400], 10_000), ("none", [], 10_001), ("all", range(1, 1001), 10_001)],
)
def test_slots_of_a_calendar_are_counted_up_to_ten_thousand_a_gap(jobs, clock, slots, note, catch_up, expected, missed):
    job = jobs.cron(jobs.schedule("* * * * * *", seconds=True), note, catch_up=catch_up)
    clock.advance(86_400.5)
    jobs.start()
    clock.advance(0)
    assert slots == [*expected]
    assert counts(jobs, job) == (len(expected), missed, missed)
    assert jobs.look(job).slot == WALL + 86_401 * S


def test_until_and_max_runs_bound_what_is_caught_up_with(jobs, clock, slots, note):
    bounded = jobs.every(1, note, catch_up="all", until=3.5)
    few = jobs.every(1, note, catch_up="all", max_runs=2)
    clock.advance(10)
    jobs.start()
    clock.advance(0)
    assert sorted(slots) == [1, 1, 2, 2, 3]
    assert sorted(jobs.owner.left) == [bounded, few]
    assert told(jobs) == []


def test_a_missed_slot_does_not_count_for_max_runs(jobs, clock, slots, note):
    job = jobs.every(1, note, catch_up="none", max_runs=2)
    clock.advance(5.5)
    jobs.start()
    clock.advance(0.5)
    assert jobs.look(job).ticks_left == 1
    clock.advance(1)
    assert slots == [6, 7]
    assert jobs.owner.left == [job]


def test_a_job_ends_whose_last_slots_were_missed(jobs, clock, note, slots):
    job = jobs.every(1, note, catch_up="none", until=3.5)
    clock.advance(5)
    jobs.start()
    clock.advance(0)
    assert (slots, jobs.owner.left, told(jobs)) == ([], [job], [("missed", 3, 3)])


# The grace.


@pytest.mark.parametrize(
    ("grace", "catch_up", "expected", "missed"),
    [
        (0.5, "one", [5], 4),
        (0.25, "one", [], 5),
        (0, "one", [], 5),
        (2.5, "all", [3, 4, 5], 2),
        (2.5, "one", [5], 4),
        (100, "all", [1, 2, 3, 4, 5], 0),
        (2.5, "none", [], 5),
    ],
)
def test_slots_later_than_the_grace_are_left_out_first(jobs, clock, slots, note, grace, catch_up, expected, missed):
    job = jobs.every(1, note, grace=grace, catch_up=catch_up)
    clock.advance(5.5)
    jobs.start()
    clock.advance(0)
    assert slots == expected
    assert counts(jobs, job) == (len(expected), missed, missed)
    clock.advance(0.5)
    assert slots == [*expected, 6]


def test_a_single_slot_later_than_its_grace_never_runs(jobs, clock, slots, note):
    late, wall = jobs.after(1, note, grace=1), jobs.at(WALL + 1 * S, note, grace=1)
    jobs.after(2, note, grace=1)
    clock.advance(3)
    jobs.start()
    clock.advance(0)
    assert slots == [2]
    assert {late, wall} < set(jobs.owner.left)
    assert told(jobs) == [("missed", 1, 1), ("missed", 1, 1)]


def test_a_slot_that_is_late_by_its_jitter_and_delay_only_is_in_time(jobs, clock, slots, note):
    """The grace counts from when it was due."""
    jobs.start()
    jobs.every(10, note, grace=0.5, jitter=5, delay=3)
    jobs.every(10, note, grace=0, catch_up="none", delay=3)
    clock.advance(103)
    clock.advance(5)
    assert sorted(slots) == [10.0 * k for k in range(1, 11) for _ in range(2)]


def test_a_single_slot_that_is_late_because_of_a_pause_or_its_own_run_is_excused(jobs, clock, tickets):
    jobs.start()
    paused = jobs.after(1, tickets.append, managed=True, grace=1)
    jobs.pause(paused)
    busy = jobs.after(1, tickets.append, managed=True, grace=1)
    assert jobs.run_job(busy)
    clock.advance(5)
    jobs.resume(paused)
    tickets[0].finish(False)
    clock.advance(0)
    assert sorted(ticket.reference for ticket in tickets[1:]) == [paused, busy]
    jobs.pause_all()
    both = jobs.after(1, tickets.append, managed=True, grace=1)
    clock.advance(5)
    jobs.resume_all()
    clock.advance(0)
    assert tickets[-1].reference == both
    assert told(jobs) == []


def test_a_pause_that_ended_before_the_slot_excuses_nothing(jobs, clock, slots, note):
    job = jobs.after(2, note, grace=1)
    jobs.pause(job)
    clock.advance(1)
    jobs.resume(job)
    clock.advance(5)
    jobs.start()
    clock.advance(0)
    assert (slots, told(jobs)) == ([], [("missed", 2, 1)])


def test_a_new_grid_excuses_nothing(jobs, clock, slots, note):
    job = jobs.after(1, note, grace=1)
    jobs.pause(job)
    clock.advance(2)
    jobs.resume(job)
    assert jobs.reschedule(job, 0, None, 3 * S, False)
    clock.advance(5)
    jobs.start()
    clock.advance(0)
    assert (slots, told(jobs)) == ([], [("missed", 3, 1)])


# Queues.


def test_slots_that_find_all_instances_busy_wait_in_turn(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(4.5)
    seen = jobs.look(job)
    assert (seen.running, seen.queued, seen.coalesced) == (1, 3, 0)
    for number in range(4):
        assert [(ticket.scheduled_wall_ns - WALL) / S for ticket in tickets] == [*range(1, number + 2)]
        tickets[number].finish(False)
        clock.advance(0)
    assert (jobs.look(job).running, jobs.look(job).queued) == (0, 0)
    assert noted(jobs, job) == [
        *(("ran", 1, 1), ("queued", 2, 1), ("queued", 3, 1), ("queued", 4, 1)),
        *(("ran", 2, 1), ("ran", 3, 1), ("ran", 4, 1)),
    ]  # fmt: skip
    clock.advance(0.5)
    assert tickets[-1].scheduled_wall_ns == WALL + 5 * S


def test_slots_that_nobody_looked_at_while_the_job_ran_wait_too(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(1, lambda: (note(), clock.sleep(2.5) if len(slots) == 1 else None), queues=True)
    clock.advance(1)
    clock.advance(0)
    assert slots == [1, 2, 3]
    assert counts(jobs, job) == (3, 0, 0)
    assert noted(jobs, job)[:2] == [("ran", 1, 1), ("queued", 3, 2)]


def test_runs_that_waited_start_when_their_slot_was_due(jobs, clock, tickets):
    """Their lateness counts from the slot."""
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(2)
    clock.advance(0.5)
    tickets[0].finish(False)
    clock.advance(0)
    assert jobs.decisions(job)[-1] == ("ran", WALL + 5 * S // 2, WALL + 2 * S, 1, S // 2)


def test_at_most_a_thousand_wait(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(1100)
    seen = jobs.look(job)
    assert (seen.queued, seen.coalesced, seen.missed) == (1000, 99, 0)
    assert sum(count for _, _, count in told(jobs)) == 99
    tickets[0].finish(False)
    clock.advance(0)
    assert jobs.look(job).queued == 999
    clock.advance(1)
    assert (jobs.look(job).queued, jobs.look(job).coalesced) == (1000, 99)


@pytest.mark.parametrize("instances", [2, 3])
def test_several_instances_are_fed_together(jobs, clock, tickets, instances):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True, instances=instances)
    clock.advance(instances + 4)
    assert (jobs.look(job).running, jobs.look(job).queued) == (instances, 4)
    for ticket in list(tickets):
        ticket.finish(False)
    clock.advance(0)
    assert len(tickets) == 2 * instances
    assert jobs.look(job).queued == 4 - instances
    assert [ticket.number for ticket in tickets] == [*range(1, 2 * instances + 1)]


def test_catching_up_with_all_uses_all_instances(jobs, clock, tickets):
    job = jobs.every(1, tickets.append, managed=True, catch_up="all", instances=2)
    clock.advance(5.5)
    jobs.start()
    clock.advance(0)
    assert (len(tickets), jobs.look(job).queued) == (2, 3)


def test_max_runs_counts_runs_that_wait(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True, max_runs=3)
    clock.advance(10)
    seen = jobs.look(job)
    assert (seen.running, seen.queued, seen.next, seen.coalesced) == (1, 2, None, 0)
    for number in range(3):
        assert jobs.owner.left == []
        tickets[number].finish(False)
        clock.advance(0)
    assert (len(tickets), jobs.owner.left) == (3, [job])


def test_a_job_leaves_with_the_last_run_of_its_backlog(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True, until=3.5)
    clock.advance(5)
    assert jobs.look(job).next is None
    for number in range(3):
        assert jobs.has(job)
        tickets[number].finish(False)
        clock.advance(0)
    assert jobs.owner.left == [job]


@pytest.mark.parametrize("max_runs", [0, 3])
def test_a_stop_drops_what_waits_and_counts_it(jobs, clock, tickets, max_runs):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True, max_runs=max_runs)
    clock.advance(3.5)
    jobs.stop(0)
    assert (jobs.look(job).queued, jobs.stats().dropped) == (0, 2)
    assert told(jobs) == [("dropped", 3, 2)]
    tickets[0].finish(False)
    assert len(tickets) == 1
    jobs.start()
    clock.advance(0.5)
    assert tickets[-1].scheduled_wall_ns == WALL + 4 * S
    assert jobs.look(job).ticks_left == (max_runs and 1), "what was dropped had not run"


def test_a_new_grid_drops_what_waits(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True, max_runs=4)
    clock.advance(4)
    assert jobs.look(job).ticks_left == 0
    assert jobs.regrid(job, 2)
    assert (jobs.look(job).queued, jobs.look(job).ticks_left) == (0, 3)
    tickets[0].finish(False)
    clock.advance(2)
    assert [(ticket.scheduled_wall_ns - WALL) // S for ticket in tickets] == [1, 6]
    assert jobs.stats().dropped == 0


def test_a_pause_leaves_what_waits(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(3)
    jobs.pause(job)
    clock.advance(2)
    tickets[0].finish(False)
    clock.advance(0)
    assert [(ticket.scheduled_wall_ns - WALL) // S for ticket in tickets] == [1, 2]
    assert (jobs.look(job).queued, jobs.look(job).paused) == (1, 2)
    jobs.resume(job)
    assert noted(jobs, job)[-1] == ("paused", 5, 2)


def test_a_job_is_removed_while_its_backlog_waits(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(5)
    assert jobs.remove(job)
    jobs._check()
    tickets[0].finish(False)
    clock.advance(5)
    assert (len(tickets), len(jobs), jobs.decisions(job)) == (1, 0, None)


def test_a_run_besides_finds_no_room_while_others_wait(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    clock.advance(2)
    assert jobs.run_job(job) is False
    tickets[0].finish(False)
    clock.advance(0)
    tickets[1].finish(False)
    assert jobs.run_job(job)
    clock.advance(1)
    assert jobs.look(job).queued == 1
    assert tickets[-1].scheduled_wall_ns == WALL + 2 * S


def test_a_backlog_goes_on_from_inside_of_a_callback(jobs, clock, tickets):
    """What ends the run is another job's."""
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, queues=True)
    jobs.after(2.5, lambda: tickets[0].finish(True))
    clock.advance(2.5)
    assert len(tickets) == 2
    assert jobs.look(job).failed == 1


# Periods that count from the end.


def test_from_end_counts_from_the_end_of_the_run(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(1, lambda: (note(), clock.sleep(0.5)), from_end=True)
    clock.advance(1)
    assert jobs.look(job).slot == WALL + 5 * S // 2
    clock.advance(3)
    assert slots == [1, 2.5, 4]
    assert counts(jobs, job) == (3, 0, 0)


def test_from_end_of_a_managed_run_is_when_its_ticket_is_finished(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, from_end=True)
    clock.advance(10)
    seen = jobs.look(job)
    assert (seen.next, seen.slot, seen.enabled, seen.running) == (None, None, True, 1)
    tickets[0].finish(False)
    assert jobs.look(job).next == WALL + 11 * S


def test_from_end_after_a_late_start_and_an_immediate_run(jobs, clock, slots, note):
    job = jobs.every(1, note, from_end=True, immediate=True)
    clock.advance(5)
    jobs.start()
    clock.advance(1.5)
    assert slots == [0, 6]
    assert counts(jobs, job) == (2, 0, 0)


def test_from_end_and_a_run_besides(jobs, clock, tickets):
    """It moves no grid; but a slot that finds it busy counts from its end."""
    jobs.start()
    job = jobs.every(2, tickets.append, managed=True, from_end=True)
    assert jobs.run_job(job)
    clock.advance(1)
    tickets[0].finish(False)
    assert jobs.look(job).slot == WALL + 2 * S
    assert jobs.run_job(job)
    clock.advance(4)
    assert jobs.look(job).coalesced == 1
    tickets[1].finish(False)
    assert jobs.look(job).slot == WALL + 7 * S


def test_from_end_goes_on_if_nobody_looked_while_a_run_besides_was_busy(jobs, clock, slots):
    jobs.start()
    job = jobs.every(2, lambda: (slots.append(clock.time()), clock.sleep(1)), from_end=True)
    clock.advance(1.5)
    assert jobs.run_job(job)
    clock.advance(0)
    assert clock.time() == 2.5
    clock.advance(2)
    assert slots == [1.5, 4.5]
    assert jobs.look(job).coalesced == 1


def test_from_end_after_a_stop(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(2, lambda: (note(), jobs.stop(None)), from_end=True)
    clock.advance(2)
    assert jobs.look(job).next == WALL + 4 * S
    clock.advance(10)
    jobs.start()
    clock.advance(0)
    assert slots == [2, 12]
    assert jobs.look(job).next == WALL + 14 * S


def test_from_end_with_pause_and_new_grid_during_the_run(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, from_end=True)
    clock.advance(1)
    jobs.pause(job)
    clock.advance(1)
    tickets[0].finish(False)
    assert jobs.look(job).next is None
    clock.advance(5)
    jobs.resume(job)
    assert jobs.look(job).paused == 5
    clock.advance(1)
    assert jobs.regrid(job, 3)
    assert jobs.look(job).next == WALL + 11 * S
    tickets[1].finish(False)
    assert jobs.look(job).next == WALL + 11 * S


def test_from_end_until_the_end(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(1, lambda: (note(), clock.sleep(0.75)), from_end=True, until=3)
    few = jobs.every(1, nothing, from_end=True, max_runs=2)
    clock.advance(10)
    assert slots[0] == 1
    assert max(slots) < 3
    assert sorted(jobs.owner.left) == [job, few]


def test_from_end_means_nothing_to_a_calendar_that_takes_its_place(jobs, clock, tickets):
    jobs.start()
    job = jobs.every(1, tickets.append, managed=True, from_end=True)
    seconds = jobs.schedule("* * * * * *", seconds=True)
    assert jobs.reschedule(job, 0, seconds, seconds.next(WALL), True)
    clock.advance(3)
    assert counts(jobs, job) == (1, 2, 0)
    tickets[0].finish(False)
    clock.advance(1)
    assert len(tickets) == 2


def test_from_end_is_not_moved_by_a_step_of_the_wall_clock(jobs, clock):
    jobs.start()
    job = jobs.every(1, lambda: (clock.step_wall(-3600), jobs.look(job)), from_end=True)
    clock.advance(3)
    assert jobs.look(job).started == 3


# Delays.


def test_a_delay_makes_each_slot_due_later_and_is_the_same_each_time(jobs, clock, slots):
    jobs.start()
    job = jobs.every(10, lambda: slots.append((clock.time(), (jobs.current()[2] - WALL) / S)), delay=3)
    assert (jobs.look(job).slot, jobs.look(job).next) == (WALL + 10 * S, WALL + 13 * S)
    clock.advance(40)
    assert slots == [(13, 10), (23, 20), (33, 30)]


def test_a_delay_may_be_longer_than_the_interval(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(1, note, delay=2.5)
    clock.advance(6)
    assert slots == [1, 2, 3]
    assert counts(jobs, job) == (3, 0, 0)


def test_a_single_slot_and_an_immediate_run_have_no_delay(jobs, clock, slots, note):
    jobs.start()
    jobs.add(note, (), 0, None, S, delay=5)
    jobs.every(10, note, delay=5, immediate=True)
    clock.advance(1)
    assert slots == [0, 1]


def test_a_delayed_slot_before_until_runs(jobs, clock, slots, note):
    jobs.start()
    job = jobs.every(1, note, delay=3, until=2.5)
    clock.advance(10)
    assert (slots, jobs.owner.left) == ([1, 2], [job])


# Decisions.


def test_decisions_are_the_latest_the_oldest_first(jobs, clock):
    jobs.start()
    job = jobs.every(1, nothing)
    assert jobs.decisions(job) == []
    clock.advance(20)
    assert noted(jobs, job) == [("ran", slot, 1) for slot in range(5, 21)]
    assert jobs.decisions(job)[-1] == ("ran", WALL + 20 * S, WALL + 20 * S, 1, 0)
    assert jobs.decisions(job + 1) is None
    assert told(jobs) == []


def test_what_comes_of_a_pause_is_noted_once(jobs, clock):
    jobs.start()
    job = jobs.every(1, nothing)
    jobs.pause_all()
    clock.advance(2)
    jobs.resume_all()
    jobs.pause(job)
    clock.advance(3)
    jobs.resume(job)
    assert noted(jobs, job) == [("paused", 1, 1), ("paused", 2, 1), ("paused", 5, 3)]


def test_the_owner_notes_what_it_decides_itself(jobs, clock):
    job = jobs.every(1, nothing)
    clock.advance(0.5)
    jobs.decide(job, "retry", WALL)
    jobs.decide(job, "timeout", WALL + S)
    jobs.decide(job + 1, "retry", WALL)
    assert jobs.decisions(job) == [
        ("retry", WALL + S // 2, WALL, 1, 0),
        ("timeout", WALL + S // 2, WALL + S, 1, 0),
    ]
    assert jobs.owner.decided == []


def test_nothing_is_noted_or_told_that_nobody_asked_for(impl, clock):
    jobs = Jobs(impl, clock)
    job = jobs.every(1, nothing)
    jobs.explain(4)  # too late: there is a job
    clock.advance(5)
    jobs.start()
    clock.advance(0)
    jobs.decide(job, "retry", WALL)
    assert (jobs.decisions(job), jobs.owner.decided) == ([], [])
    jobs.remove(job)
    jobs.explain(1)
    job = jobs.every(1, nothing)
    clock.advance(2)
    assert noted(jobs, job) == [("ran", 7, 1)]
    jobs.stop(None)


def test_the_owner_is_told_before_a_run_that_comes_after_it_and_before_the_job_leaves(jobs, clock):
    events = []
    jobs.owner._job_decided = lambda reference, decision, *_: events.append((decision, reference))
    jobs.owner._job_left = lambda reference, snapshot: events.append(("left", reference))
    job = jobs.every(1, lambda: events.append("run"), until=3.5)
    missed = jobs.every(1, nothing, until=3.5, catch_up="none")
    clock.advance(3.25)
    jobs.start()
    clock.advance(0)
    assert events == [("missed", job), "run", ("left", job), ("missed", missed), ("left", missed)]


def test_of_too_much_that_is_to_be_told_the_oldest_is_left_out(jobs, clock):
    """Telling may change what is told: the owner comes in while nothing is held."""
    jobs.observe(2)
    job = jobs.every(1, nothing, catch_up="none")
    others = [jobs.every(1, nothing, catch_up="none") for _ in range(3)]
    clock.advance(2.5)
    seen = []

    def _job_decided(reference, *_):
        seen.append(reference)
        jobs._check()
        assert jobs.look(reference).missed == 2

    jobs.owner._job_decided = _job_decided
    jobs.start()
    clock.advance(0)
    assert seen == [job, *others], "on this clock each is told at once"
    jobs.observe(0)
    clock.sleep(2)
    clock.advance(0)
    assert len(seen) == 4
    assert jobs.look(job).missed == 4


def test_an_owner_that_fails_is_logged_and_harms_nobody(jobs, clock, caplog):
    jobs.owner._job_decided = lambda *_: 1 / 0
    job = jobs.every(1, nothing)
    clock.advance(3)
    jobs.start()
    clock.advance(0)
    assert "jobs: what became of slots could not be told" in caplog.text
    assert counts(jobs, job) == (1, 2, 2)


def test_slots_at_the_ends_of_time(jobs, clock):
    job = jobs.every(10**9, nothing, catch_up="all", queues=True, grace=1, delay=10**9, first=NEVER / S - 1)
    jobs.start()
    clock.advance(10**9)
    assert jobs.look(job).started == 0
    assert jobs.pause(job)
    assert jobs.resume(job)
