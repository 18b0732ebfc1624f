"""See backlog.pxd."""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free

from .core cimport Core, Job, Rare, Waiting
from .memory cimport allocate, allocate_zeroed
from .platform cimport NEVER, assert_held

cdef enum:
    LONGEST = 1_000


cdef Rare *rare_of(Job *job) noexcept nogil:
    """What few jobs have, made if there is none yet; NULL if there is no memory."""
    cdef Rare *rare = job.rare
    if rare == NULL:
        rare = <Rare *>allocate_zeroed(1, sizeof(Rare))
        if rare != NULL:
            rare.grace = NEVER
            rare.begin = -NEVER
            job.rare = rare
    return rare


cdef bint backlog_add(Core *core, Job *job, int64_t slot, int64_t due) noexcept nogil:
    """Adds a run; False if it is full, or there is no memory: then the slot is counted as any without a run."""
    cdef Rare *rare = rare_of(job)
    cdef Waiting *wider
    cdef uint32_t i, room
    assert_held(&core.mutex)
    if rare == NULL or rare.count >= LONGEST:
        return False
    if rare.count == rare.room:
        room = 2 * rare.room if rare.room else 8
        wider = <Waiting *>allocate(room * sizeof(Waiting))
        if wider == NULL:
            return False
        for i in range(rare.count):
            wider[i] = rare.backlog[(rare.head + i) & (rare.room - 1)]
        free(rare.backlog)
        rare.backlog = wider
        rare.room = room
        rare.head = 0
    wider = &rare.backlog[(rare.head + rare.count) & (rare.room - 1)]
    wider.slot = slot
    wider.due = due
    wider.ticks = True
    rare.count += 1
    core.backlog += 1
    return True


cdef Waiting backlog_take(Core *core, Job *job) noexcept nogil:
    """The first of those that wait."""
    cdef Rare *rare = job.rare
    cdef Waiting first = rare.backlog[rare.head]
    assert_held(&core.mutex)
    rare.head = (rare.head + 1) & (rare.room - 1)
    rare.count -= 1
    core.backlog -= 1
    return first


cdef void backlog_free(Core *core, Job *job) noexcept nogil:
    """What few jobs have goes with the job."""
    assert_held(&core.mutex)
    if job.rare != NULL:
        core.backlog -= job.rare.count
        free(job.rare.backlog)
        free(job.rare)
        job.rare = NULL
