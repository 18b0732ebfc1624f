"""`Snapshot`: a job at one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pysched._pure.jobs import Phase
from pysched.clock import NEVER

if TYPE_CHECKING:
    from pysched._pure.job_steps import Steps
    from pysched._pure.jobs import Job, JobState
    from pysched._pure.schedule import CalendarSchedule

__all__ = ["Snapshot", "snapshot_at", "snapshot_of"]


class Snapshot(NamedTuple):
    """A job at one instant, made by a `JobEngine`. Times are ns on the wall clock, None for never."""

    reference: int
    order: int  # that of registration
    callback: Any
    next: int | None  # when it is due next, jitter included
    enabled: bool
    immediate: bool  # a run at the start is still to come, before the slot
    period: int  # ns; 0: by its schedule; of a single slot the delay that it was given, or 0
    schedule: CalendarSchedule | None
    failing: bool  # its last run failed
    started: int
    succeeded: int
    failed: int
    timed_out: int
    coalesced: int
    missed: int  # slots, among those coalesced, that came while the engine was late
    paused: int
    last_start: int | None
    last_end: int | None
    running: int  # runs that wait or are in progress
    active: int  # runs in progress
    queued: int  # runs that wait for an instance
    instances: int
    slot: int | None  # the next one, without jitter
    until: int  # slots from then on do not exist; NEVER: all do
    ticks_left: int  # until the last one; 0: no limit
    single: bool  # it has one slot only


def snapshot_of(job: Job, steps: Steps, now: int) -> Snapshot | None:
    """None if the job has left."""
    state = job.state
    return snapshot_at(job, state, steps, now) if state.is_here and job.callback is not None else None


def snapshot_at(job: Job, state: JobState, steps: Steps, now: int) -> Snapshot:
    """Of a job when it was in that state."""
    wall_offset = steps.planned_offset  # as `Slots.slot_on_wall`
    offset = 0 if state.wall else wall_offset
    pending = state.phase is Phase.PENDING
    return Snapshot(
        reference=job.reference,
        order=job.reference,  # which are given in this order
        callback=job.callback,
        next=state.due_ns + wall_offset if (pending or state.untold) and state.due_ns != NEVER else None,
        enabled=not state.disabled,
        immediate=state.immediate,
        period=state.period,
        schedule=state.schedule,
        failing=state.failing,
        started=state.started,
        succeeded=state.succeeded,
        failed=state.failed,
        timed_out=state.timed_out,
        coalesced=state.coalesced,
        missed=state.missed,
        paused=state.paused + steps.passed_by(state, now),
        last_start=state.last_start if state.started else None,
        last_end=state.last_end if state.succeeded + state.failed else None,
        running=len(state.waiting) + state.active,
        active=state.active,
        queued=len(state.backlog),
        instances=job.instances,
        slot=state.slot + offset if pending and state.slot != NEVER else None,
        until=state.until + offset if state.until != NEVER else NEVER,
        ticks_left=state.ticks_left or 0,
        single=state.single,
    )
