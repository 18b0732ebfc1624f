from .dispatcher cimport Dispatcher


cdef object add_many(Dispatcher self, object delays, object callback, object args)
