"""The calls of callbacks: a thread's turn, in which it runs one after the other, inline, as a drain, or for a clock."""

from libc.stdint cimport int64_t, uint32_t

from .dispatcher cimport Dispatcher


cdef bint run_first(Dispatcher self, int64_t now) except -1
cdef int run_inline(Dispatcher self, bint interruptible) except -1
cdef int run_alarms(Dispatcher self) except -1
cdef int run_natives(Dispatcher self) except -1
cdef int drain_ready(Dispatcher self, uint32_t epoch) except -1
