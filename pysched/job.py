"""What a `Scheduler` keeps of a job beside what its engine counts, and what it tells of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, tzinfo

__all__ = ["JobInfo", "JobOptions"]


@dataclass(frozen=True)
class JobInfo:
    """A job at one instant. Times are aware, in the job's zone; None: never.

    Counts are of ticks, not of attempts: `run_count` that succeeded, `error_count` that failed or timed out,
    `timeout_count` of those that timed out, `started_count` that began, `coalesced_count` that came while the job was
    busy or the scheduler late, `missed_count` of those that came while it was late, `paused_count` that passed by in a
    pause.
    """

    id: str
    name: str
    schedule: str
    enabled: bool
    run_count: int
    error_count: int
    last_run_at: datetime | None  # when the last tick ended
    next_run_at: datetime | None  # jitter included
    max_retries: int
    last_error: str | None
    retry_backoff: float
    timeout: float | None
    max_instances: int
    running: int
    coalesced_count: int
    timeout_count: int
    started_count: int
    missed_count: int
    paused_count: int
    tags: frozenset[str]
    timezone: tzinfo
    started_at: datetime | None  # when the last tick began


class JobOptions:
    """What a job was registered with, where it is not all default. Immutable but for `id`, `schedule` and `zone`."""

    __slots__ = (
        "id",
        "jitter",
        "max_retries",
        "name",
        "on_error",
        "retry_backoff",
        "schedule",
        "spread",
        "tags",
        "timeout",
        "zone",
    )

    def __init__(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        schedule: str | None = None,
        tags: frozenset[str] = frozenset(),
        zone: tzinfo | None = None,
        max_retries: int = 0,
        retry_backoff: float = 0.5,
        timeout: float | None = None,
        jitter: int = 0,
        spread: int = 0,
        on_error: Callable[[BaseException, Any], object] | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.schedule = schedule
        self.tags = tags
        self.zone = zone
        self.max_retries = max_retries
        self.retry_backoff = retry_backoff
        self.timeout = timeout
        self.jitter = jitter  # ns
        self.spread = spread  # ns
        self.on_error = on_error

    def needs_runner(self) -> bool:
        """Whether a run of it is more than a call; with a handler too, which is called after a removal as well."""
        return bool(self.max_retries) or self.timeout is not None or self.on_error is not None

    def is_default(self, has_zone: bool) -> bool:
        """Whether nothing in it needs to be kept; a schedule of the calendar knows its zone itself."""
        return (
            self.id is None
            and self.name is None
            and self.schedule is None
            and not self.tags
            and (self.zone is None or has_zone)
            and self.max_retries == 0
            and self.retry_backoff == 0.5
            and self.timeout is None
            and self.on_error is None
            and not self.jitter
            and not self.spread
        )


DEFAULTS = JobOptions()
"""Of the jobs that have none."""
