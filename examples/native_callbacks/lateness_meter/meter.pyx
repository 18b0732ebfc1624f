"""`Meter`: a C callback on a timer of pysched, which writes to memory that Python reads later."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from pysched._engine.capi cimport (
    pysched_call_every,
    pysched_cancel,
    pysched_close,
    pysched_engine,
    pysched_open,
    pysched_raise,
    pysched_time,
)

cdef extern from *:
    """
    /* The callback and Python run on different threads: a note is there before it is counted. */
    #if defined(_MSC_VER)
    #include <intrin.h>
    static void publish(volatile long *count, long value) { _InterlockedExchange(count, value); }
    static long seen(volatile long *count) { return _InterlockedOr(count, 0); }
    static long one_less(volatile long *count) { return _InterlockedDecrement(count); }
    #else
    static void publish(volatile long *count, long value) { __atomic_store_n(count, value, __ATOMIC_RELEASE); }
    static long seen(volatile long *count) { return __atomic_load_n(count, __ATOMIC_ACQUIRE); }
    static long one_less(volatile long *count) { return __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL); }
    #endif
    """
    void publish(long *count, long value) nogil
    long seen(long *count) nogil
    long one_less(long *count) nogil


cdef struct Tape:                        # what the callback is given: C memory, owned by the timer and by the Meter
    long owners
    long count
    long capacity
    int64_t start_ns                     # of the grid, but for the moment that the registration takes
    int64_t interval_ns
    pysched_engine *engine
    int64_t late_ns[1]                   # `capacity` of them


cdef void note(void *argument) noexcept nogil:
    cdef Tape *tape = <Tape *>argument
    cdef int64_t now
    cdef long count = tape.count
    if count < tape.capacity and pysched_time(tape.engine, &now) == 0:
        tape.late_ns[count] = (now - tape.start_ns) % tape.interval_ns
        publish(&tape.count, count + 1)


cdef void let_go(void *argument) noexcept nogil:
    """By the timer, once it has ended, and by the Meter: who comes last frees it."""
    cdef Tape *tape = <Tape *>argument
    if one_less(&tape.owners) == 0:
        pysched_close(tape.engine)
        free(tape)


cdef class Meter:
    """Notes how late a timer is that comes every `interval` seconds: by how much, up to a whole interval.

    `engine`: a compiled `pysched.Engine`, started or not.  `interval`: at least 1 ns.  `capacity`: how many calls are
    noted; the memory is taken at once, 8 bytes each.  Calls that the engine had to leave out are not noted.
    """

    cdef Tape *tape
    cdef int64_t timer

    def __cinit__(self, engine, double interval, long capacity):
        if not 1e-9 <= interval <= 1e9:
            raise ValueError(f"interval must be from 1e-9 to 1e9 seconds, got {interval}")
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        cdef pysched_engine *opened = pysched_open(engine)
        cdef int failure
        self.tape = <Tape *>calloc(1, sizeof(Tape) + <size_t>capacity * sizeof(int64_t))
        if self.tape == NULL:
            pysched_close(opened)
            raise MemoryError
        self.tape.owners = 2
        self.tape.capacity = capacity
        self.tape.interval_ns = <int64_t>(interval * 1e9)
        self.tape.engine = opened
        failure = pysched_time(opened, &self.tape.start_ns)
        self.timer = failure if failure else pysched_call_every(
            opened, self.tape.interval_ns, self.tape.interval_ns, note, self.tape, let_go
        )
        if self.timer < 0:
            self.tape.owners = 1         # there is no timer to let go of it
            pysched_raise(self.timer)

    def __dealloc__(self):
        if self.tape != NULL:
            pysched_cancel(self.tape.engine, self.timer)
            let_go(self.tape)

    def stop(self):
        """Ends the measurement: True the first time."""
        return pysched_cancel(self.tape.engine, self.timer)

    def lateness(self):
        """What was noted until now, a list of seconds."""
        return [self.tape.late_ns[i] / 1e9 for i in range(seen(&self.tape.count))]

    def __len__(self):
        return seen(&self.tape.count)
