"""The core of an engine that has jobs: what runs of jobs, and time-outs, need beside what timers need.

Ground rules: those of `core`. The owner is told of errors and of jobs that have left with nothing held.
"""

from __future__ import annotations

import time
from _thread import get_ident
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pysched._pure.core import Core
from pysched._pure.job_table import JobTable
from pysched._pure.jobs import JobCall, Step
from pysched._pure.snapshot import snapshot_at, snapshot_of
from pysched._pure.ticket import Ticket
from pysched.awaitables import is_awaitable
from pysched.clock import NEVER, DrivingClock, SystemClock
from pysched.reports import log_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched._pure.core import Session
    from pysched._pure.jobs import Alarm, Job, JobState
    from pysched._pure.snapshot import Snapshot
    from pysched._pure.timers import Run, Taken
    from pysched.clock import Clock

__all__ = ["JobCore"]

LATEST_WALL = NEVER - (1 << 55)
SECOND = 1_000_000_000
"""How long a step of the wall clock may go unnoticed, and how late a run may be that was not missed."""
QUICK = 20_000
SEED = 0x9E3779B97F4A7C15


class JobCore(Core):
    """`owner` has `_job_failed`, `_job_returned`, `_job_left` and so on: see `job_engine`."""

    table: JobTable

    def __init__(self, owner: Any, clock: Clock, name: str) -> None:
        super().__init__(clock, name, None)
        self.owner = owner
        self.telling = False  # a thread tells the owner of news and of jobs that have left, one after the other
        self.watched = False  # whether the owner does the runs of jobs that are not managed, too
        # With the clock of a test a run of the test can be repeated.
        driven = isinstance(clock, DrivingClock)
        seed = SEED if driven else (time.time_ns() ^ id(self)) & (1 << 64) - 1
        self.table = JobTable(seed | 1, tolerance=0 if driven else SECOND)

    # -- clocks -----------------------------------------------------------------------------------------

    def read_wall(self) -> None:
        """Look at the wall clock, as everybody does for whom it may have moved. Not under the lock."""
        offset = self._wall_offset()
        now = self.now()
        with self.lock:
            self.table.see_wall(offset, now)
            head = self.table.head()
            if head is not None:
                self._wake_for(head[2])

    def _wall_offset(self) -> int:
        """The wall clock minus the monotonic clock.

        What comes between two readings of the system's would look like a step: of three tries the quickest counts.
        """
        if type(self.clock) is not SystemClock:
            return self.wall_ns() - self.now()
        offset, quickest, tries = 0, NEVER, 0
        while tries < 3 and quickest > QUICK:
            before, wall, after = self.now(), self.wall_ns(), self.now()
            if after - before < quickest:
                quickest = after - before
                offset = wall - after  # the least that it can be: runs are late by that, never early
            tries += 1
        return offset

    def wall_ns(self) -> int:
        """The clock of a test may be beyond what the compiled engine's time can be; there it stands still."""
        return max(-LATEST_WALL, min(self.clock.wall_ns(), LATEST_WALL))

    def look(self) -> int:
        self.read_wall()
        return self.now()

    # -- jobs -------------------------------------------------------------------------------------------

    def add_job(self, job: Job, state: JobState, now_ns: int, held: bool = False) -> None:
        if state.wall:
            self.read_wall()
        with self.lock:
            self._check_room(1)
            watched = self.table.on_wall
            self.table.add_job(job, state, now_ns, held)
            self._wake_to_watch(watched)
            if job.armed:
                self._wake_for(job)

    def discard_job(self, reference: int) -> None:
        """Take back that a job was added; it was held."""
        with self.lock:
            job = self.table.find(reference)
            if job is not None:
                self.table.discard_job(job)
        if job is not None:
            job.release()

    def remove_job(self, reference: int) -> tuple[bool, Snapshot | None] | None:
        """Whether that prevented a run that would have come, and a snapshot if a run is in progress.

        None if there is no such job.
        """
        now = self.now()
        with self.lock:
            self.announce()
            job = self.table.find(reference)
            if job is None:
                return None
            snapshot = snapshot_of(job, self.table.steps, now) if job.state.active else None
            prevented = self.table.remove_job(job)
        job.release()
        return prevented, snapshot

    def change(self, job: Job | None, way: Callable[..., Step | None], *args: Any) -> Step | None:
        """As `JobTable.change`, None if there is no job; sees to what comes of it."""
        if job is None:
            return None
        step = self.change_only(job, way, *args)
        self.settle()
        return step

    def change_only(self, job: Job, way: Callable[..., Step | None], *args: Any) -> Step | None:
        """As `change`; nothing is told."""
        with self.lock:
            self.announce()
            watched = self.table.on_wall
            step = self.table.change(job, way, *args)
            if step is not None:
                self._wake_to_watch(watched)
                self._wake_for_run(job, self._feed(job) or step.queues)
        return step

    def _feed(self, job: Job) -> bool:
        """Let runs of its backlog go on, if instances are free; whether there were any. Under the lock."""
        session = self.session
        return session is not None and not session.stopping and not session.ended and self.table.feed(job)

    def go_on(self) -> None:
        for job in list(self.table.jobs.values()):
            if job.state.backlog:
                self.change(job, unchanged)

    def resume_all(self) -> None:
        now = self.look()
        self.table.steps.all_paused = False
        for job in list(self.table.jobs.values()):
            self.change(job, self.table.steps.resumed_with_all, now)

    def _wake_for_run(self, job: Job, queued: bool) -> None:
        """Wake the loop for a run of a job that waits, or is due before what it sleeps for. Under the lock."""
        if queued:
            self._wake()
        elif job.armed:
            self._wake_for(job)

    def _wake_to_watch(self, watched: int) -> None:
        """Wake the loop if it sleeps without a look at the wall clock, and there is a job on it now. Under the lock."""
        if self.table.on_wall and not watched:
            self._wake()

    def _wake(self) -> None:
        session = self.session
        if session is not None:
            session.sleeps_until_ns = -NEVER
            session.wake.set()

    def settle(self) -> None:
        """Tell the owner what was decided, let go of the jobs that have left, and tell of them."""
        while self.table.has_tidings:
            with self.lock:
                if self.telling:  # that thread will see what has come, and tell it in order
                    return
                self.telling = True
            try:
                self._tell_next()
            finally:
                self.telling = False

    def _tell_next(self) -> None:
        while self.table.has_tidings:
            with self.lock:
                news = self.table.next_news()
                left = self.table.bury() if news is None else None
            if news is not None:
                try:
                    self.owner._job_decided(news.reference, *news.note)
                except BaseException as failure:
                    log_error(f"{self.name}: what became of slots could not be told", failure)
            if left is not None:
                job, state = left
                snapshot = snapshot_at(job, state, self.table.steps, 0) if self.table.observed else None
                job.release()
                try:
                    self.owner._job_left(job.reference, snapshot)
                except BaseException as failure:
                    log_error(f"{self.name}: the end of a job could not be told", failure)

    # -- sessions ---------------------------------------------------------------------------------------

    def begin(self, session: Session) -> bool:
        """As `Core.begin`, whose two lines stand here again: a call of it would let others in, amid the change."""
        steps, started_ns = self.table.steps, session.started_ns
        if self.session is not None:
            return False
        # straight:
        steps.start_ns = started_ns
        steps.pool_full = False
        self.session = session
        return True

    def longest_wait_ns(self) -> int:
        return SECOND if self.table.on_wall else NEVER

    def note_busy(self, session: Session, full: bool) -> None:
        if session is self.session:
            self.table.steps.pool_full = full

    # -- runs -------------------------------------------------------------------------------------------

    def start_next(self, session: Session, now_ns: int, thread: int) -> Run | None:
        run = super().start_next(session, now_ns, thread)
        if isinstance(run, JobCall) and run.job.managed:
            run.ticket = Ticket(self, run)
            run.args = (run.ticket,)
        return run

    def start_due(self, session: Session, now_ns: int, thread: int) -> Run | None:
        with self.lock:
            run = self.start_next(session, now_ns, thread)
            if run is None and thread:  # else it would be given to an executor
                run = self._start_alarm(session, now_ns, thread)
            return super().start_due(session, now_ns, thread) if run is None else run

    def _start_alarm(self, session: Session, now_ns: int, thread: int) -> Run | None:
        """Under the lock."""
        return None if session.stopping or session.ended else self.table.start_alarm(thread, now_ns)

    def run_alarms(self, session: Session, now_ns: int) -> None:
        while True:
            with self.lock:
                alarm = self._start_alarm(session, now_ns, get_ident())
            if alarm is None:
                return
            self.execute(alarm, session)
            now_ns = self.now()

    def run_alarm(self, alarm: Alarm) -> None:
        """Run an alarm that may not be the first, at once."""
        callback = alarm.callback
        if callback is None or not self.cancel(alarm):
            return
        try:
            callback()
        except BaseException as error:
            self.report(error, alarm)

    def _call(self, run: Run, session: Session) -> None:
        if not isinstance(run, JobCall):
            super()._call(run, session)
            return
        callback, args = run.callback, run.args
        assert callback is not None
        if self.watched and run.ticket is None:
            ticket = Ticket(self, run)
            # straight: as there
            run.ticket = ticket
            run.callback, run.args = None, ()
            try:
                self.owner._job_runs(ticket, callback, args)
            except BaseException as error:
                self.fail(run, error)
            return
        outcome: defaultdict[int, object] = defaultdict(partial(callback, *args))  # called in C, as there
        # straight: as there
        run.callback, run.args = None, ()
        try:
            result = outcome[0]
        except BaseException as error:
            self.fail(run, error)
            return
        self.take_result(run, result)

    def call_of(self, run: Run, taken: Taken) -> tuple[Any, ...]:
        if isinstance(run, JobCall) and run.ticket is not None:
            return (run.ticket, taken[0])
        return super().call_of(run, taken)

    def omission_of(self, run: Run) -> Exception | None:
        if not isinstance(run, JobCall) or run.ticket is None or run.ticket._called:
            return None
        return RuntimeError("the executor says that the callback has ended, but it has not called it")

    def kept_of(self, run: Run, taken: Taken) -> Any:
        return None if isinstance(run, JobCall) else taken[0]

    def dismiss(self, kept: Any) -> None:
        if hasattr(kept, "dismissed"):
            kept.dismissed()

    def take_result(self, run: Run, result: object) -> None:
        """Hand an awaitable over to the owner, who from then on ends the run, by its ticket."""
        if not isinstance(run, JobCall):
            super().take_result(run, result)
        elif run.ticket is None and is_awaitable(result):
            run.ticket = Ticket(self, run)
            try:
                self.owner._job_returned(run.ticket, result)
            except BaseException as error:
                self.fail(run, error)

    def fail(self, run: Run, error: BaseException) -> BaseException | None:
        if not isinstance(run, JobCall):
            return super().fail(run, error)
        try:
            self.owner._job_failed(run.job.reference, error)
        except BaseException as failure:
            log_error(f"{self.name}: an error could not be reported", failure)
        if run.ticket is None:
            run.failed = True
        else:
            run.ticket.finish(True)
        return None

    def end(self, run: Run, dropped: bool = False) -> None:
        if not isinstance(run, JobCall):
            super().end(run, dropped)
            return
        end_ns = None
        try:
            end_ns = self.now()
        finally:
            with self.lock:
                self.announce()
                self.table.steps.pool_full = False  # this worker is free
                if self.table.end(run, end_ns, dropped) and dropped:
                    self.lateness.remove(run.late_ns)
                self._wake_for_run(run.job, self._feed(run.job))
            self.settle()

    def current(self) -> tuple[int, int, int] | None:
        """Reference, number and slot of the run of a job that this thread is inside of, or None."""
        thread = get_ident()
        for run in reversed(list(self.table.runs.values())):
            if run.thread == thread:
                return (run.job.reference, run.number, run.scheduled) if isinstance(run, JobCall) else None
        return None

    def is_calling(self, reference: int) -> bool:
        runs = list(self.table.runs.values())
        return any(isinstance(run, JobCall) and run.job.reference == reference and run.thread for run in runs)


def unchanged(job: Job, state: JobState) -> Step:  # noqa: ARG001
    return Step(state)
