from .core cimport Core


cdef void core_check(Core *core) except *
