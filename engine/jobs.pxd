"""Jobs in the slot table: periodic timers with slots on a grid or a calendar, several runs at a time, and accounts.

A job's slot has the flag JOB and its record is a `Job`.  Each of its slots that has come is an entry of the ready ring
until it starts and is counted as `waiting`, then as `active` until it has ended; so a worker's delay frees no instance.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Job, Run, Slot
from .schedule cimport Schedule


cdef enum Outcome:
    SUCCEEDED
    FAILED
    TIMED_OUT

cdef void job_arm(Core *core, uint32_t index) noexcept nogil
cdef void job_leave_heap(Core *core, uint32_t index) noexcept nogil
cdef bint job_tick(Core *core, uint32_t index, int64_t now) noexcept nogil
cdef void job_start(Core *core, uint32_t index, Run *run, int64_t now) noexcept
cdef void job_refuse(Core *core, Run *run) noexcept nogil
cdef void job_end_run(Core *core, uint32_t index, uint32_t generation, int64_t now, Outcome outcome) noexcept nogil
cdef void job_withdraw(Core *core, const Run *run, int64_t now) noexcept nogil
cdef void job_give_back(Core *core, uint32_t index, uint32_t generation, int64_t now) noexcept nogil
cdef void job_pause(Core *core, uint32_t index) noexcept nogil
cdef int64_t job_passed(const Core *core, const Slot *slot, int64_t now) noexcept nogil
cdef void job_resume(Core *core, uint32_t index, int64_t now) noexcept nogil
cdef void job_regrid(
    Core *core, uint32_t index, int64_t period, Schedule *schedule, int64_t slot, bint wall
) noexcept nogil
cdef void job_put_back(Core *core, uint32_t index) noexcept nogil
cdef void job_put_backlogs_back(Core *core) noexcept nogil
cdef void job_feed_all(Core *core) noexcept nogil
cdef void job_abandon(Core *core, uint32_t index) noexcept nogil
cdef int64_t job_next_due(Core *core, const Slot *slot) noexcept nogil
