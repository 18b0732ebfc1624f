"""`Engine`: timers at the API, spelt as asyncio spells them."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from .bulk cimport add_many
from .core cimport Entry, References, Run, drop, entry_call, saturating_add
from .dispatch cimport run as run_here
from .dispatch cimport start as start_loop
from .dispatch cimport stats as take_stats
from .dispatch cimport stop as stop_loop
from .dispatch cimport wait_idle as wait_until_idle
from .dispatcher cimport now_of
from .driven cimport Driven
from .executors cimport accept_executor
from .handle cimport TimerHandle, new_handle
from .interpreter cimport is_async_function
from .invariants cimport core_check
from .keys cimport key_hash
from .numbers cimport interval_ns, moment_ns, timeout_seconds, to_ns
from .platform cimport NEVER, lock, unlock
from .runs cimport core_next_due
from .timers cimport core_add, core_cancel_key

from pysched.reports import call_handler, log_error


cdef class Engine(Driven):
    """Engine(executor=None, *, daemon=False, clock=None, name='pysched', on_error=None, spin=0)\n--\n\n\
    Calls functions at given times: once, or again and again on a grid.

    `executor`: who runs the callbacks.  None (default): the loop's own thread, one at a time.  An int from 1 to
    1,048,576: a `ThreadPoolExecutor` of that many workers, made and shut down by the engine.  A
    `ThreadPoolExecutor`: yours, never shut down here, used in batches.  Any other object whose `submit` returns a
    `Future`: one `submit` a callback; one that is dropped before its end is an error of that run.  The threads of such
    an executor are not known to the engine: in a callback there, `stop()` would wait for itself, and so would
    `wait_idle()`, which does not raise; call `stop(0)`.

    `daemon`: True: a number of workers are daemon threads of the engine's own, without a pool; the exit of the
    interpreter waits for none of their callbacks.  False (default): Python waits for those of a pool.  Callbacks
    without an executor run on a daemon thread in any case; with an executor of yours it is a ValueError.

    `clock`: a `pysched.Clock`; None (default): the system's, monotonic.  On a `pysched.testing.ManualClock` there
    is no thread and no executor: callbacks run inside its `advance`.

    `name` (default "pysched"): of the loop's thread, and in logs; workers are `{name}-worker_{i}`.

    `on_error`: `on_error(exc, handle)` is called with whatever a callback raised, SystemExit and the like included,
    on the thread that ran it; None (default): an ERROR with traceback on the logger `pysched`.

    `spin`: seconds, finite and >= 0, default 0: so long before a deadline the sleep ends, and the clock is polled
    instead.  That is more exact, and takes CPU time all the while.  Unused with a clock of yours.

    Delays are seconds, and count from the call, whether or not the engine is started; beyond 292 years they are
    accepted and never come.  Callbacks start in the order of (due, submission), never early; what they return is
    ignored, but for a coroutine, which nothing would await: that is an error of the run.  Bad arguments raise
    TypeError or ValueError naming the argument, with nothing changed; `TimerLimitError` is raised at 16,777,215 live
    timers.  All methods are safe in any thread, in callbacks and in destructors.  A started engine stays alive until
    it is stopped; it can be neither copied nor pickled.
    """

    cdef object on_error

    def __init__(self, executor=None, *, daemon=False, clock=None, name="pysched", on_error=None, spin=0):
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error must be callable, got {type(on_error).__name__}")
        cdef int64_t spin_ns = to_ns(spin, "spin")
        accept_executor(self, executor, daemon)
        self.set_up(name, clock)
        self.c.spin = spin_ns
        self.on_error = on_error

    # -- registering --

    cdef TimerHandle register(self, int64_t when, int64_t period, object callback, tuple args, object key):
        cdef Entry entry
        cdef References garbage
        cdef TimerHandle handle
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        if is_async_function(<PyObject *>callback):
            raise TypeError("callback must not be async: nothing would await it")
        entry_call(&entry, callback, args)
        entry.when = when
        entry.period = period
        entry.flags = 0
        entry.key = NULL
        if key is not None:
            entry.key = <PyObject *>key
            entry.hash = key_hash(key)
        handle = new_handle(self.c)
        handle.when_ns = when
        if core_add(self.c, &entry, &handle.slot, &handle.generation, &garbage):
            self.wake()
        if garbage.callback != NULL:
            drop(&garbage)
        return handle

    def call_later(self, delay, callback, *args, key=None):
        """Calls `callback(*args)` once, `delay` seconds (finite and >= 0) from now; 0: after all that is due already.

        `key`: anything hashable, or None (default). The timer that holds the key is cancelled by this one, which
        holds it until its callback starts.

        Keyword arguments go into a `functools.partial`.  Callbacks are plain functions, never `async`: for
        asyncio let `loop.call_soon_threadsafe` be the callback.

        Raises TypeError or ValueError naming the argument, TimerLimitError, and what the clock or the key raises.
        O(1) on average, O(log n) at worst.
        """
        cdef int64_t delay_ns = to_ns(delay, "delay")
        return self.register(saturating_add(now_of(self), delay_ns), 0, callback, args, key)

    def call_at(self, when, callback, *args, key=None):
        """Calls `callback(*args)` once, at `when` (finite) in seconds of `time()`; a time in the past is taken as now.

        `key`, errors and cost as with `call_later`.
        """
        cdef int64_t when_ns = moment_ns(when, "when")
        cdef int64_t now = now_of(self)
        return self.register(when_ns if when_ns > now else now, 0, callback, args, key)

    def call_every(self, interval, callback, *args, delay=None, key=None):
        """Calls `callback(*args)` on a fixed grid: now + `delay` + k x `interval` seconds.

        `interval`: finite and > 0, taken as at least 1 ns.  `delay`: finite and >= 0; None (default): one interval.
        `key`: as with `call_later`, but held until the timer is cancelled.

        A timer never overlaps itself: slots that come due while it is queued or running are coalesced and counted.
        What was missed otherwise, before the start for instance, collapses into one run of the latest slot.

        Errors as with `call_later`; O(log n) for the call and for each slot.
        """
        cdef int64_t period = interval_ns(interval, "interval")
        cdef int64_t delay_ns = period if delay is None else to_ns(delay, "delay")
        return self.register(saturating_add(now_of(self), delay_ns), period, callback, args, key)

    def call_many(self, delays, callback, args=None):
        """Calls `callback(*args[i])` once, `delays[i]` seconds from now, for each i; returns how many there are.

        `delays`: a buffer of float64 (array, NumPy) of one dimension, or any iterable of numbers, each finite and
        >= 0. `args`: an iterable of as many tuples; None (default): no arguments.

        All or nothing, without handles and keys.  Errors as with `call_later`, naming the element, as in
        `delays[3]`; ValueError if `delays` and `args` differ in length.  O(1) a timer on average.
        """
        return add_many(self, delays, callback, args)

    def cancel_key(self, key):
        """Cancels the timer that holds `key`, as `TimerHandle.cancel` does; False if none does.

        Raises TypeError for a key that is not hashable.  O(1) amortised.
        """
        return core_cancel_key(self.c, key) == 1

    # -- life --

    def start(self):
        """Starts the loop on a daemon thread of its own; nothing if it runs already.

        After a `stop` that a running callback has outlived, the old loop goes on, with a warning, unless it has left
        already: there are never two.

        Raises RuntimeError if the executor was made before a fork, if there can be no new thread, or while the
        interpreter ends; then the engine is stopped, as it is if a signal handler raises meanwhile.
        """
        start_loop(self)

    def run(self):
        """Runs the loop on this thread until `stop()`; without an executor callbacks run here too.

        On the main thread Ctrl-C ends it at once; without an executor a KeyboardInterrupt that leaves a callback or
        `on_error` does.

        Raises that KeyboardInterrupt, and whatever else a signal handler raises outside of a callback; RuntimeError
        if the engine is running, if a `ManualClock` drives it, and as `start` does; and what ended the loop, if the
        clock or the executor failed.  Afterwards the engine is stopped, and nothing that waits is lost.
        """
        run_here(self)

    def stop(self, timeout=None):
        """Stops the engine: no callback starts any more, what is queued keeps its place for the next start.

        Waits at most `timeout` seconds (finite and >= 0; None, the default: without limit) for callbacks that run,
        and returns whether none is left.  Inside a callback, or in a signal handler on the thread of `run()`, it
        signals and returns; the caller's own callback does not count.

        Raises TypeError or ValueError for a bad `timeout`, with nothing stopped.
        """
        return stop_loop(self, timeout_seconds(timeout))

    def wait_idle(self, timeout=None):
        """Waits until nothing is due, queued or running: True, or False after `timeout` seconds.

        `timeout`: finite and >= 0; None (default): without limit.  Future timers do not count.  What is due on an
        engine that is not started waits until somebody starts it, and so does this.  On a `ManualClock` it answers
        at once.

        Raises RuntimeError on a thread of the engine, inside a callback for instance (see `executor` for callbacks
        where it does not); TypeError or ValueError for a bad `timeout`.
        """
        return wait_until_idle(self, timeout_seconds(timeout))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc_info):
        self.stop()

    # -- looking --

    def time(self):
        """Seconds of the engine's clock: monotonic, of no particular origin."""
        return now_of(self) / 1e9

    @property
    def running(self):
        """Whether the engine is started and not stopped.  O(1)."""
        return self.is_started()

    def __len__(self):
        """Timers that may still start, each periodic one once.  O(1)."""
        cdef size_t live
        lock(&self.c.mutex)
        live = self.c.live
        unlock(&self.c.mutex)
        return live

    def __bool__(self):
        return True

    def next_deadline(self):
        """When the earliest timer is due, in seconds of `time()`; None if none ever is.  O(log n) amortised."""
        cdef int64_t due
        lock(&self.c.mutex)
        due = core_next_due(self.c)
        unlock(&self.c.mutex)
        return None if due == NEVER else due / 1e9

    def stats(self):
        """An `EngineStats` of one instant: counts since the engine was made, lateness in seconds.  O(1)."""
        return take_stats(self)

    def _check(self):
        """Raises AssertionError naming the first broken invariant; O(n)."""
        core_check(self.c)

    def _set_order(self, uint64_t order):
        """Lets the next submissions be counted from `order`: only so can a test live to see the count used up."""
        lock(&self.c.mutex)
        self.c.order = order
        unlock(&self.c.mutex)

    def __repr__(self):
        state = "running" if self.running else "stopped"
        return f"<{type(self).__name__} {self._name!r} {state}, {len(self)} timers>"

    # -- errors --

    cdef object report(self, Run *run, object error):
        cdef TimerHandle handle
        if self.on_error is None:
            return log_error(f"{self._name}: a callback raised an exception", error)
        handle = new_handle(self.c)
        handle.slot = run.slot
        handle.generation = run.generation
        handle.when_ns = run.due
        return call_handler(self.on_error, error, handle, self._name)
