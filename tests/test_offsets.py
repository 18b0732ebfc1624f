"""The changes that sampling finds, against zoneinfo's own lists; and what is kept."""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo, _zoneinfo  # type: ignore[attr-defined]

import pytest
from support import in_other_thread, nothing

from pysched import offsets
from pysched.offsets import FIRST, LAST, SAMPLING, offset_changes
from pysched.testing import ManualClock

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
LAST_YEAR = 2262


def seconds(offset):
    return offset // timedelta(seconds=1)


def own_changes(zone):
    """(instant, offset) of each change of a pure-Python ZoneInfo, from its private tables and its last rule."""
    found = [(instant, seconds(info.utcoff)) for instant, info in zip(zone._trans_utc, zone._ttinfos, strict=True)]
    rule = zone._tz_after
    if isinstance(rule, _zoneinfo._TZStr):
        year = EPOCH.year if not found else (EPOCH + timedelta(seconds=found[-1][0])).year
        last = found[-1][0] if found else FIRST
        standard, summer = seconds(rule.std.utcoff), seconds(rule.dst.utcoff)
        for each in range(year, LAST_YEAR + 1):
            begin, end = rule.transitions(each)  # each in the local time before it
            found += sorted(
                change for change in [(begin - standard, summer), (end - summer, standard)] if change[0] > last
            )
    before = seconds(zone._tti_before.utcoff) if zone._tti_before else seconds(rule.utcoff)
    changes = [(FIRST, before)]
    for instant, offset in found:
        if instant <= FIRST:
            changes = [(FIRST, offset)]
        elif offset != changes[-1][1] and instant <= LAST:
            changes.append((instant, offset))
    return changes


@pytest.fixture(params=["system", "tzdata"])
def database(request):
    """The zone database of this system, and that of the package tzdata."""
    if request.param == "tzdata":
        pytest.importorskip("tzdata")
    path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(path if request.param == "system" else [])
    yield request.param
    zoneinfo.reset_tzpath(path)


@pytest.mark.slow
def test_sampling_misses_no_change_of_any_zone(database):
    known = {}
    for key in sorted(zoneinfo.available_timezones()):
        own = tuple(own_changes(_zoneinfo.ZoneInfo.no_cache(key)))
        if own not in known:
            known[own] = key
            starts, found, _, simple = offsets._found(ZoneInfo.no_cache(key))
            assert simple
            assert starts[-1] == LAST + 1
            assert tuple(zip(starts, found, strict=False)) == own, key
    ends = [*(begin for begin, _ in SAMPLING[1:]), LAST]
    for own, key in known.items():
        for (start, _), (end, _) in pairwise(own[1:]):
            # Sampled more rarely later, so what matters is how often it is where the stay ends.
            days = next(days for (_, days), limit in zip(SAMPLING, ends, strict=True) if end <= limit)
            assert end - start > days * 86400, key


def test_marks_are_the_greatest_local_time_so_far():
    starts, found, marks, _ = offset_changes(ZoneInfo("Europe/Berlin"))
    greatest = starts[0] + found[0]
    for index, mark in enumerate(marks):
        if index:
            greatest = max(greatest, starts[index] + found[index - 1])
        assert mark == greatest


def test_fixed_offsets_are_not_sampled():
    for zone in (timezone.utc, timezone(timedelta(hours=5, seconds=1)), ZoneInfo("UTC")):
        offset = seconds(zone.utcoffset(None))
        assert offset_changes(zone) == ([FIRST, LAST + 1], [offset], [FIRST + offset, LAST + 1 + offset], True)


def test_changes_are_kept_for_some_zones():
    zone = ZoneInfo.no_cache("Europe/Berlin")
    changes = offset_changes(zone)
    assert offset_changes(zone) is changes
    for minutes in range(100):
        offset_changes(timezone(timedelta(minutes=minutes)))
    assert len(offsets._kept) <= offsets._KEPT
    assert offset_changes(zone) is not changes


class Dying(tzinfo):
    """A zone that does something when it goes."""

    def __init__(self, act):
        self.act = act

    def utcoffset(self, dt):
        return timedelta(hours=1)

    def dst(self, dt):
        return timedelta(0)

    def fromutc(self, dt):
        return dt

    def __del__(self):
        self.act()


def test_a_zone_that_goes_may_bring_a_new_one_in(scheduler_type):
    """The oldest of the zones that are kept goes for a new one, and its destructor registers a job in another."""
    scheduler, ended = scheduler_type(clock=ManualClock(), timezone="UTC"), []

    def register():
        scheduler.cron("* * * * *", nothing, timezone=ZoneInfo.no_cache("Asia/Tokyo"))
        ended.append(len(offsets._kept))

    def fill():
        for _ in range(3):
            offset_changes(Dying(register))
        for minutes in range(2 * offsets._KEPT):
            offset_changes(timezone(timedelta(minutes=minutes)))

    assert in_other_thread(fill), "it waits for itself"
    assert len(ended) == 3
    assert len(scheduler) == 3
    assert len(offsets._kept) <= offsets._KEPT
    scheduler.shutdown()


def test_dateutil_zones_are_read():
    tz = pytest.importorskip("dateutil.tz")
    zone = tz.tzrange("EST", -18000, "EDT")
    starts, found, _, simple = offset_changes(zone)
    assert not simple
    assert set(found) == {-18000, -14400}
    assert len(starts) > 2 * 400
