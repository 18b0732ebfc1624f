"""The life of a loop: start, run, stop, wait.

A `stop` waits by looking again whenever it is told to, so nothing here holds anything while it waits.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport STARTED, STOPPED, STOPPING, Core, Runner, Waiter, has_tidings
from .dispatcher cimport Dispatcher, now_of
from .drains cimport core_set_phase
from .executors cimport open_pool, start_workers
from .jobs cimport job_feed_all
from .lateness cimport Histogram, histogram_summary
from .lead cimport leave_loop
from .loop cimport abort, loop
from .platform cimport NEVER, lock, unlock, waker_open, waker_wait
from .runners cimport runner_enter, runner_leave, runner_new, runs_here
from .runs cimport core_put_back
from .signals cimport SignalPipe
from .waiters cimport core_notify, core_wait_for, waiter_free, waiter_new
from .wakes cimport core_prune

import threading
from functools import partial
from sys import is_finalizing
from time import monotonic

from pysched import lifecycle
from pysched.apart import apart, is_on_main_thread
from pysched.reports import log_error, log_warning, printable
from pysched.stats import EngineStats
from pysched.waiting import join

cdef enum:
    LEAVE_S = 5                      # how long an interrupted run() waits for its loop, which leaves at once


def _loop_thread(Dispatcher self not None, pool, uint32_t epoch):
    """The target of the loop's own thread: nothing leaves it, since `loop` has logged it; `run()` may wait for it."""
    try:
        loop(self, pool, epoch, None)
    except BaseException:
        pass


cdef int begin(Dispatcher self, bint resume, uint32_t *epoch) except -1:
    """Makes the core a started one with a loop to come, that of `epoch`: 1.

    0 if it has one already, 2 if a stop was taken back, 3 if it was closed.
    """
    cdef Core *core = self.c
    cdef int result = 1
    cdef int64_t now = now_of(self)
    if not self.driven:
        lifecycle.arm()                  # where it may turn out that the exit has begun
        if lifecycle.exiting():
            raise RuntimeError("an engine cannot be started while the interpreter ends")
    cdef bint opened = True
    cdef object failure = None, _stale = None
    lock(&core.mutex)
    if core.phase == STOPPING and resume and (core.following or (core.workers and self.failure is not None)):
        # A stop cannot be taken back: some of its workers may have left already, or one of them has failed.
        failure = self.failure
        if self.awaited == core.epoch:
            self.verdict = failure
        leave_loop(core)
    if core.closed:
        result = 3
    elif core.phase == STARTED or (core.phase == STOPPING and not resume):
        result = 0
    elif core.phase == STOPPING:
        core.phase = STARTED
        job_feed_all(core)
        result = 2
    elif core.native_clock and waker_open(&core.waker):
        opened = False
    else:
        # Of a clock that failed when the loop before was on its way out anyway; `_stale` keeps it until the unlock.
        _stale = self.failure
        self.failure = None
        core.phase = STARTED
        core.looping = not self.driven
        core.start_ns = now
        core.epoch += 1
        core.launched = False
        core.drains = core.busy = core.parked = core.summons = 0
        core.outgoing |= core.led and not core.engaged
        core.led = core.engaged = core.heir = core.napping = core.standing_in = False
        core.aside_until = -NEVER
        core.deputy_until = NEVER
    epoch[0] = core.epoch
    unlock(&core.mutex)
    if failure is not None:              # nobody else will
        try:
            unlogged = log_error(f"{self.name}: the loop has ended", failure)
            if isinstance(unlogged, KeyboardInterrupt):
                raise unlogged
        except BaseException:
            give_up(self, epoch[0])
            raise
    if not opened:
        raise OSError("no descriptor for the loop's wake-up")
    return result


cdef int start(Dispatcher self) except -1:
    """Starts the loop on a thread of its own; nothing if it runs.  O(1)."""
    return listed(self, launch)


cdef int run(Dispatcher self) except -1:
    """The loop on the caller's thread, until `stop`."""
    return listed(self, run_here)


cdef int listed(Dispatcher self, int (*action)(Dispatcher) except -1) except -1:
    """Does `action` as a thread of the engine: a signal handler that stops it meanwhile must not wait for it."""
    cdef Runner *runner = enlist(self.c)
    try:
        return action(self)
    finally:
        delist(self.c, runner)


cdef Runner *enlist(Core *core) except NULL:
    cdef Runner *runner = runner_new()
    lock(&core.mutex)
    runner_enter(core, runner)
    unlock(&core.mutex)
    return runner


cdef void delist(Core *core, Runner *runner) noexcept:
    lock(&core.mutex)
    runner_leave(core, runner)
    unlock(&core.mutex)


cdef int launch(Dispatcher self) except -1:
    cdef Core *core = self.c
    cdef uint32_t epoch                  # another thread may stop and start anew meanwhile
    cdef bint outlived
    cdef int begun = begin(self, True, &epoch)
    if begun == 0 or begun == 3:
        return 0
    if begun == 2:
        self.wake()
        core_notify(core)
        if self.daemon:
            open_apart(self, _restaff, epoch)
        lock(&core.mutex)
        outlived = core.running != 0
        unlock(&core.mutex)
        if outlived:
            log_warning(f"{self.name}: a callback from before the stop still runs; its loop goes on")
        return 0
    if not self.driven:
        open_apart(self, _open_threads, epoch)
        return 0
    try:
        self.clock.attach(self.age, self)
    except BaseException:
        give_up(self, epoch)
        self.clock.detach(self)          # which would keep it alive
        raise
    return 0


cdef int run_here(Dispatcher self) except -1:
    cdef int begun
    cdef uint32_t epoch
    cdef SignalPipe signals = None
    cdef bint on_main_thread = is_on_main_thread()   # before the start: a signal handler may raise in there
    if self.driven:
        raise RuntimeError(f"{self.name}: its clock runs it; there is nothing for run() to wait for")
    begun = begin(self, False, &epoch)
    if begun == 3:
        return 0
    if begun == 0:
        raise RuntimeError(f"{self.name} is running already")
    if on_main_thread and (self.workers or self.executor is not None):
        return run_beside(self, epoch)
    pool = None
    try:
        pool = open_pool(self)
        if on_main_thread:
            signals = SignalPipe()
        if self.daemon:
            start_workers(self, epoch)
    except BaseException:
        try:
            abort(self, pool, epoch)
        finally:
            if signals is not None:
                signals.close()
        raise
    lock(&self.c.mutex)
    if self.c.epoch == epoch:
        self.c.launched = True
    unlock(&self.c.mutex)
    try:
        loop(self, pool, epoch, signals)
    finally:
        if signals is not None:
            signals.close()
    return 0


cdef int run_beside(Dispatcher self, uint32_t epoch) except -1:
    """`run()` with an executor on the main thread: the loop has a thread of its own, and this one waits for its end.

    Were it here, a Ctrl-C inside the executor's Python code could leave one of its locks taken for ever.  Nobody sees
    the difference: callbacks do not run here in any case.
    """
    cdef Core *core = self.c
    cdef SignalPipe signals = None
    self.awaited, self.verdict = epoch, None
    try:
        signals = SignalPipe()
        if waker_open(&core.left):
            raise OSError("no descriptor for the wake-up of run()")
        thread = open_apart(self, _open_threads, epoch)
        while not has_left(self, epoch):
            with nogil:
                waker_wait(&core.left, signals.reading, NEVER)
            signals.look()
        if thread is not None:           # else a start on another thread has come first
            thread.join()                # it has left, and is about to tell what ended it
    except BaseException:
        give_up(self, epoch)
        core_wait_for(self.c, lambda: has_left(self, epoch), LEAVE_S, NULL)
        raise
    finally:
        self.awaited = 0
        if signals is not None:
            signals.close()
    verdict, self.verdict = self.verdict, None
    if verdict is not None:
        raise verdict
    return 0


cdef bint has_left(Dispatcher self, uint32_t epoch) noexcept:
    cdef bint left
    lock(&self.c.mutex)
    left = self.c.epoch != epoch or self.c.phase == STOPPED
    unlock(&self.c.mutex)
    return left


cdef int give_up(Dispatcher self, uint32_t epoch) except -1:
    """Lets that start end, wherever it is, and waits for nothing."""
    cdef Core *core = self.c
    lock(&core.mutex)
    if core.epoch == epoch and core.phase != STOPPED:
        if not core.launched:            # nobody else is to end it
            leave_loop(core)
        elif core.phase == STARTED:
            core_set_phase(core, STOPPING)
    unlock(&core.mutex)
    self.wake()
    if has_tidings(core):
        self.reap()
    core_notify(core)
    return 0


cdef object open_apart(Dispatcher self, object opening, uint32_t epoch):
    """`opening(self, epoch)`, not on the main thread; if it fails, or Ctrl-C comes, the core is or will be stopped."""
    try:
        return apart(partial(_open_listed, self, opening, epoch))
    except BaseException:
        give_up(self, epoch)
        raise


def _open_listed(Dispatcher self not None, opening, uint32_t epoch):
    """As a thread of the engine, too: a destructor that stops it meanwhile must not wait for this start."""
    cdef Runner *runner = enlist(self.c)
    try:
        return opening(self, epoch)
    finally:
        delist(self.c, runner)


def _open_threads(Dispatcher self not None, uint32_t epoch):
    """Gives the loop a pool if it needs one, and a daemon thread, which is returned; workers that are daemons theirs.

    Here the threads and the pool of the start before are let go of, too.
    """
    cdef Core *core = self.c
    cdef bint given_up
    lock(&core.mutex)
    given_up = core.epoch != epoch or core.phase == STOPPED
    core.launched |= not given_up
    unlock(&core.mutex)
    if given_up:                         # by the main thread, before this one began
        return None
    pool = thread = None
    try:
        pool = open_pool(self)
        if self.daemon:
            start_workers(self, epoch)
        name = printable(self.loop_name())
        thread = threading.Thread(target=_loop_thread, args=(self, pool, epoch), name=name, daemon=True)
        thread.start()
    except BaseException:
        if thread is not None and thread.is_alive():
            give_up(self, epoch)         # its loop leaves, and lets go of the pool
        else:
            abort(self, pool, epoch)
        raise
    if is_current(self, epoch):          # else that of a later start stands there
        self.thread = thread
    return thread


def _restaff(Dispatcher self not None, uint32_t epoch):
    """Starts daemon workers in place of those that had left before a stop was taken back."""
    try:
        start_workers(self, epoch)
    except BaseException:
        abort(self, None, epoch)
        raise


cdef bint stop(Dispatcher self, object timeout) except -1:
    """Stops the loop and waits at most `timeout` seconds for what runs; whether nothing is left running.

    From inside a callback, or a signal handler on the loop's own thread, it signals and returns.
    """
    cdef Waiter *waiter
    cdef size_t own
    # When the interpreter ends, the threads of daemon loops are gone: nothing to wait for.
    cdef bint inside = is_finalizing()   # before the lock: like any call of Python's it may raise
    lock(&self.c.mutex)
    inside |= runs_here(self.c, &own)
    unlock(&self.c.mutex)
    if inside:
        return stop_and_wait(self, None, own, NULL)
    waiter = waiter_new()                # beforehand: without memory nothing is stopped
    try:
        return stop_and_wait(self, timeout, 0, waiter)
    finally:
        waiter_free(waiter)


cdef bint stop_and_wait(Dispatcher self, object timeout, size_t own, Waiter *waiter) except -1:
    """`own`: how many callbacks this thread is inside of.  `waiter`: to wait by; NULL: it does not wait."""
    cdef Core *core = self.c
    cdef bint idle
    cdef object deadline = None if timeout is None else monotonic() + timeout
    thread = self.thread
    crew = self.crew or ()
    cdef object over = None if waiter == NULL else partial(_has_ended, self)
    lock(&core.mutex)
    if core.phase == STARTED:
        core_set_phase(core, STOPPING if core.looping else STOPPED)
        if not core.looping:
            core_put_back(core)          # else the loop does it when it leaves
    core.sleeping = False
    idle = core.running == own
    unlock(&core.mutex)
    self.wake()
    if self.driven:
        self.clock.detach(self)
    if has_tidings(core):
        self.reap()
    if waiter == NULL:
        return idle
    if not core_wait_for(self.c, over, timeout, waiter) or not is_stopped(self):
        return False
    if has_tidings(core):                # by what was dropped
        self.reap()
    # Their last lines: no thread of ours is seen after a stop.
    for ours in (thread, *crew):
        if ours is not None and ours is not threading.current_thread():
            join(ours, deadline)
    return True


cdef bint is_current(Dispatcher self, uint32_t epoch) noexcept:
    cdef bint current
    lock(&self.c.mutex)
    current = self.c.epoch == epoch
    unlock(&self.c.mutex)
    return current


cdef bint is_stopped(Dispatcher self) noexcept:
    cdef bint stopped
    lock(&self.c.mutex)
    stopped = self.c.phase == STOPPED
    unlock(&self.c.mutex)
    return stopped


def _has_ended(Dispatcher self not None):
    """Whether a stop is over: nothing runs any more, or a `start` took it back."""
    cdef bint ended
    lock(&self.c.mutex)
    ended = self.c.phase == STARTED or (self.c.phase == STOPPED and self.c.running == 0)
    unlock(&self.c.mutex)
    return ended


cdef bint wait_idle(Dispatcher self, object timeout) except -1:
    """Waits until nothing is due (unless the core is closed), queued or running; whether that came about."""
    cdef size_t own
    cdef bint inside
    if is_finalizing():                  # threads of daemon loops are gone: what is queued stays so
        return is_idle(self)
    lock(&self.c.mutex)
    inside = runs_here(self.c, &own)
    unlock(&self.c.mutex)
    if inside:
        raise RuntimeError("wait_idle on a thread of the engine would wait for itself")
    if self.driven:
        return is_idle(self)
    return core_wait_for(self.c, lambda: is_idle(self), timeout, NULL)


cdef bint is_idle(Dispatcher self) except -1:
    cdef Core *core = self.c
    cdef int64_t now = now_of(self)
    cdef bint idle
    lock(&core.mutex)
    core_prune(core)
    idle = (core.ring_count == core.zombies and core.running == 0
            and (core.heap.size == 0 or core.heap.nodes[0].when > now or core.closed))
    unlock(&core.mutex)
    return idle


cdef object stats(Dispatcher self):
    """A `pysched.EngineStats`, of one instant."""
    cdef Core *core = self.c
    cdef uint64_t scheduled, started, cancelled, coalesced, errors, wakeups, dropped
    cdef size_t ready, running, pending
    cdef Histogram lateness
    with nogil:
        lock(&core.mutex)
        scheduled = core.scheduled
        started = core.started
        cancelled = core.cancelled
        coalesced = core.coalesced
        errors = core.errors
        wakeups = core.wakeups
        dropped = core.dropped
        ready = core.ring_count - core.zombies
        running = core.running
        pending = core.live
        lateness = core.lateness
        unlock(&core.mutex)
    return EngineStats(
        scheduled=scheduled,
        started=started,
        cancelled=cancelled,
        coalesced=coalesced,
        errors=errors,
        wakeups=wakeups,
        ready=ready,
        running=running,
        pending=pending,
        dropped=dropped,
        abandoned=0,
        lateness=histogram_summary(&lateness),
    )
