"""Durations: their grammar, their bounds, and how each fault is named."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import label

from pysched import schedule
from pysched.schedule import LONGEST_S, duration_text, parse_duration

S = 10**9


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("250ms", S // 4),
        ("1s", S),
        ("5m", 300 * S),
        ("2h", 7200 * S),
        ("1d", 86400 * S),
        ("1h30m", 5400 * S),
        ("1d2h3m4s5ms", (86400 + 7200 + 180 + 4) * S + 5 * 10**6),
        ("1m5ms", 60 * S + 5 * 10**6),
        ("  10s\t", 10 * S),
        ("007s", 7 * S),
        ("0h1s", S),
        ("90m", 5400 * S),
        ("1000000000s", LONGEST_S * S),
        ("11574d", 11574 * 86400 * S),
        (1, S),
        (0.25, S // 4),
        (0.1, S // 10),
        (1e-12, 1),
        (LONGEST_S, LONGEST_S * S),
        (float(LONGEST_S), LONGEST_S * S),
        (Decimal("1.5"), 3 * S // 2),
        (Fraction(1, 4), S // 4),
        (timedelta(days=1, microseconds=1), 86400 * S + 1000),
        (timedelta(seconds=LONGEST_S), LONGEST_S * S),
    ],
)
def test_what_is_taken(value, ns):
    for _ in range(2):  # the second time from those kept
        assert parse_duration(value, "interval") == ns
        assert parse_duration(value, "interval", zero=True) == ns


@pytest.mark.parametrize("value", ["0s", "0d0ms", 0, 0.0, -0.0, timedelta(0)])
def test_zero_is_taken_where_it_may_stand(value):
    for _ in range(2):
        assert parse_duration(value, "delay", zero=True) == 0
        with pytest.raises(ValueError, match=r"^delay must be .*> 0"):
            parse_duration(value, "delay")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("10", "'10' has no unit"),
        ("1h30", "'30' has no unit"),
        ("10x", "'x' is no unit"),
        ("10sec", "'sec' is no unit"),
        ("10S", "'S' is no unit"),
        ("10us", "'us' is no unit"),
        ("-5s", "'-5s' does not begin with a whole number"),
        ("+5s", "'\\+5s' does not begin with"),
        ("abcs", "'abcs' does not begin with"),
        ("s", "'s' does not begin with"),
        ("1.5h", "'1.5h' does not begin with a whole number and a unit"),
        ("1h 30m", "no blanks inside"),
        ("1 h", "no blanks inside"),
        ("1h,30m", "',30m' does not begin with"),
        ("5s1m", "'1m' must come before 's'"),
        ("5ms1s", "'1s' must come before 'ms'"),
        ("1h1h", "'1h' must come before 'h', and each unit once"),
        ("1s\n", "no blanks inside"),
        ("\u0665s", "does not begin with"),
        ("\uff15s", "does not begin with"),
        ("1\u017f", "has no unit"),
        ("1e3s", "'e' is no unit"),
        ("1_0s", "'1_0s' has no unit"),
        ("infs", "'infs' does not begin with"),
        ("x" * 1000, "does not begin with"),
        ("x" * 10**6, "of at most 1000 characters"),
        (" " * 1000 + "1s", "of at most 1000 characters"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_text_that_is_refused(text, fault):
    with pytest.raises(ValueError, match=rf"(?s)^interval must be a duration like .*{fault}") as error:
        parse_duration(text, "interval", zero=True)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "value",
    [
        *(
            -1,
            -0.5,
            float("nan"),
            float("inf"),
            float("-inf"),
            10**400,
            -(10**400),
            Decimal("NaN"),
            Decimal("Infinity"),
        ),
        *(timedelta(-1), timedelta.max, LONGEST_S + 1, 1e300, "1000000001s", "11575d", "9" * 17 + "d"),
        *("9" * 5000 + "s", "0" * 5000 + "1s", 10**200, -(10**300)),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_values_out_of_bounds(value):
    with pytest.raises(ValueError, match="^interval ") as error:
        parse_duration(value, "interval", zero=True)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("value", [True, False, None, 1j, b"1s", [1], (), object(), int, {"s": 1}], ids=label)
def test_wrong_types(value):
    with pytest.raises(TypeError, match="^interval must be "):
        parse_duration(value, "interval")


def test_the_strings_that_are_kept_are_bounded():
    for number in range(1, 3 * schedule._RECENT_LIMIT):
        assert parse_duration(f"{number}ms", "interval") == number * 10**6
    assert len(schedule._recent) <= schedule._RECENT_LIMIT


def test_subclasses_of_str():
    class Text(str):
        __slots__ = ()

    assert parse_duration(Text("5m"), "interval") == 300 * S


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (300 * S, "300s"),
        (S // 4, "0.25s"),
        (1, "0.000000001s"),
        (0, "0s"),
        (10 * S, "10s"),
        (100 * S + S // 10, "100.1s"),
        (LONGEST_S * S, "1000000000s"),
    ],
)
def test_duration_text(ns, text):
    assert duration_text(ns) == text


@given(st.integers(0, LONGEST_S * S))
def test_duration_text_is_exact(ns):
    text = duration_text(ns)
    assert text.endswith("s")
    assert Fraction(text[:-1]) * S == ns
