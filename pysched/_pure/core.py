"""The core of an engine: what its public face, its handles, its loop and its workers share.

Ground rules. `lock` guards `table`, the counters and the histogram, `Session.sleeps_until_ns` and the end of a
session. It is held for a few assignments at a time (see `table`); no callback, no clock, no executor, no
comparison of keys and no release of a user's reference happens under it. Who waits, in the loop or for
something that runs, is told under it *before* the change, and looks under it: what a signal handler or the
recursion limit raises in between can then take no wake-up with it. It is re-entrant because
destructors and signal handlers come in on a thread that may hold it. No loop stands in the body of a ``with``
itself: CPython 3.12 and 3.13 do not count its backward jump as part of the body, and a Ctrl-C that comes
there would leave the lock taken.
"""

from __future__ import annotations

from _thread import RLock, get_ident
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pysched._pure.lateness import LatenessHistogram
from pysched._pure.table import TimerTable
from pysched.awaitables import refusal_of
from pysched.clock import NEVER
from pysched.errors import TimerLimitError
from pysched.reports import call_handler, log_error
from pysched.stats import EngineStats
from pysched.waiting import Waiters, WakeEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched._pure.handoff import HandOff
    from pysched._pure.timers import Run, Taken, Timer
    from pysched.clock import Clock

__all__ = ["Core", "Session"]

MAX_TIMERS = 2**24 - 1  # as the compiled engine, whose heap numbers its slots with 24 bits


class Session:
    """From one start to the end of the loop that it began.

    `stopping` is the mark of ``stop``: set by anybody, without the lock, and taken back by ``start`` as long
    as the session has not `ended`, which the loop decides under the lock. Nothing starts in either case.
    """

    __slots__ = (
        "awaited",
        "closed",
        "ended",
        "failure",
        "hand_off",
        "interruptible",
        "sleeps_until_ns",
        "started_ns",
        "stopping",
        "wake",
    )

    def __init__(self, started_ns: int) -> None:
        self.started_ns = started_ns
        self.stopping = False
        self.ended = False
        self.closed = False  # has ended, and its own pool is shut down
        self.failure: BaseException | None = None  # an internal one, for the loop to raise
        self.hand_off: HandOff | None = None  # to be closed at its end
        self.awaited = False  # run() waits for the loop's thread, and raises what ended it
        self.interruptible = False  # loop and callbacks are on the main thread: Ctrl-C may leave them
        self.sleeps_until_ns = -NEVER  # while the loop sleeps, or is about to: an earlier timer must wake it
        self.wake = WakeEvent()

    def stop(self) -> None:
        """Mark and wake. Takes no lock: this is what a signal handler does."""
        self.stopping = True
        self.wake.set()

    def fail(self, failure: BaseException) -> None:
        """End the session because the engine cannot go on; the loop will raise `failure`."""
        self.failure = failure
        self.stop()


class Core:
    def __init__(self, clock: Clock, name: str, on_error: Callable[[BaseException, Timer], object] | None) -> None:
        self.clock = clock
        self.name = name
        self.on_error = on_error
        self.lock = RLock()
        self.closed = False  # whether it starts no more: what is due never comes
        self.table = TimerTable()
        self.lateness = LatenessHistogram()
        self.wakeups = 0
        self.waiters = Waiters()
        self.session: Session | None = None  # None: stopped
        self.insiders: set[int] = set()  # threads that are the loop, a drain, or advance a driving clock

    def now(self) -> int:
        """The clock; raises what it raises, and TypeError if it gives no int."""
        now = self.clock.time_ns()
        if not isinstance(now, int):
            raise TypeError(f"clock.time_ns() must return an int, got {type(now).__name__}")
        return now

    def look(self) -> int:
        """The time, for who is about to start what is due."""
        return self.now()

    # -- timers -----------------------------------------------------------------------------------------

    def register(self, timer: Timer) -> None:
        """Add a timer; one that holds its key ends. O(log n)."""
        old = None
        if timer.key is None:
            with self.lock:
                self._check_room(1)
                self._wake_for(timer)
                self.table.add(timer)
        else:
            added = False
            while not added:
                bucket, old = self.table.keys.find(timer.key, timer.key_hash)
                with self.lock:
                    self._check_room(0 if old is not None else 1)
                    self._wake_for(timer)
                    if old is not None:
                        self.announce()
                    added = self.table.add_keyed(timer, bucket, old)
        if old is not None:
            old.release()

    def register_many(self, timers: list[Timer]) -> None:
        """Add timers without keys, all or none. O(k log n)."""
        if not timers:
            return
        first = min(timers, key=lambda timer: timer.due_ns)
        with self.lock:
            self._check_room(len(timers))
            self._wake_for(first)
            self.table.add_many(timers)

    def cancel(self, timer: Timer) -> bool:
        """End a timer; False if nothing of it was to come. O(1) amortised."""
        with self.lock:
            if timer.live:
                self.announce()
            cancelled = self.table.cancel(timer)
        if cancelled:
            timer.release()
        return cancelled

    def _check_room(self, count: int) -> None:
        if self.table.live + count > MAX_TIMERS:
            raise TimerLimitError(f"an engine holds at most {MAX_TIMERS:,} timers")

    def _wake_for(self, timer: Timer) -> None:
        """Wake the loop if it sleeps past this timer, which is about to be added. Under the lock."""
        session = self.session
        if session is not None and timer.due_ns < session.sleeps_until_ns:
            session.wake.set()
            session.sleeps_until_ns = -NEVER

    # -- runs -------------------------------------------------------------------------------------------

    def start_next(self, session: Session, now_ns: int, thread: int) -> Run | None:
        """Start the first queued run, unless the session stops; `now_ns` is the time. Under the lock."""
        if session.stopping or session.ended:
            return None
        run = self.table.start_next(thread, now_ns)
        if run is not None:
            run.late_ns = now_ns - max(run.due_ns, session.started_ns)
            self.lateness.add(run.late_ns)
            run.measured = True
        return run

    def start_due(self, session: Session, now_ns: int, thread: int) -> Run | None:
        """Start the earliest run that is due at or before `now_ns`, if there is one: queued ones first."""
        with self.lock:
            if session.stopping or session.ended:
                return None
            run = self.start_next(session, now_ns, thread)
            if run is None and self.table.promote(now_ns):
                run = self.start_next(session, now_ns, thread)
            return run

    def execute(self, run: Run, session: Session) -> None:
        """Call a started callback and see to its end. Raises only KeyboardInterrupt, or what the clock raises.

        Callback, arguments and error live in the frame of `_call`: all are gone when the run ends.
        """
        try:
            self.settle()  # what was decided before is told before
            self._call(run, session)
        finally:
            if run.callback is None:
                self.end(run)
            else:
                self.give_back(run, run.take())

    def _call(self, run: Run, session: Session) -> None:
        callback, args, _key = run.callback, run.args, run.key
        assert callback is not None
        # Called in C, up to the storing of the result: what a signal handler raises when the callback has returned
        # comes out of a later line, and so out of `run`, instead of being taken for the callback's own.
        outcome: defaultdict[int, object] = defaultdict(partial(callback, *args))
        # straight: what still holds its callback when a handler has raised was not called, and is given back
        run.callback, run.args, run.key = None, (), None
        try:
            _ = outcome[0]
        except BaseException as error:
            self._tell(run, session, error)
        else:
            refused = refusal_of(outcome.pop(0))
            try:
                if refused is not None:
                    self._tell(run, session, refused)
            finally:
                del refused  # as `error` is: it may hold this frame

    def _tell(self, run: Run, session: Session, error: BaseException) -> None:
        """Report the error of a run; a Ctrl-C, where it may, comes out instead."""
        if session.interruptible and isinstance(error, KeyboardInterrupt):
            run.failed = True
            try:
                raise error
            finally:
                del error
        failure = self.fail(run, error)
        try:
            if session.interruptible and isinstance(failure, KeyboardInterrupt):
                raise failure from error  # Ctrl-C, while the handler was at work, or the log
        finally:
            del failure  # its context holds this frame

    def end(self, run: Run, dropped: bool = False) -> None:
        """A run is over, or was `dropped` by an executor: its timer may run again, and who waits is told."""
        end_ns = None
        try:
            if run.timer.period_ns:
                end_ns = self.now()
        finally:
            with self.lock:
                self.announce()
                if self.table.end(run, end_ns, dropped) and dropped:
                    self.lateness.remove(run.late_ns)

    def end_interrupted(self) -> None:
        """End what this thread is no longer in: a handler may raise right after a callback, or before it is called."""
        thread = get_ident()
        for run in list(self.table.runs.values()):
            if run.thread == thread and run.callback is not None:
                self.give_back(run, (run.callback, run.args, run.key))
        with self.lock:
            self.announce()
            self.table.end_all_of(thread)

    def give_back(self, run: Run, taken: Taken) -> None:
        """Undo the start of a run that was not called, `taken` from it or not: it is due again. Idempotent."""
        callback, args, key = taken
        bucket: tuple[Timer, ...] = ()
        holder: Timer | None = None
        given_back = False
        while not given_back:
            if key is not None:
                try:
                    bucket, holder = self.table.keys.find(key, run.timer.key_hash)
                except BaseException as error:  # the timer matters more than its key
                    key, holder = None, None
                    log_error(f"{self.name}: a key can be compared no longer; its timer goes on without it", error)
            with self.lock:
                known = run.order in self.table.runs
                given_back = self.table.revive(run, (callback, args, key), bucket, holder)
                if given_back and known and run.measured:
                    self.lateness.remove(run.late_ns)

    def fail(self, run: Run, error: BaseException) -> BaseException | None:
        """A run has failed. Returns what `report` does."""
        run.failed = True
        return self.report(error, run.timer)

    def call_of(self, run: Run, taken: Taken) -> tuple[Any, ...]:  # noqa: ARG002
        """`(callable, *arguments)`, for an executor: not a wrapper, as it may have to be pickled."""
        return (taken[0], *taken[1])

    def omission_of(self, run: Run) -> Exception | None:  # noqa: ARG002
        """The error of an executor that says that it has called what `call_of` made, if that is known not to be so."""
        return None

    def kept_of(self, run: Run, taken: Taken) -> Any:  # noqa: ARG002
        """What is needed of a run until the executor is done with it: for `dismiss`."""
        return None

    def dismiss(self, kept: Any) -> None:
        """An executor is done with what `kept_of` gave, in whichever way."""

    def take_result(self, run: Run, result: object) -> None:
        """What an executor says that a callback has returned: nobody would await it."""
        refused = refusal_of(result)
        if refused is not None:
            self.fail(run, refused)

    def report(self, error: BaseException, timer: Timer) -> BaseException | None:
        """Hand an error of a callback to the user's handler, or log it. Never raises.

        Returns what the handler raised, which is logged, or what the log raised, which is told; or None.
        """
        if self.on_error is not None:
            return call_handler(self.on_error, error, timer, self.name)
        return log_error(f"{self.name}: a callback raised an exception", error)

    def run_alarms(self, session: Session, now_ns: int) -> None:
        """Run what is due and must not wait for a worker, on this thread; there is none among timers."""

    def settle(self) -> None:
        """Tell of what has changed while the lock was held; nothing among timers has to be told."""

    # -- sessions ---------------------------------------------------------------------------------------

    def begin(self, session: Session) -> bool:
        """Let `session` be the one that goes on, if there is no other; whether it is. Under the lock."""
        if self.session is not None:
            return False
        # straight:
        self.session = session
        return True

    def go_on(self) -> None:
        """A stop was taken back. Nothing held."""

    def longest_wait_ns(self) -> int:
        """How long the loop may sleep at most; NEVER: as long as nothing is due."""
        return NEVER

    def note_busy(self, session: Session, full: bool) -> None:
        """Whether all workers of a session are inside of callbacks, or not. Under the lock."""

    # -- state ------------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Let those who wait look again, at a change that may be what they wait for: under the lock, and before it."""
        if self.waiters:
            self.waiters.notify()

    def enter(self) -> bool:
        """Make this thread an insider; whether it was none. Every ``enter`` needs its `leave`."""
        thread = get_ident()
        entered = thread not in self.insiders
        self.insiders.add(thread)
        return entered

    def leave(self, entered: bool) -> None:
        if entered:
            self.insiders.discard(get_ident())

    def is_inside(self) -> bool:
        """Whether this is a thread that the engine itself runs on."""
        return get_ident() in self.insiders

    def must_not_wait(self) -> bool:
        """Whether to wait for the engine here is to wait for oneself.

        Besides the insiders that is a signal handler or a destructor that came in while this thread
        held the lock.
        """
        return self.is_inside() or self.lock._is_owned()  # type: ignore[attr-defined]

    def others_running(self) -> int:
        """Callbacks in progress, without the one that this thread is in."""
        thread = get_ident()
        return sum(run.thread != thread for run in list(self.table.runs.values()))

    def is_idle(self) -> bool:
        """Whether nothing is due (unless it is closed), queued or running."""
        now = self.now()
        with self.lock:
            table = self.table
            due = table.first_due_ns()
            return not table.runs and not table.ready and (due is None or due > now or self.closed)

    def stats(self) -> EngineStats:
        with self.lock:
            table = self.table
            return EngineStats(
                scheduled=table.scheduled,
                started=table.started,
                cancelled=table.cancelled,
                coalesced=table.coalesced,
                errors=table.errors,
                wakeups=self.wakeups,
                ready=len(table.ready),
                running=len(table.runs),
                pending=table.live,
                dropped=table.dropped,
                abandoned=0,
                lateness=self.lateness.snapshot(),
            )
