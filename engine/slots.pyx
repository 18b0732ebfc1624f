"""See slots.pxd."""

from libc.stdint cimport int64_t, uint64_t

from .core cimport Core, Job, saturating_add, shifted
from .platform cimport NEVER, assert_held
from .schedule cimport schedule_latest, schedule_next

cdef enum:
    COUNTED = 10_000                 # slots of a calendar in one gap that are counted one by one


cdef int64_t job_draw(Core *core, int64_t limit) noexcept nogil:
    """A number from 0 to below `limit`, by xorshift64* (Vigna, 2016): good enough to spread load."""
    cdef uint64_t x = core.random
    assert_held(&core.mutex)
    x ^= x >> 12
    x ^= x << 25
    x ^= x >> 27
    core.random = x
    return <int64_t>(((x * <uint64_t>2685821657736338717U) >> 1) % <uint64_t>limit)


cdef int64_t job_delay(Core *core, const Job *job) noexcept nogil:
    """How much later than its slot the job is due this time: its own delay, and its jitter, drawn anew at each call."""
    cdef int64_t delay = 0
    assert_held(&core.mutex)
    if is_single(job):
        return 0
    if job.rare != NULL:
        delay = job.rare.delay
    if job.jitter:
        delay = saturating_add(delay, job_draw(core, job.jitter))
    return delay


cdef int64_t job_due(Core *core, const Job *job) noexcept nogil:
    """When the job's slot is due, on the monotonic clock."""
    assert_held(&core.mutex)
    if job.slot == NEVER:
        return NEVER
    return saturating_add(shifted(job.slot, -planned_offset_of(core, job)), job_delay(core, job))


cdef int64_t job_replanned(
    const Job *job, int64_t when, int64_t old_slot, int64_t before, int64_t after
) noexcept nogil:
    """When the job's slot is due, as much later as it was `when` that was `old_slot` and `before` was the offset.

    So nothing is drawn anew: what is drawn often while it waits would tend to be early.
    """
    cdef int64_t lag = when - shifted(old_slot, -before)
    if job.slot == NEVER:
        return NEVER
    return saturating_add(shifted(job.slot, -after), min(max(lag, 0), longest_lag(job)))


cdef int64_t job_following(Job *job) noexcept nogil:
    """The slot after the job's next one; NEVER if there is none."""
    cdef int64_t slot
    if is_single(job):
        return NEVER
    slot = saturating_add(job.slot, job.period) if job.period else schedule_next(job.schedule, job.slot)
    return slot if slot < job.until else NEVER


cdef int64_t job_slot_before(const Job *job, int64_t slot) noexcept nogil:
    """The slot before that one, of which there is one."""
    return slot - job.period if job.period else schedule_latest(job.schedule, slot - 1)


cdef int64_t job_pass_by(Job *job, int64_t now, int64_t *latest) noexcept nogil:
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
