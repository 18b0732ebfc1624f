"""Use that means no good, of all faces: from threads and destructors, by keys and by numbers.

What signal handlers and forks do stands in test_hostile_processes.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from functools import partial
from weakref import ref

import pytest
from faces import FACES, all_faces
from support import WAIT, in_threads, nothing, pause, wait_until

AT_RANDOM_S = float(os.environ.get("PYSCHED_HOSTILE_SECONDS", "0.4"))
"""Seconds that each case of threads at random takes; `ci/full` gives more."""

WORKERS = {"1": {}, "2": {"workers": 2}, "2 daemon": {"workers": 2, "daemon": True}}
"""Options of faces. Commands have no daemon workers."""

CASES = [(kind, name) for kind in FACES for name in WORKERS if (kind, name) != ("commands", "2 daemon")]
on_real_threads = pytest.mark.parametrize(("kind", "workers"), CASES)


@pytest.fixture
def make(make_face):
    """Makes a face of one of CASES; what its callbacks raise is of no interest."""
    return lambda kind, workers: make_face(kind, on_error=nothing, **WORKERS[workers])


# Eight threads at random.


class Cell:
    """A one-shot: its runs, and whether a cancel said that it prevented them."""

    def __init__(self):
        self.runs, self.prevented, self.known = [], [], True

    def __call__(self):
        self.runs.append(1)
        if len(self.runs) % 3 == 0:
            raise SystemExit("twice is too often already")


class Crowd:
    """Eight threads that do with one face what comes to their minds."""

    def __init__(self, face, seed):
        self.face = face
        self.seed = seed
        self.cells = []
        self.end = time.monotonic() + (AT_RANDOM_S if face.restarts else min(AT_RANDOM_S, 0.4))

    def act(self, number):
        generator = random.Random(f"{self.seed} {number}")
        own, names = {}, [f"{number}-{i}" for i in range(10)]
        for i in range(10**9):
            if time.monotonic() > self.end:
                return
            match generator.randrange(14):
                case 0 | 1 | 2 | 3:
                    name = generator.choice(names)
                    cell = Cell()
                    self.cells.append(cell)
                    if name in own:
                        own[name].known = False  # replaced, in time or not
                    own[name] = cell
                    self.face.once(generator.choice([0, 0, 0.001, 0.01]), cell, name)
                case 4:
                    cell = Cell()
                    cell.known = False
                    self.cells.append(cell)
                    self.face.once(generator.choice([0, 0.001]), cell, f"shared {generator.randrange(3)}")
                case 5 | 6 | 7:
                    name = generator.choice(names)
                    prevented = self.face.cancel(name)
                    cell = own.pop(name, None)
                    if cell is not None and prevented is None:
                        cell.known = False
                    elif prevented:
                        cell.prevented.append(True)
                case 8:
                    self.face.cancel(f"shared {generator.randrange(3)}")
                case 9:
                    self.face.every(0.001, nothing, f"again {generator.randrange(4)}")
                case 10:
                    self.look()
                case 11 | 12:
                    self.start()
                case 13 if self.face.restarts or i > 300:
                    self.face.stop(generator.choice([0, 0.001, WAIT]))

    def look(self):
        made = self.face.made
        repr(made)
        for name in ("list_jobs", "stats", "next_deadline", "is_healthy"):
            getattr(made, name, nothing)()

    def start(self):
        try:
            self.face.start()
        except RuntimeError as error:  # of a Scheduler: another thread was faster
            assert "running" in str(error)


@pytest.mark.stress
@pytest.mark.real_time
@pytest.mark.timeout(120 + 2 * AT_RANDOM_S)
@on_real_threads
def test_eight_threads_add_cancel_list_start_and_stop_at_random(make, logged, kind, workers):
    end = time.monotonic() + AT_RANDOM_S
    seed = 0
    while seed == 0 or time.monotonic() < end:  # one that can be shut down once gets as many lives as there is time for
        face = make(kind, workers)
        crowd = Crowd(face, seed)
        in_threads(*[partial(crowd.act, number) for number in range(8)])
        seed += 1
        if face.restarts:
            face.start()
            waiting = [cell for cell in crowd.cells if cell.known and not cell.prevented]
            assert wait_until(lambda waiting=waiting: all(cell.runs for cell in waiting)), "a run was lost"
        assert face.stop(WAIT)
        ran = sum(len(cell.runs) for cell in crowd.cells)
        assert all(len(cell.runs) <= 1 for cell in crowd.cells), "a run came twice"
        assert not any(cell.runs for cell in crowd.cells if cell.prevented), "a cancelled one ran"
        face.made._check()
        pause(0.005)
        assert sum(len(cell.runs) for cell in crowd.cells) == ran, "a run came after the stop"
    assert {level for level, _, _ in logged} <= {"WARNING"}  # of starts after stops that callbacks outlived


# The last reference.


@on_real_threads
def test_a_callback_that_stops_it_and_deletes_the_last_reference(impl, kind, workers):
    held = [FACES[kind](impl, on_error=nothing, **WORKERS[workers])]
    gone, done = ref(held[0].made), threading.Event()

    def delete():
        held.pop().stop(0)
        gc.collect()
        done.set()

    face = held[0]
    face.once(0, delete)
    face.every(0.001, nothing)
    face.start()
    del face
    assert done.wait(WAIT)
    assert wait_until(lambda: gc.collect() is not None and gone() is None)


@on_real_threads
def test_a_callback_that_deletes_the_last_reference_of_one_that_goes_on(impl, kind, workers):
    """It is alive as long as it is not stopped."""
    held = [FACES[kind](impl, on_error=nothing, **WORKERS[workers])]
    gone, ran = ref(held[0].made), []
    held[0].once(0, lambda: (held.clear(), gc.collect()))
    held[0].every(0.001, lambda: ran.append(1))
    held[0].start()
    assert wait_until(lambda: not held)
    seen = len(ran)
    assert wait_until(lambda: len(ran) > seen + 1)
    made = gone()
    (made.shutdown if kind == "scheduler" else made.stop)()
    del made
    assert wait_until(lambda: gc.collect() is not None and gone() is None)


# Destructors.


class Stops:
    """A callback whose destructor stops a face, without limit."""

    def __init__(self, face, stopped):
        self.face, self.stopped = face, stopped

    def __call__(self):
        pass

    def __del__(self):
        self.face.stop(WAIT)
        self.stopped.append(threading.current_thread())


@on_real_threads
@pytest.mark.parametrize("how", ["run", "cancel", "replace"])
def test_a_destructor_that_stops_it(make, how, kind, workers):
    face, stopped = make(kind, workers), []
    face.every(0.001, nothing)
    face.once(0.01 if how == "run" else 3600, Stops(face, stopped), "k")
    face.start()
    if how == "cancel":
        face.cancel("k")
    elif how == "replace":
        face.once(3600, nothing, "k")
    assert wait_until(lambda: stopped)
    assert (stopped[0] is threading.main_thread()) == (how != "run")
    assert face.stop(WAIT)


# Numbers and keys.


@pytest.mark.slow
@on_real_threads
def test_a_million_at_one_instant(make, impl, kind, workers):
    """Each runs once, and with one worker in the order of submission. In plain Python and for jobs there are fewer."""
    count = 10**4 if impl.__name__ == "pysched._pure" else 10**5 if kind == "scheduler" else 10**6
    face, ran = make(kind, workers), []

    def appends(number):
        return lambda: ran.append(number)

    match kind:
        case "engine":
            assert face.made.call_many([0.0] * count, ran.append, [(i,) for i in range(count)]) == count
        case "commands":
            for i in range(count):
                face.once(0, appends(i))
        case "scheduler":
            for i in range(count):
                face.made.after(0, appends(i))
    face.start()
    assert wait_until(lambda: len(ran) == count, 100)
    assert face.stop(WAIT)
    assert (ran if workers == "1" else sorted(ran)) == list(range(count))


class Colliding(str):
    """Texts of one hash, compared in Python."""

    __slots__ = ()

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return str.__eq__(self, other)


@all_faces
def test_keys_that_all_have_one_hash(make_face, clock, kind):
    face, ran = make_face(kind, clock=clock), []
    count = 300
    for generation in range(2):
        for i in range(count):
            face.once(1, partial(ran.append, (generation, i)), Colliding(f"k{i}"))
    for i in range(0, count, 3):
        face.cancel(Colliding(f"k{i}"))
    face.start()
    clock.advance(1)
    assert ran == [(1, i) for i in range(count) if i % 3]
    face.once(1, partial(ran.append, "again"), Colliding("k1"))
    clock.advance(1)
    assert ran[-1] == "again"


def test_tags_that_all_have_one_hash(make_face, clock):
    scheduler = make_face("scheduler", clock=clock).made
    for i in range(9):
        scheduler.every(1, nothing, tags=[Colliding(f"t{i % 3}")])
    assert len(scheduler.list_jobs(tag=Colliding("t1"))) == len(scheduler.list_jobs(tag="t1")) == 3
    assert scheduler.remove_all_jobs(tag=Colliding("t2")) == 3


@all_faces
@pytest.mark.parametrize(
    "text", ["x" * 10_000, "\ud800\udfff", "a\0b", "\n", "\x1b[2J", " ", "%s%n", "ß\u202eß"], ids=ascii
)
def test_any_text_is_a_key(make_face, clock, logged, kind, text):
    face, ran = make_face(kind, clock=clock, name=text), []
    face.once(1, partial(ran.append, 1), text)
    face.once(1, partial(ran.append, 2), text)  # in its place
    face.once(2, [].pop, text + "2")
    face.start()
    clock.advance(3)
    assert ran == [2]
    assert face.cancel(text) in (False, None)
    repr(face.made).encode()
    assert [entry[0] for entry in logged] == ["ERROR"]
    logged[0][1].encode()


def test_a_text_that_cannot_be_cut_is_refused_in_words_all_the_same(make_face, clock):
    class Whole(str):
        __slots__ = ()

        def __getitem__(self, key):
            raise LookupError

    with pytest.raises(ValueError, match=r"^event must be one of .*, got Whole\(\.\.\.\)$"):
        make_face("scheduler", clock=clock).made.on(Whole("nothing"), nothing)
