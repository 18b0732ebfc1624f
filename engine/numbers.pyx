"""See numbers.pxd."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from libc.math cimport isfinite

from .platform cimport NEVER

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

cdef enum:
    NS = 1_000_000_000


cdef double finite(object value, str name, str rule) except? -1:
    """A float of anything that is a number; TypeError or ValueError naming the argument and its rule."""
    cdef double number
    if PyFloat_CheckExact(value):
        number = PyFloat_AS_DOUBLE(value)
    else:
        kind = type(value)
        if (issubclass(kind, (bool, str)) or not (hasattr(kind, "__float__") or hasattr(kind, "__index__"))
                or is_no_real_number(value)):
            raise TypeError(f"{name} must be a number of seconds, got {kind.__name__}")
        try:
            number = float(value)
        except TypeError as error:           # an array, say, which has __float__ as long as it has one element
            raise TypeError(f"{name} must be a number of seconds: {error}") from error
        except OverflowError:
            raise ValueError(f"{name} must be {rule}, got a number too large for a float") from None
        except ValueError as error:          # a signaling NaN of `decimal`
            raise ValueError(f"{name} must be {rule}: {error}") from error
    if not isfinite(number):
        raise ValueError(f"{name} must be {rule}, got {number}")
    return number


cdef bint is_no_real_number(object value) except -1:
    """Whether this is a truth value or a complex number of NumPy's, or an array of them, which have `__float__` too.

    Told by the kind of its dtype: the class is named `bool` or `bool_`, depending on the version, and arrays of other
    libraries that keep to NumPy's types are not of NumPy's classes.
    """
    return getattr(getattr(value, "dtype", None), "kind", None) in ("b", "c")


cdef int64_t checked_ns(object value, str name) except -1:
    """`to_ns` of what is no plain float in range: another number, or an error."""
    cdef double seconds
    cdef long long whole
    cdef int overflow
    if PyLong_CheckExact(value):
        whole = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and whole >= 0:
            return whole * NS if whole <= NEVER // NS else NEVER
    seconds = finite(value, name, "finite and >= 0")
    if seconds < 0:
        raise ValueError(f"{name} must be finite and >= 0, got {seconds}")
    return seconds_ns(seconds)


cdef int64_t interval_ns(object value, str name) except -1:
    """A duration > 0, at least 1 ns."""
    cdef double seconds = finite(value, name, "finite and > 0")
    if seconds <= 0:
        raise ValueError(f"{name} must be finite and > 0, got {seconds}")
    return max(to_ns(value, name), 1)


cdef int64_t moment_ns(object value, str name) except? -1:
    """A point in time, which may be in the past."""
    cdef double seconds = finite(value, name, "finite")
    return to_ns(value, name) if seconds >= 0 else -seconds_ns(-seconds)


cdef object timeout_seconds(object value):
    """None, or a float >= 0."""
    if value is None:
        return None
    cdef double seconds = finite(value, "timeout", "finite and >= 0")
    if seconds < 0:
        raise ValueError(f"timeout must be finite and >= 0, got {seconds}")
    return seconds
