"""Compiled time zones (RFC 8536), looked through before zoneinfo reads them.

zoneinfo trusts a file: one that is cut off or damaged makes it loop without end, read beyond its tables and crash, or
raise what it happens to raise; and offsets of a day or more, which `datetime` refuses each time it asks.
"""

from __future__ import annotations

from datetime import datetime
from io import BytesIO
from itertools import pairwise
from struct import Struct
from zoneinfo import ZoneInfo

__all__ = ["compiled_rule", "compiled_zone"]

_HEADER = Struct(">4sc15x6l")
"""Magic, version; then how many: UT indicators, standard indicators, leap seconds, transitions, types, characters."""
_TYPE = Struct(">lBB")
"""Offset in seconds, whether it is summer time, where its name begins."""
_DAY = 86400


def compiled_zone(content: bytes, key: str) -> ZoneInfo | None:
    """The zone of the content of a file; None if it is damaged. `key` is what the zone is called. O(content)."""
    if not _is_sound(content):
        return None
    try:
        zone = ZoneInfo.from_file(BytesIO(content), key=key)
        for each in (zone, *_halves(content)):
            datetime(2024, 7, 1, tzinfo=each).utcoffset()
    except (ValueError, OverflowError):
        return None
    return zone


def compiled_rule(rule: str) -> ZoneInfo | None:
    """The zone of a POSIX rule; None if it is none. Such a rule is the last line of a file: this one has no other."""
    return compiled_zone(_file_of(rule.encode("ascii", "replace")), rule)


def _file_of(rule: bytes) -> bytes:
    block = _HEADER.pack(b"TZif", b"2", 0, 0, 0, 0, 1, 4) + _TYPE.pack(0, 0, 0) + b"UTC\0"
    return block + block + b"\n" + rule + b"\n"


def _halves(content: bytes) -> list[ZoneInfo]:
    """Zones in which the summer time of a file's rule lasts all year, and some days. Raises what zoneinfo raises.

    For what offsets a rule, which is text, has is known by zoneinfo alone, and each may hold for an hour of a year.
    """
    names_and_offsets, *changes = content[:-1].rpartition(b"\n")[2].split(b",")
    if content[4:5] == b"\0" or not changes:
        return []
    ways = (b",0/0,J365/0", b",0/0,9/0")
    return [ZoneInfo.from_file(BytesIO(_file_of(names_and_offsets + changes))) for changes in ways]


def _is_sound(content: bytes) -> bool:
    """Whether all that the file says of itself lies within it."""
    first = _end_of_block(content, 0, 4)
    if content[4:5] == b"\0":
        return first is not None and _has_sound_types(content, 0, 4)
    if first is None:
        return False
    # From version 2 on the first block is for old readers: another one follows, with times of 8 bytes, and a line.
    second = _end_of_block(content, first, 8)
    if second is None or not _has_sound_types(content, first, 8):
        return False
    line = content[second:]
    return len(line) >= 2 and line[:1] == line[-1:] == b"\n" and line.count(b"\n") == 2


def _end_of_block(content: bytes, begin: int, width: int) -> int | None:
    """Where the block ends that begins at `begin` and has times of `width` bytes; None if it is none."""
    if len(content) < begin + _HEADER.size:
        return None
    magic, _, *counts = _HEADER.unpack_from(content, begin)
    sizes = (1, 1, width + 4, width + 1, _TYPE.size, 1)
    end: int = begin + _HEADER.size + sum(count * size for count, size in zip(counts, sizes, strict=True))
    return end if magic == b"TZif" and min(counts) >= 0 and end <= len(content) else None


def _has_sound_types(content: bytes, begin: int, width: int) -> bool:
    """Whether transitions rise, each to a type that there is, and types have an offset and a name that there are."""
    _, _, _, _, _, transitions, types, characters = _HEADER.unpack_from(content, begin)
    at = begin + _HEADER.size
    times = Struct(f">{transitions}{'q' if width == 8 else 'l'}").unpack_from(content, at)
    at += transitions * width
    indices = content[at : at + transitions]
    at += transitions
    names_at = at + types * _TYPE.size
    names = content[names_at : names_at + characters]
    kinds = list(_TYPE.iter_unpack(content[at:names_at]))
    return (
        types > 0
        and names.isascii()
        and names.endswith(b"\0")
        and max(indices, default=0) < types
        and all(earlier < later for earlier, later in pairwise(times))
        and all(abs(offset) < _DAY and name < characters for offset, _, name in kinds)
        and _has_clear_end(indices, kinds)
    )


def _has_clear_end(indices: bytes, kinds: list[tuple[int, int, int]]) -> bool:
    """Whether it is known from a change to it by how much the summer time differs that the last transition begins.

    If not, zoneinfo, written in C, looks at the transition after the last one. That no zone of the database has this is
    shown by tests/test_zones.py.
    """
    if len(indices) < 2 or not kinds[indices[-1]][1]:
        return True
    changes = [(kinds[begin], kinds[end]) for begin, end in pairwise(indices) if end == indices[-1]]
    return any(not begin[1] and begin[0] != end[0] for begin, end in changes)
