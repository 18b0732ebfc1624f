"""See dispatcher.pxd.

Ground rules
* Every thread that runs callbacks lists a `Runner` in its core, so that a `stop` from inside knows itself.
* A run is finished under the mutex in the same breath in which the next one is taken.
* Whoever sees, under the mutex, that the phase is not STARTED starts nothing any more.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from .core cimport (
    ALARM,
    ARGUMENT_TUPLE,
    NO_REPEAT,
    ONE_ARGUMENT,
    STARTED,
    STOPPED,
    STOPPING,
    Core,
    References,
    Run,
    Runner,
    before_foreign_code,
    drop,
    has_tidings,
)
from .drains cimport core_set_phase, drains_summon
from .interpreter cimport call, call_tuple, is_asynchronous, take_exception
from .lead cimport BATCH, drain_park, promote
from .natives cimport TURN, native_call, native_due, native_end, native_take
from .owner cimport _Core
from .platform cimport NEVER, assert_held, lock, unlock, waker_wake
from .runners cimport runner_enter, runner_leave, runner_new, runner_set
from .runs cimport core_alarm_due, core_collect_due, core_finish, core_next_due, core_take_due, core_take_ready
from .timers cimport core_forget_orphans, core_sleeps_too_long
from .waiters cimport WakeEvent, core_notify

from types import MethodType

from pysched import lifecycle
from pysched.awaitables import refusal_of
from pysched.clock import DrivingClock, SystemClock
from pysched.reports import log_error
from pysched.waiting import breathe

cdef enum:
    GIL_SHARE_NS = 1_000_000         # a thread that runs callbacks lets others have the GIL this often


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
        """Tells of what a callback raised; returns what the telling raised, which is logged, or None."""

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
        if self.driven and not self.is_started():
            # Its start was interrupted after it had attached: it would be due for ever, and `advance` never return.
            self.clock.detach(self)
            return False
        return run_first(self, now_ns)

    def _next_alarm_ns(self):
        """When the earliest time-out of a run is due; None if there is none.  See `JobEngine`."""

    def _run_alarm(self):
        """Runs it."""

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
        self.failure = self.thread = self.crew = None
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


# -- running callbacks ----------------------------------------------------------------------------------------------

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


cdef struct Turn:                    # one thread's way through a series of runs
    Runner *runner
    Run run
    References garbage               # of the run before, to be dropped outside the mutex
    int64_t now                      # the end of the run before
    int64_t again                    # when its command comes again, or NO_REPEAT
    int64_t gil_since
    uint32_t forks
    bint running                     # `run` has started and is not finished


cdef int begin_turn(Dispatcher self, Turn *turn) except -1:
    """Lists this thread as one that runs callbacks.  Returns with the mutex held, unless the clock raises."""
    memset(turn, 0, sizeof(Turn))
    turn.now = turn.gil_since = now_of(self)
    turn.forks = self.c.forks
    self.read_wall()
    turn.runner = runner_new()
    lock(&self.c.mutex)
    runner_enter(self.c, turn.runner)
    return 0


cdef bint finish_run(Core *core, Turn *turn) noexcept nogil:
    """Finishes the run in progress, if there is one; False in a child that the callback forked.  The mutex is held."""
    assert_held(&core.mutex)
    if core.forks != turn.forks:
        turn.running = False             # it was the parent's, and the child's core has forgotten it
        return False
    if turn.running:
        core_finish(core, &turn.run, turn.now, turn.again, &turn.garbage)
        turn.running = turn.runner.calling = False
    return True


cdef bint call_run(Dispatcher self, Turn *turn, bint interruptible) noexcept:
    """Calls the run just taken and waits for its end: True if that ends the turn, with a reason in `failure`.

    Called with the mutex held and returns with it held; in between nothing is held.
    """
    cdef bint over
    turn.running = turn.runner.calling = True
    runner_set(turn.runner, &turn.run)
    unlock(&self.c.mutex)
    drop_garbage(turn)
    if has_tidings(self.c):
        self.reap()
    over = self.perform(&turn.run, interruptible)
    try:
        turn.now = now_of(self)
        share_gil(turn.now, &turn.gil_since)      # Ctrl-C may come out of it
    except BaseException as error:
        # The run ends at the last time that is known.
        self.failure = error
        over = True
    before_foreign_code()
    turn.again = self.repeat_at(&turn.run, turn.now)
    drop(&turn.run.references)
    lock(&self.c.mutex)
    return over


cdef void end_turn(Dispatcher self, Turn *turn, bint wake) noexcept:
    """Takes the thread off the list and gives the mutex back.  `wake`: the loop is to be woken."""
    cdef Core *core = self.c
    if wake or has_garbage(turn) or has_tidings(core):
        unlock(&core.mutex)
        if wake:
            self.wake()                  # first: a destructor may take its time
        drop_garbage(turn)               # on the list still: or it may stop the engine, and wait for this thread
        if has_tidings(core):
            self.reap()
        lock(&core.mutex)
    runner_leave(core, turn.runner)
    unlock(&core.mutex)
    core_notify(core)


cdef inline bint has_garbage(const Turn *turn) noexcept nogil:
    return turn.garbage.callback != NULL or turn.garbage.key != NULL


cdef inline void drop_garbage(Turn *turn) noexcept:
    if has_garbage(turn):
        drop(&turn.garbage)
        memset(&turn.garbage, 0, sizeof(References))


cdef int raise_failure(Dispatcher self) except -1:
    error, self.failure = self.failure, None
    raise error


cdef bint call_native(Dispatcher self, Turn *turn) noexcept:
    """`call_run` of a C function, without the GIL, and the end of its run."""
    cdef bint over = False
    turn.runner.job = 0
    turn.runner.calling = True
    unlock(&self.c.mutex)
    with nogil:
        native_call(&turn.run)
    try:
        turn.now = now_of(self)
    except BaseException as error:
        self.failure = error
        over = True
    lock(&self.c.mutex)
    native_end(self.c, &turn.run, turn.now, turn.forks)
    turn.runner.calling = False
    return over


cdef bint run_first(Dispatcher self, int64_t now) except -1:
    """Runs the earliest timer, if it is due by `now` and the engine is started: whether a callback ran."""
    cdef Turn turn
    cdef bint ran = False, over = False
    begin_turn(self, &turn)
    if self.c.phase == STARTED:
        if core_take_ready(self.c, now, False, &turn.run) or core_take_due(self.c, now, True, &turn.run):
            ran = True
            over = call_run(self, &turn, False)
            finish_run(self.c, &turn)
        elif native_take(self.c, now, &turn.run):
            ran = True
            over = call_native(self, &turn)
    end_turn(self, &turn, False)
    if over:
        raise_failure(self)
    return ran and not turn.run.flags & ALARM


cdef int run_inline(Dispatcher self, bint interruptible) except -1:
    """Runs what is due, one callback after the other, until nothing is."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef bint over = False
    begin_turn(self, &turn)
    while finish_run(core, &turn):
        if over or core.phase != STARTED or not core_take_due(core, turn.now, False, &turn.run):
            break
        over = call_run(self, &turn, interruptible)
    end_turn(self, &turn, False)
    if over:
        raise_failure(self)
    return 0


cdef int run_alarms(Dispatcher self) except -1:
    """Runs the alarms that are due and first in the heap, on the loop's thread."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef int64_t now = now_of(self)
    cdef bint due, over = False
    lock(&core.mutex)
    due = core_alarm_due(core, now)
    unlock(&core.mutex)
    if not due:
        return 0
    begin_turn(self, &turn)
    while finish_run(core, &turn):
        if over or core.phase != STARTED or not core_alarm_due(core, turn.now):
            break
        core_take_due(core, turn.now, True, &turn.run)
        over = call_run(self, &turn, False)
    end_turn(self, &turn, False)
    if over:
        raise_failure(self)
    return 0


cdef int run_natives(Dispatcher self) except -1:
    """Calls C functions that are due and first in the heap, on the loop's thread; the clock is a user's."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef int64_t now = now_of(self)
    cdef size_t called = 0
    cdef bint due, over = False
    lock(&core.mutex)
    due = native_due(core, now)
    unlock(&core.mutex)
    if not due:
        return 0
    begin_turn(self, &turn)
    while (not over and called < TURN and core.forks == turn.forks and core.phase == STARTED
            and native_take(core, turn.now, &turn.run)):
        over = call_native(self, &turn)
        called += 1
    end_turn(self, &turn, False)
    if over:
        raise_failure(self)
    return 0


cdef bint take_or_collect(Core *core, int64_t now, Run *run) noexcept:
    """Starts the first ready timer, after a look at what came due meanwhile if there is none.  The mutex is held."""
    assert_held(&core.mutex)
    if core_take_ready(core, now, False, run):
        return True
    if not core_collect_due(core, now, BATCH):
        return False
    drains_summon(core)                  # this drain takes one; the others go on
    return core_take_ready(core, now, False, run)


cdef void drain_occupied(Core *core, int64_t now) noexcept nogil:
    """Counts a drain as one that is inside of foreign code: what comes due is not left to it."""
    assert_held(&core.mutex)
    core.busy += 1
    if core.busy >= core.workers:
        core.full_since = now
    if core.following:
        promote(core, now)


cdef int clear_up(Dispatcher self, uint32_t epoch, Turn *turn) except -1:
    """Does what is left to do before a drain parks, which may run destructors and reports of any length.

    Called with the mutex held, returns with it held; in between nothing is held.
    """
    cdef Core *core = self.c
    # Of the leader, who met one at the top of the heap.
    cdef bint alarm = core.following and core_alarm_due(core, turn.now)
    if not (alarm or has_garbage(turn) or has_tidings(core)):
        return 0
    drain_occupied(core, turn.now)
    unlock(&core.mutex)
    try:
        drop_garbage(turn)
        if has_tidings(core):
            self.reap()
        if alarm:
            run_alarms(self)
    finally:
        lock(&core.mutex)
        if core.epoch == epoch and core.forks == turn.forks:
            core.busy -= 1
    return 0


cdef bint park(Dispatcher self, uint32_t epoch, Turn *turn) noexcept:
    """Waits without the GIL for more work: True if that ends the turn, with a reason in `failure`.

    Called and returns with the mutex held; nothing is held in between.
    """
    cdef Core *core = self.c
    cdef bint over = False
    try:
        clear_up(self, epoch, turn)
    except BaseException as error:
        self.failure = error
        return True
    unlock(&core.mutex)
    core_notify(core)
    try:
        with nogil:
            drain_park(core, epoch, self.event, turn.runner)
        turn.now = turn.gil_since = now_of(self)
    except BaseException as error:
        self.failure = error
        over = True
    lock(&core.mutex)
    return over


cdef int drain_ready(Dispatcher self, uint32_t epoch) except -1:
    """One drain: takes callbacks one at a time until nothing is ready or due and it may not park, or a stop."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef bint over = False, wake
    try:
        begin_turn(self, &turn)
    except BaseException:                # a start that comes before the loop has left must not count on this drain
        lock(&core.mutex)
        core.drains -= core.epoch == epoch and core.drains != 0
        unlock(&core.mutex)
        raise
    while True:
        if turn.running and core.epoch == epoch and core.forks == turn.forks:
            core.busy -= 1
        if not finish_run(core, &turn):
            break
        if over or core.epoch != epoch or core.phase != STARTED:
            break
        if not take_or_collect(core, turn.now, &turn.run):
            if not core.parking:
                break
            over = park(self, epoch, &turn)
            continue
        drain_occupied(core, turn.now)
        over = call_run(self, &turn, False)
    if core.epoch == epoch and core.drains:      # a pool of a user's make may run one twice
        core.drains -= 1
    # The loop may sleep past the next timer because this drain was there, or because it was held back until now.
    wake = core_sleeps_too_long(core)
    end_turn(self, &turn, wake)
    if over:
        raise_failure(self)
    return 0
