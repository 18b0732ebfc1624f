"""What always holds of the jobs of a table, for tests: ``JobEngine._check()``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pysched._pure.job_slots import BACKLOG
from pysched._pure.job_table import DRIFT
from pysched._pure.jobs import Job, JobCall, Phase

if TYPE_CHECKING:
    from pysched._pure.job_table import JobTable

__all__ = ["check_jobs"]


def check_jobs(table: JobTable, begun: bool, started: bool) -> None:
    """Assert every invariant of jobs. Under the lock of the engine.

    It has `begun`, and is not stopped yet; if it is `started`, nobody has asked for a stop either.
    """
    assert table.on_wall == sum(job.state.wall for job in table.jobs.values()), (
        "the count of jobs on the wall clock is wrong"
    )
    assert abs(table.steps.wall_offset - table.steps.planned_offset) < DRIFT, "jobs are planned with an old offset"
    # Those that end with their call: a run that has a ticket ends by that, before its call does or after it.
    calls = Counter(run.job for run in table.runs.values() if isinstance(run, JobCall) and run.ticket is None)
    known = set(table.jobs.values())
    for timer in [*table.armed_timers(), *table.ready.values()]:
        assert not isinstance(timer, Job) or timer in known, "a job that is gone is in the heap or in the ready queue"
    armed = set(table.armed_timers())
    for reference, job in table.jobs.items():
        state = job.state
        assert job.reference == reference
        assert state.phase is not Phase.GONE
        assert (state.phase is Phase.PENDING) == job.armed == job.live == (job in armed)
        assert (job.due_ns, job.order) == (state.due_ns, state.order)
        assert state.phase is not Phase.LEFT or job in table.left, "a job has left and nobody will be told"
        waiting = [waiting.order for waiting in state.waiting]
        assert waiting == [order for order, timer in table.ready.items() if timer is job], "runs that wait are lost"
        assert 0 <= len(waiting) + state.active <= job.instances, "a job has more runs than instances"
        assert calls[job] <= state.active, "a call goes on whose run has ended"
        assert not state.owed or (state.single and state.phase is Phase.ENDED)
        assert len(state.backlog) <= BACKLOG, "a backlog is too long"
        assert not (state.backlog and state.single), "a single slot waits in a backlog"
        assert not (state.backlog and started and job.has_room(state)), "a backlog waits beside a free instance"
        assert not state.backlog or begun, "a backlog is still there after a stop"
        assert state.slot < state.until or job.state.slot >= 2**63 - 1 or state.phase is not Phase.PENDING
        assert state.phase is not Phase.ENDED or waiting or state.active or state.owed or state.backlog, (
            "a job has ended and stays"
        )
