"""What becomes of slots that have come: run, left out and counted, or put into the backlog.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Decision, Job

cdef bint job_has_room(const Job *job) noexcept nogil
cdef void job_queue(Core *core, uint32_t index, int64_t slot, int64_t due, bint ticks, int64_t now) noexcept nogil
cdef bint job_feed(Core *core, uint32_t index, int64_t now) noexcept nogil
cdef void job_count_tick(Job *job) noexcept nogil
cdef void job_leave_out(
    Core *core, uint32_t index, Job *job, Decision why, int64_t slot, int64_t count, int64_t now
) noexcept nogil
cdef bint job_choose(
    Core *core, uint32_t index, Job *job, int64_t now, int64_t horizon, int64_t lag, int64_t *latest
) noexcept nogil
