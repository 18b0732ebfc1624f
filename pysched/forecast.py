"""When a cron expression will fire, without a scheduler."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from operator import index
from sys import maxsize

from pysched.clock import NS
from pysched.engine import Calendar, Zone
from pysched.options import check_flag, wall_ns_of
from pysched.schedule import parse_cron, parse_zone
from pysched.text import shown

__all__ = ["preview"]


def preview(
    expression: str, n: int, tz: str | tzinfo | None = None, start: datetime | None = None, seconds: bool = False
) -> list[datetime]:
    """The next `n` times of a cron expression, aware, in the zone `tz`, from 1840 to 2262; fewer if there are fewer.

    `tz` is a name, a `tzinfo`, or None for the system's zone. They come after `start`, which is aware and not itself
    among them (None: now). `seconds`: the expression has six fields, the first of which is that of the seconds.

    Raises:
        TypeError: an argument is of a wrong type.
        ValueError: the expression cannot be read or never fires, there is no such zone, `start` is naive, or `n`
            is not positive. Both name the argument or the field.
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"n must be an int, got {type(n).__name__}")
    if index(n) < 1:
        raise ValueError(f"n must be positive, got {shown(n)}")
    check_flag(seconds, "seconds")
    start_ns = wall_ns_of(datetime.now(timezone.utc) if start is None else start, "start")
    calendar = Calendar(parse_cron(expression, seconds=seconds), Zone(parse_zone(tz, "tz")))
    return calendar.datetimes(start_ns // NS, min(index(n), maxsize))
