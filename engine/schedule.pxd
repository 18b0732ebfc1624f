"""`Schedule`: a calendar that many jobs share, with the step that they all take.

When a minute comes, every job of an expression asks for the same next slot: it is computed once.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from cpython.object cimport PyObject

from .calendar cimport Calendar, CalendarData, calendar_next, calendar_previous
from .platform cimport NEVER

cdef enum:
    SECOND = 1_000_000_000

cdef struct Schedule:
    const CalendarData *calendar     # borrowed
    PyObject *owner                  # the CalendarSchedule that this is a part of; borrowed
    int64_t after                    # of all times from here ...
    int64_t next                     # ... to before here, this is the next slot, Unix seconds
    uint64_t steps                   # computed
    uint64_t jobs                    # that have it


cdef class CalendarSchedule:
    cdef readonly Calendar calendar
    cdef readonly object label
    cdef Schedule data


cdef inline int64_t floor_seconds(int64_t ns) noexcept nogil:
    cdef int64_t seconds = ns // SECOND
    return seconds - (seconds * SECOND > ns)


cdef inline int64_t schedule_next(Schedule *schedule, int64_t after_ns) noexcept nogil:
    """The first slot after that time of the wall clock, ns; NEVER if there is none."""
    cdef int64_t after = floor_seconds(after_ns)
    if not (schedule.after <= after < schedule.next):
        schedule.steps += 1
        schedule.next = calendar_next(schedule.calendar, after)
        schedule.after = after
    return schedule.next * SECOND if schedule.next < NEVER // SECOND else NEVER


cdef inline int64_t schedule_latest(const Schedule *schedule, int64_t until_ns) noexcept nogil:
    """The latest slot at or before that time of the wall clock, ns; -NEVER if there is none."""
    cdef int64_t seconds = calendar_previous(schedule.calendar, floor_seconds(until_ns))
    return seconds * SECOND if seconds != INT64_MIN else -NEVER
