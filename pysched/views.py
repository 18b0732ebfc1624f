"""Jobs as users see them, made of what the engine counts and what the scheduler keeps."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pysched.callbacks import name_of
from pysched.job import DEFAULTS, JobInfo
from pysched.runner import ManagedJob, at
from pysched.schedule import duration_text

if TYPE_CHECKING:
    from datetime import tzinfo

    from pysched.job import JobOptions

__all__ = ["CALLBACK", "RUNNING", "UNTIL", "as_dict", "as_info", "slots_of", "zone_of"]

NS = 1_000_000_000

# Places in a snapshot of the engine, which is a plain tuple: 10**5 of them are made at once.
CALLBACK, NEXT, ENABLED, PERIOD, SCHEDULE = 2, 3, 4, 5, 6
LAST_START, LAST_END, RUNNING = 14, 15, 16
SLOT, UNTIL, TICKS_LEFT = 18, 19, 20

_duration_text = lru_cache(maxsize=256)(duration_text)


def zone_of(snapshot: tuple[Any, ...], options: JobOptions, default: tzinfo) -> tzinfo:
    if snapshot[SCHEDULE] is not None:
        zone: tzinfo = snapshot[SCHEDULE].label[1]
        return zone
    return options.zone or default


# What a job shows that has no options and has not run yet, the keys of rust-py-scheduler first and in its order. A copy
# of it costs a third of a dict that is written out.
_BLANK: dict[str, Any] = {
    "id": "",
    "name": "",
    "schedule": "",
    "enabled": True,
    "run_count": 0,
    "error_count": 0,
    "last_run_at": None,
    "next_run_at": None,
    "max_retries": DEFAULTS.max_retries,
    "last_error": None,
    "retry_backoff": DEFAULTS.retry_backoff,
    "timeout": DEFAULTS.timeout,
    "max_instances": 1,
    "running": 0,
    "coalesced_count": 0,
    "timeout_count": 0,
    "started_count": 0,
    "missed_count": 0,
    "paused_count": 0,
    "tags": DEFAULTS.tags,
    "timezone": "",
    "started_at": None,
}


def as_dict(
    snapshot: tuple[Any, ...], job_id: str, options: JobOptions, error: str | None, zone: tzinfo
) -> dict[str, Any]:
    """The job with the keys of rust-py-scheduler in its order, and ours behind them. Times are whole Unix seconds."""
    values = _BLANK.copy()
    callback, next_ns, period, schedule = snapshot[2], snapshot[3], snapshot[5], snapshot[6]
    values["id"] = job_id
    values["enabled"] = snapshot[4]
    values["coalesced_count"] = snapshot[12]
    values["paused_count"] = snapshot[13]
    values["running"] = snapshot[16]
    values["max_instances"] = snapshot[17]
    values["timezone"] = str(zone)
    if next_ns is not None:
        values["next_run_at"] = str(next_ns // NS)
    if snapshot[8]:
        values["started_count"] = snapshot[8]
        values["run_count"] = snapshot[9]
        values["error_count"] = snapshot[10]
        values["timeout_count"] = snapshot[11]
        values["started_at"] = str(snapshot[14] // NS)
        if snapshot[15] is not None:
            values["last_run_at"] = str(snapshot[15] // NS)
        if snapshot[7]:
            values["last_error"] = error or ""
    text = options.schedule
    if text is None:
        if schedule is not None:
            text = schedule.label[0]
        else:
            text = f"{'after' if snapshot[-1] else 'every'} {_duration_text(period)}"
    values["schedule"] = text
    name = options.name
    if name is None:
        name = name_of(callback.callback if type(callback) is ManagedJob else callback)
    values["name"] = name
    if options is not DEFAULTS:
        values["max_retries"] = options.max_retries
        values["retry_backoff"] = options.retry_backoff
        values["timeout"] = options.timeout
        values["tags"] = options.tags
    return values


def as_info(snapshot: tuple[Any, ...], job_id: str, options: JobOptions, error: str | None, zone: tzinfo) -> JobInfo:
    values = as_dict(snapshot, job_id, options, error, zone)
    for key, ns in (
        ("last_run_at", snapshot[LAST_END]),
        ("next_run_at", snapshot[NEXT]),
        ("started_at", snapshot[LAST_START]),
    ):
        values[key] = None if ns is None else at(ns, zone)
    values["timezone"] = zone
    return JobInfo(**values)


def slots_of(snapshot: tuple[Any, ...], n: int) -> list[int]:
    """The job's next `n` slots, Unix ns; none while it is paused or has no further one."""
    slot, limit = snapshot[SLOT], snapshot[TICKS_LEFT]
    if not snapshot[ENABLED] or slot is None:
        return []
    n = min(n, limit) if limit else n
    found: list[int] = []
    if snapshot[SCHEDULE] is not None:
        for each in snapshot[SCHEDULE].slots(slot):
            if len(found) == n:
                break
            found.append(each)
    else:
        single = snapshot[-1]
        found = [slot + k * snapshot[PERIOD] for k in range(min(n, 1) if single else n)]
    return [each for each in found if each < snapshot[UNTIL]]
