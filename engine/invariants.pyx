"""What must always hold of a core; asked by `_check()`, which tests call after each step.

Always is whenever nobody holds the mutex, so a debug build asks each time it is given back.
"""

from libc.stdint cimport uint32_t, uint64_t

from .backlog cimport has_backlog
from .core cimport (
    ALARM,
    ENDED,
    FREE,
    JOB,
    LEFT,
    NATIVE,
    OWED,
    PAUSED,
    PENDING,
    READY,
    RUNNING,
    STALE_ALLOWANCE,
    STARTED,
    STOPPED,
    WALL,
    ZOMBIE,
    Core,
    Job,
    Runner,
    Slot,
    first_due,
    job_at,
    record_at,
    slot_at,
)
from .heap cimport SLOT_MASK, heap_ordered
from .keys cimport KeyEntry, keys_at
from .platform cimport DEBUG, lock, monotonic_ns, mutex_watch, unlock
from .slots cimport is_single


cdef void core_check(Core *core) except *:
    """Raises AssertionError naming the first invariant that does not hold; O(n).  No mutex held."""
    cdef const char *broken
    lock(&core.mutex)
    broken = first_broken(core)
    unlock(&core.mutex)
    if broken != NULL:
        raise AssertionError(broken.decode())


cdef enum:
    LOOKS = 64                       # at slots, nodes and keys for each time that the mutex is given back, on average

cdef uint64_t checks_made = 0        # of all cores: a few may be lost where two add at once


cdef void core_watch(Core *core) noexcept nogil:
    """In a debug build, lets the invariants be checked whenever the mutex is given back."""
    mutex_watch(&core.mutex, broken_now, core)


cdef const char *broken_now(void *guarded) noexcept nogil:
    """The first invariant that does not hold; one check is left out after the other where there are many timers."""
    global checks_made
    cdef Core *core = <Core *>guarded
    core.unchecked += LOOKS
    if core.unchecked < core.heap.size + core.slots.top + core.keys.entries.top:
        return NULL
    core.unchecked = 0
    checks_made += 1
    return first_broken(core)


def checks():
    """How often the invariants were checked unasked; None unless this is a debug build."""
    return checks_made if DEBUG else None


cdef const char *first_broken(Core *core) noexcept nogil:
    cdef size_t i, pending = 0, outside = 0, live = 0, periodic = 0, zombies = 0, waiting = 0, ready = 0, keys = 0
    cdef size_t instances = 0, on_wall = 0, backlog = 0, alarms = 0, natives = 0, threads = 0
    cdef const Runner *runner
    cdef Slot *slot
    cdef Job *job
    cdef KeyEntry *key
    if core.news_count and (core.news == NULL or core.news_count > core.news.room):
        return b"the count of news is wrong"
    if not heap_ordered(&core.heap):
        return b"a node of the heap is before its parent"
    for i in range(core.heap.size):
        slot = slot_at(core, <uint32_t>(core.heap.nodes[i].tie & SLOT_MASK))
        if slot.tie == core.heap.nodes[i].tie:
            if slot.state != PENDING or slot.when != core.heap.nodes[i].when:
                return b"a live node disagrees with its slot"
            pending += 1
    if core.heap.size - pending != core.stale:
        return b"the count of stale nodes is wrong"
    if core.stale > core.slots.top - 1 + STALE_ALLOWANCE:      # see core_bound_stale: of each slot one node is live
        return b"too many stale nodes"
    if core.slots.chunk_count and (
        core.heap.capacity < core.heap.size + core.outside
        or core.heap.capacity < core.heap.size - core.stale + core.outside + core.periodic
    ):
        return b"the heap has no room for what may be put back"
    for i in range(1, core.slots.top):
        slot = slot_at(core, <uint32_t>i)
        if (slot.callback != NULL) != (slot.state != FREE and slot.state != ZOMBIE):
            return b"a slot's state and its references disagree"
        if slot.state == FREE:
            continue
        if slot.state == ZOMBIE:
            zombies += 1
            continue
        if slot.state != RUNNING and slot.state != PAUSED and slot.state != ENDED:
            live += 1
        alarms += slot.flags & ALARM != 0
        natives += slot.flags & NATIVE != 0
        if slot.state == PENDING:
            pending -= 1
        else:
            outside += 1
            ready += slot.state == READY
        if slot.flags & JOB:
            job = job_at(core, slot.record)
            waiting += job.waiting
            instances += job.instances - 1
            if job.waiting + job.active > job.instances:
                return b"a job has more runs than instances"
            on_wall += job.flags & WALL != 0
            if has_backlog(job):
                backlog += job.rare.count
                if core.phase == STOPPED:
                    return b"a backlog is still there after a stop"
                if core.phase == STARTED and job.waiting + job.active < job.instances:
                    return b"a backlog waits beside a free instance"
                if is_single(job) or job.rare.count > 1_000 or job.rare.count > job.rare.room:
                    return b"a backlog is too long"
            if slot.state == ENDED and not (
                    job.waiting or job.active or has_backlog(job) or job.flags & (OWED | LEFT)):
                return b"a job has ended and stays"
        elif slot.record:
            periodic += 1
            waiting += record_at(core, slot.record).waiting
        if slot.key and not slot.flags & JOB and keys_at(&core.keys, slot.key).slot != i:
            return b"a timer does not hold its key"
    runner = core.runners
    while runner != NULL:                # each may be inside an alarm, and those do not count as started
        threads += 1
        runner = runner.next
    if core.running > core.started + threads:
        return b"more callbacks are in progress than were started"
    if core.busy + core.parked + core.summons + core.led > core.drains:
        return b"more drains are busy, parked, summoned or in the lead than there are"
    if (core.led or core.heir) and not core.following:
        return b"a drain leads that is no daemon worker"
    if core.heir and not core.parked and not core.summons:
        return b"one that is parked is to lead, and none is"
    if (core.led or core.heir) and core.outgoing:
        return b"a drain leads while the leader of an earlier start sleeps"
    if (core.following and core.phase == STARTED and core.parked
            and not (core.led or core.heir or core.outgoing or core.standing_in)
            and core.busy + core.parked == core.drains
            # A deputy whose time has come is about to look, even if what is first was due before.
            and core.deputy_until > max(first_due(core), monotonic_ns())):
        return b"a daemon worker is parked, and nobody leads or is about to"
    if instances != core.instances:
        return b"the count of jobs' instances is wrong"
    if alarms != core.alarms or natives != core.natives:
        return b"the count of alarms or of timers of C functions is wrong"
    if on_wall != core.on_wall:
        return b"the count of jobs on the wall clock is wrong"
    if not -1_000_000 < core.wall_offset - core.planned_offset < 1_000_000:
        return b"jobs are planned with an old offset"
    if backlog != core.backlog:
        return b"the count of runs in backlogs is wrong"
    if pending:
        return b"a pending slot has no node"
    if outside != core.outside or live != core.live or periodic != core.periodic or zombies != core.zombies:
        return b"a count of slots is wrong"
    if ready + waiting + zombies != core.ring_count:
        return b"the ready ring and the slots disagree"
    for i in range(1, core.keys.entries.top):
        key = keys_at(&core.keys, <uint32_t>i)
        if key.key == NULL:
            continue
        keys += 1
        if key.slot == 0 and not key.running:
            return b"a key is held by nothing"
        if key.slot and slot_at(core, key.slot).key != i:
            return b"a key's timer does not know it"
    if keys != core.keys.count:
        return b"the count of keys is wrong"
    return NULL
