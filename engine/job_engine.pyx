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
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memset

from .backlog cimport rare_of
from .core cimport (
    ALARM,
    ALL,
    DISABLED,
    ENDED,
    FROM_END,
    IMMEDIATE,
    JOB,
    LEFT,
    MANAGED,
    NONE,
    OWED,
    PAUSED,
    PENDING,
    OUT_OF_TIME,
    QUEUES,
    RETRIED,
    SINGLE,
    STARTED,
    WALL,
    Core,
    Entry,
    Item,
    Job,
    News,
    Note,
    References,
    Run,
    Runner,
    Slot,
    Waiting,
    drop,
    entry_call,
    has_tidings,
    job_at,
    saturating_add,
    shifted,
    slot_at,
)
from .decisions cimport decide
from .dispatch cimport run as run_here
from .dispatch cimport start as start_loop
from .dispatch cimport stats as take_stats
from .dispatch cimport stop as stop_loop
from .dispatch cimport wait_idle as wait_until_idle
from .dispatcher cimport Dispatcher, now_of
from .drains cimport drains_summon, drains_wanted
from .executors cimport accept_executor
from .handle cimport TimerHandle, new_handle
from .heap cimport SLOT_BITS, SLOT_MASK
from .interpreter cimport call, id_of, is_awaitable, is_simple, take_exception, this_thread
from .invariants cimport core_check
from .jobs cimport FAILED, job_arm, job_has_room, job_leave_heap, job_pause, job_queue, job_regrid, job_resume
from .platform cimport NEVER, lock, monotonic_ns, unlock, wall_ns, wall_offset_ns
from .schedule cimport CalendarSchedule, Schedule, schedule_next
from .slab cimport slab_reserve, slab_room, slab_take
from .slots cimport job_delay, slot_of_wall
from .snapshot cimport Copy, Snapshot, new_snapshot, take_copy
from .ticket cimport Ticket, new_ticket
from .timers cimport core_add, core_detach, core_place, core_reserve, core_wants_wake, raise_shortage
from .waiters cimport core_notify
from .wall cimport core_see_wall

from pysched.reports import log_error

# The years 1679 to 2261: a year before the engine's time is at its ends, so that sums stay within it.
cdef object LATEST_WALL = NEVER - (1 << 55)

cdef enum:
    BATCH = 512                      # jobs that are looked at under one hold of the mutex


cdef class JobEngine(Dispatcher):
    """Runs jobs for `owner` on `executor`, which is what `Engine` takes, as are `clock` and `name`.

    `prefix`: what ids by default begin with.
    """

    def __init__(self, owner, executor, clock, name, str prefix not None):
        accept_executor(self, executor)
        self.set_up(name, clock)
        self.prefix = prefix
        self.owner = owner
        self.c.keeps_wall = True
        self.c.tolerance = 0 if self.driven else 1_000_000_000
        self.read_wall()
        self.c.random = <uint64_t>(0x9E3779B97F4A7C15U if self.driven else wall_ns() ^ <int64_t><size_t>self.c) | 1

    # -- registering --

    def add(
        self, object callback, tuple args, int64_t period, CalendarSchedule schedule, int64_t slot, bint wall,
        bint managed=False, uint32_t instances=1, int64_t until=NEVER, int64_t jitter=0, uint64_t max_runs=0,
        bint immediate=False, bint held=False, int64_t grace=NEVER, str catch_up="one", bint queues=False,
        bint from_end=False, int64_t delay=0, int64_t begin=-NEVER,
    ):
        """Adds a job and returns its reference; O(log n).

        `period` ns, or `schedule`, or neither: one slot.  `slot`: the first, ns on the wall clock if `wall`, else on
        the monotonic clock.  `managed`: `callback(ticket)` is called instead of `callback(*args)`.  `until` is on the
        same clock, `jitter` ns, `max_runs` 0: any number.  `held`: nothing of it runs before `arm`.
        `grace` ns: slots that are later are left out.  `catch_up`: "one", "none" or "all" of slots that were missed.
        `queues`: slots that find all instances busy wait.  `from_end`: `period` counts from the end of each run.
        `delay` ns: each slot is due so much later.  `begin`: no slot of a schedule is before it, on the wall clock.
        """
        cdef Entry entry
        cdef Job more
        cdef int64_t now = now_of(self)
        entry_call(&entry, callback, args)
        entry.key = NULL
        entry.period = 0
        entry.flags = JOB | (MANAGED if managed else 0)
        entry.when = now
        if wall:
            self.read_wall()
        cdef int flags = (
            (WALL if wall else 0) | (IMMEDIATE if immediate else 0) | (QUEUES if queues else 0)
            | (FROM_END if from_end else 0) | (0 if period or schedule is not None else SINGLE)
        )
        if catch_up != "one":
            flags |= ALL if catch_up == "all" else NONE
        more.until = until
        more.jitter = jitter
        more.ticks_left = max_runs
        more.rare = NULL
        more.flags = flags
        if grace != NEVER or delay or begin != -NEVER:
            if rare_of(&more) == NULL:
                raise MemoryError
            more.rare.grace = grace
            more.rare.delay = delay
            more.rare.begin = begin
        try:
            return self.place(
                &entry, period, NULL if schedule is None else &schedule.data, slot, flags, instances, &more, held,
            )
        except BaseException:
            free(more.rare)
            raise

    cdef uint64_t place(
        self, Entry *entry, int64_t period, Schedule *schedule, int64_t slot, int flags, uint32_t instances,
        const Job *more, bint held=False,
    ) except 0:
        """Adds a job and returns its reference; `more` has what is not common, or is NULL."""
        cdef Core *core = self.c
        cdef Waiting *queue = NULL
        cdef Slot *record
        cdef Job *job
        cdef uint32_t index
        cdef uint64_t reference
        cdef int failure
        cdef bint wake
        if instances > 1:
            queue = <Waiting *>calloc(instances, sizeof(Waiting))
            if queue == NULL:
                raise MemoryError
        lock(&core.mutex)
        core.instances += instances - 1
        failure = 0 if slab_room(&core.jobs) and core.jobs.chunk_count else slab_reserve(&core.jobs, 1)
        if not failure:
            failure = core_reserve(core, 1, 0)
        if failure:
            core.instances -= instances - 1
            unlock(&core.mutex)
            free(queue)
            raise_shortage(failure)
        if not flags & IMMEDIATE:
            entry.when = slot
            if flags & WALL and slot != NEVER:
                entry.when = shifted(slot, -core.planned_offset)
            if more != NULL and (more.jitter or more.rare != NULL) and slot != NEVER and not flags & SINGLE:
                entry.when = saturating_add(entry.when, job_delay(core, more))
        index = core_place(core, entry, 0)
        record = slot_at(core, index)
        record.record = slab_take(&core.jobs)
        job = job_at(core, record.record)
        memset(job, 0, sizeof(Job))
        job.until = NEVER
        if more != NULL:
            job.until = more.until
            job.jitter = more.jitter
            job.ticks_left = more.ticks_left
            job.rare = more.rare
        core.job_order += 1
        job.order = core.job_order
        job.period = period
        job.schedule = schedule
        if schedule != NULL:
            schedule.jobs += 1
            Py_INCREF(<object>schedule.owner)
        job.slot = slot
        job.busy_until = -NEVER
        job.queue = queue
        job.instances = instances
        job.flags = flags
        core.on_wall += flags & WALL != 0
        reference = <uint64_t>record.generation << SLOT_BITS | index
        if held:
            job_leave_heap(core, index)
        wake = not held and core_wants_wake(core, entry.when)
        if flags & WALL and core.on_wall == 1:
            wake = core_wants_wake(core, -NEVER) or wake         # it sleeps without a look at the wall clock
        unlock(&core.mutex)
        if wake:
            self.wake()
        return reference

    def arm(self, uint64_t reference):
        """Lets a job go that was added `held`; nothing if it was removed or paused meanwhile."""
        cdef Core *core = self.c
        cdef Slot *slot
        cdef bint wake = False
        lock(&core.mutex)
        slot = self.find(reference)
        if slot != NULL and slot.state == PAUSED and not job_at(core, slot.record).flags & DISABLED:
            job_arm(core, <uint32_t>(reference & SLOT_MASK))
            wake = core_wants_wake(core, slot.when)
        unlock(&core.mutex)
        if wake:
            self.wake()

    def discard(self, uint64_t reference):
        """Takes back that a job was added `held`."""
        cdef References garbage
        lock(&self.c.mutex)
        core_detach(self.c, <uint32_t>(reference & SLOT_MASK), False, &garbage)
        self.c.cancelled -= 1
        self.c.scheduled -= 1
        unlock(&self.c.mutex)
        drop(&garbage)

    def add_plain(self, object callback, int64_t period, CalendarSchedule schedule=None, bint single=False):
        """Adds a job that is all default, if `callback` is a plain function or method without parameters.

        `single`: with one slot, `period` ns from now.  Returns the job's id, which is the prefix and its reference in
        hexadecimal digits; None for any other callback, or if the schedule never comes again.
        """
        cdef Entry entry
        cdef uint64_t reference
        if not is_simple(<PyObject *>callback):
            return None
        entry_call(&entry, callback, ())
        entry.key = NULL
        entry.period = 0
        entry.flags = JOB
        entry.when = saturating_add(now_of(self), period)
        if schedule is None:
            reference = self.place(&entry, period, NULL, entry.when, SINGLE if single else 0, 1, NULL)
        else:
            self.read_wall()
            lock(&self.c.mutex)
            entry.when = schedule_next(&schedule.data, entry.when + self.c.wall_offset)
            unlock(&self.c.mutex)
            if entry.when == NEVER:
                return None
            reference = self.place(&entry, 0, &schedule.data, entry.when, WALL, 1, NULL)
        return id_of(self.prefix, reference)

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

    # -- one job --

    cdef Slot *find(self, uint64_t reference) noexcept:
        """The slot of a job that has not left; NULL if there is none.  The mutex is held."""
        cdef uint64_t index = reference & SLOT_MASK
        cdef Slot *slot
        if index == 0 or index >= self.c.slots.top:
            return NULL
        slot = slot_at(self.c, <uint32_t>index)
        if slot.generation != reference >> SLOT_BITS or not slot.flags & JOB or slot.callback == NULL:
            return NULL
        return NULL if job_at(self.c, slot.record).flags & LEFT else slot

    def has(self, uint64_t reference):
        """Whether there is such a job; O(1)."""
        cdef bint found
        lock(&self.c.mutex)
        found = self.find(reference) != NULL
        unlock(&self.c.mutex)
        return found

    def remove(self, uint64_t reference):
        """Removes a job: whether that prevented a run that would have come, and a snapshot if a run is in progress.

        None if there is no such job.
        """
        cdef Core *core = self.c
        cdef References garbage
        cdef Slot *slot
        cdef Job *job
        cdef Copy copy
        cdef bint prevented, active
        cdef int64_t now = now_of(self)
        lock(&core.mutex)
        slot = self.find(reference)
        if slot == NULL:
            unlock(&core.mutex)
            return None
        job = job_at(core, slot.record)
        prevented = slot.state != ENDED or job.waiting or job.flags & OWED or not job.flags & SINGLE
        active = job.active != 0
        if active:
            take_copy(core, <uint32_t>(reference & SLOT_MASK), now, &copy)
        core_detach(core, <uint32_t>(reference & SLOT_MASK), False, &garbage)
        unlock(&core.mutex)
        core_notify(core)
        drop(&garbage)
        return prevented, new_snapshot(&copy) if active else None

    def pause(self, uint64_t reference):
        """Lets the job's slots pass by; False if there is no such job."""
        cdef Slot *slot
        lock(&self.c.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job_pause(self.c, <uint32_t>(reference & SLOT_MASK))
        unlock(&self.c.mutex)
        return slot != NULL

    def resume(self, uint64_t reference):
        """Waits for the job's next slot; False if there is no such job."""
        cdef Core *core = self.c
        cdef Slot *slot
        cdef int64_t now = now_of(self)
        cdef bint wake = False
        self.read_wall()
        lock(&core.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job_resume(core, <uint32_t>(reference & SLOT_MASK), now)
            wake = slot.state == PENDING and core_wants_wake(core, slot.when)
        unlock(&core.mutex)
        self.look_again(wake)
        return slot != NULL

    def run_job(self, uint64_t reference):
        """Queues a run besides the slots: False if all instances are busy; None if there is no such job.

        RuntimeError if the engine is not running.
        """
        cdef Core *core = self.c
        cdef Slot *slot
        cdef Job *job
        cdef int64_t now = now_of(self)
        cdef bint room = False, wake = False, running
        self.read_wall()
        lock(&core.mutex)
        slot = self.find(reference)
        running = core.phase == STARTED
        if slot != NULL and running:
            job = job_at(core, slot.record)
            room = job_has_room(job)
            if room:
                job_queue(
                    core, <uint32_t>(reference & SLOT_MASK), now + core.wall_offset if job.flags & WALL else now, now,
                    False,
                )
                drains_summon(core)
                wake = drains_wanted(core) != 0 and core_wants_wake(core, -NEVER)
        unlock(&core.mutex)
        self.look_again(wake)
        if slot != NULL and not running:
            raise RuntimeError(f"{self._name} is not running")
        return None if slot == NULL else room

    def reschedule(
        self, uint64_t reference, int64_t period, CalendarSchedule schedule, int64_t slot, bint wall,
        int64_t begin=-NEVER,
    ):
        """Gives the job a new grid; counters, pause and runs in progress stay, runs that wait are dropped."""
        cdef Core *core = self.c
        cdef Slot *record
        cdef Job *job
        cdef Schedule *old
        cdef PyObject *garbage = NULL
        cdef bint wake = False
        cdef bint watched
        self.read_wall()
        lock(&core.mutex)
        watched = core.on_wall != 0
        record = self.find(reference)
        if record != NULL:
            job = job_at(core, record.record)
            old = job.schedule
            garbage = NULL if old == NULL else old.owner
            if schedule is not None:
                Py_INCREF(schedule)
            job_regrid(
                core, <uint32_t>(reference & SLOT_MASK), period, NULL if schedule is None else &schedule.data,
                slot, wall,
            )
            if (begin != -NEVER or job.rare != NULL) and rare_of(job) != NULL:
                job.rare.begin = begin
            wake = record.state == PENDING and core_wants_wake(core, record.when)
            if core.on_wall and not watched:
                wake = core_wants_wake(core, -NEVER) or wake     # it sleeps without a look at the wall clock
        unlock(&core.mutex)
        Py_XDECREF(garbage)
        self.look_again(wake)
        return record != NULL

    # -- all jobs --

    def pause_all(self):
        """Lets all slots pass by from now on; apart from the pauses of single jobs."""
        lock(&self.c.mutex)
        self.c.all_paused = True
        unlock(&self.c.mutex)

    @property
    def all_paused(self):
        """Whether `pause_all` is in force."""
        return self.c.all_paused

    def resume_all(self):
        """Ends `pause_all`: single slots that have passed come at once, those of one time in the order of registration.

        O(n log n); the mutex is held for 512 jobs at a time once they are found.
        """
        cdef Core *core = self.c
        cdef Paused *paused
        cdef Slot *slot
        cdef size_t count = 0, done = 0, most
        cdef uint32_t index
        cdef int64_t now = now_of(self)
        self.read_wall()
        lock(&core.mutex)
        for index in range(1, core.slots.top):
            count += waits_for_all(core, slot_at(core, index))
        paused = <Paused *>malloc((count + 1) * sizeof(Paused))
        if paused == NULL:
            unlock(&core.mutex)
            raise MemoryError
        core.all_paused = False
        count = 0
        for index in range(1, core.slots.top):
            slot = slot_at(core, index)
            if waits_for_all(core, slot):
                paused[count].order = job_at(core, slot.record).order
                paused[count].index = index
                count += 1
        unlock(&core.mutex)
        qsort(paused, count, sizeof(Paused), compare_paused)
        while done < count:
            most = min(done + BATCH, count)
            lock(&core.mutex)
            while done < most:
                index = paused[done].index
                slot = slot_at(core, index)
                if waits_for_all(core, slot) and job_at(core, slot.record).order == paused[done].order:
                    job_resume(core, index, now)
                done += 1
            unlock(&core.mutex)
        free(paused)
        self.look_again(True)

    def snapshot(self, uint64_t reference):
        """The job at this instant, a `Snapshot`; None if there is no such job.  O(1)."""
        cdef Copy copy
        cdef bint found
        cdef int64_t now = now_of(self)
        self.read_wall()
        lock(&self.c.mutex)
        found = self.find(reference) != NULL
        if found:
            take_copy(self.c, <uint32_t>(reference & SLOT_MASK), now, &copy)
        unlock(&self.c.mutex)
        return new_snapshot(&copy) if found else None

    def snapshots(self):
        """`snapshot` of all jobs, in the order of registration.  O(n log n); the mutex is held for 512 at a time."""
        cdef Core *core = self.c
        cdef Copy *copies = <Copy *>calloc(BATCH, sizeof(Copy))
        cdef uint32_t index = 1, top, i, count
        cdef int64_t now = now_of(self)
        cdef Slot *slot
        cdef list found = []
        if copies == NULL:
            raise MemoryError
        self.read_wall()
        try:
            while True:
                count = 0
                lock(&core.mutex)
                top = core.slots.top
                while index < top and count < BATCH:
                    slot = slot_at(core, index)
                    if slot.flags & JOB and slot.callback != NULL and not job_at(core, slot.record).flags & LEFT:
                        take_copy(core, index, now, &copies[count])
                        count += 1
                    index += 1
                unlock(&core.mutex)
                for i in range(count):
                    found.append(new_snapshot(&copies[i]))
                if index >= top:
                    break
        finally:
            free(copies)
        found.sort(key=order_of)
        return found

    # -- decisions --

    def explain(self, uint32_t count):
        """Of each job the latest `count` decisions are noted from now on; 0: none.  Nothing where there are jobs."""
        lock(&self.c.mutex)
        if self.c.jobs.top <= 1 + self.c.jobs.free_count:        # the rings of jobs that are there have their size
            self.c.explains = count
        unlock(&self.c.mutex)

    def observe(self, uint32_t most):
        """The owner is told of slots without a run (`_job_decided`); `most` may wait to be told, 0: no more is told."""
        cdef News *news = NULL
        cdef News *old
        if most:
            news = <News *>calloc(1, sizeof(News))
            if news == NULL:
                raise MemoryError
            news.items = <Item *>calloc(most, sizeof(Item))
            news.room = most
            if news.items == NULL:
                free(news)
                raise MemoryError
        lock(&self.c.mutex)
        old = self.c.news
        self.c.news = news
        unlock(&self.c.mutex)
        if old != NULL:
            free(old.items)
            free(old)

    def watch(self, bint watched):
        """From now on the owner does the runs of jobs that are not managed, too, by `_job_runs`."""
        self.watched = watched

    def decide(self, uint64_t reference, str decision, int64_t slot_wall_ns):
        """Notes a decision of the owner's about a job: "retry" or "timeout"."""
        cdef Slot *slot
        cdef Job *job
        cdef int64_t now
        if not self.c.explains:
            return
        now = now_of(self)
        lock(&self.c.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job = job_at(self.c, slot.record)
            decide(
                self.c, <uint32_t>(reference & SLOT_MASK), job, RETRIED if decision == "retry" else OUT_OF_TIME,
                slot_of_wall(self.c, job, slot_wall_ns), 1, now, 0,
            )
        unlock(&self.c.mutex)

    def decisions(self, uint64_t reference):
        """The latest decisions about a job, `(decision, when, slot, count, late)` each, times in ns on the wall clock.

        None if there is no such job.
        """
        cdef Core *core = self.c
        cdef Note *notes
        cdef Job *job
        cdef uint32_t i, count = 0, room = core.explains
        cdef Slot *slot
        notes = <Note *>calloc(room + <size_t>1, sizeof(Note))
        if notes == NULL:
            raise MemoryError
        lock(&core.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job = job_at(core, slot.record)
            if job.notes != NULL:
                count = min(job.notes.count, room)
                for i in range(count):
                    notes[i] = job.notes.items[(job.notes.head + i) % job.notes.room]
        unlock(&core.mutex)
        try:
            return None if slot == NULL else [note_of(&notes[i]) for i in range(count)]
        finally:
            free(notes)

    def __len__(self):
        """How many jobs there are."""
        return self.c.jobs.top - 1 - self.c.jobs.free_count

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
        return Dispatcher._next_due_ns(self)

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
            if result == NULL:
                result = take_exception()
                self.report(NULL, <object>result)
            Py_XDECREF(result)
            drop(&garbage)

    # -- clocks --

    def time_ns(self):
        """The monotonic clock, ns."""
        return now_of(self)

    def wall_ns(self):
        """The wall clock, ns since the Unix epoch."""
        return wall_ns() if self.c.native_clock else bounded(self.clock.wall_ns())

    cdef int read_wall(self) except -1:
        cdef Core *core = self.c
        cdef int64_t offset, now
        cdef bint wake
        if core.native_clock:
            offset = wall_offset_ns()
            now = monotonic_ns()
        else:
            offset = bounded(self.clock.wall_ns()) - <object>self.clock_ns()
            now = self.clock_ns()
        lock(&core.mutex)
        wake = core_see_wall(core, offset, now)
        unlock(&core.mutex)
        if wake:
            self.wake()
        return 0

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
        return self.c.phase == STARTED

    def stats(self):
        return take_stats(self)

    def _check(self):
        core_check(self.c)

    # -- runs --

    cdef tuple call_of(self, Run *run):
        if run.flags & MANAGED:
            return (Dispatcher.call_of(self, run)[0], new_ticket(self, run))
        return Dispatcher.call_of(self, run)

    cdef int fail_run(self, Run *run, object error, tuple called) except -1:
        if not run.flags & JOB:
            return Dispatcher.fail_run(self, run, error, called)
        self.tell(run, error)
        if run.flags & MANAGED:
            (<Ticket>called[1]).end(FAILED)
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
        if run.flags & MANAGED:
            ticket = new_ticket(self, run)
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
        cdef Ticket ticket = new_ticket(self, run)
        cdef tuple called = Dispatcher.call_of(self, run)
        run.flags |= MANAGED
        try:
            self.owner._job_runs(ticket, called[0], called[1:])
        except BaseException as error:
            self.tell(run, error)
            ticket.end(FAILED)
        return 0

    cdef int take_result(self, Run *run, object result) except -1:
        if run.flags & JOB and not run.flags & MANAGED and is_awaitable(<PyObject *>result):
            self.hand_on(run, result)
        return 0

    cdef int hand_on(self, Run *run, object awaitable) noexcept:
        """Makes the run a managed one, which the owner ends by its ticket."""
        cdef Ticket ticket = new_ticket(self, run)
        run.flags |= MANAGED
        try:
            self.owner._job_returned(ticket, awaitable)
        except BaseException as error:
            self.tell(run, error)
            ticket.end(FAILED)
        return 0

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
        while True:
            lock(&core.mutex)
            news = take_news(core, &item)
            index = 0 if news else core.ended
            seen = False
            if index:
                if core.news != NULL:    # the owner may have somebody to tell
                    take_copy(core, index, 0, &copy)
                    seen = True
                core.ended = slot_at(core, index).key
                slot_at(core, index).key = 0
                reference = <uint64_t>slot_at(core, index).generation << SLOT_BITS | index
                core_detach(core, index, False, &garbage)
                core.cancelled -= 1
            unlock(&core.mutex)
            if news:
                self.tell_news(&item)
            elif index:
                drop(&garbage)
                try:
                    self.owner._job_left(reference, new_snapshot(&copy) if seen else None)
                except BaseException as failure:
                    log_error(f"{self._name}: the end of a job could not be told", failure)
            else:
                return

    cdef int tell_news(self, const Item *item) noexcept:
        try:
            self.owner._job_decided(item.reference, *note_of(&item.note))
        except BaseException as failure:
            log_error(f"{self._name}: what became of slots could not be told", failure)
        return 0


def order_of(Snapshot snapshot):
    return snapshot.copy.job.order


cdef tuple DECISIONS = (
    "ran", "coalesced", "missed", "paused", "pool full", "queued", "dropped", "retry", "timeout"
)


cdef tuple note_of(const Note *note):
    return DECISIONS[note.decision], note.when, note.slot, note.count, note.late


cdef bint take_news(Core *core, Item *item) noexcept nogil:
    cdef News *news = core.news
    if news == NULL or news.count == 0:
        return False
    item[0] = news.items[news.head]
    news.head = (news.head + 1) % news.room
    news.count -= 1
    return True


cdef int64_t bounded(wall_ns) except? -1:
    """The clock of a test may be beyond what the engine's time can be; there it stands still."""
    return max(-LATEST_WALL, min(wall_ns, LATEST_WALL))


cdef struct Paused:
    uint64_t order
    uint32_t index


cdef inline bint waits_for_all(const Core *core, const Slot *slot) noexcept nogil:
    """Whether it is a job that is out of the heap until the pause of all jobs ends."""
    return slot.state == PAUSED and not job_at(core, slot.record).flags & DISABLED


cdef int compare_paused(const void *left, const void *right) noexcept nogil:
    cdef uint64_t a = (<const Paused *>left).order
    cdef uint64_t b = (<const Paused *>right).order
    return (a > b) - (a < b)


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
