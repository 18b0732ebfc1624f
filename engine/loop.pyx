"""See loop.pxd.

Ground rules
* At most one thread is in `loop` for a core (`Core.looping`); only it, or a thread that knows there is none, moves the
  phase from STOPPING to STOPPED.
* It sleeps in lead.pyx, without the GIL.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport STOPPED, Core, Runner, core_hold, core_release, has_tidings, saturating_add, time_left
from .dispatcher cimport Dispatcher, now_of, raise_failure
from .executors cimport hand_over
from .lead cimport (
    BATCH,
    CLOCK_LOOK_NS,
    LEFT,
    LOOK,
    WORK,
    Outcome,
    has_work,
    is_over,
    leave_loop,
    sleep_until,
    wait_for_work,
)
from .platform cimport NEVER, lock, sleep_slack, unlock
from .runners cimport runner_enter, runner_leave, runner_new
from .runs cimport core_collect_due
from .signals cimport SignalPipe
from .turns cimport run_alarms, run_inline, run_natives
from .waiters cimport core_notify
from .wakes cimport core_prune

from threading import TIMEOUT_MAX

from pysched import lifecycle
from pysched.reports import log_error

# -- a user's clock -------------------------------------------------------------------------------------------------

cdef object seconds_left(int64_t until, int64_t now):
    """How long a user's clock may wait: no wait of `threading` takes more than TIMEOUT_MAX."""
    return min(time_left(until, now) / 1e9, TIMEOUT_MAX)


cdef Outcome wait_through_clock(Dispatcher self, uint32_t epoch) except *:
    """`wait_for_work` through a user's clock, whose methods are foreign code."""
    cdef Core *core = self.c
    cdef int64_t now, until
    cdef Outcome outcome = LOOK
    self.event.clear()
    self.read_wall()
    now = now_of(self)
    lock(&core.mutex)
    if is_over(core, epoch):
        outcome = LEFT
    else:
        if core.workers:
            core_collect_due(core, now, BATCH)
        core_prune(core)
        if has_work(core, now) or (core.heap.size and core.heap.nodes[0].when <= now):
            outcome = WORK
        else:
            until = sleep_until(core, now)
            core.sleep_until = until
            core.sleeping = True
            if core.on_wall:             # nobody else tells that the wall clock was set
                until = min(until, saturating_add(now, CLOCK_LOOK_NS))
    unlock(&core.mutex)
    if outcome == LEFT:
        self.event.announce()            # what was cleared here may have been for the loop of a later start
    if outcome != LOOK:
        return outcome
    try:
        self.clock.wait(self.event, None if until == NEVER else seconds_left(until, now))
    finally:
        lock(&core.mutex)
        core.sleeping = False
        core.wakeups += 1
        unlock(&core.mutex)
    return LOOK


# -- the loop's life ------------------------------------------------------------------------------------------------

cdef int run_loop(Dispatcher self, object pool, uint32_t epoch, SignalPipe signals, Runner *runner) except -1:
    """Loops until somebody stops it.  What it raises ended it; `abandon` must follow."""
    cdef Core *core = self.c
    cdef int signal_fd = -1 if signals is None else signals.reading
    cdef uint32_t forks = core.forks
    cdef Outcome outcome
    while core.forks == forks:           # a child that comes back from a callback has no business here
        if self.clock is None:
            with nogil:
                outcome = wait_for_work(core, epoch, signal_fd, runner)
        else:
            outcome = wait_through_clock(self, epoch)
        if outcome == LEFT:
            if self.failure is not None:
                raise_failure(self)
            return 0
        if signals is not None:
            signals.look()
        if has_tidings(core):
            self.reap()
        if outcome == LOOK:
            core_notify(core)
        if outcome == WORK:
            if self.clock is not None:   # else those that are due have run already
                run_natives(self)
            if not core.workers:
                run_inline(self, signals is not None)
            else:
                run_alarms(self)
                hand_over(self, pool, epoch)
    return 0


cdef int abort(Dispatcher self, object pool, uint32_t epoch) except -1:
    """Makes the core a stopped one if the loop of this start has not left by itself; lets go of a pool of our own."""
    abandon(self, epoch)
    end_pool(self, pool)
    return 0


cdef void abandon(Dispatcher self, uint32_t epoch) noexcept:
    """Makes the core a stopped one if the loop of this start has not left by itself."""
    cdef Core *core = self.c
    lock(&core.mutex)
    if core.epoch == epoch and core.phase != STOPPED:
        leave_loop(core)
    unlock(&core.mutex)
    self.wake()                          # of daemon workers one may sleep in the loop's place


cdef int loop(Dispatcher self, object pool, uint32_t epoch, SignalPipe signals) except -1:
    """Everything that the thread of a loop does, from its first line to its last."""
    cdef Core *core = self.c
    cdef Runner *runner = NULL
    cdef long slack = sleep_slack(1)
    core_hold(core)
    try:
        runner = runner_new()
        lock(&core.mutex)
        runner_enter(core, runner)
        unlock(&core.mutex)
        run_loop(self, pool, epoch, signals, runner)
    except BaseException as error:
        if self.awaited == epoch:        # by one that joins this thread
            self.verdict = error
        abandon(self, epoch)             # nothing starts while this is told, a drain that a pool has kept say
        try:
            if not (lifecycle.exiting() or (signals is not None and is_interrupt(error))):
                log_error(f"{self.name}: the loop has ended", error)
        finally:
            let_go(self, pool, epoch, signals)
        raise
    finally:
        sleep_slack(slack)
        if runner != NULL:
            lock(&core.mutex)
            runner_leave(core, runner)
            unlock(&core.mutex)
        core_release(core)
    # Here the phase is STOPPED, and another thread may have started the engine anew already.
    let_go(self, pool, epoch, signals)
    return 0


cdef int let_go(Dispatcher self, object pool, uint32_t epoch, SignalPipe signals) except -1:
    """`end_pool`, at the end of a loop; what that raises is told like what ended the loop, which comes first."""
    try:
        end_pool(self, pool)
    except BaseException as error:
        if self.awaited == epoch and self.verdict is None:
            self.verdict = error
        if not (lifecycle.exiting() or (signals is not None and is_interrupt(error))):
            log_error(f"{self.name}: the loop has ended, but not its pool", error)
        raise
    return 0


cdef bint is_interrupt(object error) noexcept:
    """Whether `run()` ends with this because somebody wanted it to, and not because of a fault of the loop."""
    return isinstance(error, (KeyboardInterrupt, SystemExit))


cdef int end_pool(Dispatcher self, object pool) except -1:
    """What is left to do when a loop has left; a pool of our own goes."""
    try:
        if pool is not None and self.executor is None:
            pool.shutdown(wait=False)
    finally:                             # others wait for this
        if has_tidings(self.c):
            self.reap()
        core_notify(self.c)
    return 0
