"""See choices.pxd."""

from libc.stdint cimport int64_t, uint32_t

from .backlog cimport backlog_add, backlog_take, has_backlog
from .core cimport (
    ALL,
    COALESCED,
    EXCUSED,
    FROM_END,
    MISSED,
    NONE,
    OWED,
    POOL_FULL,
    QUEUED,
    QUEUES,
    SPENT,
    STARTED,
    Core,
    Decision,
    Job,
    Waiting,
    job_at,
    saturating_add,
    shifted,
    slot_at,
)
from .decisions cimport decide
from .platform cimport NEVER, assert_held
from .slots cimport is_single, job_following, job_pass_by, job_slot_before, offset_of
from .starts cimport ring_append

cdef enum:
    CAUGHT_UP = 1_000                # slots of one gap that are run one by one
    STUCK = 50_000                   # how long all workers have been in their callbacks, ns, when the pool is full


cdef bint job_has_room(const Job *job) noexcept nogil:
    return job.waiting + job.active < job.instances


cdef void job_queue(Core *core, uint32_t index, int64_t slot, int64_t due, bint ticks, int64_t now) noexcept nogil:
    """Puts a run of a job that has room into the ready ring.  `now` 0: it has waited already."""
    cdef Job *job = job_at(core, slot_at(core, index).record)
    cdef Waiting *waiting = &job.only
    assert_held(&core.mutex)
    if job.queue != NULL:
        waiting = &job.queue[(job.queue_head + job.waiting) % job.instances]
    waiting.slot = slot
    waiting.due = due
    waiting.ticks = ticks
    job.waiting += 1
    ring_append(core, index)
    # Not in a burst of quick callbacks, where a worker is busy whenever one looks.
    if core.workers and core.busy >= core.workers and now - core.full_since > STUCK:
        decide(core, index, job, POOL_FULL, slot, 1, now, 0)


cdef bint job_feed(Core *core, uint32_t index, int64_t now) noexcept nogil:
    """Gives free instances to runs of the backlog: whether there were any."""
    cdef Job *job = job_at(core, slot_at(core, index).record)
    cdef Waiting waiting
    cdef bint fed = False
    assert_held(&core.mutex)
    while has_backlog(job) and job_has_room(job) and core.phase == STARTED:
        waiting = backlog_take(core, job)
        job_queue(core, index, waiting.slot, waiting.due, True, now)
        fed = True
    return fed


cdef void job_count_tick(Job *job) noexcept nogil:
    if job.ticks_left:
        job.ticks_left -= 1
        if job.ticks_left == 0:
            job.flags |= SPENT


cdef void job_leave_out(
    Core *core, uint32_t index, Job *job, Decision why, int64_t slot, int64_t count, int64_t now
) noexcept nogil:
    """Counts slots, `slot` being the latest, that get no run of their own."""
    assert_held(&core.mutex)
    job.coalesced += count
    core.coalesced += count
    if why == MISSED:
        job.missed += count
    decide(core, index, job, why, slot, count, now, 0)


cdef void fill_backlog(
    Core *core, uint32_t index, Job *job, int64_t limit, int64_t lag, Decision otherwise, int64_t now
) noexcept nogil:
    """Puts the slots up to `limit` into the backlog, 1,000 at most; the rest is counted."""
    cdef int64_t latest, count = 0
    assert_held(&core.mutex)
    while job.slot <= limit and count < CAUGHT_UP and not job.flags & SPENT:
        latest = job.slot
        if not backlog_add(core, job, latest, latest - offset_of(core, job) + lag):
            break
        count += 1
        job_count_tick(job)
        job.slot = job_following(job)
    if count and otherwise == COALESCED:
        decide(core, index, job, QUEUED, latest, count, now, 0)
    if job.slot <= limit and not job.flags & SPENT:
        count = job_pass_by(job, limit, &latest)
        job_leave_out(core, index, job, otherwise, latest, count + 1, now)


cdef bint job_choose(
    Core *core, uint32_t index, Job *job, int64_t now, int64_t horizon, int64_t lag, int64_t *latest
) noexcept nogil:
    """Decides about the slots up to `horizon`, on the job's clock, which are due `lag` later each.

    Returns whether one of them, `latest`, is to be run now.  Slots that came while all instances were busy are
    coalesced, or wait in the backlog; of those that came while the engine was late, those later than the grace allows
    are left out, and the rest is caught up with as the job wants it.
    """
    cdef int64_t offset = offset_of(core, job)
    cdef int64_t limit, count, due
    cdef bint room = job_has_room(job)
    assert_held(&core.mutex)
    if is_single(job):
        latest[0] = job.slot
        job.slot = NEVER
        due = shifted(latest[0], -offset)
        if not job.flags & EXCUSED and job.rare != NULL and now - due > job.rare.grace and due >= job.busy_until:
            job_leave_out(core, index, job, MISSED, latest[0], 1, now)
            return False
        if not room:
            job.flags |= OWED | EXCUSED
            job.slot = latest[0]
        return room
    limit = min(horizon, shifted(job.busy_until, offset - lag - 1)) if room else horizon
    if job.flags & QUEUES and (job.slot <= limit or has_backlog(job)):
        limit = horizon                  # first in, first out
    if job.slot <= limit:
        if job.flags & QUEUES:
            fill_backlog(core, index, job, limit, lag, COALESCED, now)
        else:
            count = job_pass_by(job, limit, latest)
            job_leave_out(core, index, job, COALESCED, latest[0], count + 1, now)
        if job.flags & FROM_END and job.period:
            job.slot = NEVER             # until that run ends
            if not (job.waiting or job.active):
                job.slot = saturating_add(job.busy_until, job.period)
                if job.slot >= job.until:
                    job.slot = NEVER
    if job.slot > horizon or job.flags & SPENT:
        return False
    if job.rare != NULL and job.rare.grace != NEVER:
        limit = shifted(horizon, -job.rare.grace - 1)
        if job.slot <= limit:
            count = job_pass_by(job, limit, latest)
            job_leave_out(core, index, job, MISSED, latest[0], count + 1, now)
            if job.slot > horizon:
                return False
    if job.flags & ALL:
        fill_backlog(core, index, job, horizon, lag, MISSED, now)
        return False
    count = job_pass_by(job, horizon, latest)
    if job.flags & NONE:
        due = latest[0] - offset + lag
        if due < core.start_ns or now - due > core.tolerance:
            job_leave_out(core, index, job, MISSED, latest[0], count + 1, now)
            return False
    if count:
        job_leave_out(core, index, job, MISSED, job_slot_before(job, latest[0]), count, now)
    return True
