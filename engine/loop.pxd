"""What the thread of a loop does.  None of these is called with a mutex held."""

from libc.stdint cimport uint32_t

from .dispatcher cimport Dispatcher
from .signals cimport SignalPipe


cdef int loop(Dispatcher self, object pool, uint32_t epoch, SignalPipe signals) except -1
cdef int abort(Dispatcher self, object pool, uint32_t epoch) except -1
