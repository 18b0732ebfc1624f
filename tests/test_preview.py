"""`pysched.preview`, on both engines."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from support import assert_quiet, run_python

from pysched import forecast, preview

START = datetime(2024, 1, 15, 10, 20, tzinfo=timezone.utc)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def engine(calendar, monkeypatch):
    monkeypatch.setattr(forecast, "Calendar", calendar.Calendar)
    monkeypatch.setattr(forecast, "Zone", calendar.Zone)


def test_the_times_are_aware_and_in_the_zone():
    for tz in ("Europe/Berlin", BERLIN):
        found = preview("0 12 * * mon-fri", 3, tz=tz, start=START)
        assert found == [datetime(2024, 1, day, 12, tzinfo=BERLIN) for day in (15, 16, 17)]
        assert all(moment.tzinfo is BERLIN for moment in found)


def test_the_start_is_exclusive():
    for microsecond, minutes in [(0, 5), (1, 5), (999_999, 5)]:
        begin = START.replace(microsecond=microsecond)
        assert preview("*/5 * * * *", 1, "UTC", begin) == [START + timedelta(minutes=minutes)]
    assert preview("*/5 * * * *", 1, "UTC", START - timedelta(microseconds=1)) == [START]


def test_the_start_may_be_in_any_zone_and_in_a_second_pass():
    first = datetime(2024, 10, 27, 2, 15, tzinfo=BERLIN)
    for start, expected in [(first, 0), (first.replace(fold=1), 1)]:
        [moment] = preview("30 * * * *", 1, BERLIN, start)
        assert (moment.replace(tzinfo=None), moment.fold) == (datetime(2024, 10, 27, 2, 30), expected)  # noqa: DTZ001


def test_the_start_is_now_unless_it_is_given():
    before = datetime.now(timezone.utc)
    [moment] = preview("* * * * *", 1, "UTC")
    assert before < moment <= before + timedelta(seconds=70)


def test_the_zone_is_that_of_the_system_unless_it_is_given(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert preview("0 0 * * *", 1, start=START)[0].tzinfo is ZoneInfo("Asia/Tokyo")


def test_with_seconds():
    found = preview("*/20 * * * * *", 3, "UTC", START, seconds=True)
    assert [moment.second for moment in found] == [20, 40, 0]


def test_there_are_fewer_at_the_end_of_time():
    assert [moment.year for moment in preview("@yearly", 10**30, "UTC", datetime(2260, 1, 1, tzinfo=timezone.utc))] == [
        2261,
        2262,
    ]
    assert preview("@yearly", 1, "UTC", datetime.max.replace(tzinfo=timezone.utc)) == []
    assert preview("@yearly", 1, "UTC", datetime.min.replace(tzinfo=timezone.utc))[0].year == 1840


@pytest.mark.parametrize("n", [0, -1])
def test_n_must_be_positive(n):
    with pytest.raises(ValueError, match="^n must be positive"):
        preview("* * * * *", n)


@pytest.mark.parametrize("n", [True, 1.0, "1", None])
def test_n_must_be_an_int(n):
    with pytest.raises(TypeError, match="^n must be an int"):
        preview("* * * * *", n)


def test_refusals_name_the_argument():
    with pytest.raises(TypeError, match="^seconds must be a bool, got int$"):
        preview("* * * * * *", 1, seconds=1)
    with pytest.raises(ValueError, match="^start must be aware"):
        preview("* * * * *", 1, start=datetime(2024, 1, 1))  # noqa: DTZ001
    for start in (0, "2024-01-01", START.date()):
        with pytest.raises(TypeError, match="^start must be an aware datetime"):
            preview("* * * * *", 1, start=start)
    with pytest.raises(ValueError, match="^tz must be the name"):
        preview("* * * * *", 1, "Nowhere/City")
    with pytest.raises(TypeError, match="^tz must be the name"):
        preview("* * * * *", 1, 5)
    with pytest.raises(ValueError, match="minute field"):
        preview("60 * * * *", 1)
    with pytest.raises(ValueError, match="H needs hashed"):
        preview("H * * * *", 1)


@pytest.mark.parametrize("name", ["native", "pure"])
def test_it_uses_the_engine_that_was_chosen(name):
    program = """
        import sys, pysched
        print(pysched.preview("0 0 1 1 *", 1, "UTC")[0].month)
        other = {"native": "pysched._pure", "pure": "pysched._engine"}[pysched.engine_name]
        assert not [module for module in sys.modules if module.startswith(other)]
        import pysched.forecast
        assert callable(pysched.preview)
    """
    process = run_python(program, engine=name)
    assert_quiet(process)
    assert process.stdout == "1\n"
