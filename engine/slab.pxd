"""Fixed-size items in chunks that never move, addressed by 24-bit index; 0 means none.

An item is taken and given back in O(1).  Taking cannot fail after a
`slab_reserve`, which is the only function here that allocates.  Chunks are
kept until `slab_free`: a table that once held a million items can hold them again.
"""

from libc.stdint cimport uint32_t


cdef enum:
    CHUNK_BITS = 12
    CHUNK_ITEMS = 1 << CHUNK_BITS
    ARENA_CHUNKS = 64            # chunks that come from the system together ...
    SINGLE_CHUNKS = 2            # ... once this many have come singly; items are of a multiple of 8 bytes

cdef struct Slab:
    char **chunks
    uint32_t chunk_count
    uint32_t chunk_room          # pointers that `chunks` has room for
    uint32_t item_size
    uint32_t link_offset         # where a free item keeps the index of the next free one
    uint32_t top                 # items [1, top) were taken at least once; 1 in an empty slab, so that 0 means none
    uint32_t free_head
    uint32_t free_count


cdef inline void *slab_at(const Slab *slab, uint32_t index) noexcept nogil:
    return slab.chunks[index >> CHUNK_BITS] + <size_t>(index & (CHUNK_ITEMS - 1)) * slab.item_size


cdef inline uint32_t slab_room(const Slab *slab) noexcept nogil:
    """How many items can be taken without a further reserve."""
    return slab.free_count + slab.chunk_count * CHUNK_ITEMS - slab.top


cdef inline uint32_t *slab_link(const Slab *slab, uint32_t index) noexcept nogil:
    return <uint32_t *>(<char *>slab_at(slab, index) + slab.link_offset)


cdef inline uint32_t slab_take(Slab *slab) noexcept nogil:
    cdef uint32_t index = slab.free_head
    if index:
        slab.free_head = slab_link(slab, index)[0]
        slab.free_count -= 1
    else:
        index = slab.top
        slab.top += 1
    return index


cdef inline void slab_give(Slab *slab, uint32_t index) noexcept nogil:
    slab_link(slab, index)[0] = slab.free_head
    slab.free_head = index
    slab.free_count += 1


cdef void slab_init(Slab *slab, uint32_t item_size, uint32_t link_offset) noexcept nogil
cdef void slab_free(Slab *slab) noexcept nogil
cdef int slab_reserve(Slab *slab, size_t count) noexcept nogil
