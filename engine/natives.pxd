"""Timers that call C functions: `void (*)(void *)`, run by the thread that waits for the deadline, without the GIL.

Ground rules
* The slot has the flag NATIVE and holds, where others hold references, the function, its argument and what releases
  that, or NULL.  It is never in the ready ring: the node stays in the heap until the function is called.
* Neither the GIL is needed nor the mutex held while a function of the user's runs.
* The argument is released once: after the call of a one-shot, after a cancellation, or after the call during which its
  periodic timer was cancelled; by the thread that saw to it.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Run, Runner


ctypedef void (*Function)(void *) noexcept nogil

cdef enum:
    TURN = 256                       # functions that are called before others get a turn

cdef struct Native:                  # what a timer that has ended leaves to be released
    Function release                 # NULL: nothing
    void *argument


cdef int64_t native_add(
    Core *core, Function function, void *argument, Function release, int64_t when, int64_t period, bint *wake
) noexcept nogil
cdef bint native_cancel(Core *core, int64_t id) noexcept nogil
cdef void native_detach(Core *core, uint32_t index, Native *native) noexcept nogil
cdef void native_release(const Native *native) noexcept nogil
cdef bint native_first(const Core *core) noexcept nogil
cdef bint native_due(Core *core, int64_t now) noexcept nogil
cdef bint native_take(Core *core, int64_t now, Run *run) noexcept nogil
cdef void native_call(const Run *run) noexcept nogil
cdef void native_end(Core *core, Run *run, int64_t now, uint32_t forks) noexcept nogil
cdef size_t natives_run(Core *core, uint32_t epoch, int64_t now, Runner *runner) noexcept nogil
