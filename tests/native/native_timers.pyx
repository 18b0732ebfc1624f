# cython: language_level=3
"""What the tests of C callbacks are made of: functions in C, and threads that Python does not know of."""

from libc.stdint cimport int64_t
from pysched._engine.capi cimport (
    pysched_call_at,
    pysched_call_every,
    pysched_call_later,
    pysched_cancel,
    pysched_close,
    pysched_engine,
    pysched_open,
    pysched_raise,
    pysched_time,
)

cdef extern from *:
    """
    #include <pthread.h>
    #include <time.h>
    static long add(long *value, long more) { return __atomic_add_fetch(value, more, __ATOMIC_SEQ_CST); }
    static long read_of(long *value) { return __atomic_load_n(value, __ATOMIC_SEQ_CST); }
    static void nap(long microseconds) {
        struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
    """
    long add(long *value, long more) nogil
    long read_of(long *value) nogil
    void nap(long microseconds) nogil
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t *thread, void *attributes, void *(*main)(void *) noexcept nogil, void *argument) nogil
    int pthread_join(pthread_t thread, void **result) nogil

cdef extern from "Python.h":
    int PyGILState_Check() nogil
    unsigned long PyThread_get_thread_ident() nogil

cdef struct State:
    long calls
    long released
    long inside                      # of callbacks
    long overlaps
    long with_gil                    # calls that held the GIL
    long released_inside             # while a callback of the same state was running
    long hold                        # microseconds that a callback takes
    unsigned long thread
    pysched_engine *engine
    int64_t own                      # a timer that the callback cancels
    long cancelled


cdef void call(void *argument) noexcept nogil:
    cdef State *state = <State *>argument
    if add(&state.inside, 1) != 1:
        add(&state.overlaps, 1)
    if PyGILState_Check():
        add(&state.with_gil, 1)
    state.thread = PyThread_get_thread_ident()
    if state.hold:
        nap(state.hold)
    if state.own:
        add(&state.cancelled, pysched_cancel(state.engine, state.own))
    add(&state.inside, -1)
    add(&state.calls, 1)


cdef void call_python(void *argument) noexcept nogil:
    with gil:
        (<object>argument)()


cdef void release(void *argument) noexcept nogil:
    cdef State *state = <State *>argument
    if read_of(&state.inside):
        add(&state.released_inside, 1)
    add(&state.released, 1)


cdef class Probe:
    """A C callback's argument, with counts of what was done with it.  It must outlive its timers."""

    cdef State state

    @property
    def calls(self):
        return read_of(&self.state.calls)

    @property
    def released(self):
        return read_of(&self.state.released)

    @property
    def inside(self):
        return read_of(&self.state.inside)

    @property
    def overlaps(self):
        return self.state.overlaps

    @property
    def with_gil(self):
        return self.state.with_gil

    @property
    def released_inside(self):
        return self.state.released_inside

    @property
    def thread(self):
        return self.state.thread

    @property
    def cancelled(self):
        return self.state.cancelled

    def hold(self, long microseconds):
        self.state.hold = microseconds


cdef class Timers:
    """The functions of capi.pxd, as methods."""

    cdef pysched_engine *engine

    def __cinit__(self, engine):
        self.engine = pysched_open(engine)

    def __dealloc__(self):
        if self.engine != NULL:
            pysched_close(self.engine)

    def time_ns(self):
        cdef int64_t now
        cdef int failure = pysched_time(self.engine, &now)
        if failure:
            pysched_raise(failure)
        return now

    def later(self, int64_t delay_ns, Probe probe):
        return checked(pysched_call_later(self.engine, delay_ns, call, &probe.state, release))

    def at(self, int64_t when_ns, Probe probe):
        return checked(pysched_call_at(self.engine, when_ns, call, &probe.state, release))

    def every(self, int64_t interval_ns, int64_t delay_ns, Probe probe):
        return checked(pysched_call_every(self.engine, interval_ns, delay_ns, call, &probe.state, release))

    def later_bare(self, int64_t delay_ns, Probe probe):
        """Without a release."""
        return checked(pysched_call_later(self.engine, delay_ns, call, &probe.state, NULL))

    def later_null(self):
        return checked(pysched_call_later(self.engine, 0, NULL, NULL, NULL))

    def later_python(self, int64_t delay_ns, function):
        """A callback that takes the GIL to call `function`, which the caller keeps."""
        return checked(pysched_call_later(self.engine, delay_ns, call_python, <void *>function, NULL))

    def every_python(self, int64_t interval_ns, function):
        return checked(pysched_call_every(self.engine, interval_ns, interval_ns, call_python, <void *>function, NULL))

    def cancel(self, int64_t id):
        return pysched_cancel(self.engine, id)

    def cancel_inside(self, int64_t id, Probe probe):
        """Lets the next call cancel the timer."""
        probe.state.engine = self.engine
        probe.state.own = id


cdef int64_t checked(int64_t id) except -1:
    if id < 0:
        pysched_raise(id)
    return id


def raise_error(int64_t error):
    pysched_raise(error)


def hold_gil(Probe probe, long calls, double seconds):
    """Keeps the GIL until `probe` has had so many calls, at most `seconds`; whether it came to that."""
    cdef long _
    for _ in range(<long>(seconds * 10_000)):
        if read_of(&probe.state.calls) >= calls:
            return True
        nap(100)
    return False


cdef struct Work:
    pysched_engine *engine
    State *state
    long count
    int64_t delay_ns
    long added
    long cancelled


cdef void *add_and_cancel(void *argument) noexcept nogil:
    """Adds timers, and cancels every second of them."""
    cdef Work *work = <Work *>argument
    cdef int64_t id
    cdef long i
    for i in range(work.count):
        id = pysched_call_later(work.engine, work.delay_ns, call, work.state, release)
        work.added += id > 0
        if i & 1:
            work.cancelled += pysched_cancel(work.engine, id)
    return NULL


def in_c_threads(Timers timers, Probe probe, long count, int64_t delay_ns):
    """`add_and_cancel` in two threads that Python does not know of: (added, cancelled)."""
    cdef pthread_t threads[2]
    cdef Work works[2]
    cdef int i
    with nogil:
        for i in range(2):
            works[i].engine = timers.engine
            works[i].state = &probe.state
            works[i].count = count
            works[i].delay_ns = delay_ns
            works[i].added = works[i].cancelled = 0
            pthread_create(&threads[i], NULL, add_and_cancel, &works[i])
        for i in range(2):
            pthread_join(threads[i], NULL)
    return works[0].added + works[1].added, works[0].cancelled + works[1].cancelled
