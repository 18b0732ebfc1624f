"""The cancellation table: key -> live slot, a chained hash table of our own.

A dict would do, but for three things: it finds an entry to delete by running
the key's `__hash__` and `__eq__` again, between a look-up and a store it runs
them too, and both are foreign code that must not run under the mutex.  Here
an entry is removed by its index, and the one foreign call, `__eq__` of keys
whose hashes agree, is made with the mutex released and the search begun anew
if the table changed meanwhile.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from .platform cimport Mutex
from .slab cimport Slab


cdef struct KeyEntry:                # 32 bytes
    PyObject *key                    # owned
    Py_hash_t hash
    uint32_t next                    # in its chain; the free list's link too
    uint32_t slot                    # the timer that holds the key; 0 while only a running command does
    uint32_t held                    # a due command that waits for the running one of its key
    uint8_t running                  # a command of this key is running

cdef struct KeyTable:
    Slab entries
    uint32_t *buckets                # a power of two of them
    uint32_t mask                    # buckets - 1; meaningless while `buckets` is NULL
    uint32_t count
    uint64_t version                 # grows with each change of the table's shape


cdef void keys_init(KeyTable *table) noexcept nogil
cdef void keys_free(KeyTable *table) noexcept nogil
cdef KeyEntry *keys_at(const KeyTable *table, uint32_t index) noexcept nogil
cdef int keys_reserve(KeyTable *table) noexcept nogil
cdef int keys_find(KeyTable *table, Mutex *mutex, PyObject *key, Py_hash_t hash, uint32_t *found) except -1
cdef uint32_t keys_add(KeyTable *table, PyObject *key, Py_hash_t hash) noexcept nogil
cdef PyObject *keys_remove(KeyTable *table, uint32_t index) noexcept nogil
