"""How a signal ends the wait of `run()` on the main thread."""


cdef class SignalPipe:
    cdef int reading
    cdef int writing
    cdef int program                 # the program's own wake-up descriptor, or -1

    cdef int look(self) except -1
    cdef int close(self) except -1
