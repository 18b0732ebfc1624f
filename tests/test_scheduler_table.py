"""`str(scheduler)`: a table of the jobs; and what `repr` says of a pause."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone, tzinfo

import pytest
from support import nothing

from pysched.testing import ManualClock


def fails():
    raise ValueError("no host")


def test_the_table(make_scheduler):
    clock = ManualClock(datetime(2024, 1, 31, 8, 0, tzinfo=timezone.utc))
    scheduler = make_scheduler(3, clock=clock, name="shop", on_error=nothing)
    scheduler.every(1.5, nothing, id="poll", name="poll the shops")
    scheduler.cron("30 9 * * MON-FRI", nothing, id="report", timezone="Europe/Paris", name="report")
    scheduler.every("1m", fails, id="fetch")
    scheduler.every("10m", nothing, id="tidy", name="tidy")
    scheduler.pause_job("tidy")
    scheduler.start_background()
    clock.advance("2m")
    assert str(scheduler).splitlines() == [
        "shop: running, 4 jobs, 3 workers",
        "id      name            schedule               next run                   runs  errors  last error",
        "poll    poll the shops  every 1.5s             2024-01-31 08:02:01+00:00    80       0  -",
        "report  report          cron 30 9 * * MON-FRI  2024-01-31 09:30:00+01:00     0       0  -",
        "fetch   fails           every 60s              2024-01-31 08:03:00+00:00     0       2  ValueError: no host",
        "tidy    tidy            every 600s             paused                        0       0  -",
    ]


def test_states(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, name="x")
    assert str(scheduler) == "x: not running, 0 jobs, 4 workers"
    assert repr(scheduler) == "<Scheduler 'x' not running, 0 jobs>"
    scheduler.pause()
    assert str(scheduler).startswith("x: not running, paused, 0 jobs")
    scheduler.start_background()
    assert str(scheduler).startswith("x: paused, 0 jobs")
    assert repr(scheduler) == "<Scheduler 'x' paused, 0 jobs>"
    scheduler.every("1s", nothing)
    assert str(scheduler).splitlines()[2].split()[4:] == ["paused", "0", "0", "-"]
    scheduler.pause()
    scheduler.resume()
    assert str(scheduler).startswith("x: running, 1 jobs")
    assert repr(scheduler) == "<Scheduler 'x' running, 1 jobs>"
    scheduler.shutdown()
    assert str(scheduler).startswith("x: shut down, 1 jobs")
    assert repr(scheduler) == "<Scheduler 'x' shut down, 1 jobs>"


def test_a_job_without_a_next_run(scheduler, clock):
    seen = []
    scheduler.after("1s", lambda: seen.append(str(scheduler)), id="once")
    clock.advance(1)
    assert seen[0].splitlines()[2].split()[-4:] == ["-", "0", "0", "-"]


def test_at_most_fifty_jobs(scheduler):
    for number in range(50):
        scheduler.every("1s", nothing, id=f"j{number}")
    assert "more" not in str(scheduler)
    for number in range(50, 123):
        scheduler.every("1s", nothing, id=f"j{number}")
    lines = str(scheduler).splitlines()
    assert lines[0] == "pysched: running, 123 jobs, 4 workers"
    assert [line.split()[0] for line in lines[2:-1]] == [f"j{number}" for number in range(50)]
    assert lines[-1] == "... and 73 more"


def test_long_values_are_cut_and_every_line_fits(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, name="n" * 300, on_error=nothing)

    def complains():
        raise ValueError("very " * 100 + "long")

    scheduler.every(1, complains, id="i" * 200, name="many words " * 20)
    scheduler.cron("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20 * * * *", nothing, id="short")
    scheduler.start_background()
    clock.advance(1)
    lines = str(scheduler).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 120
    assert all("..." in line for line in (lines[0], lines[2], lines[3]))
    starts = [line.index(text) for line, text in zip(lines[1:], ("next run", "2000-", "2000-"), strict=True)]
    assert len(set(starts)) == 1


def test_what_would_break_a_line_is_escaped(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, name="a\nb", on_error=nothing)

    def complains():
        raise ValueError("two\nlines\t\x1b[31m \ud800")

    scheduler.every(1, complains, id="new\nline", name="caf\u00e9 \u2028")
    scheduler.start_background()
    clock.advance(1)
    lines = str(scheduler).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("a\\nb: running")
    assert lines[2].startswith("new\\nline  caf\u00e9 \\u2028  every 1s")
    assert lines[2].endswith("ValueError: two\\nlines\\t\\x1b[31m \\ud800")
    str(scheduler).encode()


def test_an_executor_of_the_users(make_scheduler):
    with ThreadPoolExecutor(1) as pool:
        assert str(make_scheduler(executor=pool)) == "pysched: not running, 0 jobs, an executor of yours"


def test_a_zone_that_fails_is_shown_in_utc(make_scheduler, clock):
    class Broken(tzinfo):
        broken = False

        def utcoffset(self, moment):
            if self.broken:
                raise LookupError
            return timezone.utc.utcoffset(moment)

        dst = utcoffset

        def fromutc(self, moment):
            return moment + self.utcoffset(moment)

    zone = Broken()
    scheduler = make_scheduler(clock=clock, timezone=zone)
    scheduler.every("10s", nothing)
    zone.broken = True
    assert "2000-01-01 00:00:10+00:00" in str(scheduler)


@pytest.mark.parametrize("count", [0, 1])
def test_print(scheduler, capsys, count):
    for _ in range(count):
        scheduler.every("1s", nothing)
    print(scheduler)
    assert capsys.readouterr().out.count("\n") == 1 + 2 * count
