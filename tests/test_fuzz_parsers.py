"""Texts by the hundred, nearly valid ones above all, for everything that reads text. `ci/fuzz` tries many more.

PYSCHED_FUZZ_EXAMPLES is how many of each kind; from a thousand on they differ from run to run.
"""

from __future__ import annotations

import os
import struct
from datetime import datetime, timezone
from zoneinfo import TZPATH

import fuzzing
import pytest
from cron_oracle import Oracle
from croniter import croniter
from fuzzing import near
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pysched.schedule import LONGEST_TEXT, parse_cron
from pysched.testing import ManualClock
from pysched.tzif import compiled_zone

EXAMPLES = int(os.environ.get("PYSCHED_FUZZ_EXAMPLES", "100"))
pytestmark = pytest.mark.timeout(120 + EXAMPLES)
FUZZ = settings(derandomize=EXAMPLES < 1000, database=None, max_examples=EXAMPLES)
LITTLE = settings(FUZZ, max_examples=max(EXAMPLES // 4, 1))
"""For what takes long for each."""


@FUZZ
@given(near(fuzzing.DURATIONS.map("".join)))
@example("0" * 900 + "1s")
@example("9" * 10**6 + "s")
@example("1" + " " * 10**6 + "s")
@example("\u0661s")
def test_durations(text):
    fuzzing.check_duration(text)


@FUZZ
@given(near(fuzzing.FIVE), st.sampled_from([None, "a job", "\ud800"]))
@example("1," * 499 + "1 * * * *", None)
@example("H," * 480 + "H * * * *", "a job")
@example(",".join(f"H({low}-{high})" for low in range(2) for high in range(2, 60)) + " * * * *", "a job")
@example("0 0 * * " + "5#2," * 240 + "5#2", None)
@example("0 0 * * " + ",".join(f"{name}#{n:02}" for name in ("sun", "SUN", "Sun", "7") for n in range(1, 6)), None)
@example("0 0 29 2 */8", None)
@example("* * 29 2 */8", None)  # a Sunday, mostly after 28 years
@example("*/1," * 240 + "*/1 * * * *", None)
@example("1," * 10**6 + "1 * * * *", None)
@example(" " * 10**6, None)
def test_cron_of_five_fields(text, hashed):
    fuzzing.check_cron(text, hashed=hashed)


@FUZZ
@given(st.one_of(near(fuzzing.SIX), near(st.sampled_from(fuzzing.MACROS))), st.sampled_from([None, "a job"]))
def test_cron_of_six_fields_and_macros(text, hashed):
    fuzzing.check_cron(text, seconds=True, hashed=hashed)


@FUZZ
@given(near(fuzzing.ZONE_NAMES))
@example("a/" * 10**4 + "b")
@example("a." * 10**4 + "b/c")
def test_names_of_zones(text):
    fuzzing.check_zone(text)


@FUZZ
@given(near(fuzzing.SETTINGS))
@example("AAA24")
@example("AAA-24:59:59")
@example("AAA-23:30BBB")
@example("a/" * 10**4 + "b")
@example("AAA5BBB\xe9,M3.2.0,M11.1.0")
def test_settings_of_tz(text):
    fuzzing.check_setting(text)


@LITTLE
@given(fuzzing.SANE_RULES, st.sampled_from(["* * * * *", "*/7 */5 * * *", "30 2 * * *", "59 23 31 12 *", "0 0 1 1 *"]))
@example("XXX3EDT4,0/0,J365/23", "0 0 1 1 *")  # as RFC 8536 writes summer time without an end
@example("AAA23:30BBB22:30,J30,J330", "59 23 31 12 *")
def test_calendars_in_zones_of_rules(rule, expression):
    fuzzing.check_rule(rule, expression)


def compiled():
    """The contents of compiled zones of this system, of tzdata, and one of version 1."""
    found = []
    for key in ("Europe/Berlin", "America/Santiago", "Etc/GMT+5", "Africa/Casablanca"):
        for directory in TZPATH:
            path = os.path.join(directory, key)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found.append(file.read())
                break
    counts = struct.pack(">4sc15x6l", b"TZif", b"\0", 0, 0, 0, 2, 2, 8)
    found.append(
        counts + struct.pack(">2l2B", 0, 10**6, 1, 0) + struct.pack(">lBBlBB", 0, 0, 0, 3600, 1, 4) + b"UTC\0BST\0"
    )
    return found


COMPILED = compiled()


@FUZZ
@given(fuzzing.damaged(COMPILED))
@example(b"")
@example(COMPILED[0][:-1])  # zoneinfo itself reads on for ever
@example(COMPILED[0] + b"\n")
def test_compiled_zones_that_are_damaged(content):
    fuzzing.check_zone_file(content)


@pytest.mark.parametrize("content", COMPILED, ids=len)
def test_a_compiled_zone_that_is_whole(content):
    assert compiled_zone(content, "whole") is not None
    assert all(compiled_zone(content[:length], "cut off") is None for length in range(len(content)))


def simple(low, high):
    """A field in which croniter and we read the same: no step after a single number, and the day 0 is no 7."""
    pair = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True)  # 0-0 is all days to croniter
    span = pair.map(sorted)
    item = st.one_of(
        st.integers(low, high).map(str),
        span.map("{0[0]}-{0[1]}".format),
        st.tuples(span, st.integers(1, high)).map("{0[0][0]}-{0[0][1]}/{0[1]}".format),
    )
    return st.one_of(
        st.just("*"), st.integers(1, high).map("*/{}".format), st.lists(item, min_size=1, max_size=3).map(",".join)
    )


SIMPLE = st.tuples(simple(0, 59), simple(0, 23), simple(1, 28), simple(1, 12), simple(0, 6)).map(" ".join)


@FUZZ
@given(SIMPLE, st.integers(0, 4 * 10**9))
def test_croniter_agrees_where_the_rules_do(calendar, expression, instant):
    fields = parse_cron(expression)
    there = croniter(expression, datetime.fromtimestamp(instant, timezone.utc), day_or=fields.either_day)
    here = calendar.Calendar(fields, calendar.Zone(timezone.utc))
    assert here.datetimes(instant, 3) == [there.get_next(datetime) for _ in range(3)]


@LITTLE
@given(SIMPLE, st.integers(0, 4 * 10**9))
def test_what_lies_before_the_next_slot_matches_nothing(calendar, expression, instant):
    """Against a walk over the minutes, for a day."""
    expected = Oracle(expression).slots(timezone.utc, instant, instant + 86400, warm_up=0)
    here = calendar.Calendar(parse_cron(expression), calendar.Zone(timezone.utc))
    assert here.count(instant, instant + 86400, 2000) == len(expected)
    assert here.next(instant) == expected[0] if expected else here.next(instant) > instant + 86400


@LITTLE
@given(near(st.text(max_size=20)))
def test_ids_names_and_tags(scheduler_type, text):
    clock = ManualClock()
    scheduler = scheduler_type(clock=clock, timezone="UTC")
    ran = []
    _, message = fuzzing.refusal(scheduler.every, "1s", lambda: ran.append(1), id=text, name=text, tags=[text])
    scheduler.start_background()
    if message is None:
        clock.advance(1)
        assert ran == [1]
        [info] = scheduler.list_jobs(tag=text)
        assert (info["id"], info["name"]) == (text, text)
        assert scheduler.get_job(text).id == text
        assert scheduler.remove_job(text)
    else:
        assert not text
        assert message.startswith("id ")
    scheduler.shutdown()


@LITTLE
@given(near(st.sampled_from(["one", "none", "all", "skip", "queue", "error", "missed"])))
def test_choices(scheduler_type, text):
    scheduler = scheduler_type(clock=ManualClock(), timezone="UTC")
    for name, call in {
        "catch_up": lambda: scheduler.every("1s", print, catch_up=text),
        "overlap": lambda: scheduler.every("1s", print, overlap=text),
        "event": lambda: scheduler.on(text, print),
    }.items():
        _, message = fuzzing.refusal(call)
        assert message is None or message.startswith(f"{name} must be one of ")
    assert len(scheduler.list_jobs()) <= 1
    scheduler.shutdown()


@pytest.mark.parametrize("number", [10**5000, -(10**5000)], ids=["huge", "very negative"])
def test_numbers_that_python_does_not_print(impl, scheduler_type, number):
    """Of more than 4,300 digits: the message names the argument all the same."""
    scheduler = scheduler_type(clock=ManualClock(), timezone="UTC")
    for name, call in {
        "interval": lambda: scheduler.every(number, print),
        "max_instances": lambda: scheduler.every("1s", print, max_instances=number),
        "max_runs": lambda: scheduler.every("1s", print, max_runs=number),
        "timeout": lambda: scheduler.every("1s", print, timeout=number),
        "jitter": lambda: scheduler.every("1s", print, jitter=number),
        "max_workers": lambda: scheduler_type(max_workers=number),
        "executor": lambda: impl.Engine(number),
        "interval ": lambda: impl.Engine().call_every(number, print),
    }.items():
        with pytest.raises(ValueError, match=f"^{name.strip()}[ ,]"):
            call()
    with pytest.raises(ValueError, match="^max_workers "):
        impl.CommandScheduler(max_workers=number)
    scheduler.shutdown()


def test_the_most_parts_with_h():
    texts = [",".join(f"H({low}-{low + 9})" for low in range(count)) for count in (6, 7)]
    parse_cron(f"{texts[0]} {texts[0]} * * thu", hashed="a job")
    with pytest.raises(ValueError, match="it must have at most 12 different parts with H, got 13"):
        parse_cron(f"{texts[1]} {texts[0]} * * *", hashed="a job")


def test_the_longest_text():
    least = "* * * * " + ",".join(["1"] * 496)
    assert parse_cron(least.ljust(LONGEST_TEXT)).expression == least.rstrip()
    with pytest.raises(ValueError, match="it must have at most 1000 characters, got 1001"):
        parse_cron(least.ljust(LONGEST_TEXT + 1))
