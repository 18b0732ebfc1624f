"""The life of a dispatcher's loop.  None of these is called with a mutex held."""

from .dispatcher cimport Dispatcher


cdef int start(Dispatcher self) except -1
cdef int run(Dispatcher self) except -1
cdef bint stop(Dispatcher self, object timeout) except -1
cdef bint wait_idle(Dispatcher self, object timeout) except -1
cdef object stats(Dispatcher self)
