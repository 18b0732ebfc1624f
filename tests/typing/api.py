"""The public names as a typed program uses them. Not run: mypy --strict checks it against the stubs."""

from __future__ import annotations

from array import array
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Literal

import pysched
from pysched import (
    BasicSchedulerContext,
    Clock,
    Command,
    CommandScheduler,
    Engine,
    EngineStats,
    ErrorCallback,
    Lateness,
    QueuedCommand,
    ScheduledCommand,
    SchedulerContext,
    SchedulerWorker,
    SystemClock,
    TimedCommandQueue,
    TimerHandle,
    TimerLimitError,
    preview,
)
from pysched.cancellation import CancellationRegistry
from pysched.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Hashable

version: str = pysched.__version__
engine_name: Literal["native", "pure"] = pysched.engine_name
public: list[str] = pysched.__all__


# The engine


def callback(name: str, count: int) -> str:
    return name * count


def report(error: BaseException, timer: TimerHandle) -> None:
    print(error, timer.when())


class Traced:
    """An executor that is none by its class."""

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:
        return ThreadPoolExecutor(1).submit(fn, *args)


def engines(clock: Clock) -> list[Engine]:
    return [
        Engine(),
        Engine(None),
        Engine(4, name="workers", on_error=report),
        Engine(4, daemon=True, spin=0.0002),
        Engine(daemon=False, spin=1),
        Engine(ThreadPoolExecutor(2)),
        Engine(ProcessPoolExecutor(2)),
        Engine(Traced()),
        Engine(clock=clock),
        Engine(clock=ManualClock(datetime(2024, 2, 29, tzinfo=timezone.utc))),
        Engine(clock=SystemClock(), on_error=None),
    ]


def timers(engine: Engine) -> None:
    timer: TimerHandle = engine.call_later(1, callback, "a", 2)
    timer = engine.call_later(0.5, callback, "a", 2, key=("session", 17))
    timer = engine.call_at(engine.time() + 1.5, callback, "b", 1)
    timer = engine.call_every(60, callback, "c", 3, delay=0, key="poll")
    prevented: bool = timer.cancel()
    due: float = timer.when()
    states: list[bool] = [prevented, timer.cancelled(), timer.done(), timer == timer, engine.cancel_key("poll")]
    by_timer: dict[TimerHandle, float] = {timer: due}

    count: int = engine.call_many([0.1, 1], print)
    count = engine.call_many(array("d", [0.1, 0.2]), callback, [("a", 1), ("b", 2)])
    count = engine.call_many((i / 10 for i in range(3)), callback, iter([("a", 1)] * 3))
    print(states, by_timer, count)


def life(engine: Engine) -> None:
    engine.start()
    idle: bool = engine.wait_idle(timeout=1.0) and engine.wait_idle()
    running: bool = engine.running
    pending: int = len(engine)
    deadline: float | None = engine.next_deadline()
    stats: EngineStats = engine.stats()
    lateness: Lateness = stats.lateness
    worst: float = max(lateness.p50, lateness.p99, lateness.p999, lateness.max)
    counts: list[int] = [stats.scheduled, stats.started, stats.coalesced, stats.pending, lateness.count]
    nothing_left: bool = engine.stop() and engine.stop(1) and engine.stop(timeout=0.5)
    engine.run()
    print(idle, running, pending, deadline, worst, counts, nothing_left)


def scoped() -> None:
    with Engine(2) as engine:
        engine.call_later(1, print)


def bounded(engine: Engine) -> None:
    try:
        engine.call_later(1, print)
    except TimerLimitError as error:
        too_many: RuntimeError = error
        print(too_many)


class Pollers(Engine):
    """An Engine is an ordinary class."""

    def poll(self, name: str) -> TimerHandle:
        return self.call_every(1.0, print, name, key=name)


# Commands


@dataclass
class Devices(BasicSchedulerContext):
    polled: list[str] = field(default_factory=list)


@dataclass
class Poll(Command):
    name: str
    key: str | None = None

    def execute(self, context: Devices) -> None:
        context.polled.append(self.name)


class Heartbeat(Command):
    key = "heartbeat"
    repeat_interval_s = 1.0

    def execute(self, context: SchedulerContext) -> None:
        context.last_error = None


@dataclass
class Session(Command):
    """Its key is whatever is hashable, here a field without a default."""

    key: tuple[str, int]

    def execute(self, context: object) -> None:
        print(self.key[1] + 1)


@dataclass(frozen=True)
class Numbered(Command):
    key: int = 0

    def execute(self, context: object) -> None: ...


class Computed(Command):
    @property
    def key(self) -> frozenset[int]:
        return frozenset({1})

    def execute(self, context: object) -> None: ...


class Assigned(Command):
    key: int | None = None

    def __init__(self, key: int) -> None:
        self.key = key

    def execute(self, context: object) -> None: ...


class Duck:
    def execute(self, anything: Devices) -> int:
        return len(anything.polled)


def on_error(error: BaseException, command: Command) -> None:
    print(error, command.key)


def count_error(error: BaseException, command: Command) -> int:
    return len(str(error))


handler: ErrorCallback = on_error
handler = count_error


def commands() -> None:
    devices = Devices()
    scheduler = CommandScheduler(devices, on_error, name="devices", clock=ManualClock(), max_workers=2)
    scheduler.submit(Poll("a"), delay_s=1)
    scheduler.submit(Heartbeat())
    scheduler.schedule(Poll("b"), interval_s=5, delay_s=0.5, key="b")
    scheduler.schedule(ScheduledCommand(Poll("c"), repeat_interval_s=2.0, key_override="c"), 1.0)
    for command in (Session(("a", 1)), Numbered(3), Computed(), Assigned(4)):
        key: Hashable | None = command.key
        scheduler.submit(command)
        scheduler.remove(key)
    scheduler.submit(Duck())
    scheduler.schedule(Duck(), 1, key=("duck", 1))
    scheduler.submit(5)  # type: ignore[arg-type]
    scheduler.remove("b")
    scheduler.start()
    scheduler.stop()
    scheduler.stop(timeout=None)
    name: str = scheduler.name
    print(name, scheduler.context)
    CommandScheduler()
    CommandScheduler(None, handler)


def own_loop() -> SchedulerWorker:
    queue, cancellation = TimedCommandQueue(), CancellationRegistry()
    command = Poll("a", key="a")
    token: object | None = cancellation.new_token(command)
    cancellation.activate(command, token)
    queue.push(0.0, token, command)
    ready: QueuedCommand | None = queue.pop_ready(1.0, cancellation.is_active)
    delay: float = queue.next_delay(1.0, default_s=0.5)
    cancellation.remove("a")
    print(ready, delay)
    return SchedulerWorker(queue, cancellation, Lock(), Event(), Event(), Devices(), None, on_error)


# Time


class Shifted:
    """A clock of one's own: the protocol asks for three methods and no base class."""

    def time_ns(self) -> int:
        return 0

    def wall_ns(self) -> int:
        return 0

    def wait(self, event: pysched.clock.WaitEvent, timeout: float | None) -> None:
        event.wait(timeout)


def manual() -> None:
    clock = ManualClock()
    ran: int = clock.advance(1) + clock.advance("1h30m") + clock.advance(timedelta(days=1))
    clock.sleep(0.5)
    clock.step_wall(-3600)
    clock.suspend("2d")
    seconds: float = clock.time()
    wall: datetime = clock.now()
    print(ran, seconds, wall, isinstance(clock, Clock))


engines(Shifted())


# Cron


def forecast() -> list[datetime]:
    now = datetime.now(timezone.utc)
    days = preview("0 9 * * mon-fri", 5)
    days += preview("@daily", 2, "Europe/Berlin", now)
    days += preview("*/30 * * * * *", n=2, tz=timezone(timedelta(hours=2)), start=now, seconds=True)
    return days
