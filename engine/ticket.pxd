"""`Ticket`: a run of a managed job, whose manager says when it has ended and how."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Run
from .dispatcher cimport Dispatcher
from .jobs cimport Outcome


cdef class Ticket:
    cdef Dispatcher engine
    cdef uint32_t slot
    cdef uint32_t generation
    cdef readonly int64_t scheduled_wall_ns
    cdef readonly uint64_t number
    cdef readonly int64_t late_ns
    cdef int64_t started_ns
    cdef bint called                 # through itself
    cdef bint claimed
    cdef bint finished

    cdef int end(self, Outcome outcome) except -1
    cdef int64_t now(self) noexcept


cdef Ticket new_ticket(Dispatcher engine, const Run *run)
