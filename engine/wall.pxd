"""The wall clock: its offset to the monotonic clock, and what a step of it does to jobs.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t

from .core cimport Core

cdef bint core_see_wall(Core *core, int64_t offset, int64_t now) noexcept nogil
