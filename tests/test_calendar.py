"""Calendars: against an oracle around changes of offset, against each other everywhere, and at their edges."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cron_oracle import Oracle
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pysched._engine import calendar as native
from pysched._pure import calendar as pure
from pysched.offsets import FIRST, LAST, offset_changes
from pysched.schedule import parse_cron

ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
DAY = 86400
FROM, TO = 0, 4_102_444_800  # 1970 to 2100

DETERMINISTIC = settings(derandomize=True, database=None, max_examples=100)


def field(low, high, names=()):
    """The text of a field, of all shapes; mostly dense, so that a window of hours has slots."""
    number = st.integers(low, high)
    step = st.integers(1, high)
    value = st.sampled_from(names) if names else number.map(str)
    span = st.tuples(number, number).map(sorted).map("{0[0]}-{0[1]}".format)
    item = st.one_of(
        value,
        span,
        st.tuples(span, step).map("{0[0]}/{0[1]}".format),
        st.tuples(number, step).map("{0[0]}/{0[1]}".format),
    )
    items = st.lists(item, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), step.map("*/{}".format), items, items)


NTH = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5)), min_size=1, max_size=2)
DAYS = st.one_of(st.just("*"), st.just("*"), field(1, 31), st.just("L"), st.just("1,L"))
MONTHS = st.one_of(st.just("*"), st.just("*"), field(1, 12), field(1, 12, ("JAN", "feb", "Nov")))
WEEKDAYS = st.one_of(
    st.just("*"),
    field(0, 7),
    field(0, 7, ("sun", "MON", "Sat")),
    NTH.map(lambda nth: ",".join(f"{weekday}#{n}" for weekday, n in nth)),
)
EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), DAYS, MONTHS, WEEKDAYS).map(" ".join)
FREQUENT = st.tuples(field(0, 59), field(0, 23), st.just("*"), st.just("*"), st.sampled_from(["*", "*", "1-6"]))


def fields_of(expression, **options):
    """The fields, unless the expression is of a date that never comes."""
    try:
        return parse_cron(expression, **options)
    except ValueError as error:
        assume("never comes" not in str(error))
        raise


@st.composite
def changes(draw):
    """A zone, the instant of one of its changes from 1970 to 2100, and the size of the change."""
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    starts, offsets, _, _ = offset_changes(zone)
    whole = [
        index
        for index in range(1, len(offsets))
        if FROM <= starts[index] < TO and not (offsets[index] % 60 or offsets[index - 1] % 60)
    ]
    assume(whole)
    index = draw(st.sampled_from(whole))
    return zone, starts[index], offsets[index] - offsets[index - 1]


def all_between(calendar, after, until):
    found = []
    slot = calendar.next(after)
    while slot is not None and slot <= until:
        found.append(slot)
        slot = calendar.next(slot)
    return found


def all_back(calendar, after, until):
    found = []
    slot = calendar.previous(until)
    while slot is not None and slot > after:
        found.append(slot)
        slot = calendar.previous(slot - 1)
    return found[::-1]


def check_window(calendar_of, expected, after, until):
    assert all_between(calendar_of, after, until) == expected
    assert all_back(calendar_of, after, until) == expected
    assert calendar_of.count(after, until, 10**6) == len(expected)
    moments = calendar_of.datetimes(after, len(expected))
    zone = calendar_of.zone.tzinfo
    right = [datetime.fromtimestamp(slot, zone) for slot in expected]
    assert [(each.replace(tzinfo=None), each.fold) for each in moments] == [
        (each.replace(tzinfo=None), each.fold) for each in right
    ]
    assert all(each.tzinfo is zone for each in moments)


@DETERMINISTIC
@given(changes(), st.one_of(EXPRESSIONS, FREQUENT.map(" ".join)), st.integers(-600, 600), st.integers(30, 900))
def test_against_the_oracle_around_a_change(calendar, change, expression, minutes_before, minutes):
    zone, instant, size = change
    after = instant - minutes_before * 60 - 17
    until = after + minutes * 60
    expected = Oracle(expression).slots(zone, after, until, warm_up=abs(size) + 900 * 60)
    check_window(calendar.Calendar(fields_of(expression), calendar.Zone(zone)), expected, after, until)


@settings(DETERMINISTIC, max_examples=30)
@given(changes(), field(0, 59), FREQUENT, st.sampled_from([-1, 0, 0, 0, 1]), st.integers(0, 400))
def test_against_the_oracle_second_by_second(calendar, change, second, others, away, seconds_before):
    zone, instant, size = change
    assume(abs(size) <= 3600)
    expression = " ".join([second, *others])
    after = instant + away * size - seconds_before
    until = after + 500
    expected = Oracle(expression, seconds=True).slots(zone, after, until, warm_up=2 * abs(size))
    check_window(calendar.Calendar(fields_of(expression, seconds=True), calendar.Zone(zone)), expected, after, until)


@settings(DETERMINISTIC, max_examples=200)
@given(st.sampled_from(ZONES), EXPRESSIONS, st.integers(FIRST - DAY, LAST + DAY))
def test_the_twins_agree_at_any_time(zone, expression, instant):
    fields = fields_of(expression)
    one, other = (module.Calendar(fields, module.Zone(ZoneInfo(zone))) for module in (native, pure))
    slot = one.next(instant)
    assert other.next(instant) == slot
    assert one.previous(instant) == other.previous(instant)
    assert one.datetimes(instant, 3) == other.datetimes(instant, 3)
    if slot is not None:
        assert instant < slot <= LAST
        assert one.previous(slot) == slot
        assert (one.previous(slot - 1) or instant) <= instant
        assert one.count(instant, slot, 5) == other.count(instant, slot, 5) == 1
        assert one.count(instant, slot - 1, 5) == 0


@pytest.mark.parametrize("offset", [-2670, -44 * 60 - 30, 30, 3661])
def test_minutes_of_offsets_with_seconds_are_those_of_the_wall(calendar, offset):
    zone = timezone(timedelta(seconds=offset))
    each_minute = calendar.Calendar(parse_cron("* * * * *"), calendar.Zone(zone))
    assert {moment.second for moment in each_minute.datetimes(0, 100)} == {0}


def test_a_gap_that_ends_within_a_minute_is_made_up_for_in_the_next(calendar):
    zone = calendar.Zone(ZoneInfo("Africa/Monrovia"))  # on 7 January 1972 from 0:00 to 0:44:30
    after = int(datetime(1972, 1, 6, 12, tzinfo=timezone.utc).timestamp())
    for expression, first in [("10 0 * * *", "00:45:00"), ("44 0 * * *", "00:45:00"), ("45 0 * * *", "00:45:00")]:
        fixed = calendar.Calendar(parse_cron(expression), zone)
        slots = fixed.datetimes(after, 2)
        assert [str(slot)[:19] for slot in slots] == [f"1972-01-07 {first}", f"1972-01-08 00:{expression[:2]}:00"]
        assert fixed.previous(int(slots[0].timestamp()) - 1) < after
        assert fixed.next(int(slots[0].timestamp()) - 20) == slots[0].timestamp()
    by_second = calendar.Calendar(parse_cron("7 10 0 * * *", seconds=True), zone)
    assert str(by_second.datetimes(after, 1)[0])[:19] == "1972-01-07 00:44:30"


@pytest.mark.parametrize(
    ("expression", "years"),
    [
        ("0 0 29 2 *", [2024, 2028, 2032]),
        ("0 0 29 2 */8", [2032, 2060, 2088]),  # a Sunday
        ("0 0 * 2 1#5", [2044, 2072, 2112]),  # a Monday; 2100 is no leap year
    ],
)
def test_dates_that_seldom_come(calendar, expression, years):
    rare = calendar.Calendar(parse_cron(expression), calendar.Zone(timezone.utc))
    begin = int(datetime(2023, 3, 1, tzinfo=timezone.utc).timestamp())
    assert [moment.year for moment in rare.datetimes(begin, 3)] == years
    last = rare.previous(LAST)
    assert rare.next(last) is None
    first = rare.next(FIRST)
    assert rare.previous(first - 1) is None


def test_the_edges_of_time(calendar):
    each_second = calendar.Calendar(parse_cron("* * * * * *", seconds=True), calendar.Zone(timezone.utc))
    assert each_second.next(LAST) is None
    assert each_second.next(LAST - 1) == LAST
    assert each_second.previous(2**63 - 1) == LAST
    assert each_second.previous(FIRST - 1) is None
    assert each_second.previous(FIRST) == FIRST
    assert each_second.next(-(2**63)) == FIRST
    assert each_second.next(2**63 - 1) is None
    assert each_second.count(0, 10**6, 1000) == 1000
    assert each_second.count(0, 999, 1000) == 999
    assert each_second.count(10, 5, 1000) == 0
    assert each_second.count(0, 5, 0) == 0
    assert each_second.datetimes(0, 0) == []
    assert len(each_second.datetimes(LAST - 2, 10)) == 2


def test_a_zone_may_be_any_tzinfo(calendar):
    class Jumping(tzinfo):
        """An hour ahead in 2000, in agreement with UTC else, and with a fold."""

        def fromutc(self, moment):
            begin, end = datetime(2000, 1, 1), datetime(2001, 1, 1)  # noqa: DTZ001
            utc = moment.replace(tzinfo=None)
            local = utc + timedelta(hours=begin <= utc < end)
            return local.replace(tzinfo=self, fold=end <= utc < end + timedelta(hours=1))

        def utcoffset(self, moment):
            local = moment.replace(tzinfo=None, fold=0)
            begin, end = datetime(2000, 1, 1, 1), datetime(2001, 1, 1, 1 - moment.fold)  # noqa: DTZ001
            return timedelta(hours=begin <= local < end)

        def dst(self, moment):
            return timedelta(0)

    zone = Jumping()
    made = calendar.Zone(zone)
    assert made.tzinfo is zone
    assert made.changes() == [(FIRST, 0), (946_684_800, 3600), (978_307_200, 0)]
    fixed = calendar.Calendar(parse_cron("30 0 * * *"), made)
    assert [str(moment) for moment in fixed.datetimes(946_684_799 - DAY, 2)] == [
        "1999-12-31 00:30:00+00:00",
        "2000-01-01 01:00:00+01:00",
    ]
    hourly = calendar.Calendar(parse_cron("30 * * * *"), made)
    assert [str(moment) for moment in hourly.datetimes(978_307_200 - 3600, 2)] == [
        "2001-01-01 00:30:00+01:00",
        "2001-01-01 00:30:00+00:00",
    ]


class Broken(tzinfo):
    def __init__(self, offset):
        self.offset = offset

    def fromutc(self, moment):
        return moment

    def utcoffset(self, moment):
        return self.offset()


def test_a_zone_passes_on_what_its_tzinfo_raises(calendar):
    def fail():
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        calendar.Zone(Broken(fail))
    with pytest.raises(ValueError, match="no offset"):
        calendar.Zone(Broken(lambda: None))
    with pytest.raises(ValueError, match="whole seconds"):
        calendar.Zone(Broken(lambda: timedelta(microseconds=1)))
    with pytest.raises(ValueError, match="whole seconds"):
        calendar.Zone(timezone(timedelta(microseconds=1)))


def test_a_calendar_refuses_what_no_expression_has(calendar):
    zone = calendar.Zone(timezone.utc)
    fields = parse_cron("0 0 * * *")
    changed = {name: getattr(fields, name) for name in type(fields).__slots__}
    for name, mask in [("second", 0), ("minute", 1 << 60), ("hour", 1 << 24), ("month", 1), ("month", 1 << 13)]:
        with pytest.raises(ValueError, match=name):
            calendar.Calendar(type(fields)(**{**changed, name: mask}), zone)
    for wrong in (None, timezone.utc):
        with pytest.raises(TypeError):
            calendar.Calendar(fields, wrong)
    assert calendar.Calendar(fields, zone).fields is fields
    assert calendar.Calendar(fields, zone).zone is zone
    with pytest.raises(AttributeError):
        calendar.Calendar(fields, zone).fields = fields
    for ask in (calendar.Calendar(fields, zone).next, calendar.Calendar(fields, zone).previous):
        with pytest.raises(TypeError):
            ask(0.5)


def test_fields_are_values():
    fields = parse_cron("0 0 L * 5#2")
    assert fields == parse_cron(" 0 0\tL * 5#2 ")
    assert hash(fields) == hash(parse_cron("0 0 L * 5#2"))
    assert pickle.loads(pickle.dumps(fields)) == fields
    with pytest.raises(AttributeError):
        fields.minute = 1
    assert not hasattr(fields, "__dict__")
