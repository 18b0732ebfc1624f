"""See schedule.pxd."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from .calendar cimport Calendar, calendar_next
from .platform cimport NEVER


cdef class CalendarSchedule:
    """A calendar with its latest step, to be shared by all jobs that have it.

    `label` is the owner's, for its views.
    """

    def __init__(self, Calendar calendar not None, label=None):
        self.calendar = calendar
        self.label = label
        self.data.calendar = &calendar.data
        self.data.owner = <PyObject *>self

    @property
    def steps(self):
        """How many steps of the calendar jobs have had computed."""
        return self.data.steps

    @property
    def jobs(self):
        """How many jobs have it."""
        return self.data.jobs

    def next(self, int64_t after_ns):
        """The first slot after that time of the wall clock, ns; None if there is none."""
        cdef int64_t found = calendar_next(self.data.calendar, floor_seconds(after_ns))
        return found * 1_000_000_000 if found < NEVER // 1_000_000_000 else None

    def slots(self, int64_t first_ns):
        """Yields the slots from `first_ns` on, which is one."""
        slot = first_ns
        while slot is not None:
            yield slot
            slot = self.next(slot)
