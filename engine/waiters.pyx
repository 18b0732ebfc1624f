"""See waiters.pxd."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free

from .core cimport Core, Permit, Waiter
from .memory cimport allocate_zeroed, refused
from .platform cimport DEBUG, Mutex, lock, mutex_init, peek, poke, unlock

from time import monotonic

cdef extern from "pythread.h" nogil:
    void *PyThread_allocate_lock()
    void PyThread_free_lock(void *lock)
    int PyThread_acquire_lock(void *lock, int wait)
    int PyThread_acquire_lock_timed(void *lock, long long microseconds, int interruptible)
    void PyThread_release_lock(void *lock)
    const int ACQUIRED "PY_LOCK_ACQUIRED"
    const int INTERRUPTED "PY_LOCK_INTR"

cdef double LONGEST_S = 1e6          # of a single wait


# -- permits: binary semaphores, each guarded by somebody's mutex -----------------------------------------------------

cdef int permit_init(Permit *permit) except -1:
    permit.given = False
    permit.lock = NULL if DEBUG and refused() else PyThread_allocate_lock()
    if permit.lock == NULL:
        raise MemoryError
    PyThread_acquire_lock(permit.lock, 0)
    return 0


cdef void permit_free(Permit *permit) noexcept nogil:
    if permit.lock != NULL:
        PyThread_free_lock(permit.lock)


cdef void permit_give(Permit *permit) noexcept nogil:
    """Lets one wait end, now or later; permits do not add up.  The mutex is held."""
    if not permit.given:
        permit.given = True
        PyThread_release_lock(permit.lock)


cdef int permit_wait(Permit *permit, Mutex *mutex, object timeout) except -1:
    """Waits for a permit, at most `timeout` seconds (None: without limit); may end early.  No mutex held.

    Signal handlers run meanwhile on the main thread, and may raise.
    """
    cdef long long microseconds = -1
    cdef int status
    if timeout is not None:
        microseconds = <long long>(min(max(<double>timeout, 0.0), LONGEST_S) * 1e6 + 0.999)
    with nogil:
        status = PyThread_acquire_lock_timed(permit.lock, microseconds, 1)
    if status == ACQUIRED:
        lock(mutex)
        permit.given = False
        unlock(mutex)
    elif status == INTERRUPTED:
        PyErr_CheckSignals()
    return 0


# -- threads in stop and wait_idle ------------------------------------------------------------------------------------

cdef void core_notify(Core *core) noexcept nogil:
    """Makes every waiting thread look at its condition again.  No mutex held."""
    cdef Waiter *waiter
    if not peek(&core.waiter_count):     # who lists itself now looks at its condition afterwards
        return
    lock(&core.mutex)
    waiter = core.waiters
    while waiter != NULL:
        permit_give(&waiter.permit)
        waiter = waiter.next
    unlock(&core.mutex)


cdef Waiter *waiter_new() except NULL:
    cdef Waiter *waiter = <Waiter *>allocate_zeroed(1, sizeof(Waiter))
    if waiter == NULL:
        raise MemoryError
    try:
        permit_init(&waiter.permit)
    except BaseException:
        free(waiter)
        raise
    return waiter


cdef void waiter_free(Waiter *waiter) noexcept nogil:
    permit_free(&waiter.permit)
    free(waiter)


cdef bint core_wait_for(Core *core, object predicate, object timeout, Waiter *waiter) except -1:
    """Waits until `predicate()`, at most `timeout` seconds (None: without limit); whether it came true.

    The predicate runs on this thread, with no mutex held, whenever something that it may ask of has changed.
    `waiter`: one that the caller has made and will free, or NULL.
    """
    cdef Waiter *made = NULL
    cdef Waiter **link
    deadline = None if timeout is None else monotonic() + timeout
    if waiter == NULL:
        waiter = made = waiter_new()
    try:
        lock(&core.mutex)
        waiter.next = core.waiters
        core.waiters = waiter
        poke(&core.waiter_count, core.waiter_count + 1)
        unlock(&core.mutex)
        while not predicate():
            PyErr_CheckSignals()         # one that came while this thread was not asleep interrupts no sleep
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return False
            permit_wait(&waiter.permit, &core.mutex, left)
        return True
    finally:
        lock(&core.mutex)
        link = &core.waiters
        while link[0] != NULL and link[0] != waiter:
            link = &link[0].next
        if link[0] == waiter:            # not there in a forked child
            link[0] = waiter.next
            poke(&core.waiter_count, core.waiter_count - 1)
        unlock(&core.mutex)
        if made != NULL:
            waiter_free(made)


# -- a loop that waits through a user's clock -------------------------------------------------------------------------

cdef class WakeEvent:
    """`threading.Event` for one waiting thread, whose `set` is safe in signal handlers and destructors."""

    def __cinit__(self):
        mutex_init(&self.mutex)
        permit_init(&self.permit)

    def __dealloc__(self):
        permit_free(&self.permit)

    cdef void announce(self) noexcept nogil:
        lock(&self.mutex)
        self.flag = True
        permit_give(&self.permit)
        unlock(&self.mutex)

    def is_set(self):
        """Whether it was set since the last `clear`."""
        cdef bint flag
        lock(&self.mutex)
        flag = self.flag
        unlock(&self.mutex)
        return flag

    def set(self):
        """Ends the wait in progress, or the next one."""
        self.announce()

    def clear(self):
        """Only for the waiting thread, which must look at the state that `set` announces afterwards."""
        lock(&self.mutex)
        self.flag = False
        if self.permit.given:
            self.permit.given = False
            PyThread_acquire_lock(self.permit.lock, 0)
        unlock(&self.mutex)

    def wait(self, timeout=None):
        """Waits until it is set, at most `timeout` seconds (None: without limit).  It may return early."""
        if not self.is_set():
            permit_wait(&self.permit, &self.mutex, timeout)
        return self.is_set()
