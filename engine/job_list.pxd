"""`JobList`: the jobs of an engine as they are, found by reference, shown and explained; and its clocks."""

from libc.stdint cimport uint64_t

from .core cimport Note, Slot
from .driven cimport Driven


cdef enum:
    BATCH = 512                      # jobs that are looked at under one hold of the mutex


cdef class JobList(Driven):
    cdef bint watched                # the owner does the runs of jobs that are not managed, too

    cdef Slot *find(self, uint64_t reference) noexcept
    cdef bint has_left(self, uint64_t reference) noexcept


cdef tuple note_of(const Note *note)
