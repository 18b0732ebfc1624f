"""A timer's way from due to done: taken from the heap or the ready ring, started, finished, or put back.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Core, References, Run


cdef bint core_tick(Core *core, uint32_t index, int64_t now, int64_t *due, uint64_t *tie) noexcept nogil
cdef bint core_take_due(Core *core, int64_t now, bint only_first, Run *run) noexcept
cdef bint core_take_ready(Core *core, int64_t now, bint keep, Run *run) noexcept
cdef bint core_alarm_due(Core *core, int64_t now) noexcept nogil
cdef size_t core_collect_due(Core *core, int64_t now, size_t limit) noexcept nogil
cdef void core_accept(Core *core, Run *run, References *garbage) noexcept nogil
cdef void core_unstart(Core *core, const Run *run) noexcept nogil
cdef void core_refuse(Core *core, Run *run) noexcept nogil
cdef void core_put_back(Core *core) noexcept nogil
cdef void core_finish(Core *core, Run *run, int64_t now, int64_t repeat_at, References *garbage) noexcept nogil
cdef void core_abandon_runs(Core *core) noexcept nogil
cdef int64_t core_next_due(Core *core) noexcept nogil
