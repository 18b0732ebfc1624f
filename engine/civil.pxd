"""The proleptic Gregorian calendar: days since 1970-01-01 and back, in a few ns, without Python.

The two conversions are Howard Hinnant's (`days_from_civil`, `civil_from_days` in "chrono-compatible low-level
date algorithms"): years begin in March, so that the day of a leap year comes last.
"""

from libc.stdint cimport int64_t, uint32_t

cdef enum:
    DAY = 86400                      # seconds
    SHIFT = 719468                   # days from 0000-03-01 to 1970-01-01
    ERA = 146097                     # days of 400 years

cdef struct Date:
    int year
    int month                        # 1-12
    int day                          # 1-31


cdef inline int64_t day_of(int64_t local) noexcept nogil:
    """The day, counted from 1970-01-01, of a local time in seconds, from the year 0 on."""
    return (local + <int64_t>SHIFT * DAY) // DAY - SHIFT


cdef inline Date date_of(int64_t day) noexcept nogil:
    cdef Date date
    cdef uint32_t since = <uint32_t>(day + SHIFT)
    cdef uint32_t era = since // ERA
    cdef uint32_t of_era = since - era * ERA
    cdef uint32_t year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef uint32_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef uint32_t month = (5 * of_year + 2) // 153           # 0 is March
    date.day = <int>(of_year - (153 * month + 2) // 5 + 1)
    date.month = <int>(month + 3 if month < 10 else month - 9)
    date.year = <int>(year + era * 400) + (date.month <= 2)
    return date


cdef inline int64_t day_of_month_begin(int year, int month) noexcept nogil:
    """The first day of a month, counted from 1970-01-01."""
    cdef uint32_t since = <uint32_t>(year - (month <= 2))
    cdef uint32_t era = since // 400
    cdef uint32_t of_era = since - era * 400
    cdef uint32_t of_year = (153 * <uint32_t>(month - 3 if month > 2 else month + 9) + 2) // 5
    return <int64_t>(era * ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year) - SHIFT


cdef inline int month_length(int year, int month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 + ((month + (month >> 3)) & 1)
