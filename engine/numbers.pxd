"""Seconds at the API to int64 nanoseconds inside: checked, rounded up, saturating."""

from libc.stdint cimport int64_t


cdef int64_t to_ns(object value, str name) except -1
cdef int64_t interval_ns(object value, str name) except -1
cdef int64_t moment_ns(object value, str name) except? -1
cdef int64_t seconds_ns(double seconds) noexcept nogil
cdef double finite(object value, str name) except? -1
cdef object timeout_seconds(object value)
