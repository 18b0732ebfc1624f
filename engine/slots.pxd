"""Slots of a job: when the next one is due, and what passes by.

`slot` and `until` of a job are on its own clock: the wall clock for calendars and moments, else the monotonic one.
All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t

from .core cimport SINGLE, WALL, Core, Job, saturating_add

cdef int64_t job_draw(Core *core, int64_t limit) noexcept nogil
cdef int64_t job_delay(Core *core, const Job *job) noexcept nogil
cdef int64_t job_due(Core *core, const Job *job) noexcept nogil
cdef int64_t job_pass_by(Job *job, int64_t now, int64_t *latest) noexcept nogil
cdef int64_t job_following(Job *job) noexcept nogil
cdef int64_t job_slot_before(const Job *job, int64_t slot) noexcept nogil
cdef int64_t job_replanned(
    const Job *job, int64_t when, int64_t old_slot, int64_t before, int64_t after
) noexcept nogil


cdef inline int64_t offset_of(const Core *core, const Job *job) noexcept nogil:
    """The job's clock - the monotonic clock."""
    return core.wall_offset if job.flags & WALL else 0


cdef inline int64_t planned_offset_of(const Core *core, const Job *job) noexcept nogil:
    """The same as it was when jobs were planned: equal slots are due at one time, whenever they were registered."""
    return core.planned_offset if job.flags & WALL else 0


cdef inline int64_t longest_lag(const Job *job) noexcept nogil:
    """How much later than its slot it may be due."""
    return saturating_add(job.jitter, job.rare.delay if job.rare != NULL else 0)


cdef inline int64_t slot_on_wall(const Core *core, const Job *job, int64_t slot) noexcept nogil:
    """A slot as it is shown: by the planned offset, so that those of a grid do not tremble with the clocks."""
    return slot if job.flags & WALL else slot + core.planned_offset


cdef inline int64_t slot_of_wall(const Core *core, const Job *job, int64_t shown) noexcept nogil:
    """The slot that is shown like this, on the job's clock."""
    return shown if job.flags & WALL else shown - core.planned_offset


cdef inline bint is_single(const Job *job) noexcept nogil:
    """Whether it has one slot only."""
    return job.flags & SINGLE != 0
