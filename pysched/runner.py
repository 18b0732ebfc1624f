"""Runs that need more than a call: retries, time-outs, a `cancel` token, a `ctx`.

A `ManagedJob` stands in for the callback in the engine, which gives it a ticket for each tick. A `ManagedRun` is
such a tick over all its attempts: whoever claims its ticket first (its own end, or its time-out) ends it.
Retries and time-outs are timers of the engine like any other; nobody sleeps for them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pysched.awaitables import is_awaitable, is_cancellation
from pysched.callbacks import name_of
from pysched.clock import NS, DrivingClock
from pysched.coroutines import SHUT_DOWN, TIMED_OUT, CoroutineCall, Coroutines
from pysched.current import leave, managed_run
from pysched.errors import JobCancelled
from pysched.job_run import JobRun, at, text_of
from pysched.token import CancelToken
from pysched.waiting import Waiters

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import tzinfo

    from pysched.callbacks import Wanted
    from pysched.clock import Clock
    from pysched.events import EventName
    from pysched.job import JobInfo, JobOptions

__all__ = ["JobRun", "ManagedJob", "Runner", "at", "text_of"]

LONGEST_RETRY_WAIT_S = 30.0


class Ticket(Protocol):
    """What the engine gives for a tick: see `JobEngine`."""

    reference: int
    number: int
    scheduled_wall_ns: int
    late_ns: int

    def claim(self) -> bool: ...
    def finish(self, failed: bool, timed_out: bool = False) -> None: ...
    def give_back(self) -> None: ...


class Timer(Protocol):
    def cancel(self) -> bool: ...


class RunEngine(Protocol):
    """What runs need of the engine; delays in nanoseconds."""

    def has(self, reference: int) -> bool: ...
    def time_ns(self) -> int: ...
    def decide(self, reference: int, decision: str, slot_wall_ns: int) -> None: ...

    def call_later(self, delay: int, callback: Callable[[], object]) -> Timer: ...
    def call_alarm(self, delay: int, callback: Callable[[], object]) -> Timer: ...


class Owner(Protocol):
    """Whom runs tell what becomes of them. The first two raise nothing."""

    @property
    def name(self) -> str: ...

    def _report(self, error: BaseException, run: JobRun | None, options: JobOptions) -> None:
        """An attempt has failed."""

    def _report_timeout(self, job_id: str, job_name: str, timeout: float) -> None:
        """A run has timed out."""

    def _tell(self, event: EventName, reference: int, **about: Any) -> None:
        """Tell listeners, if there are any for that event: see `JobEvent` for what may be told about it."""

    def _set_error(self, reference: int, text: str) -> None:
        """What becomes the job's last_error."""

    def _try_info(self, reference: int, *, careful: bool = False) -> JobInfo | None:
        """The job, if it is still there; if `careful`, nothing is raised for a zone that fails."""


class Runner:
    """The runs in progress of one scheduler, and how their failures are told."""

    def __init__(
        self, engine: RunEngine, clock: Clock | None, owner: Owner, loop: AbstractEventLoop | None = None
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.owner = owner
        self.closing = False
        self.open: dict[int, dict[ManagedRun, None]] = {}  # ticks that have not ended, by their job's reference
        self.latest = object()  # stands for the tick that was opened last
        self.waiters = Waiters()  # for the end of all that are open, and of all coroutines
        self.coroutines = Coroutines(clock, lambda: owner.name, loop, self.waiters)
        # What `current_run` gave last in jobs that are not managed, by thread: reference, number of the run, the run.
        self.plain: dict[int, tuple[int, int, JobRun]] = {}
        self.abandoned: dict[ManagedRun, JobInfo | None] = {}  # timed out, but their call goes on; their jobs then
        # With the clock of a test a run of the test can be repeated.
        self.random = random.Random(0) if isinstance(clock, DrivingClock) else random.Random()

    def opened(self, run: ManagedRun) -> None:
        self.open.setdefault(run.ticket.reference, {})[run] = None
        self.latest = object()  # only now: who finds the one before has seen no later tick in `open`, and asks again

    def closed(self, run: ManagedRun) -> None:
        runs = self.open.get(run.ticket.reference)
        if runs is not None:
            runs.pop(run, None)
            if run.last:
                self.forget(run.ticket.reference)
        if self.waiters:
            self.waiters.notify()

    def forget(self, reference: int) -> None:
        """The job has left: no run of it will be opened any more."""
        if not self.open.get(reference):
            self.open.pop(reference, None)

    def has_open(self) -> bool:
        return any(list(self.open.values())) or bool(self.coroutines.calls)

    def is_calling(self, reference: int) -> bool:
        """Whether an attempt of that job is in progress, given up or not; O(runs)."""
        abandoned = [run for run in list(self.abandoned) if run.ticket.reference == reference]
        return any(run.calling for run in [*self.open.get(reference, ()), *abandoned])

    def all_open(self) -> list[ManagedRun]:
        return [run for runs in list(self.open.values()) for run in list(runs)]

    def close(self) -> None:
        """`cancel_all`, and the same to every run that is still to come: for good."""
        self.closing = True
        self.cancel_all()
        self.coroutines.close()

    def cancel_all(self) -> None:
        """Fire the tokens of all runs in progress and drop their retries."""
        for _, _, plain in list(self.plain.values()):
            plain.cancel._fire()
        for run in self.all_open() + list(self.abandoned):
            run.cancel()

    def is_own(self, run: JobRun | None) -> bool:
        """Whether it is a run of this scheduler's that goes on; O(runs)."""
        return run is not None and any(each.token is run.cancel for each in self.all_open() + list(self.abandoned))

    def drop_retries(self, reference: int) -> None:
        """End the ticks of a removed job that wait for a retry; one whose attempt goes on will have no other."""
        for run in list(self.open.get(reference, ())):
            run.last = True
            run.drop_retry(JobCancelled("the job was removed before the retry"))

    def forget_threads(self) -> None:
        """In the child of a fork: the calls in progress are the parent's."""
        self.abandoned.clear()
        self.plain.clear()
        for run in self.all_open():
            run.forget_thread()
        self.coroutines.after_fork_in_child()

    def wait_of(self, attempt: int, backoff: float) -> int:
        """Nanoseconds to wait after that attempt: doubled each time, at most 30 s, times a factor from 0.5 to 1."""
        wait = min(LONGEST_RETRY_WAIT_S, backoff * 2.0 ** min(attempt - 1, 60))
        return round(wait * self.random.uniform(0.5, 1.0) * NS)


class ManagedJob:
    """Stands in for a callback in the engine."""

    __slots__ = ("args", "callback", "identify", "kwargs", "name", "options", "runner", "wanted", "zone")

    def __init__(
        self,
        runner: Runner,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        wanted: Wanted,
        options: JobOptions,
        zone: tzinfo,
        identify: Callable[[int], str],
    ) -> None:
        self.runner = runner
        self.callback = callback
        self.args = args
        self.kwargs = kwargs
        self.wanted = wanted
        self.options = options
        self.zone = zone
        self.identify = identify  # the job's id by its reference
        self.name = name_of(callback) if options.name is None else options.name

    def __call__(self, ticket: Ticket) -> None:
        ManagedRun(self, ticket).attempt()


class Retry:
    """The next attempt of a tick, as a timer of the engine."""

    __slots__ = ("_called", "_run")

    def __init__(self, run: ManagedRun) -> None:
        self._run = run
        self._called = False

    def __call__(self) -> None:
        if not self._called:  # else an executor has changed its mind
            self._called = True
            self._run.attempt()

    def dismissed(self) -> None:
        """An executor is done with this: if it has not called it, by an error or a cancellation say, nobody will."""
        if not self._called:
            self._called = True
            self._run.ended(self._run.run, JobCancelled("the executor has not called the retry"))


class ManagedRun:
    """A tick, over all its attempts."""

    __slots__ = (
        "__weakref__",
        "alarm",
        "attempt_began_ns",
        "attempts",
        "began_ns",
        "calling",
        "coroutine",
        "job",
        "job_id",
        "last",
        "over",
        "retries",
        "run",
        "ticket",
        "token",
    )

    def __init__(self, job: ManagedJob, ticket: Ticket) -> None:
        self.job = job
        self.ticket = ticket
        self.job_id = job.identify(ticket.reference) if job.options.id is None else job.options.id
        self.token = CancelToken(job.runner.clock)
        self.attempts = 0
        self.began_ns = self.attempt_began_ns = 0
        self.calling = False
        self.coroutine: CoroutineCall | None = None  # of the latest attempt
        self.over = False
        self.last = False  # whether there is no retry any more, as the job was removed
        self.alarm: Timer | None = None
        self.run: JobRun | None = None  # the latest attempt
        self.retries: dict[int, Timer] = {}  # that may still come, by the number of the attempt before

    def attempt(self) -> None:
        """Call the callback once; on a worker."""
        self.calling = True
        self.retries.pop(self.attempts, None)
        if self.over:  # its time ran out just now
            self.leave()
            return
        self.coroutine = None
        run: JobRun | None = None
        try:
            before = managed_run.set(None)
        except MemoryError as error:
            self.attempts += 1  # or it would be tried for ever
            self.ended(run, error)
            return
        try:
            first = self.run is None
            run = self.begin()
            managed_run.set(run)
            if first:
                self.tell("started", run, lateness=self.ticket.late_ns / NS)
                self.set_alarm()
            result = self.call(run)
            if is_awaitable(result):
                self.hand_over(result, run)
                return
        except BaseException as error:
            self.ended(run, error)
        else:
            self.ended(run, None, result)
        finally:
            leave(before, run)

    def adopt(self, awaitable: Awaitable[object], run: JobRun) -> None:
        """Go on with the run of a job that is not managed, whose callback has returned an awaitable."""
        runner = self.job.runner
        self.calling = True
        self.attempts = 1
        self.token = run.cancel
        before = managed_run.set(run)
        try:
            runner.opened(self)
            if runner.closing:
                self.token._fire()
            self.hand_over(awaitable, run)
        except BaseException as error:
            self.ended(run, error)
        finally:
            leave(before, run)

    def hand_over(self, awaitable: Awaitable[object], run: JobRun) -> None:
        """Let the loop await it, which calls `ended`; what is raised says why it does not."""
        coroutines = self.job.runner.coroutines
        coroutine = self.coroutine = CoroutineCall(awaitable, run.run_id, partial(self.awaited, run))
        coroutines.start(coroutine)
        # Who fired the token before the start had nothing to cancel; whether it goes on is for the loop to know.
        if self.token.cancelled:
            coroutines.cancel(coroutine, TIMED_OUT if self.over else SHUT_DOWN)

    def awaited(self, run: JobRun, error: BaseException | None) -> None:
        """The coroutine of an attempt has ended."""
        coroutine = self.coroutine
        self.ended(run, error, None if coroutine is None else coroutine.value)

    def ended(self, run: JobRun | None, error: BaseException | None, result: object = None) -> None:
        """The call of an attempt, or the coroutine that it returned, has ended."""
        retried = False
        try:
            if error is None:
                self.end(None, run, result)
            else:
                retried = self.fail(error, run)
        except BaseException as failure:  # no memory to tell of it: its instance must be free all the same
            self.end(failure)
            raise
        finally:
            if not retried:  # else the next attempt may be going on already
                self.leave()

    def leave(self) -> None:
        """The call has ended. In this order: `expire` looks the other way round."""
        self.calling = False
        self.job.runner.abandoned.pop(self, None)

    def begin(self) -> JobRun:
        job, runner, ticket = self.job, self.job.runner, self.ticket
        self.attempts += 1
        self.attempt_began_ns = runner.engine.time_ns()
        if self.run is None:
            self.began_ns = self.attempt_began_ns
            runner.opened(self)
            if not runner.engine.has(ticket.reference):  # removed since it started: `drop_retries` did not see it
                self.last = True
            if runner.closing:
                self.token._fire()
        scheduled = at(ticket.scheduled_wall_ns, job.zone)
        self.run = JobRun(self.job_id, job.name, ticket.number, scheduled, self.attempts, self.token)
        return self.run

    def set_alarm(self) -> None:
        """After the start was told, so that a time-out is told after it."""
        timeout, engine = self.job.options.timeout, self.job.runner.engine
        if timeout is not None:
            left = round(timeout * NS) - (engine.time_ns() - self.began_ns)
            self.alarm = engine.call_alarm(max(0, left), self.expire)

    def call(self, run: JobRun) -> Any:
        job = self.job
        kwargs = dict(job.kwargs)
        if job.wanted.cancel:
            kwargs["cancel"] = self.token
        if job.wanted.ctx:
            kwargs["ctx"] = run
        return job.callback(*job.args, **kwargs)

    def fail(self, error: BaseException, run: JobRun | None) -> bool:
        """Tell of an attempt that failed, and retry it or end the tick; whether it will be retried."""
        job, runner = self.job, self.job.runner
        cancelled = isinstance(error, JobCancelled) or (self.token.cancelled and is_cancellation(error))
        if not cancelled:
            runner.owner._report(error, run, job.options)
            self.tell("error", run, error=error, began_ns=self.attempt_began_ns)
        if self.attempts > job.options.max_retries or cancelled or self.is_final():
            self.end(error)
            return False
        self.tell("retry", run, error=error)
        try:
            runner.engine.decide(self.ticket.reference, "retry", self.ticket.scheduled_wall_ns)
            attempts = self.attempts
            wait = runner.wait_of(attempts, job.options.retry_backoff)
            self.calling = False
            # By number: that attempt may have come and failed before this line has its timer.
            self.retries[attempts] = runner.engine.call_later(wait, Retry(self))
        except BaseException as failure:  # no memory for it
            runner.owner._report(failure, run, job.options)
            self.end(error)
            return False
        if self.is_final():  # since a moment ago
            self.drop_retry(error)
        return True

    def is_final(self) -> bool:
        """Whether no retry may follow, because of a removal, a time-out or a shutdown."""
        return self.last or self.over or self.token.cancelled or self.job.runner.closing

    def tell(self, event: EventName, run: JobRun | None, **about: Any) -> None:
        ticket = self.ticket
        self.job.runner.owner._tell(event, ticket.reference, run=run, slot_ns=ticket.scheduled_wall_ns, **about)

    def end(self, error: BaseException | None, run: JobRun | None = None, result: object = None) -> None:
        """End the tick, unless its time has run out; then this was the end of an abandoned call."""
        runner = self.job.runner
        if self.ticket.claim():
            self.over = True
            if self.alarm is not None:
                self.alarm.cancel()
            try:
                if error is not None:
                    runner.owner._set_error(self.ticket.reference, text_of(error))
                else:
                    self.tell("succeeded", run, result=result, began_ns=self.began_ns, outcome="run_count")
            finally:
                try:
                    runner.closed(self)
                finally:
                    self.ticket.finish(error is not None)

    def expire(self) -> None:
        """The tick's time has run out: its instance is free from now on, whatever its call does."""
        runner = self.job.runner
        if not self.ticket.claim():
            return
        self.over = True
        self.token._fire()
        coroutine = self.coroutine
        for retry in list(self.retries.values()):
            retry.cancel()
        timeout = self.job.options.timeout or 0.0
        text = f"TimeoutError: timed out after {timeout:g} s"
        try:
            if self.calling:
                runner.abandoned[self] = self.abandon(text)  # taken now, as a one-shot leaves with this
            runner.owner._set_error(self.ticket.reference, text)
            self.tell("timeout", self.run, began_ns=self.began_ns, outcome="timeout_count", last_error=text)
            runner.engine.decide(self.ticket.reference, "timeout", self.ticket.scheduled_wall_ns)
        finally:  # each of these, though there be no memory for what comes before
            try:
                runner.closed(self)
            finally:
                try:
                    self.ticket.finish(True, True)
                finally:
                    if coroutine is not None:
                        runner.coroutines.cancel(coroutine, TIMED_OUT)
        runner.owner._report_timeout(self.job_id, self.job.name, timeout)
        if not self.calling:  # it ended while this was going on
            runner.abandoned.pop(self, None)

    def abandon(self, text: str) -> JobInfo | None:
        """The job as it will be when this run has been given up; None if it has left."""
        info = self.job.runner.owner._try_info(self.ticket.reference, careful=True)
        if info is None:
            return None
        return replace(
            info,
            running=info.running - 1,
            error_count=info.error_count + 1,
            timeout_count=info.timeout_count + 1,
            last_error=text,
        )

    def cancel(self) -> None:
        """Fire the token and cancel the coroutine; a tick that waits for a retry ends at once."""
        self.token._fire()
        coroutine = self.coroutine
        if coroutine is not None:
            self.job.runner.coroutines.cancel(coroutine, SHUT_DOWN)
        self.drop_retry(JobCancelled("the scheduler was shut down before the retry"))

    def drop_retry(self, error: BaseException) -> None:
        for retry in list(self.retries.values()):
            if retry.cancel():
                self.end(error)
                self.leave()  # no attempt will: a time-out that came before the retry was there took it for abandoned

    def forget_thread(self) -> None:
        """In a child: a call that went on is the parent's; should it be this thread's, it has no consequences."""
        if self.calling:
            self.over = self.last = True
            self.job.runner.closed(self)
            self.ticket.give_back()
