"""`Scheduler`: what may be registered and how, what is refused, and ids."""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction

import pytest
from support import in_threads, label, nothing

from pysched import preview
from pysched.testing import ManualClock

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
NAIVE = T0.replace(tzinfo=None)
KINDS = {"every": "10s", "cron": "* * * * *", "after": "10s", "at": T0 + timedelta(seconds=10)}
kinds = pytest.mark.parametrize("kind", KINDS)
forms = pytest.mark.parametrize("form", ["call", "decorator"])
starts = pytest.mark.parametrize("started", [False, True], ids=["before the start", "after the start"])


def register(scheduler, kind, form="call", callback=nothing, what=None, **options):
    method, what = getattr(scheduler, kind), KINDS[kind] if what is None else what
    return method(what, callback, **options) if form == "call" else method(what, **options)(callback)


def made(make_scheduler, started):
    scheduler = make_scheduler(clock=ManualClock())
    if started:
        scheduler.start_background()
    return scheduler


def shape(scheduler):
    """What a registration that is refused must leave as it was."""
    return scheduler.list_jobs(), len(scheduler), scheduler.stats(), scheduler._engine._next_due_ns()


# What is accepted.


@starts
@forms
@kinds
def test_all_forms(make_scheduler, kind, form, started):
    scheduler = made(make_scheduler, started)
    result = register(scheduler, kind, form)
    (info,) = scheduler.list_jobs()
    assert result == (info["id"] if form == "call" else nothing)
    assert info["name"] == "nothing"
    assert len(scheduler) == 1
    assert info["enabled"] is True


@starts
@forms
@kinds
def test_options_of_all_kinds(make_scheduler, kind, form, started):
    scheduler = made(make_scheduler, started)
    register(
        scheduler,
        kind,
        form,
        max_retries=2,
        retry_backoff="250ms",
        timeout=timedelta(seconds=3),
        max_instances=2,
        id="mine",
        name="its name",
        args=[1],
        kwargs={},
        tags=["a", "b"],
        on_error=nothing,
    )
    info = scheduler.get_job("mine")
    assert (info.max_retries, info.retry_backoff, info.timeout, info.max_instances) == (2, 0.25, 3.0, 2)
    assert (info.id, info.name, info.tags) == ("mine", "its name", {"a", "b"})


@pytest.mark.parametrize(
    "interval", ["1500ms", 1.5, Fraction(3, 2), Decimal("1.5"), timedelta(milliseconds=1500), " 1s500ms "], ids=label
)
@pytest.mark.parametrize("method", ["every", "after"])
def test_durations_in_every_form(scheduler, clock, method, interval):
    runs = []
    getattr(scheduler, method)(interval, lambda: runs.append(clock.time()))
    clock.advance(1.6)
    assert runs == [1.5]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("250ms", "every 0.25s"),
        (10, "every 10s"),
        ("1h30m", "every 5400s"),
        ("1d", "every 86400s"),
        (1e9, "every 1000000000s"),
    ],
)
def test_how_intervals_are_shown(make_scheduler, value, shown):
    scheduler = make_scheduler()
    scheduler.every(value, nothing)
    assert scheduler.list_jobs()[0]["schedule"] == shown


@pytest.mark.parametrize("delay", [0, 0.0, -0.0, "0s", timedelta(0)], ids=label)
def test_a_delay_of_nothing_is_now(scheduler, clock, delay):
    runs = []
    scheduler.after(delay, lambda: runs.append(clock.time()))
    clock.advance(0)
    assert runs == [0]


def test_an_at_in_the_past_runs_at_once(scheduler, clock):
    runs = []
    for when in (T0 - timedelta(days=1000), datetime.min.replace(tzinfo=UTC)):
        scheduler.at(when, lambda: runs.append(clock.time()))
    clock.advance(0)
    assert runs == [0, 0]


def test_an_at_beyond_the_end_of_time_never_comes(scheduler, clock):
    scheduler.at(datetime.max.replace(tzinfo=UTC), nothing)
    scheduler.at(datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))), nothing)
    clock.advance("90000d")
    assert len(scheduler) == 2
    assert scheduler.list_jobs()[0]["next_run_at"] is None


def test_at_takes_any_zone(scheduler, clock):
    runs = []
    scheduler.at(
        datetime(2000, 1, 1, 5, 30, 10, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        lambda: runs.append(clock.time()),
    )
    clock.advance(60)
    assert runs == [10]


@pytest.mark.parametrize("option", ["args", "tags"])
def test_iterators_serve_a_decorator_as_often_as_it_is_used(scheduler, clock, option):
    seen = []
    decorate = scheduler.every("1s", **{option: iter(["x"])})
    decorate(lambda *args: seen.append(args))
    decorate(lambda *args: seen.append(args))
    clock.advance(1)
    assert seen == ([("x",)] * 2 if option == "args" else [()] * 2)
    if option == "tags":
        assert [info["tags"] for info in scheduler.list_jobs()] == [("x",)] * 2


def test_what_was_given_may_be_changed_afterwards(scheduler, clock):
    args, kwargs, tags, seen = [1], {"a": 1}, {"t"}, []
    scheduler.every("1s", lambda *a, **k: seen.append((a, k)), args=args, kwargs=kwargs, tags=tags)
    args.append(2)
    kwargs["b"] = 2
    tags.add("u")
    clock.advance(1)
    assert seen == [((1,), {"a": 1})]
    assert scheduler.list_jobs()[0]["tags"] == ("t",)


def test_a_callback_may_not_change_the_kwargs_of_its_next_run(scheduler, clock):
    seen = []

    def job(**kwargs):
        seen.append(dict(kwargs))
        kwargs["b"] = 2

    scheduler.every("1s", job, kwargs={"a": 1})
    clock.advance(2)
    assert seen == [{"a": 1}] * 2


def test_hashed_decorators_are_hashed_on_the_functions(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)

    def one():
        pass

    def two():
        pass

    by_call = [scheduler.cron("H H * * *", each, hashed=True) for each in (one, two)]
    for each in (one, two):
        scheduler.cron("H H * * *", hashed=True)(each)
    infos = scheduler.list_jobs()
    assert [info["next_run_at"] for info in infos[2:]] == [scheduler.list_jobs()[i]["next_run_at"] for i in (0, 1)]
    assert infos[0]["next_run_at"] != infos[1]["next_run_at"]
    assert by_call == [info["id"] for info in infos[:2]]


def test_hashed_on_the_id(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    scheduler.cron("H H * * *", nothing, hashed=True, id="one")
    scheduler.cron("H H * * *", hashed=True, id="two")(nothing)
    other = make_scheduler(clock=clock)
    other.cron("H H * * *", lambda: None, hashed=True, id="two")
    assert scheduler.get_job("one").next_run_at != scheduler.get_job("two").next_run_at
    assert scheduler.get_job("two").next_run_at == other.get_job("two").next_run_at


def test_seconds(scheduler, clock):
    runs = []
    scheduler.cron("*/20 * * * * *", lambda: runs.append(clock.time()), seconds=True)
    clock.advance(60)
    assert runs == [20, 40, 60]


# What is refused: by name, and without a trace.

NUMBERS = [
    float("nan"),
    float("inf"),
    float("-inf"),
    -1,
    True,
    10**400,
    Decimal("NaN"),
    timedelta(-1),
    object(),
    [1],
    1e10,
]
REFUSED = [
    ("max_retries", -1),
    ("max_retries", 1.0),
    ("max_retries", "1"),
    ("max_retries", True),
    ("max_retries", False),
    ("max_retries", None),
    ("max_instances", 0),
    ("max_instances", -1),
    ("max_instances", True),
    ("max_instances", 1.0),
    ("max_instances", 2**20 + 1),
    ("max_instances", None),
    *(("retry_backoff", value) for value in [*NUMBERS, None, "soon"]),
    *(("timeout", value) for value in [*NUMBERS, 0, -0.0, "0s", "soon"]),
    ("id", ""),
    ("id", 5),
    ("id", b"x"),
    ("name", 5),
    ("args", None),
    ("args", 5),
    ("args", "text"),
    ("args", b"text"),
    ("kwargs", 5),
    ("kwargs", "text"),
    ("kwargs", {5: 1}),
    ("tags", None),
    ("tags", "text"),
    ("tags", 5),
    ("tags", [5]),
    ("tags", [[]]),
    ("replace", "yes"),
    ("on_error", 5),
]
REFUSED_OF_REPEATED = [
    ("start_at", "2000-01-01"),
    ("start_at", 5),
    ("start_at", NAIVE),
    ("start_at", T0.date()),
    ("until", "2000-01-01"),
    ("until", NAIVE),
    ("until", T0),
    ("until", T0 + timedelta(seconds=10)),
    ("until", datetime.min.replace(tzinfo=UTC)),
    ("max_runs", 0),
    ("max_runs", -1),
    ("max_runs", 1.0),
    ("max_runs", True),
    ("max_runs", 2**63),
    ("max_runs", 2**64),
    *(("jitter", value) for value in [*NUMBERS, "soon"]),
    ("immediate", 1),
    ("immediate", None),
]


def refuses(scheduler, kind, form, named, **options):
    before = shape(scheduler)
    with pytest.raises((TypeError, ValueError), match=rf"\b{named}\b"):
        register(scheduler, kind, form, **options)
    assert shape(scheduler) == before
    scheduler._check()


@forms
@kinds
@pytest.mark.parametrize(("option", "value"), REFUSED, ids=label)
def test_refused_options(make_scheduler, kind, form, option, value):
    scheduler = made(make_scheduler, True)
    register(scheduler, "every", id="before")
    refuses(scheduler, kind, form, option, **{option: value})


@forms
@pytest.mark.parametrize("kind", ["every", "cron"])
@pytest.mark.parametrize(("option", "value"), REFUSED_OF_REPEATED, ids=label)
def test_refused_options_of_repeated_jobs(make_scheduler, kind, form, option, value):
    scheduler = made(make_scheduler, False)
    what = "*/10 * * * * *" if kind == "cron" else None
    refuses(scheduler, kind, form, option, what=what, **({"seconds": True} if what else {}), **{option: value})


@forms
@pytest.mark.parametrize("value", [*NUMBERS, 0, "", "10", None, "1m1h", "ten seconds", "0s"], ids=label)
def test_refused_intervals(make_scheduler, form, value):
    scheduler = make_scheduler()
    with pytest.raises((TypeError, ValueError), match="interval"):
        scheduler.every(value, nothing) if form == "call" else scheduler.every(value)
    assert len(scheduler) == 0


@pytest.mark.parametrize("value", [*NUMBERS, "", "10", None, "soon"], ids=label)
def test_refused_delays(make_scheduler, value):
    scheduler = make_scheduler()
    with pytest.raises((TypeError, ValueError), match="delay"):
        scheduler.after(value, nothing)
    with pytest.raises((TypeError, ValueError), match="delay"):
        scheduler.after(value)
    assert len(scheduler) == 0


@pytest.mark.parametrize("value", [NAIVE, "2000-01-01", 5, None, T0.date()], ids=label)
def test_refused_moments(make_scheduler, value):
    scheduler = make_scheduler()
    with pytest.raises((TypeError, ValueError), match="when"):
        scheduler.at(value, nothing)
    with pytest.raises((TypeError, ValueError), match="when"):
        scheduler.at(value)
    assert len(scheduler) == 0


@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["*"] * 5, {}], ids=label)
def test_refused_expressions(make_scheduler, value):
    with pytest.raises(TypeError, match="expression"):
        make_scheduler().cron(value, nothing)


@pytest.mark.parametrize("value", ["Nowhere/City", "", 5, b"UTC", "../etc/passwd"], ids=label)
def test_refused_zones(make_scheduler, value):
    with pytest.raises((TypeError, ValueError), match="timezone"):
        make_scheduler().cron("* * * * *", nothing, timezone=value)
    with pytest.raises((TypeError, ValueError), match="timezone"):
        make_scheduler(timezone=value)


class Failing(tzinfo):
    """A zone that knows no time."""

    def utcoffset(self, dt):
        raise LookupError("no such time")

    dst = tzname = utcoffset


@forms
@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, option) for kind in ("every", "cron") for option in ("start_at", "until")] + [("at", "what")],
)
def test_a_moment_whose_zone_raises_leaves_nothing(scheduler, kind, form, option):
    arguments = {option: datetime(2000, 1, 2, tzinfo=Failing())}
    with pytest.raises(LookupError, match="no such time"):
        register(scheduler, kind, form, id="k", **arguments)
    assert len(scheduler) == 0
    assert register(scheduler, kind, id="k") == "k"
    assert len(scheduler) == 1
    scheduler._check()


def test_a_zone_that_raises_at_registration_leaves_nothing(scheduler):
    with pytest.raises(LookupError, match="no such time"):
        scheduler.cron("* * * * *", nothing, timezone=Failing(), id="k")
    assert len(scheduler) == 0
    assert not scheduler._book.ids


@pytest.mark.parametrize(
    "options",
    [{"max_retries": 1}, {"timeout": 5}, {"on_error": nothing}, {"kwargs": {"x": 1}}, {}, {"name": "token"}],
    ids=label,
)
def test_what_another_process_cannot_do_is_refused_at_registration(make_scheduler, options):
    def token(cancel):
        pass

    callback = dict if "kwargs" in options else token if not options or "name" in options else nothing
    with ProcessPoolExecutor(1) as pool:  # it starts no process before the first call
        scheduler = make_scheduler(executor=pool)
        for form in ("call", "decorator"):
            for kind in KINDS:
                with pytest.raises(TypeError, match="another process"):
                    register(scheduler, kind, form, callback=callback, id="k", **options)
        assert len(scheduler) == 0
        assert not scheduler._book.ids


def test_what_another_process_can_do_is_accepted(make_scheduler):
    options = {"id": "k", "name": "n", "tags": ["t"], "args": (1, 2), "max_instances": 2}
    with ProcessPoolExecutor(1) as pool:
        scheduler = make_scheduler(executor=pool)
        for kind in KINDS:
            register(scheduler, kind)
            register(scheduler, kind, replace=True, **options)
        scheduler.every("10s", nothing, max_runs=3, jitter=1, immediate=True)
        assert len(scheduler) == len(KINDS) + 2


@pytest.mark.parametrize("value", [Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"), Decimal(-1)], ids=str)
@pytest.mark.parametrize("named", ["retry_backoff", "timeout", "jitter", "interval", "delay"])
def test_decimals_that_are_no_durations(make_scheduler, value, named):
    scheduler = make_scheduler()
    with pytest.raises((TypeError, ValueError), match=f"^{named} must be"):
        if named == "interval":
            scheduler.every(value, nothing)
        elif named == "delay":
            scheduler.after(value, nothing)
        else:
            scheduler.every("10s", nothing, **{named: value})
    assert len(scheduler) == 0


@kinds
def test_what_needs_a_runner_is_accepted_on_threads(make_scheduler, kind):
    with ThreadPoolExecutor(1) as pool:
        register(make_scheduler(executor=pool), kind, timeout=5, max_retries=2, on_error=nothing)


def test_a_start_at_after_which_cron_never_comes_is_refused(make_scheduler):
    with pytest.raises(ValueError, match="expression"):
        make_scheduler().cron("* * * * *", nothing, start_at=datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize("jitter", [10, "10s", 11, timedelta(seconds=10)], ids=label)
def test_a_jitter_of_an_interval_or_more_is_refused(make_scheduler, jitter):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="jitter"):
        scheduler.every("10s", nothing, jitter=jitter)
    with pytest.raises(ValueError, match="jitter"):
        scheduler.every("10s", jitter=jitter)
    scheduler.every("10s", nothing, jitter=9.9)


@pytest.mark.parametrize("kind", ["after", "at"])
@pytest.mark.parametrize(
    "option", ["start_at", "until", "max_runs", "jitter", "immediate", "timezone", "seconds", "tag"]
)
def test_options_that_a_kind_does_not_have(make_scheduler, kind, option):
    scheduler = make_scheduler()
    with pytest.raises(TypeError, match=option):
        register(scheduler, kind, **{option: None})
    assert len(scheduler) == 0


@kinds
@pytest.mark.parametrize("callback", [5, "fn", [], {}], ids=label)
def test_callbacks_that_are_none(make_scheduler, kind, callback):
    scheduler = make_scheduler()
    with pytest.raises(TypeError, match="callback"):
        register(scheduler, kind, callback=callback)
    with pytest.raises(TypeError, match="callback"):
        register(scheduler, kind, "decorator", callback=callback)
    with pytest.raises(TypeError, match="callback"):
        register(scheduler, kind, "decorator", callback=None)
    assert len(scheduler) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_workers": 0}, "max_workers"),
        ({"max_workers": -1}, "max_workers"),
        ({"max_workers": True}, "max_workers"),
        ({"max_workers": 1.5}, "max_workers"),
        ({"max_workers": "4"}, "max_workers"),
        ({"max_workers": 10**9}, "max_workers"),
        ({"executor": 4}, "executor"),
        ({"executor": "pool"}, "executor"),
        ({"clock": 5}, "clock"),
        ({"on_error": 5}, "on_error"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
    ],
    ids=label,
)
def test_refused_arguments_of_a_scheduler(scheduler_type, arguments, named):
    with pytest.raises((TypeError, ValueError), match=named):
        scheduler_type(**arguments)


@pytest.mark.parametrize("option", ["args", "tags"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "must be an iterable of items, got a str: write ['x']"),
        ("x" * 10**6, f"must be an iterable of items, got a str: write ['{'x' * 56}...]"),
        (b"x", "must be an iterable of items, got a bytes: write [b'x']"),
        (5, "must be an iterable, got int"),
        (None, "must be an iterable, got NoneType"),
    ],
    ids=label,
)
def test_of_what_is_no_list_it_is_told_what_to_write(scheduler, option, value, words):
    with pytest.raises(TypeError) as caught:
        scheduler.every(1, print, **{option: value})
    assert str(caught.value) == f"{option} {words}"
    assert len(scheduler) == 0


@pytest.mark.parametrize("executor", [4, True, "pool", print, object(), ThreadPoolExecutor], ids=label)
def test_what_is_no_executor_is_told_in_one_way(scheduler_type, executor):
    """Not as of `Engine`, which takes a number of workers there."""
    with pytest.raises(TypeError, match=f"^executor must be an Executor, got {type(executor).__name__}$"):
        scheduler_type(executor=executor)


def test_workers_and_an_executor_exclude_each_other(scheduler_type):
    with pytest.raises(ValueError, match="max_workers and executor"):
        scheduler_type(4, executor=object())


# Ids.


@starts
@kinds
def test_an_id_that_is_taken_is_refused_at_once(make_scheduler, kind, started):
    scheduler = made(make_scheduler, started)
    register(scheduler, "every", id="k")
    refuses(scheduler, kind, "call", "id", id="k")
    refuses(scheduler, kind, "decorator", "id", id="k")
    assert [info["id"] for info in scheduler.list_jobs()] == ["k"]


class InterruptAt:
    """A trace function that raises KeyboardInterrupt at the nth line or end of the functions with that name."""

    def __init__(self, name, number):
        self.name = name
        self.left = number

    def __call__(self, frame, event, argument):
        return self.count if frame.f_code.co_name == self.name else None

    def count(self, frame, event, argument):
        if event in ("line", "return"):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.count


def test_a_replacement_that_is_interrupted_while_it_gets_the_id_leaves_the_old_job_as_it_was(make_scheduler):
    scheduler = make_scheduler(clock=ManualClock())
    scheduler.every("10s", nothing, id="k", name="old")
    interrupted = 0
    before = sys.gettrace()
    while True:
        trace = InterruptAt("enter_as", interrupted + 1)
        sys.settrace(trace)
        try:
            scheduler.every("10s", nothing, id="k", name="new", replace=True)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        scheduler._check()
        assert [info["name"] for info in scheduler.list_jobs()] == ["new" if trace.left > 0 else "old"]
        assert scheduler.get_job("k") is not None
        if trace.left > 0:
            break
    assert interrupted > 10


@starts
@kinds
def test_replace_is_remove_and_add(make_scheduler, kind, started):
    scheduler = made(make_scheduler, started)
    clock, runs = scheduler._runner.clock, []
    register(scheduler, "every", id="k", callback=lambda: runs.append("old"))
    register(scheduler, "every", id="other")
    if started:
        clock.advance(30)
        assert runs == ["old"] * 3
        runs.clear()
    what = clock.now() + timedelta(seconds=30) if kind == "at" else None
    assert register(scheduler, kind, what=what, id="k", replace=True, callback=lambda: runs.append("new")) == "k"
    infos = scheduler.list_jobs()
    assert [info["id"] for info in infos] == ["other", "k"]
    assert infos[1]["run_count"] == 0
    if started:
        clock.advance(60)
        assert set(runs) == {"new"}


def test_replace_of_nothing_just_adds(make_scheduler):
    scheduler = make_scheduler()
    scheduler.every("1s", nothing, id="k", replace=True)
    scheduler.every("1s", nothing, replace=True)
    assert len(scheduler) == 2


def test_replaced_before_the_start_one_run_a_tick(make_scheduler, clock):
    scheduler, runs = make_scheduler(clock=clock), []
    scheduler.every("1s", lambda: runs.append("old"), id="k")
    scheduler.every("1s", lambda: runs.append("new"), id="k", replace=True)
    scheduler.start_background()
    clock.advance(3)
    assert runs == ["new"] * 3


def test_a_replacement_that_is_refused_leaves_the_old_job(scheduler):
    scheduler.every("1s", nothing, id="k")
    refuses(scheduler, "every", "call", "timeout", id="k", replace=True, timeout=-1)
    refuses(scheduler, "every", "call", "until", id="k", replace=True, until=T0)
    assert scheduler.get_job("k").schedule == "every 1s"


def test_a_replacement_without_memory_leaves_the_old_job(scheduler, clock, monkeypatch):
    scheduler.every("1s", nothing, id="k")
    before = shape(scheduler)

    class NoMemory:
        def __init__(self, engine):
            self.engine = engine

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def add(self, *args):
            raise MemoryError

        add_plain = add

        def __len__(self):
            return len(self.engine)

    engine = scheduler._engine
    monkeypatch.setattr(scheduler, "_engine", NoMemory(engine))
    with pytest.raises(MemoryError):
        scheduler.every("5s", nothing, id="k", replace=True)
    with pytest.raises(MemoryError):
        scheduler.every("5s", nothing, id="new")
    with pytest.raises(MemoryError):
        scheduler.after("5s", nothing)
    monkeypatch.setattr(scheduler, "_engine", engine)
    assert shape(scheduler) == before
    scheduler.every("1s", nothing, id="new")
    clock.advance(1)
    assert scheduler.get_job("k").run_count == 1


def test_an_id_is_free_when_its_job_is_removed(scheduler, clock):
    for _ in range(3):
        scheduler.every("1s", nothing, id="k")
        scheduler.remove_job("k")
    scheduler.after(1, nothing, id="k")
    clock.advance(1)
    scheduler.after(1, nothing, id="k")
    assert scheduler._book.ids.keys() == {"k"}


def test_a_one_shot_has_its_id_until_its_run_has_ended(scheduler, clock):
    refused = []

    def job():
        try:
            scheduler.after(1, nothing, id="k")
        except ValueError as error:
            refused.append(str(error))

    scheduler.after(1, job, id="k")
    clock.advance(1)
    assert len(refused) == 1
    with pytest.raises(KeyError):
        scheduler.get_job("k")


def test_ids_are_text_as_it_was_written(scheduler):
    class Text(str):
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("it is compared")

    for job_id in ("\n", " ", "é", "\ud800", "x" * 10_000):
        assert scheduler.every("1s", nothing, id=job_id) == job_id
        assert scheduler.get_job(job_id).id == job_id
    assert type(scheduler.every("1s", nothing, id=Text("t"))) is str
    assert scheduler.get_job("t").id == "t"


class Posing(str):
    """A text that poses as another one wherever it is looked up."""

    def __new__(cls, text, other):
        made = super().__new__(cls, text)
        made.other = other
        return made

    def __hash__(self):
        return hash(self.other)

    def __eq__(self, other):
        return True


def test_what_a_text_poses_as_is_not_what_others_get(scheduler, clock):
    first, second, third = [], [], []
    scheduler.every(Posing("10s", "7s"), nothing)
    scheduler.every("7s", first.append, args=(1,))
    scheduler.cron(Posing("0 0 * * *", "*/7 * * * *"), nothing)
    scheduler.cron("*/7 * * * *", second.append, args=(1,))
    scheduler.cron("H * * * *", nothing, hashed=True, id=Posing("a", "b"))
    scheduler.cron("H * * * *", third.append, args=(1,), hashed=True, id="b")
    assert scheduler.get_job("b").next_run_at != scheduler.get_job("a").next_run_at
    clock.advance("70s")
    assert len(first) == 10
    clock.advance("35m")
    assert len(second) == 5
    start = datetime(2020, 1, 1, tzinfo=UTC)
    preview(Posing("0 0 * * *", "*/9 * * * *"), 1, start=start, tz=UTC)
    assert preview("*/9 * * * *", 1, start=start, tz=UTC)[0].minute == 9


def test_default_ids_are_never_used_twice(scheduler, clock):
    seen = set()
    for round_ in range(200):
        job_id = scheduler.every("1s", nothing) if round_ % 2 else scheduler.after(1, nothing)
        assert job_id
        assert job_id not in seen
        seen.add(job_id)
        assert scheduler.get_job(job_id).id == job_id
        scheduler.remove_job(job_id)
        with pytest.raises(KeyError):
            scheduler.get_job(job_id)


def test_default_ids_of_two_schedulers_differ(make_scheduler):
    one, two = make_scheduler(), make_scheduler()
    ids = [scheduler.every("1s", nothing) for scheduler in (one, two) for _ in range(10)]
    assert len(set(ids)) == 20
    with pytest.raises(KeyError):
        two.get_job(ids[0])


@pytest.mark.parametrize("managed", [False, True])
def test_a_default_id_is_never_one_that_a_user_has_taken(make_scheduler, clock, managed):
    """The next default ids are foreseen, as those of a scheduler that had the same history."""
    scheduler = make_scheduler(clock=clock)
    first = scheduler.every("1s", nothing)
    prefix, number = first.rsplit("-", 1)
    taken = [f"{prefix}-{int(number, 16) + step:x}" for step in range(1, 300)]
    references = {scheduler.every("1s", nothing, id=each) for each in taken[150:]}
    ids = [first, *references]
    options = {"max_retries": 1} if managed else {}
    ids += [scheduler.every("1s", nothing, **options) for _ in range(300)]
    assert len(set(ids)) == len(ids)
    assert {info["id"] for info in scheduler.list_jobs()} == set(ids)
    for job_id in ids:
        assert scheduler.get_job(job_id).id == job_id
    for job_id in ids:
        scheduler.remove_job(job_id)
    assert len(scheduler) == 0
    assert not scheduler._book.ids
    assert not scheduler._book.options


def test_a_users_id_may_look_like_a_default_one_that_is_free(scheduler):
    gone = scheduler.every("1s", nothing)
    scheduler.remove_job(gone)
    assert scheduler.every("1s", nothing, id=gone) == gone
    assert scheduler.get_job(gone).id == gone
    assert scheduler.every("1s", nothing) != gone


def test_the_id_of_a_live_job_is_taken_also_if_it_is_a_default_one(scheduler):
    taken = scheduler.every("1s", nothing)
    with pytest.raises(ValueError, match="taken"):
        scheduler.every("5s", nothing, id=taken)
    scheduler.every("5s", nothing, id=taken, replace=True)
    assert [info["schedule"] for info in scheduler.list_jobs()] == ["every 5s"]


@pytest.mark.parametrize("job_id", ["", "x", None, 5, [], "0-1", "1-zz", "1-"], ids=label)
def test_unknown_ids(make_scheduler, job_id):
    scheduler = make_scheduler(clock=ManualClock())
    scheduler.every("1s", nothing)
    prefix = scheduler._book.prefix
    for unknown in (job_id, f"{prefix}0", f"{prefix}ffffffffffffffffffff", f"{prefix}+1", f"{prefix} 1", f"{prefix}-1"):
        for method in ("get_job", "remove_job", "pause_job", "resume_job", "run_job"):
            with pytest.raises(KeyError):
                getattr(scheduler, method)(unknown)
        with pytest.raises(KeyError):
            scheduler.next_runs(unknown, 1)
        with pytest.raises(KeyError):
            scheduler.reschedule_job(unknown, every="1s")


def test_one_of_several_threads_gets_an_id(make_scheduler):
    scheduler, got = make_scheduler(), []

    def register_all():
        for number in range(100):
            try:
                scheduler.every("1h", nothing, id=f"k{number}")
            except ValueError:
                continue
            got.append(number)

    in_threads(*[register_all] * 4)
    assert sorted(got) == list(range(100))
    assert len(scheduler) == len(scheduler.list_jobs()) == 100
    scheduler._check()


def test_several_threads_replace_one_job(make_scheduler):
    scheduler = make_scheduler()
    in_threads(*[lambda: [scheduler.every("1h", nothing, id="k", replace=True) for _ in range(200)]] * 4)
    assert [info["id"] for info in scheduler.list_jobs()] == ["k"]
    scheduler._check()


def test_registrations_from_eight_threads_in_random_order(make_scheduler, clock):
    scheduler, ran = make_scheduler(clock=clock), []
    scheduler.start_background()

    def register_all(seed):
        for step in range(125):
            delay = (step * 37 + seed * 11) % 100 / 10
            scheduler.after(delay, lambda delay=delay: ran.append((delay, clock.time())))

    in_threads(*[lambda seed=seed: register_all(seed) for seed in range(8)])
    clock.advance(10)
    assert len(ran) == 1000
    assert all(delay == at for delay, at in ran)
    assert [at for _, at in ran] == sorted(at for _, at in ran)


# After the shutdown.


@kinds
@forms
def test_after_the_shutdown_there_is_an_id_one_warning_and_no_run(make_scheduler, clock, logged, kind, form):
    scheduler, runs = make_scheduler(clock=clock), []
    scheduler.start_background()
    scheduler.shutdown()
    for _ in range(3):
        assert register(scheduler, kind, form, callback=lambda: runs.append(1))
    clock.advance("1h")
    assert runs == []
    assert [level for level, _, _ in logged] == ["WARNING"]
    assert len(scheduler) == 3


def test_a_subclass_with_an_odd_hash(scheduler_type, clock):
    class Odd(scheduler_type):
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("it is compared")

    scheduler = Odd(clock=clock, timezone="UTC")
    scheduler.every("1s", nothing)
    scheduler.start_background()
    assert clock.advance(2) == 2
    scheduler.shutdown()
    del scheduler
    gc.collect()


def test_schedules_are_shared_and_let_go(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock)
    for _ in range(1000):
        scheduler.cron("*/5 * * * *", nothing)
    assert len(scheduler._schedules) == 1
    for minute in range(1000):
        scheduler.remove_job(
            scheduler.cron(f"{minute % 60} {minute % 24} * * *", nothing, timezone=timezone(timedelta(minutes=minute)))
        )
    assert len(scheduler._schedules) < 400
    assert threading.active_count() < 10


def test_defaults_of_a_scheduler(make_scheduler, clock):
    scheduler = make_scheduler(
        clock=clock, defaults={"max_retries": 3, "tags": iter(["x"]), "timeout": "5s", "spread": "1s"}
    )
    ids = [scheduler.every("10s", nothing), scheduler.after(1, nothing, timeout=None, tags=["y"])]
    ids.append(scheduler.cron("* * * * *", nothing, max_retries=0))
    seen = [scheduler.get_job(job_id) for job_id in ids]
    assert [info.max_retries for info in seen] == [3, 3, 0]
    assert [info.timeout for info in seen] == [5.0, None, 5.0]
    assert [set(info.tags) for info in seen] == [{"x"}, {"y"}, {"x"}]


@pytest.mark.parametrize(
    ("defaults", "named"),
    [
        (5, "defaults"),
        ({"id": "k"}, "id"),
        ({"timeot": 1}, "timeot"),
        ({"max_retries": -1}, "max_retries"),
        ({"jitter": "x"}, "jitter"),
        ({"timezone": "Nowhere"}, "timezone"),
        ({"seconds": 3}, "seconds"),
        ({"catch_up": "some"}, "catch_up"),
    ],
    ids=str,
)
def test_defaults_that_are_refused(make_scheduler, defaults, named):
    with pytest.raises((TypeError, ValueError), match=named):
        make_scheduler(defaults=defaults)
