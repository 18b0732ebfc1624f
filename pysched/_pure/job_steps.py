"""What becomes of a job when its slot has come, a run starts or ends, somebody pauses it, and so on.

Each method takes a job's state and gives a `Step` from it. None changes anything, but for the numbers that it
draws: a step that is thrown away leaves a gap in them, no more. Under the lock of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched._pure.jobs import JobState, Outcome, Phase, Step, Waiting
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysched._pure.jobs import Job, JobCall
    from pysched._pure.schedule import CalendarSchedule

__all__ = ["Steps", "buried", "discarded", "removed"]

COUNTED = 10_000
"""Slots of a calendar in one gap that are counted one by one."""

WORD = (1 << 64) - 1


class Steps:
    """`wall_offset` is the wall clock minus the monotonic clock, as last read; `seed` an odd number of 64 bits."""

    __slots__ = ("_orders", "_random", "all_paused", "wall_offset")

    def __init__(self, orders: Iterator[int], seed: int) -> None:
        self._orders = orders  # of submission, those of the heap
        self._random = seed
        self.all_paused = False
        self.wall_offset = 0

    # -- slots ------------------------------------------------------------------------------------------

    def offset_of(self, state: JobState) -> int:
        """The job's clock minus the monotonic clock."""
        return self.wall_offset if state.wall else 0

    def draw(self, limit: int) -> int:
        """A number from 0 to below `limit`, by xorshift64* (Vigna, 2016): good enough to spread load."""
        x = self._random
        x ^= x >> 12
        x ^= x << 25 & WORD
        x ^= x >> 27
        self._random = x
        return ((x * 2685821657736338717 & WORD) >> 1) % limit

    def due_of(self, job: Job, state: JobState) -> int:
        """When the job's slot is due; its jitter, which a single slot has not, is drawn anew at each call."""
        if state.slot == NEVER:
            return NEVER
        due = state.slot - self.offset_of(state)
        return min(due + self.draw(job.jitter) if job.jitter and not state.single else due, NEVER)

    def armed(self, job: Job, state: JobState) -> JobState:
        """Pending for its slot, or for the run at the start that it still has."""
        due_ns = state.due_ns if state.immediate else self.due_of(job, state)
        return state._replace(phase=Phase.PENDING, due_ns=due_ns, order=next(self._orders))

    def armed_unless_paused(self, job: Job, state: JobState) -> JobState:
        return state._replace(phase=Phase.PAUSED) if state.disabled else self.armed(job, state)

    def added(self, job: Job, unborn: JobState, state: JobState, now: int, held: bool) -> Step:  # noqa: ARG002
        """The first: a job with `immediate` is due now."""
        state = state._replace(due_ns=now)
        return Step(state._replace(phase=Phase.PAUSED) if held else self.armed(job, state), scheduled=1)

    def let_go(self, job: Job, state: JobState) -> Step | None:
        """A job that was added `held` is armed; None if it was removed or paused meanwhile."""
        return Step(self.armed(job, state)) if state.phase is Phase.PAUSED and not state.disabled else None

    def queued(self, state: JobState, slot: int, due_ns: int, ticks: bool) -> JobState:
        """With one more run in the ready queue; there is room."""
        return state._replace(waiting=(*state.waiting, Waiting(next(self._orders), slot, due_ns, ticks)))

    def tick(self, job: Job, state: JobState, now: int) -> Step | None:
        """The job's slot has come; None if it has not, after all.

        Slots that came while all instances were busy are coalesced; of those that came while the engine was late,
        the latest is run and the others are coalesced. A job without a further slot leaves the heap.
        """
        if state.phase is not Phase.PENDING or state.due_ns > now:
            return None
        offset = self.offset_of(state)
        immediate, passed = state.immediate, 0
        if immediate:
            latest, due = state.due_ns + offset, state.due_ns
            state = state._replace(immediate=False)
        elif state.slot > now + offset:  # the wall clock was set back: never early
            return Step(self.armed(job, state))
        else:
            jitter = min(max(state.due_ns - (state.slot - offset), 0), job.jitter)
            passed, latest, slot = pass_by(state, now + offset - jitter)
            state = state._replace(slot=slot)
            due = latest - offset + jitter
        if self.all_paused:
            if state.single and not immediate:  # it runs on resume
                return Step(state._replace(phase=Phase.PAUSED, slot=latest))
            state = state._replace(paused=state.paused + passed + 1)
            return Step(settled(self._armed_if_more(job, state)))
        if job.has_room(state) and (immediate or state.single or due >= state.busy_until):
            state = state._replace(coalesced=state.coalesced + passed)
            if state.ticks_left is not None:
                state = state._replace(ticks_left=state.ticks_left - 1)
            state = self._armed_if_more(job, state)
            return Step(self.queued(state, latest, due, ticks=True), queues=True, coalesced=passed)
        if state.single:
            return Step(state._replace(phase=Phase.ENDED, owed=True, slot=latest))
        passed += 1
        state = state._replace(coalesced=state.coalesced + passed)
        return Step(settled(self._armed_if_more(job, state)), coalesced=passed)

    def _armed_if_more(self, job: Job, state: JobState) -> JobState:
        if state.slot == NEVER or state.ticks_left == 0:
            return state._replace(phase=Phase.ENDED)
        return self.armed(job, state)

    # -- runs -------------------------------------------------------------------------------------------

    def run_besides(self, job: Job, state: JobState, now: int) -> Step | None:
        """A run besides the slots; None if all instances are busy, or the job has left."""
        if not (state.is_here and job.has_room(state)):
            return None
        return Step(self.queued(state, now + self.offset_of(state), now, ticks=False), queues=True)

    def started(self, job: Job, state: JobState, now: int) -> Step:  # noqa: ARG002
        """The first run that waits has started."""
        return Step(
            state._replace(
                waiting=state.waiting[1:],
                active=state.active + 1,
                started=state.started + 1,
                number=state.number + 1,
                last_start=now + self.wall_offset,
            ),
            started=1,
        )

    def refused(self, job: Job, state: JobState, run: JobCall) -> Step:  # noqa: ARG002
        """An executor did not take a run, which waits again: behind those that wait, as their order is lost by now."""
        if state.phase is Phase.GONE:
            return Step(state, started=-1)
        state = state._replace(active=state.active - 1, started=state.started - 1)
        return Step(self.queued(state, *run.waiting[1:]), queues=True, started=-1)

    def withdrawn(self, job: Job, state: JobState, now: int) -> Step:
        """An executor has dropped a run that it had taken."""
        step = self.ended(job, state._replace(started=state.started - 1), now, Outcome.NONE)
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
        if state.owed:
            state = self.armed(job, state._replace(owed=False))
        return Step(settled(state), errors=errors)

    def abandoned(self, job: Job, state: JobState) -> Step:
        """In a forked child: the threads of its runs are the parent's; those of a managed job are its manager's."""
        while state.active and not job.managed:
            state = self.ended(job, state, state.busy_until, Outcome.NONE).state
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
        if state.phase is not Phase.PAUSED:
            return Step(state)
        here = now + self.offset_of(state)
        if not state.single and state.slot <= here:
            passed, _, slot = pass_by(state, here)
            state = state._replace(slot=slot, paused=state.paused + passed + 1)
            if slot == NEVER:
                return Step(settled(state._replace(phase=Phase.ENDED)))
        return Step(self.armed(job, state))

    def passed_by(self, state: JobState, now: int) -> int:
        """How many slots have passed in the pause that goes on; `resumed` will count them."""
        here = now + self.offset_of(state)
        if state.phase is not Phase.PAUSED or state.single or state.slot > here:
            return 0
        return pass_by(state, here)[0] + 1

    def resumed_with_all(self, job: Job, state: JobState, now: int) -> Step | None:
        """As `resumed`; None for a job that does not wait for this, or was paused by itself."""
        return self.resumed(job, state, now) if state.phase is Phase.PAUSED and not state.disabled else None

    def rescheduled(
        self, job: Job, state: JobState, period: int, schedule: CalendarSchedule | None, slot: int, wall: bool
    ) -> Step | None:
        """A new grid; options, counters, pause and runs in progress stay, runs that wait are dropped.

        None if the job has left.
        """
        if not state.is_here:
            return None
        until = state.until
        if until != NEVER and wall != state.wall:
            until += self.wall_offset if wall else -self.wall_offset
        for waiting in state.waiting:
            state = untick(state, waiting)
        single = not period and schedule is None
        state = state._replace(period=period, schedule=schedule, wall=wall, slot=slot, single=single, until=until)
        state = state._replace(waiting=(), owed=False, immediate=state.immediate and not single)
        if (slot >= until and until != NEVER) or state.ticks_left == 0:
            return Step(settled(state._replace(phase=Phase.ENDED, slot=NEVER)))
        return Step(self.armed_unless_paused(job, state))

    # -- stopped ----------------------------------------------------------------------------------------

    def put_back(self, job: Job, state: JobState) -> Step | None:
        """The first run that waits is dropped, as the engine stops; a single slot comes again after a start."""
        if not state.waiting:
            return None
        dropped = state.waiting[0]
        state = untick(state._replace(waiting=state.waiting[1:]), dropped)
        if state.phase is Phase.ENDED and dropped.ticks:
            if state.single:
                state = self.armed_unless_paused(job, state._replace(slot=dropped.slot))
            elif state.slot != NEVER:
                state = self.armed_unless_paused(job, state)
        return Step(settled(state), dropped=1)


def removed(job: Job, state: JobState) -> Step:  # noqa: ARG001
    """The job is gone; its runs in progress go on."""
    return Step(state._replace(phase=Phase.GONE, schedule=None, waiting=()), cancelled=1)


def discarded(job: Job, state: JobState) -> Step:  # noqa: ARG001
    """The job was never there."""
    return Step(state._replace(phase=Phase.GONE, schedule=None), scheduled=-1)


def buried(job: Job, state: JobState) -> Step | None:  # noqa: ARG001
    """A job that has left is gone; None if it has not left, or is gone already."""
    return Step(state._replace(phase=Phase.GONE, schedule=None)) if state.phase is Phase.LEFT else None


def pass_by(state: JobState, now: int) -> tuple[int, int, int]:
    """How the slot, which has come by `now` (on the job's clock), gives way to the next one.

    Returns how many slots passed before the latest that has come (of a calendar: at most 10,000), that one, and
    the first one after `now`.
    """
    count, latest = 0, state.slot
    last = min(now, state.until - 1)
    if state.single:
        slot = NEVER
    elif state.schedule is None:
        count = (last - latest) // state.period
        latest += count * state.period
        slot = latest + state.period
    else:
        slot = state.schedule.next_shared(latest)
        while slot <= last:
            count += 1
            latest = slot if count < COUNTED else state.schedule.latest(last)
            slot = state.schedule.next_shared(latest)
    return count, latest, slot if slot < state.until else NEVER


def settled(state: JobState) -> JobState:
    """A job that has ended leaves with its last run."""
    if state.phase is Phase.ENDED and not (state.waiting or state.active or state.owed):
        return state._replace(phase=Phase.LEFT)
    return state


def untick(state: JobState, dropped: Waiting) -> JobState:
    """A run that was dropped before it started does not count for `max_runs`."""
    if dropped.ticks and state.ticks_left is not None:
        return state._replace(ticks_left=state.ticks_left + 1)
    return state
