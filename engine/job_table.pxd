"""`JobTable`: the jobs of an engine: added, changed, removed and looked at, by reference."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Entry, Job, Note, Slot
from .dispatcher cimport Dispatcher
from .schedule cimport Schedule


cdef class JobTable(Dispatcher):
    cdef readonly str prefix
    cdef bint watched                # the owner does the runs of jobs that are not managed, too

    cdef uint64_t place(
        self, Entry *entry, int64_t period, Schedule *schedule, int64_t slot, int flags, uint32_t instances,
        const Job *more, bint held=*,
    ) except 0
    cdef Slot *find(self, uint64_t reference) noexcept
    cdef bint has_left(self, uint64_t reference) noexcept


cdef tuple note_of(const Note *note)
