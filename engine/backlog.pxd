"""The backlog of a job: runs that wait until one of its instances is free, at most 1,000, first in, first out.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t

from .core cimport Core, Job, Rare, Waiting

cdef Rare *rare_of(Job *job) noexcept nogil
cdef bint backlog_add(Core *core, Job *job, int64_t slot, int64_t due) noexcept nogil
cdef Waiting backlog_take(Core *core, Job *job) noexcept nogil
cdef void backlog_free(Core *core, Job *job) noexcept nogil


cdef inline bint has_backlog(const Job *job) noexcept nogil:
    return job.rare != NULL and job.rare.count != 0
