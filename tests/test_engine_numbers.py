"""Numbers: what is accepted, how it is rounded, and what is refused at the call with nothing changed."""

from __future__ import annotations

import math
import threading
from array import array
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import TOMORROW, WAIT, label, nothing, on_workers, unchanged

NEVER_NS = 2**63 - 1

PLACES = {
    "call_later": ("delay", lambda engine, value: engine.call_later(value, nothing, key="k")),
    "call_at": ("when", lambda engine, value: engine.call_at(value, nothing, key="k")),
    "call_every": ("interval", lambda engine, value: engine.call_every(value, nothing, key="k")),
    "call_every's delay": ("delay", lambda engine, value: engine.call_every(1, nothing, delay=value, key="k")),
    "call_many": (r"delays\[1\]", lambda engine, value: engine.call_many([1, value, 2], nothing)),
    "wait_idle": ("timeout", lambda engine, value: engine.wait_idle(value)),
    "stop": ("timeout", lambda engine, value: engine.stop(value)),
}
NONE_IS_MEANT = {"call_every's delay", "wait_idle", "stop"}


class WithoutNumber:
    """Has nothing of a number."""


class Indexed:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Floating:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


def places(*left_out):
    return pytest.mark.parametrize(
        ("argument", "give"),
        [pytest.param(*case, id=name) for name, case in PLACES.items() if name not in left_out],
    )


@pytest.fixture
def idle(make_engine, clock):
    """An engine that has a timer under the key "k", not started."""
    engine = make_engine(clock=clock)
    engine.call_later(TOMORROW, nothing, key="k")
    return engine


@places()
@pytest.mark.parametrize(
    "value",
    [
        True, False, "5", b"5", "nan", 1j, timedelta(1), timedelta(-1), [1], (1,), {}, object(), WithoutNumber(),
        WithoutNumber, math.sqrt, array("d", [1.0]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, (WithoutNumber, array)) else label(value),
)  # fmt: skip
def test_what_is_no_number_is_a_type_error_that_names_the_argument(idle, argument, give, value):
    with unchanged(idle), pytest.raises(TypeError, match=rf"^{argument} "):
        give(idle, value)


@places(*NONE_IS_MEANT)
def test_none_is_a_type_error_where_a_number_is_asked(idle, argument, give):
    with unchanged(idle), pytest.raises(TypeError, match=rf"^{argument} "):
        give(idle, None)


@places()
@pytest.mark.parametrize(
    "value",
    [
        math.nan, -math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), 10**400,
        Decimal("sNaN"),
        -(10**400), Floating(math.nan), Floating(math.inf), Indexed(10**400), Fraction(10**400), Decimal("1e400"),
    ],
    ids=lambda value: f"{type(value).__name__}-{repr(value)[:12]}" if not hasattr(value, "value") else None,
)  # fmt: skip
def test_what_is_not_finite_is_a_value_error_that_names_the_argument(idle, argument, give, value):
    with unchanged(idle), pytest.raises(ValueError, match=rf"^{argument} must be finite"):
        give(idle, value)


@places("call_at")
@pytest.mark.parametrize(
    "value", [-1, -1.0, -1e-9, -5e-324, -1e300, -(10**300), Decimal("-0.5"), Fraction(-1, 3)], ids=label
)
def test_negative_durations_are_value_errors(idle, argument, give, value):
    with unchanged(idle), pytest.raises(ValueError, match=rf"^{argument} must be finite and >"):
        give(idle, value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, Fraction(0), Decimal("-0")], ids=label)
def test_an_interval_of_zero_is_a_value_error(idle, value):
    with unchanged(idle), pytest.raises(ValueError, match="^interval must be finite and > 0"):
        idle.call_every(value, nothing, key="k")


def test_the_message_names_argument_rule_and_value(idle):
    with pytest.raises(ValueError, match=r"^delay must be finite and >= 0, got nan$"):
        idle.call_later(math.nan, nothing)
    with pytest.raises(ValueError, match=r"^delay must be finite and >= 0, got -1.5$"):
        idle.call_later(-1.5, nothing)


@pytest.mark.parametrize("kind", ["__float__", "__index__"])
@places()
def test_an_error_of_the_conversion_itself_is_passed_on(idle, argument, give, kind):
    class Broken:
        """Fails when it is asked for its value."""

    def fail(self):
        raise ZeroDivisionError("mine")

    setattr(Broken, kind, fail)
    with unchanged(idle), pytest.raises(ZeroDivisionError, match="mine"):
        give(idle, Broken())


@pytest.mark.parametrize("value", [0, 0.0, -0.0, Fraction(0), Decimal("-0"), Indexed(0), Floating(-0.0)], ids=label)
def test_zero_of_any_sign_means_now(engine, clock, value):
    clock.advance(7)
    calls = []
    assert engine.call_later(value, calls.append, 1).when() == 7
    assert engine.call_every(5, calls.append, 2, delay=value).when() == 7
    engine.call_many([value], calls.append, [(3,)])
    clock.advance(0)
    assert calls == [1, 2, 3]


@pytest.mark.parametrize(
    "value", [2, 2.0, Fraction(2), Decimal(2), Indexed(2), Floating(2.0), type("Int", (int,), {})(2)], ids=label
)
def test_every_kind_of_number_is_a_number(engine, clock, value):
    assert engine.call_later(value, nothing).when() == 2
    assert engine.call_at(value, nothing).when() == 2
    assert engine.call_every(value, nothing).when() == 2
    assert engine.call_every(1, nothing, delay=value).when() == 2
    engine.call_many([value], nothing)
    assert clock.advance(2) == 5
    assert engine.wait_idle(value)


@pytest.mark.parametrize(
    ("value", "due_ns"),
    [
        # a float that means a whole number of nanoseconds is that number
        (0.1, 100_000_000),
        (0.3, 300_000_000),
        (0.1 + 0.2, 300_000_000),
        (0.7, 700_000_000),
        (1.1, 1_100_000_000),
        (4.35, 4_350_000_000),
        (1e-9, 1),
        (3e-9, 3),
        (0.000_000_007, 7),
        (123456.789, 123_456_789_000_000),
        # all else is rounded up: never early
        (1.5e-9, 2),
        (1.000_000_000_1, 1_000_000_001),
        (1e-10, 1),
        (5e-324, 1),
        (2**-30, 1),
        (2**-20, 954),
        # ints are exact, where a float would not be
        (2**53 // 10**9 + 1, (2**53 // 10**9 + 1) * 10**9),
        (9_007_199, 9_007_199_000_000_000),
        (9_223_372_035, 9_223_372_035_000_000_000),
    ],
)
def test_seconds_become_nanoseconds_rounded_up(make_engine, clock, value, due_ns):
    engine = make_engine(clock=clock)
    engine.call_later(value, nothing, key="k")
    assert engine._next_due_ns() == due_ns
    engine.call_many([value], nothing)
    engine.cancel_key("k")
    assert engine._next_due_ns() == due_ns


@example(0.1)
@example(2.0**33 - 1e-6)
@example(1e-9)
@given(st.floats(0, 2.0**33, allow_subnormal=True))
def test_a_float_is_never_early_and_less_than_a_nanosecond_late(impl, seconds):
    """Up to the error of one product of floats, which is the price for 0.1 being 100 ms."""
    from pysched.testing import ManualClock

    engine = impl.Engine(clock=ManualClock())
    engine.call_later(seconds, nothing)
    due = engine._next_due_ns()
    exact = Fraction(seconds) * 10**9
    error = exact * Fraction(1, 2**51)
    assert exact - error <= due < exact + 1 + error


@given(st.lists(st.floats(0, 2.0**33) | st.integers(0, 2**33), min_size=1, max_size=5))
def test_all_ways_to_register_round_alike(impl, delays):
    from pysched.testing import ManualClock

    def due(register):
        engine = impl.Engine(clock=ManualClock())
        register(engine)
        return engine._next_due_ns()

    earliest = due(lambda engine: engine.call_later(min(delays), nothing))
    assert due(lambda engine: engine.call_at(min(delays), nothing)) == earliest
    assert due(lambda engine: engine.call_every(1, nothing, delay=min(delays))) == earliest
    assert due(lambda engine: engine.call_many(delays, nothing)) == earliest
    assert due(lambda engine: engine.call_many(array("d", map(float, delays)), nothing)) == due(
        lambda engine: engine.call_later(float(min(delays)), nothing)
    )


HUGE = [
    2**31 / 1000, 2**32 / 1000 + 1, 50 * 86400, 4294967.3, 2**31, 2**32, 9223372036, 9223372036.9, 9223372037,
    2**63 / 1e9 + 1, 1e12, 10**18, 2**63, 2**64, 1e300, 10**300, 1.7976931348623157e308, Fraction(10**30),
    Decimal("1e30"),
]  # fmt: skip


@pytest.mark.parametrize("delay", HUGE, ids=label)
def test_huge_delays_are_accepted_and_do_not_come(make_engine, clock, delay):
    engine = make_engine(clock=clock)
    engine.start()
    handle = engine.call_later(delay, pytest.fail, "ran")
    engine.call_at(delay, pytest.fail, "ran")
    engine.call_every(delay, pytest.fail, "ran")
    engine.call_every(1, pytest.fail, "ran", delay=delay)
    assert engine.call_many([delay, delay], pytest.fail, [("ran",)] * 2) == 2
    engine.call_later(3, nothing)
    assert clock.advance(2_000_000) == 1
    assert (len(engine), handle.done(), handle.cancelled()) == (6, False, False)
    assert handle.when() >= min(delay, NEVER_NS / 1e9) * (1 - 1e-15)
    assert handle.cancel()


@pytest.mark.parametrize("delay", [d for d in HUGE if d * 10**9 >= NEVER_NS], ids=label)
def test_a_time_past_the_end_of_the_clock_is_never_due(make_engine, clock, delay):
    engine = make_engine(clock=clock)
    engine.start()
    engine.call_later(delay, pytest.fail, "ran")
    engine.call_every(delay, pytest.fail, "ran")
    assert engine.next_deadline() is None
    assert engine._next_due_ns() is None
    assert engine.wait_idle(0)
    assert clock.advance(10**18) == 0
    assert len(engine) == 2


def test_sums_saturate_instead_of_wrapping(engine, clock):
    clock.advance(9_000_000_000)
    engine.call_later(9_000_000_000, pytest.fail, "ran")
    engine.call_many([9_000_000_000], pytest.fail, [("ran",)])
    runs = []
    every = engine.call_every(200_000_000, lambda: runs.append(clock.time()))
    clock.advance(10**18)
    assert runs == [9_200_000_000]
    assert not every.done()
    engine._check()
    assert engine.next_deadline() is None


@on_workers(None, 1)
def test_huge_delays_neither_stop_nor_spin_a_running_loop(make_engine, workers):
    """A wait longer than the platform can wait is cut, not refused and not taken for zero."""
    engine = make_engine(**workers)
    for delay in HUGE:
        engine.call_later(delay, nothing)
        engine.call_every(delay, nothing)
    with engine:
        done = threading.Event()
        engine.call_later(0.02, done.set)
        assert done.wait(WAIT)
        assert engine.running
        assert engine.stats().wakeups < 10
    assert engine.stats().started == 1


@pytest.mark.parametrize("interval", [1e-12, 1e-9, 5e-324, Fraction(1, 10**12)], ids=label)
def test_an_interval_is_at_least_a_nanosecond(engine, clock, interval):
    runs = []
    handle = engine.call_every(interval, lambda: (runs.append(1), clock.sleep(1)))
    clock.advance(3)
    assert 1 <= len(runs) <= 4
    assert handle.cancel()


def test_a_tiny_interval_does_not_stall_the_loop(make_engine):
    engine = make_engine()
    done = threading.Event()
    engine.call_every(1e-9, nothing)
    with engine:
        engine.call_later(0.01, done.set)
        assert done.wait(WAIT)
    assert engine.stats().coalesced > 0


@pytest.mark.parametrize(
    ("options", "name", "errors"),
    [
        ({"executor": True}, "executor", (TypeError, ValueError)),
        ({"executor": False}, "executor", (TypeError, ValueError)),
        ({"executor": 0}, "executor", ValueError),
        ({"executor": -1}, "executor", ValueError),
        ({"executor": 1.0}, "executor", TypeError),
        ({"executor": "4"}, "executor", TypeError),
        ({"executor": object()}, "executor", TypeError),
        ({"executor": type("Executor", (), {"submit": None})()}, "executor", TypeError),
        ({"name": ""}, "name", (TypeError, ValueError)),
        ({"name": None}, "name", (TypeError, ValueError)),
        ({"name": 5}, "name", (TypeError, ValueError)),
        ({"name": b"name"}, "name", (TypeError, ValueError)),
        ({"on_error": 5}, "on_error", TypeError),
        ({"on_error": "print"}, "on_error", TypeError),
        ({"clock": 5}, "clock", TypeError),
        ({"clock": object()}, "clock", TypeError),
    ],
    ids=lambda value: label(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("with_manual_clock", [False, True])
def test_bad_options_are_refused_by_name(impl, clock, options, name, errors, with_manual_clock):
    if with_manual_clock:
        options = {"clock": clock} | options
    with pytest.raises(errors, match=name):
        impl.Engine(**options)


@pytest.mark.parametrize("options", [("pysched",), (None, False), (None, None, "x")])
def test_options_other_than_the_executor_are_keyword_only(impl, options):
    with pytest.raises(TypeError):
        impl.Engine(*options) if options != ("pysched",) else impl.Engine(None, "pysched")


def test_a_float_subclass_is_asked_for_its_value_like_a_float(engine, clock):
    class Strange(float):
        def __float__(self):
            return 99.0

    assert engine.call_later(Strange(2.0), nothing).when() in (2, 99)
    assert math.isfinite(engine.next_deadline())
