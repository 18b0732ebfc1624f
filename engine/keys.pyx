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

from .platform cimport lock, unlock
from .slab cimport slab_at, slab_free, slab_give, slab_init, slab_reserve, slab_room, slab_take

cdef enum:
    LEAST_BUCKETS = 64


cdef void keys_init(KeyTable *table) noexcept nogil:
    cdef KeyEntry *origin = NULL
    slab_init(&table.entries, sizeof(KeyEntry), <uint32_t><size_t>&origin.next)
    table.buckets = NULL
    table.mask = table.count = 0
    table.version = 0


cdef void keys_free(KeyTable *table) noexcept nogil:
    """Frees the table; the keys' references must have been taken before."""
    slab_free(&table.entries)
    free(table.buckets)
    table.buckets = NULL
    table.count = 0


cdef KeyEntry *keys_at(const KeyTable *table, uint32_t index) noexcept nogil:
    return <KeyEntry *>slab_at(&table.entries, index)


cdef inline uint32_t *bucket_of(const KeyTable *table, Py_hash_t hash) noexcept nogil:
    # Hashes of ints are the ints themselves, and those of tuples differ little: spread them (Fibonacci hashing).
    return &table.buckets[((<uint64_t>hash * <uint64_t>11400714819323198485U) >> 32) & table.mask]


cdef int keys_reserve(KeyTable *table) noexcept nogil:
    """Makes room for one more entry: 0, -1 (no memory) or -2 (too many keys)."""
    cdef int failure
    cdef uint32_t *old = table.buckets
    cdef uint32_t old_count = table.mask + 1 if old != NULL else 0
    cdef uint32_t count, i, index, following
    cdef uint32_t *bucket
    cdef KeyEntry *entry
    if table.entries.chunk_count == 0 or slab_room(&table.entries) == 0:
        failure = slab_reserve(&table.entries, 1)
        if failure:
            return failure
    if old != NULL and table.count < old_count:
        return 0
    count = 2 * old_count if old_count else LEAST_BUCKETS
    table.buckets = <uint32_t *>calloc(count, sizeof(uint32_t))
    if table.buckets == NULL:
        table.buckets = old
        return 0 if old != NULL else -1     # a full table is slower, not wrong
    table.mask = count - 1
    for i in range(old_count):
        index = old[i]
        while index:
            entry = keys_at(table, index)
            following = entry.next
            bucket = bucket_of(table, entry.hash)
            entry.next = bucket[0]
            bucket[0] = index
            index = following
    free(old)
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
    cdef uint32_t index
    cdef uint64_t version
    cdef KeyEntry *entry
    cdef PyObject *other
    cdef int equal
    found[0] = 0
    if table.count == 0:
        return 0
    index = bucket_of(table, hash)[0]
    while index:
        entry = keys_at(table, index)
        if entry.hash == hash:
            other = entry.key
            if other is key:
                found[0] = index
                return 0
            if compares_in_c(other, key):
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
                    found[0] = 0
                    index = bucket_of(table, hash)[0] if table.count else 0
                    continue
            if equal:
                found[0] = index
                return 0
        index = entry.next
    return 0


cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil:
    """Adds a key that is not there and whose reference the caller has taken; `keys_reserve` came before."""
    cdef uint32_t index = slab_take(&table.entries)
    cdef KeyEntry *entry = keys_at(table, index)
    cdef uint32_t *bucket = bucket_of(table, hash)
    entry.key = key
    entry.hash = hash
    entry.slot = entry.held = 0
    entry.running = 0
    entry.next = bucket[0]
    bucket[0] = index
    table.count += 1
    table.version += 1
    return index


cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil:
    """Removes an entry and returns its key, whose reference is now the caller's to release, outside the mutex."""
    cdef KeyEntry *entry = keys_at(table, index)
    cdef PyObject *key = entry.key
    cdef uint32_t *link = bucket_of(table, entry.hash)
    while link[0] != index:
        link = &keys_at(table, link[0]).next
    link[0] = entry.next
    entry.key = NULL
    slab_give(&table.entries, index)
    table.count -= 1
    table.version += 1
    return key
