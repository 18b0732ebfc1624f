"""The slot table at work: adding, replacing, cancelling, and the order of submission.

`core_*` functions are called with the core's mutex held, unless their docstring says otherwise.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Core, Entry, References, Slot


cdef int core_reserve(Core *core, size_t slots, size_t records) noexcept nogil
cdef int raise_shortage(int failure) except -1
cdef uint32_t core_place(Core *core, const Entry *entry, uint32_t key) noexcept
cdef uint32_t core_enter(Core *core, const Entry *entry, uint32_t key) noexcept nogil
cdef bint core_add(
    Core *core, const Entry *entry, uint32_t *index, uint32_t *generation, References *garbage
) except -1
cdef void core_detach(Core *core, uint32_t index, bint keep_key, References *garbage) noexcept nogil
cdef bint core_cancel(Core *core, uint32_t index, uint32_t generation, int64_t *when) noexcept
cdef int core_cancel_key(Core *core, object key) except -1
cdef void core_forget_orphans(Core *core) noexcept
cdef void core_keep_order(Core *core) noexcept nogil
cdef uint64_t core_next_tie(Core *core, uint32_t index) noexcept nogil
cdef void core_renumber(Core *core) noexcept nogil
cdef void core_free_slot(Core *core, uint32_t index, Slot *slot) noexcept nogil
cdef void core_free_zombie(Core *core, uint32_t index) noexcept nogil
cdef void core_leave_ring(Core *core, uint32_t index) noexcept nogil
cdef void core_drop_stale(Core *core) noexcept nogil
cdef void core_bound_stale(Core *core) noexcept nogil
