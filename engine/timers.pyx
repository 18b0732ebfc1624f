"""See timers.pxd."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from .backlog cimport backlog_free
from .core cimport (
    ALARM,
    COMMAND,
    ENDED,
    FREE,
    HELD,
    JOB,
    PAUSED,
    PENDING,
    READY,
    RUNNING,
    STALE_ALLOWANCE,
    WALL,
    ZOMBIE,
    Core,
    Entry,
    Job,
    Record,
    References,
    Slot,
    count_references,
    drop,
    job_at,
    record_at,
    slot_at,
    take_references,
)
from .heap cimport (
    ORDER_LIMIT,
    SLOT_BITS,
    SLOT_LIMIT,
    SLOT_MASK,
    Node,
    heap_push,
    heap_reserve,
    heap_restore,
    heap_sort,
)
from .keys cimport KeyEntry, key_hash, keys_add, keys_at, keys_find, keys_remove, keys_reserve
from .memory cimport reallocate
from .platform cimport NEVER, assert_held, lock, unlock
from .slab cimport CHUNK_ITEMS, slab_give, slab_reserve, slab_room, slab_take
from .waiters cimport core_notify
from .wakes cimport core_wants_wake

from pysched.errors import TimerLimitError


# -- room -----------------------------------------------------------------------------------------------------------

cdef int reserve_ring(Core *core) noexcept nogil:
    """The ring holds each slot at most once, a job's as often as it may have runs: room for all is room for ever."""
    cdef uint32_t room = core.ring_mask + 1 if core.ring != NULL else 0
    cdef size_t needed = core.slots.chunk_count * CHUNK_ITEMS + core.instances
    cdef size_t wider
    cdef uint32_t *ring
    assert_held(&core.mutex)
    if room >= needed:
        return 0
    wider = room if room else CHUNK_ITEMS
    while wider < needed:
        wider *= 2
    if wider > <size_t>1 << 31:          # places are counted in 32 bits
        return -1
    ring = <uint32_t *>reallocate(core.ring, wider * sizeof(uint32_t))
    if ring == NULL:
        return -1
    # What had wrapped round the old end goes behind it: count <= room, so it fits.
    if core.ring_head + core.ring_count > room:
        memcpy(ring + room, ring, (core.ring_head + core.ring_count - room) * sizeof(uint32_t))
    core.ring = ring
    core.ring_mask = <uint32_t>(wider - 1)
    return 0


cdef int core_reserve(Core *core, size_t slots, size_t records) noexcept nogil:
    """Makes sure that so many timers can be placed, and everything outside the heap put back: 0, or a shortage.

    All growth of slots, heap and ring happens here, at a registration, so that the loop never needs memory.
    """
    cdef int failure
    assert_held(&core.mutex)
    slots += core.reserved
    if (not records and slab_room(&core.slots) >= slots and core.slots.top + slots + core.instances <= core.ring_mask
            and core.heap.size + core.outside + core.periodic + slots <= core.heap.capacity):
        return 0
    if core.slots.chunk_count == 0 or slab_room(&core.slots) < slots:
        failure = slab_reserve(&core.slots, slots)
        if failure:
            return failure
    if reserve_ring(core):
        return -1
    if records:
        failure = slab_reserve(&core.records, records)
        if failure:
            return failure
    return heap_reserve(&core.heap, core.heap.size + core.outside + core.periodic + slots + records)


cdef int raise_shortage(int failure) except -1:
    """Raises what a shortage code stands for.  No mutex held."""
    if failure == -2:
        raise TimerLimitError(f"an engine holds at most {SLOT_LIMIT - 1:,} timers")
    raise MemoryError


cdef void core_keep_order(Core *core) noexcept nogil:
    """Makes sure that the next two ties need no new numbering.  Pointers to nodes end here."""
    assert_held(&core.mutex)
    if core.order >= ORDER_LIMIT - 3:
        core_renumber(core)


cdef uint64_t core_next_tie(Core *core, uint32_t index) noexcept nogil:
    """The tie of a submission that happens now.  Pointers to nodes end here."""
    assert_held(&core.mutex)
    core_keep_order(core)
    core.order += 1
    return core.order << SLOT_BITS | index


# -- adding ---------------------------------------------------------------------------------------------------------

cdef uint32_t core_place(Core *core, const Entry *entry, uint32_t key) noexcept:
    """Makes a pending timer; room was reserved.  O(1) on average, O(log n) at worst; needs the GIL."""
    assert_held(&core.mutex)
    Py_INCREF(<object>entry.callback)
    if entry.receiver != NULL:
        Py_INCREF(<object>entry.receiver)
    if entry.arguments != NULL:
        Py_INCREF(<object>entry.arguments)
    count_references(1 + (entry.receiver != NULL) + (entry.arguments != NULL))
    return enter(core, entry, key)


cdef uint32_t core_enter(Core *core, const Entry *entry, uint32_t key) noexcept nogil:
    """`core_place` of a C function, which needs no GIL."""
    assert_held(&core.mutex)
    return enter(core, entry, key)


cdef inline uint32_t enter(Core *core, const Entry *entry, uint32_t key) noexcept nogil:
    """Makes a pending timer of what is there to be owned already."""
    cdef uint32_t index = slab_take(&core.slots)
    cdef Slot *slot = slot_at(core, index)
    cdef Record *record
    cdef uint32_t number
    assert_held(&core.mutex)
    if slot.generation == 0:
        slot.generation = 1
    slot.callback = entry.callback
    slot.receiver = entry.receiver
    slot.arguments = entry.arguments
    slot.when = entry.when
    slot.layout = entry.layout
    slot.flags = entry.flags
    slot.state = PENDING
    slot.record = 0
    slot.key = key
    if key:
        keys_at(&core.keys, key).slot = index
    if entry.period:
        number = slab_take(&core.records)
        record = record_at(core, number)
        record.period = entry.period
        record.busy_until = -NEVER
        record.runs = record.errors = record.coalesced = 0
        record.waiting = record.active = 0
        slot.record = number
        core.periodic += 1
    slot.tie = core_next_tie(core, index)
    heap_push(&core.heap, slot.when, slot.tie)
    core.live += 1
    core.scheduled += not entry.flags & ALARM
    core.alarms += entry.flags & ALARM != 0
    return index


cdef bint core_add(
    Core *core, const Entry *entry, uint32_t *index, uint32_t *generation, References *garbage
) except -1:
    """Adds a timer; one that holds the same key is cancelled in the same instant.  Returns whether to wake the loop.

    No mutex held.  The caller wakes first and then drops `garbage`, whose destructors may take their time.  Raises what
    a key's `__eq__` raises, MemoryError or TimerLimitError; then nothing has changed and there is no garbage.
    """
    cdef uint32_t key = 0
    cdef int failure = 0
    cdef bint wake
    memset(garbage, 0, sizeof(References))
    lock(&core.mutex)
    if entry.key != NULL:
        keys_find(&core.keys, &core.mutex, entry.key, entry.hash, &key)
        if key == 0:
            failure = keys_reserve(&core.keys)
    if not failure:
        failure = core_reserve(core, 1, entry.period != 0)
    if failure:
        unlock(&core.mutex)
        raise_shortage(failure)
    if key:
        if keys_at(&core.keys, key).slot:
            core_detach(core, keys_at(&core.keys, key).slot, True, garbage)
    elif entry.key != NULL:
        Py_INCREF(<object>entry.key)
        count_references(1)
        key = keys_add(&core.keys, entry.key, entry.hash)
    index[0] = core_place(core, entry, key)
    generation[0] = slot_at(core, index[0]).generation
    wake = core_wants_wake(core, entry.when)
    unlock(&core.mutex)
    if garbage.callback != NULL:
        core_notify(core)                # what was due may not be any more
    return wake


# -- cancelling and freeing -----------------------------------------------------------------------------------------

cdef void core_free_slot(Core *core, uint32_t index, Slot *slot) noexcept nogil:
    """Ends the timer of a slot whose references were taken; its handles know from the generation."""
    assert_held(&core.mutex)
    slot.tie = 0
    slot.state = FREE
    slot.generation += 1
    if slot.generation:                 # after 2^32 timers a slot retires: no handle ever meets a namesake
        slab_give(&core.slots, index)


cdef void core_free_zombie(Core *core, uint32_t index) noexcept nogil:
    """Frees a slot that was cancelled in the ring, once the ring no longer holds it."""
    cdef Slot *slot = slot_at(core, index)
    assert_held(&core.mutex)
    core.zombies -= 1
    slot.state = FREE
    if slot.generation:
        slab_give(&core.slots, index)


cdef bint release_job(Core *core, uint32_t index, Slot *slot, References *garbage) noexcept nogil:
    """Frees the record of a job that is cancelled; returns whether it leaves an entry of the ready ring behind."""
    cdef Job *job = job_at(core, slot.record)
    cdef bint waits = job.waiting == 1
    assert_held(&core.mutex)
    if job.waiting > 1:                  # room in the ring beyond one for each slot goes with the job
        core_leave_ring(core, index)
    core.instances -= job.instances - 1
    if job.schedule != NULL:
        job.schedule.jobs -= 1
        garbage.key = job.schedule.owner
    core.on_wall -= job.flags & WALL != 0
    free(job.queue)
    free(job.notes)
    backlog_free(core, job)
    slab_give(&core.jobs, slot.record)
    slot.record = 0
    return waits


cdef void core_leave_ring(Core *core, uint32_t index) noexcept nogil:
    """Takes all entries of a slot out of the ready ring: O(entries)."""
    cdef uint32_t kept = 0, i, other
    assert_held(&core.mutex)
    for i in range(core.ring_count):
        other = core.ring[(core.ring_head + i) & core.ring_mask]
        if other != index:
            core.ring[(core.ring_head + kept) & core.ring_mask] = other
            kept += 1
    core.ring_count = kept


cdef void sweep_ring(Core *core) noexcept nogil:
    cdef uint32_t kept = 0, i, index
    assert_held(&core.mutex)
    for i in range(core.ring_count):
        index = core.ring[(core.ring_head + i) & core.ring_mask]
        if slot_at(core, index).state == ZOMBIE:
            core_free_zombie(core, index)
        else:
            core.ring[(core.ring_head + kept) & core.ring_mask] = index
            kept += 1
    core.ring_count = kept


cdef void core_detach(Core *core, uint32_t index, bint keep_key, References *garbage) noexcept nogil:
    """Cancels a live timer.  Its references go to `garbage`; its key's entry stays with `keep_key`."""
    cdef Slot *slot = slot_at(core, index)
    cdef KeyEntry *key
    cdef bint waits = slot.state == READY            # in the ready ring
    assert_held(&core.mutex)
    take_references(slot, garbage)
    garbage.key = NULL
    if slot.key and not slot.flags & JOB:
        key = keys_at(&core.keys, slot.key)
        key.slot = 0
        if slot.state == HELD:
            key.held = 0
        if not keep_key and not key.running:
            garbage.key = keys_remove(&core.keys, slot.key)
    if slot.state == PENDING:
        core.stale += 1
    else:
        core.outside -= 1
    if slot.flags & JOB:
        waits = release_job(core, index, slot, garbage)
    elif slot.record:
        waits = record_at(core, slot.record).waiting
        slab_give(&core.records, slot.record)
        slot.record = 0
        core.periodic -= 1
    if slot.state != RUNNING and slot.state != PAUSED and slot.state != ENDED:
        core.live -= 1
    core.cancelled += not slot.flags & ALARM
    core.alarms -= slot.flags & ALARM != 0
    if waits:
        slot.tie = 0
        slot.state = ZOMBIE
        slot.generation += 1
        core.zombies += 1
        if core.zombies > core.ring_count - core.zombies + STALE_ALLOWANCE:
            sweep_ring(core)
    else:
        core_free_slot(core, index, slot)
    core_bound_stale(core)


cdef inline bint can_cancel(const Slot *slot) noexcept nogil:
    """Whether a cancellation would prevent something: not while a one-shot is on its way into an executor."""
    return slot.state != RUNNING or slot.flags & COMMAND


cdef bint core_cancel(Core *core, uint32_t index, uint32_t generation, int64_t *when) noexcept:
    """Cancels a handle's timer: whether it was there; then `when` is its due time.  No mutex held; needs the GIL."""
    cdef References garbage
    cdef Slot *slot
    cdef bint found
    lock(&core.mutex)
    slot = slot_at(core, index)
    found = slot.generation == generation and can_cancel(slot)
    if found:
        when[0] = slot.when
        core_detach(core, index, False, &garbage)
    unlock(&core.mutex)
    if found:
        core_notify(core)
        drop(&garbage)
    return found


cdef int core_cancel_key(Core *core, object key) except -1:
    """Cancels the timer that holds `key`: 1 if there was one.  No mutex held."""
    cdef References garbage
    cdef uint32_t found = 0, index = 0
    cdef bint cancelled = False
    cdef Py_hash_t hash = key_hash(key)
    lock(&core.mutex)
    keys_find(&core.keys, &core.mutex, <PyObject *>key, hash, &found)
    if found:
        index = keys_at(&core.keys, found).slot
    if index and can_cancel(slot_at(core, index)):
        core_detach(core, index, False, &garbage)
        cancelled = True
    unlock(&core.mutex)
    if cancelled:
        core_notify(core)
        drop(&garbage)
    return cancelled


cdef void core_forget_orphans(Core *core) noexcept:
    """In the child of a fork: releases one-shot commands that run in the parent, and keys that only they had.

    No mutex held; needs the GIL.
    """
    cdef References garbage
    cdef uint32_t index
    cdef bint orphan
    cdef PyObject *key
    if not core.orphans:
        return
    core.orphans = False
    for index in range(1, core.slots.top):
        lock(&core.mutex)
        orphan = slot_at(core, index).state == RUNNING
        if orphan:
            core_detach(core, index, False, &garbage)
            core.cancelled -= 1
        unlock(&core.mutex)
        if orphan:
            drop(&garbage)
    for index in range(1, core.keys.entries.top):
        key = NULL
        lock(&core.mutex)
        if keys_at(&core.keys, index).key != NULL and keys_at(&core.keys, index).slot == 0:
            key = keys_remove(&core.keys, index)
        unlock(&core.mutex)
        memset(&garbage, 0, sizeof(References))
        garbage.key = key
        drop(&garbage)


# -- stale nodes and the order of submission ------------------------------------------------------------------------

cdef void core_bound_stale(Core *core) noexcept nogil:
    """Rebuilds the heap when stale nodes outnumber live ones: O(n), paid for by as many cancellations.

    Called where a node goes stale, not where a live one leaves to start: that would cost each start a look and give no
    memory back, as the heap keeps what it once needed.  So stale nodes are at most as many as there ever were timers at
    once, and STALE_ALLOWANCE.
    """
    assert_held(&core.mutex)
    if core.stale > core.heap.size - core.stale + STALE_ALLOWANCE:
        core_drop_stale(core)


cdef void core_drop_stale(Core *core) noexcept nogil:
    """Rebuilds the heap without its stale nodes; O(n) if there are any."""
    cdef size_t kept = 0, i
    cdef Node *nodes = core.heap.nodes
    assert_held(&core.mutex)
    if core.stale == 0:
        return
    for i in range(core.heap.size):
        if slot_at(core, <uint32_t>(nodes[i].tie & SLOT_MASK)).tie == nodes[i].tie:
            nodes[kept] = nodes[i]
            kept += 1
    core.heap.size = kept
    core.stale = 0
    heap_restore(&core.heap)


cdef void core_renumber(Core *core) noexcept nogil:
    """Numbers all submissions anew, in their order, once 2^40 have used the numbers up: O(n log n).

    What is outside the heap and may be put back into it (due before all that is due later) takes part.
    """
    cdef size_t i, kept = 0, ordered
    cdef uint32_t index
    cdef Slot *slot
    cdef Record *record
    cdef Node *nodes = core.heap.nodes
    assert_held(&core.mutex)
    core_drop_stale(core)                # an old number must not be taken for a new one
    for i in range(1, core.slots.top):
        slot = slot_at(core, <uint32_t>i)
        if slot.state == READY or slot.state == HELD or slot.state == RUNNING:
            heap_push(&core.heap, slot.when, slot.tie)
        elif slot.state == PENDING and slot.record and not slot.flags & JOB:
            record = record_at(core, slot.record)
            if record.waiting:
                heap_push(&core.heap, record.waiting_when, record.waiting_tie)
    heap_sort(&core.heap)
    core.order = 0
    ordered = core.heap.size
    for i in range(ordered):
        index = <uint32_t>(nodes[i].tie & SLOT_MASK)
        slot = slot_at(core, index)
        if slot.tie == nodes[i].tie and slot.tie:
            core.order += 1
            slot.tie = core.order << SLOT_BITS | index
            if slot.state == PENDING:
                nodes[kept].when = slot.when
                nodes[kept].tie = slot.tie
                kept += 1
        elif slot.record and not slot.flags & JOB:
            record = record_at(core, slot.record)
            if record.waiting and record.waiting_tie == nodes[i].tie:
                core.order += 1
                record.waiting_tie = core.order << SLOT_BITS | index
    core.heap.size = kept
    core.stale = 0
