"""See natives.pxd.  Nothing here needs the GIL."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport (
    NATIVE,
    NO_ARGUMENTS,
    NO_REPEAT,
    STARTED,
    Core,
    Entry,
    References,
    Run,
    Runner,
    Slot,
    before_foreign_code,
    record_at,
    slot_at,
)
from .heap cimport SLOT_BITS, SLOT_MASK, heap_pop
from .platform cimport assert_held, lock, monotonic_ns, unlock
from .runs cimport core_finish, core_tick
from .starts cimport begin_run
from .timers cimport core_detach, core_enter, core_free_slot, core_reserve
from .waiters cimport core_notify
from .wakes cimport core_prune, core_wants_wake


cdef enum:
    GONE = -4                        # as in capi.pxd; shortages are -1 and -2 everywhere


# -- adding and cancelling ------------------------------------------------------------------------------------------

cdef int64_t native_add(
    Core *core, Function function, void *argument, Function release, int64_t when, int64_t period, bint *wake
) noexcept nogil:
    """Adds a timer: its id, > 0; or < 0, with nothing changed, if there is no room or no owner.  No mutex held.

    `period` 0: one-shot.  `wake`: whether the caller must wake the loop.
    """
    cdef Entry entry
    cdef int failure
    cdef uint32_t index
    cdef int64_t id
    entry.callback = <PyObject *><void *>function
    entry.receiver = <PyObject *>argument
    entry.arguments = <PyObject *><void *>release
    entry.key = NULL
    entry.when = when
    entry.period = period
    entry.layout = NO_ARGUMENTS
    entry.flags = NATIVE
    wake[0] = False
    lock(&core.mutex)
    failure = GONE if core.gone else core_reserve(core, 1, period != 0)
    if failure:
        unlock(&core.mutex)
        return failure
    index = core_enter(core, &entry, 0)
    core.natives += 1
    id = <int64_t>(<uint64_t>slot_at(core, index).generation << SLOT_BITS | index)
    wake[0] = core_wants_wake(core, when)
    unlock(&core.mutex)
    return id


cdef bint native_cancel(Core *core, int64_t id) noexcept nogil:
    """Cancels a timer: whether it was there.  No mutex held."""
    cdef Native native
    cdef Slot *slot
    cdef uint32_t index = <uint32_t>(id & <int64_t>SLOT_MASK)
    cdef bint found
    if id <= 0 or index == 0:
        return False
    lock(&core.mutex)
    found = index < core.slots.top
    if found:
        slot = slot_at(core, index)
        found = slot.generation == <uint64_t>id >> SLOT_BITS and slot.flags & NATIVE and slot.callback != NULL
    if found:
        native_detach(core, index, &native)
    unlock(&core.mutex)
    if found:
        core_notify(core)
        native_release(&native)
    return found


cdef void native_detach(Core *core, uint32_t index, Native *native) noexcept nogil:
    """Cancels a live timer.  `native` is to be released outside of the mutex, which is held."""
    cdef Slot *slot = slot_at(core, index)
    cdef bint runs = slot.record != 0 and record_at(core, slot.record).active
    cdef References pointers
    assert_held(&core.mutex)
    core.natives -= 1
    core_detach(core, index, False, &pointers)
    native.argument = <void *>pointers.receiver
    native.release = NULL if runs else <Function><void *>pointers.arguments      # who runs it will see to it


cdef void native_release(const Native *native) noexcept nogil:
    """Releases an argument.  No mutex held."""
    before_foreign_code()
    if native.release != NULL:
        native.release(native.argument)


# -- calling --------------------------------------------------------------------------------------------------------

cdef bint native_first(const Core *core) noexcept nogil:
    """Whether the first of the heap, which has no stale nodes on top, is a C function's.  The mutex is held."""
    return (core.heap.size != 0
            and slot_at(core, <uint32_t>(core.heap.nodes[0].tie & SLOT_MASK)).flags & NATIVE != 0)


cdef bint native_due(Core *core, int64_t now) noexcept nogil:
    """Whether the first of the heap is a C function's, and due.  The mutex is held."""
    assert_held(&core.mutex)
    core_prune(core)
    return core.heap.size != 0 and core.heap.nodes[0].when <= now and native_first(core)


cdef bint native_take(Core *core, int64_t now, Run *run) noexcept nogil:
    """Starts the C function that is first in the heap, if it is due by `now`: whether it is.  The mutex is held."""
    cdef uint32_t index
    cdef Slot *slot
    cdef int64_t due
    cdef uint64_t tie
    assert_held(&core.mutex)
    while native_due(core, now):
        index = <uint32_t>(core.heap.nodes[0].tie & SLOT_MASK)
        slot = slot_at(core, index)
        run.slot = index
        run.periodic = slot.record != 0
        if run.periodic:
            if not core_tick(core, index, now, &due, &tie):
                continue                 # coalesced; another may be first now
            begin_run(core, slot, run, due, now)
            record_at(core, slot.record).active = 1
            return True
        heap_pop(&core.heap)
        begin_run(core, slot, run, slot.when, now)
        core.live -= 1
        core.natives -= 1
        slot.callback = slot.receiver = slot.arguments = NULL
        core_free_slot(core, index, slot)
        return True
    return False


cdef inline void release_argument(const Run *run) noexcept nogil:
    cdef Native native
    native.argument = <void *>run.references.receiver
    native.release = <Function><void *>run.references.arguments
    native_release(&native)


cdef void native_call(const Run *run) noexcept nogil:
    """Calls the function, and releases the argument of a one-shot.  No mutex held."""
    before_foreign_code()
    (<Function><void *>run.references.callback)(<void *>run.references.receiver)
    if not run.periodic:
        release_argument(run)


cdef void native_end(Core *core, Run *run, int64_t now, uint32_t forks) noexcept nogil:
    """Ends a run at `now`; `forks`: those of the core when it began.  The mutex is held, and may be given back."""
    cdef References nothing
    assert_held(&core.mutex)
    if run.periodic and slot_at(core, run.slot).generation != run.generation:
        unlock(&core.mutex)              # cancelled while it ran
        release_argument(run)
        lock(&core.mutex)
    if core.forks == forks:              # else the run was the parent's, and this child's core has forgotten it
        core_finish(core, run, now, NO_REPEAT, &nothing)


cdef size_t natives_run(Core *core, uint32_t epoch, int64_t now, Runner *runner) noexcept nogil:
    """Calls what is due and first in the heap, one function after the other, TURN at most; how many.

    `runner`: that of this thread.  The mutex is held, and given back meanwhile.  The clock is the system's.
    """
    cdef Run run
    cdef size_t called = 0
    cdef uint32_t forks = core.forks
    assert_held(&core.mutex)
    while called < TURN and core.epoch == epoch and core.phase == STARTED and native_take(core, now, &run):
        runner.job = 0
        runner.calling = True
        unlock(&core.mutex)
        native_call(&run)
        now = monotonic_ns()
        lock(&core.mutex)
        native_end(core, &run, now, forks)
        runner.calling = False
        called += 1
    if called and core.waiters != NULL:
        unlock(&core.mutex)
        core_notify(core)
        lock(&core.mutex)
    return called
