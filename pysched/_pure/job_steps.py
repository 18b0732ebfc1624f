"""What becomes of a job when its slot has come, a run starts or ends, somebody pauses it, and so on.

Each method takes a job's state and gives a `Step` from it. None changes anything, but for the numbers that it
draws: a step that is thrown away leaves a gap in them, no more. Under the lock of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched._pure.decisions import COALESCED, DROPPED, RAN
from pysched._pure.job_slots import Slots, pass_by, settled, ticked
from pysched._pure.jobs import JobState, Outcome, Phase, Step
from pysched.clock import NEVER

if TYPE_CHECKING:
    from pysched._pure.jobs import Job, JobCall
    from pysched._pure.schedule import CalendarSchedule

__all__ = ["Steps", "buried", "discarded", "removed"]


class Steps(Slots):
    __slots__ = ()

    # -- in the heap ------------------------------------------------------------------------------------

    def armed(self, job: Job, state: JobState) -> JobState:
        """Pending for its slot, or for the run at the start that it still has."""
        due_ns = state.due_ns if state.immediate else self.due_of(job, state)
        return state._replace(phase=Phase.PENDING, due_ns=due_ns, order=next(self._orders))

    def armed_unless_paused(self, job: Job, state: JobState) -> JobState:
        return state._replace(phase=Phase.PAUSED) if state.disabled or state.untold else self.armed(job, state)

    def added(self, job: Job, unborn: JobState, state: JobState, now: int, held: bool) -> Step:  # noqa: ARG002
        """The first: a job with `immediate` is due now."""
        state = self.armed(job, state._replace(due_ns=now))
        return Step(state._replace(phase=Phase.PAUSED, untold=True) if held else state, scheduled=1)

    def let_go(self, job: Job, state: JobState) -> Step | None:
        """A job that was added `held` is armed, if it was not paused meanwhile; None if it was removed."""
        if not state.is_here:
            return None
        state = state._replace(untold=False)
        return Step(self.armed(job, state) if state.phase is Phase.PAUSED and not state.disabled else state)

    # -- slots ------------------------------------------------------------------------------------------

    def tick(self, job: Job, state: JobState, now: int) -> Step | None:
        """The job's slot has come; None if it has not, after all.

        A job without a further slot leaves the heap; one whose period counts from the end of its run does so until
        then.
        """
        if state.phase is not Phase.PENDING or state.due_ns > now:
            return None
        offset = self.offset_of(state)
        here = now + offset
        latest, due = None, state.due_ns
        keeps_slot = False
        if state.immediate and self.all_paused:  # it runs on resume
            return Step(state._replace(phase=Phase.PAUSED))
        if state.immediate:
            step = Step(state._replace(immediate=False))
            # The period counts from the end of this run, unless the first slot was to be later than that.
            keeps_slot = state.slot > due + state.period
            if job.has_room(state):
                latest = due + offset
            else:
                step = self.left_out(step, COALESCED, due + offset, 1, now)
        elif state.slot > here:  # the wall clock is behind what was planned: never early
            return Step(state._replace(due_ns=state.slot - offset, order=next(self._orders)))
        elif self.all_paused:
            if state.single:  # it runs on resume
                return Step(state._replace(phase=Phase.PAUSED))
            step = self._let_pass(Step(state), here, now)
        else:
            lag = min(max(due - (state.slot - offset), 0), job.longest_lag)
            step, latest = self.choose(job, state, now, here - lag, lag)
            due = 0 if latest is None else latest - offset + lag
        if latest is None:
            return step._replace(state=settled(self._armed_if_more(job, step.state)))
        state = ticked(step.state)
        if job.policy.from_end and state.period and not keeps_slot:
            state = state._replace(slot=NEVER)
        return self.queued(step._replace(state=self._armed_if_more(job, state)), latest, due, ticks=True)

    def _let_pass(self, step: Step, here: int, now: int) -> Step:
        """The slots up to `here` come in a pause."""
        count, latest, slot = pass_by(step.state, here)
        return self.passed(step._replace(state=step.state._replace(slot=slot)), latest, count + 1, now)

    def _armed_if_more(self, job: Job, state: JobState) -> JobState:
        if state.slot == NEVER or state.owed or state.spent:
            return state._replace(phase=Phase.ENDED)
        return self.armed(job, state)

    def fed(self, job: Job, state: JobState) -> Step | None:
        """A free instance is given to the first run of the backlog; None if there is no such instance or run."""
        if not (state.backlog and state.is_here and job.has_room(state)):
            return None
        slot, due = state.backlog[0]
        return self.queued(Step(state._replace(backlog=state.backlog[1:])), slot, due, ticks=True)

    def noted(self, job: Job, state: JobState, decision: str, slot_wall_ns: int, now: int) -> Step | None:  # noqa: ARG002
        """A decision of the owner's."""
        if not state.is_here:
            return None
        slot = slot_wall_ns if state.wall else slot_wall_ns - self.planned_offset
        return Step(state, notes=self.note(state, decision, slot, 1, now))

    # -- runs -------------------------------------------------------------------------------------------

    def run_besides(self, job: Job, state: JobState, now: int) -> Step | None:
        """A run besides the slots; None if all instances are busy, or the job has left."""
        if not (state.is_here and job.has_room(state)):
            return None
        return self.queued(Step(state), now + self.offset_of(state), now, ticks=False)

    def started(self, job: Job, state: JobState, now: int) -> Step:  # noqa: ARG002
        """The first run that waits has started."""
        first = state.waiting[0]
        late = now - max(first.due_ns, self.start_ns)
        return Step(
            state._replace(
                waiting=state.waiting[1:],
                active=state.active + 1,
                started=state.started + 1,
                number=state.number + 1,
                last_start=now + self.wall_offset,
            ),
            started=1,
            notes=self.note(state, RAN, first.slot, 1, now, late),
        )

    def refused(self, job: Job, state: JobState, run: JobCall) -> Step:  # noqa: ARG002
        """An executor did not take a run, which waits again: behind those that wait, as their order is lost by now."""
        if state.phase is Phase.GONE:
            return Step(state, started=-1)
        state = state._replace(active=state.active - 1, started=state.started - 1)
        return self.queued(Step(state, started=-1), *run.waiting[1:])

    def withdrawn(self, job: Job, state: JobState, run: JobCall, now: int) -> Step:
        """An executor has dropped a run that it had taken, which does not count for `max_runs`."""
        state = state._replace(started=state.started - 1)
        if state.phase is not Phase.GONE:
            state = untick(state, run.waiting.ticks)
            if state.phase is Phase.ENDED and state.slot != NEVER and not (state.spent or state.owed):
                state = self.armed_unless_paused(job, state)  # it had come to its last
        step = self.ended(job, state, now, Outcome.NONE)
        return step._replace(started=-1, dropped=1)

    def ended(self, job: Job, state: JobState, now: int, outcome: Outcome) -> Step:
        """A run has ended and gives its instance back; of a job that was removed meanwhile nothing changes."""
        errors = outcome is Outcome.FAILED or outcome is Outcome.TIMED_OUT
        if state.phase is Phase.GONE or not state.active:  # in a forked child it may be abandoned already
            return Step(state, errors=errors)
        if outcome is Outcome.SUCCEEDED:
            state = state._replace(succeeded=state.succeeded + 1, failing=False)
        elif outcome is not Outcome.NONE:
            late = outcome is Outcome.TIMED_OUT
            state = state._replace(failed=state.failed + 1, timed_out=state.timed_out + late, failing=True)
        if outcome is not Outcome.NONE:
            state = state._replace(last_end=now + self.wall_offset)
        if not job.has_room(state):
            state = state._replace(busy_until=now)
        state = state._replace(active=state.active - 1)
        state = self.armed(job, state._replace(owed=False)) if state.owed else self._armed_from_end(job, state, now)
        return Step(settled(state), errors=errors)

    def _armed_from_end(self, job: Job, state: JobState, now: int) -> JobState:
        """If its period counts from the end of its run, and that is now."""
        if not (job.policy.from_end and state.period and state.phase is Phase.ENDED):
            return state
        if state.waiting or state.active or state.spent or now + state.period >= state.until:
            return state
        return self.armed_unless_paused(job, state._replace(slot=now + state.period))

    def abandoned(self, job: Job, state: JobState) -> Step:
        """In a forked child: the threads of its runs are the parent's; those of a managed job are its manager's."""
        while state.active and not job.managed:
            # The time is not known there: the latest start stands for it.
            now = max(state.busy_until, state.last_start - self.wall_offset)
            state = self.ended(job, state, now, Outcome.NONE).state
        return Step(state)

    # -- pauses and new grids ---------------------------------------------------------------------------

    def paused(self, job: Job, state: JobState) -> Step | None:  # noqa: ARG002
        """Its slots pass by from now on; runs in progress go on, those that wait too. None if it has left."""
        if not state.is_here:
            return None
        state = state._replace(disabled=True)
        if state.phase is Phase.PENDING:
            return Step(state._replace(phase=Phase.PAUSED))
        if state.owed:
            return Step(state._replace(phase=Phase.PAUSED, owed=False))
        return Step(state)

    def resumed(self, job: Job, state: JobState, now: int) -> Step | None:
        """It waits for the next slot after `now`; a single slot that has passed comes at once. None if it has left."""
        if not state.is_here:
            return None
        state = state._replace(disabled=False)
        if state.phase is not Phase.PAUSED or state.untold:
            return Step(state)
        here = now + self.offset_of(state)
        step = Step(state)
        if state.slot <= here:
            if state.single:
                step = Step(state._replace(excused=True))  # it is late because of the pause
            else:
                step = self._let_pass(step, here, now)
                if step.state.slot == NEVER:
                    return step._replace(state=settled(step.state._replace(phase=Phase.ENDED)))
        return step._replace(state=self.armed(job, step.state))

    def passed_by(self, state: JobState, now: int) -> int:
        """How many slots have passed in the pause that goes on; `resumed` will count them."""
        here = now + self.offset_of(state)
        if state.phase is not Phase.PAUSED or state.single or state.slot > here:
            return 0
        return pass_by(state, here)[0] + 1

    def resumed_with_all(self, job: Job, state: JobState, now: int) -> Step | None:
        """As `resumed`; None for a job that does not wait for this, was paused by itself, or is still held."""
        waits = state.phase is Phase.PAUSED and not (state.disabled or state.untold)
        return self.resumed(job, state, now) if waits else None

    def rescheduled(
        self,
        job: Job,
        state: JobState,
        period: int,
        schedule: CalendarSchedule | None,
        slot: int,
        wall: bool,
        begin: int,
    ) -> Step | None:
        """A new grid; options, counters, pause and runs in progress stay, runs that wait are dropped.

        None if the job has left.
        """
        if not state.is_here:
            return None
        until = state.until
        if until != NEVER and wall != state.wall:
            until += self.wall_offset if wall else -self.wall_offset
        state = untick(state, sum(waiting.ticks for waiting in state.waiting) + len(state.backlog))
        single = not period and schedule is None
        state = state._replace(period=period, schedule=schedule, wall=wall, slot=slot, single=single, until=until)
        # What kept slots of the old grid waiting says nothing of the new one's.
        state = state._replace(begin=begin, waiting=(), backlog=(), owed=False, excused=False, busy_until=-NEVER)
        state = state._replace(immediate=state.immediate and not single)
        if (slot >= until and until != NEVER) or state.spent:
            return Step(settled(state._replace(phase=Phase.ENDED, slot=NEVER)))
        return Step(self.armed_unless_paused(job, state))

    # -- stopped ----------------------------------------------------------------------------------------

    def put_back(self, job: Job, state: JobState) -> Step | None:
        """The first run that waits is dropped, as the engine stops; a single slot comes again after a start."""
        if not state.waiting:
            return None
        dropped = state.waiting[0]
        notes = self.note(state, DROPPED, dropped.slot, 1, dropped.due_ns)
        state = untick(state._replace(waiting=state.waiting[1:]), dropped.ticks)
        if state.phase is Phase.ENDED and dropped.ticks:
            if state.single or (job.policy.from_end and state.period):
                state = state._replace(slot=dropped.slot)
            if state.slot != NEVER:
                state = self.armed_unless_paused(job, state)
        else:
            state = self._armed_from_end(job, state, dropped.due_ns)
        return Step(settled(state), dropped=1, notes=notes)

    def put_backlog_back(self, job: Job, state: JobState) -> Step | None:
        """All runs that wait for an instance are dropped, as the engine stops; None if there are none."""
        if not state.backlog:
            return None
        slot, due = state.backlog[-1]
        count = len(state.backlog)
        notes = self.note(state, DROPPED, slot, count, due)
        state = untick(state._replace(backlog=()), count)
        if state.phase is Phase.ENDED and state.slot != NEVER and not state.spent:
            state = self.armed_unless_paused(job, state)
        return Step(settled(state), dropped=count, notes=notes)


def has_more(state: JobState) -> bool:
    """Whether a run of the job would come that has not started."""
    return state.phase is not Phase.ENDED or bool(state.waiting) or state.owed or not state.single


def removed(job: Job, state: JobState) -> Step:  # noqa: ARG001
    """The job is gone; its runs in progress go on."""
    gone = state._replace(phase=Phase.GONE, schedule=None, waiting=(), backlog=())
    return Step(gone, cancelled=int(has_more(state)))


def discarded(job: Job, state: JobState) -> Step:  # noqa: ARG001
    """The job was never there."""
    return Step(state._replace(phase=Phase.GONE, schedule=None), scheduled=-1)


def buried(job: Job, state: JobState) -> Step | None:  # noqa: ARG001
    """A job that has left is gone; None if it has not left, or is gone already."""
    return Step(state._replace(phase=Phase.GONE, schedule=None)) if state.phase is Phase.LEFT else None


def untick(state: JobState, ticks: int) -> JobState:
    """Runs that were dropped before they started do not count for `max_runs`."""
    return state if state.ticks_left is None else state._replace(ticks_left=state.ticks_left + ticks)
