"""See wall.pxd.

Slots of calendars and moments are on the wall clock, but the heap is on the monotonic clock.  Their due times are made
with one offset, `Core.planned_offset`, so that equal slots stay in order, and are made anew when the clocks have moved
against each other: by 1 ms, so that a clock that is slewed makes nobody late; by a second, and it was a step.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport IMMEDIATE, JOB, PAUSED, PENDING, WALL, Core, Job, Slot, job_at, shifted, slot_at
from .heap cimport SLOT_MASK, Node, heap_restore
from .platform cimport NEVER, assert_held
from .schedule cimport schedule_next
from .slots cimport job_replanned
from .wakes cimport core_sleeps_too_long

cdef enum:
    DRIFT = 1_000_000
    STEP = 1_000_000_000

cdef int64_t CORRECTION = 3 * 3_600 * <int64_t>1_000_000_000     # as in Debian's cron: 3 hours


cdef bint core_see_wall(Core *core, int64_t offset, int64_t now) noexcept nogil:
    """Keeps wall clock - monotonic clock; whether the loop must be woken, as something may be due sooner.

    O(1), or O(timers) if the clocks have moved against each other and there are jobs on the wall clock.
    """
    cdef int64_t moved = offset - core.planned_offset
    assert_held(&core.mutex)
    core.wall_offset = offset
    if -DRIFT < moved < DRIFT:
        return False
    core.planned_offset = offset
    if not core.on_wall:
        return False
    plan_anew(core, moved, shifted(now, offset))
    return core_sleeps_too_long(core)


cdef void plan_anew(Core *core, int64_t moved, int64_t here) noexcept nogil:
    """Forward, slots passed over have come; back, some calendars are planned anew from `here`, the new time."""
    cdef uint32_t i
    cdef Slot *slot
    cdef Job *job
    cdef int64_t old_slot
    cdef Node *nodes = core.heap.nodes
    assert_held(&core.mutex)
    for i in range(1, core.slots.top):
        slot = slot_at(core, i)
        if not slot.flags & JOB or (slot.state != PENDING and slot.state != PAUSED):
            continue
        job = job_at(core, slot.record)
        if not job.flags & WALL:
            continue
        if moved >= STEP:
            job.busy_until = -NEVER      # its runs were not in progress when the slots passed over were due
        old_slot = job.slot
        if moved <= -STEP and job.schedule != NULL and (job.schedule.calendar.wildcard or moved <= -CORRECTION):
            job.slot = schedule_next(
                job.schedule, here if job.rare == NULL else max(here, job.rare.begin - 1)
            )
            if job.slot >= job.until:
                job.slot = NEVER
        if slot.state == PENDING and not job.flags & IMMEDIATE:
            slot.when = job_replanned(job, slot.when, old_slot, core.planned_offset - moved, core.planned_offset)
    for i in range(<uint32_t>core.heap.size):
        slot = slot_at(core, <uint32_t>(nodes[i].tie & SLOT_MASK))
        if slot.tie == nodes[i].tie:
            nodes[i].when = slot.when
    heap_restore(&core.heap)
