"""`JobOwner`: the parts of a scheduler, and what they tell each other of jobs.

The engine knows slots and counts, the book names and options, the runner the attempts of a run. The engine and the runs
call the methods here with one underscore, with nothing held.
"""

from __future__ import annotations

import itertools
from datetime import timezone as fixed_zone
from threading import get_ident
from typing import TYPE_CHECKING, Any

from pysched.announcer import Announcer
from pysched.book import JobBook
from pysched.callbacks import PLAIN
from pysched.clock import DrivingClock
from pysched.errors import JobCancelled
from pysched.events import Events
from pysched.job_run import JobRun, at, text_of
from pysched.reports import call_handler, log_error, log_warning
from pysched.runner import ManagedJob, ManagedRun, Runner
from pysched.token import CancelToken
from pysched.views import JobView

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor
    from datetime import tzinfo

    from pysched.clock import Clock
    from pysched.engine import Snapshot
    from pysched.events import EventName
    from pysched.job import JobInfo, JobOptions
    from pysched.runner import Ticket

__all__ = ["JobOwner"]

_SERIALS = itertools.count(1)


class JobOwner:
    """`backend` has the class `JobEngine`; the rest are arguments of a `Scheduler`, checked."""

    def __init__(
        self,
        scheduler: object,
        backend: Any,
        executor: Executor | int,
        daemon: bool,
        clock: Clock | None,
        name: str,
        zone: tzinfo,
        loop: AbstractEventLoop | None,
        on_error: Callable[[BaseException, JobRun], object] | None,
    ) -> None:
        self.scheduler = scheduler  # which lives as long as the engine's loop holds this
        self.zone = zone
        self.on_error = on_error
        self.engine = backend.JobEngine(self, executor, clock, name, f"{next(_SERIALS):x}-", daemon)
        self.book = JobBook(self.engine.prefix, self.engine.has, self.is_calling, self.engine.discard)
        self.runner = Runner(self.engine, clock, self, loop)
        self.view = JobView(self.book, zone)
        self.events = Events(name, isinstance(clock, DrivingClock))
        self.announcer = Announcer(
            self.engine, lambda reference: self._try_info(reference, careful=True, left=True), zone, self.events
        )

    @property
    def name(self) -> str:
        """The name in logs and of threads."""
        name: str = self.engine.name
        return name

    # -- what the engine and the runner tell --

    def _job_failed(self, reference: int, error: BaseException) -> None:
        self.book.set_error(reference, text_of(error))
        if isinstance(error, JobCancelled):
            return
        try:
            run = self.current_run()
        except BaseException:  # of a zone of the user's, say
            run = self.current_run(fixed_zone.utc)
        self._report(error, run, self.book.options_of(reference))

    def _report(self, error: BaseException, run: JobRun | None, options: JobOptions) -> None:
        handler = options.on_error or self.on_error
        if handler is not None:
            whose = self.name if run is None else f"{self.name}: job {run.job_id} ({run.job_name})"
            call_handler(handler, error, run, whose)
        elif run is not None:
            log_error(f"{self.name}: job {run.job_id} ({run.job_name}) raised an exception", error)
        else:
            log_error(f"{self.name}: a job raised an exception", error)

    def _report_timeout(self, job_id: str, job_name: str, timeout: float) -> None:
        log_warning(f"{self.name}: job {job_id} ({job_name}) timed out after {timeout:g} s")

    def _tell(self, event: EventName, reference: int, **about: Any) -> None:
        self.announcer.tell(event, reference, **about)

    def announce(self, event: EventName, reference: int, **about: Any) -> None:
        """Tell of what a call of the user's has done, as its last step: a Ctrl-C that comes in meanwhile is raised."""
        interruption = self.announcer.tell(event, reference, **about)
        if interruption is not None:
            raise interruption

    def _job_decided(self, reference: int, decision: Any, when: int, slot_ns: int, count: int, late: int) -> None:  # noqa: ARG002
        self.announcer.decided(reference, decision, slot_ns, count)

    def _job_runs(self, ticket: Ticket, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Do the run of a job that is not managed as if it were one, for the sake of listeners."""
        reference = ticket.reference
        options = self.book.options_of(reference)
        snapshot = self.engine.snapshot(reference)
        zone = self.zone if snapshot is None else self.view.zone_of(snapshot)
        job = ManagedJob(self.runner, callback, args, {}, PLAIN, options, zone, self.book.id_of)
        ManagedRun(job, ticket).attempt()

    def current_run(self, zone: tzinfo | None = None) -> JobRun | None:
        """The run of an unmanaged job that this thread is inside of."""
        found = self.engine.current()
        if found is None:
            return None
        reference, number, scheduled_ns = found
        known = self.runner.plain.get(get_ident())
        if known is not None and known[:2] == (reference, number):
            return known[2]
        run = self._plain_run(reference, number, scheduled_ns, zone)
        self.runner.plain[get_ident()] = reference, number, run
        if self.runner.closing:
            run.cancel._fire()
        return run

    def _plain_run(self, reference: int, number: int, scheduled_ns: int, zone: tzinfo | None) -> JobRun:
        """A new object for the run of an unmanaged job, with a token of its own."""
        snapshot, departed = self.engine.snapshot(reference), self.book.departed.get(reference)
        if snapshot is not None:
            name, own_zone = self.view.name_of(snapshot), self.view.zone_of(snapshot)
        elif departed is not None:
            name, own_zone = departed.name, departed.timezone
        else:
            name, own_zone = "", self.zone
        token = CancelToken(self.runner.clock)
        return JobRun(self.book.id_of(reference), name, number, at(scheduled_ns, zone or own_zone), 1, token)

    def _job_returned(self, ticket: Ticket, awaitable: Awaitable[object]) -> None:
        """The callback of an unmanaged job has returned an awaitable: from here on the run is a managed one."""
        reference = ticket.reference
        of_ticket = reference, ticket.number, ticket.scheduled_wall_ns
        try:
            # The callback may have asked for it already; there is none on an executor that is no thread pool.
            run = self.current_run() or self._plain_run(*of_ticket, None)
        except BaseException:  # of a zone of the user's, say
            run = self._plain_run(*of_ticket, fixed_zone.utc)
        options = self.book.options_of(reference)
        job = ManagedJob(self.runner, _nothing, (), {}, PLAIN, options, self.zone, lambda _: run.job_id)
        ManagedRun(job, ticket).adopt(awaitable, run)

    # -- removing --

    def remove(self, reference: int) -> bool | None:
        """Whether that prevented a run that would have come; None if there is no such job."""
        info = self._try_info(reference, careful=True) if self.events.wants("removed") else None
        removal = self.engine.remove(reference)
        if removal is None:
            return None
        prevented, running = removal
        try:  # there may be no memory for one of these, and the next is to be done all the same
            if running is not None:
                self.book.depart(reference, self.view.as_info(running, careful=True))
        finally:
            try:
                self.runner.drop_retries(reference)
            finally:
                self._job_left(reference)
        self.announce("removed", reference, job=info)
        return bool(prevented)

    def is_calling(self, reference: int) -> bool:
        """Whether the job's callback is being called, by the engine or in a retry."""
        return self.engine.is_calling(reference) or self.runner.is_calling(reference)

    def _job_left(self, reference: int, snapshot: Snapshot | None = None) -> None:
        """Forget a job that was removed, or that has left, as the engine says; with a snapshot if anybody listens."""
        try:
            if snapshot is not None:
                self._tell("removed", reference, job=self.view.as_info(snapshot, careful=True))
        finally:
            self.runner.forget(reference)
            self.book.forget(reference)

    def _set_error(self, reference: int, text: str) -> None:
        self.book.set_error(reference, text)

    def _try_info(self, reference: int, *, careful: bool = False, left: bool = False) -> JobInfo | None:
        snapshot = self.engine.snapshot(reference, left)
        return None if snapshot is None else self.view.as_info(snapshot, careful=careful)


def _nothing() -> None:
    """In the place of a callback that was called already."""
