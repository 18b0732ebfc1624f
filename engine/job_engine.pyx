"""See job_engine.pxd.

A job is named by its reference, an int: the generation of its slot << 24 | the slot, never used twice by an engine.

The owner, a `Scheduler`, is told, with nothing held:
`_job_failed(reference, error)`   a run that is not managed has raised `error`, before the run is accounted for;
`_job_returned(ticket, awaitable)`   its callback has returned an awaitable: from now on it is managed, by this ticket;
`_job_left(reference, snapshot)`  a job has left by itself, after its last run; the snapshot is None unless `observe`d;
`_job_decided(reference, decision, when, slot, count, late)`   what became of slots, if `observe`d; see `decisions`;
`_job_runs(ticket, callback, args)`   it is to do a run that is not managed, if `watch`ed.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport (
    ALARM,
    JOB,
    MANAGED,
    PENDING,
    STARTED,
    Core,
    Entry,
    Item,
    News,
    References,
    Run,
    Runner,
    Slot,
    before_foreign_code,
    drop,
    entry_call,
    has_tidings,
    saturating_add,
    slot_at,
)
from .dispatch cimport run as run_here
from .dispatch cimport start as start_loop
from .dispatch cimport stats as take_stats
from .dispatch cimport stop as stop_loop
from .dispatch cimport wait_idle as wait_until_idle
from .dispatcher cimport Dispatcher, now_of
from .driven cimport Driven
from .executors cimport accept_executor
from .handle cimport TimerHandle, new_handle
from .heap cimport SLOT_BITS
from .interpreter cimport call, is_awaitable, take_exception, this_thread
from .invariants cimport core_check
from .job_list cimport note_of
from .job_table cimport JobTable
from .jobs cimport FAILED
from .platform cimport NEVER, lock, poke, unlock, wall_ns
from .snapshot cimport Copy, new_snapshot, take_copy
from .ticket cimport Ticket, new_ticket
from .timers cimport core_add, core_detach
from .waiters cimport core_notify

from pysched.reports import log_error


cdef class JobEngine(JobTable):
    """Runs jobs for `owner` on `executor`, which is what `Engine` takes, as are `clock`, `name` and `daemon`.

    `prefix`: what ids by default begin with.
    """

    def __init__(self, owner, executor, clock, name, str prefix not None, daemon=False):
        accept_executor(self, executor, daemon)
        self.set_up(name, clock)
        self.prefix = prefix
        self.owner = owner
        self.c.keeps_wall = True
        self.c.tolerance = 0 if self.driven else 1_000_000_000
        self.read_wall()
        self.c.random = <uint64_t>(0x9E3779B97F4A7C15U if self.driven else wall_ns() ^ <int64_t><size_t>self.c) | 1

    def call_later(self, int64_t delay, callback):
        """Calls `callback()` on a worker, `delay` ns from now: a retry."""
        return self.single(delay, callback, 0)

    def call_alarm(self, int64_t delay, callback):
        """Calls `callback()` on the loop's thread, `delay` ns from now: a time-out, which waits for no worker."""
        return self.single(delay, callback, ALARM)

    cdef TimerHandle single(self, int64_t delay, object callback, int flags):
        cdef Entry entry
        cdef References garbage
        cdef TimerHandle handle = new_handle(self.c)
        entry_call(&entry, callback, ())
        entry.key = NULL
        entry.period = 0
        entry.flags = flags
        entry.when = handle.when_ns = saturating_add(now_of(self), delay)
        if core_add(self.c, &entry, &handle.slot, &handle.generation, &garbage):
            self.wake()
        return handle

    # -- what runs here --

    def current(self):
        """`(reference, number, scheduled)` of the run of a job that this thread is inside of, or None."""
        cdef unsigned long thread = this_thread()
        cdef Runner *runner
        cdef Runner found
        found.job = 0
        lock(&self.c.mutex)
        runner = self.c.runners
        while runner != NULL:
            if runner.thread == thread and runner.calling:
                found = runner[0]
                break
            runner = runner.next
        unlock(&self.c.mutex)
        return (found.job, found.number, found.scheduled) if found.job else None

    def is_calling(self, uint64_t reference):
        """Whether a thread is inside of the callback of that job, removed or not; O(threads)."""
        cdef Runner *runner
        cdef bint found = False
        lock(&self.c.mutex)
        runner = self.c.runners
        while runner != NULL and not found:
            found = runner.calling and runner.job == reference
            runner = runner.next
        unlock(&self.c.mutex)
        return found

    # -- what a DrivingClock asks, so that time-outs fire while a callback sleeps --

    def _next_due_ns(self):
        self.read_wall()                 # a step of the wall clock is noticed at once
        return Driven._next_due_ns(self)

    def _next_alarm_ns(self):
        """When the earliest alarm is due, or None.  O(n) if there are any."""
        cdef int64_t due
        lock(&self.c.mutex)
        due = NEVER if self.c.phase != STARTED else earliest_alarm(self.c, NULL)
        unlock(&self.c.mutex)
        return None if due == NEVER else due

    def _run_alarm(self):
        """Runs the earliest alarm, whatever stands before it in the heap."""
        cdef References garbage
        cdef PyObject *result
        cdef uint32_t index = 0
        lock(&self.c.mutex)
        earliest_alarm(self.c, &index)
        if index:
            core_detach(self.c, index, False, &garbage)
        unlock(&self.c.mutex)
        if index:
            result = call(garbage.callback, garbage.receiver, NULL)
            try:
                if result == NULL:
                    result = take_exception()
                    self.report(NULL, <object>result)
            finally:
                Py_XDECREF(result)
                drop(&garbage)

    # -- life --

    def start(self):
        start_loop(self)

    def run(self):
        run_here(self)

    def close(self):
        """From now on `start` and `run` do nothing, and `wait_idle` does not wait for what is due."""
        lock(&self.c.mutex)
        self.c.closed = True
        unlock(&self.c.mutex)
        core_notify(self.c)

    def settle(self):
        """Lets go of jobs that have left, and tells the owner: what is left to do in the child of a fork."""
        self.reap()

    def stop(self, timeout):
        try:
            return stop_loop(self, timeout)
        finally:
            if has_tidings(self.c):
                self.reap()

    def wait_idle(self, timeout):
        return wait_until_idle(self, timeout)

    @property
    def running(self):
        return self.is_started()

    def stats(self):
        return take_stats(self)

    def _check(self):
        core_check(self.c)

    # -- runs --

    cdef tuple call_of(self, Run *run):
        if run.flags & MANAGED:
            return (new_ticket(self, run), Dispatcher.call_of(self, run)[0])
        return Dispatcher.call_of(self, run)

    cdef object omission_of(self, Run *run, tuple called):
        if run.flags & MANAGED and not (<Ticket>called[0]).called:
            return RuntimeError("the executor says that the callback has ended, but it has not called it")
        return None

    cdef tuple kept_of(self, Run *run, tuple called):
        return called

    cdef int dismiss(self, Run *run, tuple called) except -1:
        if not run.flags & JOB and hasattr(called[0], "dismissed"):
            called[0].dismissed()
        return 0

    cdef int fail_run(self, Run *run, object error, tuple called) except -1:
        if not run.flags & JOB:
            return Dispatcher.fail_run(self, run, error, called)
        self.tell(run, error)
        if run.flags & MANAGED:
            (<Ticket>called[0]).end(FAILED)
        else:
            run.failed = True
        return 0

    cdef object report(self, Run *run, object error):
        """Of a retry or a time-out; their manager lets nothing out, unless it is at fault itself."""
        log_error(f"{self._name}: a callback raised an exception", error)

    cdef bint perform(self, Run *run, bint interruptible) noexcept:
        cdef PyObject *result
        cdef Ticket ticket
        if not run.flags & JOB:
            return Dispatcher.perform(self, run, interruptible)
        before_foreign_code()
        if run.flags & MANAGED:
            ticket = self.ticket_of(run)
            if ticket is None:
                return False
            result = call(run.references.callback, <PyObject *>ticket, NULL)
            if result == NULL:
                result = take_exception()
                self.tell(run, <object>result)
                ticket.end(FAILED)
            Py_XDECREF(result)
            return False
        if self.watched:
            self.perform_watched(run)
            return False
        result = self.invoke(run)
        if result == NULL:
            result = take_exception()
            run.failed = True
            self.tell(run, <object>result)
        elif is_awaitable(result):
            self.hand_on(run, <object>result)
        Py_XDECREF(result)
        return False

    cdef int perform_watched(self, Run *run) noexcept:
        cdef Ticket ticket = self.ticket_of(run)
        cdef tuple called
        if ticket is None:
            return 0
        run.flags |= MANAGED
        try:
            called = Dispatcher.call_of(self, run)
            self.owner._job_runs(ticket, called[0], called[1:])
        except BaseException as error:
            self.tell(run, error)
            ticket.end(FAILED)
        return 0

    cdef int take_result(self, Run *run, object result) except -1:
        if not run.flags & JOB:
            return Dispatcher.take_result(self, run, result)
        if not run.flags & MANAGED and is_awaitable(<PyObject *>result):
            self.hand_on(run, result)
        return 0

    cdef int hand_on(self, Run *run, object awaitable) noexcept:
        """Makes the run a managed one, which the owner ends by its ticket."""
        cdef Ticket ticket = self.ticket_of(run)
        if ticket is None:
            return 0
        run.flags |= MANAGED
        try:
            self.owner._job_returned(ticket, awaitable)
        except BaseException as error:
            self.tell(run, error)
            ticket.end(FAILED)
        return 0

    cdef Ticket ticket_of(self, Run *run):
        """A ticket for the run; None if there is no memory: then it has failed, and nobody else is to end it."""
        try:
            return new_ticket(self, run)
        except BaseException as failure:
            run.flags &= ~MANAGED
            run.failed = True
            self.tell(run, failure)
            return None

    cdef int tell(self, Run *run, object error) noexcept:
        try:
            self.owner._job_failed(<uint64_t>run.generation << SLOT_BITS | run.slot, error)
        except BaseException as failure:
            log_error(f"{self._name}: an error could not be reported", failure)
        return 0

    cdef void reap(self) noexcept:
        cdef Core *core = self.c
        cdef References garbage
        cdef uint32_t index
        cdef uint64_t reference
        cdef Item item
        cdef Copy copy
        cdef bint news, seen
        lock(&core.mutex)
        if core.telling:                 # that thread will see what has come, and tell it in order
            unlock(&core.mutex)
            return
        poke(&core.telling, 1)
        unlock(&core.mutex)
        while True:
            lock(&core.mutex)
            news = take_news(core, &item)
            index = 0 if news else core.ended
            seen = False
            if index:
                if core.news != NULL:    # the owner may have somebody to tell
                    take_copy(core, index, 0, &copy)
                    seen = True
                poke(&core.ended, slot_at(core, index).key)
                slot_at(core, index).key = 0
                reference = <uint64_t>slot_at(core, index).generation << SLOT_BITS | index
                core_detach(core, index, False, &garbage)
                core.cancelled -= 1
            poke(&core.telling, news or index != 0)
            unlock(&core.mutex)
            before_foreign_code()
            if news:
                self.tell_news(&item)
            elif index:
                drop(&garbage)
                self.tell_end(reference, &copy if seen else NULL)
            else:
                return

    cdef int tell_end(self, uint64_t reference, const Copy *copy) noexcept:
        snapshot = None
        try:
            if copy != NULL:
                snapshot = new_snapshot(copy)
        except BaseException as failure:
            log_error(f"{self._name}: listeners could not be told of the end of a job", failure)
        try:
            self.owner._job_left(reference, snapshot)
        except BaseException as failure:
            log_error(f"{self._name}: the end of a job could not be told", failure)
        return 0

    cdef int tell_news(self, const Item *item) noexcept:
        try:
            self.owner._job_decided(item.reference, *note_of(&item.note))
        except BaseException as failure:
            log_error(f"{self._name}: what became of slots could not be told", failure)
        return 0


cdef bint take_news(Core *core, Item *item) noexcept nogil:
    cdef News *news = core.news
    if core.news_count == 0:
        return False
    item[0] = news.items[news.head]
    news.head = (news.head + 1) % news.room
    poke(&core.news_count, core.news_count - 1)
    return True


cdef int64_t earliest_alarm(Core *core, uint32_t *index) noexcept nogil:
    cdef int64_t due = NEVER
    cdef uint64_t tie = 0
    cdef uint32_t i
    cdef Slot *slot
    if not core.alarms:
        return NEVER
    for i in range(1, core.slots.top):
        slot = slot_at(core, i)
        if not slot.flags & ALARM or slot.state != PENDING:
            continue
        if slot.when < due or (slot.when == due and slot.tie < tie):
            due = slot.when
            tie = slot.tie
            if index != NULL:
                index[0] = i
    return due
