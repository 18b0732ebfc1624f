"""See pysched/_engine/capi.pxd, which is part of what is installed.

On the system's clock none of this needs the GIL.  A clock of the user's is Python code: there each registration takes
the GIL, to ask for the time and to wake a loop that waits through that clock.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from .core cimport Core, core_hold, core_release, saturating_add
from .dispatcher cimport Dispatcher, now_of
from .memory cimport allocate_zeroed
from .natives cimport Function, native_add, native_cancel
from .platform cimport monotonic_ns, waker_wake
from .timers cimport raise_shortage

from weakref import ref

from pysched._engine.engine import Engine
from pysched.reports import log_error


cdef struct Port:                    # what a pysched_engine is
    Core *core                       # counted
    PyObject *engine                 # a weak reference; NULL if the clock is the system's


cdef struct Timer:                   # what a timer is made of
    int64_t delay                    # from now; or, if that is -1,
    int64_t when
    int64_t period
    Function function
    void *argument
    Function release


cdef pysched_engine *pysched_open(object engine) except NULL:
    if not isinstance(engine, Engine):
        kind = type(engine)
        raise TypeError(f"engine must be a compiled Engine, got {kind.__module__}.{kind.__qualname__}")
    cdef Dispatcher dispatcher = <Dispatcher>engine
    cdef Port *port
    now_of(dispatcher)                   # raises if it has no clock
    port = <Port *>allocate_zeroed(1, sizeof(Port))
    if port == NULL:
        raise MemoryError
    if not dispatcher.c.native_clock:
        try:
            weak = ref(engine)
        except BaseException:
            free(port)
            raise
        Py_INCREF(weak)
        port.engine = <PyObject *>weak
    core_hold(dispatcher.c)
    port.core = dispatcher.c
    return <pysched_engine *>port


cdef void pysched_close(pysched_engine *engine) noexcept nogil:
    cdef Port *port = <Port *>engine
    if port.engine != NULL:
        with gil:
            Py_DECREF(<object>port.engine)
    core_release(port.core)
    free(port)


cdef int pysched_time(pysched_engine *engine, int64_t *now_ns) noexcept nogil:
    cdef Port *port = <Port *>engine
    if port.engine == NULL:
        now_ns[0] = monotonic_ns()
        return 0
    with gil:
        return ask_time(port, now_ns)


cdef int64_t pysched_call_later(
    pysched_engine *engine, int64_t delay_ns, pysched_function function, void *argument, pysched_function release
) noexcept nogil:
    cdef Timer timer = Timer(delay_ns, 0, 0, function, argument, release)
    if delay_ns < 0 or function == NULL:
        return PYSCHED_BAD_ARGUMENT
    return add(<Port *>engine, &timer)


cdef int64_t pysched_call_at(
    pysched_engine *engine, int64_t when_ns, pysched_function function, void *argument, pysched_function release
) noexcept nogil:
    cdef Timer timer = Timer(-1, when_ns, 0, function, argument, release)
    if function == NULL:
        return PYSCHED_BAD_ARGUMENT
    return add(<Port *>engine, &timer)


cdef int64_t pysched_call_every(
    pysched_engine *engine, int64_t interval_ns, int64_t delay_ns,
    pysched_function function, void *argument, pysched_function release
) noexcept nogil:
    cdef Timer timer = Timer(delay_ns, 0, interval_ns, function, argument, release)
    if interval_ns < 1 or delay_ns < 0 or function == NULL:
        return PYSCHED_BAD_ARGUMENT
    return add(<Port *>engine, &timer)


cdef bint pysched_cancel(pysched_engine *engine, int64_t id) noexcept nogil:
    return native_cancel((<Port *>engine).core, id)


cdef int pysched_raise(int64_t error) except -1:
    if error == PYSCHED_NO_MEMORY or error == PYSCHED_TOO_MANY:
        raise_shortage(<int>error)
    if error == PYSCHED_GONE:
        raise RuntimeError("the engine was collected")
    if error == PYSCHED_NO_TIME:
        raise RuntimeError("the engine's clock has failed")
    if error == PYSCHED_BAD_ARGUMENT:
        raise ValueError("function must not be NULL, delay_ns >= 0 and interval_ns > 0")
    raise ValueError(f"error must be one of PYSCHED_NO_MEMORY and the like, got {error}")


cdef int64_t add(Port *port, const Timer *timer) noexcept nogil:
    cdef bint wake
    cdef int64_t id
    if port.engine != NULL:
        with gil:
            return add_by_users_clock(port, timer)
    id = add_at(port, timer, monotonic_ns(), &wake)
    if wake:
        waker_wake(&port.core.waker)
    return id


cdef int64_t add_at(Port *port, const Timer *timer, int64_t now, bint *wake) noexcept nogil:
    cdef int64_t when = max(timer.when, now) if timer.delay < 0 else saturating_add(now, timer.delay)
    return native_add(port.core, timer.function, timer.argument, timer.release, when, timer.period, wake)


cdef int ask_time(Port *port, int64_t *now) noexcept:
    engine = (<object>port.engine)()
    if engine is None:
        return PYSCHED_GONE
    try:
        now[0] = now_of(<Dispatcher>engine)
    except BaseException as error:
        log_error(f"{engine.name}: the clock could not tell the time", error)
        return PYSCHED_NO_TIME
    return 0


cdef int64_t add_by_users_clock(Port *port, const Timer *timer) noexcept:
    cdef int64_t now = 0, id
    cdef bint wake
    cdef int failure = ask_time(port, &now)
    if failure:
        return failure
    id = add_at(port, timer, now, &wake)
    if wake:
        engine = (<object>port.engine)()
        if engine is not None:
            (<Dispatcher>engine).wake()
    return id
