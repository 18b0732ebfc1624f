"""`JobEngine`: the compiled half of a `Scheduler`; it knows of slots, counts and clocks, not of names or retries."""

from libc.stdint cimport int64_t, uint64_t

from .core cimport Item, Run
from .handle cimport TimerHandle
from .job_table cimport JobTable
from .snapshot cimport Copy
from .ticket cimport Ticket


cdef class JobEngine(JobTable):
    cdef object owner

    cdef TimerHandle single(self, int64_t delay, object callback, int flags)
    cdef int hand_on(self, Run *run, object awaitable) noexcept
    cdef Ticket ticket_of(self, Run *run)
    cdef int tell(self, Run *run, object error) noexcept
    cdef int tell_end(self, uint64_t reference, const Copy *copy) noexcept
    cdef int tell_news(self, const Item *item) noexcept
    cdef int perform_watched(self, Run *run) noexcept
