"""Both engines' `JobEngine`, driven with the same operations on a ManualClock, must not be told apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from conftest import chosen_engines, load_engine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from jobs import Jobs, S, Snapshot, ns

from pysched.clock import NEVER
from pysched.testing import ManualClock

EXPRESSIONS = ("* * * * * *", "*/2 * * * * *", "*/7 * * * * *", "0 * * * * *")


class Script(NamedTuple):
    """What a callback does in its first two runs; after that it only leaves its trace."""

    label: int
    actions: tuple[tuple[Any, ...], ...]


class Options(NamedTuple):
    managed: bool
    instances: int
    until: float | None
    jitter: float
    max_runs: int
    immediate: bool
    grace: float | None
    catch_up: str
    queues: bool
    from_end: bool
    delay: float

    @property
    def single(self) -> Options:
        return self._replace(max_runs=0, immediate=False, until=None, catch_up="one", queues=False, from_end=False)

    @property
    def valid(self) -> Options:
        """`from_end` excludes what makes no sense with it."""
        if not self.from_end:
            return self
        return self._replace(instances=1, catch_up="none" if self.catch_up == "none" else "one", queues=False)


class World:
    """One engine, everything that happened in it, and what it gave: jobs are known by their number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = ManualClock()
        self.jobs = Jobs(load_engine(name), self.clock)
        self.engine = self.jobs.engine
        self.jobs.owner = self  # type: ignore[assignment]
        self.engine = self.jobs.module.JobEngine(self, 1, self.clock, "jobs", "p-")
        self.jobs.engine = self.engine
        self.engine.explain(5)
        self.engine.observe(3)
        self.schedules = [self.jobs.schedule(each, each, seconds=True) for each in EXPRESSIONS]
        self.references: list[int] = []
        self.tickets: list[Any] = []
        self.handles: list[Any] = []
        self.trace: list[Any] = []
        self.runs: dict[int, int] = {}
        self.gone: set[int] = set()

    # what the engine tells its owner

    def _job_failed(self, reference: int, error: BaseException) -> None:
        self.trace.append(("failed", self.number(reference), repr(error), self.current()))

    def _job_left(self, reference: int, snapshot: Any = None) -> None:
        self.trace.append(("left", self.number(reference)))
        assert self.engine.snapshot(reference) is None

    def _job_decided(self, reference: int, decision: str, *what: int) -> None:
        self.trace.append((self.number(reference), decision, *what, self.current()))

    def number(self, reference: int) -> int | None:
        """None for one that is being registered."""
        return self.references.index(reference) if reference in self.references else None

    def current(self) -> Any:
        found = self.engine.current()
        return found and (self.number(found[0]), *found[1:])

    # what it calls

    def callback(self, script: Script, *ticket: Any) -> None:
        self.tickets += ticket
        told = [(self.number(each.reference), each.number, each.scheduled_wall_ns) for each in ticket]
        self.trace.append(("run", script.label, self.clock.time_ns(), self.current(), told))
        self.runs[script.label] = self.runs.get(script.label, 0) + 1
        if self.runs[script.label] <= 2:
            for action in script.actions:
                self.trace.append((action[0], self.act(action)))

    def single(self, script: Script) -> None:
        """Of a retry or a time-out, whose errors are logged: not hundreds of times here."""
        try:
            self.callback(script)
        except LookupError as error:
            self.trace.append(("caught", repr(error)))

    def add(self, script: Script, options: Options, interval: float, schedule: Any, slot: int, wall: bool) -> None:
        def managed(ticket: Any) -> None:
            self.callback(script, ticket)

        called = managed if options.managed else self.callback
        end = None if options.until is None else (slot - (self.wall() if wall else self.jobs.now())) / S + options.until
        self.references.append(
            self.jobs.add(called, () if options.managed else (script,), interval, schedule, slot, wall,
                          **{**options._asdict(), "until": end})
        )  # fmt: skip

    def wall(self) -> int:
        wall: int = self.engine.wall_ns()
        return wall

    def act(self, action: tuple[Any, ...]) -> Any:
        """Carry out one action and return what can be compared of its result."""
        engine, jobs = self.engine, self.jobs
        match action:
            case ("every", interval, delay, options, script):
                options = options.valid._replace(jitter=min(options.jitter, interval / 2))
                self.add(script, options, interval, None, jobs.now() + ns(delay), False)
            case ("cron", number, options, script):
                schedule = self.schedules[number]
                options = options._replace(from_end=False)
                self.add(script, options, 0, schedule, schedule.next(self.wall()), True)
            case ("after", delay, options, script):
                options = options.single
                self.add(script, options, 0, None, jobs.now() + ns(delay), False)
            case ("at", delay, options, script):
                options = options.single
                self.add(script, options, 0, None, self.wall() + ns(delay), True)
            case ("plain", interval, number, single):
                schedule = None if number is None or single else self.schedules[number]
                mine = len(self.references)
                text = engine.add_plain(lambda: self.trace.append(("plain", mine)), ns(interval), schedule, single)
                self.references.append(int(text.removeprefix("p-"), 16))
            case ("later" | "alarm" as kind, delay, script):
                method = engine.call_later if kind == "later" else engine.call_alarm
                self.handles.append(method(ns(delay), lambda: self.single(script)))
            case ("cancel", number):
                return bool(self.handles) and self.handles[number % len(self.handles)].cancel()
            case ("reschedule", number, "every", interval):
                return self.job(number) and jobs.regrid(self.job(number), interval)
            case ("reschedule", number, "after", delay):
                slot = jobs.now() + ns(delay)
                return self.job(number) and engine.reschedule(self.job(number), 0, None, slot, False)
            case ("reschedule", number, "cron", which):
                schedule = self.schedules[which % len(self.schedules)]
                slot = schedule.next(self.wall())
                return self.job(number) and engine.reschedule(self.job(number), 0, schedule, slot, True)
            case ("claim" | "finish" | "give_back" as what, number, failed, timed_out):
                if self.tickets:
                    ticket = self.tickets[number % len(self.tickets)]
                    return ticket.finish(failed, timed_out) if what == "finish" else getattr(ticket, what)()
            case ("sleep", duration):
                self.clock.sleep(duration)
            case ("step_wall", duration):
                self.clock.step_wall(duration)
            case ("advance", duration):
                return self.clock.advance(duration)
            case ("raise",):
                raise LookupError(len(self.trace))
            case ("stop",):
                return engine.stop(None)
            case ("start" | "pause_all" | "resume_all" as what,):
                getattr(engine, what)()
            case ("look",):
                return self.state()
            case ("run_job", number):
                return engine.running and self.job(number) and engine.run_job(self.job(number))
            case ("decide", number, decision, slot):
                return self.job(number) and engine.decide(self.job(number), decision, self.wall() - ns(slot))
            case ("observe", most):
                engine.observe(most)
            case (what, number):  # remove, pause, resume
                return self.job(number) and getattr(self.jobs, what)(self.job(number))
        return None

    def job(self, number: int) -> int | None:
        return self.references[number % len(self.references)] if self.references else None

    def state(self) -> Any:
        """Slots and dues beyond the end of time, which saturate, are of no interest."""
        engine = self.engine
        seen = [Snapshot.of(each) for each in engine.snapshots()]
        singly = [Snapshot.of(engine.snapshot(each.reference)) for each in seen]
        assert singly == seen
        return (
            [each._replace(reference=self.number(each.reference), order=0, callback=None,
                           schedule=each.schedule and each.schedule.label) for each in seen],
            [(schedule.steps, schedule.jobs) for schedule in self.schedules],
            [(handle.when(), handle.done(), handle.cancelled()) for handle in self.handles],
            [engine.decisions(each) for each in self.references],
            len(engine), engine.running, engine.stats(), engine._next_due_ns(), engine._next_alarm_ns(),
            engine.time_ns(), engine.wall_ns(), self.current(),
        )  # fmt: skip


labels = st.integers(0, 10**9)
numbers = st.integers(0, 30)
moments = st.sampled_from([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 7])
intervals = st.sampled_from([0.25, 0.5, 0.75, 1, 2, 1 / 3])
options = st.builds(
    Options,
    managed=st.booleans(),
    instances=st.sampled_from([1, 1, 2, 3]),
    until=st.sampled_from([None, None, None, 0.5, 2, 5]),
    jitter=st.sampled_from([0, 0, 0.25, 1]),
    max_runs=st.sampled_from([0, 0, 1, 2, 5]),
    immediate=st.booleans(),
    grace=st.sampled_from([None, None, None, 0, 0.5, 2]),
    catch_up=st.sampled_from(["one", "one", "none", "all"]),
    queues=st.booleans(),
    from_end=st.sampled_from([False, False, True]),
    delay=st.sampled_from([0, 0, 0, 0.5, 3]),
)
changes = st.one_of(
    st.tuples(st.sampled_from(["remove", "pause", "resume", "run_job", "run_job"]), numbers),
    st.tuples(st.just("reschedule"), numbers, st.sampled_from(["every", "after"]), intervals),
    st.tuples(st.just("reschedule"), numbers, st.just("cron"), numbers),
    st.tuples(st.sampled_from(["claim", "finish", "finish", "give_back"]), numbers, st.booleans(), st.booleans()),
    st.tuples(st.just("cancel"), numbers),
    st.tuples(st.just("decide"), numbers, st.sampled_from(["retry", "timeout"]), moments),
    st.tuples(st.just("observe"), st.sampled_from([0, 1, 3, 100])),
    st.tuples(st.sampled_from(["pause_all", "resume_all"])),
    st.tuples(st.sampled_from(["stop", "start", "start"])),
)
inside = st.one_of(
    changes,
    st.tuples(st.just("sleep"), moments),
    st.tuples(st.just("step_wall"), st.sampled_from([-100, -1.5, 0.5, 90])),
    st.tuples(st.just("raise")),
    st.tuples(st.just("look")),
)


def registering(scripts):
    return st.one_of(
        st.tuples(st.just("every"), intervals, moments, options, scripts),
        st.tuples(st.just("cron"), st.integers(0, len(EXPRESSIONS) - 1), options, scripts),
        st.tuples(st.just("after"), moments, options, scripts),
        st.tuples(st.just("at"), moments | st.just(-5), options, scripts),
        st.tuples(st.just("plain"), intervals, st.none() | st.integers(0, len(EXPRESSIONS) - 1), st.booleans()),
        st.tuples(st.sampled_from(["later", "alarm", "alarm"]), moments, scripts),
    )


def scripts_of(actions):
    return st.builds(Script, labels, st.lists(actions, max_size=3).map(tuple))


scripts = st.recursive(scripts_of(inside), lambda inner: scripts_of(inside | registering(inner)), max_leaves=4)


class Twins(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.worlds = [World(name) for name in chosen_engines()]

    def together(self, *action: Any) -> None:
        results = [(world.name, world.act(action)) for world in self.worlds]
        assert all(result == results[0][1] for _, result in results), results

    @initialize(started=st.booleans())
    def begin(self, started):
        if started:
            self.together("start")

    @rule(action=registering(scripts))
    def register(self, action):
        self.together(*action)

    @rule(action=changes)
    def change(self, action):
        self.together(*action)

    @rule(duration=moments)
    def advance(self, duration):
        self.together("advance", duration)

    @rule(duration=moments)
    def sleep(self, duration):
        self.together("sleep", duration)

    @rule(duration=st.sampled_from([-12_000, -100, -1.5, -0.5, -0.0004, 0.0004, 0.5, 90, 12_000]))
    def step_wall(self, duration):
        self.together("step_wall", duration)

    @rule()
    def advance_to_the_next_run(self):
        world = self.worlds[0]
        due = world.engine._next_due_ns()
        if due is not None and due < NEVER // 2:
            self.together("advance", max(0, due - world.clock.time_ns()) / S)

    @invariant()
    def cannot_be_told_apart(self):
        first = self.worlds[0]
        states = [world.state() for world in self.worlds]  # once each: to look at a pause takes steps of the calendar
        for world, state in zip(self.worlds, states, strict=True):
            world.engine._check()
            assert (world.name, world.trace) == (world.name, first.trace)
            assert (world.name, state) == (world.name, states[0])
        for world in self.worlds:
            world.trace.clear()

    def teardown(self) -> None:
        for world in self.worlds:
            world.engine.stop(None)


TestTwins = pytest.mark.slow(Twins.TestCase)
Twins.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
