"""The cancellation table.  See keys.pxd.

Every function is called with the engine's mutex held.  `keys_find` needs the
GIL besides and may release and retake the mutex; the others are plain C.
All are O(1) on average.
"""

from cpython.bytes cimport PyBytes_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_EQ, PyObject_RichCompareBool, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdlib cimport calloc, free

from .platform cimport LARGE, large_alloc, large_free, lock, unlock
from .slab cimport slab_free, slab_give, slab_init, slab_reserve, slab_room, slab_take

cdef enum:
    LEAST_BUCKETS = 64


cdef void keys_init(KeyTable *table) noexcept nogil:
    cdef KeyEntry *origin = NULL
    slab_init(&table.entries, sizeof(KeyEntry), <uint32_t><size_t>&origin.slot)
    table.buckets = NULL
    table.mask = table.count = 0
    table.version = 0


cdef KeyBucket *allocate(size_t count) noexcept nogil:
    cdef size_t size = count * sizeof(KeyBucket)
    return <KeyBucket *>(calloc(1, size) if size < LARGE else large_alloc(size))


cdef void release(KeyBucket *buckets, size_t count) noexcept nogil:
    cdef size_t size = count * sizeof(KeyBucket)
    if size < LARGE:
        free(buckets)
    else:
        large_free(buckets, size)


cdef void keys_free(KeyTable *table) noexcept nogil:
    """Frees the table; the keys' references must have been taken before."""
    slab_free(&table.entries)
    if table.buckets != NULL:
        release(table.buckets, <size_t>table.mask + 1)
    table.buckets = NULL
    table.count = 0


cdef inline void put(KeyBucket *buckets, uint32_t mask, KeyBucket bucket) noexcept nogil:
    cdef uint32_t place = bucket.tag & mask
    while buckets[place].index:
        place = (place + 1) & mask
    buckets[place] = bucket


cdef int keys_reserve(KeyTable *table) noexcept nogil:
    """Makes room for one more entry: 0, -1 (no memory) or -2 (too many keys)."""
    cdef int failure
    cdef size_t old_count = <size_t>table.mask + 1 if table.buckets != NULL else 0
    cdef size_t count, i
    cdef KeyBucket *wider
    if table.entries.chunk_count == 0 or slab_room(&table.entries) == 0:
        failure = slab_reserve(&table.entries, 1)
        if failure:
            return failure
    if 2 * <size_t>table.count < old_count:
        return 0
    count = 2 * old_count if old_count else LEAST_BUCKETS
    wider = allocate(count)
    if wider == NULL:
        return -1
    for i in range(old_count):
        if table.buckets[i].index:
            put(wider, <uint32_t>(count - 1), table.buckets[i])
    if old_count:
        release(table.buckets, old_count)
    table.buckets = wider
    table.mask = <uint32_t>(count - 1)
    table.version += 1
    return 0


cdef inline bint compares_in_c(PyObject *a, PyObject *b) noexcept:
    """Whether comparing the two runs no foreign code and allocates nothing."""
    return Py_TYPE(<object>a) is Py_TYPE(<object>b) and (
        PyUnicode_CheckExact(<object>a) or PyLong_CheckExact(<object>a) or PyBytes_CheckExact(<object>a)
    )


cdef int keys_find(KeyTable *table, Mutex *mutex, PyObject *key, Py_hash_t hash, uint32_t *found) except -1:
    """Stores the index of the key's entry, or 0, in `found`.

    Returns with the mutex held, unless a key's `__eq__` raised: then with the exception and the mutex free.
    The answer is true at the moment of the return, however often foreign code changed the table before.
    """
    cdef uint32_t tag = tag_of(hash)
    cdef uint32_t place = tag & table.mask
    cdef uint64_t version
    cdef KeyEntry *entry
    cdef PyObject *other
    cdef int equal
    found[0] = 0
    while table.count and table.buckets[place].index:
        if table.buckets[place].tag == tag:
            entry = keys_at(table, table.buckets[place].index)
            other = entry.key
            if entry.hash != hash:
                equal = False
            elif other is key:
                equal = True
            elif compares_in_c(other, key):
                equal = PyObject_RichCompareBool(<object>other, <object>key, Py_EQ)
            else:
                version = table.version
                Py_INCREF(<object>other)
                unlock(mutex)
                try:
                    equal = PyObject_RichCompareBool(<object>other, <object>key, Py_EQ)
                finally:
                    Py_DECREF(<object>other)
                lock(mutex)
                if table.version != version:
                    place = tag & table.mask
                    continue
            if equal:
                found[0] = table.buckets[place].index
                return 0
        place = (place + 1) & table.mask
    return 0


cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil:
    """Adds a key that is not there and whose reference the caller has taken; `keys_reserve` came before."""
    cdef uint32_t index = slab_take(&table.entries)
    cdef KeyEntry *entry = keys_at(table, index)
    cdef KeyBucket bucket
    entry.key = key
    entry.hash = hash
    entry.slot = entry.held = 0
    entry.running = 0
    bucket.tag = tag_of(hash)
    bucket.index = index
    put(table.buckets, table.mask, bucket)
    table.count += 1
    table.version += 1
    return index


cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil:
    """Removes an entry and returns its key, whose reference is now the caller's to release, outside the mutex."""
    cdef KeyEntry *entry = keys_at(table, index)
    cdef PyObject *key = entry.key
    cdef KeyBucket *buckets = table.buckets
    cdef uint32_t mask = table.mask
    cdef uint32_t hole = tag_of(entry.hash) & mask
    cdef uint32_t place, home
    while buckets[hole].index != index:
        hole = (hole + 1) & mask
    # No tombstones: whoever stands behind the hole and may stand in it moves up (Knuth's algorithm R).
    place = hole
    while True:
        place = (place + 1) & mask
        if buckets[place].index == 0:
            break
        home = buckets[place].tag & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            buckets[hole] = buckets[place]
            hole = place
    buckets[hole].index = 0
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
