"""`Scheduler`: jobs at intervals, by cron, once; and `CommandScheduler`, under the reference's name of this module.

How jobs are registered stands in `registry`, how a scheduler lives in `life`, what its parts tell each other in
`owner`; here is what a user does with jobs: listen, change, look.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

from pysched import lifecycle
from pysched.clock import NEVER
from pysched.commands import ScheduledCommand
from pysched.current import introduce
from pysched.engine import CommandScheduler
from pysched.events import MOST as MOST_EVENTS
from pysched.explanations import decisions_of
from pysched.job import JobInfo, JobOptions
from pysched.life import Life
from pysched.options import check_count, check_defaults, check_handler, wall_ns_of
from pysched.runner import JobRun, ManagedJob
from pysched.schedule import parse_duration
from pysched.table import MOST_ROWS, job_table
from pysched.text import shown
from pysched.trigger import After, At, Cron, Every, Trigger
from pysched.zones import parse_zone

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from datetime import datetime, tzinfo

    from pysched.clock import Clock
    from pysched.engine import Snapshot
    from pysched.events import EventName, JobEvent
    from pysched.explanations import Decision
    from pysched.options import Duration
    from pysched.stats import EngineStats

__all__ = ["CommandScheduler", "ScheduledCommand", "Scheduler"]

MOST_EXPLAINED = 10_000


class Scheduler(Life):
    """Runs jobs at intervals (`every`), by cron expressions (`cron`) and once (`after`, `at`), on a pool of workers.

    Parameters
    ----------
    max_workers
        How many callbacks run at once: the threads of a pool of the scheduler's own; default 4.
    executor
        A `concurrent.futures` executor of yours instead, which is never shut down here.
    daemon
        True: the workers are daemon threads of the scheduler's own, without a pool, and the exit of the interpreter
        waits for no callback of theirs. Default False: Python waits, as for any pool. Not with an `executor`.
    clock
        A `pysched.Clock`; default: the system's. On a `pysched.testing.ManualClock` nothing runs but in `advance`.
    loop
        The event loop that coroutines of jobs run on. Default: the one in which ``async with`` started the scheduler,
        else one on a thread of its own, ``{name}-asyncio``. Unused on a `ManualClock`, which has its own.
    timezone
        Of cron jobs and of the times shown; a name or a `tzinfo`, default: the system's zone.
    on_error
        `on_error(exc, run)` is called with what a callback raised and its `JobRun`, once per failed attempt, instead
        of the log with its traceback. A job's own goes first.
    defaults
        Options for jobs that are not given them, a mapping: ``{"max_retries": 3, "jitter": "1s"}``. Of each kind of
        job those that it takes; `id`, `name`, `args`, `kwargs`, `replace`, `start_at` and `until` cannot be among them.
    explain
        How many decisions are kept of each job for `explain`; default 16, 0: none.
    name
        Of the loop's thread; workers are ``{name}-worker_{i}``.

    Jobs may be registered, changed and looked at from any thread, also from their callbacks, before and after the
    start. Bad arguments raise TypeError or ValueError naming the argument, with nothing changed.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        executor: Executor | None = None,
        daemon: bool = False,
        clock: Clock | None = None,
        timezone: str | tzinfo | None = None,
        loop: AbstractEventLoop | None = None,
        on_error: Callable[[BaseException, JobRun], object] | None = None,
        name: str = "pysched",
        defaults: Mapping[str, Any] | None = None,
        explain: int = 16,
    ) -> None:
        if max_workers is not None and executor is not None:
            raise ValueError("max_workers and executor exclude each other")
        workers = 4 if max_workers is None else max_workers
        if isinstance(workers, bool) or not isinstance(workers, int):
            raise TypeError(f"max_workers must be an int, got {type(workers).__name__}")
        if not 1 <= workers <= 1 << 20:
            raise ValueError(f"max_workers must be from 1 to {1 << 20}, got {shown(workers)}")
        if executor is not None and (
            isinstance(executor, (int, type)) or not callable(getattr(executor, "submit", None))
        ):
            raise TypeError(f"executor must be an Executor, got {type(executor).__name__}")
        check_handler(on_error)
        check_count(explain, "explain", least=0, most=MOST_EXPLAINED)
        checked = check_defaults(defaults)
        if loop is not None and not callable(getattr(loop, "call_soon_threadsafe", None)):
            raise TypeError(f"loop must be an event loop, got {type(loop).__name__}")
        super().__init__(
            workers if executor is None else executor,
            daemon,
            clock,
            name,
            parse_zone(timezone),
            loop,
            on_error,
            checked,
        )
        self._workers = workers if executor is None else None
        self._engine.explain(explain)
        self._observing = False
        self._listening = RLock()  # guards what the engine is asked to tell
        lifecycle.register(self)
        introduce(self._owner)

    def on(self, event: EventName, fn: Callable[[JobEvent], object]) -> Callable[[], object]:
        """Have `fn` called with a `JobEvent` whenever that happens; returns a function that ends it.

        `event`: "added", "removed", "started", "succeeded", "error", "retry", "timeout", "missed", "coalesced",
        "paused", "resumed" or "dropped", see `EventName`. Listeners are called on a thread of their own,
        ``{name}-events``, in order for each job; what they raise is logged. At most 10,000 events wait, then the
        oldest are dropped.

        Raises ValueError for another event, TypeError for a `fn` that cannot be called.
        """
        remove = self._events.add(event, fn)
        self._listen()

        def ends() -> None:
            remove()
            self._listen()

        return ends

    def _listen(self) -> None:
        """Have the engine tell what listeners want to know, and no more: the rest costs nothing."""
        wants = self._events.wants_any
        with self._listening:
            self._engine.watch(wants("started", "succeeded", "error"))
            told = wants("missed", "coalesced", "dropped", "removed")
            if told != self._observing:
                self._observing = told
                self._engine.observe(MOST_EVENTS if told else 0)

    # -- control --

    def remove_job(self, id: str) -> bool:
        """Remove a job: True if that prevented a run that would have come. KeyError for an unknown id. O(1).

        A run in progress goes on, its token does not fire; retries that wait are dropped.
        """
        prevented = self._owner.remove(self._book.reference_of(id))
        if prevented is None:
            raise KeyError(id)
        return prevented

    def remove_all_jobs(self, tag: str | None = None) -> int:
        """Remove all jobs, or those with the tag; returns how many there were. O(n)."""
        return sum(self._owner.remove(snapshot.reference) is not None for snapshot in self._tagged(tag))

    def pause_job(self, id: str) -> None:
        """Let the job's slots pass by (`paused_count`); runs in progress go on. KeyError for an unknown id."""
        reference = self._book.reference_of(id)
        if not self._engine.pause(reference):
            raise KeyError(id)
        self._owner.announce("paused", reference)

    def resume_job(self, id: str) -> None:
        """Wait for the job's next slot on its old grid; a one-shot whose time has passed runs at once.

        KeyError for an unknown id.
        """
        reference = self._book.reference_of(id)
        if not self._engine.resume(reference):
            raise KeyError(id)
        self._owner.announce("resumed", reference)

    def run_job(self, id: str) -> bool:
        """Run the job now, besides its slots, paused or not: False if `max_instances` runs are busy.

        Raises KeyError for an unknown id, RuntimeError if the scheduler is not running.
        """
        reference = self._book.reference_of(id)
        started: bool | None = self._engine.run_job(reference)
        if started is None:
            raise KeyError(id)
        return started

    def reschedule_job(
        self,
        id: str,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        after: Duration | None = None,
        at: datetime | None = None,
        timezone: str | tzinfo | None = None,
        start_at: datetime | None = None,
    ) -> None:
        """Give the job a new grid from now on, by exactly one of `every`, `cron`, `after` and `at`.

        Id, options (of a cron job `timezone`, `seconds` and `hashed` too), counters and pause stay; a queued run is
        dropped, one in progress goes on. A job that is to come once has no jitter. KeyError for an unknown id;
        ValueError if the new grid does not go with the job's `until` or `jitter`.
        """
        reference = self._book.reference_of(id)
        if sum(each is not None for each in (every, cron, after, at)) != 1:
            raise ValueError("exactly one of every, cron, after and at must be given")
        if timezone is not None and cron is None:
            raise ValueError("timezone goes with cron only")
        if start_at is not None and every is None and cron is None:
            raise ValueError("start_at goes with every and cron only")
        snapshot = self._engine.snapshot(reference)
        if snapshot is None:
            raise KeyError(id)
        trigger: Trigger
        if every is not None:
            trigger = Every(parse_duration(every, "every"))
        elif cron is not None:
            trigger = self._cron_like(snapshot, cron, None if timezone is None else parse_zone(timezone))
        elif after is not None:
            trigger = After(parse_duration(after, "after", zero=True))
        elif at is not None:
            trigger = At(at, "at")
        record = self._book.options.get(reference)
        if trigger.period and record is not None and max(record.jitter, record.spread) >= trigger.period:
            raise ValueError(f"every must be longer than the job's jitter and spread, got {shown(every)}")
        start_ns = None if start_at is None else wall_ns_of(start_at, "start_at")
        end_ns = None if snapshot.until == NEVER else snapshot.until
        slot, _ = self._slots(trigger, {"start_at": start_ns, "until": end_ns})
        begin_ns = trigger.begin(start_ns)
        if record is None and trigger.text is not None:  # beforehand: afterwards nothing may fail
            record = self._book.options[reference] = JobOptions()
        if not self._engine.reschedule(reference, trigger.period, trigger.schedule, slot, trigger.wall, begin_ns):
            self._book.forget(reference)
            raise KeyError(id)
        if record is not None:
            record.schedule = trigger.text
            record.zone = trigger.zone
        if type(snapshot.callback) is ManagedJob:
            snapshot.callback.zone = trigger.zone or self._zone
        if not self._engine.has(reference):
            self._owner._job_left(reference)

    def _cron_like(self, snapshot: Snapshot, expression: str, zone: tzinfo | None) -> Cron:
        """The trigger of a job that had another one before, with the options of that."""
        seconds, hashed = False, None
        if snapshot.schedule is not None:
            label = snapshot.schedule.label
            seconds, hashed = label.seconds, label.hashed
            zone = zone or label.zone
        zone = zone or self._zone
        return Cron(self._schedules.get(expression, seconds, hashed, zone, "cron"), zone)

    def pause(self) -> None:
        """Let the slots of all jobs pass by; apart from the pauses of single jobs."""
        self._engine.pause_all()
        self._owner.announce("paused", 0)

    def resume(self) -> None:
        """End `pause`."""
        self._engine.resume_all()
        self._owner.announce("resumed", 0)

    # -- looking --

    def get_job(self, id: str) -> JobInfo:
        """The job at this instant. KeyError for an unknown id. O(1)."""
        info = self._owner._try_info(self._book.reference_of(id))
        if info is None:
            raise KeyError(id)
        return info

    def list_jobs(self, tag: str | None = None) -> list[dict[str, Any]]:
        """All jobs, or those with the tag, in order of registration, as dicts of what `JobInfo` has.

        Times are strings of whole Unix seconds, as rust-py-scheduler has them. O(n log n).
        """
        return self._view.as_dicts(self._tagged(tag))

    def next_runs(self, id: str, n: int) -> list[datetime]:
        """The job's next `n` slots, without jitter, aware, in its zone; none while it is paused by `pause_job`.

        KeyError for an unknown id.
        """
        check_count(n, "n", least=0, most=10**6)
        snapshot = self._engine.snapshot(self._book.reference_of(id))
        if snapshot is None:
            raise KeyError(id)
        return self._view.next_runs(snapshot, n)

    def explain(self, id: str) -> list[Decision]:
        """The latest decisions about the job, the oldest first; KeyError for an unknown id. See `Decision`."""
        reference = self._book.reference_of(id)
        notes, snapshot = self._engine.decisions(reference), self._engine.snapshot(reference)
        if notes is None or snapshot is None:
            raise KeyError(id)
        return decisions_of(notes, self._view.zone_of(snapshot))

    def stats(self) -> EngineStats:
        """Counters of runs, and the lateness of their starts; `pending` counts jobs. See `EngineStats`."""
        counted: EngineStats = self._engine.stats()
        running = counted.running + len(self._runner.coroutines.calls)
        return counted._replace(pending=len(self._engine), running=running, abandoned=len(self._runner.abandoned))

    def is_healthy(self) -> bool:
        """Whether it runs, and calls that were given up after their time-out do not occupy all its workers."""
        if not self.running or self._workers is None:
            return self.running
        return sum(run.coroutine is None for run in list(self._runner.abandoned)) < self._workers

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._engine)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Scheduler can be neither copied nor pickled")

    def __repr__(self) -> str:
        return f"<Scheduler {self.name!r} {self._state()}, {len(self)} jobs>"

    def __str__(self) -> str:
        """A table of the first 50 jobs, about 120 columns wide, for people: its form may change. O(n log n)."""
        snapshots = self._tagged(None)
        workers = "an executor of yours" if self._workers is None else f"{self._workers} workers"
        head = f"{self.name}: {self._state()}, {len(snapshots)} jobs, {workers}"
        infos = [self._view.as_info(each, careful=True) for each in snapshots[:MOST_ROWS]]
        return job_table(head, infos, len(snapshots), paused=self._engine.all_paused)

    def _state(self) -> str:
        if self._closed:
            return "shut down"
        paused = self._engine.all_paused
        if self.running:
            return "paused" if paused else "running"
        return "not running, paused" if paused else "not running"

    def _check(self) -> None:
        self._engine._check()
        self._book.check()

    def _tagged(self, tag: str | None) -> list[Snapshot]:
        """Of all jobs, or those with the tag, in order of registration."""
        if tag is not None and not isinstance(tag, str):
            raise TypeError(f"tag must be a str, got {type(tag).__name__}")
        found: list[Snapshot] = self._engine.snapshots()
        if tag is not None:
            plain = str.__str__(tag)
            found = [each for each in found if plain in self._book.options_of(each.reference).tags]
        return found
