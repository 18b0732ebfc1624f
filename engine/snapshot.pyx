"""See snapshot.pxd."""

cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport (
    DISABLED,
    FAILING,
    IMMEDIATE,
    PENDING,
    SINGLE,
    UNTOLD,
    WALL,
    Core,
    Slot,
    before_foreign_code,
    job_at,
    slot_at,
)
from .heap cimport SLOT_BITS
from .jobs cimport job_passed
from .platform cimport NEVER

from types import MethodType


cdef void take_copy(Core *core, uint32_t index, int64_t now, Copy *copy) noexcept:
    """The mutex and the GIL are held; the references go on to `new_snapshot`."""
    cdef Slot *slot = slot_at(core, index)
    copy.job = job_at(core, slot.record)[0]
    copy.job.paused += job_passed(core, slot, now)
    copy.reference = <uint64_t>slot.generation << SLOT_BITS | index
    copy.when = slot.when
    copy.wall_offset = core.planned_offset
    copy.state = slot.state
    copy.callback = slot.callback
    copy.receiver = slot.receiver
    copy.queued = 0 if copy.job.rare == NULL else copy.job.rare.count
    copy.schedule = NULL if copy.job.schedule == NULL else copy.job.schedule.owner
    if copy.schedule != NULL:
        Py_INCREF(<object>copy.schedule)
    Py_INCREF(<object>copy.callback)
    if copy.receiver != NULL:
        Py_INCREF(<object>copy.receiver)


cdef Snapshot new_snapshot(const Copy *copy):
    """Takes the references of `copy` over, and gives them up if there is no memory for a snapshot."""
    cdef Snapshot snapshot
    try:
        snapshot = Snapshot.__new__(Snapshot)
    except BaseException:
        copy_release(copy)
        raise
    snapshot.copy = copy[0]
    return snapshot


cdef void copy_release(const Copy *copy) noexcept:
    """Gives up the references of a copy that becomes no snapshot; destructors run here, so no mutex may be held."""
    before_foreign_code()
    Py_XDECREF(copy.callback)
    Py_XDECREF(copy.receiver)
    Py_XDECREF(copy.schedule)


@cython.final
cdef class Snapshot:
    """A job at one instant, made by a `JobEngine`.  Times are ns on the wall clock, None for never.

    Not tracked by the garbage collector, since 10^5 of them are made at once: not to be kept.
    """

    def __init__(self):
        raise TypeError("snapshots are made by an engine")

    def __dealloc__(self):
        copy_release(&self.copy)

    @property
    def reference(self):
        return self.copy.reference

    @property
    def order(self):
        """That of registration."""
        return self.copy.job.order

    @property
    def callback(self):
        callback = <object>self.copy.callback
        return callback if self.copy.receiver == NULL else MethodType(callback, <object>self.copy.receiver)

    @property
    def next(self):
        """When it is due next, jitter included."""
        if (self.copy.state != PENDING and not self.copy.job.flags & UNTOLD) or self.copy.when == NEVER:
            return None
        return self.copy.when + <object>self.copy.wall_offset

    @property
    def enabled(self):
        return not self.copy.job.flags & DISABLED

    @property
    def immediate(self):
        """Whether a run at the start is still to come, before the slot."""
        return self.copy.job.flags & IMMEDIATE != 0

    @property
    def period(self):
        """ns; 0: by its schedule; of a single slot the delay that it was given, or 0."""
        return self.copy.job.period

    @property
    def schedule(self):
        """Its `CalendarSchedule`, or None."""
        return None if self.copy.schedule == NULL else <object>self.copy.schedule

    @property
    def failing(self):
        """Whether its last run failed."""
        return self.copy.job.flags & FAILING != 0

    @property
    def started(self):
        return self.copy.job.started

    @property
    def succeeded(self):
        return self.copy.job.succeeded

    @property
    def failed(self):
        return self.copy.job.failed

    @property
    def timed_out(self):
        return self.copy.job.timed_out

    @property
    def coalesced(self):
        return self.copy.job.coalesced

    @property
    def missed(self):
        """Slots, among those coalesced, that came while the engine was late."""
        return self.copy.job.missed

    @property
    def paused(self):
        return self.copy.job.paused

    @property
    def last_start(self):
        return self.copy.job.last_start if self.copy.job.started else None

    @property
    def last_end(self):
        return self.copy.job.last_end if self.copy.job.succeeded + self.copy.job.failed else None

    @property
    def running(self):
        """Runs that wait or are in progress."""
        return self.copy.job.waiting + self.copy.job.active

    @property
    def active(self):
        """Runs in progress."""
        return self.copy.job.active

    @property
    def queued(self):
        """Runs that wait for an instance."""
        return self.copy.queued

    @property
    def instances(self):
        return self.copy.job.instances

    @property
    def slot(self):
        """The next one, without jitter."""
        if self.copy.state != PENDING or self.copy.job.slot == NEVER:
            return None
        return self.copy.job.slot + self.offset()

    @property
    def until(self):
        """ns on the wall clock; slots from then on do not exist.  NEVER: all do."""
        return min(self.copy.job.until + self.offset(), NEVER)

    @property
    def ticks_left(self):
        """Until the last one; 0: no limit."""
        return self.copy.job.ticks_left

    @property
    def single(self):
        """Whether it has one slot only."""
        return self.copy.job.flags & SINGLE != 0

    cdef object offset(self):
        """The wall clock - the job's clock, in Python's integers: the clock of a test may be beyond the year 2262."""
        return 0 if self.copy.job.flags & WALL else <object>self.copy.wall_offset
