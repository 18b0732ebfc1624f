"""See jobs.pxd."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport (
    DISABLED,
    ENDED,
    FAILING,
    FREE,
    IMMEDIATE,
    LEFT,
    MANAGED,
    OWED,
    PAUSED,
    PENDING,
    SINGLE,
    SPENT,
    WALL,
    ZOMBIE,
    Core,
    Job,
    Run,
    Slot,
    SlotState,
    Waiting,
    job_at,
    saturating_add,
    shifted,
    slot_at,
)
from .heap cimport heap_pop, heap_push, heap_replace_root
from .platform cimport NEVER
from .schedule cimport Schedule, schedule_latest, schedule_next
from .starts cimport begin_run, ring_append, share_references
from .timers cimport core_bound_stale, core_drop_stale, core_leave_ring, core_next_tie

cdef enum:
    COUNTED = 10_000                 # slots of a calendar in one gap that are counted one by one


# -- slots ----------------------------------------------------------------------------------------------------------

cdef int64_t job_draw(Core *core, int64_t limit) noexcept nogil:
    """A number from 0 to below `limit`, by xorshift64* (Vigna, 2016): good enough to spread load."""
    cdef uint64_t x = core.random
    x ^= x >> 12
    x ^= x << 25
    x ^= x >> 27
    core.random = x
    return <int64_t>(((x * <uint64_t>2685821657736338717U) >> 1) % <uint64_t>limit)


cdef inline int64_t offset_of(const Core *core, const Job *job) noexcept nogil:
    """The job's clock - the monotonic clock."""
    return core.wall_offset if job.flags & WALL else 0


cdef inline bint is_single(const Job *job) noexcept nogil:
    """Whether it has one slot only."""
    return job.flags & SINGLE


cdef int64_t due_of(Core *core, const Job *job) noexcept nogil:
    """When the job's slot is due, on the monotonic clock; its jitter, which a single slot has not, is drawn anew."""
    cdef int64_t due
    if job.slot == NEVER:
        return NEVER
    due = shifted(job.slot, -offset_of(core, job))
    return saturating_add(due, job_draw(core, job.jitter)) if job.jitter and not is_single(job) else due


cdef int64_t pass_by(Job *job, int64_t now, int64_t *latest) noexcept nogil:
    """Takes the job's slot, which has come, on to the first one after `now`, both on the job's clock.

    `latest`: the last slot that has come; returns how many came before it (of a calendar: at most 10,000).
    """
    cdef int64_t count = 0
    cdef int64_t last = now if now < job.until else job.until - 1
    latest[0] = job.slot
    if is_single(job):
        job.slot = NEVER
    elif job.period:
        count = (last - job.slot) // job.period
        latest[0] += count * job.period
        job.slot = saturating_add(latest[0], job.period)
    else:
        job.slot = schedule_next(job.schedule, latest[0])
        while job.slot <= last:
            count += 1
            if count == COUNTED:
                latest[0] = schedule_latest(job.schedule, last)
                job.slot = schedule_next(job.schedule, latest[0])
                break
            latest[0] = job.slot
            job.slot = schedule_next(job.schedule, latest[0])
    if job.slot >= job.until:
        job.slot = NEVER
    return count


# -- in the heap and out of it --------------------------------------------------------------------------------------

cdef void job_arm(Core *core, uint32_t index) noexcept nogil:
    """Puts a job that is outside of the heap into it, for its slot, or for the run at the start that it still has."""
    cdef Slot *slot = slot_at(core, index)
    if not job_at(core, slot.record).flags & IMMEDIATE:
        slot.when = due_of(core, job_at(core, slot.record))
    slot.tie = core_next_tie(core, index)
    slot.state = PENDING
    heap_push(&core.heap, slot.when, slot.tie)
    core.outside -= 1
    core.live += 1


cdef void arm_unless_paused(Core *core, uint32_t index) noexcept nogil:
    """The same, but a job that was paused waits until it is resumed."""
    cdef Slot *slot = slot_at(core, index)
    if job_at(core, slot.record).flags & DISABLED:
        slot.state = PAUSED
    else:
        job_arm(core, index)


cdef void rearm_root(Core *core, uint32_t index, Slot *slot) noexcept nogil:
    slot.when = due_of(core, job_at(core, slot.record))
    slot.tie = core_next_tie(core, index)
    heap_replace_root(&core.heap, slot.when, slot.tie)


cdef void pop_root(Core *core, Slot *slot, SlotState state) noexcept nogil:
    heap_pop(&core.heap)
    slot.tie = 0
    slot.state = state
    core.outside += 1
    core.live -= 1


cdef void job_leave_heap(Core *core, uint32_t index) noexcept nogil:
    """Takes a pending job out of the heap, wherever its node is."""
    cdef Slot *slot = slot_at(core, index)
    slot.tie = 0
    slot.state = PAUSED
    core.stale += 1
    core.outside += 1
    core.live -= 1
    if core.heap.size + core.outside > core.heap.capacity:
        core_drop_stale(core)            # room was reserved for this job once: either here or outside
    core_bound_stale(core)


cdef void job_settle(Core *core, uint32_t index) noexcept nogil:
    """Lists a job that has ended with its last run, so that its owner is told."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    if slot.state == ENDED and not (job.waiting or job.active or job.flags & (OWED | LEFT)):
        job.flags |= LEFT
        slot.key = core.ended
        core.ended = index


# -- when a slot has come -------------------------------------------------------------------------------------------

cdef bint job_has_room(const Job *job) noexcept nogil:
    return job.waiting + job.active < job.instances


cdef void job_queue(Core *core, uint32_t index, int64_t slot, int64_t due, bint ticks) noexcept nogil:
    """Puts a run of a job that has room into the ready ring."""
    cdef Job *job = job_at(core, slot_at(core, index).record)
    cdef Waiting *waiting = &job.only
    if job.queue != NULL:
        waiting = &job.queue[(job.queue_head + job.waiting) % job.instances]
    waiting.slot = slot
    waiting.due = due
    waiting.ticks = ticks
    job.waiting += 1
    ring_append(core, index)


cdef bint job_tick(Core *core, uint32_t index, int64_t now) noexcept nogil:
    """Takes the job at the root, due by `now`, on to its next slot: whether a run of it waits in the ready ring now.

    Slots that came while all instances were busy are coalesced; of those that came while the engine was late, the
    latest is run and the others are coalesced.  A job without a further slot leaves the heap.
    """
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef int64_t offset = offset_of(core, job)
    cdef int64_t due = slot.when
    cdef int64_t jitter = 0, passed = 0
    cdef int64_t latest
    cdef bint immediate = job.flags & IMMEDIATE
    cdef bint runs
    if immediate:
        job.flags &= ~IMMEDIATE
        latest = due + offset
    elif job.slot > shifted(now, offset):
        rearm_root(core, index, slot)    # the wall clock was set back: never early
        return False
    else:
        if job.jitter:
            jitter = min(max(due - shifted(job.slot, -offset), 0), job.jitter)
        passed = pass_by(job, now + offset - jitter, &latest)
        due = latest - offset + jitter
    if core.all_paused:
        runs = False
        if is_single(job) and not immediate:
            job.slot = latest            # it runs on resume
            pop_root(core, slot, PAUSED)
            return False
        job.paused += passed + 1
    else:
        runs = job_has_room(job) and (immediate or is_single(job) or due >= job.busy_until)
        if runs:
            job.coalesced += passed
            core.coalesced += passed
        elif is_single(job):
            job.flags |= OWED
            job.slot = latest
        else:
            job.coalesced += passed + 1
            core.coalesced += passed + 1
    if runs and job.ticks_left:
        job.ticks_left -= 1
        if job.ticks_left == 0:
            job.flags |= SPENT
    if job.slot == NEVER or job.flags & (OWED | SPENT):
        pop_root(core, slot, ENDED)
    else:
        rearm_root(core, index, slot)
    if runs:
        job_queue(core, index, latest, due, True)
    else:
        job_settle(core, index)
    return runs


cdef inline Waiting *first_waiting(Job *job) noexcept nogil:
    return &job.only if job.queue == NULL else &job.queue[job.queue_head]


cdef inline void take_waiting(Job *job) noexcept nogil:
    """It starts, or is dropped."""
    job.waiting -= 1
    if job.queue != NULL:
        job.queue_head = (job.queue_head + 1) % job.instances


cdef void job_start(Core *core, uint32_t index, Run *run, int64_t now) noexcept:
    """Starts the run whose entry was taken from the ready ring.  Needs the GIL."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef Waiting *waiting = first_waiting(job)
    cdef bint ticks
    run.slot = index
    run.periodic = True
    run.scheduled = waiting.slot + core.wall_offset - offset_of(core, job)
    ticks = waiting.ticks
    begin_run(core, slot, run, waiting.due, now)
    share_references(run)
    take_waiting(job)
    job.active += 1
    job.started += 1
    run.number = job.started + job.taken_back
    run.ticks = ticks
    job.last_start = now + core.wall_offset


cdef void job_refuse(Core *core, Run *run) noexcept nogil:
    """An executor did not take a run, which waits again: behind those that wait, as their order is lost by now."""
    cdef Job *job = job_at(core, slot_at(core, run.slot).record)
    job.active -= 1
    job.started -= 1
    job.taken_back += 1
    job_queue(core, run.slot, run.scheduled - core.wall_offset + offset_of(core, job), run.due, run.ticks)


cdef void give_instance_back(Core *core, uint32_t index, Job *job, int64_t now) noexcept nogil:
    if not job_has_room(job):
        job.busy_until = now
    job.active -= 1
    if job.flags & OWED:
        job.flags &= ~OWED
        job_arm(core, index)
    job_settle(core, index)


cdef void job_end_run(Core *core, uint32_t index, uint32_t generation, int64_t now, Outcome outcome) noexcept nogil:
    """Ends a run, which gives its instance back; of a job that was removed meanwhile nothing is left to change."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job
    if slot.generation != generation:
        return
    job = job_at(core, slot.record)
    job.last_end = now + core.wall_offset
    if outcome == SUCCEEDED:
        job.succeeded += 1
        job.flags &= ~FAILING
    else:
        job.failed += 1
        job.timed_out += outcome == TIMED_OUT
        job.flags |= FAILING
    give_instance_back(core, index, job, now)


cdef void job_withdraw(Core *core, uint32_t index, uint32_t generation, int64_t now) noexcept nogil:
    """Takes a start back: an executor has dropped the run."""
    cdef Slot *slot = slot_at(core, index)
    if slot.generation == generation:
        job_at(core, slot.record).started -= 1
        job_at(core, slot.record).taken_back += 1
        give_instance_back(core, index, job_at(core, slot.record), now)


cdef void job_give_back(Core *core, uint32_t index, uint32_t generation, int64_t now) noexcept nogil:
    """Ends a run without an outcome: its thread was the parent's, before a fork; `job_abandon` may have been here."""
    cdef Slot *slot = slot_at(core, index)
    if slot.generation == generation and job_at(core, slot.record).active:
        give_instance_back(core, index, job_at(core, slot.record), now)


# -- paused, dropped, forked ----------------------------------------------------------------------------------------

cdef void job_pause(Core *core, uint32_t index) noexcept nogil:
    """Lets the job's slots pass by from now on; runs in progress go on, those that wait too."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    job.flags |= DISABLED
    if slot.state == PENDING:
        job_leave_heap(core, index)
    elif slot.state == ENDED and job.flags & OWED:
        job.flags &= ~OWED
        slot.state = PAUSED


cdef int64_t job_passed(const Core *core, const Slot *slot, int64_t now) noexcept nogil:
    """How many slots of a job have passed in the pause that goes on; `job_resume` will count them."""
    cdef Job copy = job_at(core, slot.record)[0]
    cdef int64_t latest
    if slot.state != PAUSED or is_single(&copy) or copy.slot > now + offset_of(core, &copy):
        return 0
    return pass_by(&copy, now + offset_of(core, &copy), &latest) + 1


cdef void job_resume(Core *core, uint32_t index, int64_t now) noexcept nogil:
    """Waits for the next slot after `now`; a single slot that has passed comes at once."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef int64_t latest
    job.flags &= ~DISABLED
    if slot.state != PAUSED:
        return
    if not is_single(job) and job.slot <= now + offset_of(core, job):
        job.paused += pass_by(job, now + offset_of(core, job), &latest) + 1
        if job.slot == NEVER:
            slot.state = ENDED
            job_settle(core, index)
            return
    job_arm(core, index)


cdef void untick(Job *job, const Waiting *dropped) noexcept nogil:
    """A run that was dropped before it started does not count for `ticks_left`."""
    if dropped.ticks and (job.ticks_left or job.flags & SPENT):
        job.ticks_left += 1
        job.flags &= ~SPENT


cdef void drop_queued(Core *core, uint32_t index) noexcept nogil:
    """Drops the runs that wait; O(entries of the ready ring) if there are any."""
    cdef Job *job = job_at(core, slot_at(core, index).record)
    if job.waiting:
        core_leave_ring(core, index)
    while job.waiting:
        untick(job, first_waiting(job))
        take_waiting(job)


cdef void job_regrid(
    Core *core, uint32_t index, int64_t period, Schedule *schedule, int64_t slot, bint wall
) noexcept nogil:
    """Gives the job a new grid; options, counters, pause and runs in progress stay, runs that wait are dropped."""
    cdef Slot *record = slot_at(core, index)
    cdef Job *job = job_at(core, record.record)
    if job.schedule != NULL:
        job.schedule.jobs -= 1
    if schedule != NULL:
        schedule.jobs += 1
    drop_queued(core, index)
    if job.until != NEVER and wall != (job.flags & WALL != 0):       # it is on the job's clock, as its slots are
        job.until = shifted(job.until, core.wall_offset if wall else -core.wall_offset)
    job.flags &= ~(WALL | OWED | SINGLE)
    job.flags |= WALL if wall else 0
    if not period and schedule == NULL:
        job.flags &= ~IMMEDIATE
        job.flags |= SINGLE
    job.period = period
    job.schedule = schedule
    job.slot = slot
    if record.state == PENDING:
        job_leave_heap(core, index)
    if job.flags & SPENT or (slot >= job.until and job.until != NEVER):
        job.slot = NEVER
        record.state = ENDED
        job_settle(core, index)
    else:
        arm_unless_paused(core, index)


cdef void job_put_back(Core *core, uint32_t index) noexcept nogil:
    """Drops the run of an entry that was taken from the ready ring; a single slot comes again after a start."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef Waiting dropped = first_waiting(job)[0]
    take_waiting(job)
    untick(job, &dropped)
    core.dropped += 1
    if slot.state == ENDED and dropped.ticks:
        if is_single(job):
            job.slot = dropped.slot
        if job.slot != NEVER:
            arm_unless_paused(core, index)
    job_settle(core, index)


cdef void job_abandon(Core *core, uint32_t index) noexcept nogil:
    """In the child of a fork: forgets runs whose threads are the parent's; managed ones are left to their manager."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job
    if slot.state == FREE or slot.state == ZOMBIE or slot.flags & MANAGED:
        return
    job = job_at(core, slot.record)
    while job.active:
        give_instance_back(core, index, job, job.busy_until)


cdef int64_t job_next_due(Core *core, const Slot *slot) noexcept nogil:
    """When the first of the runs that wait was due."""
    return first_waiting(job_at(core, slot.record)).due
