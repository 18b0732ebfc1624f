"""A `Scheduler` on a ManualClock, on either engine, and the plain model of it must not be told apart."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from conftest import chosen_engines, load_engine, scheduler_type_of
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scheduler_model import COUNTS, Model

from pysched import current_run
from pysched.testing import ManualClock

T0 = datetime(2000, 1, 1, tzinfo=timezone.utc)
NAMES = "abcd"
MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round((moment - T0) / MILLISECOND)


class ModelWorld(Model):
    """The model, with the way to act on it that `RealWorld` has."""

    def act(self, name, action):
        match action:
            case ("add", other, kind, period, script, options):
                if self.closed:
                    return None
                if other in self.jobs:
                    if not options.get("replace"):
                        return "taken"
                    self.remove(other)
                rest = {key: value for key, value in options.items() if key != "replace"}
                self.add(other, kind, period, dict(script), **rest)
                return other
            case ("pause_all",):
                self.all_paused = True
            case ("resume_all",):
                self.resume_all()
            case ("shutdown",):
                self.shutdown()
            case (_, other, *_) if other not in self.jobs:
                return "unknown"
            case ("remove", other):
                return self.remove(other)
            case ("pause", other):
                self.pause(other)
            case ("resume", other):
                self.resume(other)
            case ("run", other):
                return self.run_job(other) if self.started else "not running"
            case ("reschedule", other, kind, period):
                self.reschedule(other, kind, period)
        return None


class RealWorld:
    def __init__(self, engine_name: str) -> None:
        self.clock = ManualClock()
        self.scheduler = scheduler_type_of(load_engine(engine_name))(
            clock=self.clock, timezone="UTC", on_error=self.on_error
        )
        self.trace: list[Any] = []
        self.closed = False
        self.unexpected: list[BaseException] = []

    def on_error(self, error, run):
        if not (isinstance(error, ValueError) and str(error) == "as it should"):
            self.unexpected.append(error)

    def callback(self, name, script):
        def body(sleep):
            run = current_run()
            self.trace.append((name, milliseconds(run.scheduled_time), run.attempt, milliseconds(self.clock.now())))
            sleep(script["sleep"] / 1000)
            number = script["calls"] = script.get("calls", 0) + 1
            for action in script["actions"] if number <= 3 else ():
                self.trace.append(self.act(name, action))
            if script["fails"] and number % script["fails"] == 0:
                raise ValueError("as it should")

        def waits(cancel):
            body(cancel.wait)

        def sleeps():
            body(self.clock.sleep)

        return waits if script["waits"] else sleeps

    def act(self, name, action):
        try:
            return self.do(action)
        except KeyError:
            return "unknown"
        except RuntimeError as error:
            return str(error).removeprefix("pysched is ")

    def do(self, action):
        scheduler = self.scheduler
        match action:
            case ("add", other, kind, period, script, options):
                if self.closed:
                    return None
                method, what = {
                    "every": (scheduler.every, period / 1000),
                    "cron": (scheduler.cron, "* * * * *"),
                    "once": (scheduler.after, period / 1000),
                }[kind]
                given = {**options, "id": other, "retry_backoff": 0}
                if given.get("timeout") is not None:
                    given["timeout"] /= 1000
                try:
                    return method(what, self.callback(other, dict(script)), **given)
                except ValueError as error:
                    return "taken" if "taken" in str(error) else repr(error)
            case ("pause_all",):
                scheduler.pause()
            case ("resume_all",):
                scheduler.resume()
            case ("shutdown",):
                self.closed = True
                scheduler.shutdown()
            case ("remove", other):
                return scheduler.remove_job(other)
            case ("pause", other):
                scheduler.pause_job(other)
            case ("resume", other):
                scheduler.resume_job(other)
            case ("run", other):
                return scheduler.run_job(other)
            case ("reschedule", other, kind, period):
                arguments = {
                    "every": {"every": period / 1000},
                    "cron": {"cron": "* * * * *"},
                    "once": {"after": period / 1000},
                }
                scheduler.reschedule_job(other, **arguments[kind])
        return None

    def state(self):
        found = []
        for listed in self.scheduler.list_jobs():
            info = self.scheduler.get_job(listed["id"])
            found.append(
                {
                    "id": info.id,
                    "next": milliseconds(info.next_run_at),
                    "enabled": info.enabled,
                    "running": info.running,
                    "error": info.last_error and info.last_error.split(":")[0],
                    **{count: getattr(info, count) for count in COUNTS},
                }
            )
        return found


names = st.sampled_from(NAMES)
kinds = st.sampled_from(["every", "every", "cron", "once", "once"])
plain_actions = st.one_of(
    st.tuples(st.just("run"), names),
    st.tuples(st.just("run"), names),
    st.tuples(st.just("pause"), names),
    st.tuples(st.just("resume"), names),
    st.tuples(st.just("resume"), names),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("pause_all")),
    st.tuples(st.just("resume_all")),
)


@st.composite
def periods(draw, kind):
    """Of single slots no two alike: at the end of a pause of all those come in the order of their time only."""
    if kind == "once":
        return draw(st.integers(0, 30)) * 1000 + draw(st.integers(1, 999))
    return draw(st.sampled_from([1000, 5000, 10_000, 45_000]))


@st.composite
def reschedulings(draw):
    kind = draw(kinds)
    return ("reschedule", draw(names), kind, draw(periods(kind)))


@st.composite
def registrations(draw, actions, names=names):
    kind = draw(kinds)
    script = {
        "sleep": draw(st.sampled_from([0, 0, 0, 700, 3000, 12_000, 65_000])),
        "waits": draw(st.booleans()),
        "fails": draw(st.sampled_from([0, 0, 1, 2, 3])),
        "actions": draw(st.lists(actions, max_size=2)) if draw(st.booleans()) else [],
    }
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["max_instances"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        options["max_retries"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        options["timeout"] = draw(st.sampled_from([1, 500, 2000, 13_000]))
    if draw(st.booleans()):
        options["replace"] = True
    if kind != "once" and draw(st.integers(0, 3)) == 0:
        options["max_runs"] = draw(st.integers(1, 3))
    return ("add", draw(names), kind, draw(periods(kind)), script, options)


inner = st.one_of(plain_actions, reschedulings(), reschedulings())
actions_of_callbacks = st.one_of(inner, registrations(inner))


class Machine(RuleBasedStateMachine):
    engine_name = "native"

    def __init__(self):
        super().__init__()
        self.model = ModelWorld()
        self.real = RealWorld(self.engine_name)
        self.seen = itertools.count()

    def both(self, action):
        assert self.real.act("", action) == self.model.act("", action)

    @initialize(
        registrations=st.tuples(*[registrations(actions_of_callbacks, st.just(name)) for name in NAMES]),
        late=st.integers(0, 9),
    )
    def begin(self, registrations, late):
        for registration in registrations:
            self.both(registration)
        if late:
            self.start()

    @rule()
    def start(self):
        if not self.model.started and not self.model.closed:
            self.model.start()
            self.real.scheduler.start_background()

    @rule(registration=registrations(actions_of_callbacks))
    def add(self, registration):
        self.both(registration)

    @rule(action=plain_actions | reschedulings())
    def control(self, action):
        self.both(action)

    @rule(length=st.sampled_from([0, 1, 500, 1000, 4000, 10_000, 61_000, 200_000]) | st.integers(0, 70_000))
    def advance(self, length):
        expected = self.model.advance(length)
        assert self.real.clock.advance(length * MILLISECOND) == expected

    @rule(length=st.integers(2, 40))
    def advance_by_seconds(self, length):
        self.advance(1000 * length)

    @rule(length=st.sampled_from([500, 10_000, 61_000]))
    def sleep(self, length):
        self.model.sleep(length, None)
        self.real.clock.sleep(length / 1000)

    @rule(last=st.integers(0, 49))
    def shutdown(self, last):
        if last == 49:
            self.both(("shutdown",))

    @invariant()
    def they_are_alike(self):
        assert self.real.trace == self.model.trace
        assert self.real.state() == self.model.state()
        assert self.real.unexpected == []
        assert milliseconds(self.real.clock.now()) == self.model.now
        assert len(self.real.scheduler) == len(self.model.jobs)
        self.real.scheduler._check()

    def teardown(self):
        assert self.real.scheduler.shutdown() == []
        assert not self.real.scheduler._runner.all_open()


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", chosen_engines())
def test_scheduler_and_model_are_alike(engine_name):
    machine = type("Machine", (Machine,), {"engine_name": engine_name})
    machine.TestCase.settings = settings(
        max_examples=25, stateful_step_count=20, deadline=None, derandomize=True, phases=[Phase.generate, Phase.shrink]
    )
    machine.TestCase().runTest()
