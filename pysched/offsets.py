"""When a time zone changes its offset from UTC, found by asking it.

`tzinfo` has no method that lists its changes, so the offset is sampled and each change bisected. That works for
zoneinfo and for every other tzinfo alike; both engines build their zones from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from itertools import accumulate, compress, islice, repeat
from operator import add, methodcaller, ne, sub
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from pysched.refusals import raised_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FIRST", "LAST", "OffsetChanges", "offset_changes"]

FIRST = -4_102_444_800
"""1840-01-01 00:00 UTC in Unix seconds. No zone of the database has changed its offset before."""

LAST = (2**63 - 1) // 10**9
"""The last instant, in Unix seconds, whose nanoseconds fit 64 bits: 2262-04-11 23:47:16 UTC."""

# From when on, in Unix seconds, how many days apart the offset is sampled: less than any zone of the database has
# stayed at an offset in that time, as tests/test_offsets.py shows. Local mean time was given up once; summer time
# began in 1916, and lasted 4 days in Freetown in 1939; Brazil ended it after a week in 2000, as Gaza will in 2040;
# and what lies far ahead are rules of two changes a year.
SAMPLING = ((FIRST, 30), (-1_893_456_000, 3), (0, 6), (4_102_444_800, 24))  # 1840, 1910, 1970, 2100

DAY = 86400
HOUR = 3600
YEARS = (timedelta(weeks=52), timedelta(weeks=53))
"""A year after a change there mostly is another one: on the same weekday, as rules have it, at the same time."""


class OffsetChanges(NamedTuple):
    """The stretches of constant offset from `FIRST` to `LAST`, in order.

    All lists but `offsets` have one entry more, for the end of the last stretch.
    """

    starts: list[int]
    """Unix seconds."""
    offsets: list[int]
    """Local time minus UTC during the stretch, in seconds."""
    marks: list[int]
    """The greatest local time that was reached before the stretch, in seconds; local times below it have been."""
    simple: bool
    """Whether local fields, the tzinfo and a fold make a right datetime without asking the tzinfo."""


_KEPT = 64
_kept: dict[int, tuple[tzinfo, OffsetChanges]] = {}  # by id, as not every tzinfo can be hashed


def offset_changes(zone: tzinfo) -> OffsetChanges:
    """The changes of `zone`; those of the last 64 zones are kept.

    Raises what the tzinfo raises, and ValueError if its offset is None, a day or more, or no whole number of seconds.
    """
    known = _kept.get(id(zone))
    if known is None:
        known = zone, _found(zone)
        # No lock: a zone that goes may be of a class of the user's, with a destructor.
        while len(_kept) >= _KEPT:
            _drop_oldest()
        _kept[id(zone)] = known
    return known[1]


def _drop_oldest() -> None:
    try:
        _kept.pop(next(iter(_kept), 0), None)
    except RuntimeError as error:
        if not raised_here(error):  # else another thread has added one
            raise


def _found(zone: tzinfo) -> OffsetChanges:
    simple = type(zone) in (ZoneInfo, timezone)
    if simple and zone.utcoffset(None) is not None:  # fixed
        starts, offsets = [FIRST], [_seconds(zone.utcoffset(None))]
    else:
        starts, offsets = _sampled(zone, simple)
    marks = [starts[0] + offsets[0]]
    starts.append(LAST + 1)
    for start, offset in zip(starts[1:], offsets, strict=True):
        marks.append(max(marks[-1], start + offset))
    return OffsetChanges(starts, offsets, marks, simple)


def _sampled(zone: tzinfo, simple: bool) -> tuple[list[int], list[int]]:
    # Datetimes whose fields are those of UTC: that is what fromutc() takes.
    begin = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=FIRST)
    moments: list[datetime] = list(accumulate(_steps(), add, initial=begin))
    locals_ = map(zone.fromutc, moments)
    # The difference of two datetimes of one tzinfo is that of their fields, and found faster than the offset.
    sampled = list(map(sub, locals_, moments) if simple else map(methodcaller("utcoffset"), locals_))

    def offset_of(moment: datetime) -> timedelta | None:
        local = zone.fromutc(moment)
        return local - moment if simple else local.utcoffset()

    changes, offsets = [begin], [sampled[0]]
    for index in compress(range(len(moments) - 1), map(ne, sampled, islice(sampled, 1, None))):
        known = moments[index]
        while offsets[-1] != sampled[index + 1]:
            guesses = [changes[-2] + year for year in YEARS] if len(changes) > 2 else []
            known = _first_other(offset_of, offsets[-1], known, moments[index + 1], guesses)
            changes.append(known)
            offsets.append(offset_of(known))
    starts = [(change - begin) // timedelta(seconds=1) + FIRST for change in changes]
    while starts[-1] > LAST:
        del starts[-1], offsets[-1]
    return starts, [_seconds(offset) for offset in offsets]


def _steps() -> Iterator[timedelta]:
    """From `FIRST` to beyond `LAST`, by `SAMPLING`."""
    at = FIRST
    ends = [*(begin for begin, _ in SAMPLING[1:]), LAST]
    for (_, days), end in zip(SAMPLING, ends, strict=True):
        count = -((at - end) // (days * DAY))
        yield from repeat(timedelta(days=days), count)
        at += count * days * DAY


def _first_other(
    offset_of: Callable[[datetime], timedelta | None],
    offset: timedelta | None,
    begin: datetime,
    end: datetime,
    guesses: list[datetime],
) -> datetime:
    """The first second after `begin` whose offset is not `offset`, which is that of `begin` and not that of `end`.

    The guesses are looked at first. Then by whole hours, as nearly all changes are at one: the second before is
    then looked at.
    """
    second = timedelta(seconds=1)
    for guess in guesses:
        if begin < guess <= end and offset_of(guess) != offset and offset_of(guess - second) == offset:
            return guess
    low, high = 0, (end - begin) // second
    while high - low > 1:
        middle = (low + high) // 2
        if high - low > HOUR:
            middle = max(middle - middle % HOUR, low + 1)
        elif high % HOUR == 0:
            middle = high - 1
        if offset_of(begin + timedelta(seconds=middle)) == offset:
            low = middle
        else:
            high = middle
    return begin + timedelta(seconds=high)


def _seconds(offset: timedelta | None) -> int:
    if offset is None:
        raise ValueError("the time zone has no offset from UTC")
    if offset.microseconds:
        raise ValueError(f"the time zone's offset must be whole seconds, got {offset}")
    if abs(offset) >= timedelta(days=1):  # zoneinfo may give such; datetime refuses it each time it asks
        raise ValueError(f"the time zone's offset must be less than a day, got {offset}")
    return offset // timedelta(seconds=1)
