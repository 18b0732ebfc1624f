"""The engines and the model, driven with the same operations on a ManualClock, must not be told apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from conftest import chosen_engines, load_engine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from model import ModelEngine

from pysched.testing import ManualClock


class Script(NamedTuple):
    """What a callback does, in its first two runs; after that it only leaves its trace."""

    label: int
    actions: tuple[tuple[Any, ...], ...]


class World:
    """One engine, everything that happened in it, and the handles it gave."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = ManualClock()
        engine_type = ModelEngine if name == "model" else load_engine(name).Engine
        self.engine: Any = engine_type(clock=self.clock, on_error=self.on_error)
        self.handles: list[Any] = []
        self.periodic: set[Any] = set()
        self.trace: list[Any] = []
        self.runs: dict[int, int] = {}

    def on_error(self, error, handle):
        known = [number for number, other in enumerate(self.handles) if other == handle]
        done = handle.done()
        # Which due time an ended periodic timer's new handle knows is left open.
        when = None if done and handle in self.periodic else handle.when()
        self.trace.append(("error", repr(error), known, when, done, handle.cancelled()))

    def callback(self, script: Script, number: object = None) -> None:
        self.trace.append(("run", script.label, number, self.clock.time()))
        self.runs[script.label] = self.runs.get(script.label, 0) + 1
        if self.runs[script.label] <= 2:
            for action in script.actions:
                self.trace.append((action[0], self.act(action)))

    def act(self, action: tuple[Any, ...]) -> Any:
        """Carry out one action and return what can be compared of its result."""
        engine = self.engine
        match action:
            case ("call_later", delay, key, script):
                self.handles.append(engine.call_later(delay, self.callback, script, key=key))
            case ("call_at", offset, key, script):
                when = self.clock.time() + offset
                self.handles.append(engine.call_at(when, self.callback, script, key=key))
            case ("call_every", interval, delay, key, script):
                handle = engine.call_every(interval, self.callback, script, delay=delay, key=key)
                self.handles.append(handle)
                self.periodic.add(handle)
            case ("call_many", delays, script):
                args = [(script, number) for number in range(len(delays))]
                return engine.call_many(delays, self.callback, args)
            case ("cancel", number):
                return bool(self.handles) and self.handles[number % len(self.handles)].cancel()
            case ("cancel_key", key):
                return engine.cancel_key(key)
            case ("sleep", duration):
                self.clock.sleep(duration)
            case ("advance", duration):
                return self.clock.advance(duration)
            case ("raise",):
                raise LookupError(len(self.trace))
            case ("stop",):
                return engine.stop()
            case ("start",):
                engine.start()
            case ("look",):
                return self.state()
        return None

    def state(self) -> Any:
        return (
            len(self.engine),
            self.engine.next_deadline(),
            self.engine.running,
            self.engine.stats(),
            [(handle.when(), handle.done(), handle.cancelled()) for handle in self.handles],
        )


labels = st.integers(0, 10**9)
moments = st.sampled_from([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3]) | st.floats(0, 3)
intervals = st.sampled_from([0.25, 0.5, 0.75, 1, 2, 1 / 3])
keys = st.sampled_from([None, None, 0, 1, 2])
plain_actions = st.one_of(
    st.tuples(st.just("cancel"), st.integers(0, 100)),
    st.tuples(st.just("cancel_key"), st.integers(0, 2)),
    st.tuples(st.just("sleep"), moments),
    st.tuples(st.just("raise")),
    st.tuples(st.just("look")),
    st.tuples(st.just("stop")),
    st.tuples(st.just("start")),
)


def registering(scripts):
    return st.one_of(
        st.tuples(st.just("call_later"), moments, keys, scripts),
        st.tuples(st.just("call_at"), moments | st.just(-5), keys, scripts),
        st.tuples(st.just("call_every"), intervals, moments | st.none(), keys, scripts),
        st.tuples(st.just("call_many"), st.lists(moments, max_size=4), scripts),
    )


def scripts_of(actions):
    return st.builds(Script, labels, st.lists(actions, max_size=3).map(tuple))


scripts = st.recursive(
    scripts_of(plain_actions), lambda inner: scripts_of(plain_actions | registering(inner)), max_leaves=4
)


class Twins(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.worlds = [World(name) for name in [*chosen_engines(), "model"]]

    def together(self, *action: Any) -> None:
        results = {world.name: world.act(action) for world in self.worlds}
        assert all(result == results["model"] for result in results.values()), results

    @initialize(started=st.booleans())
    def begin(self, started):
        if started:
            self.together("start")

    @rule(action=registering(scripts))
    def register(self, action):
        self.together(*action)

    @rule(delays=st.lists(moments, min_size=10, max_size=60), script=scripts)
    def register_many(self, delays, script):
        self.together("call_many", delays, script)

    @rule(count=st.integers(1, 60), delay=moments)
    def register_and_cancel(self, count, delay):
        for world in self.worlds:
            for handle in [world.engine.call_later(delay, pytest.fail, "ran") for _ in range(count)]:
                assert handle.cancel()

    @rule(number=st.integers(0, 100))
    def cancel(self, number):
        self.together("cancel", number)

    @rule(key=st.integers(0, 2))
    def cancel_key(self, key):
        self.together("cancel_key", key)

    @rule(duration=moments)
    def advance(self, duration):
        self.together("advance", duration)

    @rule(duration=moments)
    def sleep(self, duration):
        self.together("sleep", duration)

    @rule()
    def stop(self):
        self.together("stop")

    @rule()
    def start(self):
        self.together("start")

    @rule()
    def advance_to_the_next_deadline(self):
        deadline = self.worlds[-1].engine.next_deadline()
        if deadline is not None:
            self.together("advance", max(0, deadline - self.worlds[-1].clock.time()))

    @invariant()
    def cannot_be_told_apart(self):
        model = self.worlds[-1]
        state = model.state()
        for world in self.worlds:
            world.engine._check()
            assert (world.name, world.clock.time_ns()) == (world.name, model.clock.time_ns())
            assert (world.name, world.trace) == (world.name, model.trace)
            assert (world.name, world.state()) == (world.name, state)
        for world in self.worlds:
            world.trace.clear()

    def teardown(self) -> None:
        for world in self.worlds:
            world.engine.stop()


TestTwins = pytest.mark.slow(Twins.TestCase)
Twins.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
