"""How due callbacks reach an executor: through drains in a thread pool, or each by itself."""

from libc.stdint cimport uint32_t

from .dispatcher cimport Dispatcher


cdef int accept_executor(Dispatcher self, object executor, object daemon) except -1
cdef object open_pool(Dispatcher self)
cdef int start_workers(Dispatcher self, uint32_t epoch) except -1
cdef int hand_over(Dispatcher self, object pool, uint32_t epoch) except -1
