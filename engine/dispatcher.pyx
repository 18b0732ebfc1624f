"""See dispatcher.pxd.

Ground rules
* Every thread that runs callbacks lists a `Runner` in its core, so that a `stop` from inside knows itself.
* A run is finished under the mutex in the same breath in which the next one is taken.
* Whoever sees, under the mutex, that the phase is not STARTED starts nothing any more.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from .core cimport ARGUMENT_TUPLE, STARTED, STOPPED, STOPPING, Core, References, Run, Runner, drop
from .interpreter cimport call, call_tuple, take_exception, this_thread
from .owner cimport _Core
from .platform cimport NEVER, lock, unlock, waker_wake
from .runs cimport core_collect_due, core_finish, core_next_due, core_take_due, core_take_ready
from .timers cimport core_forget_orphans, core_notify, core_prune, core_wants_wake

from pysched import lifecycle
from pysched.clock import DrivingClock, SystemClock
from pysched.reports import log_error
from pysched.waiting import Waiters, WakeEvent, breathe

cdef enum:
    BATCH = 1024                     # timers that a drain moves under one hold of the mutex
    GIL_SHARE_NS = 1_000_000         # a thread that runs callbacks lets others have the GIL this often


cdef class Dispatcher:

    def __cinit__(self):
        self.core = _Core()
        self.c = self.core.c

    cdef int set_up(self, object name, object clock) except -1:
        """The part of `__init__` that both kinds share: everything is checked before anything is set."""
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, got {type(name).__name__}")
        if not name:
            raise ValueError("name must not be empty")
        if clock is not None:
            for method in ("time_ns", "wall_ns", "wait"):
                if isinstance(clock, type) or not callable(getattr(clock, method, None)):
                    raise TypeError(f"clock must have time_ns, wall_ns and wait, got {type(clock).__name__}")
        self.name = name
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

    cdef str loop_name(self):
        return self.name

    cdef int64_t clock_ns(self) except? -1:
        return self.clock.time_ns()

    cdef void wake(self) noexcept:
        if self.event is None:
            waker_wake(&self.c.waker)
        else:
            self.event.set()

    # What a run is, and what becomes of its error: `Engine` as it stands here, commands otherwise.

    cdef PyObject *invoke(self, Run *run) noexcept:
        if run.layout == ARGUMENT_TUPLE:
            return call_tuple(run.references.callback, run.references.arguments)
        if run.references.receiver != NULL:
            return call(run.references.callback, run.references.receiver, run.references.arguments)
        return call(run.references.callback, run.references.arguments, NULL)

    cdef int64_t repeat_at(self, Run *run, int64_t now) noexcept:
        return -1

    cdef void report(self, Run *run, object error) noexcept:
        pass

    cdef bint perform(self, Run *run, bint interruptible) noexcept:
        """Calls the callback and releases what it returned or reports what it raised.

        True if that was a KeyboardInterrupt which `interruptible` lets through; it is then the current exception.
        """
        cdef PyObject *result = self.invoke(run)
        if result != NULL:
            Py_XDECREF(result)
            return False
        run.failed = True
        result = take_exception()
        error = <object>result
        Py_XDECREF(result)
        if interruptible and isinstance(error, KeyboardInterrupt):
            self.failure = error
            return True
        self.report(run, error)
        return False

    # What a DrivingClock, the end of the interpreter and a fork ask of a dispatcher.

    def _next_due_ns(self):
        """Due time of the earliest live timer; None if there is none or it never comes."""
        cdef int64_t due
        lock(&self.c.mutex)
        due = core_next_due(self.c)
        unlock(&self.c.mutex)
        return None if due == NEVER else due

    def _run_next(self, int64_t now_ns):
        """Runs the one earliest timer due by `now_ns`, to its end, on this thread; whether a callback ran."""
        cdef Core *core = self.c
        cdef Run run
        cdef References garbage
        cdef Runner runner
        cdef bint taken = False
        cdef int64_t end, again
        cdef uint32_t forks = core.forks
        lock(&core.mutex)
        if core.phase == STARTED:
            taken = core_take_due(core, now_ns, True, &run)
        if taken:
            runner_enter(core, &runner)
            runner.calling = True
        unlock(&core.mutex)
        if not taken:
            return False
        self.perform(&run, False)
        end = now_of(self)
        again = self.repeat_at(&run, end)
        drop(&run.references)
        memset(&garbage, 0, sizeof(garbage))
        lock(&core.mutex)
        if core.forks == forks:
            core_finish(core, &run, end, again, &garbage)
        runner_leave(core, &runner)
        unlock(&core.mutex)
        drop(&garbage)
        core_notify(core)
        return True

    def _at_exit(self):
        """Marks the loop as stopping; the interpreter ends and nothing new starts."""
        lock(&self.c.mutex)
        if self.c.phase == STARTED:
            self.c.phase = STOPPING if self.c.looping else STOPPED
        unlock(&self.c.mutex)
        self.wake()

    def _after_fork_in_child(self):
        """What is left to do after the C part (fork.pyx): forget the parent's threads that wait."""
        self.failure = self.thread = None
        core_forget_orphans(self.c)
        self.core.waiters = Waiters()
        self.c.waiters = <PyObject *>self.core.waiters
        if self.event is not None:
            self.event = WakeEvent()
        if self.driven:
            self.clock.detach(self)


# -- who runs callbacks ---------------------------------------------------------------------------------------------

cdef void runner_enter(Core *core, Runner *runner) noexcept nogil:
    runner.thread = this_thread()
    runner.calling = False
    runner.next = core.runners
    core.runners = runner


cdef void runner_leave(Core *core, Runner *runner) noexcept nogil:
    cdef Runner **link = &core.runners
    while link[0] != NULL and link[0] != runner:
        link = &link[0].next
    if link[0] == runner:                # not there in a forked child
        link[0] = runner.next


cdef bint runs_here(Core *core, size_t *own) noexcept nogil:
    """Whether this thread is in a loop or drain of the core; `own`: how many callbacks it is inside of."""
    cdef unsigned long thread = this_thread()
    cdef Runner *runner = core.runners
    cdef bint here = False
    own[0] = 0
    while runner != NULL:
        if runner.thread == thread:
            here = True
            own[0] += runner.calling
        runner = runner.next
    return here


cdef inline int share_gil(int64_t now, int64_t *since) except -1:
    """Lets the interpreter switch threads, at least once a millisecond: callbacks that are builtins never do.

    By running a Python function, at whose start the interpreter looks whether another thread waits for the GIL, and
    hands it over.  To release and retake it here would do harm: the waiter is woken too late to get it, and begins to
    count its switch interval anew.
    """
    if now - since[0] > GIL_SHARE_NS or now < since[0]:
        since[0] = now
        breathe()
    return 0


# -- running callbacks ----------------------------------------------------------------------------------------------

cdef int run_inline(Dispatcher self, bint interruptible) except -1:
    """Runs what is due, one callback after the other, until nothing is."""
    cdef Core *core = self.c
    cdef Run run
    cdef References garbage
    cdef Runner runner
    cdef bint taken = False, interrupted = False
    cdef int64_t now = now_of(self), gil_since = now, again = -1
    cdef uint32_t forks = core.forks
    memset(&garbage, 0, sizeof(garbage))
    lock(&core.mutex)
    runner_enter(core, &runner)
    while True:
        if core.forks != forks:
            taken = False
            break
        if taken:
            core_finish(core, &run, now, again, &garbage)
            runner.calling = False
        taken = not interrupted and core.phase == STARTED and core_take_due(core, now, False, &run)
        if not taken:
            break
        runner.calling = True
        unlock(&core.mutex)
        if garbage.callback != NULL or garbage.key != NULL:
            drop(&garbage)
            memset(&garbage, 0, sizeof(garbage))
        interrupted = self.perform(&run, interruptible)
        try:
            now = now_of(self)
            share_gil(now, &gil_since)       # Ctrl-C may come out of it
        except BaseException as error:
            self.failure = error
            interrupted = True
        again = self.repeat_at(&run, now)
        drop(&run.references)
        lock(&core.mutex)
    runner_leave(core, &runner)
    unlock(&core.mutex)
    drop(&garbage)
    core_notify(core)
    if interrupted:
        error, self.failure = self.failure, None
        raise error
    return 0


cdef int drain_ready(Dispatcher self, uint32_t epoch) except -1:
    """One drain: takes callbacks one at a time until nothing is ready or due, or the engine stops."""
    cdef Core *core = self.c
    cdef Run run
    cdef References garbage
    cdef Runner runner
    cdef bint taken = False, wake = False, current
    cdef int64_t now = now_of(self), gil_since = now, again = -1
    cdef uint32_t forks = core.forks
    memset(&garbage, 0, sizeof(garbage))
    lock(&core.mutex)
    runner_enter(core, &runner)
    while True:
        if core.forks != forks:
            current = False
            break
        current = core.epoch == epoch
        if taken:
            core_finish(core, &run, now, again, &garbage)
            runner.calling = False
            if current:
                core.busy -= 1
        taken = current and core.phase == STARTED
        if taken:
            taken = core_take_ready(core, now, &run)
            if not taken and core_collect_due(core, now, BATCH):
                taken = core_take_ready(core, now, &run)
        if not taken:
            break
        core.busy += 1
        runner.calling = True
        unlock(&core.mutex)
        if garbage.callback != NULL or garbage.key != NULL:
            drop(&garbage)
            memset(&garbage, 0, sizeof(garbage))
        self.perform(&run, False)
        try:
            now = now_of(self)
            share_gil(now, &gil_since)
        except BaseException as error:
            # The run ends at the last time that is known; the loop meets the same fault, and it ends the loop.
            log_error(f"{self.name}: the clock failed", error)
        again = self.repeat_at(&run, now)
        drop(&run.references)
        lock(&core.mutex)
    runner_leave(core, &runner)
    if current:
        core.drains -= 1
    # The loop may sleep past the next timer because this drain was there, or because it was held back until now.
    core_prune(core)
    wake = core.heap.size != 0 and core_wants_wake(core, core.heap.nodes[0].when)
    unlock(&core.mutex)
    if wake:
        self.wake()
    drop(&garbage)
    core_notify(core)
    return 0
