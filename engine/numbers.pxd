"""Seconds at the API to int64 nanoseconds inside: checked, rounded up, saturating."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.stdint cimport int64_t

from .platform cimport NEVER


cdef int64_t checked_ns(object value, str name) except -1
cdef int64_t interval_ns(object value, str name) except -1
cdef int64_t moment_ns(object value, str name) except? -1
cdef double finite(object value, str name, str rule) except? -1
cdef object timeout_seconds(object value)


cdef inline int64_t seconds_ns(double seconds) noexcept nogil:
    """Nanoseconds of a finite number of seconds >= 0.

    Rounded up, so that nothing is early; but a product that is a whole number to within the error of a double is that
    number: 1.1 s is 1,100,000,000 ns, ten times 0.7 s is 7 s.  Beyond 292 years: NEVER.
    """
    cdef double ns = seconds * 1e9
    cdef int64_t whole
    if ns >= 9.2233720368547e18:
        return NEVER
    whole = <int64_t>ns
    return whole + (ns - whole > ns * 2.220446049250313e-16)


cdef inline int64_t to_ns(object value, str name) except -1:
    """A duration >= 0; TypeError or ValueError naming the argument."""
    cdef double seconds
    if PyFloat_CheckExact(value):
        seconds = PyFloat_AS_DOUBLE(value)
        if 0 <= seconds <= 1.7976931348623157e308:
            return seconds_ns(seconds)
    return checked_ns(value, name)
