"""`_Core`: the owner of the references in a core's slots, for the sake of the garbage collector."""

from .core cimport Core


cdef class _Core:
    cdef Core *c
    cdef object waiters                      # pysched.waiting.Waiters
