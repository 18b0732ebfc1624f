"""See wakes.pxd."""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, first_due, saturating_add, slot_at
from .heap cimport SLOT_MASK, Node, heap_pop
from .platform cimport assert_held, condition_signal


cdef void core_prune(Core *core) noexcept nogil:
    """Drops stale nodes from the top, so that the root is a live timer."""
    cdef Node *root
    assert_held(&core.mutex)
    while core.heap.size:
        root = &core.heap.nodes[0]
        if slot_at(core, <uint32_t>(root.tie & SLOT_MASK)).tie == root.tie:
            return
        heap_pop(&core.heap)
        core.stale -= 1


cdef void core_attend(Core *core, int64_t when) noexcept nogil:
    """Sees to it that somebody is there at `when`: where no daemon worker leads or looks by then, one is called."""
    assert_held(&core.mutex)
    if core.led or core.heir:
        return
    if not core.parked:
        if core.aside_until > saturating_add(when, ASIDE_NS):
            condition_signal(&core.aside)          # all workers are inside callbacks
    elif core.deputy_until > when and not (core.outgoing or core.standing_in):
        core.heir = True
        condition_signal(&core.condition)


cdef bint core_sleeps_too_long(Core *core) noexcept nogil:
    """Whether somebody sleeps past the first timer of the heap, and must be woken by the caller."""
    assert_held(&core.mutex)
    core_prune(core)
    return core_wants_wake(core, first_due(core))
