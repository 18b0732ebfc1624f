"""`Engine.call_many`: checks everything, makes room for everything, then adds without a way to fail."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from .core cimport Core, Entry, entry_call, saturating_add
from .dispatcher cimport now_of
from .interpreter cimport is_async_function
from .memory cimport allocate
from .numbers cimport seconds_ns, to_ns
from .platform cimport lock, unlock
from .timers cimport core_place, core_reserve, raise_shortage
from .wakes cimport core_wants_wake

cdef enum:
    BATCH = 1024                     # timers added under one hold of the mutex


cdef class Delays:
    """An owned array of nanoseconds."""

    cdef int64_t *ns
    cdef Py_ssize_t count

    def __dealloc__(self):
        free(self.ns)

    cdef int make_room(self, Py_ssize_t count) except -1:
        self.ns = <int64_t *>allocate(max(count, 1) * sizeof(int64_t))
        if self.ns == NULL:
            raise MemoryError
        self.count = count
        return 0

    cdef bint take_buffer(self, object delays) except -1:
        """Reads a one-dimensional buffer of native doubles; False if `delays` is something else."""
        cdef Py_buffer view
        cdef Py_ssize_t i
        cdef double seconds
        if not PyObject_CheckBuffer(delays):
            return False
        try:
            PyObject_GetBuffer(delays, &view, PyBUF_FORMAT | PyBUF_STRIDES)
        except (BufferError, ValueError):    # NumPy says the latter of dates: not a buffer of numbers in any case
            return False
        try:
            if view.ndim != 1 or view.format == NULL or view.format[0] != b"d" or view.format[1] != 0:
                return False
            self.make_room(view.shape[0])
            for i in range(self.count):
                memcpy(&seconds, <char *>view.buf + i * view.strides[0], sizeof(double))      # it may be unaligned
                if not (seconds >= 0 and isfinite(seconds)):
                    to_ns(seconds, f"delays[{i}]")
                self.ns[i] = seconds_ns(seconds)
        finally:
            PyBuffer_Release(&view)
        return True

    cdef int take_iterable(self, object delays) except -1:
        cdef Py_ssize_t i
        cdef list values
        try:
            values = list(delays)
        except (TypeError, NotImplementedError) as error:      # of arrays with no dimension, or with several
            raise TypeError(f"delays must be a buffer of float64 or an iterable of numbers: {error}") from error
        self.make_room(len(values))
        for i in range(self.count):
            value = values[i]
            try:
                self.ns[i] = to_ns(value, "delay")
            except (TypeError, ValueError):
                to_ns(value, f"delays[{i}]")      # a name is made only for the one that needs it
                raise
        return 0


cdef bint is_iterable(object value):
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


cdef list checked_args(object args, Py_ssize_t count):
    cdef list checked
    cdef Py_ssize_t i
    if not is_iterable(args) or isinstance(args, (str, bytes, bytearray)):
        raise TypeError(f"args must be an iterable of tuples, got {type(args).__name__}")
    try:
        checked = list(args)
    except (TypeError, NotImplementedError) as error:
        raise TypeError(f"args must be an iterable of tuples: {error}") from error
    if len(checked) != count:
        raise ValueError(f"args must hold one tuple for each delay: {count}, got {len(checked)}")
    for i in range(count):
        if not isinstance(checked[i], tuple):
            raise TypeError(f"args[{i}] must be a tuple, got {type(checked[i]).__name__}")
    return checked


cdef int refuse_delays(object delays) except -1:
    kind = type(delays).__name__
    raise TypeError(f"delays must be a buffer of float64 or an iterable of numbers, got {kind}")


cdef object add_many(Dispatcher self, object delays, object callback, object args):
    cdef Core *core = self.c
    cdef Delays times = Delays()
    cdef list arguments = None
    cdef Entry entry
    cdef Py_ssize_t i = 0, end
    cdef int failure
    cdef int64_t now
    cdef bint wake
    cdef uint32_t forks
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
    if is_async_function(<PyObject *>callback):
        raise TypeError("callback must not be async: nothing would await it")
    if isinstance(delays, (str, bytes, bytearray)):
        refuse_delays(delays)
    if not times.take_buffer(delays):
        if not is_iterable(delays):
            refuse_delays(delays)
        times.take_iterable(delays)
    if args is not None:
        arguments = checked_args(args, times.count)
    total = times.count                  # a number of Python's, while it may still fail
    now = now_of(self)
    entry.period = 0
    entry.flags = 0
    entry.key = NULL
    entry_call(&entry, callback, ())
    lock(&core.mutex)
    failure = core_reserve(core, times.count, 0)
    if not failure:
        core.reserved += times.count
    forks = core.forks                   # not before: a user's clock or an iterator may have forked
    unlock(&core.mutex)
    if failure:
        raise_shortage(failure)
    while i < times.count:
        end = min(i + BATCH, times.count)
        wake = False
        lock(&core.mutex)
        if core.forks == forks:
            core.reserved -= end - i
        elif core_reserve(core, end - i, 0):
            unlock(&core.mutex)
            raise MemoryError            # in a child that was forked meanwhile, whose core knows of no promise
        while i < end:
            if arguments is not None:
                # Not `arguments[i]`, which would raise here if it were None.
                entry_call(&entry, callback, <tuple>PyList_GET_ITEM(arguments, i))
            entry.when = saturating_add(now, times.ns[i])
            core_place(core, &entry, 0)
            wake |= core_wants_wake(core, entry.when)
            i += 1
        unlock(&core.mutex)
        if wake:
            self.wake()
    return total
