"""See ticket.pxd."""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from .core cimport Core, Run
from .dispatcher cimport Dispatcher, now_of
from .drains cimport drains_go_on
from .heap cimport SLOT_BITS
from .jobs cimport FAILED, SUCCEEDED, TIMED_OUT, Outcome, job_end_run, job_give_back
from .platform cimport lock, unlock

from pysched.reports import log_error


cdef Ticket new_ticket(Dispatcher engine, const Run *run):
    cdef Ticket ticket = Ticket.__new__(Ticket)
    ticket.engine = engine
    ticket.slot = run.slot
    ticket.generation = run.generation
    ticket.scheduled_wall_ns = run.scheduled
    ticket.number = run.number
    ticket.late_ns = run.late
    ticket.started_ns = run.due + run.late
    return ticket


@cython.final
cdef class Ticket:
    """A run of a managed job, whose manager says when it has ended and how.

    `scheduled_wall_ns`: the slot on the wall clock. `number`: how many runs of the job have started, this included.
    `late_ns`: from when it was due to its start.
    """

    def __init__(self):
        raise TypeError("tickets are made by an engine")

    @property
    def reference(self):
        """That of the job."""
        return <uint64_t>self.generation << SLOT_BITS | self.slot

    def __call__(self, manager):
        """Calls the manager with this; what an executor is given to call. Once, and not after the end of the run."""
        cdef bint first
        lock(&self.engine.c.mutex)
        first = not (self.called or self.finished)
        self.called = True
        unlock(&self.engine.c.mutex)
        if first:
            manager(self)

    def claim(self):
        """True for the one who asks first: the one who may end the run."""
        cdef bint first
        lock(&self.engine.c.mutex)
        first = not self.claimed
        self.claimed = True
        unlock(&self.engine.c.mutex)
        return first

    def finish(self, bint failed, bint timed_out=False):
        """Ends the run: its instance is free."""
        self.end(TIMED_OUT if timed_out else FAILED if failed else SUCCEEDED)

    def give_back(self):
        """Frees the instance of a run that has no outcome: it went with the parent of a fork."""
        cdef Core *core = self.engine.c
        cdef int64_t now = self.now()
        cdef bint wake
        lock(&core.mutex)
        if not self.finished:
            self.claimed = self.finished = True
            job_give_back(core, self.slot, self.generation, now)
        wake = drains_go_on(core)
        unlock(&core.mutex)
        self.engine.look_again(wake)

    cdef int end(self, Outcome outcome) except -1:
        cdef Core *core = self.engine.c
        cdef int64_t now = self.now()
        cdef bint wake
        lock(&core.mutex)
        if not self.finished:
            self.claimed = self.finished = True
            core.errors += outcome != SUCCEEDED
            job_end_run(core, self.slot, self.generation, now, outcome)
        wake = drains_go_on(core)
        unlock(&core.mutex)
        self.engine.look_again(wake)
        return 0

    cdef int64_t now(self) noexcept:
        """The time; that of the run's start if the user's clock fails, as the run must end all the same."""
        try:
            return now_of(self.engine)
        except BaseException as failure:
            log_error(f"{self.engine._name}: the clock has failed at the end of a run", failure)
            return self.started_ns
