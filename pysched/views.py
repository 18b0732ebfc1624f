"""Jobs as users see them, made of what the engine counts and what the scheduler's book says."""

from __future__ import annotations

from datetime import timezone as fixed_zone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pysched.callbacks import name_of
from pysched.clock import NS
from pysched.job import DEFAULTS, JobInfo
from pysched.runner import ManagedJob, at
from pysched.schedule import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

    from pysched.book import JobBook
    from pysched.engine import Snapshot

__all__ = ["JobView"]

_duration_text = lru_cache(maxsize=256)(duration_text)

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


class JobView:
    """The views of the jobs of one scheduler; `default_zone` is that of a job that names none."""

    def __init__(self, book: JobBook, default_zone: tzinfo) -> None:
        self._book = book
        self._default_zone = default_zone

    def zone_of(self, snapshot: Snapshot) -> tzinfo:
        schedule = snapshot.schedule
        if schedule is not None:
            zone: tzinfo = schedule.label.zone
            return zone
        return self._book.options_of(snapshot.reference).zone or self._default_zone

    def name_of(self, snapshot: Snapshot) -> str:
        callback = snapshot.callback
        if type(callback) is ManagedJob:
            return callback.name
        options = self._book.options.get(snapshot.reference)
        return name_of(callback) if options is None or options.name is None else options.name

    def as_dicts(self, snapshots: Iterable[Snapshot]) -> list[dict[str, Any]]:
        """Jobs with the keys of rust-py-scheduler in its order, and ours behind them. Times are whole Unix seconds."""
        zones: dict[int, str] = {}  # their texts, as all jobs may have the same
        dicts = []
        for snapshot in snapshots:
            values = self._common(snapshot)
            zone = values["timezone"]
            text = zones.get(id(zone))
            if text is None:
                text = zones[id(zone)] = _text_of(zone)
            values["timezone"] = text
            tags = values["tags"]
            values["tags"] = tuple(sorted(tags)) if tags else ()  # json knows no sets
            next_ns = snapshot.next
            if next_ns is not None:
                values["next_run_at"] = str(next_ns // NS)
            if values["started_count"]:
                values["started_at"] = _seconds(snapshot.last_start)
                values["last_run_at"] = _seconds(snapshot.last_end)
            dicts.append(values)
        return dicts

    def as_info(self, snapshot: Snapshot, *, careful: bool = False) -> JobInfo:
        """A job at one instant; if `careful`, in UTC should its zone, which may be a class of the user's, fail."""
        values = self._common(snapshot)
        times = {"next_run_at": snapshot.next, "started_at": snapshot.last_start, "last_run_at": snapshot.last_end}
        zone: tzinfo = values["timezone"]
        try:
            values |= {name: _moment(ns, zone) for name, ns in times.items()}
        except Exception:  # not a Ctrl-C
            if not careful:
                raise
            values["timezone"] = fixed_zone.utc
            values |= {name: _moment(ns, fixed_zone.utc) for name, ns in times.items()}
        return JobInfo(**values)

    def _common(self, snapshot: Snapshot) -> dict[str, Any]:
        """All but the times, which the two views show in their own ways, as they do the zone and the tags."""
        values = _BLANK.copy()
        book, reference, schedule, callback = self._book, snapshot.reference, snapshot.schedule, snapshot.callback
        options = book.options.get(reference)
        text = name = zone = None
        if options is None:
            values["id"] = book.default_id(reference)
        else:
            values["id"] = options.id or book.default_id(reference)
            values["max_retries"] = options.max_retries
            values["retry_backoff"] = options.retry_backoff
            values["timeout"] = options.timeout
            values["tags"] = options.tags
            text, name, zone = options.schedule, options.name, options.zone
        if schedule is not None:
            text, zone = schedule.label.text, schedule.label.zone
        elif text is None:
            text = f"{'after' if snapshot.single else 'every'} {_duration_text(snapshot.period)}"
        values["schedule"] = text
        values["timezone"] = zone or self._default_zone
        if name is None:
            name = callback.name if type(callback) is ManagedJob else name_of(callback)
        values["name"] = name
        values["enabled"] = snapshot.enabled
        values["running"] = snapshot.running
        values["max_instances"] = snapshot.instances
        coalesced = snapshot.coalesced
        if coalesced:
            values["coalesced_count"] = coalesced
            values["missed_count"] = snapshot.missed
        values["paused_count"] = snapshot.paused
        started = snapshot.started
        if started:
            values["started_count"] = started
            values["run_count"] = snapshot.succeeded
            values["error_count"] = snapshot.failed
            values["timeout_count"] = snapshot.timed_out
            if snapshot.failing:
                values["last_error"] = book.errors.get(reference, "")
        return values

    def next_runs(self, snapshot: Snapshot, n: int) -> list[datetime]:
        """The job's next `n` slots, in its zone; none while it is paused or has no further one."""
        slot, limit = snapshot.slot, snapshot.ticks_left
        if not snapshot.enabled or slot is None:
            return []
        if limit:
            n = min(n, limit - snapshot.immediate)
        if snapshot.single:
            n = min(n, 1)
        found: list[int] = []
        if snapshot.schedule is not None:
            for each in snapshot.schedule.slots(slot):
                if len(found) == n:
                    break
                found.append(each)
        else:
            found = [slot + k * snapshot.period for k in range(n)]
        zone, until = self.zone_of(snapshot), snapshot.until
        return [at(each, zone) for each in found if each < until]


def _text_of(zone: tzinfo) -> str:
    try:
        return str(zone)
    except Exception:  # of a class of the user's: no reason to show no job at all
        return type(zone).__name__


def _seconds(ns: int | None) -> str | None:
    return None if ns is None else str(ns // NS)


def _moment(ns: int | None, zone: tzinfo) -> datetime | None:
    return None if ns is None else at(ns, zone)
