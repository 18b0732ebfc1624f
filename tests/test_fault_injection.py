"""Each allocation fails in turn: the call raises MemoryError, changes nothing, leaves nothing behind, works later.

Of the twin that is asked of `Engine` only: its commands and jobs are made of many steps in Python, and each may fail.
"""

from __future__ import annotations

import array
from datetime import datetime, timezone

import pytest
from failures import ALLOCATORS, Case, fail_in_turn, skip_where_python_leaks
from support import TOMORROW, WAIT, nothing

from pysched.testing import ManualClock

pytestmark = pytest.mark.timeout(300)

UTC = timezone.utc


@pytest.fixture(params=ALLOCATORS)
def allocator(request, impl):
    """Whose allocations fail."""
    if request.param != "Python" and impl.__name__ != "pysched._engine":
        pytest.skip("the twin allocates nothing in C")
    return request.param


class Noted:
    """A callback that is a bound method, whose references the engine takes apart."""

    def note(self, *args):
        """Do nothing."""


# -- Engine


class EngineCase(Case):
    def __init__(self, impl, prepare, *, timers=0, keys=0, started=True):
        self.clock = ManualClock()
        self.engine = impl.Engine(clock=self.clock)
        for key in range(keys):
            self.engine.call_later(TOMORROW, nothing, key=("filler", key))
        if timers:
            self.engine.call_many([TOMORROW] * timers, nothing)
        if started:
            self.engine.start()
        super().__init__(prepare(self.engine))

    def look(self):
        engine = self.engine
        return len(engine), engine.next_deadline(), engine.stats(), engine.running

    def goes_on(self):
        engine, ran = self.engine, []
        engine._check()
        engine.start()
        engine.call_later(0, ran.append, 1)
        self.clock.advance(0)
        assert ran[-1:] == [1]
        assert engine.stop(WAIT)
        engine._check()


REGISTRATIONS = {
    "call_later": lambda engine: lambda: engine.call_later(5, nothing, 1),
    "call_later, several arguments": lambda engine: lambda: engine.call_later(5, nothing, 1, 2, 3),
    "call_later, a method": lambda engine: lambda: engine.call_later(5, Noted().note),
    "call_later, a key": lambda engine: lambda: engine.call_later(5, nothing, key=("a", 2)),
    "call_later, a key that is held": lambda engine: (
        engine.call_later(5, nothing, key=("a", 1)),
        lambda: engine.call_later(5, nothing, key=("a", 1)),
    )[1],
    "call_at": lambda engine: lambda: engine.call_at(1e6, nothing),
    "call_every": lambda engine: lambda: engine.call_every(5, nothing, 1),
    "call_every, a key": lambda engine: lambda: engine.call_every(5, nothing, delay=0, key="every"),
    "call_many": lambda engine: lambda: engine.call_many([1, 2, 3], nothing),
    "call_many, a buffer": lambda engine: lambda: engine.call_many(array.array("d", [1.0] * 20), nothing),
    "call_many, arguments": lambda engine: lambda: engine.call_many([1] * 20, nothing, [(1, 2)] * 20),
}


OTHERS = {
    "cancel": lambda engine: engine.call_later(5, nothing).cancel,
    "cancel, periodic": lambda engine: engine.call_every(5, nothing).cancel,
    "cancel_key": lambda engine: (engine.call_later(5, nothing, key="a"), lambda: engine.cancel_key("a"))[1],
    "cancel_key, unknown": lambda engine: lambda: engine.cancel_key("b"),
    "stats": lambda engine: engine.stats,
    "next_deadline": lambda engine: engine.next_deadline,
    "wait_idle": lambda engine: engine.wait_idle,
    "time": lambda engine: engine.time,
    "repr": lambda engine: engine.__repr__,
    "when": lambda engine: engine.call_later(5, nothing).when,
}


@pytest.mark.parametrize("name", [*REGISTRATIONS, *OTHERS])
def test_a_call_of_an_engine(impl, name, allocator):
    prepare = REGISTRATIONS.get(name) or OTHERS[name]
    fail_in_turn(lambda: EngineCase(impl, prepare), allocator)


@pytest.mark.parametrize(("timers", "keys"), [(4095, 0), (8191, 0), (0, 31), (0, 4095)])
@pytest.mark.parametrize("name", REGISTRATIONS)
def test_a_registration_for_which_the_tables_must_grow(compiled, name, timers, keys, allocator):
    if allocator == "Python":
        pytest.skip("those of the tables are in C")
    raises = fail_in_turn(lambda: EngineCase(compiled, REGISTRATIONS[name], timers=timers, keys=keys), allocator)
    if timers and "held" not in name:  # which has registered one before, and so made the tables grow
        assert raises >= 1


@pytest.mark.parametrize("action", ["start", "stop"])
def test_start_and_stop_of_an_engine(impl, action, allocator):
    class StartStop(EngineCase):
        atomic = True if action == "start" else "C"  # a clock of Python's may fail when the engine has been stopped

        def goes_on(self):
            getattr(self.engine, action)()
            super().goes_on()

    fail_in_turn(lambda: StartStop(impl, lambda engine: getattr(engine, action), started=action == "stop"), allocator)


@pytest.mark.parametrize("kind", ["Engine", "CommandScheduler"])
def test_a_new_engine(impl, kind, allocator):
    class Making(Case):
        def __init__(self):
            super().__init__(lambda: getattr(impl, kind)(clock=clock))

        def goes_on(self):
            EngineCase(impl, lambda engine: nothing).goes_on()

    clock = ManualClock()
    assert fail_in_turn(Making, allocator) >= 1


# -- CommandScheduler


class Count:
    """A command that counts its runs."""

    def __init__(self, key=None):
        self.key = key
        self.runs = 0

    def execute(self, context):
        self.runs += 1


class CommandCase(Case):
    def __init__(self, compiled, prepare):
        self.clock = ManualClock()
        self.scheduler = compiled.CommandScheduler(clock=self.clock)
        self.scheduler.submit(Count(("a", 1)), 5)
        self.scheduler.start()
        super().__init__(prepare(self.scheduler))

    def look(self):
        return self.scheduler._next_due_ns()

    def goes_on(self):
        self.scheduler._check()
        self.scheduler.start()
        command = Count(("z", 1))
        self.scheduler.submit(command)
        self.clock.advance(0)
        assert command.runs == 1
        self.scheduler.stop(WAIT)
        self.scheduler._check()


COMMANDS = {
    "submit": lambda scheduler: lambda: scheduler.submit(Count(), 1),
    "submit, a key": lambda scheduler: lambda: scheduler.submit(Count(("b", 1)), 1),
    "submit, a key that is held": lambda scheduler: lambda: scheduler.submit(Count(("a", 1)), 1),
    "schedule": lambda scheduler: lambda: scheduler.schedule(Count(), 1, key="c"),
    "remove": lambda scheduler: lambda: scheduler.remove(("a", 1)),
    "remove, unknown": lambda scheduler: lambda: scheduler.remove("b"),
    "repr": lambda scheduler: scheduler.__repr__,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_of_a_command_scheduler(compiled, name, allocator):
    fail_in_turn(lambda: CommandCase(compiled, COMMANDS[name]), allocator)


# -- JobEngine and Scheduler


class SchedulerCase(Case):
    """A scheduler with a plain job "default", and one "named" whose callback is managed."""

    atomic = "C"  # in Python an allocation may fail when the work is done, for what is only told of it

    def __init__(self, scheduler_type, prepare, *, started=True):
        self.clock = ManualClock()
        self.scheduler = scheduler_type(clock=self.clock, timezone="UTC", explain=4)
        self.plain = self.scheduler.every("1s", nothing)
        self.scheduler.every("1s", nothing, id="named", max_retries=1, max_instances=2, overlap="queue")
        if started:
            self.scheduler.start_background()
            self.clock.advance(2)
        super().__init__(prepare(self.scheduler, self.plain))

    def look(self):
        scheduler = self.scheduler
        return len(scheduler), scheduler.list_jobs(), scheduler.stats(), scheduler.running, sorted(scheduler._book.ids)

    def goes_on(self):
        scheduler, ran = self.scheduler, []
        scheduler._check()
        scheduler.resume()
        if not scheduler.running:
            scheduler.start_background()
        scheduler.after(0, lambda: ran.append(1), replace=True, id="ordinary")
        self.clock.advance(1)
        assert ran == [1]
        assert scheduler.shutdown(timeout=WAIT) == []
        scheduler._check()
        assert all(job["running"] == 0 for job in scheduler.list_jobs())


NEW_YEAR = datetime(2000, 1, 2, tzinfo=UTC)
OPTIONS = {"id": "new", "tags": ["a"], "max_retries": 2, "timeout": 5, "jitter": "10ms", "misfire_grace_time": "1s"}

JOBS = {
    "every": lambda made, job: lambda: made.every("5s", nothing),
    "every, options": lambda made, job: lambda: made.every("5s", nothing, max_instances=3, **OPTIONS),
    "every, an id": lambda made, job: lambda: made.every("5s", nothing, id="new", start_at=NEW_YEAR, spread="1s"),
    "every, replace": lambda made, job: lambda: made.every("5s", nothing, id="named", replace=True),
    "every, a decorator": lambda made, job: lambda: made.every("5s")(nothing),
    "cron": lambda made, job: lambda: made.cron("*/5 * * * *", nothing),
    "cron, options": lambda made, job: lambda: made.cron("0 8 * * MON", nothing, seconds=False, **OPTIONS),
    "after": lambda made, job: lambda: made.after("5s", nothing),
    "after, options": lambda made, job: lambda: made.after("5s", nothing, id="new", args=[1], name="n"),
    "at": lambda made, job: lambda: made.at(NEW_YEAR, nothing),
    "remove_job": lambda made, job: lambda: made.remove_job(job),
    "remove_job, an id": lambda made, job: lambda: made.remove_job("named"),
    "remove_all_jobs": lambda made, job: made.remove_all_jobs,
    "pause_job": lambda made, job: lambda: made.pause_job(job),
    "resume_job": lambda made, job: (made.pause_job(job), lambda: made.resume_job(job))[1],
    "run_job": lambda made, job: lambda: made.run_job("named"),
    "reschedule_job, every": lambda made, job: lambda: made.reschedule_job(job, every="3s"),
    "reschedule_job, start_at": lambda made, job: lambda: made.reschedule_job(job, every="3s", start_at=NEW_YEAR),
    "reschedule_job, cron": lambda made, job: lambda: made.reschedule_job(job, cron="0 9 * * *", start_at=NEW_YEAR),
    "reschedule_job, at": lambda made, job: lambda: made.reschedule_job("named", at=NEW_YEAR),
    "pause": lambda made, job: made.pause,
    "resume": lambda made, job: (made.pause(), made.resume)[1],
    "get_job": lambda made, job: lambda: made.get_job("named"),
    "list_jobs": lambda made, job: made.list_jobs,
    "next_runs": lambda made, job: lambda: made.next_runs(job, 20),
    "explain": lambda made, job: lambda: made.explain("named"),
    "stats": lambda made, job: made.stats,
    "str": lambda made, job: made.__str__,
    "wait_idle": lambda made, job: made.wait_idle,
    "on": lambda made, job: lambda: made.on("missed", nothing),
}
DONE_IN_PART = {"remove_all_jobs", "resume"}
"""Of many jobs some may have been done."""


# A generator that has no memory to be closed says so on stderr, whatever its caller does.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <generator:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", JOBS)
def test_a_call_of_a_scheduler(compiled, scheduler_type, name, allocator):
    skip_where_python_leaks(allocator)

    class Named(SchedulerCase):
        def is_atomic(self, allocator):
            return name not in DONE_IN_PART and super().is_atomic(allocator)

    fail_in_turn(lambda: Named(scheduler_type, JOBS[name]), allocator)


def test_start_and_shutdown_of_a_scheduler(compiled, scheduler_type, allocator):
    skip_where_python_leaks(allocator)
    fail_in_turn(lambda: SchedulerCase(scheduler_type, lambda made, _: made.start_background, started=False), allocator)

    class Shutdown(SchedulerCase):
        def is_atomic(self, allocator):
            return False

        def goes_on(self):
            assert self.scheduler.shutdown(timeout=WAIT) == []
            assert not self.scheduler.running
            self.scheduler._check()

    fail_in_turn(lambda: Shutdown(scheduler_type, lambda made, _: made.shutdown), allocator)
