"""See runs.pxd.  Everything here is O(log n) a timer and needs no memory: registrations have reserved it."""

from libc.stdint cimport uint32_t, uint64_t

from .core cimport (
    ALARM,
    COMMAND,
    HELD,
    JOB,
    MANAGED,
    NATIVE,
    NO_REPEAT,
    PENDING,
    READY,
    REPEATS,
    RUNNING,
    ZOMBIE,
    Job,
    Record,
    Slot,
    first_due,
    job_at,
    record_at,
    saturating_add,
    slot_at,
    take_references,
)
from .heap cimport SLOT_MASK, Node, heap_pop, heap_push, heap_replace_root, prefetch
from .jobs cimport (
    FAILED,
    SUCCEEDED,
    job_abandon,
    job_end_run,
    job_next_due,
    job_put_back,
    job_put_backlogs_back,
    job_refuse,
    job_start,
    job_tick,
    job_withdraw,
)
from .keys cimport KeyEntry, keys_at, keys_remove
from .lateness cimport histogram_remove
from .platform cimport NEVER, assert_held
from .starts cimport begin_run, ring_append, share_references
from .timers cimport core_bound_stale, core_drop_stale, core_free_slot, core_free_zombie, core_keep_order, core_next_tie
from .wakes cimport core_prune


cdef enum:
    SLOT_AHEAD = 6                      # how far ahead in the ready ring slots are asked for,
    JOB_AHEAD = 4                       # the jobs that they are of,
    NOTES_AHEAD = 2                     # and what is noted of these


cdef inline void expect_root(Core *core) noexcept nogil:
    """Asks for the slot of the next timer, which the next step will read: slots lie in the order of registration."""
    if core.heap.size:
        prefetch(slot_at(core, <uint32_t>(core.heap.nodes[0].tie & SLOT_MASK)))


cdef void rearm_root(Core *core, uint32_t index, Slot *slot, int64_t when) noexcept nogil:
    slot.when = when
    slot.tie = core_next_tie(core, index)
    heap_replace_root(&core.heap, when, slot.tie)
    expect_root(core)


cdef bint core_tick(Core *core, uint32_t index, int64_t now, int64_t *due, uint64_t *tie) noexcept nogil:
    """Takes the periodic timer at the root, due by `now`, on to its next slot: whether a run of it starts now.

    If so, `due` and `tie` are those of the run.  Slots that came due while the timer was queued or running are
    coalesced; of those that came due while the engine was late, the latest runs and the others are coalesced.
    """
    cdef Slot *slot = slot_at(core, index)
    cdef Record *record = record_at(core, slot.record)
    cdef int64_t when = slot.when
    cdef int64_t passed
    assert_held(&core.mutex)
    core_keep_order(core)               # now, so that `tie` and the tie that follows it are of one numbering
    if record.waiting or record.active:
        passed = (now - when) // record.period + 1
    elif when < record.busy_until:
        passed = (record.busy_until - 1 - when) // record.period + 1
    else:
        passed = 0
    if passed:
        record.coalesced += passed
        core.coalesced += passed
        when = saturating_add(when, passed * record.period)
        if record.waiting or record.active or when > now:
            rearm_root(core, index, slot, when)
            return False
    passed = (now - when) // record.period
    record.coalesced += passed
    core.coalesced += passed
    due[0] = when + passed * record.period
    tie[0] = slot.tie
    rearm_root(core, index, slot, saturating_add(due[0], record.period))
    return True


cdef bint hold_back(Core *core, uint32_t index, Slot *slot) noexcept nogil:
    """Sets a due command aside if a command of its key is running; it goes on when that one has ended."""
    cdef KeyEntry *key
    assert_held(&core.mutex)
    if not (slot.flags & COMMAND and slot.key):
        return False
    key = keys_at(&core.keys, slot.key)
    if not key.running:
        return False
    slot.state = HELD
    key.held = index
    return True


# -- starting -------------------------------------------------------------------------------------------------------

cdef inline void start_periodic(Core *core, uint32_t index, Run *run, int64_t due, int64_t now) noexcept:
    cdef Slot *slot = slot_at(core, index)
    run.slot = index
    run.periodic = True
    begin_run(core, slot, run, due, now)
    share_references(run)
    record_at(core, slot.record).active = 1


cdef inline void start_single(Core *core, uint32_t index, Run *run, int64_t now, bint keep) noexcept:
    """Starts a one-shot, whose slot is free at once, or a command, whose slot waits for the command's end.

    With `keep` a one-shot's slot stays too, until `core_accept` or `core_refuse`.
    """
    cdef Slot *slot = slot_at(core, index)
    run.slot = index
    run.periodic = False
    begin_run(core, slot, run, slot.when, now)
    core.live -= 1
    core.alarms -= slot.flags & ALARM != 0
    if keep or slot.flags & COMMAND:
        share_references(run)
        slot.state = RUNNING
        if slot.flags & COMMAND and slot.key:
            run.key = slot.key
            keys_at(&core.keys, slot.key).running = 1
        return
    # The references pass from the slot to the run: no counting.
    core.outside -= 1
    slot.callback = slot.receiver = slot.arguments = NULL
    if slot.key:
        run.references.key = keys_remove(&core.keys, slot.key)
    core_free_slot(core, index, slot)


cdef bint core_take_due(Core *core, int64_t now, bint only_first, Run *run) noexcept:
    """Starts the earliest timer due by `now`, straight from the heap; False if there is none.  Needs the GIL.

    False too if that one is a C function's, which is left where it is; and, with `only_first`, if its slots were
    coalesced: the next may be due later.
    """
    cdef Node *root
    cdef uint32_t index
    cdef Slot *slot
    cdef int64_t due
    cdef uint64_t tie
    assert_held(&core.mutex)
    while core.heap.size and core.heap.nodes[0].when <= now:
        root = &core.heap.nodes[0]
        index = <uint32_t>(root.tie & SLOT_MASK)
        slot = slot_at(core, index)
        if slot.tie != root.tie:
            heap_pop(&core.heap)
            core.stale -= 1
        elif slot.flags & (JOB | NATIVE):
            if slot.flags & NATIVE:
                return False
            if job_tick(core, index, now):
                return core_take_ready(core, now, False, run)
            if only_first:
                return False
        elif slot.record:
            if core_tick(core, index, now, &due, &tie):
                start_periodic(core, index, run, due, now)
                return True
            if only_first:
                return False
        else:
            heap_pop(&core.heap)
            expect_root(core)
            core.outside += 1
            if not hold_back(core, index, slot):
                start_single(core, index, run, now, False)
                return True
    return False


cdef bint core_alarm_due(Core *core, int64_t now) noexcept nogil:
    """Whether the first of the heap is an alarm, and due."""
    assert_held(&core.mutex)
    core_prune(core)
    return (core.heap.size != 0 and core.heap.nodes[0].when <= now
            and slot_at(core, <uint32_t>(core.heap.nodes[0].tie & SLOT_MASK)).flags & ALARM != 0)


cdef size_t core_collect_due(Core *core, int64_t now, size_t limit) noexcept nogil:
    """Moves timers due by `now` into the ready ring, at most `limit` nodes a call; how many nodes it looked at.

    Stops at an alarm or a C function, which are the loop's own.
    """
    cdef Node *root
    cdef uint32_t index
    cdef Slot *slot
    cdef Record *record
    cdef size_t looked = 0
    cdef int64_t due
    cdef uint64_t tie
    assert_held(&core.mutex)
    while looked < limit and core.heap.size and core.heap.nodes[0].when <= now:
        looked += 1
        root = &core.heap.nodes[0]
        index = <uint32_t>(root.tie & SLOT_MASK)
        slot = slot_at(core, index)
        if slot.tie != root.tie:
            heap_pop(&core.heap)
            core.stale -= 1
        elif slot.flags & JOB:
            job_tick(core, index, now)
        elif slot.flags & (ALARM | NATIVE):
            return looked - 1
        elif slot.record:
            if core_tick(core, index, now, &due, &tie):
                record = record_at(core, slot.record)
                record.waiting = 1
                record.waiting_when = due
                record.waiting_tie = tie
                ring_append(core, index)
        else:
            heap_pop(&core.heap)
            expect_root(core)
            core.outside += 1
            if not hold_back(core, index, slot):
                slot.state = READY
                ring_append(core, index)
    return looked


cdef inline Slot *slot_ahead(const Core *core, uint32_t distance) noexcept nogil:
    return slot_at(core, core.ring[(core.ring_head + distance) & core.ring_mask])


cdef inline void look_ahead(const Core *core) noexcept nogil:
    """Asks for what the next starts will need: memory that is far away comes while callbacks run."""
    cdef Slot *slot
    cdef Job *job
    prefetch(slot_ahead(core, SLOT_AHEAD))
    slot = slot_ahead(core, JOB_AHEAD)
    if slot.flags & JOB:
        job = job_at(core, slot.record)
        prefetch(job)
        prefetch(<char *>job + 64)
        prefetch(<char *>job + 128)
    if core.notes_room:
        slot = slot_ahead(core, NOTES_AHEAD)
        if slot.flags & JOB:
            job = job_at(core, slot.record)
            prefetch(job.notes + (job.noted & (core.notes_room - 1)))


cdef bint core_take_ready(Core *core, int64_t now, bint keep, Run *run) noexcept:
    """Starts the first timer of the ready ring; False if there is none.  Needs the GIL.  `keep`: see start_single."""
    cdef uint32_t index
    cdef Slot *slot
    cdef Record *record
    assert_held(&core.mutex)
    while core.ring_count:
        index = core.ring[core.ring_head & core.ring_mask]
        core.ring_head = (core.ring_head + 1) & core.ring_mask
        core.ring_count -= 1
        if core.ring_count == 0:
            core.ring_head = 0              # an empty ring begins anew, in memory that is in the cache
        elif core.ring_count > SLOT_AHEAD:
            look_ahead(core)
        slot = slot_at(core, index)
        if slot.state == ZOMBIE:
            core_free_zombie(core, index)
        elif slot.flags & JOB:
            job_start(core, index, run, now)
            return True
        elif slot.record:
            record = record_at(core, slot.record)
            record.waiting = 0
            start_periodic(core, index, run, record.waiting_when, now)
            return True
        elif hold_back(core, index, slot):
            pass
        else:
            start_single(core, index, run, now, keep)
            return True
    return False


cdef void core_accept(Core *core, Run *run, References *garbage) noexcept nogil:
    """An executor has taken a run whose slot was kept: a one-shot's slot and key are free now."""
    cdef Slot *slot = slot_at(core, run.slot)
    assert_held(&core.mutex)
    if run.periodic:
        return
    if slot.generation != run.generation:
        core.cancelled -= 1              # replaced while it was handed over: too late to prevent anything
        return
    core.outside -= 1
    take_references(slot, garbage)
    if slot.key:
        garbage.key = keys_remove(&core.keys, slot.key)
    core_free_slot(core, run.slot, slot)


cdef void core_unstart(Core *core, const Run *run) noexcept nogil:
    """An executor did not start a run after all."""
    assert_held(&core.mutex)
    core.started -= 1
    histogram_remove(&core.lateness, run.late)


cdef void core_refuse(Core *core, Run *run) noexcept nogil:
    """An executor did not take a run: it was never started, and waits where it waited before."""
    cdef Slot *slot = slot_at(core, run.slot)
    assert_held(&core.mutex)
    core.running -= 1
    core_unstart(core, run)
    if slot.generation != run.generation:
        return
    if run.flags & JOB:
        job_refuse(core, run)
    elif run.periodic:
        record_at(core, slot.record).active = 0
        record_at(core, slot.record).waiting = 1
        ring_append(core, run.slot)
    else:
        slot.state = PENDING
        heap_push(&core.heap, slot.when, slot.tie)
        core.outside -= 1
        core.live += 1


# -- ending ---------------------------------------------------------------------------------------------------------

cdef void core_finish(Core *core, Run *run, int64_t now, int64_t repeat_at, References *garbage) noexcept nogil:
    """Ends a run at `now`.  A command comes again at `repeat_at`, unless that is NO_REPEAT or it was cancelled.

    What remains to be released goes to `garbage`, which the caller has emptied.
    """
    cdef Slot *slot
    cdef Record *record
    cdef KeyEntry *key
    cdef bint same
    assert_held(&core.mutex)
    core.running -= 1
    core.errors += run.failed
    if run.flags & JOB:
        if run.dropped:
            job_withdraw(core, run, now)
        elif not run.flags & MANAGED:
            job_end_run(core, run.slot, run.generation, now, FAILED if run.failed else SUCCEEDED)
        return
    if not (run.periodic or run.flags & COMMAND):
        return
    slot = slot_at(core, run.slot)
    same = slot.generation == run.generation          # else it was cancelled or replaced while it ran
    if run.periodic:
        if same:
            record = record_at(core, slot.record)
            record.active = 0
            record.busy_until = now
            record.runs += not run.failed
            record.errors += run.failed
        return
    if run.key:
        key = keys_at(&core.keys, run.key)
        key.running = 0
        if key.held:
            slot = slot_at(core, key.held)
            slot.state = PENDING
            heap_push(&core.heap, slot.when, slot.tie)
            core.outside -= 1
            key.held = 0
            slot = slot_at(core, run.slot)
    if same:
        core.outside -= 1
        if repeat_at != NO_REPEAT:
            slot.when = repeat_at
            slot.tie = core_next_tie(core, run.slot)
            slot.state = PENDING
            heap_push(&core.heap, slot.when, slot.tie)
            core.live += 1
            return
        take_references(slot, garbage)
        core_free_slot(core, run.slot, slot)
        if run.key:
            keys_at(&core.keys, run.key).slot = 0
    if run.key and keys_at(&core.keys, run.key).slot == 0:
        garbage.key = keys_remove(&core.keys, run.key)


cdef void core_put_back(Core *core) noexcept nogil:
    """Empties the ready ring into the heap: due times and order are those from before."""
    cdef uint32_t index
    cdef Slot *slot
    cdef Record *record
    cdef int64_t passed
    assert_held(&core.mutex)
    if core.ring_count:
        core_drop_stale(core)            # each periodic timer here leaves a stale node: room for one is reserved
    while core.ring_count:
        index = core.ring[core.ring_head & core.ring_mask]
        core.ring_head = (core.ring_head + 1) & core.ring_mask
        core.ring_count -= 1
        slot = slot_at(core, index)
        if slot.state == ZOMBIE:
            core_free_zombie(core, index)
        elif slot.flags & JOB:
            job_put_back(core, index)
        elif slot.record:
            # Its node for the slot after this one goes stale; the grid counts on from this one, and so do the
            # slots that were coalesced behind it.
            record = record_at(core, slot.record)
            record.waiting = 0
            passed = (slot.when - record.waiting_when) // record.period - 1
            if passed > 0:               # not if the next slot is never
                record.coalesced -= passed
                core.coalesced -= passed
            slot.when = record.waiting_when
            slot.tie = record.waiting_tie
            heap_push(&core.heap, slot.when, slot.tie)
            core.stale += 1
        else:
            slot.state = PENDING
            heap_push(&core.heap, slot.when, slot.tie)
            core.outside -= 1
    core.ring_head = 0
    job_put_backlogs_back(core)
    core_bound_stale(core)


cdef int64_t core_next_due(Core *core) noexcept nogil:
    """When the earliest timer is due, queued ones included; NEVER if none ever is."""
    cdef uint32_t i, index
    cdef int64_t due = NEVER
    cdef Slot *slot
    assert_held(&core.mutex)
    for i in range(core.ring_count):
        index = core.ring[(core.ring_head + i) & core.ring_mask]
        slot = slot_at(core, index)
        if slot.state == ZOMBIE:
            continue
        if slot.flags & JOB:
            due = job_next_due(core, slot)
        else:
            due = record_at(core, slot.record).waiting_when if slot.record else slot.when
        break
    core_prune(core)                     # a run that was asked for may be due later than what is late in the heap
    return min(due, first_due(core))


cdef void core_abandon_runs(Core *core) noexcept nogil:
    """In the child of a fork: forgets runs whose threads are the parent's.

    What repeats is pending again; single commands are left to `core_forget_orphans`.
    """
    cdef uint32_t index
    cdef Slot *slot
    assert_held(&core.mutex)
    core.running = 0
    for index in range(1, core.slots.top):
        slot = slot_at(core, index)
        if slot.flags & JOB:
            job_abandon(core, index)
        elif slot.state == PENDING and slot.record:
            record_at(core, slot.record).active = 0
        elif slot.state == HELD or (slot.state == RUNNING and slot.flags & REPEATS):
            core.live += slot.state == RUNNING
            slot.state = PENDING
            heap_push(&core.heap, slot.when, slot.tie)
            core.outside -= 1
    for index in range(1, core.keys.entries.top):
        keys_at(&core.keys, index).running = 0
        keys_at(&core.keys, index).held = 0
