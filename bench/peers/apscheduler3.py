"""APScheduler 3: its `BackgroundScheduler` on the store in memory. A timer is a job with a date, as it has no other.

It is started paused where nothing is to run: before a start it only collects jobs in a list.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone
from importlib import import_module
from threading import Event
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any

from bench.measure import Prepared, Unavailable
from bench.workload import TOMORROW, delays, nothing

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from bench.workload import Plan

__all__ = ["cron", "dispatch", "every", "idle", "lateness", "pending", "pending_jobs", "register", "run_due"]


def _module(name: str) -> Any:
    try:
        return import_module(f"apscheduler.{name}")
    except ImportError:
        raise Unavailable("APScheduler 3 is not installed") from None


@contextmanager
def _scheduler(workers: int = 1) -> Iterator[Any]:
    """Paused; every slot is run, however late, and one job may run as often as it likes."""
    pool = _module("executors.pool").ThreadPoolExecutor(workers)
    defaults = {"misfire_grace_time": None, "max_instances": 1_000_000}
    background = _module("schedulers.background").BackgroundScheduler
    scheduler = background(executors={"default": pool}, job_defaults=defaults, timezone=timezone.utc)
    scheduler.start(paused=True)
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def _after(delay: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=delay)


@contextmanager
def register(count: int) -> Prepared:
    with _scheduler() as scheduler:

        def timed() -> None:
            for delay in delays(count):
                scheduler.add_job(nothing, "date", run_date=_after(delay))

        yield timed


@contextmanager
def every(count: int) -> Prepared:
    with _scheduler() as scheduler:

        def timed() -> None:
            for _ in range(count):
                scheduler.add_job(nothing, "interval", hours=1)

        yield timed


@contextmanager
def dispatch(count: int) -> Prepared:
    """From `resume` to the last of jobs whose date has passed, through a pool of one thread."""
    done = Event()
    with _scheduler() as scheduler:
        for number in range(count):
            scheduler.add_job(nothing, "date", run_date=_after(number * 1e-6 - 60.0))
        scheduler.add_job(done.set, "date", run_date=_after(0.0))

        def timed() -> None:
            scheduler.resume()
            done.wait()

        yield timed


@contextmanager
def run_due(count: int) -> Prepared:
    """From `resume` to the last run of jobs of an interval that are all due, through four threads."""
    ran: list[None] = []
    with _scheduler(4) as scheduler:
        for _ in range(count):
            scheduler.add_job(lambda: ran.append(None), "interval", hours=1, next_run_time=_after(0.0))

        def timed() -> None:
            scheduler.resume()
            while len(ran) < count:
                sleep(0.0002)

        yield timed


@contextmanager
def cron(count: int) -> Prepared:
    from bench.peers.cron import EXPRESSION, start

    now = start()
    trigger = _module("triggers.cron").CronTrigger.from_crontab(EXPRESSION, now.tzinfo)

    def timed() -> None:
        found = now
        for _ in range(count):
            found = trigger.get_next_fire_time(found, found)

    yield timed


def _kept(add: Callable[[Any, float], object], waits: array[float]) -> object:
    kept = ExitStack()
    scheduler = kept.enter_context(_scheduler())
    for delay in waits:
        add(scheduler, delay)
    return kept


def pending(waits: array[float]) -> object:
    return _kept(lambda scheduler, delay: scheduler.add_job(nothing, "date", run_date=_after(delay)), waits)


def pending_jobs(waits: array[float]) -> object:
    return _kept(lambda scheduler, _: scheduler.add_job(nothing, "interval", hours=1), waits)


def idle(count: int) -> tuple[None, Callable[[], object]]:
    kept = ExitStack()
    scheduler = kept.enter_context(_scheduler())
    for delay in delays(count):
        scheduler.add_job(nothing, "date", run_date=_after(TOMORROW + delay))
    scheduler.resume()
    return None, kept.close


def lateness(plan: Plan) -> list[float]:
    """On its own clock, the wall's; its dates are of whole microseconds."""
    late: list[float] = []

    def record(deadline: float) -> None:
        late.append(time() - deadline)

    with _scheduler() as scheduler:
        for delay in plan.tomorrow():
            scheduler.add_job(nothing, "date", run_date=_after(delay))
        deadlines = plan.deadlines()
        to_wall = time() - monotonic()
        for deadline in deadlines:
            when = datetime.fromtimestamp(deadline + to_wall, timezone.utc)
            scheduler.add_job(record, "date", run_date=when, args=[when.timestamp()])
        scheduler.resume()
        while len(late) < len(deadlines):
            sleep(0.01)
    return late
