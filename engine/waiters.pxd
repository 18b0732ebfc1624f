"""Threads that wait for what other threads bring about: in `stop`, in `wait_idle`, and in a user's clock.

To announce something is plain C: no signal handler can run meanwhile, no recursion limit is met, nothing can get lost.
The waiting is that of Python's own locks, which a signal ends on the main thread.
"""

from .core cimport Core, Permit, Waiter
from .platform cimport Mutex


cdef int permit_init(Permit *permit) except -1
cdef void permit_free(Permit *permit) noexcept nogil
cdef void permit_give(Permit *permit) noexcept nogil
cdef int permit_wait(Permit *permit, Mutex *mutex, object timeout) except -1

cdef void core_notify(Core *core) noexcept nogil
cdef bint core_wait_for(Core *core, object predicate, object timeout, Waiter *waiter) except -1
cdef Waiter *waiter_new() except NULL
cdef void waiter_free(Waiter *waiter) noexcept nogil


cdef class WakeEvent:
    cdef Permit permit
    cdef Mutex mutex                 # guards `permit` and `flag`
    cdef bint flag

    cdef void announce(self) noexcept nogil
