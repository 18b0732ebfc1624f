"""The table of an engine that has jobs: theirs beside its timers, in the same heap and the same ready queue.

Ground rules: those of `table`. A job changes by a step (`job_steps`): the new state is computed from the old one,
what it needs elsewhere is prepared (an entry of the heap, which is stale until the job is armed with its order), and
then, in one straight stretch, it takes the old one's place, if that is still there; else all begins anew. What is
left behind is found to be stale when it comes up: an entry of the ready queue whose run the job does not know, and
a job in `left` that is gone already.
"""

from __future__ import annotations

import itertools
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from pysched._pure.job_steps import Steps, buried, discarded, removed
from pysched._pure.jobs import Alarm, Job, JobCall, Outcome, Phase, Step
from pysched._pure.schedule import NOBODYS
from pysched._pure.table import TimerTable
from pysched._pure.timers import Run
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pysched._pure.deadlines import Entry
    from pysched._pure.jobs import JobState
    from pysched._pure.keys import Bucket
    from pysched._pure.timers import Taken, Timer

__all__ = ["JobTable"]


class JobTable(TimerTable):
    """Costs are those of timers; a step of a job of which n runs wait costs O(n) besides."""

    __slots__ = ("_references", "jobs", "left", "steps")

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._references = itertools.count(1)
        self.jobs: dict[int, Job] = {}  # by reference, in the order of registration
        self.left: list[Job] = []  # that are still to be told of
        self.steps = Steps(self._orders, seed)

    # -- jobs -------------------------------------------------------------------------------------------

    def add_job(self, job: Job, state: JobState, now_ns: int, held: bool) -> None:
        job.reference = next(self._references)
        self.jobs[job.reference] = job
        self.change(job, self.steps.added, state, now_ns, held)

    def discard_job(self, job: Job) -> None:
        self.change(job, discarded)
        self.jobs.pop(job.reference, None)

    def find(self, reference: int) -> Job | None:
        """The job of that reference, unless it has left. O(1)."""
        job = self.jobs.get(reference)
        return job if job is not None and job.state.is_here else None

    def remove_job(self, job: Job) -> bool:
        """Remove a job: whether that prevented a run that would have come."""
        old = job.state
        self.change(job, removed)
        self.jobs.pop(job.reference, None)
        return old.phase is not Phase.ENDED or bool(old.waiting) or old.owed or not old.single

    def bury(self) -> Job | None:
        """A job that has left, the latest first, which is gone by this and still to be told of; None if none is."""
        while self.left:
            job = self.left[-1]
            gone = self.change(job, buried) is not None
            if job in self.left:
                self.left.remove(job)
            self.jobs.pop(job.reference, None)
            if gone:
                return job
        return None

    def change(self, job: Job, way: Callable[..., Step | None], *args: Any) -> Step | None:
        """Take a job on by `way(job, state, *args)`, of `job_steps`; None, and nothing changed, if it gives none."""
        while True:
            old = job.state
            step = way(job, old, *args)
            if step is None or self._replace(job, old, step):
                return step

    def _replace(self, job: Job, old: JobState, step: Step, begun: Run | None = None, over: Run | None = None) -> bool:
        """Put the state after `step` in the place of `old`; by that the run `begun` starts, or the run `over` ends."""
        new = step.state
        arms = new.phase is Phase.PENDING
        edition = self._edition
        if arms and new.order != old.order:
            edition += 1
            self._edition = edition
            heappush(self._heap, (new.due_ns, new.order, job))
        if new.phase is Phase.LEFT:
            self.left.append(job)
        queue = self.ready if step.queues else {}
        queued = new.waiting[-1].order if step.queues else 0
        starting: dict[int, Run | None] = self.runs if begun is not None else {}  # type: ignore[assignment]
        start = begun.order if begun is not None else 0
        ending: dict[int, Run | None] = self.runs if over is not None else {0: None}  # type: ignore[assignment]
        end = over.order if over is not None else 0
        first_due = new.waiting[0].due_ns if new.waiting else NEVER
        leaves, joins = old.schedule or NOBODYS, new.schedule or NOBODYS
        if job.state is old and self._edition == edition:
            # straight:
            live = self.live + arms - job.armed
            armed = self.armed + arms - job.armed
            scheduled = self.scheduled + step.scheduled
            started = self.started + step.started
            cancelled = self.cancelled + step.cancelled
            coalesced = self.coalesced + step.coalesced
            errors = self.errors + step.errors
            dropped = self.dropped + step.dropped
            queue[queued] = job
            starting[start] = begun
            self.live = live
            self.armed = armed
            self.scheduled = scheduled
            self.started = started
            self.cancelled = cancelled
            self.coalesced = coalesced
            self.errors = errors
            self.dropped = dropped
            leaves._jobs -= 1
            joins._jobs += 1
            job.live = job.armed = arms
            job.due_ns = new.due_ns
            job.order = new.order
            job.run_due_ns = first_due
            job.state = new
            del ending[end]
            self._forget_waiting(old, new)
            self._bound_stale()
            return True
        return False

    def _forget_waiting(self, old: JobState, new: JobState) -> None:
        """Take the runs that wait no longer, which were the first, out of the ready queue."""
        first = new.waiting[0].order if new.waiting else None
        for waiting in old.waiting:
            if waiting.order == first:
                break
            self.ready.pop(waiting.order, None)

    # -- the way of a run -------------------------------------------------------------------------------

    def _promote(self, entry: Entry, now_ns: int) -> bool:
        timer = entry[2]
        if isinstance(timer, Job):
            step = self.change(timer, self.steps.tick, now_ns)
            return step is not None and step.queues
        if isinstance(timer, Alarm):
            return False  # it is never queued
        return super()._promote(entry, now_ns)

    def _start(self, timer: Timer, thread: int, now_ns: int) -> Run | None:
        if not isinstance(timer, Job):
            return super()._start(timer, thread, now_ns)
        old = timer.state
        if not self._is_first(timer, old):
            return None
        step = self.steps.started(timer, old, now_ns)
        scheduled = old.waiting[0].slot + self.steps.wall_offset - self.steps.offset_of(old)
        run = JobCall(timer, old.waiting[0], step.state.number, scheduled, thread, now_ns)
        return run if self._replace(timer, old, step, begun=run) else None

    def _is_first(self, job: Job, state: JobState) -> bool:
        """Whether the first entry of the ready queue is the first run of a job; drops it if it is stale."""
        try:
            order = next(iter(self.ready))
        except (StopIteration, RuntimeError):  # somebody got in between
            return False
        if state.waiting and state.waiting[0].order == order:
            return True
        if self.ready.get(order) is job and all(waiting.order != order for waiting in state.waiting):
            self.ready.pop(order, None)
        return False

    def start_alarm(self, thread: int, now_ns: int) -> Run | None:
        """Start the alarm that is the earliest of all timers, if it is due at or before `now_ns`."""
        entry = self.head()
        if entry is None or entry[0] > now_ns or not isinstance(entry[2], Alarm):
            return None
        timer = entry[2]
        run = Run(timer, thread, timer.due_ns, timer.order)
        if self._heap and self._heap[0] is entry and timer.armed:
            # straight:
            edition = self._edition + 1
            live = self.live - 1
            armed = self.armed - 1
            self.runs[run.order] = run
            self._edition = edition
            self.live = live
            self.armed = armed
            timer.live = False
            timer.armed = False
            timer.callback = None  # the run has these
            timer.args = ()
            heappop(self._heap)
            return run
        return None

    def next_alarm(self) -> Alarm | None:
        """The earliest alarm, whatever stands before it in the heap; None if none is to come. O(n)."""
        alarms = [timer for timer in self.armed_timers() if isinstance(timer, Alarm) and timer.due_ns < NEVER]
        return min(alarms, key=lambda alarm: (alarm.due_ns, alarm.order), default=None)

    def end(self, run: Run, end_ns: int | None, dropped: bool = False) -> bool:
        if not isinstance(run, JobCall):
            return super().end(run, end_ns, dropped)
        known = run.order in self.runs
        now = run.started_ns if end_ns is None else end_ns
        while run.order in self.runs:
            old = run.job.state
            if dropped:
                step = self.steps.withdrawn(run.job, old, now)
            elif run.ticket is not None:
                step = Step(old)
            else:
                outcome = Outcome.FAILED if run.failed else Outcome.SUCCEEDED
                step = self.steps.ended(run.job, old, now, outcome)
            self._replace(run.job, old, step, over=run)
        return known

    def revive(self, run: Run, taken: Taken, bucket: Bucket, holder: Timer | None) -> bool:
        if not isinstance(run, JobCall):
            return super().revive(run, taken, bucket, holder)
        while run.order in self.runs:
            old = run.job.state
            self._replace(run.job, old, self.steps.refused(run.job, old, run), over=run)
        return True

    def _put_back(self, timer: Timer) -> None:
        if not isinstance(timer, Job):
            super()._put_back(timer)
        elif self._is_first(timer, timer.state):
            self.change(timer, self.steps.put_back)

    def forget_runs(self) -> None:
        super().forget_runs()
        for job in list(self.jobs.values()):
            self.change(job, self.steps.abandoned)
