"""See drains.pxd."""

from libc.stdint cimport uint32_t

from .core cimport Core, Phase
from .platform cimport NEVER, assert_held, condition_broadcast, condition_signal
from .wakes cimport core_sleeps_too_long, core_wants_wake


cdef uint32_t drains_wanted(const Core *core) noexcept nogil:
    """How many more drains there should be: each ready run gets a worker, as long as workers are free."""
    cdef uint32_t ready = core.ring_count - core.zombies
    cdef uint32_t free_workers = core.workers - core.busy
    cdef uint32_t wanted = ready if ready < free_workers else free_workers
    cdef uint32_t coming = core.drains - core.busy - core.parked - core.led
    assert_held(&core.mutex)
    return wanted - coming if wanted > coming else 0


cdef void drains_summon(Core *core) noexcept nogil:
    """Calls parked drains to what is ready, as many as are wanted."""
    cdef uint32_t wanted
    assert_held(&core.mutex)
    if not core.parked:
        return
    wanted = drains_wanted(core)
    while wanted and core.parked:
        core.parked -= 1
        core.summons += 1
        wanted -= 1
        condition_signal(&core.condition)


cdef bint drains_go_on(Core *core) noexcept nogil:
    """After the end of a run, with which one that was owed to its job, or stood in its backlog, may have become ready.

    Calls parked drains to it; whether the loop must be woken, for more drains or for what is due before it would wake.
    """
    assert_held(&core.mutex)
    drains_summon(core)
    return (drains_wanted(core) != 0 and core_wants_wake(core, -NEVER)) or core_sleeps_too_long(core)


cdef void core_set_phase(Core *core, Phase phase) noexcept nogil:
    """Every change of the phase but a start goes through here: parked drains must leave."""
    assert_held(&core.mutex)
    core.phase = phase
    condition_broadcast(&core.condition)
    condition_broadcast(&core.aside)
