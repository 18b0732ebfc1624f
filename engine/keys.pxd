"""The cancellation table: key -> live slot, a hash table of our own with linear probing.

A dict would do, but for three things: it finds an entry to delete by running
the key's `__hash__` and `__eq__` again, between a look-up and a store it runs
them too, and both are foreign code that must not run under the mutex.  Here
an entry is removed by its index, and the one foreign call, `__eq__` of keys
whose hashes agree, is made with the mutex released and the search begun anew
if the table changed meanwhile.

A place of the table is a byte, a tag made of the hash, in one array and the
index of an entry in another, as in Google's Swiss tables.  The search that
finds a new key to be new reads tags only, a fifth of the memory: those of
10^5 keys stay in the second-level cache, where the places themselves do not.
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

cdef enum:
    EMPTY_TAG = 0
    DELETED_TAG = 1                  # a key that was here is gone; searches go on behind it

cdef struct KeyTable:
    Slab entries
    uint8_t *tags                    # one for each place, a power of two of them; NULL in an empty table
    uint32_t *indices                # of entries, in the places whose tag is neither empty nor deleted
    uint32_t mask                    # places - 1
    uint32_t used                    # places that are not empty: at most half of them
    uint32_t count                   # keys
    uint64_t version                 # grows with each change of the table


cdef void keys_init(KeyTable *table) noexcept nogil
cdef void keys_free(KeyTable *table) noexcept nogil
cdef int refuse_key() except -1
cdef int keys_reserve(KeyTable *table) noexcept nogil
cdef int keys_find(KeyTable *table, Mutex *mutex, PyObject *key, Py_hash_t hash, uint32_t *found) except -1
cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil
cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil


cdef inline KeyEntry *keys_at(const KeyTable *table, uint32_t index) noexcept nogil:
    return <KeyEntry *>slab_at(&table.entries, index)


cdef inline uint64_t spread(Py_hash_t hash) noexcept nogil:
    """Fibonacci hashing: hashes of ints are the ints themselves, and those of tuples differ little."""
    return <uint64_t>hash * <uint64_t>11400714819323198485U


cdef inline uint32_t home_of(const KeyTable *table, uint64_t spread_hash) noexcept nogil:
    """The place where the search for a key begins."""
    return <uint32_t>(spread_hash >> 32) & table.mask


cdef inline void keys_prefetch(const KeyTable *table, Py_hash_t hash) noexcept nogil:
    """Asks for a key's place ahead of time.  Needs no mutex: a stale address costs a useless prefetch, no more."""
    if table.tags != NULL:
        prefetch(table.tags + home_of(table, spread(hash)))


cdef inline Py_hash_t key_hash(object key) except? -1:
    """The hash of a user's key, or TypeError naming `key`; what else `__hash__` raises goes through."""
    cdef Py_hash_t hash = PyObject_Hash(<PyObject *>key)
    if hash == -1:
        refuse_key()
    return hash
