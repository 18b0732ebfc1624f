"""See slab.pxd."""

from libc.stdlib cimport free

from .heap cimport SLOT_LIMIT
from .memory cimport allocate_large, allocate_zeroed, reallocate
from .platform cimport large_free


cdef void slab_init(Slab *slab, uint32_t item_size, uint32_t link_offset) noexcept nogil:
    slab.chunks = NULL
    slab.chunk_count = slab.chunk_room = 0
    slab.item_size = item_size
    slab.link_offset = link_offset
    slab.top = 1
    slab.free_head = slab.free_count = 0


cdef inline size_t arena_size(const Slab *slab) noexcept nogil:
    return <size_t>slab.item_size * CHUNK_ITEMS * ARENA_CHUNKS


cdef void slab_free(Slab *slab) noexcept nogil:
    cdef uint32_t i = 0
    while i < slab.chunk_count:
        if i < SINGLE_CHUNKS:
            free(slab.chunks[i])
            i += 1
        else:
            large_free(slab.chunks[i], arena_size(slab))
            i += ARENA_CHUNKS
    free(slab.chunks)
    slab_init(slab, slab.item_size, slab.link_offset)


cdef int slab_reserve(Slab *slab, size_t count) noexcept nogil:
    """Makes `count` items ready to be taken.

    0; -1 if there is no memory, -2 if indices would outgrow 24 bits: then nothing has changed
    but chunks that a later call can use.
    """
    cdef void *memory
    cdef uint32_t room, chunks, i
    cdef size_t taken = slab.top - slab.free_count
    if count > SLOT_LIMIT or taken + count > SLOT_LIMIT:
        return -2
    while slab.chunk_count == 0 or slab_room(slab) < count:
        chunks = 1 if slab.chunk_count < SINGLE_CHUNKS else ARENA_CHUNKS
        if slab.chunk_count + chunks > slab.chunk_room:
            room = 2 * slab.chunk_room + chunks
            memory = reallocate(slab.chunks, room * sizeof(char *))
            if memory == NULL:
                return -1
            slab.chunks = <char **>memory
            slab.chunk_room = room
        memory = allocate_zeroed(CHUNK_ITEMS, slab.item_size) if chunks == 1 else allocate_large(arena_size(slab))
        if memory == NULL:
            return -1
        for i in range(chunks):
            slab.chunks[slab.chunk_count + i] = <char *>memory + <size_t>i * slab.item_size * CHUNK_ITEMS
        # The last arena may be longer than what 24 bits can address.
        slab.chunk_count = min(slab.chunk_count + chunks, SLOT_LIMIT // <uint32_t>CHUNK_ITEMS)
    return 0
