"""What must hold for any text that a user passes, and the texts: used by tests/test_fuzz_parsers.py and by ci/fuzz.

A check raises AssertionError where a promise is broken: what is accepted works, and means what slow oracles say; what
is refused is a ValueError that names the argument or the field; and the work is bounded, whatever the text.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from unittest import mock
from zoneinfo import ZoneInfo

from cron_oracle import Oracle
from hypothesis import strategies as st

from pysched import zones
from pysched._engine import calendar as native
from pysched._pure import calendar as pure
from pysched.offsets import LAST
from pysched.schedule import LONGEST_S, duration_text, parse_cron, parse_duration, parse_zone
from pysched.testing import ManualClock
from pysched.tzif import compiled_rule, compiled_zone

FIELDS = "second|minute|hour|day of month|month|day of week"
ZONES = [timezone.utc, ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/Santiago")]
TWINS = [[(module, module.Zone(zone)) for module in (native, pure)] for zone in ZONES]
INSTANTS = [
    int(datetime(*moment, tzinfo=timezone.utc).timestamp())
    for moment in (
        (1970, 1, 1),
        (1999, 12, 31, 23, 59, 59),
        (2024, 2, 28, 23, 59, 59),
        (2024, 2, 29, 23, 59, 59),
        (2024, 3, 31, 0, 59, 59),  # summer time begins in Berlin,
        (2024, 10, 27, 0, 30),  # and ends there;
        (2024, 4, 6, 14, 45),  # it ends on Lord Howe, by half an hour, and in Santiago,
        (2024, 9, 8, 3, 59),  # and begins in Santiago, at midnight
        (2088, 3, 1),  # the next 29 February that is a Sunday is of 2128
        (2099, 12, 31, 23, 59, 59),  # no leap year follows
    )
]

MOST_CALLS, MOST_CALLS_OF_A_STEP = 20_000, 2_000
"""Of functions in Python, for one text, and for a step of a calendar of the twin: a few milliseconds and less than one.

Time itself is not looked at: machines are busy at times.
"""


@contextmanager
def little_work(most):
    """Counts the functions in Python that are called, and the generators that are resumed: at most so many.

    Those in C are left out: atheris calls its own at each branch.
    """
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert calls <= most, f"{calls} calls"


def refusal(function, *args, **options):
    """(What it returns, None) or (None, the message with which it is refused)."""
    try:
        with little_work(MOST_CALLS):
            return function(*args, **options), None
    except ValueError as error:
        assert not isinstance(error, UnicodeError), "it names nothing"
        assert len(str(error)) < 700
        return None, str(error)


# -- durations -----------------------------------------------------------------------------------------------


def check_duration(text):
    """A duration of the scheduler, and of a ManualClock, whose grammar is the same but for bounds."""
    ns, message = refusal(parse_duration, text, "interval", zero=True)
    if message is not None:
        assert message.startswith("interval "), message
    else:
        assert type(ns) is int
        assert 0 <= ns <= LONGEST_S * 10**9
        assert ns == spelt_out(text.strip(" \t"))
        assert parse_duration(ns // 10**9, "interval", zero=True) == ns // 10**9 * 10**9
        assert parse_duration(timedelta(microseconds=ns // 1000), "interval", zero=True) == ns
        assert float(duration_text(ns)[:-1]) == ns / 10**9
        assert parse_duration(text, "interval", zero=True) == ns  # from those that are kept
    clock = ManualClock()
    _, message = refusal(clock.advance, text)
    assert message is None or message.startswith("duration must be "), message
    if ns is not None and text == text.strip(" \t"):
        assert message is None
        assert clock.time_ns() == ns


def spelt_out(text):
    """Nanoseconds of a duration that is valid, read from its end."""
    units = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
    total = 0
    while text:
        unit = next(unit for unit in units if text.endswith(unit))
        text = text.removesuffix(unit)
        digits = len(text) - len(text.rstrip("0123456789"))
        total += int(text[-digits:]) * units.pop(unit)
        text = text[:-digits]
    return total


# -- cron ----------------------------------------------------------------------------------------------------


def bits(mask):
    return {bit for bit in range(64) if mask >> bit & 1}


def check_cron(text, seconds=False, hashed=None):
    fields, message = refusal(parse_cron, text, seconds=seconds, hashed=hashed)
    if message is not None:
        named = f"({FIELDS}) field: |it needs|it must have|.* is no macro|.* never comes$"
        assert re.match(f"(?s)invalid cron expression .*: (?:{named})", message), message
        return
    assert parse_cron(fields.expression, seconds=seconds, hashed=hashed) == fields
    assert parse_cron(f" {text}\t", seconds=seconds, hashed=hashed) == fields
    if "h" not in re.sub("thu", "", fields.expression.lower()) and not fields.expression.startswith("@"):
        check_masks(fields, Oracle(fields.expression, seconds=seconds))
    for twins in TWINS:
        check_calendars(fields, *twins)


def check_masks(fields, oracle):
    """Each field matches what an oracle reads in its text."""
    assert bits(fields.second) == oracle.seconds
    assert bits(fields.minute) == oracle.minutes
    assert bits(fields.hour) == oracle.hours
    assert bits(fields.month) == oracle.months
    assert fields.wildcard == oracle.wildcard
    assert fields.either_day == oracle.either


def check_calendars(fields, *twins):
    """From each instant there is a next slot, and the twins agree on all there is to ask."""
    one, other = (module.Calendar(fields, zone) for module, zone in twins)
    for instant in INSTANTS:
        slot = one.next(instant)
        assert slot is not None, "what is accepted comes"
        assert instant < slot <= LAST
        with little_work(MOST_CALLS_OF_A_STEP):
            assert other.next(instant) == slot
        assert one.previous(slot) == other.previous(slot) == slot
        before = one.previous(slot - 1)
        assert before == other.previous(slot - 1)
        assert before is None or before <= instant
        assert one.datetimes(instant, 2) == other.datetimes(instant, 2)
        assert one.count(instant, slot, 9) == other.count(instant, slot, 9) == 1


# -- time zones ----------------------------------------------------------------------------------------------


def check_zone(text):
    """The name of a zone, as an argument."""
    zone, message = refusal(parse_zone, text, "tz")
    if message is not None:
        assert message.startswith("tz must be the name of a time zone, got "), message
    else:
        check_usable(zone)


def check_setting(text):
    """A value of TZ, which never makes a start fail."""
    with mock.patch.object(os, "environ", {"TZ": text}), mock.patch.object(zones, "log_warning"):
        zone, message = refusal(zones.system_zone)
    assert message is None
    check_usable(zone)


def check_rule(rule, text):
    """A POSIX rule as the zone of calendars."""
    zone, message = refusal(compiled_rule, rule)
    assert message is None
    if zone is not None:
        check_calendars(parse_cron(text), *((module, module.Zone(zone)) for module in (native, pure)))


def check_zone_file(content):
    """The content of a compiled zone, which may be damaged."""
    zone, message = refusal(compiled_zone, content, "damaged")
    assert message is None
    if zone is not None:
        check_usable(zone)


def check_usable(zone):
    for instant in INSTANTS:
        moment = datetime.fromtimestamp(instant, zone)
        assert abs(moment.utcoffset()) < timedelta(days=1)
        assert moment.isoformat()
    assert str(zone)


# -- the texts -----------------------------------------------------------------------------------------------

# What Python's own functions take for digits, blanks, letters or ends, and what messages and files cannot bear.
STRANGE = [
    "\0",
    "\n",
    "\r",
    "\t",
    " ",
    "\xa0",
    "\u2028",
    "\u0665",
    "\uff15",
    "\xb2",
    "\u0130",
    "\u017f",
    "\ud800",
    "\U0001d7d9",
]
STRANGE += [
    "%s",
    "{0}",
    "+",
    "-",
    "_",
    ".",
    "e9",
    "#",
    "L",
    "W",
    "?",
    "H",
    "H(",
    ")",
    "@",
    ",",
    ",,",
    "*",
    "/0",
    "//",
    "~",
    "'",
]
STRANGE += [
    "9" * 19,
    "4294967296",
    "9" * 5000,
    "0" * 400,
    "," * 400,
    "1," * 480,
    "H(0-1)," * 140,
    "5#2," * 240,
    " " * 900,
]


@st.composite
def mutated(draw, texts):
    """A valid text to which a few things have happened."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 3)))
        piece = draw(st.one_of(st.just(""), st.sampled_from(STRANGE), st.just(text[begin:end] * 2), st.characters()))
        text = text[:begin] + piece + text[end:]
    return text


def near(texts):
    """Valid texts, mutated ones, and any."""
    return st.one_of(
        texts, mutated(texts), mutated(texts), st.text(max_size=30), st.lists(st.sampled_from(STRANGE)).map("".join)
    )


NUMBERS = st.one_of(st.integers(0, 99), st.integers(0, 10**20)).map(str)
DURATIONS = st.tuples(
    *(st.one_of(st.just(""), NUMBERS.map(f"{{}}{unit}".format)) for unit in ("d", "h", "m", "s", "ms"))
)


def field(low, high, names=()):
    """The text of a field, of all shapes."""
    number = st.one_of(st.integers(low, high).map(str), *([st.sampled_from(names)] if names else []))
    pair = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    span = pair.map("{0[0]}-{0[1]}".format)
    step = st.one_of(st.integers(1, high), st.integers(1, 2**32 - 1)).map("/{}".format)
    hashed = st.one_of(
        st.just("H"), st.tuples(st.sampled_from("Hh"), step).map("".join), pair.map("H({0[0]}-{0[1]})".format)
    )
    item = st.one_of(number, span, st.tuples(st.one_of(st.just("*"), number, span), step).map("".join), hashed)
    return st.one_of(st.just("*"), number, st.lists(item, min_size=1, max_size=4).map(",".join))


MONTHS = ["jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "MON", "Tue", "wed", "thu", "fri", "sat"]
NTH = st.tuples(st.one_of(st.integers(0, 7).map(str), st.sampled_from(WEEKDAYS)), st.integers(1, 5))
DAYS = [
    st.one_of(field(1, 31), st.sampled_from(["L", "L,15", "1,L", "*,L", "H(1-28)", "29", "30", "31", "*/29"])),
    st.one_of(field(1, 12, MONTHS), st.just("2")),
    st.one_of(field(0, 7, WEEKDAYS), st.lists(NTH.map("{0[0]}#{0[1]}".format), min_size=1, max_size=3).map(",".join)),
]
TIMES = [field(0, 59), field(0, 23)]
FIVE = st.tuples(*TIMES, *DAYS).map(" ".join)
SIX = st.tuples(field(0, 59), *TIMES, *DAYS).map(" ".join)
MACROS = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]

NAMES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Etc/GMT+5",
    "EST5EDT",
    "GMT",
    "Asia/Kolkata",
    "Africa",
    "zone.tab",
]
OFFSETS = st.tuples(st.sampled_from(["", "+", "-"]), st.integers(0, 25), st.sampled_from(["", ":30", ":59:59", ":60"]))
WHEN = st.one_of(
    st.tuples(st.integers(0, 13), st.integers(0, 6), st.integers(0, 7)).map("M{0[0]}.{0[1]}.{0[2]}".format),
    st.integers(0, 366).map(str),
    st.integers(0, 366).map("J{}".format),
)
TIME = st.one_of(st.just(""), st.integers(-170, 170).map("/{}".format), st.just("/2:30:30"))
RULES = st.tuples(
    st.sampled_from(["EST", "AAA", "<+03>", "<-0330>", "A"]),
    OFFSETS.map("{0[0]}{0[1]}{0[2]}".format),
    st.sampled_from(["", "EDT", "<+04>", "EDT4", "EDT-25", "EDT+24:30"]),
    st.one_of(st.just(""), st.tuples(WHEN, TIME, WHEN, TIME).map(",{0[0]}{0[1]},{0[2]}{0[3]}".format)),
).map("".join)
SPRING, AUTUMN = (st.integers(30, 150).map("J{}".format), st.integers(210, 330).map("J{}".format))
SANE_RULES = st.tuples(
    OFFSETS.map("AAA{0[0]}{0[1]}{0[2]}BBB".format),
    st.one_of(st.just(""), OFFSETS.map("{0[0]}{0[1]}{0[2]}".format)),
    st.one_of(st.tuples(SPRING, TIME, AUTUMN, TIME), st.tuples(AUTUMN, TIME, SPRING, TIME)).map(
        ",{0[0]}{0[1]},{0[2]}{0[3]}".format
    ),
).map("".join)
"""Those of which zoneinfo itself makes the same whichever way it is asked: no change is near the end of a year."""
ZONE_NAMES = st.one_of(st.sampled_from(NAMES), st.integers(1, 600).map(lambda n: "a/" * n + "b"))
SETTINGS = st.one_of(
    ZONE_NAMES, RULES, RULES, RULES.map(":{}".format), st.sampled_from(["/dev/zero", "/", "/dev/null", "."])
)


@st.composite
def damaged(draw, contents):
    """A compiled zone of which a part is lost, or bytes are other ones."""
    content = bytearray(draw(st.sampled_from(contents)))
    content = content[: draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))]
    for _ in range(draw(st.integers(0, 4))):
        if content:
            at = draw(st.one_of(st.integers(0, min(99, len(content) - 1)), st.integers(0, len(content) - 1)))
            content[at] = draw(st.one_of(st.sampled_from([0, 1, 10, 127, 128, 255]), st.integers(0, 255)))
    return bytes(content) + draw(st.sampled_from([b"", b"\n", b"\n\n", b"\nAAA-24\n"]))
