from .core cimport Core


cdef void core_check(Core *core) except *
cdef void core_watch(Core *core) noexcept nogil
