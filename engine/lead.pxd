"""Who waits for the next deadline, and how.

Without daemon workers it is the loop's thread, always.  With them (`Core.following`) there is no hand-off: of the
workers that have nothing to do one leads, that is, sleeps until the next deadline, and the others are parked.  When
something comes due the leader runs it itself, and another leads meanwhile.

To tell it so by a signal costs more than most callbacks: a system call, an interrupt of another processor, and the two
meet at the mutex.  So one of those that are parked is the deputy: it looks by itself `DEPUTY_NS` after the leader's
deadline, and leads if nobody does.  By then the leader, as a rule, has run its callback and leads again.  Only if
something comes due before the deputy looks, or there is none, a signal is sent: no callback delays a timer.

The loop's own thread stands aside.  It looks only while all workers are inside callbacks: then it moves what comes due
into the ready ring, so that slots are taken, coalesced and queued when they are due, and runs alarms.

C functions are called by whoever waits, in between two sleeps: the loop's thread, the leader, or, while all workers are
inside callbacks, the loop's thread in the leader's stead.  So there is one at a time.  A worker that leaves for a
callback of Python may have to wait for the GIL: it sees to it beforehand that another, or the loop's thread, does so.

All functions are called with the core's mutex held, except `wait_for_work` and `drain_park`.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Runner
from .waiters cimport WakeEvent


cdef enum Outcome:
    LEFT                             # the loop is out: queued runs are back in the heap
    WORK                             # something is to be run here or handed over
    LOOK                             # look for signals, then come back

cdef enum:
    BATCH = 1024                     # timers moved under one hold of the mutex
    CLOCK_LOOK_NS = 1_000_000_000    # how long a step of the wall clock may go unnoticed


cdef bint has_work(Core *core, int64_t now) noexcept nogil
cdef int64_t sleep_until(Core *core, int64_t now) noexcept nogil
cdef void leave_loop(Core *core) noexcept nogil
cdef bint is_over(Core *core, uint32_t epoch) noexcept nogil
cdef Outcome wait_for_work(Core *core, uint32_t epoch, int signal_fd, Runner *runner) noexcept nogil
cdef void drain_park(Core *core, uint32_t epoch, WakeEvent event, Runner *runner) noexcept nogil
cdef void promote(Core *core, int64_t now) noexcept nogil
