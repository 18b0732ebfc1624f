"""See dispatcher.pxd."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t

from .core cimport (
    ARGUMENT_TUPLE,
    NO_REPEAT,
    ONE_ARGUMENT,
    STARTED,
    STOPPED,
    STOPPING,
    Run,
    before_foreign_code,
    has_tidings,
)
from .drains cimport core_set_phase
from .interpreter cimport call, call_tuple, is_asynchronous, take_exception
from .owner cimport _Core
from .platform cimport lock, unlock, waker_wake
from .timers cimport core_forget_orphans
from .waiters cimport WakeEvent, core_notify

from types import MethodType

from pysched import lifecycle
from pysched.awaitables import refusal_of
from pysched.clock import DrivingClock, SystemClock
from pysched.reports import log_error


@cython.no_gc_clear
cdef class Dispatcher:
    # Never cleared by the collector: `c` points into `core`, and the cycles that go through a dispatcher are broken
    # where they pass through its slots (`_Core`), or through the attributes of its subclasses.

    def __cinit__(self):
        self.core = _Core()
        self.c = self.core.c

    cdef int set_up(self, object name, object clock) except -1:
        """The part of `__init__` that both kinds share: everything is checked before anything is set."""
        cdef str plain = checked_name(name)
        if clock is not None:
            for method in ("time_ns", "wall_ns", "wait"):
                if isinstance(clock, type) or not callable(getattr(clock, method, None)):
                    raise TypeError(f"clock must have time_ns, wall_ns and wait, got {type(clock).__name__}")
        self._name = plain
        if clock is not None and type(clock) is not SystemClock:
            self.clock = clock
            self.driven = isinstance(clock, DrivingClock)
            if self.driven:
                self.age = clock.enlist()
            else:
                self.event = WakeEvent()
        self.c.native_clock = self.clock is None
        lifecycle.register(self)
        return 0

    @property
    def name(self):
        """The name in logs and of threads: a str that is not empty, else TypeError or ValueError.

        May be set at any time; threads have the name of the time of the start.
        """
        return self._name

    @name.setter
    def name(self, value):
        self._name = checked_name(value)

    @name.deleter
    def name(self):
        raise AttributeError("name cannot be deleted")

    def __reduce__(self):
        # Also what `copy` asks: a copy would be a second owner of one loop.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    cdef str loop_name(self):
        return self._name

    cdef int64_t clock_ns(self) except? -1:
        before_foreign_code()
        if self.clock is None:
            raise RuntimeError(f"{type(self).__name__}.__init__ was not called")
        now = self.clock.time_ns()
        if not isinstance(now, int):
            raise TypeError(f"clock.time_ns() must return an int, got {type(now).__name__}")
        return now

    cdef void wake(self) noexcept:
        """Ends the loop's wait."""
        if self.event is None:
            waker_wake(&self.c.waker)
        else:
            self.event.announce()

    cdef bint is_started(self) noexcept:
        cdef bint started
        lock(&self.c.mutex)
        started = self.c.phase == STARTED
        unlock(&self.c.mutex)
        return started

    cdef void fail(self, object error) noexcept:
        """Ends the loop from one of its drains: it raises `error` when it has left."""
        self.failure = error
        lock(&self.c.mutex)
        if self.c.phase == STARTED and self.c.looping:
            core_set_phase(self.c, STOPPING)
        unlock(&self.c.mutex)
        self.wake()

    # What a run is, and what becomes of its error: `Engine` as it stands here, commands otherwise.

    cdef PyObject *invoke(self, Run *run) noexcept:
        if run.layout == ARGUMENT_TUPLE:
            return call_tuple(run.references.callback, run.references.arguments)
        if run.references.receiver != NULL:
            return call(run.references.callback, run.references.receiver, run.references.arguments)
        return call(run.references.callback, run.references.arguments, NULL)

    cdef int64_t repeat_at(self, Run *run, int64_t now) noexcept:
        return NO_REPEAT

    cdef object report(self, Run *run, object error):
        """Tells of what a callback raised; returns what the telling raised, which is logged or told, or None."""

    cdef tuple call_of(self, Run *run):
        """`(callable, *arguments)`, for an executor."""
        callback = <object>run.references.callback
        if run.references.receiver != NULL:
            callback = MethodType(callback, <object>run.references.receiver)
        if run.layout == ARGUMENT_TUPLE:
            return (callback, *<tuple>run.references.arguments)
        if run.layout == ONE_ARGUMENT:
            return (callback, <object>run.references.arguments)
        return (callback,)

    cdef object omission_of(self, Run *run, tuple called):
        """The error of an executor that says that it has called what `call_of` made, if that is known not to be so."""
        return None

    cdef tuple kept_of(self, Run *run, tuple called):
        """What `call_of` made, if it is needed until the executor is done with it."""
        return None

    cdef int dismiss(self, Run *run, tuple called) except -1:
        """An executor is done with what `kept_of` gave, in whichever way."""
        return 0

    cdef int fail_run(self, Run *run, object error, tuple called) except -1:
        """What an executor was given by `call_of` has failed."""
        run.failed = True
        self.report(run, error)
        return 0

    cdef int take_result(self, Run *run, object result) except -1:
        """What an executor says that a callback has returned: nobody would await it."""
        error = refusal_of(result)
        if error is not None:
            self.fail_run(run, error, ())
        return 0

    cdef bint perform(self, Run *run, bint interruptible) noexcept:
        """Calls the callback and releases what it returned or reports what it raised.

        True if a KeyboardInterrupt came out, of the callback or its error handler, which `interruptible` lets through;
        it is then `self.failure`.
        """
        cdef PyObject *result
        before_foreign_code()
        result = self.invoke(run)
        if result != NULL and not is_asynchronous(result):
            Py_XDECREF(result)
            return False
        try:
            error = fault_of(result)
            if error is None:
                return False
            run.failed = True
            if not (interruptible and isinstance(error, KeyboardInterrupt)):
                error = self.report(run, error)
            if interruptible and isinstance(error, KeyboardInterrupt):
                self.failure = error
                return True
        except BaseException as failure:
            log_error(f"{self._name}: an error could not be reported", failure)
            if interruptible and isinstance(failure, KeyboardInterrupt):
                self.failure = failure       # it came right before the telling, or after it
                return True
        return False

    cdef int read_wall(self) except -1:
        """Keeps `Core.wall_offset`, where there are jobs; a user's clock is asked, so no mutex may be held."""
        return 0

    cdef void reap(self) noexcept:
        """Lets go of jobs that have left (`Core.ended`) and tells of them.  No mutex held."""

    cdef int look_again(self, bint wake) except -1:
        """Sees to what a change of a job has brought about.  No mutex held."""
        if wake:
            self.wake()
        if has_tidings(self.c):
            self.reap()
        core_notify(self.c)
        return 0

    # What the end of the interpreter and a fork ask of a dispatcher.

    def _at_exit(self):
        """Marks the loop as stopping; the interpreter ends and nothing new starts."""
        lock(&self.c.mutex)
        if self.c.phase == STARTED:
            core_set_phase(self.c, STOPPING if self.c.looping else STOPPED)
        unlock(&self.c.mutex)
        self.wake()
        if self.driven:
            self.clock.detach(self)

    def _after_fork_in_child(self):
        """What is left to do after the C part (fork.pyx): forget the parent's threads that wait."""
        self.failure = self.verdict = self.thread = self.crew = None
        core_forget_orphans(self.c)
        if self.event is not None:
            self.event = WakeEvent()
        if self.driven:
            self.clock.detach(self)


cdef object fault_of(PyObject *result):
    """What was wrong with a call that gave `result`, which is released; NULL: it raised.  None: nothing."""
    cdef bint raised = result == NULL
    if raised:
        result = take_exception()
    given = <object>result
    Py_XDECREF(result)
    return given if raised else refusal_of(given)


cdef str checked_name(object name):
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    if not name:
        raise ValueError("name must not be empty")
    return str.__str__(name)             # plain text also of a subclass, an enumeration's member say


cdef int raise_failure(Dispatcher self) except -1:
    error, self.failure = self.failure, None
    raise error
