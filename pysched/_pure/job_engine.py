"""`JobEngine`: the twin's half of a `Scheduler`; it knows of slots, counts and clocks, not of names or retries.

A job is named by its reference, an int never used twice by an engine.

The owner, a `Scheduler`, is told, with nothing held:
`_job_failed(reference, error)`   a run that is not managed has raised `error`, before the run is accounted for;
`_job_returned(ticket, awaitable)`   its callback has returned an awaitable: from now on it is managed, by this ticket;
`_job_left(reference, snapshot)`  a job has left by itself, after its last run; the snapshot is None unless `observe`d;
`_job_decided(reference, decision, when, slot, count, late)`   what became of slots, if `observe`d; times are ns on the
wall clock;
`_job_runs(ticket, callback, args)`   it is to do a run that is not managed, if `watch`ed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched._pure.arguments import check_clock, check_executor, checked_name
from pysched._pure.dispatcher import Dispatcher
from pysched._pure.handle import new_handle
from pysched._pure.invariants import check_table
from pysched._pure.job_core import JobCore
from pysched._pure.job_invariants import check_jobs
from pysched._pure.jobs import Alarm, Job, JobState, Policy
from pysched._pure.snapshot import snapshot_at, snapshot_of
from pysched._pure.timers import Timer
from pysched.callbacks import is_simple
from pysched.clock import NEVER, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched._pure.decisions import Note
    from pysched._pure.handle import TimerHandle
    from pysched._pure.schedule import CalendarSchedule
    from pysched._pure.snapshot import Snapshot
    from pysched.clock import Clock
    from pysched.stats import EngineStats

__all__ = ["JobEngine"]


class JobEngine(Dispatcher):
    """Runs jobs for `owner` on `executor`, which is what `Engine` takes, as are `clock`, `name` and `daemon`.

    `prefix`: what ids by default begin with.
    """

    __slots__ = ("prefix",)

    _core: JobCore

    def __init__(
        self, owner: Any, executor: Any, clock: Clock | None, name: str, prefix: str, daemon: bool = False
    ) -> None:
        self.prefix = prefix
        check_executor(executor, daemon)
        name = checked_name(name)
        if clock is not None:
            check_clock(clock)
        super().__init__(JobCore(owner, SystemClock() if clock is None else clock, name), executor, daemon)
        self._core.read_wall()

    # -- registering ------------------------------------------------------------------------------------

    def add(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        period: int,
        schedule: CalendarSchedule | None,
        slot: int,
        wall: bool,
        managed: bool = False,
        instances: int = 1,
        until: int = NEVER,
        jitter: int = 0,
        max_runs: int = 0,
        immediate: bool = False,
        held: bool = False,
        grace: int = NEVER,
        catch_up: str = "one",
        queues: bool = False,
        from_end: bool = False,
        delay: int = 0,
        begin: int = -NEVER,
    ) -> int:
        """Adds a job and returns its reference; O(log n).

        `period` ns, or `schedule`, or neither: one slot.  `slot`: the first, ns on the wall clock if `wall`, else on
        the monotonic clock.  `managed`: `callback(ticket)` is called instead of `callback(*args)`.  `until` is on the
        same clock, `jitter` ns, `max_runs` 0: any number.  `held`: nothing of it runs before `arm`.
        `grace` ns: slots that are later are left out.  `catch_up`: "one", "none" or "all" of slots that were missed.
        `queues`: slots that find all instances busy wait.  `from_end`: `period` counts from the end of each run.
        `delay` ns: each slot is due so much later.  `begin`: no slot of a schedule is before it, on the wall clock.
        """
        single = not period and schedule is None
        state = JobState(
            period, schedule, wall, slot, single, until, begin, ticks_left=max_runs or None, immediate=immediate
        )
        policy = Policy(grace, catch_up, queues, from_end, delay)
        job = Job(callback, args, managed, instances, jitter, policy)
        self._core.add_job(job, state, self._core.now(), held)
        return job.reference

    def arm(self, reference: int) -> None:
        """Lets a job go that was added `held`; nothing if it was removed or paused meanwhile."""
        self._core.change(self._core.table.find(reference), self._core.table.steps.let_go)

    def discard(self, reference: int) -> None:
        """Takes back that a job was added `held`."""
        self._core.discard_job(reference)

    def add_plain(
        self,
        callback: Callable[[], object],
        period: int,
        schedule: CalendarSchedule | None = None,
        single: bool = False,
    ) -> str | None:
        """Adds a job that is all default, if `callback` is a plain function or method without parameters.

        `single`: with one slot, `period` ns from now.  Returns the job's id, which is the prefix and its reference in
        hexadecimal digits; None for any other callback, or if the schedule never comes again.
        """
        if not is_simple(callback):
            return None
        core = self._core
        now = core.now()
        slot = min(now + period, NEVER)
        if schedule is not None:
            core.read_wall()
            slot = schedule.next_shared(slot + core.table.steps.wall_offset)
            if slot == NEVER:
                return None
            period = 0
        job = Job(callback, (), managed=False, instances=1, jitter=0)
        core.add_job(job, JobState(period, schedule, schedule is not None, slot, single), now)
        return f"{self.prefix}{job.reference:x}"

    def call_later(self, delay: int, callback: Callable[[], object]) -> TimerHandle:
        """Calls `callback()` on a worker, `delay` ns from now: a retry."""
        return self._register(Timer(min(self._core.now() + delay, NEVER), callback, ()))

    def call_alarm(self, delay: int, callback: Callable[[], object]) -> TimerHandle:
        """Calls `callback()` on the loop's thread, `delay` ns from now: a time-out, which waits for no worker."""
        return self._register(Alarm(min(self._core.now() + delay, NEVER), callback, ()))

    def _register(self, timer: Timer) -> TimerHandle:
        handle = new_handle(self._core, timer)
        self._core.register(timer)
        return handle

    # -- one job ----------------------------------------------------------------------------------------

    def has(self, reference: int) -> bool:
        """Whether there is such a job; O(1)."""
        return self._core.table.find(reference) is not None

    def remove(self, reference: int) -> tuple[bool, Snapshot | None] | None:
        """Removes a job: whether that prevented a run that would have come, and a snapshot if a run is in progress.

        None if there is no such job.
        """
        return self._core.remove_job(reference)

    def pause(self, reference: int) -> bool:
        """Lets the job's slots pass by; False if there is no such job."""
        job = self._core.table.find(reference)
        return self._core.change(job, self._core.table.steps.paused) is not None

    def resume(self, reference: int) -> bool:
        """Waits for the job's next slot; False if there is no such job."""
        now = self._core.look()
        job = self._core.table.find(reference)
        return self._core.change(job, self._core.table.steps.resumed, now) is not None

    def run_job(self, reference: int) -> bool | None:
        """Queues a run besides the slots: False if all instances are busy; None if there is no such job.

        RuntimeError if the engine is not running.
        """
        now = self._core.look()
        job = self._core.table.find(reference)
        if job is None:
            return None
        with self._core.lock:
            if not self.running:
                raise RuntimeError(f"{self._core.name} is not running")
            queued = self._core.change_only(job, self._core.table.steps.run_besides, now) is not None
        self._core.settle()
        return queued if job.state.is_here else None

    def reschedule(
        self,
        reference: int,
        period: int,
        schedule: CalendarSchedule | None,
        slot: int,
        wall: bool,
        begin: int = -NEVER,
    ) -> bool:
        """Gives the job a new grid; counters, pause and runs in progress stay, runs that wait are dropped."""
        self._core.read_wall()
        job = self._core.table.find(reference)
        step = self._core.change(job, self._core.table.steps.rescheduled, period, schedule, slot, wall, begin)
        return step is not None

    # -- all jobs ---------------------------------------------------------------------------------------

    def pause_all(self) -> None:
        """Lets all slots pass by from now on; apart from the pauses of single jobs."""
        self._core.table.steps.all_paused = True

    @property
    def all_paused(self) -> bool:
        """Whether `pause_all` is in force."""
        return self._core.table.steps.all_paused

    def resume_all(self) -> None:
        """Ends `pause_all`: single slots that have passed come at once; O(n)."""
        self._core.resume_all()

    def snapshot(self, reference: int, left: bool = False) -> Snapshot | None:
        """The job at this instant; None if there is no such job.  O(1).

        `left`: also of one that has left, if its owner has not been told yet.
        """
        self._core.read_wall()
        table, now = self._core.table, self._core.now()
        job = table.find(reference)
        if job is not None:
            return snapshot_of(job, table.steps, now)
        job = table.jobs.get(reference) if left else None
        return None if job is None or job.callback is None else snapshot_at(job, job.state, table.steps, now)

    def snapshots(self) -> list[Snapshot]:
        """`snapshot` of all jobs, in the order of registration.  O(n)."""
        self._core.read_wall()
        steps, now = self._core.table.steps, self._core.now()
        views = [snapshot_of(job, steps, now) for job in list(self._core.table.jobs.values())]
        return [found for found in views if found is not None]

    # -- decisions --------------------------------------------------------------------------------------

    def explain(self, count: int) -> None:
        """Of each job the latest `count` decisions are noted from now on; 0: none.  Nothing where there are jobs."""
        with self._core.lock:
            self._core.table.explain(count)

    def observe(self, most: int) -> None:
        """The owner is told of slots without a run (`_job_decided`); `most` may wait to be told, 0: no more is told."""
        with self._core.lock:
            self._core.table.observe(most)

    def watch(self, watched: bool) -> None:
        """From now on the owner does the runs of jobs that are not managed, too, by `_job_runs`."""
        self._core.watched = watched

    def decide(self, reference: int, decision: str, slot_wall_ns: int) -> None:
        """Notes a decision of the owner's about a job: "retry" or "timeout"."""
        table = self._core.table
        if not table.steps.noting:
            return
        now = self._core.now()
        job = table.find(reference)
        if job is not None:
            with self._core.lock:
                table.change(job, table.steps.noted, decision, slot_wall_ns, now)

    def decisions(self, reference: int) -> list[Note] | None:
        """The latest decisions about a job, `(decision, when, slot, count, late)` each, times in ns on the wall clock.

        None if there is no such job.
        """
        job = self._core.table.find(reference)
        return None if job is None else list(job.state.notes)

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._core.table.jobs)

    def __bool__(self) -> bool:
        return True

    def current(self) -> tuple[int, int, int] | None:
        """`(reference, number, scheduled)` of the run of a job that this thread is inside of, or None."""
        return self._core.current()

    def is_calling(self, reference: int) -> bool:
        """Whether a thread is inside of the callback of that job, removed or not; O(threads)."""
        return self._core.is_calling(reference)

    # -- clocks -----------------------------------------------------------------------------------------

    def time_ns(self) -> int:
        """The monotonic clock, ns."""
        return self._core.now()

    def wall_ns(self) -> int:
        """The wall clock, ns since the Unix epoch."""
        return self._core.wall_ns()

    def offset_ns(self) -> int:
        """The wall clock - the monotonic clock, as slots are shown with it: two readings would differ by some us."""
        self._core.read_wall()
        return self._core.table.steps.planned_offset

    # -- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop.start(self)

    def run(self) -> None:
        try:
            self._loop.run(self)
        finally:
            self._core.settle()

    def close(self) -> None:
        """From now on `start` and `run` do nothing, and `wait_idle` does not wait for what is due."""
        with self._core.lock:
            self._core.announce()
            self._core.closed = True

    def settle(self) -> None:
        """Lets go of jobs that have left, and tells the owner: what is left to do in the child of a fork."""
        self._core.settle()

    def stop(self, timeout: float | None) -> bool:
        try:
            return self._loop.stop(self, timeout)
        finally:
            self._core.settle()

    def wait_idle(self, timeout: float | None) -> bool:
        return self._loop.wait_idle(timeout)

    def stats(self) -> EngineStats:
        return self._core.stats()

    def _check(self) -> None:
        with self._core.lock:
            check_table(self._core.table)
            begun = self._core.session is not None
            check_jobs(self._core.table, begun, begun and self.running)

    # -- what a DrivingClock asks, so that time-outs fire while a callback sleeps; fork ------------------

    def _next_due_ns(self) -> int | None:
        self._core.read_wall()  # a step of the wall clock is noticed at once
        return super()._next_due_ns()

    def _run_next(self, now_ns: int) -> bool:
        self._core.read_wall()
        try:
            return super()._run_next(now_ns)
        finally:
            self._core.settle()

    def _next_alarm_ns(self) -> int | None:
        """When the earliest alarm is due, or None.  O(n)."""
        with self._core.lock:
            alarm = self._core.table.next_alarm() if self.running else None
        return None if alarm is None else alarm.due_ns

    def _run_alarm(self) -> None:
        """Runs the earliest alarm, whatever stands before it in the heap."""
        with self._core.lock:
            alarm = self._core.table.next_alarm()
        if alarm is not None:
            self._core.run_alarm(alarm)

    def _after_fork_in_child(self) -> None:
        dropped = self._core.table.dropped
        self._core.telling = False
        super()._after_fork_in_child()
        self._core.table.dropped = dropped  # in the parent they run
