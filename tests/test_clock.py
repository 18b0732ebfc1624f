"""The clock protocol, and the edge where seconds become nanoseconds."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched.clock import NEVER, Clock, DrivingClock, SystemClock, delay_ns, instant_ns, interval_ns
from pysched.testing import ManualClock
from pysched.waiting import WakeEvent

conversions = pytest.mark.parametrize("convert", [delay_ns, interval_ns, instant_ns])


class Indexed:
    def __index__(self):
        return 3


class Floating:
    def __float__(self):
        return 2.5


@conversions
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1, 1_000_000_000),
        (0.3, 300_000_000),
        (0.1 + 0.2, 300_000_000),  # within the error of its own product
        (1e-9, 1),
        (1.1e-9, 2),
        (1e-300, 1),
        (5e-324, 1),
        (1 / 3, 333_333_334),
        (2**33, 2**33 * 10**9),
        (4_503_599.627370497, 4_503_599_627_370_497),
        (9_223_372_036, 9_223_372_036_000_000_000),
        (9_223_372_037, NEVER),
        (9.3e9, NEVER),
        (1e18, NEVER),
        (1.7e308, NEVER),
        (10**300, NEVER),
        (Decimal("1.5"), 1_500_000_000),
        (Fraction(1, 4), 250_000_000),
        (Indexed(), 3_000_000_000),
        (Floating(), 2_500_000_000),
    ],
)
def test_seconds_become_nanoseconds_rounded_up_and_saturating(convert, seconds, expected):
    assert convert(seconds, "it") == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, -1_000_000_000), (-0.3, -300_000_000), (-1.5e-9, -1), (-1e300, -NEVER), (-(10**300), -NEVER), (-0.0, 0)],
)
def test_instants_may_be_negative(seconds, expected):
    assert instant_ns(seconds, "it") == expected


def test_a_delay_may_be_zero():
    assert [delay_ns(zero, "it") for zero in (0, 0.0, -0.0)] == [0, 0, 0]


@given(st.floats(0, 9.2e9))
def test_a_conversion_is_never_early_beyond_rounding_and_at_most_a_nanosecond_late(seconds):
    exact = Fraction(seconds) * 10**9
    result = delay_ns(seconds, "it")
    assert exact * (1 - Fraction(1, 2**51)) <= result < exact + 1 + exact / 2**52


@given(st.integers(0, 9 * 10**18))
def test_whole_nanoseconds_survive_the_way_through_seconds(ns):
    """What `when()` and `time()` give may be given back: at most the error of a double is added."""
    assert abs(delay_ns(ns / 1e9, "it") - ns) <= max(1, ns // 2**51)


@given(st.integers(0, 2**50))
def test_below_a_fortnight_they_survive_exactly(ns):
    assert delay_ns(ns / 1e9, "it") == ns


@conversions
@pytest.mark.parametrize("value", [True, False, None, "1", b"1", timedelta(seconds=1), 1j, [1], object(), int, float])
def test_what_is_no_number_is_a_type_error(convert, value):
    with pytest.raises(TypeError, match=r"^it must be a number of seconds, got "):
        convert(value, "it")


@conversions
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 10**400, -(10**400), Decimal("NaN"), Decimal("1e400"), Fraction(10**400)],
    ids=lambda value: repr(value)[:12],
)
def test_what_is_not_finite_is_a_value_error(convert, value):
    with pytest.raises(ValueError, match=r"^it must be finite.*, got "):
        convert(value, "it")


@pytest.mark.parametrize("value", [-1, -1e-9, -5e-324, -(10**300), Decimal(-1)], ids=lambda value: repr(value)[:12])
def test_the_rule_is_in_the_message(value):
    with pytest.raises(ValueError, match=r"^delay must be finite and >= 0, got -"):
        delay_ns(value, "delay")
    with pytest.raises(ValueError, match=r"^interval must be finite and > 0, got -"):
        interval_ns(value, "interval")


@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_an_interval_is_not_zero(value):
    with pytest.raises(ValueError, match=r"^interval must be finite and > 0, got -?0"):
        interval_ns(value, "interval")


def test_what_a_conversion_of_the_users_raises_is_passed_on():
    class Broken:
        def __float__(self):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        delay_ns(Broken(), "it")


def test_the_systems_clock_is_the_systems():
    clock = SystemClock()
    before = time.monotonic_ns()
    assert before <= clock.time_ns() <= time.monotonic_ns()
    wall = time.time_ns()
    assert abs(clock.wall_ns() - wall) < 60 * 10**9


def test_the_systems_clock_waits_for_the_event_or_the_timeout():
    clock, event = SystemClock(), WakeEvent()
    before = time.monotonic()
    clock.wait(event, 0.01)
    assert time.monotonic() - before >= 0.009
    event.set()
    clock.wait(event, None)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_a_clock_is_what_has_its_three_methods(clock):
    assert isinstance(clock, Clock)
    assert not isinstance(object(), Clock)


def test_a_driving_clock_must_be_complete():
    class Half(DrivingClock):
        def time_ns(self):
            return 0

    with pytest.raises(TypeError, match="abstract"):
        Half()
