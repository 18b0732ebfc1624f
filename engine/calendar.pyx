"""See calendar.pxd, and the twin for the ideas."""

cimport cython
from cpython.number cimport PyNumber_Index
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.stdlib cimport free

from .civil cimport DAY, Date, date_of, day_of, day_of_month_begin, month_length
from .memory cimport allocate


cdef extern from "bits.h" nogil:
    int lowest_bit "pysched_lowest_bit"(uint64_t word) noexcept
    int highest_bit "pysched_highest_bit"(uint64_t word) noexcept

# Not Cython's cpython.datetime, which would import the module datetime together with this one.
cdef extern from "datetime.h":
    ctypedef struct PyTypeObject:
        pass
    ctypedef struct PyDateTime_CAPI:
        PyTypeObject *DateTimeType
        object (*DateTime_FromDateAndTimeAndFold)(
            int year, int month, int day, int hour, int minute, int second, int microsecond,
            object tzinfo, int fold, PyTypeObject *type
        )
    PyDateTime_CAPI *PyDateTimeAPI       # NULL until a zone is made

cdef enum:
    LAST_YEAR = 2263                 # no local time lies after it ...
    FIRST_YEAR = 1839                # ... or before this one

# Local times that no slot has, and that no offset makes overflow.
cdef int64_t BEFORE = -(<int64_t>1 << 60)
cdef int64_t BEYOND = <int64_t>1 << 60


# -- days and times of day --

cdef uint32_t matching_days(const CalendarData *data, int year, int month) noexcept nogil:
    """Bits 1 to 31: the days of a month that match."""
    cdef int length = month_length(year, month)
    cdef int weekday = <int>((day_of_month_begin(year, month) + 4 + 7 * 100_000) % 7)     # of day 1; Sunday is 0
    cdef uint64_t weekdays = 0
    cdef uint64_t dates = data.day
    cdef uint32_t week
    cdef int i
    for i in range(5):
        week = data.weeks[i]
        weekdays |= <uint64_t>(((week | week << 7) >> weekday) & 0x7f) << (7 * i)
    weekdays <<= 1
    if data.last_day:
        dates |= <uint64_t>1 << length
    return <uint32_t>((dates | weekdays if data.either_day else dates & weekdays) & ((<uint64_t>2 << length) - 2))


cdef int time_from(const CalendarData *data, int second) noexcept nogil:
    """The first matching second of the day at or after `second`, -1 if there is none."""
    cdef int hour = second // 3600
    cdef int minute = second // 60 % 60
    cdef uint64_t later
    if data.hour >> hour & 1:
        if data.minute >> minute & 1:
            later = data.second >> (second % 60)
            if later:
                return second + lowest_bit(later)
        later = data.minute >> minute >> 1
        if later:
            minute += 1 + lowest_bit(later)
            return hour * 3600 + minute * 60 + lowest_bit(data.second)
    later = data.hour >> hour >> 1
    if not later:
        return -1
    hour += 1 + lowest_bit(later)
    return hour * 3600 + lowest_bit(data.minute) * 60 + lowest_bit(data.second)


cdef int time_until(const CalendarData *data, int second) noexcept nogil:
    """The last matching second of the day at or before `second`, -1 if there is none."""
    cdef int hour = second // 3600
    cdef int minute = second // 60 % 60
    cdef uint64_t earlier
    if data.hour >> hour & 1:
        if data.minute >> minute & 1:
            earlier = data.second & ((<uint64_t>2 << (second % 60)) - 1)
            if earlier:
                return second - second % 60 + highest_bit(earlier)
        earlier = data.minute & ((<uint64_t>1 << minute) - 1)
        if earlier:
            return hour * 3600 + highest_bit(earlier) * 60 + highest_bit(data.second)
    earlier = data.hour & ((<uint64_t>1 << hour) - 1)
    if not earlier:
        return -1
    return highest_bit(earlier) * 3600 + highest_bit(data.minute) * 60 + highest_bit(data.second)


# -- local times --

cdef int64_t local_from(const CalendarData *data, int64_t begin) noexcept nogil:
    """The first matching local time at or after `begin`, else BEYOND."""
    cdef int64_t day = day_of(begin)
    cdef Date date = date_of(day)
    cdef int time = 0
    cdef uint32_t days = 0
    cdef uint32_t months
    if data.month >> date.month & 1:
        days = matching_days(data, date.year, date.month) >> date.day
        if days & 1:
            time = time_from(data, <int>(begin - day * DAY))
            if time >= 0:
                return day * DAY + time
        days &= ~1U
        days <<= date.day
    time = time_from(data, 0)
    while not days:
        months = data.month >> date.month >> 1
        if months:
            date.month += 1 + lowest_bit(months)
        else:
            date.month = lowest_bit(data.month)
            date.year += 1
            if date.year > LAST_YEAR:
                return BEYOND
        days = matching_days(data, date.year, date.month)
    return (day_of_month_begin(date.year, date.month) + lowest_bit(days) - 1) * DAY + time


cdef int64_t local_until(const CalendarData *data, int64_t end) noexcept nogil:
    """The last matching local time at or before `end`, else BEFORE."""
    cdef int64_t day = day_of(end)
    cdef Date date = date_of(day)
    cdef int time = 0
    cdef uint32_t days = 0
    cdef uint32_t months
    if data.month >> date.month & 1:
        days = matching_days(data, date.year, date.month)
        if days >> date.day & 1:
            time = time_until(data, <int>(end - day * DAY))
            if time >= 0:
                return day * DAY + time
        days &= (1U << date.day) - 1U
    time = time_until(data, DAY - 1)
    while not days:
        months = data.month & ((1U << date.month) - 1U)
        if months:
            date.month = highest_bit(months)
        else:
            date.month = highest_bit(data.month)
            date.year -= 1
            if date.year < FIRST_YEAR:
                return BEFORE
        days = matching_days(data, date.year, date.month)
    return (day_of_month_begin(date.year, date.month) + highest_bit(days) - 1) * DAY + time


# -- stretches --

cdef Py_ssize_t last_at_or_before(const int64_t *values, Py_ssize_t count, int64_t value) noexcept nogil:
    """The index of the last of `count` rising values that is <= `value`, which the first one is."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t half
    while count > 1:
        half = count >> 1
        low += half if values[low + half] <= value else 0
        count -= half
    return low


cdef inline Py_ssize_t stretch_of(const ZoneData *zone, int64_t instant) noexcept nogil:
    return last_at_or_before(zone.starts, zone.count, instant)


cdef inline int64_t begin_of(const ZoneData *zone, Py_ssize_t stretch) noexcept nogil:
    """The first local time of the stretch."""
    return zone.starts[stretch] + zone.offsets[stretch]


cdef inline int64_t end_of(const ZoneData *zone, Py_ssize_t stretch) noexcept nogil:
    """The local time that the next stretch would begin with, were the offset the same."""
    return zone.starts[stretch + 1] + zone.offsets[stretch]


# -- wildcard jobs --

cdef int64_t next_wildcard(const CalendarData *data, int64_t instant) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    cdef Py_ssize_t stretch = stretch_of(zone, instant)
    cdef int64_t begin = instant + zone.offsets[stretch]
    cdef int64_t local
    while True:
        local = local_from(data, begin)
        if local < end_of(zone, stretch):
            return local - zone.offsets[stretch]
        # Nothing matches in [begin, local), so stretches that lie within it are passed over without a search.
        stretch += 1
        while stretch < zone.count and begin_of(zone, stretch) >= begin and end_of(zone, stretch) <= local:
            stretch += 1
        if stretch == zone.count:
            return INT64_MAX
        begin = begin_of(zone, stretch)


cdef int64_t previous_wildcard(const CalendarData *data, int64_t instant) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    cdef Py_ssize_t stretch = stretch_of(zone, instant)
    cdef int64_t end = instant + zone.offsets[stretch]
    cdef int64_t local
    while True:
        local = local_until(data, end)
        if local >= begin_of(zone, stretch):
            return local - zone.offsets[stretch]
        stretch -= 1
        while stretch >= 0 and begin_of(zone, stretch) > local and end_of(zone, stretch) - 1 <= end:
            stretch -= 1
        if stretch < 0:
            return INT64_MIN
        end = end_of(zone, stretch) - 1


# -- fixed-time jobs --

cdef int64_t made_up(const CalendarData *data, Py_ssize_t stretch) noexcept nogil:
    """When slots in the gap before a stretch run: in its first minute, or second if seconds matter."""
    cdef int64_t part = 0
    if data.second == 1:
        part = begin_of(data.zone, stretch) % 60             # of the sign of the dividend, as in C
        if part:
            part = -part if part < 0 else 60 - part
    return data.zone.starts[stretch] + part


cdef int64_t run_of(const CalendarData *data, int64_t local) noexcept nogil:
    """The instant at which the greatest local time so far reaches or passes `local`, which it does."""
    cdef Py_ssize_t stretch = last_at_or_before(data.zone.marks, data.zone.count, local)
    if local >= begin_of(data.zone, stretch):
        return local - data.zone.offsets[stretch]
    return made_up(data, stretch)


cdef int64_t next_fixed(const CalendarData *data, int64_t instant) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    cdef Py_ssize_t stretch = stretch_of(zone, instant)
    cdef int64_t begin = instant + zone.offsets[stretch]
    cdef int64_t mark = zone.marks[stretch]
    cdef int64_t local
    if begin < mark or instant <= made_up(data, stretch):
        begin = mark                 # in a second pass; or what lies in the gap before this is still to come
    local = local_from(data, begin)
    if local >= zone.marks[zone.count]:
        return INT64_MAX
    if begin >= begin_of(zone, stretch) and local < end_of(zone, stretch):
        return local - zone.offsets[stretch]
    return run_of(data, local)


cdef int64_t previous_fixed(const CalendarData *data, int64_t instant) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    cdef Py_ssize_t stretch = stretch_of(zone, instant)
    cdef int64_t end = instant + zone.offsets[stretch]
    cdef int64_t local, run
    if end < zone.marks[stretch]:
        end = zone.marks[stretch] - 1
    while True:
        local = local_until(data, end)
        if local < zone.marks[0]:
            return INT64_MIN
        run = run_of(data, local)
        if run <= instant:
            return run
        end = zone.marks[stretch] - 1        # it is made up for later in the minute of `instant`
        stretch -= 1


# -- what others call --

cdef int64_t calendar_next(const CalendarData *data, int64_t after) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    cdef int64_t instant
    if after >= zone.starts[zone.count] - 1:
        return INT64_MAX
    instant = after + 1 if after >= zone.starts[0] else zone.starts[0]
    return next_wildcard(data, instant) if data.wildcard else next_fixed(data, instant)


cdef int64_t calendar_previous(const CalendarData *data, int64_t before) noexcept nogil:
    cdef const ZoneData *zone = data.zone
    if before < zone.starts[0]:
        return INT64_MIN
    if before >= zone.starts[zone.count]:
        before = zone.starts[zone.count] - 1
    return previous_wildcard(data, before) if data.wildcard else previous_fixed(data, before)


cdef int64_t calendar_count(const CalendarData *data, int64_t after, int64_t until, int64_t limit) noexcept nogil:
    cdef int64_t found = 0
    while found < limit:
        after = calendar_next(data, after)
        if after > until or after == INT64_MAX:
            break
        found += 1
    return found


@cython.final
cdef class Zone:
    """A time zone as its stretches of constant offset from 1840 to 2262. Immutable.

    Raises what the tzinfo raises when it is asked, and ValueError if its offset is None, a day or more, or no
    whole number of seconds. About 10 ms for a zone of zoneinfo that was not met before, O(stretches) for others.
    """

    def __cinit__(self, tzinfo):
        # Not PyCapsule_Import, which says that a module is missing when there is no memory.
        from datetime import datetime_CAPI

        from pysched.offsets import offset_changes

        global PyDateTimeAPI
        PyDateTimeAPI = <PyDateTime_CAPI *>PyCapsule_GetPointer(datetime_CAPI, "datetime.datetime_CAPI")
        starts, offsets, marks, self.simple = offset_changes(tzinfo)
        cdef Py_ssize_t count = len(offsets)
        cdef Py_ssize_t i = 0
        self.tzinfo = tzinfo
        self.memory = <int64_t *>allocate((3 * count + 2) * sizeof(int64_t))
        if self.memory == NULL:
            raise MemoryError
        for values in (starts, marks, offsets):
            for value in values:
                self.memory[i] = value
                i += 1
        self.data.starts = self.memory
        self.data.marks = self.memory + count + 1
        self.data.offsets = self.memory + 2 * (count + 1)
        self.data.count = count

    def __dealloc__(self):
        free(self.memory)

    def changes(self):
        """(first instant, offset from UTC in seconds) of each stretch."""
        return [(self.data.starts[i], self.data.offsets[i]) for i in range(self.data.count)]

    cdef object datetime_of(self, int64_t instant):
        """The aware datetime of an instant, in the zone."""
        cdef Py_ssize_t stretch = stretch_of(&self.data, instant)
        cdef int64_t local = instant + self.data.offsets[stretch]
        cdef int64_t day = day_of(local)
        cdef int second = <int>(local - day * DAY)
        cdef Date date = date_of(day)
        # Second pass: the local time was reached before, in the stretch before this one.
        cdef bint fold = stretch > 0 and local < end_of(&self.data, stretch - 1)
        cdef object tzinfo = self.tzinfo
        if not self.simple:
            from datetime import timezone
            fold = False
            tzinfo = timezone.utc
            day = day_of(instant)
            second = <int>(instant - day * DAY)
            date = date_of(day)
        moment = PyDateTimeAPI.DateTime_FromDateAndTimeAndFold(
            date.year, date.month, date.day, second // 3600, second // 60 % 60, second % 60, 0,
            tzinfo, fold, PyDateTimeAPI.DateTimeType
        )
        return moment if self.simple else moment.astimezone(self.tzinfo)


cdef uint64_t checked(object mask, str name, int low, int high) except 0:
    """A mask that has at least one bit, and none outside of low to high."""
    if mask <= 0 or mask >> (high + 1) or mask & ((1 << low) - 1):
        raise ValueError(f"{name} must have bits within {low}-{high}, got {mask:#x}")
    return mask


@cython.final
cdef class Calendar:
    """The slots of a cron expression (`schedule.parse_cron`) in a zone. Immutable.

    Slots are Unix seconds from 1840 to 2262. Raises ValueError for masks that no expression has.
    """

    def __cinit__(self, fields, Zone zone not None):
        cdef int i
        self.fields = fields
        self.zone = zone
        self.data.zone = &zone.data
        self.data.second = checked(fields.second, "second", 0, 59)
        self.data.minute = checked(fields.minute, "minute", 0, 59)
        self.data.hour = <uint32_t>checked(fields.hour, "hour", 0, 23)
        self.data.month = <uint32_t>checked(fields.month, "month", 1, 12)
        self.data.day = fields.day
        self.data.last_day = fields.last_day
        self.data.either_day = fields.either_day
        self.data.wildcard = fields.wildcard
        for i in range(5):
            self.data.weeks[i] = fields.weekday & 0x7f
        for weekday, n in fields.nth:
            if not (0 <= weekday <= 6 and 1 <= n <= 5):
                raise ValueError(f"nth must have weekdays within 0-6 and n within 1-5, got {(weekday, n)}")
            self.data.weeks[<int>n - 1] |= <uint8_t>(1 << <int>weekday)

    def next(self, after):
        """The first slot after the instant `after`; None if there is none before 2262 ends."""
        cdef int64_t slot = calendar_next(&self.data, PyNumber_Index(after))
        return None if slot == INT64_MAX else slot

    def previous(self, before):
        """The last slot at or before the instant `before`; None if there is none after 1840 begins."""
        cdef int64_t slot = calendar_previous(&self.data, PyNumber_Index(before))
        return None if slot == INT64_MIN else slot

    def count(self, after, until, limit):
        """How many slots lie in (after, until]; counts no further than `limit`. O(result)."""
        cdef int64_t begin = PyNumber_Index(after)
        cdef int64_t end = PyNumber_Index(until)
        cdef int64_t most = PyNumber_Index(limit)
        cdef int64_t found
        with nogil:
            found = calendar_count(&self.data, begin, end, most)
        return found

    def datetimes(self, after, n):
        """The next `n` slots after the instant `after`, fewer if there are fewer before 2262 ends.

        They are aware, in the tzinfo of the zone, and tell the passes of a repeated span apart by `fold`.
        """
        cdef int64_t slot = PyNumber_Index(after)
        cdef Py_ssize_t most = PyNumber_Index(n)
        cdef list found = []
        while len(found) < most:
            slot = calendar_next(&self.data, slot)
            if slot == INT64_MAX:
                break
            found.append(self.zone.datetime_of(slot))
        return found
