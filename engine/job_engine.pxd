"""`JobEngine`: the compiled half of a `Scheduler`; it knows of slots, counts and clocks, not of names or retries."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Entry, Item, Job, Run, Slot
from .dispatcher cimport Dispatcher
from .handle cimport TimerHandle
from .schedule cimport Schedule


cdef class JobEngine(Dispatcher):
    cdef object owner

    cdef readonly str prefix
    cdef bint watched

    cdef uint64_t place(
        self, Entry *entry, int64_t period, Schedule *schedule, int64_t slot, int flags, uint32_t instances,
        const Job *more, bint held=*,
    ) except 0
    cdef TimerHandle single(self, int64_t delay, object callback, int flags)
    cdef Slot *find(self, uint64_t reference) noexcept
    cdef int hand_on(self, Run *run, object awaitable) noexcept
    cdef int tell(self, Run *run, object error) noexcept
    cdef int tell_news(self, const Item *item) noexcept
    cdef int perform_watched(self, Run *run) noexcept
