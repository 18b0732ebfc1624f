"""Errors of callbacks and handlers: counted, reported once, and never the end of anything else."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading

import pytest
from support import REGISTRATIONS, WAIT, listening, nothing, wait_until

registrations = pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)


class Base(BaseException):
    """Not derived from Exception."""


class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError("no text")

    __repr__ = __str__


ERRORS = [
    ValueError("text"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(1),
    asyncio.CancelledError(),
    Base("base"),
    MemoryError(),
    RecursionError(),
    Unprintable(),
]
errors = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def failing(error):
    """A callback that raises a fresh copy of `error`."""

    def fail(*args):
        raise type(error)(*error.args)

    return fail


@errors
@registrations
def test_every_kind_of_error_is_given_to_on_error_and_harms_nothing_else(make_rig, register, error):
    given = []
    rig = make_rig(on_error=lambda exc, handle: given.append((type(exc), exc.args, type(handle).__name__)))
    engine = rig.engine
    ran = threading.Event()
    register(engine, 0, failing(error))
    engine.start()
    engine.call_later(0, ran.set)
    rig.until(ran.is_set)
    rig.settle()
    assert given == [(type(error), error.args, "TimerHandle")]
    assert (engine.running, engine.stats().errors, engine.stats().started) == (True, 1, 2)
    assert engine.stats().running == 0


@errors
def test_without_a_handler_errors_are_logged_once_with_traceback(rig, logged, error):
    rig.engine.call_later(0, failing(error))
    rig.engine.start()
    rig.settle()
    [(level, text, has_traceback)] = logged
    assert (level, has_traceback) == ("ERROR", True)
    assert type(error).__name__ in text
    assert "in fail" in text


@errors
def test_a_periodic_timer_goes_on_after_every_kind_of_error(make_rig, error):
    rig = make_rig(on_error=nothing)
    engine = rig.engine
    fail, done = failing(error), threading.Event()
    runs = []

    def run():
        runs.append(1)
        if len(runs) == 5:
            handle.cancel()
            done.set()
        fail()

    handle = engine.call_every(0.002, run)
    engine.start()
    rig.until(done.is_set)
    rig.settle()
    assert (len(runs), engine.stats().errors) == (5, 5)


@pytest.mark.parametrize(
    "handler",
    [
        failing(ValueError("handler")),
        failing(SystemExit(3)),
        failing(KeyboardInterrupt()),
        failing(Base("base")),
        lambda: None,
        lambda exc, handle, more: None,
    ],
    ids=["ValueError", "SystemExit", "KeyboardInterrupt", "BaseException", "too few arguments", "too many"],
)
@pytest.mark.parametrize("periodic", [False, True])
def test_a_failing_handler_is_logged_once_each_time_and_harms_nothing(make_rig, logged, handler, periodic):
    rig = make_rig(on_error=handler)
    engine = rig.engine
    fail = failing(ValueError("callback"))
    if periodic:
        handle = engine.call_every(0.002, lambda: (len(runs) == 4 and handle.cancel(), runs.append(1), fail()))
    else:
        for _ in range(5):
            engine.call_later(0, lambda: (runs.append(1), fail()))
    runs = []
    engine.start()
    rig.until(lambda: len(runs) == 5)
    rig.settle()
    assert [(level, has_traceback) for level, _, has_traceback in logged] == [("ERROR", True)] * 5
    assert (engine.running, engine.stats().errors, engine.stats().running) == (True, 5, 0)
    ran = threading.Event()
    engine.call_later(0, ran.set)
    rig.until(ran.is_set)


def test_a_failing_logging_handler_harms_nothing(rig, logged, monkeypatch):
    """Python's own last resort may hear of it; the loop goes on."""
    monkeypatch.setattr(sys, "unraisablehook", nothing)

    class Failing(logging.Handler):
        calls = 0

        def emit(self, record):
            type(self).calls += 1
            raise ValueError("logging")

    with listening(Failing()):
        for _ in range(3):
            rig.engine.call_later(0, failing(ValueError("callback")))
        ran = threading.Event()
        rig.engine.start()
        rig.settle()
        rig.engine.call_later(0, ran.set)
        rig.until(ran.is_set)
        rig.settle()
    assert Failing.calls >= 3
    assert (rig.engine.running, rig.engine.stats().errors, rig.engine.stats().running) == (True, 3, 0)


def test_on_error_runs_where_the_callback_ran(make_rig):
    where = []
    rig = make_rig(on_error=lambda exc, handle: where.append(threading.current_thread()))

    def fail():
        where.append(threading.current_thread())
        raise ValueError("run")

    rig.engine.call_later(0, fail)
    rig.engine.start()
    rig.settle()
    assert where[0] is where[1]


def test_on_error_may_use_the_engine(make_rig):
    """Register, cancel, look: whatever a callback may do, its handler may do."""
    results, later = [], []

    def handle_error(exc, handle):
        results.append(handle.cancel())
        results.append(engine.stats().running)
        engine.cancel_key("k")
        engine.call_later(0, later.append, "later")

    rig = make_rig(on_error=handle_error)
    engine = rig.engine
    engine.call_later(3600, nothing, key="k")
    engine.call_every(3600, failing(ValueError("run")), delay=0)
    engine.start()
    rig.until(lambda: later == ["later"])
    rig.settle()
    assert results == [True, 1]
    assert len(engine) == 0


def test_on_error_may_stop_the_engine(make_rig):
    rig = make_rig(on_error=lambda exc, handle: stopped.append(rig.engine.stop()))
    stopped = []
    rig.engine.call_later(0, failing(ValueError("run")))
    rig.engine.call_later(3600, nothing)
    rig.engine.start()
    rig.until(lambda: stopped)
    assert rig.engine.stop(WAIT)
    assert not rig.engine.running
    assert len(rig.engine) == 1


def test_the_handler_gets_the_exception_itself(make_engine, clock):
    error, given = ValueError("mine"), []
    engine = make_engine(clock=clock, on_error=lambda exc, handle: given.append((exc, handle)))
    engine.start()

    def fail():
        raise error

    handle = engine.call_later(1, fail)
    clock.advance(1)
    assert given[0][0] is error
    assert given[0][1] == handle
    assert error.__traceback__ is not None


def test_a_wrong_number_of_arguments_is_an_error_like_any_other(engine, clock, logged):
    engine.call_later(1, lambda: None, "unwanted")
    clock.advance(1)
    assert engine.stats().errors == 1
    assert "TypeError" in logged[0][1]


def test_a_worker_is_free_again_after_each_error(make_engine):
    engine = make_engine(1, on_error=failing(ValueError("handler")))
    logging.getLogger("pysched").disabled = True
    try:
        with engine:
            for _ in range(50):
                engine.call_later(0, failing(ValueError("run")))
            assert engine.wait_idle(WAIT)
            assert wait_until(lambda: engine.stats().running == 0)
            assert (engine.stats().started, engine.stats().errors) == (50, 50)
    finally:
        logging.getLogger("pysched").disabled = False


def test_deep_recursion_in_a_callback_is_an_error_like_any_other(make_rig):
    rig = make_rig(on_error=lambda exc, handle: given.append(type(exc)))
    given = []

    def recurse():
        recurse()

    rig.engine.call_later(0, recurse)
    rig.engine.start()
    rig.settle()
    assert given == [RecursionError]
