"""See slab.pxd."""

from libc.stdlib cimport calloc, free, realloc

from .heap cimport SLOT_LIMIT


cdef void slab_init(Slab *slab, uint32_t item_size, uint32_t link_offset) noexcept nogil:
    slab.chunks = NULL
    slab.chunk_count = slab.chunk_room = 0
    slab.item_size = item_size
    slab.link_offset = link_offset
    slab.top = 1
    slab.free_head = slab.free_count = 0


cdef void slab_free(Slab *slab) noexcept nogil:
    cdef uint32_t i
    for i in range(slab.chunk_count):
        free(slab.chunks[i])
    free(slab.chunks)
    slab_init(slab, slab.item_size, slab.link_offset)


cdef int slab_reserve(Slab *slab, size_t count) noexcept nogil:
    """Makes `count` items ready to be taken.

    0; -1 if there is no memory, -2 if indices would outgrow 24 bits: then nothing has changed
    but chunks that a later call can use.
    """
    cdef void *memory
    cdef uint32_t room
    cdef size_t taken = slab.top - slab.free_count
    if count > SLOT_LIMIT or taken + count > SLOT_LIMIT:
        return -2
    while slab.chunk_count == 0 or slab_room(slab) < count:
        if slab.chunk_count * CHUNK_ITEMS >= SLOT_LIMIT:
            return -2
        if slab.chunk_count == slab.chunk_room:
            room = 2 * slab.chunk_room if slab.chunk_room else 8
            memory = realloc(slab.chunks, room * sizeof(char *))
            if memory == NULL:
                return -1
            slab.chunks = <char **>memory
            slab.chunk_room = room
        memory = calloc(CHUNK_ITEMS, slab.item_size)
        if memory == NULL:
            return -1
        slab.chunks[slab.chunk_count] = <char *>memory
        slab.chunk_count += 1
    return 0


cdef inline uint32_t *link_of(const Slab *slab, uint32_t index) noexcept nogil:
    return <uint32_t *>(<char *>slab_at(slab, index) + slab.link_offset)


cdef uint32_t slab_take(Slab *slab) noexcept nogil:
    cdef uint32_t index = slab.free_head
    if index:
        slab.free_head = link_of(slab, index)[0]
        slab.free_count -= 1
    else:
        index = slab.top
        slab.top += 1
    return index


cdef void slab_give(Slab *slab, uint32_t index) noexcept nogil:
    link_of(slab, index)[0] = slab.free_head
    slab.free_head = index
    slab.free_count += 1
