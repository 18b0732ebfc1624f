"""See driven.pxd."""

from libc.stdint cimport int64_t

from .dispatcher cimport Dispatcher
from .platform cimport NEVER, lock, unlock
from .runs cimport core_next_due
from .turns cimport run_first


cdef class Driven(Dispatcher):
    # What `pysched.clock.Driven` asks for.

    def _next_due_ns(self):
        """Due time of the earliest live timer; None if there is none or it never comes."""
        cdef int64_t due
        lock(&self.c.mutex)
        due = core_next_due(self.c)
        unlock(&self.c.mutex)
        return None if due == NEVER else due

    def _run_next(self, int64_t now_ns):
        """Runs the one earliest timer due by `now_ns`, to its end, on this thread; whether a callback ran."""
        if self.driven and not self.is_started():
            # Its start was interrupted after it had attached: it would be due for ever, and `advance` never return.
            self.clock.detach(self)
            return False
        return run_first(self, now_ns)

    def _next_alarm_ns(self):
        """When the earliest time-out of a run is due; None if there is none.  See `JobEngine`."""

    def _run_alarm(self):
        """Runs it."""
