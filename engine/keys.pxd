"""The cancellation table: key -> live slot, a hash table of our own with linear probing.

A dict would do, but for three things: it finds an entry to delete by running
the key's `__hash__` and `__eq__` again, between a look-up and a store it runs
them too, and both are foreign code that must not run under the mutex.  Here
an entry is removed by its index, and the one foreign call, `__eq__` of keys
whose hashes agree, is made with the mutex released and the search begun anew
if the table changed meanwhile.

A bucket holds 32 bits of the hash beside the index of the entry, so a new key
costs one cache miss, and growing moves buckets without a look at any entry.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from .heap cimport prefetch
from .platform cimport Mutex
from .slab cimport Slab, slab_at


cdef extern from "Python.h":
    Py_hash_t PyObject_Hash(PyObject *) noexcept


cdef struct KeyEntry:                # 32 bytes
    PyObject *key                    # owned
    Py_hash_t hash
    uint32_t slot                    # the timer that holds the key, 0 while only a running command does; or free link
    uint32_t held                    # a due command that waits for the running one of its key
    uint8_t running                  # a command of this key is running

cdef struct KeyBucket:
    uint32_t tag                     # from the hash; the bucket's place is its lower bits, or behind
    uint32_t index                   # of the entry; 0: empty

cdef struct KeyTable:
    Slab entries
    KeyBucket *buckets               # a power of two of them, half of them empty
    uint32_t mask                    # buckets - 1; meaningless while `buckets` is NULL
    uint32_t count
    uint64_t version                 # grows with each change of the table's shape


cdef void keys_init(KeyTable *table) noexcept nogil
cdef void keys_free(KeyTable *table) noexcept nogil
cdef int refuse_key() except -1
cdef int keys_reserve(KeyTable *table) noexcept nogil
cdef int keys_find(KeyTable *table, Mutex *mutex, PyObject *key, Py_hash_t hash, uint32_t *found) except -1
cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil
cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil


cdef inline KeyEntry *keys_at(const KeyTable *table, uint32_t index) noexcept nogil:
    return <KeyEntry *>slab_at(&table.entries, index)


cdef inline uint32_t tag_of(Py_hash_t hash) noexcept nogil:
    # Hashes of ints are the ints themselves, and those of tuples differ little: spread them (Fibonacci hashing).
    return <uint32_t>((<uint64_t>hash * <uint64_t>11400714819323198485U) >> 32)


cdef inline void keys_prefetch(const KeyTable *table, Py_hash_t hash) noexcept nogil:
    """Asks for a key's bucket ahead of time.  Needs no mutex: a stale address costs a useless prefetch, no more."""
    if table.buckets != NULL:
        prefetch(table.buckets + (tag_of(hash) & table.mask))


cdef inline Py_hash_t key_hash(object key) except? -1:
    """The hash of a user's key, or TypeError naming `key`; what else `__hash__` raises goes through."""
    cdef Py_hash_t hash = PyObject_Hash(<PyObject *>key)
    if hash == -1:
        refuse_key()
    return hash
