"""Cron, case by case: the corpus of tests/cron_cases.jsonl, whose times come from independent oracles, and our own."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pysched.schedule import parse_cron

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "cron_cases.jsonl").read_text().splitlines()]


def slots(calendar, fields, zone, start, n):
    """The next `n` times as text, by next() and by datetimes(), and back by previous()."""
    calendar_of = calendar.Calendar(fields, calendar.Zone(ZoneInfo(zone)))
    after = int(datetime.fromisoformat(start).timestamp())
    found = calendar_of.datetimes(after, n)
    instants = [int(moment.timestamp()) for moment in found]
    for instant in instants:
        assert calendar_of.next(after) == instant
        assert calendar_of.count(after, instant, 10) == 1
        assert calendar_of.previous(instant) == instant
        assert (calendar_of.previous(instant - 1) or after) <= after
        after = instant
    return [moment.isoformat() for moment in found]


@pytest.mark.parametrize("kind", sorted({case["kind"] for case in CORPUS}))
def test_the_corpus(calendar, kind):
    wrong = []
    for case in CORPUS:
        if case["kind"] != kind:
            continue
        if case.get("error"):
            with pytest.raises(ValueError, match="^invalid cron expression "):
                parse_cron(case["expr"])
            continue
        found = slots(calendar, parse_cron(case["expr"]), case["tz"], case["start"], len(case["next"]))
        if found != case["next"]:
            wrong.append((case["id"], found, case["next"]))
    assert not wrong


NEW_YORK = "America/New_York"  # 2024: forward on 10 March at 2:00, back on 3 November at 2:00
LORD_HOWE = "Australia/Lord_Howe"  # 2024: back by 30 minutes on 7 April at 2:00, forward on 6 October at 2:00
OURS = {
    "yearly": ("@yearly", "UTC", "2024-01-01T00:00+00:00", ["2025-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"]),
    "annually": ("@annually", "UTC", "2024-02-01T00:00+00:00", ["2025-01-01T00:00:00+00:00"]),
    "monthly": ("@monthly", "UTC", "2024-02-01T00:00+00:00", ["2024-03-01T00:00:00+00:00"]),
    "weekly": ("@weekly", "UTC", "2024-02-01T00:00+00:00", ["2024-02-04T00:00:00+00:00", "2024-02-11T00:00:00+00:00"]),
    "daily where midnight is skipped": (
        "@daily",
        "America/Sao_Paulo",
        "2018-11-03T12:00-03:00",
        ["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"],
    ),
    "midnight where it comes twice": (
        "@midnight",
        "America/Havana",
        "2024-11-02T12:00-04:00",
        ["2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"],
    ),
    "hourly follows the wall clock": (
        "@hourly",
        NEW_YORK,
        "2024-11-03T00:30-04:00",
        ["2024-11-03T01:00:00-04:00", "2024-11-03T01:00:00-05:00", "2024-11-03T02:00:00-05:00"],
    ),
    "the last day": (
        "0 0 L * *",
        "UTC",
        "2024-02-01T00:00+00:00",
        ["2024-02-29T00:00:00+00:00", "2024-03-31T00:00:00+00:00", "2024-04-30T00:00:00+00:00"],
    ),
    "the last day of February": (
        "0 0 L 2 *",
        "UTC",
        "2096-03-01T00:00+00:00",
        [f"{year}-02-28T00:00:00+00:00" for year in range(2097, 2102)],
    ),
    "the 15th and the last day": (
        "30 6 15,L * *",
        "UTC",
        "2024-01-20T00:00+00:00",
        ["2024-01-31T06:30:00+00:00", "2024-02-15T06:30:00+00:00", "2024-02-29T06:30:00+00:00"],
    ),
    "the last day or a Monday": (
        "0 0 L * mon",
        "UTC",
        "2024-01-22T00:00+00:00",
        ["2024-01-29T00:00:00+00:00", "2024-01-31T00:00:00+00:00", "2024-02-05T00:00:00+00:00"],
    ),
    "the last day, if on every other weekday": (
        "0 0 L * */2",  # Sunday, Tuesday, Thursday, Saturday
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2024-02-29T00:00:00+00:00", "2024-03-31T00:00:00+00:00", "2024-04-30T00:00:00+00:00"],
    ),
    "a day that is skipped": (
        "0 0 30 12 *",  # Apia went from 29 to 31 December
        "Pacific/Apia",
        "2011-12-01T00:00-10:00",
        ["2011-12-31T00:00:00+14:00", "2012-12-30T00:00:00+14:00"],
    ),
    "the second Friday": (
        "0 9 * * 5#2",
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2024-01-12T09:00:00+00:00", "2024-02-09T09:00:00+00:00", "2024-03-08T09:00:00+00:00"],
    ),
    "the second and fourth Friday, by name": (
        "0 9 * * FRI#2,fri#4",
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2024-01-12T09:00:00+00:00", "2024-01-26T09:00:00+00:00", "2024-02-09T09:00:00+00:00"],
    ),
    "the first Sunday": ("0 9 * * 7#1", "UTC", "2024-01-08T00:00+00:00", ["2024-02-04T09:00:00+00:00"]),
    "the fifth Friday": (
        "0 0 * * 5#5",
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2024-03-29T00:00:00+00:00", "2024-05-31T00:00:00+00:00", "2024-08-30T00:00:00+00:00"],
    ),
    "the fifth Friday of February": (
        "0 0 * 2 5#5",
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2036-02-29T00:00:00+00:00", "2064-02-29T00:00:00+00:00"],
    ),
    "the 1st or the second Friday": (
        "0 0 1 * 5#2",
        "UTC",
        "2024-01-01T00:00+00:00",
        ["2024-01-12T00:00:00+00:00", "2024-02-01T00:00:00+00:00", "2024-02-09T00:00:00+00:00"],
    ),
}
IN_SECONDS = {
    "a gap": (
        "15 30 2 * * *",
        NEW_YORK,
        "2024-03-09T03:00-05:00",
        ["2024-03-10T03:00:00-04:00", "2024-03-11T02:30:15-04:00"],
    ),
    "a gap, the next second after it being a slot as well": (
        "10-12 59,0 2,3 * * *",
        NEW_YORK,
        "2024-03-10T01:59:59-05:00",
        ["2024-03-10T03:00:00-04:00", "2024-03-10T03:00:10-04:00", "2024-03-10T03:00:11-04:00"],
    ),
    "a gap, with a star": (
        "*/30 30 2 * * *",
        NEW_YORK,
        "2024-03-09T03:00-05:00",
        ["2024-03-11T02:30:00-04:00", "2024-03-11T02:30:30-04:00", "2024-03-12T02:30:00-04:00"],
    ),
    "a gap of half an hour": (
        "59 10 2 * * *",
        LORD_HOWE,
        "2024-10-05T12:00+10:30",
        ["2024-10-06T02:30:00+11:00", "2024-10-07T02:10:59+11:00"],
    ),
    "a repeated hour": (
        "15 30 1 * * *",
        NEW_YORK,
        "2024-11-02T03:00-04:00",
        ["2024-11-03T01:30:15-04:00", "2024-11-04T01:30:15-05:00"],
    ),
    "a repeated hour, with a star": (
        "*/30 30 1 * * *",
        NEW_YORK,
        "2024-11-03T01:00-04:00",
        [
            *("2024-11-03T01:30:00-04:00", "2024-11-03T01:30:30-04:00"),
            *("2024-11-03T01:30:00-05:00", "2024-11-03T01:30:30-05:00", "2024-11-04T01:30:00-05:00"),
        ],
    ),
    "a repeated half hour": (
        "5,50 45 1 * * *",
        LORD_HOWE,
        "2024-04-07T01:45:05+11:00",
        ["2024-04-07T01:45:50+11:00", "2024-04-08T01:45:05+10:30"],
    ),
    "a macro": ("@daily", "UTC", "2024-01-01T00:00+00:00", ["2024-01-02T00:00:00+00:00"]),
    "the seconds of a day": (
        "59 59 23 31 12 *",
        "UTC",
        "2024-12-31T23:59:58+00:00",
        ["2024-12-31T23:59:59+00:00", "2025-12-31T23:59:59+00:00"],
    ),
}


@pytest.mark.parametrize("case", OURS)
def test_our_cases(calendar, case):
    expression, zone, start, expected = OURS[case]
    assert slots(calendar, parse_cron(expression), zone, start, len(expected)) == expected


@pytest.mark.parametrize("case", IN_SECONDS)
def test_cases_with_seconds(calendar, case):
    expression, zone, start, expected = IN_SECONDS[case]
    assert slots(calendar, parse_cron(expression, seconds=True), zone, start, len(expected)) == expected


def test_hashed_expressions_are_fixed_time_jobs(calendar):
    fields = parse_cron("H(30-30) H(2-2) * * *", hashed="a job")
    found = slots(calendar, fields, NEW_YORK, "2024-03-09T03:00-05:00", 2)
    assert found == ["2024-03-10T03:00:00-04:00", "2024-03-11T02:30:00-04:00"]


@pytest.mark.parametrize("text", ["H", "H/15", "H(0-29)", "H(10-50)/7"])
def test_hashed_steps_pass_over_a_gap_as_fixed_times_do(calendar, text):
    fields = parse_cron(f"{text} 2 * * *", hashed="a job")
    assert slots(calendar, fields, NEW_YORK, "2024-03-10T01:00-05:00", 1) == ["2024-03-10T03:00:00-04:00"]
