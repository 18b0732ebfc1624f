"""What each way to register promises: it runs once (or on its grid), with its arguments, never early."""

from __future__ import annotations

import functools
import threading

import pytest
from support import HANDLES, REGISTRATIONS, TOMORROW, WAIT, label, nothing, unchanged

registrations = pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
handles = pytest.mark.parametrize("register", HANDLES.values(), ids=HANDLES)


@registrations
def test_a_callback_runs_once_with_its_arguments_and_not_early(rig, register):
    calls = []
    engine = rig.engine
    due = engine.time() + 0.02
    engine.start()
    register(engine, 0.02, lambda *args: calls.append((args, engine.time())), 1, "two", None)
    rig.until(lambda: calls)
    rig.settle()
    [(args, at)] = calls
    assert args == (1, "two", None)
    assert at >= due


@registrations
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_any_number_of_arguments_reaches_the_callback(engine, clock, register, count):
    calls = []
    register(engine, 1, lambda *args: calls.append(args), *range(count))
    clock.advance(1)
    assert calls == [tuple(range(count))]


class Target:
    def __init__(self):
        self.calls = []

    def method(self, *args):
        self.calls.append(args)

    def __call__(self, *args):
        self.calls.append(args)

    @classmethod
    def of_class(cls, calls, *args):
        calls.append(args)

    @staticmethod
    def static(calls, *args):
        calls.append(args)


def callables():
    target = Target()
    yield pytest.param(target.method, target.calls, id="bound method")
    target = Target()
    yield pytest.param(target, target.calls, id="object with __call__")
    calls = []
    yield pytest.param(functools.partial(Target.of_class, calls), calls, id="partial of a class method")
    calls = []
    yield pytest.param(functools.partial(Target.static, calls), calls, id="partial of a static method")
    calls = []
    yield pytest.param(lambda *args: calls.append(args), calls, id="lambda")


@registrations
@pytest.mark.parametrize(("callback", "calls"), list(callables()))
def test_every_kind_of_callable_is_called(engine, clock, register, callback, calls):
    calls.clear()
    register(engine, 1, callback, "x")
    clock.advance(1)
    assert calls == [("x",)]


@registrations
def test_builtins_and_their_bound_methods_are_called(engine, clock, register):
    calls = []
    register(engine, 1, calls.append, "x")
    register(engine, 1, "abc".encode)
    register(engine, 1, dict)
    clock.advance(1)
    assert calls == ["x"]
    assert engine.stats().errors == 0


@registrations
def test_what_a_callback_returns_is_ignored(engine, clock, register):
    for value in (False, True, NotImplemented, 5, [1]):
        register(engine, 1, lambda value=value: value)
    assert clock.advance(1) == 5
    assert engine.stats()[:5] == (5, 5, 0, 0, 0)


@registrations
@pytest.mark.parametrize("callback", [None, 5, "fn", [], (nothing,)], ids=label)
def test_what_cannot_be_called_is_refused_at_registration(engine, register, callback):
    with unchanged(engine), pytest.raises(TypeError, match="callback"):
        register(engine, 1, callback)


@registrations
def test_a_coroutine_object_is_refused_at_registration(engine, register):
    async def coroutine():
        """Never awaited: closed below."""

    made = coroutine()
    with unchanged(engine), pytest.raises(TypeError, match="callback"):
        register(engine, 1, made)
    made.close()


@handles
def test_registration_gives_a_handle(impl, engine, register):
    assert isinstance(register(engine, 1, nothing), impl.TimerHandle)


@pytest.mark.parametrize("method", ["call_later", "call_at", "call_every", "call_many"])
def test_unknown_keyword_arguments_are_refused(engine, method):
    with unchanged(engine), pytest.raises(TypeError, match="kwarg|keyword"):
        getattr(engine, method)([1] if method == "call_many" else 1, nothing, kwarg=1)


@pytest.mark.parametrize("method", ["call_later", "call_at", "call_every", "call_many"])
def test_missing_arguments_are_refused(engine, method):
    with unchanged(engine), pytest.raises(TypeError):
        getattr(engine, method)()
    with unchanged(engine), pytest.raises(TypeError):
        getattr(engine, method)(1)


def test_timers_may_be_registered_before_start_and_their_delay_counts_from_the_call(make_engine, clock):
    engine = make_engine(clock=clock)
    calls = []
    engine.call_later(10, lambda: calls.append(clock.time()))
    clock.advance(4)
    engine.start()
    clock.advance(6)
    assert calls == [10]


def test_what_came_due_before_start_runs_at_start(make_engine, clock):
    engine = make_engine(clock=clock)
    calls = []
    engine.call_later(1, calls.append, "late")
    clock.advance(5)
    assert calls == []
    engine.start()
    clock.advance(0)
    assert calls == ["late"]


def test_call_at_takes_times_of_the_engines_own_clock(engine, clock):
    clock.advance(100)
    calls = []
    engine.call_at(engine.time() + 5, lambda: calls.append(clock.time()))
    clock.advance(10)
    assert calls == [105]


@pytest.mark.parametrize("when", [99.5, 0, -0.0, -1, -1e300, -(10**300)])
def test_call_at_takes_a_time_in_the_past_as_now(engine, clock, when):
    clock.advance(100)
    calls = []
    handle = engine.call_at(when, lambda: calls.append(clock.time()))
    assert handle.when() == 100
    engine.call_later(0, calls.append, "later")
    clock.advance(0)
    assert calls == [100, "later"]


def test_time_is_the_clocks(engine, clock):
    assert engine.time() == 0
    clock.advance("1h30m")
    assert engine.time() == clock.time() == 5400


def test_time_of_the_systems_clock_moves_forward(make_engine):
    engine = make_engine()
    first = engine.time()
    assert isinstance(first, float)
    assert engine.time() >= first


def test_a_nearer_timer_is_not_kept_waiting_by_a_farther_one(rig):
    """A loop asleep until a far deadline must notice the near one (and then every nearer one)."""
    engine = rig.engine
    engine.call_later(3600, nothing)
    engine.start()
    order = []
    done = threading.Event()
    engine.call_later(0.2, lambda: (order.append(2), done.set()))
    engine.call_later(0.1, order.append, 1)
    engine.call_later(0, order.append, 0)
    rig.until(done.is_set)
    assert sorted(order) == [0, 1, 2]
    assert rig.mode == "two workers" or rig.mode == "user's pool" or order == [0, 1, 2]


def test_a_callback_may_register_more(rig):
    engine = rig.engine
    done = threading.Event()

    def chain(left):
        if left:
            engine.call_later(0, chain, left - 1)
        else:
            done.set()

    engine.start()
    engine.call_later(0, chain, 100)
    rig.until(done.is_set)
    rig.settle()
    assert engine.stats().started == 101
    assert len(engine) == 0


def test_len_counts_what_may_still_start(engine, clock):
    one_shot = engine.call_later(1, nothing)
    engine.call_every(1, nothing)
    engine.call_many([2, 3], nothing)
    assert len(engine) == 4
    one_shot.cancel()
    assert len(engine) == 3
    clock.advance(10)
    assert len(engine) == 1


def test_next_deadline_is_the_earliest_live_timers(engine, clock):
    assert engine.next_deadline() is None
    engine.call_later(5, nothing)
    near = engine.call_later(2, nothing)
    engine.call_later(TOMORROW, nothing)
    assert engine.next_deadline() == 2
    near.cancel()
    assert engine.next_deadline() == 5
    clock.advance(5)
    assert engine.next_deadline() == TOMORROW


def test_two_engines_share_nothing(impl):
    first, second = impl.Engine(), impl.Engine()
    ran = threading.Event()
    with first, second:
        first.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert (len(second), second.stats().scheduled) == (0, 0)
