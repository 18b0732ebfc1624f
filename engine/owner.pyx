"""See owner.pxd.

A core's slots are invisible to the collector, so `_Core` shows them: its traverse and clear functions are wrapped, the
generated ones called first.  It is final, since a subclass made by Cython would bypass the wrappers.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from .core cimport JOB, Core, References, Slot, core_new, core_release, drop, job_at, slot_at
from .interpreter cimport ClearFunction, TraverseFunction, TypeSlots, VisitFunction
from .keys cimport keys_at
from .platform cimport lock, unlock
from .timers cimport core_detach


@cython.final
cdef class _Core:
    """Owner of the references in a `Core`'s slots, for the sake of the garbage collector."""

    def __cinit__(self):
        self.c = core_new()
        if self.c == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.c != NULL:               # there was memory for it
            drop_everything(self.c)
            core_release(self.c)


cdef void drop_everything(Core *core) noexcept:
    """Cancels all timers, one at a time, since each destructor may add or cancel some.  No mutex held."""
    cdef References garbage
    cdef uint32_t index = 1
    cdef bint found
    while True:
        lock(&core.mutex)
        while index < core.slots.top and slot_at(core, index).callback == NULL:
            index += 1
        found = index < core.slots.top
        if found:
            core_detach(core, index, False, &garbage)
        unlock(&core.mutex)
        if not found:
            return
        drop(&garbage)


cdef TraverseFunction traverse_members = (<TypeSlots *>_Core).tp_traverse
cdef ClearFunction clear_members = (<TypeSlots *>_Core).tp_clear


cdef int traverse(PyObject *self, VisitFunction visit, void *argument) noexcept:
    """Visits every reference in slots and keys.

    Needs no mutex: the pointers change only under the GIL, which the collector holds.
    """
    cdef Core *core = (<_Core>self).c
    cdef Slot *slot
    cdef PyObject *key
    cdef uint32_t i
    cdef int result = traverse_members(self, visit, argument)
    if result or core == NULL:
        return result
    for i in range(1, core.slots.top):
        slot = slot_at(core, i)
        if slot.callback == NULL:
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
    for i in range(1, core.keys.entries.top):
        key = keys_at(&core.keys, i).key
        if key != NULL:
            result = visit(key, argument)
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
