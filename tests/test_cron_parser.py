"""The grammar of cron: what each part means, and how each fault is named."""

from __future__ import annotations

import pytest
from support import assert_quiet, run_python

from pysched.schedule import parse_cron


def bits(mask):
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("*", list(range(60))),
        ("7", [7]),
        ("007", [7]),
        ("0000000000000000000007", [7]),
        ("3-6", [3, 4, 5, 6]),
        ("5-5", [5]),
        ("5-5/3", [5]),
        ("*/25", [0, 25, 50]),
        ("*/4294967295", [0]),
        ("10-20/5", [10, 15, 20]),
        ("10-20/99", [10]),
        ("50/4", [50, 54, 58]),
        ("1,2,2,59", [1, 2, 59]),
        ("0-2,58-59/1,30/20", [0, 1, 2, 30, 50, 58, 59]),
        ("5,*/30", [0, 5, 30]),
    ],
)
def test_what_a_field_means(text, minutes):
    assert bits(parse_cron(f"{text} 0 * * *").minute) == minutes
    assert bits(parse_cron(f"{text} 0 0 * * *", seconds=True).second) == minutes


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("0", [0]),
        ("7", [0]),
        ("0,7", [0]),
        ("5-7", [0, 5, 6]),
        ("0-7", list(range(7))),
        ("*/7", [0]),
        ("*/2", [0, 2, 4, 6]),
        ("*/5", [0, 5]),
        ("6/1", [0, 6]),
        ("SUN", [0]),
        ("mon-FRI", [1, 2, 3, 4, 5]),
        ("sun-sat/3", [0, 3, 6]),
        ("Mon/3", [1, 4, 0]),
        ("tue,4", [2, 4]),
        ("mon-5", [1, 2, 3, 4, 5]),
    ],
)
def test_weekdays(text, weekdays):
    assert bits(parse_cron(f"0 0 * * {text}").weekday) == sorted(weekdays)


@pytest.mark.parametrize(
    ("text", "months"),
    [("JAN", [1]), ("dec", [12]), ("Feb-apr", [2, 3, 4]), ("oct/1", [10, 11, 12]), ("1,jul", [1, 7])],
)
def test_months(text, months):
    assert bits(parse_cron(f"0 0 1 {text} *").month) == months


@pytest.mark.parametrize(
    ("expression", "either"),
    [
        ("0 0 1 * 1", True),
        ("0 0 * * 1", False),
        ("0 0 1 * *", False),
        ("0 0 */2 * 1", False),
        ("0 0 1 * */2", False),
        ("0 0 *,5 * 1", False),
        ("0 0 5,* * 1", True),
        ("0 0 1-31 * 1", True),
        ("0 0 1 * 0-7", True),
        ("0 0 L * 1", True),
        ("0 0 L * *", False),
        ("0 0 1 * 5#2", True),
        ("0 0 * * 5#2", False),
        ("0 0 H * 1", True),
        ("0 0 H/2 * 1", True),
    ],
)
def test_when_either_day_field_suffices(expression, either):
    assert parse_cron(expression, hashed="job").either_day is either


@pytest.mark.parametrize(
    ("expression", "wildcard"),
    [
        ("* 2 * * *", True),
        ("30 * * * *", True),
        ("*/5 2 * * *", True),
        ("30 */2 * * *", True),
        ("*,5 2 * * *", True),
        ("5,* 2 * * *", False),
        ("0-59 0-23 * * *", False),
        ("30 2 * * *", False),
        ("H H * * *", False),
        ("H/15 H/2 * * *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_which_jobs_follow_the_wall_clock(expression, wildcard):
    assert parse_cron(expression, hashed="job").wildcard is wildcard
    if not expression.startswith("@"):
        assert parse_cron(f"0 {expression}", seconds=True, hashed="job").wildcard is wildcard
        assert parse_cron(f"*/30 {expression}", seconds=True, hashed="job").wildcard
    else:
        assert parse_cron(expression, seconds=True).second == 1


def test_blanks_are_normalised():
    assert parse_cron(" \t0  0\t\t1 *  *\t\n").expression == "0 0 1 * *"
    assert parse_cron(" @daily ").expression == "@daily"


def test_the_last_day_and_nth_weekdays():
    fields = parse_cron("0 0 15,L,l * *")
    assert (bits(fields.day), fields.last_day, fields.nth) == ([15], True, ())
    fields = parse_cron("0 0 * * 5#2,SUN#1,7#5,fri#2")
    assert (fields.weekday, fields.nth) == (0, ((0, 1), (0, 5), (5, 2)))


def test_hashed_parts_are_those_of_croniter():
    from croniter import croniter

    for job in ("a", "nightly-report", "\u00fc", ""):
        for expression in ("H H * * *", "H/15 H(2-5) H H H", "H(0-29)/10 H/7 H(1-28) H/5 H/2", "H(3-4)/9 0 * * *"):
            fields = parse_cron(expression, hashed=job)
            values, _ = croniter.expand(expression, hash_id=job.encode())
            for mask, expected in zip(
                (fields.minute, fields.hour, fields.day, fields.month, fields.weekday), values, strict=True
            ):
                if expected != ["*"]:
                    assert bits(mask) == sorted(expected)
        assert 0 <= bits(parse_cron("H 0 0 * * *", seconds=True, hashed=job).second)[0] < 60


def test_hashed_parts_of_a_list_and_of_one_value():
    assert bits(parse_cron("H(5-5),30 0 * * *", hashed="a").minute) == [5, 30]
    assert len({parse_cron("H H * * *", hashed=f"job-{n}").minute for n in range(50)}) > 10


DATES = ["0 0 30 2 *", "0 0 31 4 *", "* * 31 2,4,6,9,11 *", "0 0 31 apr,jun */2", "0 0 30-31 2 */7", "0 0 */31 * 1#2"]
DATES += ["0 0 */40 2 5#5", "0 0 30,31 2 *", "0 0 31 11 */1"]


@pytest.mark.parametrize("expression", DATES)
def test_dates_that_never_come_are_refused(expression):
    day, month = expression.split()[2:4]
    with pytest.raises(ValueError, match="never comes") as error:
        parse_cron(expression)
    assert f"day of month {day!r}" in str(error.value)
    assert f"month {month!r}" in str(error.value)


@pytest.mark.parametrize(
    "expression",
    [
        *("0 0 29 2 *", "0 0 29 2 */8", "0 0 30 2 1", "0 0 31 4 1-5", "0 0 L 2 *", "0 0 30,L 2 *", "0 0 * 2 5#5"),
        *("0 0 */31 2 *", "0 0 31 4,5 *", "0 0 31 2 3#1", "0 0 L 2 */7"),
    ],
)
def test_dates_that_come_are_accepted(expression):
    assert parse_cron(expression).expression == expression


FIELDS = ["second", "minute", "hour", "day of month", "month", "day of week"]
JUNK = [
    "?",
    "15W",
    "LW",
    "L-3",
    "x",
    "1-",
    "-1",
    "-",
    "/5",
    "5/",
    "5/0",
    "*/0",
    "*/-1",
    "1,,2",
    "1,",
    ",",
    "5/2/3",
    "**",
]
JUNK += ["1-2-3", "*-5", "*5", "5*", "0x1", "_1", "1_0", "1.5", "\u0665", "\uff15", "\u00b2", "+5", "~", "$1", "#", "R"]
JUNK += ["5-1", "99", "4294967296", "*/4294967296", "99999999999999999999", "9" * 900, "inf", "H(", "H()", "H(1)"]
JUNK += ["r(1-5)", "5#2#1", "\u017fun", "JANUARY", "MONDAY", "ja", "1-mo"]


@pytest.mark.parametrize("position", range(6), ids=FIELDS)
@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: ascii(junk)[:20])
def test_each_fault_is_refused_and_its_field_named(position, junk):
    texts = ["0", "0", "0", "*", "*", "*"]
    texts[position] = junk
    for hashed in (None, "job"):
        with pytest.raises(ValueError, match=f": {FIELDS[position]} field: ") as error:
            parse_cron(" ".join(texts), seconds=True, hashed=hashed)
        assert len(str(error.value)) < 300
        assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("60 * * * *", "minute field: '60': 60 is not within 0-59"),
        ("* 22-2 * * *", "hour field: '22-2': the range goes backward, from 22 to 2"),
        ("* * 0 * *", "day of month field: '0': 0 is not within 1-31"),
        ("* * * dec-feb *", "month field: 'dec-feb': the range goes backward, from 12 to 2"),
        ("* * * * fri-mon", "day of week field: 'fri-mon': the range goes backward, from 5 to 1"),
        ("* * * * fri-sun", "day of week field: 'fri-sun': the range goes backward, from 5 to 0"),
        ("* * * * 1,8", "day of week field: '8': 8 is not within 0-7"),
        ("*/0 * * * *", "minute field: '*/0': a step must be at least 1"),
        ("5x * * * *", "minute field: '5x': '5x' is no number"),
        ("jan * * * *", "minute field: 'jan': 'jan' is no number"),
        ("* * * mon *", "month field: 'mon': 'mon' is neither a number nor one of JAN, FEB, "),
        ("1, * * * *", "minute field: '': a part of the list is missing"),
        ("? * * * *", "minute field: '?': it is none of *, N, A-B and these with a step, /N"),
        ("* * L-3 * *", "day of month field: 'L-3': 'L' is no number"),
        ("5#2 * * * *", "minute field: '5#2': it is none of *, N, A-B and these with a step, /N"),
        ("* * * * 5#6", "day of week field: '5#6': 6 is not within 1-5"),
        ("* * * * 5#0", "day of week field: '5#0': 0 is not within 1-5"),
        ("* * * * 8#1", "day of week field: '8#1': 8 is not within 0-7"),
        ("* * * * 1-5#2", "day of week field: '1-5#2': it is not like 5#2"),
        ("* * * * 5#2,3", "day of week field: '3': it cannot stand beside the likes of 5#2"),
        (
            "* * * * L5",
            "day of week field: 'L5': 'L5' is neither a number nor one of SUN, MON, TUE, WED, THU, FRI, SAT",
        ),
        (
            "* * * * 5L",
            "day of week field: '5L': '5L' is neither a number nor one of SUN, MON, TUE, WED, THU, FRI, SAT",
        ),
        ("H * * * *", "minute field: 'H': H needs hashed=True"),
        ("* * * * h/2", "day of week field: 'h/2': H needs hashed=True"),
        ("", "it needs 5 fields, got 0"),
        ("* * * *", "it needs 5 fields, got 4"),
        ("* * * * * *", "it needs 5 fields, got 6; a field of seconds needs seconds=True"),
        ("* * * * * * *", "it needs 5 fields, got 7"),
        ("* * * *\n*", "it needs 5 fields, got 4"),
        ("* * * *\u00a0*", "it needs 5 fields, got 4"),
        ("@reboot", "'@reboot' is no macro; there are @yearly, "),
        ("@DAILY", "'@DAILY' is no macro"),
        ("@every 5m", "'@every 5m' is no macro"),
        ("@daily * * * *", "is no macro"),
    ],
)
def test_messages(expression, message):
    with pytest.raises(ValueError, match="invalid cron expression ") as error:
        parse_cron(expression)
    assert message in str(error.value)


def test_six_fields_are_needed_with_seconds():
    with pytest.raises(ValueError, match="it needs 6 fields, got 5"):
        parse_cron("* * * * *", seconds=True)
    with pytest.raises(ValueError, match="second field: '60'"):
        parse_cron("60 * * * * *", seconds=True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("H(5-70)", "70 is not within"), ("H(9-3)", "backward"), ("H/0", "at least 1"), ("H/99999999999", "32 bits")],
)
def test_faults_of_hashed_parts(text, fault):
    with pytest.raises(ValueError, match="minute field: ") as error:
        parse_cron(f"{text} * * * *", hashed="job")
    assert fault in str(error.value)


def test_wrong_types():
    for wrong in (None, 5, b"* * * * *", ["*"] * 5):
        with pytest.raises(TypeError, match="cron expression"):
            parse_cron(wrong)
    with pytest.raises(TypeError, match="hashed"):
        parse_cron("H * * * *", hashed=True)


def test_croniter_is_imported_only_for_what_only_it_can():
    program = """
        import sys
        from pysched.schedule import parse_cron
        parse_cron("*/5 9-17 1,15 JAN-MAR mon-fri")
        assert "croniter" not in sys.modules
        parse_cron("0 0 L * *")
        assert "croniter" in sys.modules
    """
    assert_quiet(run_python(program))
