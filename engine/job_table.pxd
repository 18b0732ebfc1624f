"""`JobTable`: the jobs of an engine, added, changed and removed by reference."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Entry, Job
from .job_list cimport JobList
from .schedule cimport Schedule


cdef class JobTable(JobList):
    cdef readonly str prefix

    cdef uint64_t place(
        self, Entry *entry, int64_t period, Schedule *schedule, int64_t slot, int flags, uint32_t instances,
        const Job *more, bint held=*,
    ) except 0
