"""Cron in C: which instants an expression means in a zone.  No function below needs the GIL or allocates.

The ideas stand in the twin, `pysched/_pure/calendar.py`.  Instants are Unix seconds, local times the seconds
from 1970-01-01 00:00 to what a clock on the wall shows.

Ground rules: `CalendarData` and `ZoneData` never change once they are made, so any thread may read them without a
lock. A `Calendar` owns its data and keeps its `Zone`, whose arrays they point to; who keeps a pointer to the data
keeps the `Calendar`.

Costs of a step: O(log stretches) to find the stretch, then O(1) for a date nearby, some 50 ns in all. Months
without a matching day are skipped by bit scans, some 5 ns each: 0.5 us for a 29 February on a Sunday. The worst is a
wildcard job each of whose slots lies in a gap of its zone, which is found out year by year until 2262: 16 us.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct ZoneData:
    # Stretches of constant offset in order; starts and marks have one entry more, for the end of the last one.
    const int64_t *starts
    const int64_t *offsets
    const int64_t *marks             # the greatest local time reached before the stretch
    Py_ssize_t count

cdef struct CalendarData:
    uint64_t second                  # bit n: n matches
    uint64_t minute
    uint32_t hour
    uint32_t month
    uint32_t day
    uint8_t weeks[5]                 # the weekdays that match on days 1-7, 8-14, ... of a month
    bint last_day
    bint either_day                  # day of month or weekday, else both
    bint wildcard
    const ZoneData *zone


# The first slot after `after`, INT64_MAX if there is none; the last slot at or before `before`, INT64_MIN if none.
cdef int64_t calendar_next(const CalendarData *data, int64_t after) noexcept nogil
cdef int64_t calendar_previous(const CalendarData *data, int64_t before) noexcept nogil
# Slots in (after, until], counted no further than `limit`; O(result).
cdef int64_t calendar_count(const CalendarData *data, int64_t after, int64_t until, int64_t limit) noexcept nogil


cdef class Zone:
    cdef ZoneData data
    cdef int64_t *memory             # of the three arrays
    cdef bint simple                 # datetimes may be made without asking the tzinfo
    cdef readonly object tzinfo

    cdef object datetime_of(self, int64_t instant)


cdef class Calendar:
    cdef CalendarData data
    cdef readonly Zone zone
    cdef readonly object fields
