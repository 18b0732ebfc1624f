"""`Scheduler`: what comes in between two steps of another call, at a moment that a test can name."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from support import Intruder, in_other_thread, nothing

from pysched import current_run
from pysched.testing import ManualClock

WAYS_TO_LEAVE = {
    "removed": lambda scheduler: scheduler.remove_job("k"),
    "replaced": lambda scheduler: scheduler.every("1000h", nothing, id="k", replace=True),
    "all removed": lambda scheduler: scheduler.remove_all_jobs(),
}
KINDS = {
    "every": lambda scheduler, callback, **options: scheduler.every("1000h", callback, immediate=True, **options),
    "after": lambda scheduler, callback, **options: scheduler.after(0, callback, **options),
}


class ClockWithTraps(ManualClock):
    """A clock that does what the test says when it is next asked for the time."""

    trap = None  # called once

    def spring(self):
        trap, self.trap = self.trap, None
        if trap is not None:
            trap()

    def time_ns(self):
        self.spring()
        return super().time_ns()

    def wall_ns(self):
        self.spring()
        return super().wall_ns()


# Removals while a run starts.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("leave", WAYS_TO_LEAVE)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_leaves_while_its_run_is_opened_has_no_retry(make_scheduler, clock, monkeypatch, kind, leave, when):
    scheduler, attempts = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()
    runner = scheduler._runner
    opened = runner.opened

    def open_and_leave(run):
        steps = [lambda: WAYS_TO_LEAVE[leave](scheduler), lambda: opened(run)]
        for step in steps if when == "before" else reversed(steps):
            step()

    def job():
        attempts.append(clock.time())
        raise ValueError

    monkeypatch.setattr(runner, "opened", open_and_leave)
    KINDS[kind](scheduler, job, id="k", max_retries=3)
    clock.advance("1h")
    assert attempts == [0]
    assert runner.open == {}
    assert scheduler._book.errors == {}
    assert len(scheduler) == (leave == "replaced")


@pytest.mark.parametrize("leave", WAYS_TO_LEAVE)
def test_a_job_that_leaves_while_its_run_is_opened_may_succeed(scheduler, clock, monkeypatch, leave):
    runs = []
    runner = scheduler._runner
    opened = runner.opened

    def leave_first(run):
        WAYS_TO_LEAVE[leave](scheduler)
        opened(run)

    monkeypatch.setattr(runner, "opened", leave_first)
    scheduler.every("10s", lambda: runs.append(clock.time()), id="k", max_retries=3, timeout=5)
    clock.advance(60)
    assert (runs, runner.open) == ([10], {})


# Registrations inside of registrations.


def only_job(scheduler):
    """The id of the one job, found in all ways."""
    (listed,) = scheduler.list_jobs()
    assert scheduler.get_job(listed["id"]).name == listed["name"]
    assert len(scheduler) == 1
    scheduler._check()
    return listed


@pytest.mark.parametrize("there", [False, True], ids=["new", "taken"])
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_a_handler_that_registers_the_same_id_at_any_moment(scheduler_type, there, options):
    """One of the jobs remains, and is found by its id."""
    for moment in itertools.count(1):
        scheduler = scheduler_type(clock=ManualClock(), timezone="UTC")
        if there:
            scheduler.every("1h", nothing, id="k", name="before", **options)

        def intrude(scheduler=scheduler):
            scheduler.every("2h", nothing, id="k", name="inner", replace=True, **options)

        with Intruder(moment, intrude) as intruder:
            scheduler.every("3h", nothing, id="k", name="outer", replace=True, **options)
        found = only_job(scheduler)
        assert (found["id"], found["name"] in ("inner", "outer")) == ("k", True)
        scheduler.shutdown()
        if not intruder.came:
            break
    assert moment > 10


def test_a_handler_that_takes_the_id_without_replace_at_any_moment(scheduler_type):
    """Neither is lost without a word: one of the two has the id, the other is refused."""
    for moment in itertools.count(1):
        scheduler, refused = scheduler_type(clock=ManualClock(), timezone="UTC"), []

        def register(name, scheduler=scheduler, refused=refused):
            try:
                scheduler.every("1h", nothing, id="k", name=name)
            except ValueError as error:
                assert "'k' is taken" in str(error)
                refused.append(name)

        with Intruder(moment, lambda register=register: register("inner")) as intruder:
            register("outer")
        names = [only_job(scheduler)["name"], *refused]
        assert sorted(names) == (["inner", "outer"] if intruder.came else ["outer"])
        scheduler.shutdown()
        if not intruder.came:
            break
    assert moment > 10


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("place", ["_lives", "ids"])
def test_handlers_inside_of_handlers(scheduler, monkeypatch, depth, place):
    """Each comes in while the one before looks whether its id is free."""
    book, left = scheduler._book, [depth]

    def register():
        scheduler.every("1h", nothing, id="k", name=f"at {left[0]}", replace=True)

    def come_in():
        if left[0]:
            left[0] -= 1
            register()

    if place == "_lives":
        lives = book._lives

        def looks(reference):
            come_in()
            return lives(reference)

        scheduler.every("1h", nothing, id="k")
        monkeypatch.setattr(book, "_lives", looks)
    else:
        monkeypatch.setattr(book, "ids", Ids(come_in))
    register()
    assert left == [0]
    assert only_job(scheduler)["id"] == "k"


class Ids(dict):
    """Somebody comes in just after an id was looked up."""

    def __init__(self, come_in):
        super().__init__()
        self.come_in = come_in

    def get(self, key, default=None):
        found = super().get(key, default)
        self.come_in()
        return found


@pytest.mark.parametrize("replace", [False, True])
def test_a_clock_that_registers_the_same_id(make_scheduler, replace):
    clock = ClockWithTraps()
    scheduler = make_scheduler(clock=clock)
    clock.trap = lambda: scheduler.every("1h", nothing, id="k", name="inner")
    if replace:
        scheduler.every("1h", nothing, id="k", name="outer", replace=True)
    else:
        with pytest.raises(ValueError, match="'k' is taken"):
            scheduler.every("1h", nothing, id="k", name="outer")
    assert only_job(scheduler)["name"] == ("outer" if replace else "inner")


# First runs.


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
@pytest.mark.parametrize("entry", [{"id": "mine"}, {"name": "mine"}, {"id": "mine", "name": "mine"}], ids=str)
def test_the_first_run_of_a_new_job_waits_until_it_is_named(scheduler, clock, monkeypatch, entry, options):
    seen = []

    def job():
        run = current_run()
        seen.append((run.job_id, run.job_name))

    def patient(method):
        def enter(*args):
            clock.advance(0)
            assert seen == []
            entered = method(*args)
            clock.advance(0)
            assert seen == []
            return entered

        return enter

    for name in ("enter", "enter_as"):
        monkeypatch.setattr(scheduler._book, name, patient(getattr(scheduler._book, name)))
    job_id = scheduler.every("1h", job, immediate=True, **entry, **options)
    clock.advance(0)
    assert seen == [(job_id, entry.get("name", "job"))]
    assert job_id == entry.get("id", job_id)


# Shutdowns between two steps.


@pytest.mark.parametrize("start", ["run", "start_background"])
def test_a_shutdown_between_the_check_and_the_start(make_scheduler, monkeypatch, start):
    scheduler, runs = make_scheduler(1), []
    scheduler.every("1ms", lambda: runs.append(1), immediate=True)
    check = scheduler._refuses_start

    def check_and_shut_down():
        refused = check()
        assert scheduler.shutdown() == []
        return refused

    monkeypatch.setattr(scheduler, "_refuses_start", check_and_shut_down)
    assert in_other_thread(getattr(scheduler, start)), "it runs"
    assert not scheduler.running
    assert runs == []
    assert scheduler.stats().started == 0


def test_a_shutdown_between_the_check_and_the_start_on_a_manual_clock(make_scheduler, monkeypatch, clock):
    scheduler, runs = make_scheduler(clock=clock), []
    scheduler.every("1s", lambda: runs.append(1), immediate=True)
    monkeypatch.setattr(scheduler, "_refuses_start", lambda: bool(scheduler.shutdown()))
    scheduler.start_background()
    assert not scheduler.running
    assert clock.advance(10) == 0
    assert runs == []


@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_run_job_of_a_scheduler_that_is_being_shut_down(make_scheduler, options):
    clock, runs = ClockWithTraps(), []
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", lambda: runs.append(1), id="k", **options)
    scheduler.start_background()
    clock.trap = scheduler.shutdown
    with pytest.raises(RuntimeError, match="not running"):
        scheduler.run_job("k")
    info = scheduler.get_job("k")
    assert (info.running, info.started_count) == (0, 0)
    assert scheduler.stats().ready == 0
    clock.advance(60)
    assert runs == []


# Retries that come and go before the attempt before has their timers.


class Hurried:
    """An engine some of whose timers have come before anybody has their handles."""

    def __init__(self, engine, hurries):
        self.engine, self.hurries = engine, hurries

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def call_later(self, delay, callback):
        if not self.hurries:
            return self.engine.call_later(delay, callback)
        self.hurries -= 1
        callback()
        return SimpleNamespace(cancel=lambda: False)


@pytest.mark.parametrize("hurries", [1, 2, 5])
@pytest.mark.parametrize("end", ["shutdown", "remove", "time-out"])
def test_a_retry_that_fails_before_its_timer_is_known(make_scheduler, clock, monkeypatch, hurries, end):
    scheduler, attempts = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()
    monkeypatch.setattr(scheduler._runner, "engine", Hurried(scheduler._engine, hurries))

    def job(ctx):
        attempts.append(ctx.attempt)
        raise ValueError

    scheduler.every(
        "1000h", job, max_retries=100, retry_backoff=30, immediate=True, id="k", timeout=10 if end == "time-out" else 99
    )
    clock.advance(0)
    assert attempts == list(range(1, hurries + 2))
    assert scheduler.get_job("k").running == 1
    if end == "shutdown":
        assert scheduler.shutdown() == []
    elif end == "remove":
        scheduler.remove_job("k")
    else:
        clock.advance(10)
        assert scheduler.get_job("k").timeout_count == 1
    assert [job["running"] for job in scheduler.list_jobs()] == ([] if end == "remove" else [0])
    assert scheduler._runner.all_open() == []
    clock.advance("1h")
    assert len(attempts) == hurries + 1


def test_a_retry_that_succeeds_before_its_timer_is_known(make_scheduler, clock, monkeypatch):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()
    monkeypatch.setattr(scheduler._runner, "engine", Hurried(scheduler._engine, 1))

    def job(ctx):
        if ctx.attempt == 1:
            raise ValueError

    scheduler.every("10s", job, max_retries=1, id="k", timeout=5)
    clock.advance(35)
    info = scheduler.get_job("k")
    assert (info.run_count, info.error_count, info.running) == (3, 0, 0)
    assert scheduler._runner.all_open() == []


@pytest.mark.parametrize("meanwhile", ["remove_job", "remove_all_jobs", "resume", "resume_job", "reschedule_job"])
def test_what_happens_to_a_job_that_has_no_name_yet(scheduler, clock, monkeypatch, meanwhile):
    """It can be seen under its default id until it is named; and the name may be refused."""
    ran = []
    scheduler.every("1h", nothing, id="taken")
    enter_as = scheduler._book.enter_as

    def later(job_id, reference, record, replace, replaced):
        if job_id != "taken":
            return enter_as(job_id, reference, record, replace, replaced)
        own = scheduler._book.default_id(reference)
        if meanwhile in ("remove_all_jobs", "resume"):
            scheduler.pause()
            getattr(scheduler, meanwhile)()
            scheduler.resume()
        elif meanwhile == "reschedule_job":
            scheduler.reschedule_job(own, every="1s")
        else:
            scheduler.pause_job(own)
            getattr(scheduler, meanwhile)(own)
        if meanwhile.startswith("remove"):
            scheduler.every("1h", nothing, id="other")  # in its place
        clock.advance(5)
        assert ran == []
        return enter_as(job_id, reference, record, replace, replaced)

    monkeypatch.setattr(scheduler._book, "enter_as", later)
    if meanwhile == "remove_all_jobs":
        scheduler.after(1, lambda: ran.append(1), id="taken")
    else:
        with pytest.raises(ValueError, match="taken"):
            scheduler.after(1, lambda: ran.append(1), id="taken")
    monkeypatch.undo()
    clock.advance(5)
    assert ran == []
    scheduler._check()
    assert "other" in {job["id"] for job in scheduler.list_jobs()} or not meanwhile.startswith("remove")


# A time-out between a failure and its retry.


@pytest.mark.parametrize("end", ["by itself", "removed", "shut down"])
def test_a_run_that_times_out_while_its_retry_is_prepared_does_not_go_on(make_scheduler, clock, end):
    """It was taken for abandoned, its call being about to end, and with the retry went who would have said so."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def fail():
        raise ValueError

    def time_passes(event):
        clock.sleep("2s")
        if end == "removed":
            scheduler.remove_job("k")
        elif end == "shut down":
            scheduler.shutdown(wait=False)

    scheduler.on("retry", time_passes)
    scheduler.every("1000h", fail, id="k", immediate=True, max_retries=1, timeout=1)
    clock.advance(0)
    assert scheduler.stats().abandoned == 0
    assert scheduler._runner.abandoned == {}
    assert scheduler.shutdown() == []


def test_others_time_out_while_a_job_is_removed(make_scheduler, clock):
    """Whether the removed one is in a call is asked of all runs that were abandoned, which other threads change."""
    scheduler = make_scheduler(clock=clock)
    runner = scheduler._runner

    class Restless:
        """An abandoned run, at a look at which another comes."""

        calling = False

        @property
        def ticket(self):
            runner.abandoned[Restless()] = None
            return SimpleNamespace(reference=0)

    runner.abandoned[Restless()] = None
    runner.abandoned[Restless()] = None
    assert not runner.is_calling(1)
    runner.abandoned.clear()
