"""See drains.pxd."""

from libc.stdint cimport int64_t, uint32_t

from .core cimport STARTED, Core, Phase
from .platform cimport (
    condition_broadcast,
    condition_signal,
    condition_wait,
    lock,
    monotonic_ns,
    unlock,
    waker_wake,
)
from .timers cimport core_prune, core_wants_wake


cdef uint32_t drains_wanted(const Core *core) noexcept nogil:
    """How many more drains there should be: each ready run gets a worker, as long as workers are free."""
    cdef uint32_t ready = core.ring_count - core.zombies
    cdef uint32_t free_workers = core.workers - core.busy
    cdef uint32_t wanted = ready if ready < free_workers else free_workers
    cdef uint32_t coming = core.drains - core.busy - core.parked
    return wanted - coming if wanted > coming else 0


cdef void drains_summon(Core *core) noexcept nogil:
    """Calls parked drains to what is ready, as many as are wanted."""
    cdef uint32_t wanted
    if not core.parked:
        return
    wanted = drains_wanted(core)
    while wanted and core.parked:
        core.parked -= 1
        core.summons += 1
        wanted -= 1
        condition_signal(&core.condition)


cdef void core_set_phase(Core *core, Phase phase) noexcept nogil:
    """Every change of the phase but a start goes through here: parked drains must leave."""
    core.phase = phase
    condition_broadcast(&core.condition)


cdef int64_t drain_park(Core *core, uint32_t epoch) noexcept nogil:
    """Waits until this drain is summoned or its start is over; returns the time.  No mutex held, and no GIL.

    A child that is forked meanwhile has no such thread, hence no look at `forks`.
    """
    lock(&core.mutex)
    if core.epoch == epoch:
        core.parked += 1
        # The loop may sleep past the next timer because this drain was there.
        core_prune(core)
        if core.heap.size and core_wants_wake(core, core.heap.nodes[0].when):
            waker_wake(&core.waker)
        while (core.epoch == epoch and core.phase == STARTED and not core.summons
                and core.ring_count == core.zombies):
            condition_wait(&core.condition, &core.mutex)
        if core.epoch == epoch:
            # Whoever wakes first takes a summons, whomever the signal was meant for: the counts agree all the same.
            if core.summons:
                core.summons -= 1
            else:
                core.parked -= 1
    unlock(&core.mutex)
    return monotonic_ns()
