"""See owner.pxd.

A core's slots are invisible to the collector, so `_Core` shows them: its traverse and clear functions are wrapped, the
generated ones called first.  It is final, since a subclass made by Cython would bypass the wrappers.

With the owner goes everything that it owns, so from then on C code that still counts on the core can add nothing.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from .core cimport JOB, NATIVE, Core, References, Slot, core_new, core_release, drop, job_at, slot_at
from .interpreter cimport ClearFunction, TraverseFunction, TypeSlots, VisitFunction
from .invariants cimport core_watch
from .keys cimport keys_at
from .natives cimport Native, native_detach, native_release
from .platform cimport lock, unlock
from .slab cimport CHUNK_ITEMS
from .timers cimport core_detach


@cython.final
cdef class _Core:
    """Owner of the references in a `Core`'s slots, for the sake of the garbage collector."""

    def __cinit__(self):
        self.c = core_new()
        if self.c == NULL:
            raise MemoryError
        core_watch(self.c)

    def __dealloc__(self):
        if self.c != NULL:               # there was memory for it
            lock(&self.c.mutex)
            self.c.gone = True
            unlock(&self.c.mutex)
            drop_everything(self.c)
            core_release(self.c)


cdef void drop_everything(Core *core) noexcept:
    """Cancels all timers, one at a time, since each destructor may add or cancel some.  No mutex held."""
    cdef References garbage
    cdef Native native
    cdef uint32_t index = 1
    cdef bint found, is_native
    while True:
        lock(&core.mutex)
        while index < core.slots.top and slot_at(core, index).callback == NULL:
            index += 1
        found = index < core.slots.top
        is_native = found and slot_at(core, index).flags & NATIVE
        if is_native:
            native_detach(core, index, &native)
        elif found:
            core_detach(core, index, False, &garbage)
        unlock(&core.mutex)
        if not found:
            return
        if is_native:
            native_release(&native)
        else:
            drop(&garbage)


cdef TraverseFunction traverse_members = (<TypeSlots *>_Core).tp_traverse
cdef ClearFunction clear_members = (<TypeSlots *>_Core).tp_clear


cdef int traverse(PyObject *self, VisitFunction visit, void *argument) noexcept:
    """Visits every reference in slots and keys.

    Slots that hold references change only under the GIL, which the collector holds, but those of C functions at any
    time, and a table may grow for them: hence the mutex.  It is given back now and then.
    """
    cdef Core *core = (<_Core>self).c
    cdef PyObject *key
    cdef uint32_t i = 1
    cdef bint more = core != NULL
    cdef int result = traverse_members(self, visit, argument)
    while more and not result:
        lock(&core.mutex)
        result = traverse_slots(core, i, visit, argument)
        i += CHUNK_ITEMS
        more = i < core.slots.top
        unlock(&core.mutex)
    if core == NULL:
        return result
    if result:
        return result
    for i in range(1, core.keys.entries.top):
        key = keys_at(&core.keys, i).key
        if key != NULL:
            result = visit(key, argument)
            if result:
                return result
    return 0


cdef int traverse_slots(Core *core, uint32_t begin, VisitFunction visit, void *argument) noexcept:
    """Visits the references of CHUNK_ITEMS slots.  The mutex is held: what `visit` does is the collector's own code."""
    cdef Slot *slot
    cdef uint32_t i
    cdef int result
    for i in range(begin, min(begin + CHUNK_ITEMS, core.slots.top)):
        slot = slot_at(core, i)
        if slot.callback == NULL or slot.flags & NATIVE:
            continue
        result = visit(slot.callback, argument)
        if not result and slot.receiver != NULL:
            result = visit(slot.receiver, argument)
        if not result and slot.arguments != NULL:
            result = visit(slot.arguments, argument)
        if not result and slot.flags & JOB and job_at(core, slot.record).schedule != NULL:
            result = visit(job_at(core, slot.record).schedule.owner, argument)
        if result:
            return result
    return 0


cdef int clear(PyObject *self) noexcept:
    cdef Core *core = (<_Core>self).c
    if core != NULL:
        drop_everything(core)
    return clear_members(self)


(<TypeSlots *>_Core).tp_traverse = traverse
(<TypeSlots *>_Core).tp_clear = clear
