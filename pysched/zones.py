"""Time zones: what users pass as one, and the zone of this system."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone, tzinfo
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from zoneinfo import ZoneInfo

from pysched.reports import log_warning
from pysched.text import shown
from pysched.tzif import compiled_rule, compiled_zone

__all__ = ["EPOCH", "parse_zone", "system_zone"]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""Where Unix time begins."""

LOCALTIME = Path("/etc/localtime")
"""The machine's local-time file."""

# A name of at least three letters and an offset, perhaps a second name: what a POSIX rule begins with.
_POSIX_RULE = re.compile(r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)[+-]?\d[\d:]*(?P<summer>[A-Za-z<].*)?", re.ASCII)
_DEFAULT_CHANGES = ",M3.2.0,M11.1.0"
"""When a rule names a summer time and does not say when it is: what the C library takes."""
_LONGEST = 255
"""The longest name or rule, in characters. The parts of a name are looked for as packages, one within the other."""
_LARGEST = 1 << 20
"""The largest compiled file, in bytes; those of the zone database have less than 4,000."""


def parse_zone(value: str | tzinfo | None, name: str = "timezone") -> tzinfo:
    """A time zone: a name of the zone database, a `tzinfo`, or None for the system's zone (`system_zone`).

    Raises:
        TypeError: `value` is none of the three.
        ValueError: there is no zone of that name. Both name the argument, `name`.
    """
    if value is None:
        return system_zone()
    if isinstance(value, tzinfo):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be the name of a time zone, a tzinfo or None, got {type(value).__name__}")
    zone = _named(value)
    if zone is None:
        raise ValueError(
            f"{name} must be the name of a time zone, got {shown(value)}, which is not known: names are like "
            "Europe/Paris, an offset is a datetime.timezone"
        )
    return zone


def system_zone() -> tzinfo:
    """The zone of this process: of `TZ` as the C library reads it, else of the machine; never fails.

    `TZ` may be a name, a file or a POSIX rule, after a colon or not; empty it means UTC. If it cannot be read, or
    if it is not set and the machine has no local-time file, the zone is UTC, and a warning is logged.
    """
    setting = os.environ.get("TZ")
    if setting is None:
        zone = _of_file(LOCALTIME)
        found = f"TZ is not set and {LOCALTIME} cannot be read"
    else:
        zone = _of_setting(setting.removeprefix(":"))
        found = f"TZ={shown(setting)} cannot be read"
    if zone is None:
        log_warning(f"the system's time zone is not known, so UTC is used: {found}")
        return timezone.utc
    return zone


def _named(key: str) -> tzinfo | None:
    if len(key) > _LONGEST:
        return None
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError):  # unknown; no name at all; a directory, say
        return timezone.utc if key == "UTC" else None  # which needs no database


def _of_setting(setting: str) -> tzinfo | None:
    if not setting:
        return timezone.utc
    if os.path.isabs(setting):
        return _of_file(Path(setting))
    return _named(setting) or _of_rule(setting)


def _of_file(path: Path) -> tzinfo | None:
    """The zone of a compiled file: by its name, if the path leads into the zone database, else of its content."""
    try:
        target = path.resolve(strict=True)
        _, inside, key = target.as_posix().rpartition("/zoneinfo/")
        status = target.stat()
        if not S_ISREG(status.st_mode) or status.st_size > _LARGEST:  # a pipe, which blocks; a device without an end
            return None
        return (_named(key) if inside else None) or _of_content(target, status.st_mtime_ns, status.st_size)
    except RecursionError:  # of a caller that is deep down
        raise
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None


@lru_cache(maxsize=4)
def _of_content(path: Path, _mtime_ns: int, _size: int) -> tzinfo | None:
    return compiled_zone(path.read_bytes(), str(path))


@lru_cache(maxsize=4)
def _of_rule(rule: str) -> tzinfo | None:
    """The zone of a POSIX rule such as ``EST5EDT,M3.2.0,M11.1.0``; None if it is none."""
    match = _POSIX_RULE.fullmatch(rule)
    if match is None or len(rule) > _LONGEST:
        return None
    if match["summer"] and "," not in match["summer"]:
        rule += _DEFAULT_CHANGES
    return compiled_rule(rule)
