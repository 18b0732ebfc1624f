"""The slots of a job: when the next one is due, which of those that have come get a run, and what passes by.

As in `job_steps`, nothing is changed here: what becomes of a job's state is given back. Under the lock of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched._pure.decisions import COALESCED, MISSED, PASSED, POOL_FULL, QUEUED, Note
from pysched._pure.jobs import Phase, Step, Waiting
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysched._pure.jobs import Job, JobState

__all__ = ["Slots", "pass_by", "settled", "ticked"]

COUNTED = 10_000
"""Slots of a calendar in one gap that are counted one by one."""
CAUGHT_UP = 1_000
"""Slots of one gap that are run one by one."""
BACKLOG = 1_000
"""Runs of a job that may wait for an instance."""
STEP = 1_000_000_000
"""A change of the wall clock against the monotonic one of at least so much, ns, was a step."""

WORD = (1 << 64) - 1


class Slots:
    """What decides about slots; `seed` is an odd number of 64 bits.

    `wall_offset` is the wall clock minus the monotonic clock, as last read, `planned_offset` the same when the jobs on
    the wall clock were planned: equal slots are due at one time, whenever they were registered. `start_ns` is when the
    engine was started; the latest of several slots is not missed if it is at most `tolerance` late. `pool_full`: all
    workers are inside of callbacks. `noting`: decisions are wanted.
    """

    __slots__ = (
        "_orders",
        "_random",
        "all_paused",
        "noting",
        "planned_offset",
        "pool_full",
        "start_ns",
        "tolerance",
        "wall_offset",
    )

    def __init__(self, orders: Iterator[int], seed: int, tolerance: int) -> None:
        self._orders = orders  # of submission, those of the heap
        self._random = seed
        self.tolerance = tolerance
        self.all_paused = False
        self.noting = False
        self.pool_full = False
        self.start_ns = 0
        self.wall_offset = 0
        self.planned_offset = 0

    # -- when it is due ---------------------------------------------------------------------------------

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
        """When the job's slot is due; its delay and its jitter, drawn anew at each call, a single slot has not."""
        if state.slot == NEVER:
            return NEVER
        due = state.slot - (self.planned_offset if state.wall else 0)
        if not state.single:
            due += job.policy.delay + (self.draw(job.jitter) if job.jitter else 0)
        return min(due, NEVER)

    def slot_on_wall(self, state: JobState, slot: int) -> int:
        """A slot as it is shown: by the planned offset, so that those of a grid do not tremble with the clocks."""
        return slot if state.wall else slot + self.planned_offset

    def planned_anew(self, job: Job, state: JobState, offset: int, slot: int) -> JobState:
        """With a slot and a due time that fit another offset; as much later than the slot as it was."""
        due_ns = state.due_ns
        if state.phase is Phase.PENDING and not state.immediate:
            lag = min(max(due_ns - (state.slot - self.planned_offset), 0), job.longest_lag)
            due_ns = NEVER if slot == NEVER else min(slot - offset + lag, NEVER)
        if offset - self.planned_offset >= STEP:  # its runs were not in progress when the slots passed over were due
            state = state._replace(busy_until=-NEVER)
        return state._replace(slot=slot, due_ns=due_ns)

    # -- decisions --------------------------------------------------------------------------------------

    def note(self, state: JobState, decision: str, slot: int, count: int, now: int, late: int = 0) -> tuple[Note, ...]:
        """`slot`, the latest of `count`, is on the job's clock, `now` monotonic; `late` is of a run that starts."""
        if not self.noting:
            return ()
        shown = self.slot_on_wall(state, slot)
        return (Note.made(decision, now + self.wall_offset, shown, count, late),)

    def left_out(self, step: Step, why: str, slot: int, count: int, now: int) -> Step:
        """Slots, `slot` being the latest, get no run of their own."""
        state = step.state
        missed = count if why == MISSED else 0
        return step._replace(
            state=state._replace(coalesced=state.coalesced + count, missed=state.missed + missed),
            coalesced=step.coalesced + count,
            notes=(*step.notes, *self.note(state, why, slot, count, now)),
        )

    def passed(self, step: Step, slot: int, count: int, now: int) -> Step:
        """Slots, `slot` being the latest, came in a pause."""
        state = step.state
        notes = (*step.notes, *self.note(state, PASSED, slot, count, now))
        return step._replace(state=state._replace(paused=state.paused + count), notes=notes)

    def queued(self, step: Step, slot: int, due_ns: int, ticks: bool) -> Step:
        """With one more run in the ready queue; there is room."""
        state = step.state
        waiting = Waiting(next(self._orders), slot, due_ns, ticks)
        notes = step.notes
        if self.pool_full:
            notes = (*notes, *self.note(state, POOL_FULL, slot, 1, due_ns))
        return step._replace(state=state._replace(waiting=(*state.waiting, waiting)), queues=True, notes=notes)

    # -- when slots have come ---------------------------------------------------------------------------

    def choose(self, job: Job, state: JobState, now: int, horizon: int, lag: int) -> tuple[Step, int | None]:
        """Decide about the slots up to `horizon`, on the job's clock, which are due `lag` later each.

        Also gives the one that is to be run now, or None. Slots that came while all instances were busy are
        coalesced, or wait in the backlog; of those that came while the engine was late, those later than the grace
        allows are left out, and the rest is caught up with as the job wants it.
        """
        step = Step(state)
        if state.single:
            return self._choose_single(job, step, now)
        offset, policy = self.offset_of(state), job.policy
        limit = min(horizon, state.busy_until + offset - lag - 1) if job.has_room(state) else horizon
        if policy.queues and (state.slot <= limit or state.backlog):
            limit = horizon  # first in, first out
        if state.slot <= limit:
            if policy.queues:
                step = self._fill_backlog(step, limit, lag, COALESCED, now)
            else:
                step = self._pass_over(step, limit, COALESCED, now)
            if policy.from_end and state.period:
                step = step._replace(state=put_off(step.state))
        if step.state.slot > horizon or step.state.spent:
            return step, None
        if policy.grace != NEVER and step.state.slot <= horizon - policy.grace - 1:
            step = self._pass_over(step, horizon - policy.grace - 1, MISSED, now)
            if step.state.slot > horizon:
                return step, None
        if policy.catch_up == "all":
            return self._fill_backlog(step, horizon, lag, MISSED, now), None
        count, latest, slot = pass_by(step.state, horizon)
        step = step._replace(state=step.state._replace(slot=slot))
        due = latest - offset + lag
        if policy.catch_up == "none" and (due < self.start_ns or now - due > self.tolerance):
            return self.left_out(step, MISSED, latest, count + 1, now), None
        if count:
            step = self.left_out(step, MISSED, slot_before(step.state, latest), count, now)
        return step, latest

    def _choose_single(self, job: Job, step: Step, now: int) -> tuple[Step, int | None]:
        state = step.state
        slot, room = state.slot, job.has_room(state)
        ended = step._replace(state=state._replace(slot=NEVER))
        due = slot - self.offset_of(state)
        if not state.excused and now - due > job.policy.grace and due >= state.busy_until:
            return self.left_out(ended, MISSED, slot, 1, now), None
        if not room:
            return step._replace(state=state._replace(owed=True, excused=True)), None
        return ended, slot

    def _pass_over(self, step: Step, limit: int, why: str, now: int) -> Step:
        """Leave out the slots up to `limit`."""
        count, latest, slot = pass_by(step.state, limit)
        step = step._replace(state=step.state._replace(slot=slot))
        return self.left_out(step, why, latest, count + 1, now)

    def _fill_backlog(self, step: Step, limit: int, lag: int, otherwise: str, now: int) -> Step:
        """Put the slots up to `limit` into the backlog, 1,000 at most; the rest is counted."""
        state = step.state
        offset = self.offset_of(state)
        backlog, count, latest = [*state.backlog], 0, state.slot
        while state.slot <= limit and count < CAUGHT_UP and len(backlog) < BACKLOG and not state.spent:
            latest = state.slot
            backlog.append((latest, latest - offset + lag))
            count += 1
            state = ticked(state)._replace(slot=following(state))
        step = step._replace(state=state._replace(backlog=tuple(backlog)))
        if count and otherwise == COALESCED:
            step = step._replace(notes=(*step.notes, *self.note(state, QUEUED, latest, count, now)))
        if state.slot <= limit and not state.spent:
            step = self._pass_over(step, limit, otherwise, now)
        return step


def following(state: JobState) -> int:
    """The slot after the job's next one, which is not single; NEVER if there is none."""
    slot = state.slot + state.period if state.schedule is None else state.schedule.next_shared(state.slot)
    return slot if slot < state.until else NEVER


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


def slot_before(state: JobState, slot: int) -> int:
    """The slot before that one, of which there is one."""
    return slot - state.period if state.schedule is None else state.schedule.latest(slot - 1)


def put_off(state: JobState) -> JobState:
    """The period counts from the end of the run that was busy: which has ended, or the next slot is still unknown."""
    if state.waiting or state.active:
        return state._replace(slot=NEVER)
    slot = state.busy_until + state.period
    return state._replace(slot=slot if slot < state.until else NEVER)


def ticked(state: JobState) -> JobState:
    """One of its ticks has come."""
    return state._replace(ticks_left=state.ticks_left - 1) if state.ticks_left else state


def settled(state: JobState) -> JobState:
    """A job that has ended leaves with its last run."""
    if state.phase is Phase.ENDED and not (state.waiting or state.active or state.backlog or state.owed):
        return state._replace(phase=Phase.LEFT)
    return state
