"""See jobs.pxd."""

from libc.stdint cimport int64_t, uint32_t

from .backlog cimport backlog_take, has_backlog
from .choices cimport job_choose, job_count_tick, job_feed, job_has_room, job_leave_out, job_queue
from .core cimport (
    COALESCED,
    DISABLED,
    DROPPED,
    ENDED,
    EXCUSED,
    FAILING,
    FREE,
    FROM_END,
    IMMEDIATE,
    JOB,
    LEFT,
    MANAGED,
    OWED,
    PASSED,
    PAUSED,
    PENDING,
    RAN,
    SINGLE,
    SPENT,
    UNTOLD,
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
from .decisions cimport decide
from .heap cimport heap_pop, heap_push, heap_replace_root
from .platform cimport NEVER, assert_held, poke
from .schedule cimport Schedule
from .slots cimport is_single, job_due, job_pass_by, longest_lag, offset_of, slot_of_wall, slot_on_wall
from .starts cimport begin_run, share_references
from .timers cimport core_bound_stale, core_drop_stale, core_leave_ring, core_next_tie


# -- in the heap and out of it --------------------------------------------------------------------------------------

cdef void job_arm(Core *core, uint32_t index) noexcept nogil:
    """Puts a job that is outside of the heap into it, for its slot, or for the run at the start that it still has."""
    cdef Slot *slot = slot_at(core, index)
    assert_held(&core.mutex)
    if not job_at(core, slot.record).flags & IMMEDIATE:
        slot.when = job_due(core, job_at(core, slot.record))
    slot.tie = core_next_tie(core, index)
    slot.state = PENDING
    heap_push(&core.heap, slot.when, slot.tie)
    core.outside -= 1
    core.live += 1


cdef void arm_unless_paused(Core *core, uint32_t index) noexcept nogil:
    """The same, but a job that was paused waits until it is resumed."""
    cdef Slot *slot = slot_at(core, index)
    assert_held(&core.mutex)
    if job_at(core, slot.record).flags & (DISABLED | UNTOLD):
        slot.state = PAUSED
    else:
        job_arm(core, index)


cdef void rearm_root(Core *core, uint32_t index, Slot *slot, int64_t when) noexcept nogil:
    assert_held(&core.mutex)
    slot.when = when
    slot.tie = core_next_tie(core, index)
    heap_replace_root(&core.heap, slot.when, slot.tie)


cdef void pop_root(Core *core, Slot *slot, SlotState state) noexcept nogil:
    assert_held(&core.mutex)
    heap_pop(&core.heap)
    slot.tie = 0
    slot.state = state
    core.outside += 1
    core.live -= 1


cdef void job_leave_heap(Core *core, uint32_t index) noexcept nogil:
    """Takes a pending job out of the heap, wherever its node is."""
    cdef Slot *slot = slot_at(core, index)
    assert_held(&core.mutex)
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
    assert_held(&core.mutex)
    if slot.state == ENDED and not (job.waiting or job.active or has_backlog(job) or job.flags & (OWED | LEFT)):
        job.flags |= LEFT
        slot.key = core.ended
        poke(&core.ended, index)


# -- when a slot has come -------------------------------------------------------------------------------------------

cdef bint job_tick(Core *core, uint32_t index, int64_t now) noexcept nogil:
    """Takes the job at the root, due by `now`, on to its next slot: whether a run of it waits in the ready ring now.

    A job without a further slot leaves the heap; one whose period counts from the end of its run does so until then.
    """
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef int64_t offset = offset_of(core, job)
    cdef int64_t here = shifted(now, offset)
    cdef int64_t due = slot.when
    cdef int64_t lag = 0, latest = 0, count
    cdef bint runs = False, keeps_slot = False
    assert_held(&core.mutex)
    if job.flags & IMMEDIATE and core.all_paused:
        pop_root(core, slot, PAUSED)         # it runs on resume
        return False
    if job.flags & IMMEDIATE:
        job.flags &= ~IMMEDIATE
        latest = shifted(due, offset)
        # The period counts from the end of this run, unless the first slot was to be later than that.
        keeps_slot = job.slot > saturating_add(due, job.period)
        if job_has_room(job):
            runs = True
        else:
            job_leave_out(core, index, job, COALESCED, latest, 1, now)
    elif job.slot > here:                # the wall clock is behind what was planned: never early
        rearm_root(core, index, slot, shifted(job.slot, -offset))
        return False
    elif core.all_paused:
        if is_single(job):               # it runs on resume
            pop_root(core, slot, PAUSED)
            return False
        count = job_pass_by(job, here, &latest) + 1
        job.paused += count
        decide(core, index, job, PASSED, latest, count, now, 0)
    else:
        if job.jitter or job.rare != NULL:
            lag = min(max(due - shifted(job.slot, -offset), 0), longest_lag(job))
        runs = job_choose(core, index, job, now, here - lag, lag, &latest)
        due = shifted(latest, -offset) + lag
    if runs:
        job_count_tick(job)
        if job.flags & FROM_END and job.period and not keeps_slot:
            job.slot = NEVER
    if job.slot == NEVER or job.flags & (OWED | SPENT):
        pop_root(core, slot, ENDED)
    else:
        rearm_root(core, index, slot, job_due(core, job))
    if runs:
        job_queue(core, index, latest, due, True, now)
    if job.rare != NULL and job_feed(core, index, now):
        runs = True
    if not runs:
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
    assert_held(&core.mutex)
    run.slot = index
    run.periodic = True
    run.scheduled = slot_on_wall(core, job, waiting.slot)
    ticks = waiting.ticks
    begin_run(core, slot, run, waiting.due, now)
    share_references(run)
    take_waiting(job)
    job.active += 1
    job.started += 1
    run.number = job.started + job.taken_back
    run.ticks = ticks
    job.last_start = now + core.wall_offset
    decide(core, index, job, RAN, slot_of_wall(core, job, run.scheduled), 1, now, run.late)


cdef void job_refuse(Core *core, Run *run) noexcept nogil:
    """An executor did not take a run, which waits again: behind those that wait, as their order is lost by now."""
    cdef Job *job = job_at(core, slot_at(core, run.slot).record)
    assert_held(&core.mutex)
    job.active -= 1
    job.started -= 1
    job.taken_back += 1
    job_queue(core, run.slot, slot_of_wall(core, job, run.scheduled), run.due, run.ticks, 0)


cdef void give_instance_back(Core *core, uint32_t index, Job *job, int64_t now) noexcept nogil:
    assert_held(&core.mutex)
    if not job_has_room(job):
        job.busy_until = now
    job.active -= 1
    if job.flags & OWED:
        job.flags &= ~OWED
        job_arm(core, index)
    else:
        arm_from_end(core, index, job, now)
    job_feed(core, index, now)
    job_settle(core, index)


cdef void arm_from_end(Core *core, uint32_t index, Job *job, int64_t now) noexcept nogil:
    """Arms a job whose period counts from the end of its run, if that is now."""
    cdef int64_t slot
    assert_held(&core.mutex)
    if not (job.flags & FROM_END and job.period and slot_at(core, index).state == ENDED):
        return
    slot = saturating_add(now, job.period)
    if not (job.active or job.waiting or job.flags & (SPENT | LEFT)) and slot < job.until:
        job.slot = slot
        arm_unless_paused(core, index)


cdef void job_end_run(Core *core, uint32_t index, uint32_t generation, int64_t now, Outcome outcome) noexcept nogil:
    """Ends a run, which gives its instance back; of a job that was removed meanwhile nothing is left to change."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job
    assert_held(&core.mutex)
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


cdef void job_withdraw(Core *core, const Run *run, int64_t now) noexcept nogil:
    """Takes a start back: an executor has dropped the run, which does not count for `ticks_left`."""
    cdef uint32_t index = run.slot
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job
    cdef Waiting dropped
    assert_held(&core.mutex)
    if slot.generation != run.generation:
        return
    job = job_at(core, slot.record)
    job.started -= 1
    job.taken_back += 1
    dropped.ticks = run.ticks
    untick(job, &dropped)
    if slot.state == ENDED and job.slot != NEVER and not job.flags & (SPENT | OWED | LEFT):
        arm_unless_paused(core, index)   # it had come to its last
    give_instance_back(core, index, job, now)


cdef void job_give_back(Core *core, uint32_t index, uint32_t generation, int64_t now) noexcept nogil:
    """Ends a run without an outcome: its thread was the parent's, before a fork; `job_abandon` may have been here."""
    cdef Slot *slot = slot_at(core, index)
    assert_held(&core.mutex)
    if slot.generation == generation and job_at(core, slot.record).active:
        give_instance_back(core, index, job_at(core, slot.record), now)


# -- paused, dropped, forked ----------------------------------------------------------------------------------------

cdef void job_pause(Core *core, uint32_t index) noexcept nogil:
    """Lets the job's slots pass by from now on; runs in progress go on, those that wait too."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    assert_held(&core.mutex)
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
    assert_held(&core.mutex)
    if slot.state != PAUSED or is_single(&copy) or copy.slot > shifted(now, offset_of(core, &copy)):
        return 0
    return job_pass_by(&copy, shifted(now, offset_of(core, &copy)), &latest) + 1


cdef void job_resume(Core *core, uint32_t index, int64_t now) noexcept nogil:
    """Waits for the next slot after `now`; a single slot that has passed comes at once."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job = job_at(core, slot.record)
    cdef int64_t here = shifted(now, offset_of(core, job))
    cdef int64_t latest, count
    assert_held(&core.mutex)
    job.flags &= ~DISABLED
    if slot.state != PAUSED or job.flags & UNTOLD:
        return
    if job.slot > here:
        pass
    elif is_single(job):
        job.flags |= EXCUSED             # it is late because of the pause
    else:
        count = job_pass_by(job, here, &latest) + 1
        job.paused += count
        decide(core, index, job, PASSED, latest, count, now, 0)
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


cdef uint32_t drop_backlog(Core *core, Job *job, Waiting *latest) noexcept nogil:
    """How many runs there were in it, and which was the latest."""
    cdef uint32_t count = 0
    assert_held(&core.mutex)
    while has_backlog(job):
        latest[0] = backlog_take(core, job)
        untick(job, latest)
        count += 1
    return count


cdef void drop_queued(Core *core, uint32_t index) noexcept nogil:
    """Drops the runs that wait; O(entries of the ready ring) if there are any."""
    cdef Job *job = job_at(core, slot_at(core, index).record)
    cdef Waiting latest
    assert_held(&core.mutex)
    if job.waiting:
        core_leave_ring(core, index)
    while job.waiting:
        untick(job, first_waiting(job))
        take_waiting(job)
    drop_backlog(core, job, &latest)


cdef void job_regrid(
    Core *core, uint32_t index, int64_t period, Schedule *schedule, int64_t slot, bint wall
) noexcept nogil:
    """Gives the job a new grid; options, counters, pause and runs in progress stay, runs that wait are dropped."""
    cdef Slot *record = slot_at(core, index)
    cdef Job *job = job_at(core, record.record)
    assert_held(&core.mutex)
    core.on_wall += wall
    core.on_wall -= job.flags & WALL != 0
    if job.schedule != NULL:
        job.schedule.jobs -= 1
    if schedule != NULL:
        schedule.jobs += 1
    drop_queued(core, index)
    if job.until != NEVER and wall != (job.flags & WALL != 0):       # it is on the job's clock, as its slots are
        job.until = shifted(job.until, core.wall_offset if wall else -core.wall_offset)
    job.flags &= ~(WALL | OWED | SINGLE | EXCUSED)
    job.flags |= WALL if wall else 0
    if not period and schedule == NULL:
        job.flags &= ~IMMEDIATE
        job.flags |= SINGLE
    job.period = period
    job.schedule = schedule
    job.slot = slot
    job.busy_until = -NEVER              # what kept slots of the old grid waiting says nothing of the new one's
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
    assert_held(&core.mutex)
    take_waiting(job)
    untick(job, &dropped)
    core.dropped += 1
    decide(core, index, job, DROPPED, dropped.slot, 1, dropped.due, 0)
    if slot.state == ENDED and dropped.ticks:
        if is_single(job) or (job.flags & FROM_END and job.period):
            job.slot = dropped.slot
        if job.slot != NEVER:
            arm_unless_paused(core, index)
    else:
        arm_from_end(core, index, job, dropped.due)
    job_settle(core, index)


cdef void job_put_backlogs_back(Core *core) noexcept nogil:
    """Drops all runs that wait for an instance; O(slots) if there are any."""
    cdef uint32_t index, count
    cdef Slot *slot
    cdef Job *job
    cdef Waiting latest
    assert_held(&core.mutex)
    if not core.backlog:
        return
    for index in range(1, core.slots.top):
        slot = slot_at(core, index)
        if slot.flags & JOB and slot.callback != NULL:
            job = job_at(core, slot.record)
            if has_backlog(job):
                count = drop_backlog(core, job, &latest)
                core.dropped += count
                decide(core, index, job, DROPPED, latest.slot, count, latest.due, 0)
                if slot.state == ENDED and job.slot != NEVER and not job.flags & SPENT:
                    arm_unless_paused(core, index)      # it had ended with the last of its ticks
                job_settle(core, index)


cdef void job_feed_all(Core *core) noexcept nogil:
    """Lets backlogs go on after a stop that was taken back: runs may have ended meanwhile."""
    cdef uint32_t index
    cdef Slot *slot
    assert_held(&core.mutex)
    if not core.backlog:
        return
    for index in range(1, core.slots.top):
        slot = slot_at(core, index)
        if slot.flags & JOB and slot.callback != NULL:
            job_feed(core, index, 0)


cdef void job_abandon(Core *core, uint32_t index) noexcept nogil:
    """In the child of a fork: forgets runs whose threads are the parent's; managed ones are left to their manager."""
    cdef Slot *slot = slot_at(core, index)
    cdef Job *job
    assert_held(&core.mutex)
    if slot.state == FREE or slot.state == ZOMBIE or slot.flags & MANAGED:
        return
    job = job_at(core, slot.record)
    while job.active:
        # The time is not known here: the latest start stands for it.
        give_instance_back(core, index, job, max(job.busy_until, job.last_start - core.wall_offset))


cdef int64_t job_next_due(Core *core, const Slot *slot) noexcept nogil:
    """When the first of the runs that wait was due."""
    assert_held(&core.mutex)
    return first_waiting(job_at(core, slot.record)).due
