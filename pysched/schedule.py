"""What users write about time: durations, cron expressions, and, from `zones`, time zones.

The grammar of cron is Debian's, and strict: each message names the field and the part of it that is wrong.
`L`, `5#2` and `H` are extensions, which croniter expands; it is imported when one of them is met. Whether a
field is a star field is read from its text, never from what it expands to.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pysched.clock import delay_ns, interval_ns
from pysched.text import shown
from pysched.zones import parse_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST_S", "LONGEST_TEXT", "CronFields", "duration_text", "parse_cron", "parse_duration", "parse_zone"]

# -- durations -----------------------------------------------------------------------------------------------

LONGEST_S = 10**9
"""The longest duration, in seconds: 31 years and 8 months."""

LONGEST_TEXT = 1000
"""The longest text, in characters, of a duration or a cron expression: of work that takes no 10 ms."""

_UNITS_NS = {"d": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6}
_SHAPE = "a duration like '250ms', '10s' or '1h30m'"
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_PART = re.compile(r"(\d+)([A-Za-z]*)", re.ASCII)
_MOST_DIGITS = 18

_recent: dict[str, int] = {}
_RECENT_LIMIT = 1024


def parse_duration(value: object, name: str, *, zero: bool = False) -> int:
    """Nanoseconds of a duration: a `str` like "1h30m", a number of seconds, or a `timedelta`.

    The units of a string are d, h, m, s and ms, each at most once and in this order, with whole numbers; blanks
    may stand around it. A number is rounded up to whole nanoseconds. O(1), and a look-up for recent strings.

    Raises:
        TypeError: `value` is none of the three (a bool is not a number).
        ValueError: it is not > 0 (>= 0 with `zero`), not finite, longer than `LONGEST_S`, or its text is no
            duration, or longer than `LONGEST_TEXT`. All messages name the argument, `name`, those about text the
            offending part.
    """
    if isinstance(value, str):
        if type(value) is not str:
            value = str.__str__(value)  # a subclass may compare as it likes, and others would get what it left
        known = _recent.get(value)
        ns = _duration_of_text(value, name) if known is None else known
    elif isinstance(value, timedelta):
        ns = value // timedelta(microseconds=1) * 1000
    else:
        if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise TypeError(f"{name} must be {_SHAPE}, a number of seconds or a timedelta, got {type(value).__name__}")
        ns = delay_ns(value, name) if zero else interval_ns(value, name)
    if ns < 0 or (ns == 0 and not zero):
        raise ValueError(f"{name} must be {'>= 0' if zero else '> 0'}, got {shown(value)}")
    if ns > LONGEST_S * 10**9:
        raise ValueError(f"{name} must be at most {LONGEST_S} s, got {shown(value)}")
    return ns


def duration_text(ns: int) -> str:
    """The duration in seconds, as short as it can be said exactly: "300s", "0.25s"."""
    seconds, rest = divmod(ns, 10**9)
    return f"{seconds}.{rest:09}".rstrip("0").rstrip(".") + "s"


def _duration_of_text(text: str, name: str) -> int:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{name} must be {_SHAPE}, of at most {LONGEST_TEXT} characters, got {shown(text)}")
    bare = text.strip(" \t")
    match = _DURATION.fullmatch(bare)
    if match is None or not bare:
        raise ValueError(f"{name} must be {_SHAPE}, got {shown(text)}: {_fault(bare)}")
    ns = 0
    for number, unit in zip(match.groups(), _UNITS_NS.values(), strict=True):
        if number is not None:
            if len(number) > _MOST_DIGITS:  # int() refuses thousands of digits with a message of its own
                raise ValueError(f"{name} has too many digits in {shown(number)}")
            ns += int(number) * unit
    if len(_recent) >= _RECENT_LIMIT:
        _recent.clear()
    _recent[text] = ns
    return ns


def _fault(text: str) -> str:
    """What is wrong with `text`, which is no duration: of its first part that cannot be read."""
    if not text:
        return "it is empty"
    if any(character.isspace() for character in text):
        return "there are no blanks inside a duration"
    units = list(_UNITS_NS)
    last = -1
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return f"{shown(text[at:])} does not begin with a whole number"
        number, unit = match.groups()
        if not unit and text[match.end() : match.end() + 1] in {".", ","}:
            return f"{shown(text[at:])} does not begin with a whole number and a unit"
        if not unit:
            return f"{shown(text[at:])} has no unit (d, h, m, s or ms)"
        if unit not in units:
            return f"{shown(unit)} is no unit (d, h, m, s or ms)"
        if units.index(unit) <= last:
            return f"{shown(number + unit)} must come before {units[last]!r}, and each unit once"
        last = units.index(unit)
        at = match.end()
    return "it cannot be read"


# -- cron ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CronFields:
    """A cron expression as bit masks: bit n is set if n matches.

    `weekday` has bits 0 (Sunday) to 6; `nth` holds (weekday, n) for the n-th such day of a month, `last_day` is
    for its last day. `either_day`: a day matches if its day of month or its weekday does, else both must.
    `wildcard`: the job follows the wall clock through changes of the UTC offset, else it is a fixed-time job.
    """

    second: int
    minute: int
    hour: int
    day: int
    month: int
    weekday: int
    last_day: bool
    nth: tuple[tuple[int, int], ...]
    either_day: bool
    wildcard: bool
    expression: str


class _Field(NamedTuple):
    name: str
    position: int
    """Where croniter has it."""
    low: int
    high: int
    names: tuple[str, ...] = ()


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_SECOND = _Field("second", 5, 0, 59)
_MINUTE = _Field("minute", 0, 0, 59)
_HOUR = _Field("hour", 1, 0, 23)
_DAY = _Field("day of month", 2, 1, 31)
_MONTH = _Field("month", 3, 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 4, 0, 7, _WEEKDAYS)

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BLANKS = re.compile(r"[ \t]+")
_ITEM = re.compile(r"(?:(?P<star>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?", re.ASCII)
_HASHED = re.compile(r"H(?:\((?P<first>\d+)-(?P<last>\d+)\))?(?:/(?P<step>\d+))?", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"(?P<weekday>\w+)#(?P<n>\w+)", re.ASCII)
_LARGEST = 2**32 - 1
_MOST_HASHED = 12
"""Of parts with H, each of which costs croniter a third of a millisecond: two in each field."""


def parse_cron(expression: str, *, seconds: bool = False, hashed: str | None = None) -> CronFields:
    """The fields of a cron expression: five, or six with `seconds`, which come first; or a macro like `@daily`.

    `hashed` is the text that `H` is hashed on; without it `H` is refused.

    Raises:
        TypeError: `expression` or `hashed` is no `str`.
        ValueError: the expression cannot be read, is longer than `LONGEST_TEXT`, or names a date that never
            comes. The message names the field and the offending part.
    """
    if not isinstance(expression, str):
        raise TypeError(f"a cron expression must be a str, got {type(expression).__name__}")
    if hashed is not None and not isinstance(hashed, str):
        raise TypeError(f"hashed must be a str or None, got {type(hashed).__name__}")
    expression = str.__str__(expression)  # plain text also of a subclass, which may compare as it likes
    hashed = None if hashed is None else str.__str__(hashed)
    if len(expression) > LONGEST_TEXT:
        raise ValueError(
            f"invalid cron expression {shown(expression)}: it must have at most {LONGEST_TEXT} characters, "
            f"got {len(expression)}"
        )
    try:
        return _fields(expression.strip(" \t\r\n"), seconds, hashed)
    except ValueError as error:
        raise ValueError(f"invalid cron expression {shown(expression)}: {error}") from None


@lru_cache(maxsize=256)
def _fields(expression: str, seconds: bool, hashed: str | None) -> CronFields:
    texts = _BLANKS.split(expression) if expression else []
    text = " ".join(texts)
    if text.startswith("@"):
        if text not in _MACROS:
            raise ValueError(f"{shown(text)} is no macro; there are {', '.join(_MACROS)}")
        texts = _MACROS[text].split()
        if seconds:
            texts.insert(0, "0")
    wanted = 6 if seconds else 5
    if len(texts) != wanted:
        hint = "; a field of seconds needs seconds=True" if len(texts) == 6 else ""
        raise ValueError(f"it needs {wanted} fields, got {len(texts)}{hint}")
    if hashed is not None:
        parts = {(field, item) for field, each in enumerate(texts) for item in each.split(",")}
        count = sum(_HASHED.fullmatch(item) is not None for _, item in parts)
        if count > _MOST_HASHED:
            raise ValueError(f"it must have at most {_MOST_HASHED} different parts with H, got {count}")
    second, minute, hour, day, month, weekday = texts if seconds else ("0", *texts)

    days = day.split(",")
    dates = [item for item in days if item not in ("L", "l")]
    nth = _nth_weekdays(weekday) if "#" in weekday else ()
    weekdays = 0 if nth else _mask(_WEEKDAY, weekday.split(","), hashed)
    fields = CronFields(
        second=_mask(_SECOND, second.split(","), hashed),
        minute=_mask(_MINUTE, minute.split(","), hashed),
        hour=_mask(_HOUR, hour.split(","), hashed),
        day=_mask(_DAY, dates, hashed),
        month=_mask(_MONTH, month.split(","), hashed),
        weekday=(weekdays | weekdays >> 7) & 0b1111111,  # 7 is Sunday too
        last_day=len(dates) < len(days) and _by_croniter(_DAY, "L")[0] == ["l"],
        nth=nth,
        either_day=not day.startswith("*") and not weekday.startswith("*"),
        wildcard=any(star.startswith("*") for star in (second, minute, hour)),
        expression=text,
    )
    if not _ever_comes(fields):
        raise ValueError(
            f"day of month {shown(day)} in month {shown(month)} on day of week {shown(weekday)} never comes"
        )
    return fields


def _mask(field: _Field, items: list[str], hashed: str | None) -> int:
    """The bits of all values that `items`, the comma list of a field, match."""
    mask = 0
    for item in dict.fromkeys(items):  # once, however often it is listed
        with _named(field, item):
            if match := _HASHED.fullmatch(item):
                mask |= _hashed_mask(field, match["first"], match["last"], match["step"], hashed)
            elif match := _ITEM.fullmatch(item):
                mask |= _range_mask(field, match["first"], match["last"], match["step"])
            else:
                raise ValueError(
                    "it is none of *, N, A-B and these with a step, /N" if item else "a part of the list is missing"
                )
    return mask


@contextmanager
def _named(field: _Field, item: str) -> Iterator[None]:
    """Says in which field, and in what part of it, a fault lies."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{field.name} field: {shown(item)}: {error}") from None


def _range_mask(field: _Field, first: str | None, last: str | None, step: str | None) -> int:
    """The bits of `*` (`first` is None), `N` or `A-B`, each with a step or without."""
    low, high = field.low, field.high
    if first is not None:
        low = _value(field, first)
        if last is not None:
            high = _value(field, last)
            _check_forward(low, high)
        elif step is None:
            high = low
    stride = 1 if step is None else _step(step)
    return sum(1 << value for value in range(low, high + 1, stride))


def _check_forward(low: int, high: int) -> None:
    if high < low:
        raise ValueError(f"the range goes backward, from {low} to {high}")


def _value(field: _Field, text: str) -> int:
    """A number or, in the fields of months and weekdays, the first three letters of a name in any case."""
    name = text.lower()
    if name in field.names:
        value = field.low + field.names.index(name)
    elif field.names and not text.isdigit():
        raise ValueError(f"{shown(text)} is neither a number nor one of {', '.join(field.names).upper()}")
    else:
        value = _number(text)
    if not field.low <= value <= field.high:
        raise ValueError(f"{value} is not within {field.low}-{field.high}")
    return value


def _step(text: str) -> int:
    step = _number(text)
    if step < 1:
        raise ValueError("a step must be at least 1")
    return step


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{shown(text)} is no number")
    digits = text.lstrip("0")
    if len(digits) > 10 or int(digits or "0") > _LARGEST:
        raise ValueError(f"{shown(text)} is beyond 32 bits")
    return int(digits or "0")


def _ever_comes(fields: CronFields) -> bool:
    """Whether there is a month with a matching day. Each date falls on each weekday in some year, 29 February too."""
    nth = {n for _, n in fields.nth}
    for month in range(1, 13):
        if fields.month >> month & 1:
            length = 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
            for day in range(1, length + 1):
                date = bool(fields.day >> day & 1) or (fields.last_day and (day == length or (day, month) == (28, 2)))
                weekday = fields.weekday != 0 or (day + 6) // 7 in nth
                if (date or weekday) if fields.either_day else (date and weekday):
                    return True
    return False


# -- what croniter expands --


def _nth_weekdays(text: str) -> tuple[tuple[int, int], ...]:
    """(weekday, n) of each item like `5#2` in the weekday field, which then has no other items."""
    plain: dict[str, None] = {}  # each once, without the ways to write it
    for item in text.split(","):
        with _named(_WEEKDAY, item):
            match = _NTH.fullmatch(item)
            if match is None:
                raise ValueError("it is not like 5#2" if "#" in item else "it cannot stand beside the likes of 5#2")
            weekday, n = _value(_WEEKDAY, match["weekday"]), _number(match["n"])
            if not 1 <= n <= 5:
                raise ValueError(f"{n} is not within 1-5")
            plain[f"{weekday}#{n}"] = None
    nth = _by_croniter(_WEEKDAY, ",".join(plain))[1]
    return tuple(sorted((weekday % 7, n) for weekday, ns in nth.items() for n in ns))


def _hashed_mask(field: _Field, first: str | None, last: str | None, step: str | None, hashed: str | None) -> int:
    """The bits of `H`, `H/15`, `H(0-29)` or `H(0-29)/10`: croniter draws the value, or where the steps begin.

    The first of several steps is drawn as a value of the first stride: that is what croniter means, and its
    own steps differ between its versions.
    """
    if hashed is None:
        raise ValueError("H needs hashed=True")
    low, high = field.low, 6 if field is _WEEKDAY else field.high
    if first is not None and last is not None:
        low, high = _value(field, first), _value(field, last)
        _check_forward(low, high)
    stride = high - low + 1 if step is None else _step(step)
    end = min(high, low + stride - 1)
    drawn = low if low == end else int(_by_croniter(field, f"H({low}-{end})", hashed)[0][0])
    return sum(1 << value for value in range(drawn, high + 1, stride))


def _by_croniter(field: _Field, text: str, hashed: str = "") -> tuple[list[int | str], dict[int, set[int]]]:
    """What croniter makes of `text` in a field: its values, and the n-th weekdays."""
    from croniter import croniter  # type: ignore[import-untyped]

    texts = ["*"] * 6  # croniter has the seconds last
    texts[field.position] = text
    expanded, nth = croniter.expand(" ".join(texts), hash_id=hashed.encode("utf-8", "surrogatepass"))
    return expanded[field.position], nth
