"""Callbacks start in the order of (due, submission); a re-arm counts as a submission at that instant."""

from __future__ import annotations

import random
import threading

from hypothesis import given
from hypothesis import strategies as st
from support import REGISTRATIONS, WAIT, nothing, on_workers


@given(st.lists(st.tuples(st.sampled_from(sorted(REGISTRATIONS)), st.integers(0, 5)), max_size=40))
def test_due_time_then_submission_whatever_the_way_to_register(impl, timers):
    from pysched.testing import ManualClock

    clock = ManualClock()
    engine = impl.Engine(clock=clock)
    order = []
    for number, (name, delay) in enumerate(timers):
        REGISTRATIONS[name](engine, delay, order.append, (delay, number))
    engine._check()
    engine.start()
    clock.advance(5)
    engine.stop()
    assert order == sorted(order)
    assert len(order) == len(timers)


@on_workers(None, 1)
def test_one_worker_runs_strictly_in_order(make_engine, workers):
    """Also what came due while the worker was busy, and what is due at one instant by different ways."""
    engine = make_engine(**workers)
    order, done = [], threading.Event()
    begin = engine.time() + 0.2
    numbers = list(range(200))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        engine.call_at(begin + number * 1e-6, order.append, number)
    engine.call_at(begin + 1e-3, done.set)
    assert engine.time() < begin
    with engine:
        assert done.wait(WAIT)
    assert order == list(range(200))


def test_ties_run_in_order_of_submission_in_a_pool_of_one(make_engine):
    engine = make_engine(1)
    order = []
    when = engine.time() + 0.01
    for number in range(1000):
        engine.call_at(when, order.append, number)
    done = threading.Event()
    engine.call_at(when, done.set)
    with engine:
        assert done.wait(WAIT)
    assert order == list(range(1000))


def test_a_timer_added_by_a_callback_with_no_delay_goes_behind_everything_due(engine, clock):
    order = []
    engine.call_later(1, lambda: (order.append("first"), engine.call_later(0, order.append, "added")))
    engine.call_later(1, order.append, "second")
    engine.call_later(1, order.append, "third")
    assert clock.advance(1) == 4
    assert order == ["first", "second", "third", "added"]


@on_workers(None, 1)
def test_a_timer_added_by_a_callback_goes_behind_everything_due_in_a_running_loop(make_engine, workers):
    engine = make_engine(**workers)
    order = []
    engine.call_later(0, lambda: (order.append("first"), engine.call_later(0, order.append, "added")))
    for number in range(20):
        engine.call_later(0, order.append, number)
    with engine:
        assert engine.wait_idle(WAIT)
    assert order == ["first", *range(20), "added"]


def test_a_timer_added_with_no_delay_does_not_overtake_what_fell_due_while_the_callback_ran(engine, clock):
    order = []

    def slow():
        clock.sleep(5)
        engine.call_later(0, order.append, "added at 6")

    engine.call_later(1, slow)
    engine.call_later(3, order.append, "due at 3")
    engine.call_later(6, order.append, "due at 6")
    clock.advance(10)
    assert order == ["due at 3", "due at 6", "added at 6"]


def test_a_rearm_counts_as_a_submission_at_that_instant(engine, clock):
    """The periodic timer of 1 s is re-armed for t=2 at t=1, after the one-shot for t=2 was submitted at 0."""
    order = []
    engine.call_every(1, order.append, "every")
    engine.call_later(2, order.append, "once at 2")
    engine.call_later(1, engine.call_later, 1, order.append, "added at 1")
    clock.advance(2)
    assert order == ["every", "once at 2", "every", "added at 1"]


def test_a_periodic_timer_is_rearmed_before_its_callback_runs(engine, clock):
    """So what its callback submits for the next slot comes after it."""
    order = []
    engine.call_every(1, lambda: (order.append("every"), engine.call_later(1, order.append, "added")))
    clock.advance(3)
    assert order == ["every", "every", "added", "every", "added"]


def test_callables_and_arguments_are_never_compared(engine, clock):
    class Incomparable:
        def __init__(self):
            self.calls = 0

        def __call__(self, *args):
            self.calls += 1

        def fail(self, *args):
            raise AssertionError("compared")

        __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = fail
        __hash__ = fail
        __bool__ = fail

    callback = Incomparable()
    for register in REGISTRATIONS.values():
        register(engine, 1, callback)
        register(engine, 1, callback, callback)
    kept = engine.call_later(1, callback)
    removed = engine.call_later(1, callback)
    assert removed.cancel()
    assert not kept.cancelled()
    clock.advance(1)
    assert callback.calls == 2 * len(REGISTRATIONS) + 1


def test_equal_timers_are_told_apart(engine, clock):
    calls = []
    for cancelled in range(3):
        handles = [engine.call_later(1, calls.append, number) for number in range(3)]
        assert handles[cancelled].cancel()
        assert [handle.cancelled() for handle in handles].count(True) == 1
        clock.advance(1)
    assert calls == [1, 2, 0, 2, 0, 1]


def test_order_holds_through_heavy_cancellation(engine, clock):
    """Lazily dropped entries and the rebuilds of the heap must not disturb the order."""
    generator = random.Random(7)
    order = []
    handles = []
    for number in range(6000):
        due = generator.randrange(50)
        handles.append((engine.call_later(due, order.append, (due, number)), (due, number)))
    generator.shuffle(handles)
    expected = []
    for handle, label in handles:
        if generator.random() < 0.8:
            assert handle.cancel()
        else:
            expected.append(label)
    engine._check()
    clock.advance(50)
    assert order == sorted(expected)


def test_stop_and_start_keep_the_order_of_what_had_not_started(engine, clock):
    order = []
    engine.call_later(1, lambda: (order.append(0), engine.stop()))
    for number in range(1, 10):
        engine.call_later(1, order.append, number)
    clock.advance(1)
    assert order == [0]
    engine.call_later(0, order.append, 10)
    engine.start()
    clock.advance(0)
    assert order == list(range(11))


@on_workers(None, 1)
def test_queued_runs_that_a_stop_puts_back_keep_their_order(make_engine, workers):
    engine = make_engine(**workers)
    order = []
    stopped = threading.Event()
    for number in range(50):
        engine.call_later(0, order.append, number)
        if number == 20:
            engine.call_later(0, lambda: (engine.stop(), stopped.set()))
    engine.start()
    assert stopped.wait(WAIT)
    assert engine.stop(WAIT)
    assert order == list(range(21))
    engine.call_later(0, order.append, 50)
    with engine:
        assert engine.wait_idle(WAIT)
    assert order == list(range(51))


def test_the_order_of_ties_does_not_wear_out(engine, clock):
    """Many re-arms and submissions between two ties change nothing."""
    order = []
    engine.call_later(2000, order.append, "first")
    every = engine.call_every(1, nothing)
    clock.advance(1500)
    engine.call_at(2000, order.append, "second")
    every.cancel()
    clock.advance(500)
    assert order == ["first", "second"]
