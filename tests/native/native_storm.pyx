# cython: language_level=3
"""A storm on the C functions of one engine: threads that Python does not know of add and cancel timers at random, and
so do the callbacks.  ThreadSanitizer looks on (ci/sanitize thread), and without it the counts must agree.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset
from pysched._engine.capi cimport (
    pysched_call_at,
    pysched_call_every,
    pysched_call_later,
    pysched_cancel,
    pysched_close,
    pysched_engine,
    pysched_open,
    pysched_time,
)

cdef extern from *:
    """
    #include <pthread.h>
    #include <stdint.h>
    #include <time.h>
    static long add(long *value, long more) { return __atomic_add_fetch(value, more, __ATOMIC_RELAXED); }
    static long read_of(long *value) { return __atomic_load_n(value, __ATOMIC_RELAXED); }
    static int64_t exchange(int64_t *value, int64_t other) {
        return __atomic_exchange_n(value, other, __ATOMIC_RELAXED);
    }
    static long unguarded;
    static void *write_unguarded(void *nothing) { ++unguarded; return nothing; }
    static void nap(long microseconds) {
        struct timespec time = {0, microseconds * 1000};
        nanosleep(&time, NULL);
    }
    """
    long add(long *value, long more) nogil
    long read_of(long *value) nogil
    int64_t exchange(int64_t *value, int64_t other) nogil
    void *write_unguarded(void *nothing) noexcept nogil
    void nap(long microseconds) nogil
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t *thread, void *attributes, void *(*main)(void *) noexcept nogil, void *argument) nogil
    int pthread_join(pthread_t thread, void **result) nogil

cdef enum:
    THREADS = 4
    REMEMBERED = 64                  # ids of each kind that anybody may cancel
    ALIVE = 2_000                    # timers: beyond that a thread takes a nap

cdef struct Shared:
    pysched_engine *engine
    long ended                       # whether the threads are to end
    int64_t once[REMEMBERED]
    int64_t every[REMEMBERED]
    long added_once
    long added_every
    long called_once
    long cancelled_once
    long cancelled_every
    long released
    long refused
    # Of the callbacks alone, of which one runs at a time: they need no atomics.
    long calls
    uint64_t random


cdef struct Worker:
    Shared *shared
    uint64_t random


cdef uint64_t draw(uint64_t *random, uint64_t below) noexcept nogil:
    """One of 0 ... below - 1, by xorshift."""
    random[0] ^= random[0] << 13
    random[0] ^= random[0] >> 7
    random[0] ^= random[0] << 17
    return (random[0] >> 11) % below


cdef void cancel_once(Shared *shared, int64_t id) noexcept nogil:
    if id and pysched_cancel(shared.engine, id):
        add(&shared.cancelled_once, 1)


cdef void cancel_every(Shared *shared, int64_t id) noexcept nogil:
    if id and pysched_cancel(shared.engine, id):
        add(&shared.cancelled_every, 1)


cdef void release(void *argument) noexcept nogil:
    add(&(<Shared *>argument).released, 1)


cdef void call_once(void *argument) noexcept nogil:
    """Adds another one now and then, and cancels one."""
    cdef Shared *shared = <Shared *>argument
    shared.calls += 1
    add(&shared.called_once, 1)
    if draw(&shared.random, 4) == 0:
        add_once(shared, &shared.random)
    if draw(&shared.random, 4) == 0:
        cancel_once(shared, exchange(&shared.once[draw(&shared.random, REMEMBERED)], 0))


cdef void call_every(void *argument) noexcept nogil:
    """Cancels a periodic one now and then, itself included."""
    cdef Shared *shared = <Shared *>argument
    shared.calls += 1
    if draw(&shared.random, 16) == 0:
        cancel_every(shared, exchange(&shared.every[draw(&shared.random, REMEMBERED)], 0))


cdef void add_once(Shared *shared, uint64_t *random) noexcept nogil:
    cdef int64_t now, id
    cdef int64_t delay = <int64_t>draw(random, 400_000)
    if draw(random, 4):
        id = pysched_call_later(shared.engine, delay, call_once, shared, release)
    else:
        pysched_time(shared.engine, &now)
        id = pysched_call_at(shared.engine, now + delay - 50_000, call_once, shared, release)
    if id < 0:
        add(&shared.refused, 1)
        return
    add(&shared.added_once, 1)
    exchange(&shared.once[draw(random, REMEMBERED)], id)


cdef void add_every(Shared *shared, uint64_t *random) noexcept nogil:
    """The one whose place it takes is cancelled, so that there are never more than REMEMBERED."""
    cdef int64_t id = pysched_call_every(
        shared.engine, 100_000 + <int64_t>draw(random, 10_000_000), <int64_t>draw(random, 200_000),
        call_every, shared, release)
    if id < 0:
        add(&shared.refused, 1)
        return
    add(&shared.added_every, 1)
    cancel_every(shared, exchange(&shared.every[draw(random, REMEMBERED)], id))


cdef void *work(void *argument) noexcept nogil:
    cdef Worker *worker = <Worker *>argument
    cdef Shared *shared = worker.shared
    cdef uint64_t choice
    while not read_of(&shared.ended):
        choice = draw(&worker.random, 16)
        if choice < 8:
            add_once(shared, &worker.random)
        elif choice < 12:
            cancel_once(shared, exchange(&shared.once[draw(&worker.random, REMEMBERED)], 0))
        elif choice < 13:
            add_every(shared, &worker.random)
        elif choice < 14:
            cancel_every(shared, exchange(&shared.every[draw(&worker.random, REMEMBERED)], 0))
        elif choice < 15:
            nap(<long>draw(&worker.random, 300))
        while (read_of(&shared.added_once) + read_of(&shared.added_every) - read_of(&shared.released) > ALIVE
                and not read_of(&shared.ended)):
            nap(200)                     # the engine may be stopped
    return NULL


def race():
    """Two threads write to one number with nothing between them: what ThreadSanitizer must see."""
    cdef pthread_t thread
    with nogil:
        if pthread_create(&thread, NULL, write_unguarded, NULL) == 0:
            write_unguarded(NULL)
            pthread_join(thread, NULL)


cdef class Storm:
    """Threads that use `engine`, from `begin` until `end`.  The object must outlive their timers."""

    cdef Shared shared
    cdef Worker workers[THREADS]
    cdef pthread_t threads[THREADS]

    def __cinit__(self, engine, uint64_t seed):
        cdef int i
        memset(&self.shared, 0, sizeof(Shared))
        self.shared.random = seed + 1
        for i in range(THREADS):
            self.workers[i].shared = &self.shared
            self.workers[i].random = seed + 2 + i
        self.shared.engine = pysched_open(engine)

    def __dealloc__(self):
        if self.shared.engine != NULL:
            pysched_close(self.shared.engine)

    def begin(self):
        cdef int i
        for i in range(THREADS):
            if pthread_create(&self.threads[i], NULL, work, &self.workers[i]):
                raise RuntimeError("no new thread")

    def end(self):
        """Ends the threads and cancels what is periodic; the last one-shots are due within a millisecond."""
        cdef int i
        with nogil:
            add(&self.shared.ended, 1)
            for i in range(THREADS):
                pthread_join(self.threads[i], NULL)
            for i in range(REMEMBERED):
                cancel_every(&self.shared, exchange(&self.shared.every[i], 0))

    def counts(self):
        """A dict: what was added, called, cancelled and released.  Once nothing is left, they must agree."""
        return {
            "once": read_of(&self.shared.added_once),
            "every": read_of(&self.shared.added_every),
            "called once": read_of(&self.shared.called_once),
            "cancelled once": read_of(&self.shared.cancelled_once),
            "cancelled every": read_of(&self.shared.cancelled_every),
            "released": read_of(&self.shared.released),
            "refused": read_of(&self.shared.refused),
        }
