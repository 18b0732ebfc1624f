"""See job_table.pxd."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from .backlog cimport rare_of
from .choices cimport job_has_room, job_queue
from .core cimport (
    ALL,
    DISABLED,
    ENDED,
    FROM_END,
    IMMEDIATE,
    JOB,
    MANAGED,
    NONE,
    OWED,
    PAUSED,
    PENDING,
    QUEUES,
    SINGLE,
    STARTED,
    UNTOLD,
    WALL,
    Core,
    Entry,
    Job,
    References,
    Slot,
    Waiting,
    before_foreign_code,
    count_references,
    drop,
    entry_call,
    job_at,
    saturating_add,
    shifted,
    slot_at,
)
from .dispatcher cimport now_of
from .drains cimport drains_summon, drains_wanted
from .heap cimport SLOT_BITS, SLOT_MASK
from .interpreter cimport id_of, is_simple
from .job_list cimport BATCH, JobList
from .jobs cimport job_arm, job_leave_heap, job_pause, job_regrid, job_resume
from .memory cimport allocate, allocate_zeroed
from .platform cimport NEVER, lock, unlock
from .schedule cimport CalendarSchedule, Schedule, schedule_next
from .slab cimport slab_reserve, slab_room, slab_take
from .slots cimport job_delay
from .snapshot cimport Snapshot, take_copy
from .timers cimport core_detach, core_place, core_reserve, raise_shortage
from .waiters cimport core_notify
from .wakes cimport core_wants_wake


cdef class JobTable(JobList):
    """Jobs: added, changed and removed."""

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
        cdef uint64_t reference
        try:
            reference = self.place(
                &entry, period, NULL if schedule is None else &schedule.data, slot, flags, instances, &more, held,
            )
        except BaseException:
            free(more.rare)
            raise
        try:
            return reference
        except MemoryError:              # for the number itself
            self.discard(reference)
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
            queue = <Waiting *>allocate_zeroed(instances, sizeof(Waiting))
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
            count_references(1)
        job.slot = slot
        job.busy_until = -NEVER
        job.queue = queue
        job.instances = instances
        job.flags = flags
        core.on_wall += flags & WALL != 0
        reference = <uint64_t>record.generation << SLOT_BITS | index
        if held:
            job_leave_heap(core, index)
            job.flags |= UNTOLD
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
        cdef Job *job
        cdef bint wake = False
        lock(&core.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job = job_at(core, slot.record)
            job.flags &= ~UNTOLD
            if slot.state == PAUSED and not job.flags & DISABLED:
                job_arm(core, <uint32_t>(reference & SLOT_MASK))
                wake = core_wants_wake(core, slot.when)
        unlock(&core.mutex)
        if wake:
            self.wake()

    def discard(self, uint64_t reference):
        """Takes back that a job was added; one that has begun to run meanwhile is removed."""
        cdef References garbage
        cdef Slot *slot
        lock(&self.c.mutex)
        slot = self.find(reference)      # NULL: it was removed meanwhile, or has left
        if slot != NULL:
            if job_at(self.c, slot.record).started == 0:
                self.c.cancelled -= 1
                self.c.scheduled -= 1
            core_detach(self.c, <uint32_t>(reference & SLOT_MASK), False, &garbage)
        unlock(&self.c.mutex)
        if slot != NULL:
            drop(&garbage)
            core_notify(self.c)

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
        try:
            return id_of(self.prefix, reference)
        except MemoryError:              # for the id
            self.discard(reference)
            raise

    # -- one job --

    def remove(self, uint64_t reference):
        """Removes a job: whether that prevented a run that would have come, and a snapshot if a run is in progress.

        None if there is no such job.
        """
        cdef Core *core = self.c
        cdef References garbage
        cdef Slot *slot
        cdef Job *job
        cdef bint prevented, active
        cdef int64_t now = now_of(self)
        # All that may be returned, beforehand: once the job is gone nothing may fail any more.
        cdef Snapshot snapshot = Snapshot.__new__(Snapshot)
        cdef tuple answers = ((False, None), (True, None), (False, snapshot), (True, snapshot))
        lock(&core.mutex)
        slot = self.find(reference)
        if slot == NULL:
            unlock(&core.mutex)
            return None
        job = job_at(core, slot.record)
        prevented = slot.state != ENDED or job.waiting or job.flags & OWED or not job.flags & SINGLE
        active = job.active != 0
        if active:
            take_copy(core, <uint32_t>(reference & SLOT_MASK), now, &snapshot.copy)
        core_detach(core, <uint32_t>(reference & SLOT_MASK), False, &garbage)
        core.cancelled -= not prevented
        unlock(&core.mutex)
        core_notify(core)
        drop(&garbage)
        return answers[2 * active + prevented]

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
                    False, now,
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
        if record != NULL and begin != -NEVER and rare_of(job_at(core, record.record)) == NULL:
            unlock(&core.mutex)
            raise MemoryError
        if record != NULL:
            job = job_at(core, record.record)
            old = job.schedule
            garbage = NULL if old == NULL else old.owner
            if schedule is not None:
                Py_INCREF(schedule)
            count_references((schedule is not None) - (garbage != NULL))
            job_regrid(
                core, <uint32_t>(reference & SLOT_MASK), period, NULL if schedule is None else &schedule.data,
                slot, wall,
            )
            if job.rare != NULL:
                job.rare.begin = begin
            wake = record.state == PENDING and core_wants_wake(core, record.when)
            if core.on_wall and not watched:
                wake = core_wants_wake(core, -NEVER) or wake     # it sleeps without a look at the wall clock
        unlock(&core.mutex)
        before_foreign_code()
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
        cdef bint paused
        lock(&self.c.mutex)
        paused = self.c.all_paused
        unlock(&self.c.mutex)
        return paused

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
        paused = <Paused *>allocate((count + 1) * sizeof(Paused))
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

cdef struct Paused:
    uint64_t order
    uint32_t index


cdef inline bint waits_for_all(const Core *core, const Slot *slot) noexcept nogil:
    """Whether it is a job that is out of the heap until the pause of all jobs ends."""
    return slot.state == PAUSED and not job_at(core, slot.record).flags & (DISABLED | UNTOLD)


cdef int compare_paused(const void *left, const void *right) noexcept nogil:
    cdef uint64_t a = (<const Paused *>left).order
    cdef uint64_t b = (<const Paused *>right).order
    return (a > b) - (a < b)
