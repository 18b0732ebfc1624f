"""The twin of the compiled calendar: which instants a cron expression means in a time zone.

Instants are Unix seconds from `FIRST` to `LAST` (1840 to 2262); there are no slots elsewhere. A *local* time is a
number as well: the seconds from 1970-01-01 00:00 to what a clock on the wall shows. In a stretch of constant
offset (see `offsets`) it is the instant plus the offset.

Wildcard jobs follow the wall clock, stretch by stretch. Fixed-time jobs follow the greatest local time reached so
far: it stands still while a span is repeated, so that its second pass brings nothing, and jumps over a gap, at
whose end a slot in the gap is made up for, once.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from datetime import date, datetime, timedelta, timezone
from operator import index
from typing import TYPE_CHECKING

from pysched.offsets import FIRST, LAST, offset_changes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from pysched.schedule import CronFields

__all__ = ["Calendar", "Zone"]

DAY = 86400
EPOCH = date(1970, 1, 1).toordinal()
YEARS = (1839, 2263)
"""The first and the last year that a local time can lie in."""
BEFORE, BEYOND = -(1 << 60), 1 << 60
"""Local times that no slot has."""


class Zone:
    """A time zone as its stretches of constant offset from 1840 to 2262. Immutable."""

    __slots__ = ("_tzinfo", "marks", "offsets", "simple", "starts")

    def __init__(self, tzinfo: tzinfo) -> None:
        self._tzinfo = tzinfo
        self.starts, self.offsets, self.marks, self.simple = offset_changes(tzinfo)

    @property
    def tzinfo(self) -> tzinfo:
        return self._tzinfo

    def changes(self) -> list[tuple[int, int]]:
        """(first instant, offset from UTC in seconds) of each stretch."""
        return list(zip(self.starts, self.offsets, strict=False))

    def stretch_of(self, instant: int) -> int:
        """The index of the stretch that `instant`, from `FIRST` to `LAST`, lies in."""
        return bisect_right(self.starts, instant) - 1

    def begin(self, stretch: int) -> int:
        """The first local time of the stretch."""
        return self.starts[stretch] + self.offsets[stretch]

    def end(self, stretch: int) -> int:
        """The local time that the next stretch would begin with, were the offset the same."""
        return self.starts[stretch + 1] + self.offsets[stretch]

    def datetime_of(self, instant: int) -> datetime:
        """The aware datetime of an instant, in the zone."""
        return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=instant)).astimezone(self._tzinfo)


class Calendar:
    """The slots of a cron expression (`schedule.parse_cron`) in a zone. Immutable."""

    __slots__ = ("_fields", "_hours", "_minutes", "_months", "_seconds", "_zone")

    def __init__(self, fields: CronFields, zone: Zone) -> None:
        if not isinstance(zone, Zone):
            raise TypeError(f"zone must be a Zone, got {type(zone).__name__}")
        self._fields = fields
        self._zone = zone
        self._hours = _bits(fields.hour, "hour", 0, 23)
        self._minutes = _bits(fields.minute, "minute", 0, 59)
        self._seconds = _bits(fields.second, "second", 0, 59)
        self._months = _bits(fields.month, "month", 1, 12)

    @property
    def fields(self) -> CronFields:
        return self._fields

    @property
    def zone(self) -> Zone:
        return self._zone

    def next(self, after: int) -> int | None:
        """The first slot after the instant `after`; None if there is none before 2262 ends."""
        instant = max(index(after) + 1, FIRST)
        if instant > LAST:
            return None
        return self._next_wildcard(instant) if self._fields.wildcard else self._next_fixed(instant)

    def previous(self, before: int) -> int | None:
        """The last slot at or before the instant `before`; None if there is none after 1840 begins."""
        instant = min(index(before), LAST)
        if instant < FIRST:
            return None
        return self._previous_wildcard(instant) if self._fields.wildcard else self._previous_fixed(instant)

    def count(self, after: int, until: int, limit: int) -> int:
        """How many slots lie in (after, until]; counts no further than `limit`. O(result)."""
        found = 0
        slot = self.next(after)
        while found < limit and slot is not None and slot <= until:
            found += 1
            slot = self.next(slot)
        return found

    def datetimes(self, after: int, n: int) -> list[datetime]:
        """The next `n` slots after the instant `after`, fewer if there are fewer before 2262 ends.

        They are aware, in the tzinfo of the zone, and tell the passes of a repeated span apart by `fold`.
        """
        found: list[datetime] = []
        slot = self.next(after)
        while len(found) < n and slot is not None:
            found.append(self._zone.datetime_of(slot))
            slot = self.next(slot)
        return found

    # -- wildcard jobs --

    def _next_wildcard(self, instant: int) -> int | None:
        zone = self._zone
        stretch = zone.stretch_of(instant)
        begin = instant + zone.offsets[stretch]
        while True:
            local = self._local_from(begin, BEYOND)
            if local is None:
                local = BEYOND
            if local < zone.end(stretch):
                return local - zone.offsets[stretch]
            # Nothing matches in [begin, local), so stretches that lie within it are passed over without a search.
            stretch += 1
            while stretch < len(zone.offsets) and zone.begin(stretch) >= begin and zone.end(stretch) <= local:
                stretch += 1
            if stretch == len(zone.offsets):
                return None
            begin = zone.begin(stretch)

    def _previous_wildcard(self, instant: int) -> int | None:
        zone = self._zone
        stretch = zone.stretch_of(instant)
        end = instant + zone.offsets[stretch]
        while True:
            local = self._local_until(end, BEFORE)
            if local is None:
                local = BEFORE
            if local >= zone.begin(stretch):
                return local - zone.offsets[stretch]
            stretch -= 1
            while stretch >= 0 and zone.begin(stretch) > local and zone.end(stretch) - 1 <= end:
                stretch -= 1
            if stretch < 0:
                return None
            end = zone.end(stretch) - 1

    # -- fixed-time jobs --

    def _next_fixed(self, instant: int) -> int | None:
        zone = self._zone
        stretch = zone.stretch_of(instant)
        begin = max(instant + zone.offsets[stretch], zone.marks[stretch])
        if instant <= self._made_up(stretch):
            begin = zone.marks[stretch]  # what lies in the gap before this stretch is still to come
        local = self._local_from(begin, zone.marks[-1])
        return None if local is None else self._run_of(local)

    def _previous_fixed(self, instant: int) -> int | None:
        zone = self._zone
        stretch = zone.stretch_of(instant)
        end = instant + zone.offsets[stretch]
        if end < zone.marks[stretch]:
            end = zone.marks[stretch] - 1
        while (local := self._local_until(end, zone.marks[0])) is not None:
            run = self._run_of(local)
            if run <= instant:
                return run
            end = zone.marks[stretch] - 1  # it is made up for later in the minute of `instant`
            stretch -= 1
        return None

    def _run_of(self, local: int) -> int:
        """The instant at which the greatest local time reaches or passes `local`."""
        zone = self._zone
        stretch = bisect_right(zone.marks, local) - 1
        return local - zone.offsets[stretch] if local >= zone.begin(stretch) else self._made_up(stretch)

    def _made_up(self, stretch: int) -> int:
        """When slots in the gap before a stretch run: in its first minute, or second if seconds matter."""
        zone = self._zone
        part = -zone.begin(stretch) % 60 if self._fields.second == 1 else 0
        return zone.starts[stretch] + part

    # -- local times --

    def _local_from(self, begin: int, end: int) -> int | None:
        """The first matching local time in [begin, end)."""
        today, second = divmod(begin, DAY)
        for day in self._days_from(today):
            if day * DAY >= end:
                break
            time = next(self._times_from(second if day == today else 0), None)
            if time is not None:
                return day * DAY + time if day * DAY + time < end else None
        return None

    def _local_until(self, end: int, begin: int) -> int | None:
        """The last matching local time in [begin, end]."""
        today, second = divmod(end, DAY)
        for day in self._days_until(today):
            if (day + 1) * DAY <= begin:
                break
            time = next(self._times_until(second if day == today else DAY - 1), None)
            if time is not None:
                return day * DAY + time if day * DAY + time >= begin else None
        return None

    def _times_from(self, second: int) -> Iterator[int]:
        """Matching seconds of a day at or after `second`."""
        for hour in (hour * 3600 for hour in self._hours if hour >= second // 3600):
            for minute in (hour + minute * 60 for minute in self._minutes):
                if minute + 59 >= second:
                    yield from (minute + each for each in self._seconds if minute + each >= second)

    def _times_until(self, second: int) -> Iterator[int]:
        """Matching seconds of a day at or before `second`, the last first."""
        for hour in (hour * 3600 for hour in reversed(self._hours) if hour * 3600 <= second):
            for minute in (hour + minute * 60 for minute in reversed(self._minutes)):
                if minute <= second:
                    yield from (minute + each for each in reversed(self._seconds) if minute + each <= second)

    def _days_from(self, day: int) -> Iterator[int]:
        """Matching days at or after `day`; days are counted from 1970-01-01."""
        first = date.fromordinal(EPOCH + day)
        for year in range(first.year, YEARS[1] + 1):
            for month in self._months:
                if year > first.year or month >= first.month:
                    yield from (each for each in self._days_of(year, month) if each >= day)

    def _days_until(self, day: int) -> Iterator[int]:
        """Matching days at or before `day`, the last first."""
        last = date.fromordinal(EPOCH + day)
        for year in range(last.year, YEARS[0] - 1, -1):
            for month in reversed(self._months):
                if year < last.year or month <= last.month:
                    yield from (each for each in reversed(self._days_of(year, month)) if each <= day)

    def _days_of(self, year: int, month: int) -> list[int]:
        fields = self._fields
        weekday, length = monthrange(year, month)
        first = date(year, month, 1).toordinal() - EPOCH
        days = []
        for day in range(1, length + 1):
            of_week = (weekday + day) % 7  # monthrange has Monday as 0, cron has Sunday
            dates = fields.day >> day & 1 or (fields.last_day and day == length)
            weekdays = fields.weekday >> of_week & 1 or (of_week, (day + 6) // 7) in fields.nth
            if (dates or weekdays) if fields.either_day else (dates and weekdays):
                days.append(first + day - 1)
        return days


def _bits(mask: int, name: str, low: int, high: int) -> list[int]:
    """The numbers of the bits of a mask, which has at least one, and none outside of low to high."""
    bits = [bit for bit in range(low, high + 1) if mask >> bit & 1]
    if not bits or mask >> (high + 1) or mask & ((1 << low) - 1):
        raise ValueError(f"{name} must have bits within {low}-{high}, got {mask:#x}")
    return bits
