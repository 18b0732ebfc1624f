"""`_Core`: the owner of the references in a core's slots, for the sake of the garbage collector."""

from .core cimport Core


cdef class _Core:
    cdef Core *c
    cdef object traversed            # always None: Cython shows only classes with an object in them to the collector
