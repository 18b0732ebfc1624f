"""The table of an engine that has jobs: theirs beside its timers, in the same heap and the same ready queue.

Ground rules: those of `table`. A job changes by a step (`job_steps`): the new state is computed from the old one,
what it needs elsewhere is prepared (an entry of the heap, which is stale until the job is armed with its order), and
then, in one straight stretch, it takes the old one's place, if that is still there; else all begins anew. What is
left behind is found to be stale when it comes up: an entry of the ready queue whose run the job does not know, and
a job in `left` that is gone already.
"""

from __future__ import annotations

import itertools
from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from pysched._pure.decisions import NO_NEWS, TOLD, News, in_order
from pysched._pure.job_slots import STEP
from pysched._pure.job_steps import Steps, buried, discarded, has_more, removed
from pysched._pure.jobs import Alarm, Job, JobCall, Outcome, Phase, Step
from pysched._pure.schedule import NOBODYS
from pysched._pure.table import TimerTable
from pysched._pure.timers import Run
from pysched.clock import NEVER
from pysched.refusals import raised_here

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pysched._pure.deadlines import Entry
    from pysched._pure.decisions import Chain
    from pysched._pure.jobs import JobState
    from pysched._pure.keys import Bucket
    from pysched._pure.timers import Taken, Timer

__all__ = ["JobTable"]

DRIFT = 1_000_000
CORRECTION = 3 * 3_600 * 1_000_000_000
"""As in Debian's cron: a clock that is set back by so much was wrong."""


class JobTable(TimerTable):
    """Costs are those of timers; a step of a job of which n runs wait costs O(n) besides."""

    __slots__ = (
        "_changes",
        "_explains",
        "_most_news",
        "_references",
        "_told_next",
        "jobs",
        "left",
        "news",
        "on_wall",
        "steps",
    )

    def __init__(self, seed: int, tolerance: int) -> None:
        super().__init__()
        self._references = itertools.count(1)
        self._changes = 0  # of jobs: whoever computes new states of many looks whether they are still those
        self.jobs: dict[int, Job] = {}  # by reference, in the order of registration
        self.left: list[Job] = []  # that are still to be told of
        self.on_wall = 0  # jobs whose slots are on the wall clock
        self.steps = Steps(self._orders, seed, tolerance)
        self._explains = 0  # how many decisions are noted of each job
        self._most_news = 0  # how many may wait to be told; 0: none is told
        self.news: Chain = NO_NEWS  # to be told after `_told_next`
        self._told_next: deque[News] = deque()

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
        return has_more(old)

    def bury(self) -> tuple[Job, JobState] | None:
        """A job that has left, the latest first, and how it was; it is gone by this and still to be told of.

        None if there is none.
        """
        while self.left:
            job = self.left[-1]
            state = job.state
            gone = self.change(job, buried) is not None
            if job in self.left:
                self.left.remove(job)
            self.jobs.pop(job.reference, None)
            if gone:
                return job, state
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
        new, news = self._noted(job, step)
        old_news = self.news
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
        on_wall = new.on_wall - old.on_wall
        if job.state is old and self._edition == edition and self.news is old_news:
            # straight:
            changes = self._changes + 1
            on_wall += self.on_wall
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
            self._changes = changes
            self.on_wall = on_wall
            self.news = news
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

    # -- decisions --------------------------------------------------------------------------------------

    def explain(self, count: int) -> None:
        """Note the latest `count` decisions of each job; not where there are jobs already."""
        if not self.jobs:
            self._explains = count
            self.steps.noting = bool(count or self._most_news)

    def observe(self, most: int) -> None:
        """Keep news to be told, at most so many; what is still to be told is not."""
        self.news = NO_NEWS
        self._told_next.clear()
        self._most_news = most
        self.steps.noting = bool(self._explains or most)

    def _noted(self, job: Job, step: Step) -> tuple[JobState, Chain]:
        """The state with the notes of the step, and the news with what the owner is to be told of it."""
        state, news = step.state, self.news
        if step.notes and self._explains:
            state = state._replace(notes=(*state.notes, *step.notes)[-self._explains :])
        if self._most_news:
            for note in step.notes:
                if note.decision in TOLD:
                    news = (News(job.reference, note), news)
        return state, news

    @property
    def observed(self) -> bool:
        """Whether the owner is told of more than that jobs have left."""
        return self._most_news > 0

    def next_news(self) -> News | None:
        """What the owner is to be told next, which is taken by this; None if there is nothing."""
        while self.news:
            chain = self.news
            told_next = in_order(self._told_next, chain, self._most_news)
            if self.news is chain:
                # straight:
                self.news = NO_NEWS
                self._told_next = told_next
        return self._told_next.popleft() if self._told_next else None

    @property
    def has_tidings(self) -> bool:
        """Whether the owner is to be told of something."""
        return bool(self.left or self.news or self._told_next)

    # -- the wall clock ---------------------------------------------------------------------------------

    def see_wall(self, offset: int, now_ns: int) -> None:
        """Keep the wall clock minus the monotonic clock, as it is now.

        O(1), or O(timers) if the clocks have moved against each other and there are jobs on the wall clock. Due times
        are made anew when they have moved by 1 ms, so that a clock that is slewed makes nobody late; by a second, and
        it was a step.
        """
        steps = self.steps
        steps.wall_offset = offset
        if abs(offset - steps.planned_offset) < DRIFT:
            return
        if self.on_wall:
            self._plan_anew(offset, now_ns + offset)
        else:
            steps.planned_offset = offset

    def _plan_anew(self, offset: int, here: int) -> None:
        """Forward, slots passed over have come; back, some calendars are planned anew from `here`, the new time.

        All keep their places among those that are due at one time, so the heap is another one, with the old orders.
        """
        steps = self.steps
        while steps.planned_offset != offset:
            edition, changes, moved = self._edition, self._changes, offset - steps.planned_offset
            planned = {}
            for job in list(self.jobs.values()):
                old = job.state
                if old.wall and (old.phase is Phase.PENDING or old.phase is Phase.PAUSED):
                    slot = slot_after_step(old, moved, here)
                    planned[job] = steps.planned_anew(job, old, offset, slot)
            heap = [
                (planned[timer].due_ns, order, timer) if timer in planned else (due_ns, order, timer)
                for due_ns, order, timer in self._heap
                if timer.armed and timer.order == order
            ]
            heapify(heap)
            states, dues = list(planned.values()), [state.due_ns for state in planned.values()]
            setting = itertools.chain(
                map(setattr, planned, itertools.repeat("state"), states),
                map(setattr, planned, itertools.repeat("due_ns"), dues),
            )
            sink = deque[None](maxlen=0)  # runs an iterator in C to its end
            if self._edition == edition and self._changes == changes:
                # straight:
                self._edition = edition + 1
                self._changes = changes + 1
                self._heap = heap
                steps.planned_offset = offset
                sink.extend(setting)

    # -- the way of a run -------------------------------------------------------------------------------

    def _promote(self, entry: Entry, now_ns: int) -> bool:
        timer = entry[2]
        if isinstance(timer, Job):
            step = self.change(timer, self.steps.tick, now_ns)
            fed = self.feed(timer)
            return fed or (step is not None and step.queues)
        if isinstance(timer, Alarm):
            return False  # it is never queued
        return super()._promote(entry, now_ns)

    def feed(self, job: Job) -> bool:
        """Give free instances to runs of the backlog; whether there were any. The engine must be started."""
        fed = False
        while job.state.backlog and self.change(job, self.steps.fed) is not None:
            fed = True
        return fed

    def _start(self, timer: Timer, thread: int, now_ns: int) -> Run | None:
        if not isinstance(timer, Job):
            return super()._start(timer, thread, now_ns)
        old = timer.state
        if not self._is_first(timer, old):
            return None
        step = self.steps.started(timer, old, now_ns)
        scheduled = self.steps.slot_on_wall(old, old.waiting[0].slot)
        run = JobCall(timer, old.waiting[0], step.state.number, scheduled, thread, now_ns)
        return run if self._replace(timer, old, step, begun=run) else None

    def _is_first(self, job: Job, state: JobState) -> bool:
        """Whether the first entry of the ready queue is the first run of a job; drops it if it is stale."""
        try:
            order = next(iter(self.ready))
        except StopIteration:  # somebody got in between
            return False
        except RuntimeError as error:
            if not raised_here(error):  # else somebody has changed it between the two calls
                raise
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
                step = self.steps.withdrawn(run.job, old, run, now)
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

    def put_back(self) -> None:
        super().put_back()
        for job in list(self.jobs.values()):
            self.change(job, self.steps.put_backlog_back)

    def forget_runs(self) -> None:
        super().forget_runs()
        for job in list(self.jobs.values()):
            self.change(job, self.steps.abandoned)


def slot_after_step(state: JobState, moved: int, here: int) -> int:
    """The next slot of a job on the wall clock, which has moved, to `here`."""
    schedule = state.schedule
    if moved > -STEP or schedule is None or not (schedule._wildcard or moved <= -CORRECTION):
        return state.slot
    slot = schedule.next_shared(max(here, state.begin - 1))
    return slot if slot < state.until else NEVER
