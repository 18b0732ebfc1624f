"""No lock is held while foreign code runs, on each face; of `Engine` more in test_engine_locks.

Each test lets foreign code wait for another thread that uses the face: with a lock held, both would wait for ever
(here: until in_other_thread gives up).
"""

from __future__ import annotations

import functools
import logging
from datetime import timedelta, tzinfo

import pytest
from faces import all_faces
from support import TOMORROW, WAIT, in_other_thread, listening, nothing

GIVE_UP = 5.0
"""Seconds after which foreign code stops waiting, so that a failing test ends."""


class Foreign:
    """Foreign code: called, it lets another thread use `face` and notes whether that came to an end."""

    def __init__(self):
        self.face = None
        self.ended = []

    def __call__(self, *args):
        face = self.face
        if face is not None:
            self.face = None  # once
            self.ended.append(in_other_thread(lambda: use(face), GIVE_UP))


class Deleted:
    def __init__(self, foreign):
        self.foreign = foreign

    def __del__(self):
        self.foreign()


def use(face):
    """Everything that another thread may want of it."""
    face.once(TOMORROW, nothing, "other")
    face.every(TOMORROW, nothing, "other")
    face.cancel("other")
    repr(face.made)
    for name in ("stats", "list_jobs", "is_healthy"):
        getattr(face.made, name, nothing)()


@pytest.fixture
def foreign():
    """Asserts at the end that it ran, and was not held up."""
    foreign = Foreign()
    yield foreign
    assert foreign.ended == [True]


@pytest.fixture
def free(make_face, clock, foreign, kind):
    """A started face."""
    foreign.face = face = make_face(kind, clock=clock, on_error=nothing)
    face.start()
    return face


@all_faces
def test_in_a_callback(free, clock, foreign):
    free.once(1, foreign)
    clock.advance(1)


@all_faces
@pytest.mark.parametrize("how", ["run", "result", "error", "cancel", "replace"])
def test_in_a_destructor(free, clock, foreign, how):
    def fails(owned):
        raise ValueError(owned)

    match how:
        case "run":
            free.once(1, functools.partial(nothing, Deleted(foreign)), "k")
        case "result":
            free.once(1, functools.partial(Deleted, foreign), "k")
        case "error":
            free.once(1, functools.partial(fails, Deleted(foreign)), "k")
        case "cancel":
            free.once(1, functools.partial(nothing, Deleted(foreign)), "k")
            free.cancel("k")
        case "replace":
            free.once(1, functools.partial(nothing, Deleted(foreign)), "k")
            free.once(1, nothing, "k")
    clock.advance(1)


@all_faces
def test_in_an_error_handler(make_face, clock, foreign, kind):
    foreign.face = face = make_face(kind, clock=clock, on_error=foreign)
    face.start()
    face.once(1, [].pop)
    clock.advance(1)


@all_faces
def test_in_a_logging_handler(make_face, clock, foreign, logged, kind):
    class Handler(logging.Handler):
        def handle(self, record):
            """In place of the inherited one, which would hold a lock of its own."""
            foreign()

    foreign.face = face = make_face(kind, clock=clock)
    face.start()
    face.once(1, [].pop)
    with listening(Handler()):
        clock.advance(1)


@pytest.mark.parametrize("kind", ["engine", "commands"])
def test_in_a_key(free, clock, foreign):
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            foreign()
            return True

    free.once(1, nothing, Key())
    free.once(1, nothing, Key())
    free.cancel(Key())


@pytest.mark.parametrize("kind", ["commands"])
@pytest.mark.parametrize("attribute", ["key", "repeat_interval_s"])
def test_in_an_attribute_of_a_command(free, clock, foreign, attribute):
    class Command:
        def execute(self, context):
            """Does nothing."""

    def asked(self):
        foreign()

    setattr(Command, attribute, property(asked))
    free.made.submit(Command())
    clock.advance(0)


class Zone(tzinfo):
    foreign = None

    def utcoffset(self, when):
        if self.foreign is not None:
            self.foreign()
        return timedelta(0)

    def dst(self, when):
        return None

    def tzname(self, when):
        return "zone"

    def fromutc(self, when):
        if self.foreign is not None:
            self.foreign()
        return when


@pytest.mark.parametrize("kind", ["scheduler"])
@pytest.mark.parametrize("when", ["registration", "view", "run", "time-out", "event"])
def test_in_a_time_zone(free, clock, foreign, when):
    scheduler, zone = free.made, Zone()
    if when == "registration":
        zone.foreign = foreign
    scheduler.cron("* * * * *", lambda ctx: clock.sleep(10), timezone=zone, id="k", timeout=5)
    zone.foreign = foreign
    match when:
        case "view":
            scheduler.get_job("k")
        case "event":
            scheduler.on("started", nothing)
            clock.advance(60)
        case _:
            clock.advance(100)


@pytest.mark.parametrize("kind", ["scheduler"])
@pytest.mark.parametrize("event", ["added", "started", "succeeded", "error", "missed", "coalesced", "removed"])
def test_in_a_listener(free, clock, foreign, event):
    scheduler = free.made
    scheduler.on(event, foreign)
    scheduler.every(1, nothing, id="good")
    scheduler.every(1, lambda: 1 / 0, id="bad")
    scheduler.every(1, lambda: clock.sleep(3), id="slow")
    clock.advance(10)
    scheduler.remove_job("good")


@pytest.mark.parametrize("kind", ["scheduler"])
def test_in_the_name_of_a_callback(free, clock, foreign):
    class Job:
        @property
        def __name__(self):
            foreign()
            return "job"

        def __call__(self):
            """Does nothing."""

    free.made.every(1, Job(), timeout=5)
    clock.advance(1)
    free.made.list_jobs()


@all_faces
def test_while_a_stop_waits_for_a_callback(make_face, foreign, kind):
    import threading

    foreign.face = face = make_face(kind)
    inside, go = threading.Event(), threading.Event()
    face.once(0, lambda: (inside.set(), go.wait(WAIT)))
    face.start()
    assert inside.wait(WAIT)
    stopping = threading.Thread(target=lambda: face.stop(WAIT))
    stopping.start()
    logging.getLogger("pysched").disabled = True  # of the registration after the shutdown
    try:
        foreign()
    finally:
        logging.getLogger("pysched").disabled = False
    go.set()
    stopping.join(WAIT)
    assert not stopping.is_alive()
