"""The records of jobs in the twin: a job, its state at one time, a run of it.

Ground rules. All of a job that ever changes is its `JobState`, which is immutable. What becomes of it (`job_steps`)
is computed as a `Step` without changing anything, and takes the place of the old state in one straight stretch of
`JobTable`, whoever came in meanwhile: see `table` for who may.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pysched._pure.timers import Run, Timer
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched._pure.decisions import Note
    from pysched._pure.schedule import CalendarSchedule
    from pysched._pure.ticket import Ticket

__all__ = ["UNBORN", "Alarm", "Job", "JobCall", "JobState", "Outcome", "Phase", "Policy", "Step", "Waiting"]


class Phase(Enum):
    PENDING = "in the heap"
    PAUSED = "out of the heap until it is resumed"
    ENDED = "no further slot comes; it leaves when its last run has ended"
    LEFT = "has left; its owner is still to be told"
    GONE = "removed"


class Outcome(Enum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    NONE = "its thread was the parent's, before a fork"


class Waiting(NamedTuple):
    """A run in the ready queue, where its key is `order`."""

    order: int
    slot: int  # on the job's clock
    due_ns: int  # monotonic, jitter included
    ticks: bool  # counts for max_runs


class Policy(NamedTuple):
    """What is rare in a job, and never changes."""

    grace: int = NEVER  # slots that are later than this are left out, ns; NEVER: none is
    catch_up: str = "one"  # "one", "none" or "all" of the slots that were missed
    queues: bool = False  # slots that find all instances busy wait in the backlog
    from_end: bool = False  # the period counts from the end of the run: while it runs, no slot is to come
    delay: int = 0  # each slot is due so much later, ns


class JobState(NamedTuple):
    """`slot` and `until` are on the job's clock: the wall clock if `wall`, else the monotonic one, as `due_ns`."""

    period: int  # 0: by its schedule; of a single slot: the delay that it was given, or 0
    schedule: CalendarSchedule | None
    wall: bool
    slot: int  # the next one; it is due `Job.longest_lag` later at most
    single: bool = False  # it has one slot only
    until: int = NEVER  # slots from here on do not exist
    begin: int = -NEVER  # no slot of a schedule is before it
    ticks_left: int | None = None  # until the last one; None: no limit
    phase: Phase = Phase.PENDING
    due_ns: int = NEVER  # of its entry in the heap
    order: int = -1
    immediate: bool = False  # that entry is for a run at once, before the slot
    untold: bool = False  # held back until its owner has named it; else it is pending
    owed: bool = False  # its only slot came while its runs were busy; it runs when one of them ends
    excused: bool = False  # its only slot is late because of a pause or of its own runs: that does not count as late
    disabled: bool = False  # paused by itself, not only with all jobs
    waiting: tuple[Waiting, ...] = ()
    backlog: tuple[tuple[int, int], ...] = ()  # slot and due time of runs that wait for an instance
    active: int = 0  # runs started and not ended, those that wait for a retry included
    busy_until: int = -NEVER  # when a run was free again, after all were taken
    failing: bool = False  # its last tick failed
    started: int = 0
    number: int = 0  # that of the latest run; more than `started` if an executor took starts back
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    coalesced: int = 0  # `missed` included
    missed: int = 0
    paused: int = 0
    last_start: int = 0  # wall clock, ns
    last_end: int = 0
    notes: tuple[Note, ...] = ()  # the latest decisions, the oldest first

    @property
    def is_here(self) -> bool:
        return self.phase is not Phase.LEFT and self.phase is not Phase.GONE

    @property
    def spent(self) -> bool:
        """Whether the last of its ticks has come."""
        return self.ticks_left == 0

    @property
    def on_wall(self) -> bool:
        """Whether it counts among the jobs of the wall clock."""
        return self.wall and self.phase is not Phase.GONE


class Step(NamedTuple):
    """What becomes of a job."""

    state: JobState
    queues: bool = False  # the last of its runs that wait has come by this
    notes: tuple[Note, ...] = ()  # what was decided on the way
    # What it adds to the counts of the engine.
    scheduled: int = 0
    started: int = 0
    cancelled: int = 0
    coalesced: int = 0
    errors: int = 0
    dropped: int = 0


COMMON = Policy()
UNBORN = JobState(period=0, schedule=None, wall=False, slot=NEVER, phase=Phase.GONE)
"""Of a job that is not in the table yet."""


class Job(Timer):
    """In the heap as any timer; `armed`, `live`, `order`, `due_ns` and `run_due_ns` repeat what `state` says."""

    __slots__ = ("instances", "jitter", "managed", "policy", "reference", "state")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        managed: bool,
        instances: int,
        jitter: int,
        policy: Policy = COMMON,
    ) -> None:
        super().__init__(NEVER, callback, args)
        self.live = False
        self.reference = 0  # its name, never used twice by an engine; smaller for the older
        self.managed = managed  # a run of it ends when its ticket says so
        self.instances = instances
        self.jitter = jitter
        self.policy = policy
        self.state = UNBORN

    @property
    def longest_lag(self) -> int:
        """How much later than its slot it may be due."""
        return self.jitter + self.policy.delay

    def has_room(self, state: JobState) -> bool:
        return len(state.waiting) + state.active < self.instances


class Alarm(Timer):
    """A one-shot that runs on the loop's own thread, never on a worker, who may all be busy."""

    __slots__ = ()
    counted = False


class JobCall(Run):
    """A run of a job that has started."""

    __slots__ = ("job", "number", "scheduled", "started_ns", "ticket", "waiting")

    def __init__(self, job: Job, waiting: Waiting, number: int, scheduled: int, thread: int, now_ns: int) -> None:
        super().__init__(job, thread, waiting.due_ns, waiting.order)
        self.job = job
        self.waiting = waiting
        self.number = number  # how many runs of the job have started, this included
        self.scheduled = scheduled  # the slot on the wall clock
        self.started_ns = now_ns
        self.ticket: Ticket | None = None  # of a managed or watched job, or for an awaitable
