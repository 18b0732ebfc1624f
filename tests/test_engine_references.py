"""What the engine keeps alive, and how soon it lets go. The collector is off: what is freed here is freed at once."""

from __future__ import annotations

import contextvars
import gc
import logging
import threading
import weakref

import pytest
from conftest import chosen_engines
from support import EXECUTORS, HANDLES, REGISTRATIONS, TOMORROW, WAIT, nothing, wait_until

registrations = pytest.mark.parametrize("register", REGISTRATIONS.values(), ids=REGISTRATIONS)
handles = pytest.mark.parametrize("register", HANDLES.values(), ids=HANDLES)


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    gc.freeze()  # what earlier tests left is not gone through again and again
    yield
    gc.enable()


class Thing:
    """Weakly referenceable, callable, hashable."""

    def __call__(self, *args):
        """Does nothing."""

    def method(self, *args):
        """Does nothing."""


@pytest.fixture(params=["callback", "bound method", "argument", "key"])
def hold(request):
    """Registers a fresh Thing as callback, argument or key; gives handle and weak reference."""

    def register(engine, method, delay, callback=nothing):
        thing = Thing()
        match request.param:
            case "callback":
                handle = HANDLES[method](engine, delay, thing)
            case "bound method":
                handle = HANDLES[method](engine, delay, thing.method)
            case "argument":
                handle = HANDLES[method](engine, delay, callback, 1, thing)
            case "key":
                first, *rest = (TOMORROW, delay) if method == "call_every" else (delay,)
                options = {"delay": rest[0]} if rest else {}
                call = getattr(engine, "call_every" if method == "call_every" else "call_later")
                handle = call(first, callback, key=thing, **options)
        return handle, weakref.ref(thing)

    return register


@pytest.mark.parametrize("method", HANDLES)
@pytest.mark.parametrize("started", [False, True])
def test_cancel_lets_go_at_once(make_engine, clock, hold, method, started):
    engine = make_engine(clock=clock)
    if started:
        engine.start()
    handle, thing = hold(engine, method, 100)
    assert thing() is not None
    assert handle.cancel()
    assert thing() is None


@pytest.mark.parametrize("method", ["call_later", "call_at"])
def test_a_one_shot_that_has_run_lets_go(rig, hold, method):
    """Callback, arguments and key, while the handle lives on and the worker idles."""
    handle, thing = hold(rig.engine, method, 0)
    rig.engine.start()
    rig.settle()
    assert wait_until(lambda: thing() is None, 5)
    assert handle.done()


@pytest.mark.parametrize("method", HANDLES)
def test_a_replaced_timer_lets_go_at_once(engine, method):
    thing = Thing()
    reference = weakref.ref(thing)
    register = {"call_later": engine.call_later, "call_every": engine.call_every, "call_at": engine.call_at}[method]
    old = register(100, nothing, thing, key="k")
    del thing
    assert reference() is not None
    engine.call_later(100, nothing, key="k")
    assert reference() is None
    assert old.done()


def test_cancel_key_lets_go_at_once_of_both_keys(engine):
    class Key(Thing):
        def __hash__(self):
            return 1

        def __eq__(self, other):
            return isinstance(other, Key)

    stored, asked = Key(), Key()
    references = [weakref.ref(stored), weakref.ref(asked)]
    engine.call_later(100, nothing, key=stored)
    assert engine.cancel_key(asked)
    del stored, asked
    assert [reference() for reference in references] == [None, None]


def test_bulk_timers_that_have_run_let_go(rig):
    things = [Thing() for _ in range(100)]
    references = [weakref.ref(thing) for thing in things]
    callback = Thing()
    references.append(weakref.ref(callback))
    rig.engine.call_many([0] * 100, callback, [(thing,) for thing in things])
    del things[:], callback
    assert all(reference() is not None for reference in references)
    rig.engine.start()
    rig.settle()
    assert wait_until(lambda: all(reference() is None for reference in references), 5)


@registrations
def test_a_refused_registration_keeps_nothing(engine, register):
    thing = Thing()
    reference = weakref.ref(thing)
    for bad in (float("nan"), float("-inf"), "1"):
        with pytest.raises((TypeError, ValueError)):
            register(engine, bad, thing, thing)
    with pytest.raises(TypeError):
        engine.call_later(1, thing, thing, key=[])
    with pytest.raises(TypeError):
        engine.call_many([1, 1], thing, [(thing,), thing])
    with pytest.raises(ValueError, match="args"):
        engine.call_many([1, 1], thing, [(thing,)])
    with pytest.raises(ValueError, match="delays"):
        engine.call_many([1, -1], thing, [(thing,), (thing,)])
    del thing
    assert reference() is None


def test_what_a_callback_returns_is_let_go_at_once(rig):
    references = []

    def make():
        thing = Thing()
        references.append(weakref.ref(thing))
        return thing

    rig.engine.call_later(0, make)
    every = rig.engine.call_every(TOMORROW, make, delay=0)
    rig.engine.start()
    rig.settle()
    assert len(references) == 2
    assert wait_until(lambda: all(reference() is None for reference in references), 5)
    every.cancel()


@registrations
@pytest.mark.parametrize("handler", ["given", "failing", "logging"])
def test_a_failed_run_keeps_neither_exception_nor_frames(make_rig, register, handler, logged, monkeypatch):
    """50 MB of locals of a failing callback must not wait for the next one."""
    monkeypatch.setattr(logging.getLogger("pysched"), "propagate", False)  # pytest keeps the records it sees
    references = []

    def forget(exc, handle):
        references.append(weakref.ref(exc))
        if handler == "failing":
            raise RuntimeError("handler")

    rig = make_rig(on_error=None if handler == "logging" else forget)

    class Error(Exception):
        """Weakly referenceable."""

    def fail():
        local = Thing()
        references.append(weakref.ref(local))
        try:
            raise KeyError("context")
        except KeyError:
            raise Error("run") from None

    register(rig.engine, 0, fail)
    rig.engine.start()
    rig.settle()
    assert len(references) == (1 if handler == "logging" else 2)
    assert len(logged) == (0 if handler == "given" else 1)
    assert wait_until(lambda: all(reference() is None for reference in references), 5)


def test_no_context_variables_are_captured(engine, clock):
    variable = contextvars.ContextVar("variable")
    thing = Thing()
    reference = weakref.ref(thing)
    token = variable.set(thing)
    for register in REGISTRATIONS.values():
        register(engine, 100, nothing)
    variable.reset(token)
    del token, thing
    assert reference() is None


@handles
def test_a_handle_keeps_nothing_of_a_timer_that_has_ended(engine, clock, register):
    thing = Thing()
    reference = weakref.ref(thing)
    handle = register(engine, 1, thing, thing)
    del thing
    if register is HANDLES["call_every"]:
        handle.cancel()
    else:
        clock.advance(1)
    assert reference() is None
    assert handle.done()


@registrations
def test_an_engine_that_is_not_started_is_freed_with_its_timers(impl, clock, register):
    thing = Thing()
    reference = weakref.ref(thing)
    engine = impl.Engine(clock=clock)
    register(engine, 100, thing, thing)
    engine_reference = weakref.ref(engine)
    del thing
    assert reference() is not None
    del engine
    gc.collect()
    assert engine_reference() is None
    assert reference() is None


executors = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)


class Owner:
    """The everyday cycle: an object that owns an engine whose timers call the object."""

    def __init__(self, impl, **options):
        self.engine = impl.Engine(**options)
        self.ticks = 0
        self.ticked = threading.Event()
        for register in REGISTRATIONS.values():
            register(self.engine, TOMORROW, self.tick)
            register(self.engine, TOMORROW, nothing, self)
        self.engine.call_later(TOMORROW, nothing, key=self)
        self.engine.call_every(0.001, self.tick)

    def tick(self):
        self.ticks += 1
        self.ticked.set()


@executors
def test_a_cycle_through_callbacks_is_collected_if_never_started(impl, executor):
    owner = Owner(impl, **executor)
    references = [weakref.ref(owner), weakref.ref(owner.engine)]
    del owner
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@executors
def test_a_cycle_through_callbacks_is_collected_once_stopped(impl, executor):
    owner = Owner(impl, **executor)
    references = [weakref.ref(owner), weakref.ref(owner.engine)]
    owner.engine.start()
    assert owner.ticked.wait(WAIT)
    assert owner.engine.stop(WAIT)
    del owner
    assert wait_until(lambda: gc.collect() is not None and [r() for r in references] == [None, None], 5)


def test_a_cycle_on_a_manual_clock_is_collected_once_stopped(impl, clock):
    owner = Owner(impl, clock=clock)
    references = [weakref.ref(owner), weakref.ref(owner.engine)]
    owner.engine.start()
    clock.advance(0.01)
    assert owner.ticks == 10
    owner.engine.stop()
    del owner
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@executors
def test_a_running_engine_is_kept_alive_by_its_loop_until_it_is_stopped(impl, executor):
    ticks, stop = [], threading.Event()
    engine = impl.Engine(**executor)
    reference = weakref.ref(engine)

    def tick():
        ticks.append(1)
        if stop.is_set():
            reference().stop()

    engine.call_every(0.001, tick)
    engine.start()
    del engine
    gc.collect()
    seen = len(ticks)
    assert wait_until(lambda: len(ticks) > seen + 2)
    assert reference() is not None
    stop.set()
    assert wait_until(lambda: gc.collect() is not None and reference() is None)


def test_a_manual_clock_keeps_its_started_engines_alive(impl, clock):
    ticks = []
    engine = impl.Engine(clock=clock)
    reference = weakref.ref(engine)
    engine.call_later(1, lambda: (ticks.append(1), reference().stop()))
    engine.start()
    del engine
    gc.collect()
    clock.advance(1)
    assert ticks == [1]
    gc.collect()
    assert reference() is None


def test_a_clock_is_not_kept_alive_by_a_dropped_engine(impl):
    from pysched.testing import ManualClock

    clock = ManualClock()
    reference = weakref.ref(clock)
    engine = impl.Engine(clock=clock)
    engine.start()
    engine.call_later(1, nothing)
    engine.stop()
    del engine, clock
    gc.collect()
    assert reference() is None


def test_on_error_is_freed_with_its_engine(impl):
    class Owning:
        def __init__(self):
            self.engine = impl.Engine(on_error=self.handle)

        def handle(self, exc, handle):
            """Does nothing."""

    reference = weakref.ref(Owning())
    gc.collect()
    assert reference() is None


def test_collection_while_running_takes_nothing_that_is_still_needed(rig):
    """The engine's own timers are traversed, not cleared, as long as anybody can reach them."""
    engine, runs = rig.engine, []

    class Box:
        def __init__(self):
            self.self = self

        def run(self):
            runs.append(1)

    for number in range(200):
        engine.call_later(0.0001 * number, Box().run)
    engine.start()
    for _ in range(5):
        gc.collect()
    rig.until(lambda: len(runs) == 200)


def test_callbacks_may_collect(rig):
    engine = rig.engine
    for _ in range(5):
        engine.call_later(0, gc.collect)
        engine.call_later(0, nothing, Thing())
    engine.start()
    rig.settle()
    assert (engine.stats().started, engine.stats().errors) == (10, 0)


@pytest.mark.skipif("native" not in chosen_engines(), reason="a handle of the twin keeps the core alive")
def test_handles_may_be_used_from_a_weakref_callback_while_the_engine_is_collected():
    """Handles are all that leads into an engine then: the collector has cleared the weak references to garbage."""
    from pysched._engine import Engine

    class Owner:
        """Garbage in a cycle: its engine has a timer that holds it."""

    owner, watched, used = Owner(), compile("None", "watched", "eval"), []
    owner.engine = Engine()
    first = owner.engine.call_later(TOMORROW, nothing, watched, key="k")
    second = owner.engine.call_every(TOMORROW, nothing, owner)

    def use(gone):
        used.append((first.done(), first.cancel(), second.done(), second.when() > 0, second.cancel(), second.done()))

    watch = weakref.ref(watched, use)  # code is no business of the collector's: told while it clears
    reference = weakref.ref(owner)
    del owner, watched
    gc.collect()
    assert watch() is None
    assert reference() is None
    assert used == [(True, False, False, True, True, True)]
    assert second.cancelled()


@pytest.mark.parametrize("act", ["cancel", "replace", "cancel_key", "run", "error", "refuse", "drop"])
def test_a_destructor_may_use_the_engine(impl, clock, act):
    """Whatever releases an object, its __del__ may register, cancel, look."""
    engine = impl.Engine(clock=clock, on_error=nothing)
    engine.start()
    reference = weakref.ref(engine)
    freed = []

    class Using:
        def __del__(self):
            used = reference()
            if used is not None:
                used.call_later(1000, nothing, key="from __del__")
                used.call_many([1000], nothing)
                used.cancel_key("from __del__")
                used.cancel_key("k")
                used.stats()
                len(used)
                used.next_deadline()
            freed.append(1)

    def fail(*args):
        raise ValueError("run")

    match act:
        case "cancel":
            engine.call_later(1, nothing, Using()).cancel()
        case "replace":
            engine.call_later(1, nothing, Using(), key="r")
            engine.call_later(1, nothing, key="r")
        case "cancel_key":
            engine.call_later(1, nothing, Using(), key="k")
            engine.cancel_key("k")
        case "run":
            engine.call_later(1, nothing, Using())
            clock.advance(1)
        case "error":
            engine.call_later(1, fail, Using())
            clock.advance(1)
        case "refuse":
            with pytest.raises(ValueError, match="delay"):
                engine.call_later(-1, nothing, Using())
        case "drop":
            engine.call_later(1, nothing, Using())
            engine.stop()
            del engine
            gc.collect()
            engine = None
    gc.collect()
    assert freed == [1]
    if engine is not None:
        engine._check()
        engine.stop()
