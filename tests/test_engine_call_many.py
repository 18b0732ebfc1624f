"""call_many: bulk registration, all or nothing, from any buffer or iterable of delays."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections import deque
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import WAIT, label, nothing, unchanged

DELAYS = [3.0, 1.0, 2.0, 0.0, 1.0]


class OldSequence:
    """Iterable by __getitem__ alone."""

    def __getitem__(self, index):
        return DELAYS[index]


class Buffer:
    """Gives its items by iteration, though it looks like nothing in particular."""

    def __iter__(self):
        return iter(DELAYS)


def big_endian(values):
    return (ctypes.c_double.__ctype_be__ * len(values))(*values)


SOURCES = {
    "list": lambda: list(DELAYS),
    "tuple": lambda: tuple(DELAYS),
    "generator": lambda: (delay for delay in DELAYS),
    "iterator": lambda: iter(DELAYS),
    "deque": lambda: deque(DELAYS),
    "dict keys with values": lambda: dict(enumerate(DELAYS)).values(),
    "old sequence": OldSequence,
    "iterable object": Buffer,
    "ints": lambda: [int(delay) for delay in DELAYS],
    "mixed numbers": lambda: [3, 1.0, Fraction(2), -0.0, True + 0],
    "array of doubles": lambda: array("d", DELAYS),
    "array of floats": lambda: array("f", DELAYS),
    "array of ints": lambda: array("q", map(int, DELAYS)),
    "memoryview": lambda: memoryview(array("d", DELAYS)),
    "read-only memoryview": lambda: memoryview(array("d", DELAYS).tobytes()).cast("d"),
    "strided memoryview": lambda: memoryview(array("d", [x for delay in DELAYS for x in (delay, 9e9)]))[::2],
    "reversed memoryview": lambda: memoryview(array("d", reversed(DELAYS)))[::-1],
    "ctypes array": lambda: (ctypes.c_double * len(DELAYS))(*DELAYS),
    "big-endian ctypes array": lambda: big_endian(DELAYS),
    "long doubles": lambda: (ctypes.c_longdouble * len(DELAYS))(*DELAYS),
}

sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@sources
@pytest.mark.parametrize("with_args", [False, True])
def test_any_source_of_delays_gives_one_timer_each_in_order(engine, clock, source, with_args):
    clock.advance(100)
    runs = []
    if with_args:
        args = [(number, delay) for number, delay in enumerate(DELAYS)]
        count = engine.call_many(source(), lambda *args: runs.append((clock.time(), *args)), args)
        expected = sorted((100 + delay, number, delay) for number, delay in enumerate(DELAYS))
    else:
        count = engine.call_many(source(), lambda *args: runs.append((clock.time(), *args)))
        expected = sorted((100 + delay,) for delay in DELAYS)
    assert count == len(engine) == 5
    assert engine.stats().scheduled == 5
    engine._check()
    assert clock.advance(3) == 5
    assert runs == expected


@pytest.mark.parametrize("delays", [[], (), array("d"), iter(()), memoryview(b"").cast("d"), range(0)], ids=label)
@pytest.mark.parametrize("args", [None, [], (), iter(())], ids=["None", "list", "tuple", "iterator"])
def test_no_delays_are_no_timers(engine, delays, args):
    with unchanged(engine):
        assert engine.call_many(delays, nothing, args) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: [(0,), (1, 2), (), (3, 4, 5), ("x",)],
        lambda: ((0,), (1, 2), (), (3, 4, 5), ("x",)),
        lambda: iter([(0,), (1, 2), (), (3, 4, 5), ("x",)]),
        lambda: {(0,): 1, (1, 2): 1, (): 1, (3, 4, 5): 1, ("x",): 1},
        lambda: [type("Pair", (tuple,), {})((0,)), (1, 2), (), (3, 4, 5), ("x",)],
    ],
    ids=["list", "tuple", "iterator", "dict", "tuple subclass"],
)
def test_args_are_one_tuple_for_each(engine, clock, make):
    runs = []
    engine.call_many([1] * 5, lambda *args: runs.append(args), make())
    clock.advance(1)
    assert runs == [(0,), (1, 2), (), (3, 4, 5), ("x",)]


@pytest.mark.parametrize("args", [None, [()] * 3])
@pytest.mark.parametrize("bad", range(3))
@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (None, TypeError), (True, TypeError)],
)
def test_one_bad_delay_registers_none_and_is_named(engine, args, bad, value, error):
    delays = [1, 2, 3]
    delays[bad] = value
    with unchanged(engine), pytest.raises(error, match=rf"^delays\[{bad}\] "):
        engine.call_many(delays, nothing, args)
    with unchanged(engine), pytest.raises(error, match=rf"^delays\[{bad}\] "):
        engine.call_many(iter(delays), nothing, args)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("length", [1, 100])
def test_one_bad_delay_in_a_buffer_registers_none_and_is_named(engine, value, length):
    delays = array("d", [1.0] * length)
    delays[length - 1] = value
    with unchanged(engine), pytest.raises(ValueError, match=rf"^delays\[{length - 1}\] must be finite and >= 0"):
        engine.call_many(delays, nothing)


@pytest.mark.parametrize("delays", ["123", "", b"123", b"", 5, 5.0, None, nothing, object()], ids=label)
def test_what_is_no_series_of_numbers_is_refused_by_name(engine, delays):
    with unchanged(engine), pytest.raises(TypeError, match="^delays "):
        engine.call_many(delays, nothing)


@pytest.mark.parametrize("shape", [(), (2, 2)], ids=["0-d", "2-d"])
def test_what_has_not_one_dimension_is_refused_by_name(engine, shape):
    array_of_shape = memoryview(array("d", [1.0] * (4 if shape else 1))).cast("B").cast("d", shape)
    with unchanged(engine), pytest.raises(TypeError, match="^delays "):
        engine.call_many(array_of_shape, nothing)
    with unchanged(engine), pytest.raises(TypeError, match="^args "):
        engine.call_many([1.0] * 2, nothing, array_of_shape)


@pytest.mark.parametrize("args", [5, nothing, True], ids=label)
def test_args_that_cannot_be_iterated_are_refused_by_name(engine, args):
    with unchanged(engine), pytest.raises(TypeError, match="args"):
        engine.call_many([1], nothing, args)


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("value", [None, 5, [1], "x", {}], ids=label)
def test_an_args_entry_that_is_no_tuple_registers_none_and_is_named(engine, bad, value):
    args = [(1,), (2,), (3,)]
    args[bad] = value
    with unchanged(engine), pytest.raises(TypeError, match=rf"args\[{bad}\]"):
        engine.call_many([1, 2, 3], nothing, args)


@pytest.mark.parametrize("length", [0, 1, 2, 4, 100])
@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.parametrize("delays", [[1, 2, 3], array("d", [1, 2, 3])], ids=["list", "array"])
def test_args_of_another_length_register_none(engine, length, kind, delays):
    with unchanged(engine), pytest.raises(ValueError, match="args"):
        engine.call_many(delays, nothing, kind([()] * length))


@pytest.mark.parametrize("where", ["delays", "args"])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_of_the_iteration_is_passed_on_and_registers_none(engine, where, error):
    def broken(item):
        yield item
        yield item
        raise error("mine")

    with unchanged(engine), pytest.raises(error, match="mine"):
        if where == "delays":
            engine.call_many(broken(1), nothing)
        else:
            engine.call_many([1, 2, 3], nothing, broken((1,)))


def test_all_delays_count_from_one_instant(engine, clock):
    def slowly():
        for _ in range(3):
            clock.sleep(5)
            yield 100

    engine.call_many(slowly(), nothing)
    due = engine.next_deadline()
    assert clock.advance(due - clock.time()) == 3


def test_the_iteration_may_use_the_engine(engine, clock):
    runs = []

    def delays():
        for number in range(3):
            engine.call_later(1, runs.append, f"once {number}")
            engine.call_later(1, nothing, key="k")
            yield 1

    assert engine.call_many(delays(), runs.append, (("many",) for _ in range(3))) == 3
    engine._check()
    assert len(engine) == 7
    clock.advance(1)
    assert runs == ["once 0", "once 1", "once 2", "many", "many", "many"]


def test_bulk_timers_mix_with_others_in_order(engine, clock):
    runs = []
    engine.call_later(2, runs.append, "a")
    engine.call_many([2, 1, 2], runs.append, [("b",), ("c",), ("d",)])
    engine.call_later(2, runs.append, "e")
    engine.call_many([1], runs.append, [("f",)])
    clock.advance(2)
    assert runs == ["c", "f", "a", "b", "d", "e"]


@given(
    st.lists(st.integers(0, 20), max_size=60),
    st.lists(st.integers(0, 20), max_size=60),
)
def test_bulk_registration_is_the_same_as_one_by_one(impl, before, delays):
    from pysched.testing import ManualClock

    def trace(bulk):
        clock = ManualClock()
        engine = impl.Engine(clock=clock)
        engine.start()
        runs = []
        for number, delay in enumerate(before):
            engine.call_later(delay, runs.append, (-1, number))
        if bulk:
            engine.call_many(delays, runs.append, [((0, number),) for number in range(len(delays))])
        else:
            for number, delay in enumerate(delays):
                engine.call_later(delay, runs.append, (0, number))
        engine._check()
        clock.advance(20)
        engine.stop()
        return runs, engine.stats()[:5]

    assert trace(bulk=True) == trace(bulk=False)


def test_bulk_timers_run_in_every_mode(rig):
    engine = rig.engine
    lock, runs = threading.Lock(), []

    def run(number):
        with lock:
            runs.append(number)

    engine.start()
    assert engine.call_many([0.001] * 2000, run, [(number,) for number in range(2000)]) == 2000
    rig.until(lambda: len(runs) == 2000)
    rig.settle()
    assert sorted(runs) == list(range(2000))
    assert engine.stats()[:5] == (2000, 2000, 0, 0, 0)


def test_a_nearer_bulk_timer_wakes_the_loop(make_engine):
    engine = make_engine()
    engine.call_later(3600, nothing)
    ran = threading.Event()
    with engine:
        engine.call_many(array("d", [3000.0, 0.01, 2000.0]), nothing)
        engine.call_many([3000, 0.02], ran.set)
        assert ran.wait(WAIT)


def test_the_callback_gets_the_very_objects_of_args(engine, clock):
    token, seen = object(), []
    engine.call_many([1], lambda *args: seen.extend(args), [(token, seen)])
    clock.advance(1)
    assert seen[0] is token
    assert seen[1] is seen
