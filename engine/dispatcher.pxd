"""`Dispatcher`: what `Engine` and `CommandScheduler` have in common, a core and the life of its loop."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Run
from .owner cimport _Core
from .platform cimport monotonic_ns
from .waiters cimport WakeEvent


cdef class Dispatcher:
    cdef _Core core
    cdef Core *c                     # core.c
    cdef object __weakref__
    cdef str _name                   # the attribute `name`
    cdef object clock                # None: the system's, read in C
    cdef WakeEvent event             # wakes a loop that waits through a user's clock
    cdef bint driven                 # by a DrivingClock: no loop, no thread
    cdef long age
    cdef object executor             # the user's, or None
    cdef long executor_pid
    cdef uint32_t workers            # of a pool of our own; 0: none
    cdef bint daemon                 # they are daemon threads and no pool
    cdef list crew                   # these threads, or None
    cdef object thread               # of the loop, if it has one of its own
    cdef uint32_t awaited            # the start for whose loop run() waits; 0: none
    cdef object verdict              # what has ended that loop, for run() to raise
    cdef object failure              # an exception that is to end the loop

    cdef int set_up(self, object name, object clock) except -1
    cdef str loop_name(self)
    cdef int64_t clock_ns(self) except? -1
    cdef void wake(self) noexcept
    cdef bint is_started(self) noexcept
    cdef void fail(self, object error) noexcept

    cdef PyObject *invoke(self, Run *run) noexcept
    cdef int64_t repeat_at(self, Run *run, int64_t now) noexcept
    cdef object report(self, Run *run, object error)
    cdef tuple call_of(self, Run *run)
    cdef object omission_of(self, Run *run, tuple called)
    cdef tuple kept_of(self, Run *run, tuple called)
    cdef int dismiss(self, Run *run, tuple called) except -1
    cdef int fail_run(self, Run *run, object error, tuple called) except -1
    cdef int take_result(self, Run *run, object result) except -1
    cdef bint perform(self, Run *run, bint interruptible) noexcept
    cdef int read_wall(self) except -1
    cdef void reap(self) noexcept
    cdef int look_again(self, bint wake) except -1


cdef int raise_failure(Dispatcher self) except -1


cdef inline int64_t now_of(Dispatcher self) except? -1:
    """The dispatcher's time, ns."""
    return monotonic_ns() if self.c.native_clock else self.clock_ns()
