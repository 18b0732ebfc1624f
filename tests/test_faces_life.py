"""Start, stop and exit, on each face: nothing hangs, nothing is lost, nothing is said at the end."""

from __future__ import annotations

import random
import threading
import time

import pytest
from faces import all_faces, program, restartable
from support import WAIT, assert_quiet, in_other_thread, nothing, pause, run_python, wait_until

workers = pytest.mark.parametrize("workers", [None, 2])


@restartable
@workers
def test_a_hundred_starts_and_stops_lose_and_repeat_nothing(make_face, kind, workers):
    """One-shots that register themselves again: each is there exactly once, whenever the stop comes."""
    face, runs, inside = make_face(kind, workers=workers), [0] * 20, [0] * 20
    generator = random.Random(7)

    def again(number):
        inside[number] += 1
        assert inside[number] == 1, "two of one"
        runs[number] += 1
        inside[number] -= 1
        face.once(0.0005, lambda: again(number))

    for number in range(20):
        face.once(0, lambda number=number: again(number))
    for _ in range(100):
        face.start()
        pause(generator.random() * 0.002)
        assert face.stop(WAIT)
    face.start()
    seen = list(runs)
    assert wait_until(lambda: all(now > before for now, before in zip(runs, seen, strict=True))), "one was lost"


@all_faces
@workers
def test_callbacks_that_use_it_in_a_tight_loop_while_it_stops(make_face, kind, workers, caplog):
    face, ending, errors, inside = make_face(kind, workers=workers), threading.Event(), [], threading.Event()

    def job():
        try:
            for number in range(10**9):
                face.once(60, nothing, f"k{number % 7}")
                face.cancel(f"k{number % 7}")
                repr(face.made)
                inside.set()
                if ending.is_set():
                    return
        except BaseException as error:
            errors.append(error)

    for _ in range(workers or 1):
        face.once(0, job)
    face.start()
    assert inside.wait(WAIT)
    begun = time.monotonic()
    threading.Timer(0.05, ending.set).start()
    assert face.stop(WAIT)
    assert time.monotonic() - begun < WAIT / 2
    assert errors == []
    assert len(caplog.records) == (1 if kind == "scheduler" else 0), "one warning of a registration after the shutdown"


@restartable
def test_what_is_added_by_callbacks_during_a_stop_is_there_at_the_next_start(make_face, kind):
    face, inside, go, ran = make_face(kind), threading.Event(), threading.Event(), threading.Event()

    def job():
        inside.set()
        assert go.wait(WAIT)
        face.once(0, ran.set)

    face.once(0, job)
    face.start()
    assert inside.wait(WAIT)
    threading.Timer(0.02, go.set).start()
    assert face.stop(WAIT)
    assert wait_until(go.is_set)
    assert not ran.is_set()
    face.start()
    assert ran.wait(WAIT)


@all_faces
@workers
def test_a_stop_with_a_deadline_returns_in_time_and_says_what_is_left(make_face, kind, workers):
    face, inside, go = make_face(kind, workers=workers), threading.Event(), threading.Event()
    face.once(0, lambda: (inside.set(), go.wait(WAIT)), "hangs")
    face.once(0, nothing)
    face.start()
    assert inside.wait(WAIT)
    begun = time.monotonic()
    clean = face.stop(0.02)
    assert time.monotonic() - begun < WAIT / 2
    if kind == "scheduler":
        assert [info.id for info in face.made.shutdown(timeout=0)] == ["hangs"]
    assert clean is (kind == "commands"), "stop() of commands returns None, as that of the reference"
    go.set()
    assert face.stop(WAIT)


@all_faces
@workers
def test_stops_from_two_callbacks_and_from_outside_at_once(make_face, kind, workers):
    face = make_face(kind, workers=workers)
    both = threading.Barrier((workers or 1) + 1)

    def job():
        both.wait(WAIT)
        face.stop(WAIT)

    for _ in range(workers or 1):
        face.once(0, job)
    face.start()
    both.wait(WAIT)
    assert in_other_thread(lambda: face.stop(WAIT))


@all_faces
def test_a_stop_before_the_start_and_two_after_it(make_face, kind):
    face = make_face(kind)
    face.once(0, nothing)
    assert face.stop(WAIT)
    assert face.stop(0)


# Exit: each in a process of its own, whose stderr must stay empty.


@all_faces
@workers
@pytest.mark.parametrize("registered", ["before", "after"])
def test_exit_handlers_of_the_program_may_use_it(engine_name, kind, workers, registered):
    process = run_python(
        program(
            kind,
            f"""
        stopped = type(made)()
        def at_exit():
            once(made, 0, lambda: print("never"))
            try:
                start(stopped)
            except RuntimeError:
                pass
            once(stopped, 0, lambda: print("never"))
            stop(made, 5)
            stop(stopped, 5)
            print("handled", flush=True)
        if "{registered}" == "before":
            atexit.register(at_exit)
        every(made, 0.001, lambda: None)
        start(made)
        if "{registered}" == "after":
            atexit.register(at_exit)
        """,
            workers=workers,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process, warning="it does not start again" if kind == "scheduler" else None)
    assert process.stdout == "handled\n"


@all_faces
@workers
def test_a_program_that_just_ends_while_it_is_busy(engine_name, kind, workers):
    """Entries that come again and again, with pools and without: no submit is refused, and no thread complains."""
    process = run_python(
        program(
            kind,
            """
        runs = []
        def again():
            runs.append(1)
            once(made, 0, again)
        for _ in range(20):
            again()
            every(made, 0.001, lambda: runs.append(1))
        start(made)
        while len(runs) < 200:
            time.sleep(0.001)
        """,
            workers=workers,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)


@all_faces
@workers
def test_a_callback_that_registers_when_the_program_has_ended(engine_name, kind, workers):
    """It is waited for on a pool, what it registers never runs, and that is nothing to tell anybody."""
    process = run_python(
        program(
            kind,
            """
        from pysched import lifecycle
        begun = threading.Event()
        def late():
            begun.set()
            while not lifecycle.exiting():
                time.sleep(0.001)
            once(made, 0, lambda: print("never"))
        once(made, 0, late)
        start(made)
        assert begun.wait(20)
        """,
            workers=workers,
        ),
        engine=engine_name,
        timeout=20,
    )
    assert_quiet(process)
    assert process.stdout == ""
