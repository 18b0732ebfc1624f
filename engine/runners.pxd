"""The threads that run callbacks of a core: each lists a `Runner`, so that a call from inside knows itself.

All functions but `runner_new` are called with the core's mutex held.
"""

from .core cimport Core, Run, Runner


cdef Runner *runner_new() except NULL
cdef void runner_enter(Core *core, Runner *runner) noexcept nogil
cdef void runner_set(Runner *runner, const Run *run) noexcept nogil
cdef void runner_leave(Core *core, Runner *runner) noexcept nogil
cdef bint runs_here(Core *core, size_t *own) noexcept nogil
