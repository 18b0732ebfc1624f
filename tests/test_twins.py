"""What users see of the two engines is the same: the same words for the same fault, and the same refusals."""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
import threading
from array import array
from types import SimpleNamespace

import pytest
from conftest import chosen_engines, load_engine
from sample_commands import Bare, Note
from support import WAIT, nothing

from pysched.testing import ManualClock


class Label(str, enum.Enum):
    ONE = "one"


class Unhashable:
    def __hash__(self):
        raise TypeError("mine")


class WithoutValue:
    """Looks like a number, and is none: as an array of several elements."""

    def __float__(self):
        raise TypeError("no number")


class ArrayBool:
    """What there is to see of `numpy.bool_`."""

    dtype = SimpleNamespace(kind="b")

    def __float__(self):
        return 1.0


class ArrayComplex(ArrayBool):
    """What there is to see of `numpy.complex128`."""

    dtype = SimpleNamespace(kind="c")


class WrongClock:
    def time_ns(self):
        return 1.5

    def wall_ns(self):
        return 1

    def wait(self, event, timeout):
        event.wait(0.001)


class FailingClock(WrongClock):
    failing = False

    def time_ns(self):
        if self.failing:
            raise ZeroDivisionError("no time")
        return 1


PLANE = memoryview(array("d", [1, 2, 3, 4])).cast("B").cast("d", (2, 2))
POINT = memoryview(array("d", [1])).cast("B").cast("d", ())

# Each is called with an engine's module, and an engine and a command scheduler of it.
BAD_CALLS = {
    "executor bool": lambda impl, engine, scheduler: impl.Engine(True),
    "executor 0": lambda impl, engine, scheduler: impl.Engine(0),
    "executor str": lambda impl, engine, scheduler: impl.Engine("2"),
    "executor class": lambda impl, engine, scheduler: impl.Engine(dict),
    "clock": lambda impl, engine, scheduler: impl.Engine(clock=3),
    "clock class": lambda impl, engine, scheduler: impl.Engine(clock=ManualClock),
    "name": lambda impl, engine, scheduler: impl.Engine(name=3),
    "empty name": lambda impl, engine, scheduler: impl.Engine(name=""),
    "on_error": lambda impl, engine, scheduler: impl.Engine(on_error=3),
    "delay str": lambda impl, engine, scheduler: engine.call_later("1", nothing),
    "delay bool": lambda impl, engine, scheduler: engine.call_later(True, nothing),
    "delay array bool": lambda impl, engine, scheduler: engine.call_later(ArrayBool(), nothing),
    "delay complex": lambda impl, engine, scheduler: engine.call_later(1 + 2j, nothing),
    "delay array complex": lambda impl, engine, scheduler: engine.call_later(ArrayComplex(), nothing),
    "when complex": lambda impl, engine, scheduler: engine.call_at(ArrayComplex(), nothing),
    "interval complex": lambda impl, engine, scheduler: engine.call_every(ArrayComplex(), nothing),
    "timeout complex": lambda impl, engine, scheduler: engine.stop(ArrayComplex()),
    "interval_s complex": lambda impl, engine, scheduler: scheduler.schedule(Note(1), ArrayComplex()),
    "delay without value": lambda impl, engine, scheduler: engine.call_later(WithoutValue(), nothing),
    "delay int": lambda impl, engine, scheduler: engine.call_later(-1, nothing),
    "delay float": lambda impl, engine, scheduler: engine.call_later(-1.5, nothing),
    "delay nan": lambda impl, engine, scheduler: engine.call_later(float("nan"), nothing),
    "delay long": lambda impl, engine, scheduler: engine.call_later(-(10**300), nothing),
    "delay too long": lambda impl, engine, scheduler: engine.call_later(10**400, nothing),
    "callback": lambda impl, engine, scheduler: engine.call_later(1, 3),
    "delay before callback": lambda impl, engine, scheduler: engine.call_later("1", 3, key=[]),
    "callback before key": lambda impl, engine, scheduler: engine.call_later(1, 3, key=[]),
    "key": lambda impl, engine, scheduler: engine.call_later(1, nothing, key=[]),
    "key's own": lambda impl, engine, scheduler: engine.call_later(1, nothing, key=Unhashable()),
    "when": lambda impl, engine, scheduler: engine.call_at(float("inf"), nothing),
    "interval": lambda impl, engine, scheduler: engine.call_every(0, nothing),
    "interval str": lambda impl, engine, scheduler: engine.call_every("1s", nothing),
    "delay of interval": lambda impl, engine, scheduler: engine.call_every(1, None, delay=-1),
    "delays int": lambda impl, engine, scheduler: engine.call_many(3, nothing),
    "delays str": lambda impl, engine, scheduler: engine.call_many("12", nothing),
    "delays element": lambda impl, engine, scheduler: engine.call_many([1, "x"], nothing),
    "delays buffer": lambda impl, engine, scheduler: engine.call_many(array("d", [1, -1]), nothing),
    "delays of bool": lambda impl, engine, scheduler: engine.call_many([1, ArrayBool()], nothing),
    "delays of complex": lambda impl, engine, scheduler: engine.call_many([1, ArrayComplex()], nothing),
    "delays 2-d": lambda impl, engine, scheduler: engine.call_many(PLANE, nothing),
    "delays 0-d": lambda impl, engine, scheduler: engine.call_many(POINT, nothing),
    "args": lambda impl, engine, scheduler: engine.call_many([1], nothing, 3),
    "args str": lambda impl, engine, scheduler: engine.call_many([1], nothing, "a"),
    "args count": lambda impl, engine, scheduler: engine.call_many([1], nothing, [3, 4]),
    "args element": lambda impl, engine, scheduler: engine.call_many([1], nothing, [3]),
    "args 0-d": lambda impl, engine, scheduler: engine.call_many([1], nothing, POINT),
    "cancel_key": lambda impl, engine, scheduler: engine.cancel_key([]),
    "stop": lambda impl, engine, scheduler: engine.stop(-1),
    "wait_idle": lambda impl, engine, scheduler: engine.wait_idle("x"),
    "wait_idle nan": lambda impl, engine, scheduler: engine.wait_idle(float("nan")),
    "run on a driving clock": lambda impl, engine, scheduler: engine.run(),
    "set name": lambda impl, engine, scheduler: setattr(engine, "name", 3),
    "set name to None": lambda impl, engine, scheduler: setattr(engine, "name", None),
    "set name to nothing": lambda impl, engine, scheduler: setattr(engine, "name", ""),
    "delete name": lambda impl, engine, scheduler: delattr(engine, "name"),
    "a handle": lambda impl, engine, scheduler: impl.TimerHandle(),
    "wrong clock": lambda impl, engine, scheduler: impl.Engine(clock=WrongClock()).call_later(1, nothing),
    "commands' on_error": lambda impl, engine, scheduler: impl.CommandScheduler(on_error=3),
    "commands' name": lambda impl, engine, scheduler: impl.CommandScheduler(name=3),
    "commands' max_workers": lambda impl, engine, scheduler: impl.CommandScheduler(max_workers=0),
    "commands' max_workers, many": lambda impl, engine, scheduler: impl.CommandScheduler(max_workers=1 << 21),
    "commands' max_workers, bool": lambda impl, engine, scheduler: impl.CommandScheduler(max_workers=True),
    "set commands' name": lambda impl, engine, scheduler: setattr(scheduler, "name", 3),
    "command": lambda impl, engine, scheduler: scheduler.submit(3),
    "delay_s before command": lambda impl, engine, scheduler: scheduler.submit(3, -1),
    "command's key": lambda impl, engine, scheduler: scheduler.submit(Note(1, key=[], repeat_interval_s="x")),
    "command's interval": lambda impl, engine, scheduler: scheduler.submit(Note(1, repeat_interval_s=0)),
    "interval_s before command": lambda impl, engine, scheduler: scheduler.schedule(3, 0, -1),
    "delay_s of an interval": lambda impl, engine, scheduler: scheduler.schedule(Note(1), 1, -1),
    "schedule": lambda impl, engine, scheduler: scheduler.schedule(3, 1),
    "schedule's key": lambda impl, engine, scheduler: scheduler.schedule(Note(1), 1, key=[]),
    "remove": lambda impl, engine, scheduler: scheduler.remove([]),
    "commands' stop": lambda impl, engine, scheduler: scheduler.stop(float("nan")),
    "queue": lambda impl, engine, scheduler: type("Mine", (impl.CommandScheduler,), {"_queue": []})().start(),
}

both = pytest.mark.skipif({*chosen_engines()} != {"native", "pure"}, reason="compares the two engines")
ENGINES = [load_engine(name) for name in chosen_engines()]


def refusal(impl, call):
    """What `call` raises, as (type, text)."""
    engine, scheduler = impl.Engine(clock=ManualClock()), impl.CommandScheduler(clock=ManualClock())
    with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError)) as caught:
        call(impl, engine, scheduler)
    engine._check()
    assert len(engine) == 0
    return type(caught.value), str(caught.value)


@both
@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_fault_has_the_same_words_on_both_engines(call):
    native, twin = [refusal(impl, call) for impl in ENGINES]
    assert native == twin


def failed_callback(impl):
    clock = ManualClock()
    with impl.Engine(clock=clock, name="mine") as engine:
        engine.call_later(0, lambda: 1 / 0)
        clock.advance(0)


def failed_handler(impl):
    clock = ManualClock()
    with impl.Engine(clock=clock, name="mine", on_error=lambda: None) as engine:
        engine.call_later(0, lambda: 1 / 0)
        clock.advance(0)


def failed_command(impl, context=None):
    clock = ManualClock()
    scheduler = impl.CommandScheduler(context, name="mine", clock=clock)
    scheduler.start()
    scheduler.submit(Bare(lambda context: 1 / 0))
    clock.advance(0)
    scheduler.stop()


def failed_context(impl):
    failed_command(impl, context=object())


def failed_clock(impl):
    clock = FailingClock()
    engine = impl.Engine(clock=clock, name="mine")
    engine.call_later(0, setattr, clock, "failing", True)
    with pytest.raises(ZeroDivisionError):
        engine.run()


def stop_outlived(impl):
    inside, release = threading.Event(), threading.Event()
    engine = impl.Engine(name="mine")
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    assert not engine.stop(0)
    engine.start()
    release.set()
    assert engine.stop(WAIT)


@both
@pytest.mark.parametrize(
    "fail", [failed_callback, failed_handler, failed_command, failed_context, failed_clock, stop_outlived]
)
def test_a_fault_is_logged_in_the_same_words_by_both_engines(logged, fail):
    lines = []
    for impl in ENGINES:
        fail(impl)
        lines.append([(level, text.splitlines()[0], has_traceback) for level, text, has_traceback in logged])
        logged.clear()
    assert lines[0] == lines[1] != []


def test_the_name_is_an_attribute_that_may_be_set(impl):
    for made in (impl.Engine(name="first"), impl.CommandScheduler(name="first")):
        assert made.name == "first"
        made.name = "second"
        assert made.name == "second"
        for refused, error in ((3, TypeError), (None, TypeError), (b"n", TypeError), ("", ValueError)):
            with pytest.raises(error, match="^name must "):
                made.name = refused
        assert made.name == "second"
        assert "'second'" in repr(made)


def test_a_name_may_be_a_kind_of_str(impl):
    """It is kept as plain text: an enumeration's member would be shown as something else."""
    for made in (impl.Engine(name=Label.ONE), impl.CommandScheduler(name=Label.ONE)):
        assert type(made.name) is str
        assert made.name == "one"


def test_a_thread_has_the_engines_name_of_the_time_of_the_start(make_engine):
    engine = make_engine(name="first")
    names = []
    engine.name = "second"
    engine.call_later(0, lambda: names.append(threading.current_thread().name))
    with engine:
        engine.name = "third"
        assert engine.wait_idle(WAIT)
    assert names == ["second"]


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": lambda it, protocol=protocol: pickle.dumps(it, protocol) for protocol in range(6)},
}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_engines_and_handles_are_neither_copied_nor_pickled(impl, clock, make_copy):
    class Mine(impl.Engine):
        pass

    engine = impl.Engine(clock=clock)
    for original in (engine, Mine(clock=clock), impl.CommandScheduler(clock=clock), engine.call_later(1, nothing)):
        with pytest.raises(TypeError, match=f"^cannot pickle '{type(original).__name__}' object$"):
            make_copy(original)


def test_a_handle_is_no_base_class(impl):
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Mine", (impl.TimerHandle,), {})


def test_booleans_and_complex_numbers_of_numpy_are_no_numbers_of_seconds(impl, clock):
    numpy = pytest.importorskip("numpy")
    engine, scheduler = impl.Engine(clock=clock), impl.CommandScheduler(clock=clock)
    for value in (numpy.True_, numpy.array(True), numpy.complex128(1 + 2j), numpy.array(1j)):
        for argument, call in {
            "delay": lambda value: engine.call_later(value, nothing),
            "when": lambda value: engine.call_at(value, nothing),
            "interval": lambda value: engine.call_every(value, nothing),
            "timeout": engine.stop,
            "delay_s": lambda value: scheduler.submit(Note(1), value),
            "interval_s": lambda value: scheduler.schedule(Note(1), value),
        }.items():
            with pytest.raises(TypeError, match=f"^{argument} must be a number of seconds, got "):
                call(value)
    with pytest.raises(TypeError, match=r"^delays\[0\] must be a number of seconds, got "):
        engine.call_many(numpy.array([True, False]), nothing)
    assert engine.call_many(numpy.array([1.0, 2.0]), nothing) == 2
    assert engine.call_later(numpy.float32(1), nothing)
    assert engine.call_later(numpy.int64(1), nothing)


@both
@pytest.mark.parametrize("name", ["Engine", "TimerHandle", "CommandScheduler"])
def test_both_engines_are_documented_in_the_same_words(name):
    native, twin = [getattr(impl, name) for impl in ENGINES]
    assert inspect.cleandoc(native.__doc__) == inspect.cleandoc(twin.__doc__)
    members = {member for member in [*dir(native), *dir(twin)] if not member.startswith("_")} - {"context"}
    assert members
    for member in members:
        texts = [inspect.cleandoc(getattr(cls, member).__doc__) for cls in (native, twin)]
        assert texts[0] == texts[1], member


def shape(function):
    """Names, kinds and defaults of the parameters, without `self`, which functions in C take by position only."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters if each.name != "self"]


@both
@pytest.mark.parametrize("name", ["Engine", "CommandScheduler", "TimerHandle"])
def test_both_engines_have_the_same_signatures(name):
    native, twin = [getattr(impl, name) for impl in ENGINES]
    if name != "TimerHandle":  # which nobody constructs
        assert shape(native) == shape(twin) != []
        assert not native.__doc__.lstrip().startswith(name)
    methods = {
        method
        for cls in (native, twin)
        for method in dir(cls)
        if not method.startswith("_") and callable(getattr(cls, method))
    }
    assert methods
    for method in methods:
        assert shape(getattr(native, method)) == shape(getattr(twin, method)), method
