"""See executors.pxd."""

from libc.stdint cimport UINT32_MAX, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from .core cimport (
    NO_REPEAT,
    STARTED,
    Core,
    References,
    Run,
    Runner,
    before_foreign_code,
    drop,
    has_tidings,
)
from .dispatcher cimport Dispatcher, now_of
from .drains cimport drains_go_on, drains_summon, drains_wanted
from .platform cimport lock, sleep_slack, unlock
from .runners cimport runner_enter, runner_leave, runner_new, runner_set
from .runs cimport core_accept, core_finish, core_refuse, core_take_ready, core_unstart
from .turns cimport drain_ready
from .waiters cimport core_notify

from functools import partial
from os import getpid
from threading import Thread

from pysched import lifecycle
from pysched.reports import log_error, printable
from pysched.text import shown

cdef uint32_t EACH_BY_ITSELF = UINT32_MAX     # `Core.workers` for an executor that is no thread pool


cdef int accept_executor(Dispatcher self, object executor, object daemon) except -1:
    """Takes what `Engine(executor, daemon=)` was given: None, a number of workers, or an executor."""
    if not isinstance(daemon, bool):
        raise TypeError(f"daemon must be a bool, got {type(daemon).__name__}")
    if executor is None:
        return 0
    if isinstance(executor, bool):
        raise TypeError("executor must be None, a number of workers or an Executor, got a bool")
    if isinstance(executor, int):
        if not 1 <= executor <= 1 << 20:
            raise ValueError(f"executor, as a number of workers, must be from 1 to {1 << 20}, got {shown(executor)}")
        self.workers = executor
        self.daemon = daemon
        return 0
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be None, a number of workers or an Executor, got {type(executor).__name__}")
    if daemon:
        raise ValueError("daemon needs a number of workers: the threads of an executor are its own")
    self.executor = executor
    self.executor_pid = getpid()
    return 0


cdef object open_pool(Dispatcher self):
    """The executor for a loop that is about to start, or None; tells the core how many workers it has."""
    cdef uint32_t workers = 0
    cdef bint parking
    if self.executor is None and (self.daemon or not self.workers):
        pool = None
        workers = self.workers
    else:
        from concurrent.futures import ThreadPoolExecutor

        if self.executor is None:
            pool = ThreadPoolExecutor(self.workers, thread_name_prefix=f"{printable(self.name)}-worker")
            workers = self.workers
        else:
            if self.executor_pid != getpid():
                raise RuntimeError("the executor was made before a fork and has no threads here: make a new engine")
            pool = self.executor
            workers = pool._max_workers if isinstance(pool, ThreadPoolExecutor) else EACH_BY_ITSELF
    parking = self.daemon or (self.executor is None and self.c.native_clock and lifecycle.stops_before_pools())
    lock(&self.c.mutex)
    self.c.workers = workers
    self.c.following = self.daemon and self.c.native_clock
    self.c.parking = parking
    unlock(&self.c.mutex)
    return pool


cdef int hand_over(Dispatcher self, object pool, uint32_t epoch) except -1:
    """Gets the ready runs on their way.  Raises what the executor raises; nothing is lost by that."""
    if self.c.workers == EACH_BY_ITSELF:
        return submit_each(self, pool, epoch)
    return submit_drains(self, pool, epoch)


# -- thread pools ---------------------------------------------------------------------------------------------------

def _drain(Dispatcher self not None, uint32_t epoch, pool):
    """What a thread pool is given, and the target of a daemon worker, whose drain lasts as long as its start.

    `pool`: one of our own, else None.  A drain that fails (its clock did) ends the loop, which raises the reason.
    """
    cdef bint waits = self.c.parking     # for deadlines, too
    cdef uint32_t forks = self.c.forks
    cdef long slack = sleep_slack(1) if waits else 0
    try:
        drain_ready(self, epoch)
    except BaseException as error:
        self.fail(error)
    if waits:
        sleep_slack(slack)
    if pool is not None and self.c.forks != forks:   # a callback has forked, and this is the child
        lifecycle.leave_pool(pool)


def _drain_done(Dispatcher self not None, uint32_t epoch, future):
    """Gives back the count of a drain that never began: it was cancelled, or the pool is broken.  No drain raises."""
    if future.cancelled() or future.exception() is not None:
        lock(&self.c.mutex)
        if self.c.epoch == epoch and self.c.drains:
            self.c.drains -= 1
        unlock(&self.c.mutex)
        self.wake()


cdef int start_workers(Dispatcher self, uint32_t epoch) except -1:
    """Starts the daemon workers that are missing; they begin at once.

    If one cannot be started the caller must stop the engine.
    """
    cdef uint32_t i, present = self.workers
    lock(&self.c.mutex)
    if self.c.epoch == epoch and self.c.phase == STARTED:
        present = self.c.drains
        self.c.drains = self.workers
    unlock(&self.c.mutex)
    self.crew = [thread for thread in self.crew or () if thread.is_alive()]   # a callback outlived the last stop
    name = printable(self.name)
    for i in range(present, self.workers):
        thread = Thread(target=_drain, args=(self, epoch, None), name=f"{name}-worker_{i}", daemon=True)
        thread.start()
        self.crew.append(thread)
    return 0


cdef int submit_drains(Dispatcher self, object pool, uint32_t epoch) except -1:
    """Submits the drains that are wanted.  What the pool raises must end the loop, as of that start.

    A pool that has no new thread for a drain says no and keeps it: another thread may come to it later.  So it stays
    counted, and counts itself out then.
    """
    cdef Core *core = self.c
    cdef uint32_t wanted
    own = pool if self.executor is None else None
    while True:
        lock(&core.mutex)
        drains_summon(core)
        # Daemon workers are all there: one that leads, or is about to, sees for itself what is ready.
        # A loop whose start is over, as a drain has failed, must not send one of its own in place of the next start's.
        wanted = drains_wanted(core) if core.epoch == epoch and core.phase == STARTED and pool is not None else 0
        core.drains += wanted != 0
        unlock(&core.mutex)
        if not wanted:
            return 0
        future = pool.submit(_drain, self, epoch, own)
        future.add_done_callback(partial(_drain_done, self, epoch))


# -- other executors ------------------------------------------------------------------------------------------------

cdef class Submitted:
    """A run that an executor has; ends it when its future is done."""

    cdef Dispatcher dispatcher
    cdef Run run
    cdef Runner *runner              # for the end; made beforehand, since that must not fail
    cdef tuple called                # of a job or a retry: what the executor was given; a ticket may be in it
    cdef uint32_t forks
    cdef bint taken                  # by the executor
    cdef bint finished

    def __dealloc__(self):
        free(self.runner)

    def __call__(self, future):
        self.conclude(future)

    def __del__(self):
        if self.taken and not self.finished and self.forks == self.dispatcher.c.forks and not lifecycle.exiting():
            self.conclude(None)          # the future is gone: nobody else will ever tell

    cdef int conclude(self, object future) except -1:
        cdef Runner *runner
        cdef Core *core = self.dispatcher.c
        lock(&core.mutex)
        runner = self.runner
        self.runner = NULL
        if runner == NULL or self.finished:      # the future told before
            unlock(&core.mutex)
            free(runner)
            return 0
        runner_enter(core, runner)
        runner.calling = True
        runner_set(runner, &self.run)
        unlock(&core.mutex)
        try:
            from concurrent.futures import Future  # a future of another make may have to fetch its result

            if future is None:
                raise RuntimeError("the executor dropped the future of the callback, whose end nobody knows now")
            cancelled = bool(future.cancelled())
            if not cancelled:
                error = future.exception()
                self.report(self.dispatcher.omission_of(&self.run, self.called) if error is None else error)
                if error is None and isinstance(future, Future):
                    self.dispatcher.take_result(&self.run, future.result())
        except BaseException as error:
            cancelled = False
            self.report(error)
        self.dismiss()
        self.finish(cancelled, runner)
        return 0

    cdef int dismiss(self) noexcept:
        try:
            self.dispatcher.dismiss(&self.run, self.called)
        except BaseException as failure:
            log_error(f"{self.dispatcher._name}: a callback failed to end", failure)
        return 0

    cdef int report(self, object error) noexcept:
        if error is None:
            return 0
        try:
            self.dispatcher.fail_run(&self.run, error, self.called)
        except BaseException as failure:
            log_error(f"{self.dispatcher._name}: an error could not be reported", failure)
        return 0

    cdef int finish(self, bint cancelled, Runner *runner) except -1:
        """Ends the run, once; the time is that of its start if the clock fails, which also ends the loop."""
        cdef Core *core = self.dispatcher.c
        cdef References garbage
        cdef bint wake
        cdef int64_t now = self.run.due
        try:
            now = now_of(self.dispatcher)
        except BaseException as error:
            self.dispatcher.fail(error)
        memset(&garbage, 0, sizeof(garbage))
        lock(&core.mutex)
        if core.forks == self.forks and not self.finished:
            self.finished = True
            self.run.dropped = cancelled
            core_finish(core, &self.run, now, NO_REPEAT, &garbage)
            if cancelled:
                core_unstart(core, &self.run)
                core.dropped += 1
        if runner != NULL:
            runner_leave(core, runner)
        wake = drains_go_on(core)
        unlock(&core.mutex)
        if wake:
            self.dispatcher.wake()
        drop(&garbage)
        if has_tidings(core):
            self.dispatcher.reap()
        core_notify(core)
        return 0


cdef int submit_each(Dispatcher self, object executor, uint32_t epoch) except -1:
    cdef Core *core = self.c
    cdef Submitted submitted
    cdef References garbage
    cdef bint taken
    cdef int64_t now
    while True:
        submitted = Submitted.__new__(Submitted)
        submitted.dispatcher = self
        submitted.runner = runner_new()
        submitted.forks = core.forks
        now = now_of(self)
        lock(&core.mutex)
        taken = core.epoch == epoch and core.phase == STARTED and core_take_ready(core, now, True, &submitted.run)
        unlock(&core.mutex)
        if not taken:
            return 0
        memset(&garbage, 0, sizeof(garbage))
        before_foreign_code()
        try:
            called = self.call_of(&submitted.run)
            submitted.called = self.kept_of(&submitted.run, called)
            future = executor.submit(*called)
        except BaseException:
            lock(&core.mutex)
            core_refuse(core, &submitted.run)
            unlock(&core.mutex)
            drop(&submitted.run.references)
            raise
        lock(&core.mutex)
        core_accept(core, &submitted.run, &garbage)
        unlock(&core.mutex)
        submitted.taken = True
        drop(&submitted.run.references)
        drop(&garbage)
        try:
            future.add_done_callback(submitted)
        except BaseException:
            # No future: nobody will ever tell of its end.
            submitted.report(self.omission_of(&submitted.run, submitted.called))
            submitted.dismiss()
            submitted.finish(False, NULL)
            raise
