"""Cancelling, on each face: what was cancelled in time never starts, and what cannot be prevented any more is told."""

from __future__ import annotations

import random
import threading

import pytest
from faces import all_faces, restartable
from support import TOMORROW, WAIT, in_threads, nothing, wait_until

TELLING = ("engine", "scheduler")
"""The faces whose cancel says whether it prevented a run."""


@all_faces
def test_an_entry_that_cancels_itself_on_its_third_run(make_face, clock, kind):
    face, runs, told = make_face(kind, clock=clock), [], []
    face.start()

    def job():
        runs.append(clock.time())
        if len(runs) == 3:
            told.append(face.cancel("k"))
            told.append(face.cancel("k"))

    face.every(1, job, "k")
    clock.advance(10)
    assert runs == [1, 2, 3]
    assert told == ([True, False] if kind in TELLING else [None, None])


@all_faces
def test_each_of_a_hundred_due_entries_cancels_its_neighbour(make_face, clock, kind):
    face, ran, told = make_face(kind, clock=clock), [], []
    face.start()

    def run(number):
        ran.append(number)
        told.append(face.cancel(f"k{number ^ 1}"))

    for number in range(100):
        face.once(1, lambda number=number: run(number), f"k{number}")
    assert clock.advance(1) == 50
    assert ran == list(range(0, 100, 2))
    assert set(told) == {True if kind in TELLING else None}


@all_faces
def test_of_equal_entries_the_one_that_was_meant_is_cancelled(make_face, clock, kind):
    face, ran = make_face(kind, clock=clock), []
    face.start()

    class Equal:
        def __init__(self, number):
            self.number = number

        def __call__(self, *args):
            ran.append(self.number)

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __lt__(self, other):
            raise AssertionError("compared")

    for number in range(5):
        face.once(1, Equal(number), f"k{number}")
    face.cancel("k3")
    clock.advance(1)
    assert ran == [0, 1, 2, 4]


@all_faces
def test_a_cancelled_entry_under_whose_key_another_comes(make_face, clock, kind):
    """The late end of the first neither counts for the second nor brings the first back."""
    face, runs = make_face(kind, clock=clock), []
    face.start()

    def first():
        runs.append("first")
        face.cancel("k")
        face.every(10, lambda: runs.append(clock.time()), "k")
        clock.sleep(3)

    face.every(10, first, "k")
    clock.advance(40)
    assert runs == ["first", 20, 30, 40]


@pytest.mark.stress
@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("seed", range(3))
def test_cancelling_at_the_moment_of_the_start_is_one_or_the_other(make_face, switching, kind, workers, seed):
    """Of each entry exactly one: it ran, or one of the two cancels prevented it, and said so."""
    face, ran, prevented = make_face(kind, workers=workers), [], []
    generator = random.Random(seed)
    delays = [generator.random() * 0.02 for _ in range(600)]

    def cancel(numbers):
        for number in numbers:
            if face.cancel(f"k{number}"):
                prevented.append(number)

    for number, delay in enumerate(delays):
        face.once(delay, lambda number=number: ran.append(number), f"k{number}")
    order = sorted(range(600), key=lambda number: delays[number])
    face.start()
    in_threads(lambda: cancel(order[::2]), lambda: cancel(order[::-3]))
    assert wait_until(lambda: len(ran) + len(prevented) >= 600)
    assert sorted(ran + prevented) == list(range(600))


@pytest.mark.stress
@all_faces
@pytest.mark.parametrize("workers", [None, 2])
def test_nothing_starts_after_its_cancel_has_returned(make_face, switching, kind, workers):
    """A repeating entry is cancelled again and again while it comes due every few microseconds."""
    face, late = make_face(kind, workers=workers), []
    face.start()
    for _ in range(150):
        started, ended, begun = [], [], threading.Event()

        def job(started=started, ended=ended, begun=begun):
            started.append(1)
            begun.set()
            ended.append(1)

        face.every(1e-5, job, "k")
        assert begun.wait(WAIT)
        face.cancel("k")
        # One may be in progress; which has started, so nothing more may be added once it is over.
        assert wait_until(lambda started=started, ended=ended: len(started) == len(ended))
        count = len(started)
        late.append((started, count))
    last = threading.Event()
    face.once(0.01, last.set)
    assert last.wait(WAIT)
    # Between the return of the cancel and our count the run in progress may have come to its first line: one at most.
    assert [len(started) - count for started, count in late if len(started) > count + 1] == []


@restartable  # of jobs: see test_job_engine.py
@pytest.mark.parametrize("workers", ["manual clock", None, 2])
def test_what_was_cancelled_is_within_bounds_while_the_others_run(make_face, clock, kind, workers):
    """Of as many as may be kept beside those that live, 1024 more; `_check()` holds at each start of one of these."""
    face = make_face(kind, clock=clock) if workers == "manual clock" else make_face(kind, workers=workers)
    checked = []

    def check():
        face.made._check()
        checked.append(1)

    for _ in range(20):
        face.once(0, check)
    face.once(TOMORROW, nothing)  # before those that are cancelled, which would be dropped if they came to be first
    for number in range(21 + 1024):
        face.once(TOMORROW, nothing, f"k{number}")
    for number in range(21 + 1024):
        face.cancel(f"k{number}")
    face.made._check()
    face.start()
    clock.advance(0)
    assert wait_until(lambda: len(checked) == 20)


@all_faces
def test_what_is_replaced_from_many_threads_runs_once_a_key(make_face, clock, kind):
    face, ran = make_face(kind, clock=clock), []
    face.start()

    def register(seed):
        for number in range(50):
            face.once(1, lambda number=number: ran.append((number % 5, seed)), f"k{number % 5}")

    in_threads(*[lambda seed=seed: register(seed) for seed in range(4)])
    clock.advance(2)
    assert sorted(number for number, _ in ran) == list(range(5))
