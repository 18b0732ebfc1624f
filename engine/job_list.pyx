"""See job_list.pxd."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free

from .core cimport JOB, LEFT, OUT_OF_TIME, RETRIED, Core, Item, Job, News, Note, Slot, job_at, slot_at
from .decisions cimport decide, notes_copy
from .dispatcher cimport now_of
from .driven cimport Driven
from .heap cimport SLOT_BITS, SLOT_MASK
from .memory cimport allocate_zeroed
from .platform cimport NEVER, lock, monotonic_ns, poke, unlock, wall_ns, wall_offset_ns
from .slots cimport slot_of_wall
from .snapshot cimport Copy, Snapshot, copy_release, new_snapshot, take_copy
from .wall cimport core_see_wall


# The years 1679 to 2261: a year before the engine's time is at its ends, so that sums stay within it.
cdef object LATEST_WALL = NEVER - (1 << 55)


cdef class JobList(Driven):
    """Jobs as they are: found, shown and explained.

    A job is named by its reference, an int: the generation of its slot << 24 | the slot, never used twice by an engine.
    """

    # -- one job, and all --

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

    cdef bint has_left(self, uint64_t reference) noexcept:
        """Whether a job has left and its owner is still to be told.  The mutex is held."""
        cdef uint64_t index = reference & SLOT_MASK
        cdef Slot *slot
        if index == 0 or index >= self.c.slots.top:
            return False
        slot = slot_at(self.c, <uint32_t>index)
        return slot.generation == reference >> SLOT_BITS and slot.flags & JOB != 0 and slot.callback != NULL

    def has(self, uint64_t reference):
        """Whether there is such a job; O(1)."""
        cdef bint found
        lock(&self.c.mutex)
        found = self.find(reference) != NULL
        unlock(&self.c.mutex)
        return found

    def snapshot(self, uint64_t reference, bint left=False):
        """The job at this instant, a `Snapshot`; None if there is no such job.  O(1).

        `left`: also of one that has left, if its owner has not been told yet.
        """
        cdef Copy copy
        cdef bint found
        cdef int64_t now = now_of(self)
        self.read_wall()
        lock(&self.c.mutex)
        found = self.find(reference) != NULL or (left and self.has_left(reference))
        if found:
            take_copy(self.c, <uint32_t>(reference & SLOT_MASK), now, &copy)
        unlock(&self.c.mutex)
        return new_snapshot(&copy) if found else None

    def snapshots(self):
        """`snapshot` of all jobs, in the order of registration.  O(n log n); the mutex is held for 512 at a time."""
        cdef Core *core = self.c
        cdef Copy *copies = <Copy *>allocate_zeroed(BATCH, sizeof(Copy))
        cdef uint32_t index = 1, top, i, count = 0, taken = 0
        cdef int64_t now
        cdef Slot *slot
        cdef list found
        if copies == NULL:
            raise MemoryError
        try:
            now = now_of(self)
            self.read_wall()
            found = []
            while True:
                count = taken = 0
                lock(&core.mutex)
                top = core.slots.top
                while index < top and count < BATCH:
                    slot = slot_at(core, index)
                    if slot.flags & JOB and slot.callback != NULL and not job_at(core, slot.record).flags & LEFT:
                        take_copy(core, index, now, &copies[count])
                        count += 1
                    index += 1
                unlock(&core.mutex)
                while taken < count:
                    taken += 1           # it gives up the references if it fails
                    found.append(new_snapshot(&copies[taken - 1]))
                if index >= top:
                    break
        finally:
            for i in range(taken, count):
                copy_release(&copies[i])
            free(copies)
        found.sort(key=order_of)
        return found

    def __len__(self):
        """How many jobs there are."""
        cdef size_t count
        lock(&self.c.mutex)
        count = self.c.jobs.top - 1 - self.c.jobs.free_count
        unlock(&self.c.mutex)
        return count

    # -- decisions --

    def explain(self, uint32_t count):
        """Of each job the latest `count` decisions are noted from now on; 0: none.  Nothing where there are jobs."""
        cdef uint32_t room
        lock(&self.c.mutex)
        if self.c.jobs.top <= 1 + self.c.jobs.free_count:        # the rings of jobs that are there have their size
            self.c.explains = count
            room = 0
            if count:
                room = 2
                while room < count:
                    room *= 2
            self.c.notes_room = room
        unlock(&self.c.mutex)

    def observe(self, uint32_t most):
        """The owner is told of slots without a run (`_job_decided`); `most` may wait to be told, 0: no more is told."""
        cdef News *news = NULL
        cdef News *old
        if most:
            news = <News *>allocate_zeroed(1, sizeof(News))
            if news == NULL:
                raise MemoryError
            news.items = <Item *>allocate_zeroed(most, sizeof(Item))
            news.room = most
            if news.items == NULL:
                free(news)
                raise MemoryError
        lock(&self.c.mutex)
        old = self.c.news
        self.c.news = news
        poke(&self.c.news_count, 0)
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
        cdef bint retried = decision == "retry"      # not under the mutex, as it is Python that compares
        if not self.c.notes_room:
            return
        now = now_of(self)
        lock(&self.c.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job = job_at(self.c, slot.record)
            decide(
                self.c, <uint32_t>(reference & SLOT_MASK), job, RETRIED if retried else OUT_OF_TIME,
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
        notes = <Note *>allocate_zeroed(room + <size_t>1, sizeof(Note))
        if notes == NULL:
            raise MemoryError
        lock(&core.mutex)
        slot = self.find(reference)
        if slot != NULL:
            job = job_at(core, slot.record)
            if room >= core.explains:    # it has not grown meanwhile
                count = notes_copy(core, job, notes)
        unlock(&core.mutex)
        try:
            return None if slot == NULL else [note_of(&notes[i]) for i in range(count)]
        finally:
            free(notes)

    # -- clocks --

    def time_ns(self):
        """The monotonic clock, ns."""
        return now_of(self)

    def wall_ns(self):
        """The wall clock, ns since the Unix epoch."""
        return wall_ns() if self.c.native_clock else bounded(self.clock.wall_ns())

    def offset_ns(self):
        """The wall clock - the monotonic clock, as slots are shown with it: two readings would differ by some us."""
        cdef int64_t offset
        self.read_wall()
        lock(&self.c.mutex)
        offset = self.c.planned_offset
        unlock(&self.c.mutex)
        return offset

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


def order_of(Snapshot snapshot):
    return snapshot.copy.job.order


cdef tuple DECISIONS = (
    "ran", "coalesced", "missed", "paused", "pool full", "queued", "dropped", "retry", "timeout"
)


cdef tuple note_of(const Note *note):
    return DECISIONS[note.decision], note.when, note.slot, note.count, note.late


cdef int64_t bounded(wall_ns) except? -1:
    """The clock of a test may be beyond what the engine's time can be; there it stands still."""
    return max(-LATEST_WALL, min(wall_ns, LATEST_WALL))
