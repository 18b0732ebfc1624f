"""Jobs as a typed program registers them. Not run: mypy --strict checks it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pysched import CancelToken, JobInfo, JobRun, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched.testing import ManualClock

scheduler = Scheduler(4, timezone="Europe/Paris")
unwaited = Scheduler(max_workers=4, daemon=True)


@scheduler.every("5m", max_retries=3, retry_backoff="2s", timeout=10, id="refresh", tags={"cache"})
def refresh(cancel: CancelToken) -> int:
    return 1 if cancel.wait(0.5) else 0


@scheduler.cron("*/15 * * * * *", seconds=True, timezone=timezone.utc, jitter=1, immediate=True)
def poll() -> None: ...


@scheduler.after(timedelta(seconds=3))
def once() -> None: ...


@scheduler.every("1m", timeout="10s")
async def fetch(ctx: JobRun) -> int:
    await asyncio.sleep(1)
    return ctx.attempt


async def coroutines(clock: ManualClock) -> int:
    number: int = await fetch(JobRun("", "", 1, datetime.now(timezone.utc), 1, CancelToken()))
    async with Scheduler(loop=asyncio.get_running_loop(), clock=clock) as entered:
        entered.every("1s", fetch)
        entered.after(1, lambda: asyncio.sleep(1))
        ran: int = await clock.advance_async("1h")
    return number + ran


def report(error: BaseException, run: JobRun) -> None:
    print(run.job_id, error)


def registered(when: datetime) -> list[str]:
    number: int = refresh(CancelToken())  # a decorated function is what it was
    ids: list[str] = [
        scheduler.every(number, once, 3, 0.5, 10.0, 2),  # by position, as rust-py-scheduler takes them
        scheduler.every("1d", once, start_at=when, until=when, max_runs=3, replace=True, on_error=report),
        scheduler.cron("H 3 * * *", poll, hashed=True, name="nightly"),
        scheduler.after("1h30m", print, args=["a"], kwargs={"end": ""}),
        scheduler.at(when, once, timeout="1m"),
    ]
    decorator: Callable[[Callable[[], None]], Callable[[], None]] = scheduler.at(when)
    decorator(once)
    return ids


def seen(job: str) -> tuple[JobInfo, bool]:
    info: JobInfo = scheduler.get_job(job)
    removed: bool = scheduler.remove_job(job)
    return info, removed
