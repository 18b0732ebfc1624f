"""The handle of a timer: a count on the core, and which of its timers it means."""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core


cdef class TimerHandle:
    cdef Core *core
    cdef int64_t when_ns             # of an ended timer: due when the handle was made or when it was cancelled
    cdef uint32_t slot
    cdef uint32_t generation
    cdef bint was_cancelled


cdef TimerHandle new_handle(Core *core)
