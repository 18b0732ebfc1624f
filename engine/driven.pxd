"""`Driven`: a dispatcher that may be run by a DrivingClock, on the thread that moves it (pysched/clock.py)."""

from .dispatcher cimport Dispatcher


cdef class Driven(Dispatcher):
    pass
