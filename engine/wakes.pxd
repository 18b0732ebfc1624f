"""Who must be awake for the first timer of the heap: the loop, or a daemon worker.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport int64_t

from .core cimport Core
from .platform cimport assert_held


cdef enum:
    ASIDE_NS = 1_000_000             # how exactly a loop beside daemon workers meets a deadline (lead.pxd)


cdef void core_prune(Core *core) noexcept nogil
cdef void core_attend(Core *core, int64_t when) noexcept nogil
cdef bint core_sleeps_too_long(Core *core) noexcept nogil


cdef inline bint core_wants_wake(Core *core, int64_t when) noexcept nogil:
    """Whether the loop sleeps past `when`; True is said once, to the one that must then wake it."""
    assert_held(&core.mutex)
    if core.sleeping and when < core.sleep_until:
        core.sleeping = False
        return True
    # A worker that is on its way looks as soon as it is there: it may be waiting for the GIL that the caller holds.  C
    # functions do not wait for that.
    if core.following and (core.natives or not (core.parked and core.busy + core.parked < core.drains)):
        core_attend(core, max(when, 0))
    return False
