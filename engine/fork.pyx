"""What fork() does to cores: the child finds them stopped and whole.

The handlers are those of the C library, not of `os.register_at_fork`: between the first and the last of them no other
thread of Python runs, so that taking every core's mutex cannot meet a thread that has one and waits for the GIL.
"""

from libc.stdint cimport uint64_t

from .core cimport STOPPED, Core, first_core, registry_lock
from .platform cimport NEVER, at_fork, condition_init, lock, mutex_renew, unlock, waker_forget
from .runs cimport core_abandon_runs, core_put_back


cdef void before() noexcept nogil:
    cdef Core *core
    lock(registry_lock())
    core = first_core()
    while core != NULL:
        lock(&core.mutex)
        core = core.next


cdef void in_parent() noexcept nogil:
    cdef Core *core = first_core()
    while core != NULL:
        unlock(&core.mutex)
        core = core.next
    unlock(registry_lock())


cdef void in_child() noexcept nogil:
    cdef Core *core = first_core()
    while core != NULL:
        mutex_renew(&core.mutex)
        condition_init(&core.condition)
        condition_init(&core.aside)
        lock(&core.mutex)
        reset(core)
        unlock(&core.mutex)
        core = core.next
    mutex_renew(registry_lock())


cdef void reset(Core *core) noexcept nogil:
    """Stopped; nothing runs; timers and counters are those of the parent, queued runs are in the heap again."""
    cdef uint64_t dropped = core.dropped
    core.phase = STOPPED
    core.looping = core.sleeping = False
    core.forks += 1
    core.epoch += 1
    core.drains = core.busy = core.parked = core.summons = 0
    core.led = core.engaged = core.heir = core.outgoing = core.standing_in = core.napping = False
    core.deputy_until = NEVER
    core.reserved = 0                    # a call_many in progress was another thread's
    core.telling = 0
    core.runners = NULL
    core.waiters = NULL
    core.waiter_count = 0
    waker_forget(&core.waker)
    waker_forget(&core.left)
    core_put_back(core)
    core.dropped = dropped               # in the parent they run
    core.orphans = core.running != 0 or core.outside != 0
    if core.orphans:
        core_abandon_runs(core)


if at_fork(before, in_parent, in_child):
    raise MemoryError
