"""TimerHandle: identity, when(), cancelled(), done(), repr, and a life of its own."""

from __future__ import annotations

import gc
import threading

import pytest
from support import HANDLES, TOMORROW, WAIT, nothing

handles = pytest.mark.parametrize("register", HANDLES.values(), ids=HANDLES)


def errors_of(engine_factory, clock, register):
    """An engine whose on_error keeps the handles it is given, and a failing timer's own handle."""
    given = []
    engine = engine_factory(clock=clock, on_error=lambda exc, handle: given.append(handle))
    engine.start()

    def fail():
        raise ValueError("run")

    return engine, given, register(engine, 1, fail)


@handles
def test_handles_of_the_same_timer_are_equal_and_hash_alike(make_engine, clock, register):
    _, given, handle = errors_of(make_engine, clock, register)
    clock.advance(1)
    [other] = given
    assert other == handle
    assert (other != handle) is False
    assert hash(other) == hash(handle)
    assert {handle: 1}[other] == 1


@handles
def test_handles_of_different_timers_differ(make_engine, clock, register):
    engine, other_engine = make_engine(clock=clock), make_engine(clock=clock)
    many = [register(engine, 1, nothing) for _ in range(100)]
    many += [register(other_engine, 1, nothing) for _ in range(100)]
    assert len(set(many)) == 200
    assert all((one == other) == (one is other) for one in many[90:110] for other in many[90:110])


def test_a_handle_differs_from_one_of_a_later_timer_in_the_same_place(engine, clock):
    """Storage is used again; identity is not."""
    seen = set()
    for _ in range(200):
        seen.add(engine.call_later(0, nothing))
        clock.advance(0)
    assert len(seen) == 200
    for _ in range(200):
        handle = engine.call_later(0, nothing)
        handle.cancel()
        seen.add(handle)
    assert len(seen) == 400
    live = [engine.call_later(1, nothing) for _ in range(400)]
    assert not any(handle.cancel() for handle in seen)
    assert not any(handle.done() for handle in live)


def test_comparison_with_anything_else_is_left_to_the_other(engine):
    handle = engine.call_later(1, nothing)

    class Equal:
        def __eq__(self, other):
            return True

    assert handle == Equal()
    assert handle != 5
    assert handle.__eq__(5) is NotImplemented
    assert handle.__eq__(None) is NotImplemented
    with pytest.raises(TypeError):
        handle < handle  # noqa: B015


@handles
@pytest.mark.parametrize("when", [0, 0.25, 7])
def test_when_is_the_due_time_of_the_engines_clock(engine, clock, register, when):
    clock.advance(3)
    handle = register(engine, when, nothing)
    assert handle.when() == 3 + when
    assert isinstance(handle.when(), float)


def test_when_of_a_periodic_timer_is_its_next_slot(engine, clock):
    handle = engine.call_every(10, nothing)
    seen = []
    for _ in range(3):
        seen.append(handle.when())
        clock.advance(10)
    assert [*seen, handle.when()] == [10, 20, 30, 40]


def test_when_of_a_one_shot_does_not_change_when_it_has_run(engine, clock):
    handle = engine.call_later(10, nothing)
    clock.advance(20)
    assert (handle.when(), handle.done()) == (10, True)


def test_when_of_a_cancelled_timer_is_the_run_that_was_prevented(engine, clock):
    one_shot, every = engine.call_later(15, nothing), engine.call_every(10, nothing)
    clock.advance(10)
    assert one_shot.cancel()
    assert every.cancel()
    clock.advance(30)
    assert (one_shot.when(), every.when()) == (15, 20)


def test_when_of_a_timer_that_was_ended_by_another_is_the_due_time_this_handle_knew(engine, clock):
    one_shot = engine.call_later(15, nothing, key=1)
    every = engine.call_every(10, nothing, key=2)
    clock.advance(12)
    assert engine.cancel_key(1)
    assert engine.cancel_key(2)
    assert (one_shot.when(), every.when()) == (15, 10)


def test_an_error_handlers_handle_knows_the_next_slot(make_engine, clock):
    engine, given, handle = errors_of(make_engine, clock, HANDLES["call_every"])
    clock.advance(1)
    assert given[0].when() == handle.when() == 1 + TOMORROW
    assert not given[0].done()
    assert given[0].cancel()
    assert handle.done()
    assert not handle.cancelled()
    assert not handle.cancel()
    assert len(engine) == 0


def test_an_error_handlers_handle_of_a_one_shot_is_done(make_engine, clock):
    _, given, handle = errors_of(make_engine, clock, HANDLES["call_later"])
    clock.advance(5)
    assert (given[0].done(), given[0].cancelled(), given[0].when(), given[0].cancel()) == (True, False, 1, False)
    assert handle.done()


def test_an_error_handlers_handle_of_a_bulk_timer_is_made_when_it_is_needed(make_engine, clock):
    given = []
    engine = make_engine(clock=clock, on_error=lambda exc, handle: given.append((exc.args, handle)))
    engine.start()

    def fail(number):
        raise ValueError(number)

    engine.call_many([1, 2, 2], fail, [(0,), (1,), (2,)])
    clock.advance(2)
    assert [args for args, _ in given] == [(0,), (1,), (2,)]
    assert [handle.when() for _, handle in given] == [1, 2, 2]
    assert len({handle for _, handle in given}) == 3
    assert all(handle.done() and not handle.cancel() for _, handle in given)


@handles
def test_states_of_a_timer_that_runs(engine, clock, register):
    seen = []
    handle = register(engine, 1, lambda: seen.append((handle.done(), handle.cancelled())))
    periodic = register is HANDLES["call_every"]
    assert (handle.done(), handle.cancelled()) == (False, False)
    clock.advance(1)
    assert seen == [(not periodic, False)]
    assert (handle.done(), handle.cancelled()) == (not periodic, False)


@handles
@pytest.mark.parametrize("state", ["pending", "cancelled", "ended"])
def test_repr_is_useful_and_calls_no_foreign_code(engine, clock, register, state):
    class Hostile:
        def __call__(self, *args):
            """Runs all right."""

        def fail(self, *args):
            raise AssertionError("called")

        __repr__ = __str__ = __format__ = __eq__ = fail
        __hash__ = fail

        def __getattr__(self, name):
            raise AssertionError("asked for " + name)

    handle = register(engine, 1, Hostile(), Hostile())
    if state == "cancelled":
        handle.cancel()
    if state == "ended":
        clock.advance(1)
    text = repr(handle)
    assert "TimerHandle" in text
    assert str(handle) == text
    assert text.startswith("<")
    assert text.endswith(">")


def test_repr_of_different_states_differs(engine, clock):
    pending, cancelled, ended = (engine.call_later(1, nothing) for _ in range(3))
    cancelled.cancel()
    texts = {repr(pending), repr(cancelled)}
    clock.advance(1)
    texts.add(repr(ended))
    assert len(texts) == 3


def test_handles_cannot_be_made_or_changed_from_outside(impl, engine):
    handle = engine.call_later(1, nothing)
    with pytest.raises(TypeError):
        impl.TimerHandle()
    with pytest.raises(AttributeError):
        handle.unknown = 1


@handles
def test_a_dropped_handle_cancels_nothing(engine, clock, register):
    runs = []
    register(engine, 1, runs.append, 1)
    gc.collect()
    clock.advance(1)
    assert runs == [1]


@handles
def test_a_handle_outlives_its_engine(impl, register):
    engine = impl.Engine()
    handle, other, doomed = (register(engine, TOMORROW, nothing) for _ in range(3))
    assert doomed.cancel()
    when = handle.when()
    del engine
    gc.collect()
    assert handle.when() == when
    assert handle != other
    assert hash(handle) == hash(handle)
    assert doomed.cancelled()
    assert "TimerHandle" in repr(handle)
    assert handle.cancel() in (True, False)
    assert handle.done()
    assert handle.cancel() is False


def test_handles_work_from_every_thread(rig):
    engine = rig.engine
    engine.start()
    handle = engine.call_later(TOMORROW, nothing)
    results = []

    def use():
        results.extend([handle.when() > 0, handle.done(), handle.cancelled(), handle.cancel(), repr(handle) != ""])

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(WAIT)
    assert results == [True, False, False, True, True]
    assert handle.done()
