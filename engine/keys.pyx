"""The cancellation table.  See keys.pxd.

Every function is called with the engine's mutex held.  `keys_find` needs the
GIL besides and may release and retake the mutex; the others are plain C.
All are O(1) on average.
"""

from cpython.bytes cimport PyBytes_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_EQ, PyObject_RichCompareBool, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdlib cimport free

from .interpreter cimport type_of
from .memory cimport allocate_large, allocate_zeroed
from .platform cimport LARGE, LARGE_PAGE, assert_free, assert_held, large_free, lock, unlock
from .slab cimport slab_free, slab_give, slab_init, slab_reserve, slab_room, slab_take

cdef enum:
    LEAST_PLACES = 64
    LARGEST_IN_PAGE = 1 << 18        # places that one large page holds


cdef void keys_init(KeyTable *table) noexcept nogil:
    cdef KeyEntry entry
    slab_init(&table.entries, sizeof(KeyEntry), <uint32_t>(<char *>&entry.slot - <char *>&entry))
    table.tags = NULL
    table.indices = NULL
    table.mask = table.used = table.count = 0
    table.version = 0


cdef size_t bytes_of(size_t places) noexcept nogil:
    """What tags and indices of so many places take together."""
    cdef size_t size = places * (sizeof(uint8_t) + sizeof(uint32_t))
    return size if size < LARGE else (size + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE


cdef void release(uint8_t *tags, size_t places) noexcept nogil:
    if bytes_of(places) < LARGE:
        free(tags)
    else:
        large_free(tags, bytes_of(places))


cdef void keys_free(KeyTable *table) noexcept nogil:
    """Frees the table; the keys' references must have been taken before."""
    slab_free(&table.entries)
    if table.tags != NULL:
        release(table.tags, <size_t>table.mask + 1)
    keys_init(table)


cdef inline uint8_t tag_of(uint64_t spread_hash) noexcept nogil:
    """Eight bits of the hash that the place does not depend on, as one of the 254 tags of a key."""
    cdef uint8_t tag = <uint8_t>(spread_hash >> 24)
    return tag if tag > DELETED_TAG else tag + 2


cdef inline void put(KeyTable *table, uint32_t index, Py_hash_t hash) noexcept nogil:
    """Enters a key that is not there in the first place that is free; there is one."""
    cdef uint64_t spread_hash = spread(hash)
    cdef uint32_t place = home_of(table, spread_hash)
    while table.tags[place] > DELETED_TAG:
        place = (place + 1) & table.mask
    table.used += table.tags[place] == EMPTY_TAG
    table.tags[place] = tag_of(spread_hash)
    table.indices[place] = index


cdef int rebuild(KeyTable *table, size_t places) noexcept nogil:
    """Gives the table so many places, none of them deleted; -1, with nothing changed, if there is no memory."""
    cdef size_t size = bytes_of(places)
    cdef size_t old_places = <size_t>table.mask + 1
    cdef uint8_t *old_tags = table.tags
    cdef uint8_t *tags = <uint8_t *>(allocate_zeroed(1, size) if size < LARGE else allocate_large(size))
    cdef uint32_t index
    cdef KeyEntry *entry
    if tags == NULL:
        return -1
    table.tags = tags
    table.indices = <uint32_t *>(tags + places)
    table.mask = <uint32_t>(places - 1)
    table.used = 0
    table.version += 1
    for index in range(1, table.entries.top):
        entry = keys_at(table, index)
        if entry.key != NULL:
            put(table, index, entry.hash)
    if old_tags != NULL:
        release(old_tags, old_places)
    return 0


cdef int keys_reserve(KeyTable *table) noexcept nogil:
    """Makes room for one more entry: 0, -1 (no memory) or -2 (too many keys)."""
    cdef int failure
    cdef size_t places
    if table.entries.chunk_count == 0 or slab_room(&table.entries) == 0:
        failure = slab_reserve(&table.entries, 1)
        if failure:
            return failure
    if table.tags == NULL:
        return rebuild(table, LEAST_PLACES)
    places = <size_t>table.mask + 1
    if 2 * <size_t>table.used < places:
        return 0
    if 4 * <size_t>table.count >= places:         # else half of the places that are used are deleted ones
        places *= 2
        if bytes_of(places) == LARGE_PAGE:
            places = LARGEST_IN_PAGE
    return rebuild(table, places)


cdef inline bint compares_in_c(PyObject *a, PyObject *b) noexcept:
    """Whether comparing the two runs no foreign code and allocates nothing."""
    return Py_TYPE(<object>a) is Py_TYPE(<object>b) and (
        PyUnicode_CheckExact(<object>a) or PyLong_CheckExact(<object>a) or PyBytes_CheckExact(<object>a)
    )


cdef inline bint are_equal_in_c(PyObject *a, PyObject *b) noexcept:
    """Of two that `compares_in_c`: as their type does it, since `PyObject_RichCompare` raises if no stack is left."""
    cdef PyObject *answer = type_of(a).tp_richcompare(a, b, Py_EQ)
    cdef bint equal = <object>answer is True
    Py_XDECREF(answer)                   # True or False, which stay
    return equal


cdef int keys_find(KeyTable *table, Mutex *mutex, PyObject *key, Py_hash_t hash, uint32_t *found) except -1:
    """Stores the index of the key's entry, or 0, in `found`.

    Returns with the mutex held, unless a key's `__eq__` raised: then with the exception and the mutex free.
    The answer is true at the moment of the return, however often foreign code changed the table before.
    """
    cdef uint64_t spread_hash = spread(hash)
    cdef uint8_t tag = tag_of(spread_hash)
    cdef uint32_t place = home_of(table, spread_hash)
    cdef uint64_t version
    cdef KeyEntry *entry
    cdef PyObject *other
    cdef int equal
    assert_held(mutex)
    found[0] = 0
    while table.count and table.tags[place] != EMPTY_TAG:
        if table.tags[place] == tag:
            entry = keys_at(table, table.indices[place])
            other = entry.key
            if entry.hash != hash:
                equal = False
            elif other is key:
                equal = True
            elif compares_in_c(other, key):
                equal = are_equal_in_c(other, key)
            else:
                version = table.version
                Py_INCREF(<object>other)
                unlock(mutex)
                assert_free(mutex)
                try:
                    equal = PyObject_RichCompareBool(<object>other, <object>key, Py_EQ)
                finally:
                    Py_DECREF(<object>other)
                lock(mutex)
                if table.version != version:
                    place = home_of(table, spread_hash)
                    continue
            if equal:
                found[0] = table.indices[place]
                return 0
        place = (place + 1) & table.mask
    return 0


cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil:
    """Adds a key that is not there and whose reference the caller has taken; `keys_reserve` came before."""
    cdef uint32_t index = slab_take(&table.entries)
    cdef KeyEntry *entry = keys_at(table, index)
    entry.key = key
    entry.hash = hash
    entry.slot = entry.held = 0
    entry.running = 0
    put(table, index, hash)
    table.count += 1
    table.version += 1
    return index


cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil:
    """Removes an entry and returns its key, whose reference is now the caller's to release, outside the mutex."""
    cdef KeyEntry *entry = keys_at(table, index)
    cdef PyObject *key = entry.key
    cdef uint32_t mask = table.mask
    cdef uint64_t spread_hash = spread(entry.hash)
    cdef uint8_t tag = tag_of(spread_hash)
    cdef uint32_t place = home_of(table, spread_hash)
    while table.tags[place] != tag or table.indices[place] != index:
        place = (place + 1) & mask
    # A place that no search must cross is empty again, and with it the deleted ones before it.
    table.tags[place] = DELETED_TAG
    if table.tags[(place + 1) & mask] == EMPTY_TAG:
        while table.tags[place] == DELETED_TAG:
            table.tags[place] = EMPTY_TAG
            table.used -= 1
            place = (place - 1) & mask
    entry.key = NULL
    slab_give(&table.entries, index)
    table.count -= 1
    table.version += 1
    return key


cdef int refuse_key() except -1:
    """Makes a TypeError of a key's `__hash__`, which is the current exception, one that names the argument."""
    try:
        raise_current()
    except TypeError as error:
        raise TypeError(f"key must be hashable: {error}") from error
    return 0


cdef int raise_current() except? -1:
    return -1
