"""Late and busy jobs, listeners and explanations in a typed program. Not run: mypy --strict checks it.

An ignored error is one that must be there: strict mode refuses an ignore that is not needed.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pysched import JobEvent, JobInfo, JobRun, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched.events import EventName
    from pysched.explanations import Decision
    from pysched.options import IntervalOptions, OnceOptions, RepeatedOptions, ScheduledOptions

scheduler = Scheduler(explain=100)


@scheduler.every("10s", catch_up="all", overlap="queue", misfire_grace_time=timedelta(minutes=1), spread="2s")
def often() -> None: ...


@scheduler.every(2.5, from_end=True, catch_up="none", id="paced")
async def paced(ctx: JobRun) -> str:
    await asyncio.sleep(1)
    return ctx.run_id


@scheduler.cron("@daily", misfire_grace_time="1h", catch_up="one", overlap="skip", spread=3600)
def nightly() -> None: ...


def once(when: datetime) -> list[str]:
    return [scheduler.after(5, often, misfire_grace_time=None), scheduler.at(when, often, misfire_grace_time=2)]


def refused(when: datetime) -> None:
    scheduler.every("10s", often, catch_up="two")  # type: ignore[call-overload]
    scheduler.every("10s", often, overlap="wait")  # type: ignore[call-overload]
    scheduler.every("10s", often, from_end="yes")  # type: ignore[call-overload]
    scheduler.every("10s", often, misfire_grace_time=[])  # type: ignore[call-overload]
    scheduler.cron("@daily", nightly, from_end=True)  # type: ignore[call-overload]
    scheduler.after(5, often, catch_up="one")  # type: ignore[call-overload]
    scheduler.at(when, often, spread=1)  # type: ignore[call-overload]
    scheduler.on("begun", print)  # type: ignore[arg-type]
    scheduler.on("error", lambda: None)  # type: ignore[arg-type, misc]
    scheduler.explain(1)  # type: ignore[arg-type]


def shared(name: EventName) -> None:
    """Options that are kept in one place."""
    for_once: OnceOptions = {"misfire_grace_time": "1m", "tags": ["web"]}
    for_all: RepeatedOptions = {"catch_up": "all", "spread": 5, "max_runs": 3}
    for_intervals: IntervalOptions = {"from_end": True}
    for_calendars: ScheduledOptions = {"timezone": "Europe/Paris", "overlap": "queue"}
    scheduler.after(1, often, **for_once)
    scheduler.every("1m", often, **for_all)
    scheduler.every("1m", often, **for_intervals)
    scheduler.cron("@hourly", often, **for_calendars)
    scheduler.on(name, told)


def told(event: JobEvent) -> None:
    name: EventName = event.event
    job: JobInfo | None = event.job
    run: JobRun | None = event.run
    time: datetime = event.time
    slot: datetime | None = event.scheduled_time
    lateness: float | None = event.lateness
    duration: float | None = event.duration
    error: BaseException | None = event.error
    result: Any = event.result
    count: int = event.count
    print(name, job, run, time, slot, lateness, duration, error, result, count)
    event.count = 2  # type: ignore[misc]


def listened() -> None:
    ends: Callable[[], object] = scheduler.on("missed", told)
    ends()


def explained(job_id: str) -> list[str]:
    decisions: list[Decision] = scheduler.explain(job_id)
    lateness: float = sum(each.lateness for each in decisions)
    counted: int = sum(each.count for each in decisions)
    times: list[datetime] = [each.time for each in decisions] + [each.scheduled_time for each in decisions]
    return [each.decision for each in decisions] + [str(lateness), str(counted), *map(str, times)]


def until_signals() -> bool:
    scheduler.run(handle_signals=True, shutdown_timeout="10s")
    idle: bool = scheduler.wait_idle(timedelta(seconds=1))
    return idle
