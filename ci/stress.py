"""Everything at once from several threads, for as long as is asked; for the tools of ci/sanitize.

    python ci/stress.py [--seconds 60] [--seed N] [--storm MODULE]

Rounds of about a second follow each other: an `Engine` inline, with a pool and with daemon workers, a
`CommandScheduler`, a `Scheduler` with retries and time-outs, and, with the compiled tests/native/native_storm.pyx as
MODULE, C threads on the C functions.  Each round ends with counts that must agree, and with `_check()`.  A seed repeats
the choices, not the threads' timing.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pysched import CommandScheduler, Engine, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pysched import EventName

ENGINES: dict[str, dict[str, Any]] = {
    "inline": {},
    "one worker": {"executor": 1},
    "two workers": {"executor": 2},
    "one daemon worker": {"executor": 1, "daemon": True},
    "two daemon workers": {"executor": 2, "daemon": True},
}
EVENTS: tuple[EventName, ...] = ("started", "succeeded", "error", "retry", "timeout", "missed", "coalesced")
ROUND_S = 1.0
WAIT_S = 60.0


def in_threads(count: int, work: Callable[[random.Random], None], chance: random.Random, meanwhile: Any) -> None:
    """Repeat `work` in `count` threads for a round, and `meanwhile` in this one; raise what the first failure is."""
    until = time.monotonic() + ROUND_S
    failures: list[BaseException] = []

    def loop(own: random.Random) -> None:
        try:
            while time.monotonic() < until and not failures:
                work(own)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop, args=(random.Random(chance.random()),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until and not failures:
        meanwhile()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Tally:
    """How often something has happened, by its name; from any thread, where a `Counter` alone may lose some."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._mutex = threading.Lock()

    def add(self, name: str) -> None:
        with self._mutex:
            self.counts[name] += 1


# -- an engine ----------------------------------------------------------------------------------------------------


class EngineRound:
    """One-shots and periodic timers with and without keys, added, cancelled and looked at while it stops and starts."""

    def __init__(self, options: dict[str, Any], chance: random.Random) -> None:
        self.chance = chance
        self.errors = 0
        self.runs: Counter[int] = Counter()  # each one-shot has a number
        self.handles: dict[int, Any] = {}
        self.keyless: set[int] = set()  # those that nothing may replace
        self.bulk = 0
        self.mutex = threading.Lock()
        self.engine = Engine(**options, on_error=self.on_error)

    def on_error(self, error: BaseException, handle: object) -> None:
        with self.mutex:
            self.errors += 1

    def run(self, number: int, own: random.Random) -> None:
        """A one-shot; some add another, and some raise."""
        with self.mutex:
            self.runs[number] += 1
        if own.random() < 0.2:
            self.add(own)
        if own.random() < 0.1:
            raise ValueError(number)

    def add(self, own: random.Random) -> None:
        with self.mutex:
            number = len(self.handles)
            self.handles[number] = None
        key = own.randrange(50) if own.random() < 0.3 else None
        if key is None:
            self.keyless.add(number)
        handle = self.engine.call_later(own.random() * 0.002, self.run, number, own, key=key)
        self.handles[number] = handle

    def work(self, own: random.Random) -> None:
        choice = own.randrange(12)
        if choice < 5:
            self.add(own)
        elif choice < 7:
            self.some_handle(own, "cancel")
        elif choice == 7:
            self.engine.cancel_key(own.randrange(50))
        elif choice == 8:
            self.engine.call_every(own.uniform(0.0002, 0.002), len, (), delay=0, key=own.randrange(50))
        elif choice == 9:
            with self.mutex:
                self.bulk += self.engine.call_many([own.random() * 0.002 for _ in range(20)], len, [((),)] * 20)
        elif choice == 10:
            self.some_handle(own, own.choice(("when", "done", "cancelled", "__repr__")))
        else:
            self.engine.stats()
            len(self.engine)
            self.engine.next_deadline()
            repr(self.engine)
        if len(self.engine) > 2_000:
            time.sleep(0.001)

    def some_handle(self, own: random.Random, method: str) -> None:
        handle = self.handles.get(own.randrange(len(self.handles) + 1))
        if handle is not None:
            getattr(handle, method)()

    def meanwhile(self) -> None:
        time.sleep(self.chance.random() * 0.03)
        assert self.engine.stop(WAIT_S)
        if self.chance.random() < 0.3:
            self.engine._check()
        self.engine.start()
        if self.chance.random() < 0.2:
            self.engine.wait_idle(0.01)

    def play(self) -> None:
        self.engine.start()
        in_threads(3, self.work, self.chance, self.meanwhile)
        for key in range(50):
            self.engine.cancel_key(key)
        deadline = time.monotonic() + WAIT_S
        while len(self.engine) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert self.engine.wait_idle(WAIT_S)
        assert self.engine.stop(WAIT_S)
        self.engine._check()
        stats = self.engine.stats()
        assert max(self.runs.values(), default=0) <= 1, "a one-shot has run twice"
        for number, handle in self.handles.items():
            assert not (handle.cancelled() and self.runs[number]), "a timer that was cancelled has run"
            assert handle.cancelled() or self.runs[number] or number not in self.keyless, "a one-shot was lost"
        assert stats.errors == self.errors, (stats, self.errors)
        assert len(self.engine) == stats.running == stats.ready == 0, stats


# -- the two schedulers -------------------------------------------------------------------------------------------


class Command:
    """A command that raises now and then; `busy` is of all commands, of which one runs at a time."""

    def __init__(self, key: str, chance: random.Random, busy: list[str], begun: list[str]) -> None:
        self.key = key
        self.chance = chance
        self.busy = busy
        self.begun = begun

    def execute(self, context: object) -> None:
        assert not self.busy
        self.begun.append(self.key)
        self.busy.append(self.key)
        time.sleep(0)
        self.busy.remove(self.key)
        if self.chance.random() < 0.1:
            raise ValueError(self.key)


def play_commands(chance: random.Random) -> None:
    """Commands under few keys, submitted, repeated and removed, one at a time."""
    errors = Tally()
    busy: list[str] = []
    begun: list[str] = []
    scheduler = CommandScheduler(on_error=lambda error, _: errors.add(type(error).__name__))

    def work(own: random.Random) -> None:
        key = f"key {own.randrange(20)}"
        choice = own.randrange(4)
        if choice < 2:
            scheduler.submit(Command(key, own, busy, begun), own.random() * 0.002)
        elif choice == 2:
            scheduler.schedule(Command(key, own, busy, begun), own.uniform(0.0005, 0.002))
        else:
            scheduler.remove(key)

    def meanwhile() -> None:
        time.sleep(chance.random() * 0.03)
        scheduler.stop(WAIT_S)
        scheduler.start()

    scheduler.start()
    in_threads(3, work, chance, meanwhile)
    scheduler.stop(WAIT_S)
    scheduler._check()
    assert begun, "no command has run"
    assert errors.counts.keys() <= {"ValueError"}, errors.counts  # one in ten fails: on a busy machine none of a few
    assert not busy


def play_jobs(chance: random.Random, daemon: bool) -> None:
    """Jobs that fail, are retried, time out, are paused, removed, looked at and listened to."""
    scheduler = Scheduler(2, daemon=daemon, on_error=lambda _error, _run: None, timezone="UTC")
    events, started = Tally(), Tally()
    for event in EVENTS:
        scheduler.on(event, lambda told: events.add(told.event))
    names = [f"job {number}" for number in range(12)]

    def job(name: str, own: random.Random, cancel: Any) -> None:
        started.add(name)
        if own.random() < 0.1:
            cancel.wait(0.004)  # longer than its time-out
        if own.random() < 0.2:
            raise ValueError(name)

    def work(own: random.Random) -> None:
        name = own.choice(names)
        choice = own.randrange(10)
        with suppress(KeyError):  # another thread has removed it
            if choice < 3:
                scheduler.every(
                    own.uniform(0.001, 0.01),
                    job,
                    max_retries=2,
                    retry_backoff=0.0005,
                    timeout=0.002,
                    id=name,
                    replace=True,
                    args=(name, own),
                )
            elif choice == 3:
                scheduler.after(own.random() * 0.005, job, id=name, replace=True, args=(name, own))
            elif choice == 4:
                scheduler.remove_job(name)
            elif choice == 5:
                scheduler.pause_job(name)
                scheduler.resume_job(name)
            elif choice == 6:
                scheduler.run_job(name)
            elif choice == 7:
                scheduler.explain(name)
                scheduler.next_runs(name, 3)
            else:
                scheduler.list_jobs()
                scheduler.stats()
                scheduler.is_healthy()

    def meanwhile() -> None:
        time.sleep(0.01)
        if chance.random() < 0.2:
            scheduler.pause()
            scheduler.resume()
        scheduler._check()

    scheduler.start_background()
    in_threads(3, work, chance, meanwhile)
    left = scheduler.shutdown(timeout=WAIT_S)
    assert left == [], left
    scheduler._check()
    for info in scheduler.list_jobs():
        assert info["running"] == 0, info
        assert info["run_count"] + info["error_count"] == info["started_count"], info
    assert started.counts, "no job has run"
    assert events.counts, "nothing was told to the listeners"


# -- C threads ----------------------------------------------------------------------------------------------------


def play_storm(native: ModuleType, options: dict[str, Any], chance: random.Random) -> None:
    """The C functions from four threads that Python does not know of, while the engine stops and starts."""
    engine = Engine(**options)
    storm = native.Storm(engine, chance.randrange(1, 1 << 32))
    engine.start()
    until = time.monotonic() + ROUND_S
    storm.begin()
    try:
        while time.monotonic() < until:
            time.sleep(chance.random() * 0.02)
            if chance.random() < 0.5:
                assert engine.stop(WAIT_S)
                engine._check()
                engine.start()
            engine.call_later(chance.random() * 0.001, len, ())
            engine.stats()
    finally:
        storm.end()
    deadline = time.monotonic() + WAIT_S
    while len(engine) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert engine.wait_idle(WAIT_S)
    assert engine.stop(WAIT_S)
    engine._check()
    counts = storm.counts()
    assert counts["called once"] + counts["cancelled once"] == counts["once"] > 0, counts
    assert counts["cancelled every"] == counts["every"] > 0, counts
    assert counts["released"] == counts["once"] + counts["every"], counts
    assert counts["refused"] == 0, counts


# -- all of them --------------------------------------------------------------------------------------------------


def load(path: str) -> ModuleType:
    """The compiled module at `path`."""
    spec = importlib.util.spec_from_file_location("native_storm", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rounds(storm: str | None) -> dict[str, Callable[[random.Random], None]]:
    """Each kind of round, by its name."""

    def engine(options: dict[str, Any]) -> Callable[[random.Random], None]:
        return lambda chance: EngineRound(options, chance).play()

    kinds = {f"engine, {name}": engine(options) for name, options in ENGINES.items()}
    kinds["commands"] = play_commands
    kinds["jobs"] = functools.partial(play_jobs, daemon=False)
    kinds["jobs, daemon workers"] = functools.partial(play_jobs, daemon=True)
    if storm is not None:
        native = load(storm)
        for name, options in ENGINES.items():
            kinds[f"storm, {name}"] = functools.partial(play_storm, native, options)
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description="Use everything at once, and check the counts.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--storm", help="the compiled tests/native/native_storm.pyx")
    arguments = parser.parse_args()
    kinds = rounds(arguments.storm)
    print(f"seed {arguments.seed}, engine {Engine.__module__}", flush=True)
    chance = random.Random(arguments.seed)
    played: Counter[str] = Counter()
    until = time.monotonic() + arguments.seconds
    while time.monotonic() < until:
        for name, play in kinds.items():
            print(f"  {name}", flush=True)
            play(random.Random(chance.random()))
            played[name] += 1
    print(f"{played.total()} rounds of {len(kinds)} kinds in {arguments.seconds:g} s or a little more")


if __name__ == "__main__":
    main()
