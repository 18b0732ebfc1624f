"""The engine's allocations: the C library's own; in debug builds (PYSCHED_DEBUG=1) tests decide which of them fail.

All that engine/ allocates in C comes through here and is given back with `free` or `large_free`.  The tests are
constants of the C compiler, so that nothing is left of them in other builds.  No function here needs the GIL.
"""

from libc.stdlib cimport calloc, malloc, realloc

from .platform cimport DEBUG, large_alloc


cdef bint refused() noexcept nogil


cdef inline void *allocate(size_t size) noexcept nogil:
    return NULL if DEBUG and refused() else malloc(size)


cdef inline void *allocate_zeroed(size_t count, size_t size) noexcept nogil:
    return NULL if DEBUG and refused() else calloc(count, size)


cdef inline void *reallocate(void *memory, size_t size) noexcept nogil:
    """NULL if there is no memory; then the old one is as it was."""
    return NULL if DEBUG and refused() else realloc(memory, size)


cdef inline void *allocate_large(size_t size) noexcept nogil:
    """Zeroed memory from the system, for `large_free`."""
    return NULL if DEBUG and refused() else large_alloc(size)
