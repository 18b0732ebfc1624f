"""C functions on the timers of an `Engine`, for Cython: `from pysched._engine.capi cimport ...`.

    cdef void beat(void *argument) noexcept nogil: ...

    engine = pysched.Engine()
    cdef pysched_engine *timers = pysched_open(engine)
    cdef int64_t id = pysched_call_every(timers, 1_000_000, 1_000_000, beat, &state, NULL)
    if id < 0:
        pysched_raise(id)

docs/native-callbacks.md says on which thread they run, what they may do, and how long an argument must live.  All times
are nanoseconds.  Whatever is `nogil` may be called from any thread, with or without the GIL, one that Python does not
know of included, by several threads at once, and inside of callbacks.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifndef PYSCHED_CAPI
    #define PYSCHED_CAPI
    typedef struct pysched_engine pysched_engine;
    #endif
    """
    ctypedef struct pysched_engine:      # opaque; only pointers to it are of use
        pass

ctypedef void (*pysched_function)(void *argument) noexcept nogil

cdef enum:                               # instead of an id; then nothing was added, and nothing is released
    PYSCHED_NO_MEMORY = -1
    PYSCHED_TOO_MANY = -2                # 16,777,215 timers live, as many as an engine holds
    PYSCHED_BAD_ARGUMENT = -3            # a function that is NULL, a delay below 0, an interval below 1
    PYSCHED_GONE = -4                    # the Engine was collected
    PYSCHED_NO_TIME = -5                 # the clock, which is a user's, has raised; the logger `pysched` was told


# Opens an Engine for the functions below.  It is not kept alive by that, but may be collected at any time.  Raises
# TypeError for anything but an Engine of the compiled engine, and MemoryError.
cdef pysched_engine *pysched_open(object engine) except NULL

# Gives it back, once, after the last call with it; timers go on.
cdef void pysched_close(pysched_engine *engine) noexcept nogil

# Stores the engine's time, that of `Engine.time()`: 0 or an error.
cdef int pysched_time(pysched_engine *engine, int64_t *now_ns) noexcept nogil

# Calls `function(argument)` once, `delay_ns` >= 0 from now: an id > 0, or an error.  After the call, or else when the
# timer is cancelled or the Engine is collected, `release(argument)` is called, once; NULL: there is nothing to release.
# O(1) on average, O(log n) at worst.
cdef int64_t pysched_call_later(
    pysched_engine *engine, int64_t delay_ns, pysched_function function, void *argument, pysched_function release
) noexcept nogil

# The same at `when_ns` of the engine's time; what is past is taken as now.
cdef int64_t pysched_call_at(
    pysched_engine *engine, int64_t when_ns, pysched_function function, void *argument, pysched_function release
) noexcept nogil

# Calls it on a grid, now + `delay_ns` + k x `interval_ns`, until it is cancelled.  Slots that come while it runs, and
# all but the latest of those that came while the engine was late or stopped, are left out and counted as coalesced.
cdef int64_t pysched_call_every(
    pysched_engine *engine, int64_t interval_ns, int64_t delay_ns,
    pysched_function function, void *argument, pysched_function release
) noexcept nogil

# Cancels a timer: whether that prevented a call that would have come.  A call in progress goes on.  Unless there is
# one, `release` has been called at the return, else it is called after that.  O(1) amortised.
cdef bint pysched_cancel(pysched_engine *engine, int64_t id) noexcept nogil

# Raises what an error stands for: MemoryError, TimerLimitError, ValueError or RuntimeError.
cdef int pysched_raise(int64_t error) except -1
