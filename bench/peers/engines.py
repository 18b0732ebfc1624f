"""pysched itself, and its twin in plain Python: one adapter, as they are one API."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pysched._engine
import pysched._pure
from bench.peers.loops import adding, cancelling, keeping, pairs
from bench.workload import TOMORROW, Plain, Plan, commands_with_keys, delays, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.measure import Prepared

__all__ = ["NATIVE", "TWIN", "EnginePeer", "until_last"]


class Finish(Plain):
    """The command that is due last."""

    def __init__(self, done: Event) -> None:
        self.done = done

    def execute(self, context: object) -> None:
        self.done.set()


@dataclass(frozen=True)
class EnginePeer:
    """The operations of one of the two engines."""

    engine: Callable[..., Any]
    scheduler: Callable[..., Any]

    # -- registering and cancelling, on an engine that is not started --

    @contextmanager
    def register(self, count: int) -> Prepared:
        """`call_later`, its handle made and dropped."""
        yield adding(self.engine().call_later, count)

    @contextmanager
    def register_kept(self, count: int) -> Prepared:
        """`call_later`, its handle kept."""
        yield keeping(self.engine().call_later, count)

    @contextmanager
    def bulk(self, count: int) -> Prepared:
        engine = self.engine()
        waits = array("d", delays(count))
        yield lambda: engine.call_many(waits, nothing)

    @contextmanager
    def cancel(self, count: int) -> Prepared:
        engine = self.engine()
        yield cancelling([engine.call_later(delay, nothing) for delay in delays(count)])

    @contextmanager
    def add_keyed(self, count: int) -> Prepared:
        """`call_later(key=)` with keys that are new."""
        yield _adding_keyed(self.engine().call_later, pairs(count))

    @contextmanager
    def replace_keyed(self, count: int) -> Prepared:
        """`call_later(key=)` with keys that are held: the everyday debounce or time-out that is pushed back."""
        timed = _adding_keyed(self.engine().call_later, pairs(count))
        timed()
        yield timed

    @contextmanager
    def cancel_keyed(self, count: int) -> Prepared:
        engine = self.engine()
        waits = pairs(count)
        _adding_keyed(engine.call_later, waits)()
        names = [key for _, key in waits]

        def timed() -> None:
            for key in names:
                engine.cancel_key(key)

        yield timed

    # -- running: from start() to the last callback; the timers were registered before --

    @contextmanager
    def run_inline(self, count: int) -> Prepared:
        """On the loop's own thread."""
        with _due_in_order(self.engine(), count) as timed:
            yield timed

    @contextmanager
    def run_pool(self, count: int) -> Prepared:
        """Through a user's pool of one thread, which starts its thread in the timed part."""
        with ThreadPoolExecutor(1) as pool, _due_in_order(self.engine(pool), count) as timed:
            yield timed

    @contextmanager
    def run_pool_shuffled(self, count: int) -> Prepared:
        """The same with due times in no order, all passed."""
        random = Random(3)
        with ThreadPoolExecutor(1) as pool:
            engine = self.engine(pool)
            engine.call_many([random.uniform(0.0, 0.01) for _ in range(count)], nothing)
            sleep(0.02)
            with until_last(engine) as timed:
                yield timed

    @contextmanager
    def register_and_run(self, count: int) -> Prepared:
        """Nothing beforehand: `call_later(0.0)` on a running engine with a pool of one thread, to the last run."""
        with ThreadPoolExecutor(1) as pool, self.engine(pool) as engine:
            call_later = engine.call_later
            done = Event()

            def timed() -> None:
                for _ in range(count):
                    call_later(0.0, nothing)
                call_later(0.0, done.set)
                done.wait()

            yield timed

    # -- commands --

    @contextmanager
    def submit(self, count: int) -> Prepared:
        """One command without key, submitted again and again."""
        submit = self.scheduler().submit
        command = Plain()
        waits = delays(count)

        def timed() -> None:
            for delay in waits:
                submit(command, delay)

        yield timed

    @contextmanager
    def submit_keyed(self, count: int) -> Prepared:
        """As many commands, each with a key of its own."""
        submit = self.scheduler().submit
        pairs = list(zip(delays(count), commands_with_keys(count), strict=True))

        def timed() -> None:
            for delay, command in pairs:
                submit(command, delay)

        yield timed

    @contextmanager
    def run_commands(self, count: int) -> Prepared:
        """Commands that are due, on the scheduler's one thread."""
        scheduler = self.scheduler()
        done = Event()
        command = Plain()
        for _ in range(count):
            scheduler.submit(command)
        scheduler.submit(Finish(done))

        def timed() -> None:
            scheduler.start()
            done.wait()

        yield timed
        scheduler.stop()

    # -- for the probes --

    def pending(self, waits: array[float]) -> object:
        """Who holds as many pending timers of one callback."""
        engine = self.engine()
        for delay in waits:
            engine.call_later(delay, nothing)
        return engine

    def pending_kept(self, waits: array[float]) -> object:
        engine = self.engine()
        handles = [engine.call_later(delay, nothing) for delay in waits]
        return engine, handles

    def idle(self, count: int) -> tuple[Callable[[], int], Callable[[], object]]:
        """A running engine with `count` timers for tomorrow: its wake-ups so far, and its stop."""
        engine = self.engine()
        engine.start()
        for delay in delays(count):
            engine.call_later(TOMORROW + delay, nothing)
        return lambda: engine.stats().wakeups, engine.stop

    def lateness(self, *arguments: Any, **options: Any) -> Callable[[Plan], list[float]]:
        """Seconds from each deadline (of `time.monotonic()`) to its callback, on an engine that is made like this."""

        def run(plan: Plan) -> list[float]:
            late: list[float] = []

            def record(deadline: float) -> None:
                late.append(monotonic() - deadline)

            with self.engine(*arguments, **options) as engine:
                engine.call_many(plan.tomorrow(), nothing)
                deadlines = plan.deadlines()
                to_engine_time = engine.time() - monotonic()
                if abs(to_engine_time) < 1e-3:  # one clock
                    to_engine_time = 0.0
                for deadline in deadlines:
                    engine.call_at(deadline + to_engine_time, record, deadline)
                sleep(max(0.0, deadlines[-1] - monotonic()) + 0.05)
                engine.wait_idle()
            return late

        return run


def _adding_keyed(call_later: Callable[..., object], waits: Sequence[tuple[float, str]]) -> Callable[[], None]:
    def timed() -> None:
        for delay, key in waits:
            call_later(delay, nothing, key=key)

    return timed


@contextmanager
def _due_in_order(engine: Any, count: int) -> Prepared:
    for _ in range(count):
        engine.call_later(0.0, nothing)
    with until_last(engine) as timed:
        yield timed


@contextmanager
def until_last(engine: Any) -> Prepared:
    """From the start of `engine` to the callback of a timer that is due after all it has."""
    done = Event()
    engine.call_later(0.0, done.set)

    def timed() -> None:
        engine.start()
        done.wait()

    yield timed
    engine.stop()


NATIVE = EnginePeer(pysched._engine.Engine, pysched._engine.CommandScheduler)
TWIN = EnginePeer(pysched._pure.Engine, pysched._pure.CommandScheduler)
