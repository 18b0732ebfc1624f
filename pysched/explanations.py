"""`Decision`: why a job has run, or has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pysched.clock import NS
from pysched.job_run import at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

__all__ = ["Decision", "decisions_of"]


class Decision(NamedTuple):
    """What became of a slot of a job, or of a run.

    `decision` is one of
    "ran": a run of the slot started, `lateness` seconds after it was due;
    "coalesced": `count` slots, this the latest, came while `max_instances` runs were busy;
    "late": `count` slots were missed, as the scheduler was late;
    "paused": `count` slots passed by in a pause;
    "queued": `count` slots wait for an instance (`overlap="queue"`);
    "pool full": a run waited, as all workers were busy;
    "retry", "timeout": of a run;
    "dropped": `count` runs were dropped by a shutdown.
    Times are aware, in the job's zone.
    """

    decision: str
    time: datetime
    scheduled_time: datetime
    count: int  # type: ignore[assignment]  # hides tuple.count, as a field of this name must
    lateness: float

    def __str__(self) -> str:
        many = f" x{self.count}" if self.count > 1 else ""
        late = f", {self.lateness:.6f} s late" if self.decision == "ran" else ""
        return f"{self.time.isoformat()} {self.decision}{many} (slot {self.scheduled_time.isoformat()}{late})"


def decisions_of(notes: Iterable[tuple[str, int, int, int, int]], zone: tzinfo) -> list[Decision]:
    """What the engine has noted, `(decision, when, slot, count, late)` each, in the words of users."""
    return [
        Decision("late" if decision == "missed" else decision, at(when, zone), at(slot, zone), count, late / NS)
        for decision, when, slot, count, late in notes
    ]
