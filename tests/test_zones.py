"""Time zones as users name them, and the zone of the system, which must never make a start fail."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest
from support import label

from pysched import zones
from pysched.offsets import offset_changes
from pysched.schedule import parse_zone
from pysched.tzif import compiled_zone

WINTER = datetime(2024, 1, 15, tzinfo=timezone.utc)
SUMMER = datetime(2024, 7, 15, tzinfo=timezone.utc)


def offsets(zone):
    """The offsets in winter and in summer, in hours."""
    return tuple(moment.astimezone(zone).utcoffset() / timedelta(hours=1) for moment in (WINTER, SUMMER))


def compiled(key):
    """The path of a zone's compiled file."""
    for directory in TZPATH:
        if (path := Path(directory, key)).is_file():
            return path
    return pytest.skip("this system has no zone database")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """TZ is not set, and the machine's local-time file is not there; returns where it would be."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(zones, "LOCALTIME", tmp_path / "localtime")
    return tmp_path / "localtime"


def test_names_and_objects():
    assert parse_zone("Europe/Berlin") is ZoneInfo("Europe/Berlin")
    for zone in (ZoneInfo("Asia/Tokyo"), timezone.utc, timezone(timedelta(hours=2))):
        assert parse_zone(zone) is zone
    tz = pytest.importorskip("dateutil.tz").tzutc()
    assert parse_zone(tz) is tz


@pytest.mark.parametrize(
    "name",
    [
        *("Nowhere/City", "", " ", ".", "Europe", "../../etc/passwd", "/etc/localtime", "Europe/Berlin\0", "\ud800"),
        *("x" * 5000, "a/" * 300 + "b", "EST5EDT,M3.2.0,M11.1.0"),
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_names_that_are_not_known(name):
    with pytest.raises(ValueError, match="^tz must be the name of a time zone, got "):
        parse_zone(name, "tz")


@pytest.mark.parametrize("wrong", [5, b"UTC", timedelta(0), ZoneInfo, object()], ids=label)
def test_wrong_types(wrong):
    with pytest.raises(TypeError, match="^timezone must be "):
        parse_zone(wrong)


@pytest.mark.parametrize(
    ("setting", "hours"),
    [
        ("", (0, 0)),
        (":", (0, 0)),
        ("America/New_York", (-5, -4)),
        (":America/New_York", (-5, -4)),
        ("EST5EDT,M3.2.0,M11.1.0", (-5, -4)),
        (":EST5EDT,M3.2.0,M11.1.0", (-5, -4)),
        ("XYZ5ABC", (-5, -4)),
        ("NZST-12NZDT,M9.5.0,M4.1.0/3", (13, 12)),
        ("<+0330>-3:30", (3.5, 3.5)),
        ("<-03>3<-02>,M3.5.0/-1,M10.5.0/0", (-3, -2)),
        ("UTC0", (0, 0)),
        ("AAA-1BBB-3,J100,J300", (1, 3)),
    ],
)
def test_settings_of_tz(machine, monkeypatch, setting, hours):
    monkeypatch.setenv("TZ", setting)
    zone = parse_zone(None)
    assert offsets(zone) == hours
    assert parse_zone(None) is zone
    assert str(zone)


def test_a_posix_rule_changes_when_it_says_so(machine, monkeypatch):
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    starts, found, _, _ = offset_changes(parse_zone(None))
    years = [(start, offset) for start, offset in zip(starts, found, strict=False) if 1.7e9 < start < 1.74e9]
    spring, autumn = datetime(2024, 3, 10, 7, tzinfo=timezone.utc), datetime(2024, 11, 3, 6, tzinfo=timezone.utc)
    assert years == [(spring.timestamp(), -14400), (autumn.timestamp(), -18000)]


@pytest.mark.parametrize("prefix", ["", ":"])
def test_tz_may_name_a_file(machine, monkeypatch, tmp_path, prefix):
    copy = tmp_path / "zone"
    copy.write_bytes(compiled("Asia/Tokyo").read_bytes())
    monkeypatch.setenv("TZ", f"{prefix}{copy}")
    assert offsets(parse_zone(None)) == (9, 9)


@pytest.mark.parametrize(
    "setting",
    [
        "Nowhere/City",
        "/no/such/file",
        "/dev/null",
        "a/" * 5000 + "b",
        "AAA24",
        "AAA-1A24:00,0,0",  # for an hour a year
        "AAA24BBB,J30,J210",  # in winter
        "AAA24BBB0,J30,J210",  # and a day more in summer
        "AAA-23:30BBB,M3.2.0,M11.1.0",  # summer is an hour more
        "AAA-23:30BBB",
        "EST5EDT,M3",
        "EST5EDT,M13.1.0,M11.1.0",
        "5",
        "\ud800",
        "A1",
        "x" * 5000,
    ],
)
def test_a_setting_that_cannot_be_read_is_utc_with_a_warning(machine, monkeypatch, logged, setting):
    monkeypatch.setattr(os, "environ", {"TZ": setting})
    assert parse_zone(None) is timezone.utc
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("WARNING", False)
    assert "UTC" in text
    assert "TZ=" in text


def test_tz_is_read_each_time(machine, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert offsets(parse_zone(None)) == (9, 9)
    monkeypatch.setenv("TZ", "America/New_York")
    assert offsets(parse_zone(None)) == (-5, -4)


def test_the_local_time_file_is_a_link_into_the_database(machine):
    try:
        machine.symlink_to(compiled("Europe/Paris"))
    except OSError:
        pytest.skip("no symbolic links here")
    assert offsets(parse_zone(None)) == (1, 2)
    if "/zoneinfo/" in machine.resolve().as_posix():
        assert parse_zone(None).key in str(machine.resolve())
        assert isinstance(parse_zone(None), ZoneInfo)


def test_the_local_time_file_is_a_copy(machine):
    machine.write_bytes(compiled("Europe/Paris").read_bytes())
    zone = parse_zone(None)
    assert offsets(zone) == (1, 2)
    assert parse_zone(None) is zone
    machine.write_bytes(compiled("Asia/Tokyo").read_bytes())
    assert offsets(parse_zone(None)) == (9, 9)


@pytest.mark.parametrize("kind", ["absent", "empty", "text", "directory", "dangling", "loop"])
def test_a_machine_without_a_readable_file_is_utc_with_a_warning(machine, logged, kind):
    if kind == "empty":
        machine.write_bytes(b"")
    elif kind == "text":
        machine.write_text("Europe/Paris\n")
    elif kind == "directory":
        machine.mkdir()
    elif kind in ("dangling", "loop"):
        try:
            machine.symlink_to(machine if kind == "loop" else machine.with_name("nowhere"))
        except OSError:
            pytest.skip("no symbolic links here")
    assert parse_zone(None) is timezone.utc
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("WARNING", False)
    assert "localtime" in text


@pytest.mark.parametrize("kind", ["cut off", "cut off in its last line", "no type", "large", "pipe"])
def test_a_local_time_file_that_is_damaged_is_utc_with_a_warning(machine, logged, kind):
    """zoneinfo trusts it, and would loop without end, or crash, or raise anything."""
    content = compiled("Europe/Paris").read_bytes()
    types = content.index(b"TZif", 4) + 36  # their number, in the second header
    damaged = {
        "cut off": content[:100],
        "cut off in its last line": content[:-1],
        "no type": content[:types] + bytes(4) + content[types + 4 :],
        "large": content + b"\n" * 2**20,
    }
    if kind == "pipe":
        mkfifo = getattr(os, "mkfifo", None) or pytest.skip("no pipes with a name here")
        mkfifo(machine)
    else:
        machine.write_bytes(damaged[kind])
    assert parse_zone(None) is timezone.utc
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("WARNING", False)
    assert "localtime" in text


def test_no_zone_of_the_database_is_taken_for_damaged():
    paths = [path for directory in TZPATH for path in Path(directory).rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in paths}
    zones = {path: content for path, content in contents.items() if content.startswith(b"TZif")}
    assert [path for path, content in zones.items() if compiled_zone(content, "a zone") is None] == []


def test_utc_needs_no_database(monkeypatch):
    def unknown(key):
        raise KeyError(key)

    monkeypatch.setattr(zones, "ZoneInfo", unknown)
    assert parse_zone("UTC") is timezone.utc
    with pytest.raises(ValueError, match="Europe/Paris"):
        parse_zone("Europe/Paris")


def test_the_machine_this_runs_on():
    assert isinstance(parse_zone(None), tzinfo)
