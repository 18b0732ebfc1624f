"""Clocks, on each face: never early, late rather than never, whatever the clock does and however many register."""

from __future__ import annotations

import itertools
import threading
import time
import tracemalloc
from functools import partial

import pytest
from faces import all_faces
from support import TOMORROW, WAIT, SteppedClock, in_threads, nothing, wait_until

HOUR = 3600
CENTURIES = 174 * 365 * 86400


@pytest.fixture
def note(clock):
    """Appends the time of the clock to its `runs`."""

    def note():
        note.runs.append(clock.time())

    note.runs = []
    return note


@all_faces
def test_a_step_of_the_wall_clock_moves_nothing_that_counts_seconds(make_face, clock, note, kind):
    """Twelve hours back, 174 years ahead, eight hours of suspend."""
    face = make_face(kind, clock=clock)
    face.start()
    face.every(10, note)
    face.once(65, note)
    for step in (-12 * HOUR, CENTURIES, 8 * HOUR, 0):
        clock.advance(20)
        clock.suspend(step) if step == 8 * HOUR else clock.step_wall(step)
    assert note.runs == [10, 20, 30, 40, 50, 60, 65, 70, 80]


@all_faces
def test_a_leap_of_centuries_costs_neither_time_nor_memory(make_face, clock, note, kind):
    """No list of the five billion slots that were missed is ever made: one run, and then the grid."""
    face = make_face(kind, clock=clock)
    face.start()
    face.every(1, note, "k")
    clock.advance(1)
    clock.sleep(CENTURIES)
    tracemalloc.start()
    try:
        clock.advance(3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    late = 1 + CENTURIES
    assert [round(run) for run in note.runs] == [1, late, late + 1, late + 2, late + 3]


@all_faces
def test_late_by_three_seconds_is_late_and_not_dropped(make_face, clock, note, kind):
    face = make_face(kind, clock=clock)
    face.start()
    face.once(HOUR, lambda: clock.sleep(3))
    face.once(HOUR, note)
    face.once(HOUR + 1, note)
    face.every(HOUR, note)
    clock.advance(HOUR)
    clock.advance(0)
    assert note.runs == [HOUR + 3] * 3


@all_faces
@pytest.mark.parametrize("early", [0.003, 1e-9])
def test_a_clock_that_wakes_early_makes_nothing_early_and_no_slot_twice(make_face, kind, early):
    clock, runs = SteppedClock(), []
    face = make_face(kind, clock=clock)
    face.every(60, lambda: runs.append(clock.now_ns))
    face.start()
    for slot in range(60, 660, 60):
        clock.set(slot - early)
        clock.let_look()
        assert len(runs) == slot // 60 - 1
        clock.set(slot)
        assert wait_until(lambda slot=slot: len(runs) == slot // 60)
    assert runs == [slot * 10**9 for slot in range(60, 660, 60)]


@all_faces
def test_what_is_added_for_sooner_wakes_a_loop_that_sleeps(make_face, kind):
    face, ran = make_face(kind), threading.Event()
    face.once(TOMORROW, nothing, "k")
    face.start()
    face.once(0.01, ran.set)
    assert ran.wait(WAIT)


@all_faces
def test_a_loop_whose_entries_are_all_cancelled_stops_at_once(make_face, kind):
    face = make_face(kind)
    for number in range(100):
        face.once(TOMORROW, nothing, f"k{number}")
    face.start()
    for number in range(100):
        face.cancel(f"k{number}")
    begun = time.monotonic()
    assert face.stop(WAIT)
    assert time.monotonic() - begun < WAIT / 2


@all_faces
def test_a_thousand_from_eight_threads_all_run_and_none_early(make_face, kind):
    face, early = make_face(kind), []
    face.start()

    def register(seed):
        for step in range(125):
            delay = (step * 37 + seed * 11) % 100 / 2000
            due = time.monotonic() + delay
            face.once(delay, lambda due=due: early.append(due - time.monotonic()))

    in_threads(*[lambda seed=seed: register(seed) for seed in range(8)])
    assert wait_until(lambda: len(early) == 1000)
    assert max(early) <= 0


@all_faces
@pytest.mark.real_time
def test_a_call_that_keeps_the_gil_makes_one_late_run_and_no_burst(make_face, kind):
    """Other threads, the loop's included, stand still meanwhile; afterwards the grid goes on where it was."""
    face, runs = make_face(kind), []
    count = 1_000_000
    begun = time.monotonic()
    sum(range(count))
    count = int(count * 0.4 / (time.monotonic() - begun))
    face.start()
    begun = time.monotonic()
    face.every(0.02, lambda: runs.append(time.monotonic()), "k")
    assert wait_until(lambda: len(runs) >= 3)
    # In C from the first to the last, so that nobody gets the GIL in between.
    calls = partial(time.monotonic), partial(sum, range(count)), partial(time.monotonic)
    before, _, after = map(partial.__call__, calls)
    assert wait_until(lambda: runs[-1] > after + 0.05)
    # One may have been on its way when the call began; none came through while it lasted.
    assert len([run for run in runs if before + 0.02 < run < after - 0.02]) <= 1
    if kind == "commands":  # without a grid: never closer than the interval
        assert all(later - sooner >= 0.02 for sooner, later in itertools.pairwise(runs))
        return
    stats = face.made.stats()
    assert stats.coalesced >= (after - before) / 0.02 - 4, "a slot that passed meanwhile is counted, not run"
    assert stats.started + stats.coalesced <= (time.monotonic() - begun) / 0.02, "of each slot one"


@all_faces
def test_a_users_clock_that_steps_back_stands_still_and_leaps_by_centuries(make_face, kind):
    """In real threads, through the Clock protocol: no slot comes twice, and the loop goes on."""
    clock, ran = SteppedClock(), []
    face = make_face(kind, clock=clock)
    face.every(1, lambda: ran.append("every"))
    face.once(1.5, lambda: ran.append("once"))
    face.once(TOMORROW, lambda: ran.append("tomorrow"))
    face.start()
    clock.set(1)
    assert wait_until(lambda: ran == ["every"])
    for seconds in (0.25, 0.5, 1, 1, 1.25):
        clock.set(seconds)
        clock.let_look()
    assert ran == ["every"]
    clock.set(1.5)
    assert wait_until(lambda: ran == ["every", "once"])
    clock.set(CENTURIES)
    assert wait_until(lambda: sorted(ran) == ["every", "every", "once", "tomorrow"])
    clock.let_look()
    assert len(ran) == 4
    clock.set(CENTURIES + 2)
    assert wait_until(lambda: ran.count("every") == 3)
