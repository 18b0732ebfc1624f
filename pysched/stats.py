"""What ``Engine.stats()`` returns: plain tuples with names, a snapshot that holds no engine alive."""

from typing import NamedTuple

__all__ = ["EngineStats", "Lateness"]


class Lateness(NamedTuple):
    """How late callbacks started, in seconds: start of the run minus the later of due time and ``start()``.

    The percentiles are the upper edges of logarithmic buckets (16 an octave, so at most 1/16 too
    high, and never above ``max``, which is exact). All are 0.0 while nothing has run.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, as a field of this name must
    p50: float
    p99: float
    p999: float
    max: float


class EngineStats(NamedTuple):
    """Counters since the engine was made, and the state at the time of the call.

    scheduled: timers registered (a periodic timer once).
    started: callbacks started.
    cancelled: timers cancelled before a run that would have come, replaced keys included.
    coalesced: slots of periodic timers that passed without a run of their own.
    errors: callbacks that raised.
    wakeups: times the loop, or a daemon worker that waits for a deadline, returned from a wait.
    ready: runs that are due and wait for a worker.
    running: callbacks in progress.
    pending: timers that may still start, ``len(engine)``.
    dropped: callbacks that were given to an executor and never ran, because it cancelled their futures; they are not
        among those started. Only executors that are no ThreadPoolExecutor do that. Of a `Scheduler` also runs that
        a shutdown found waiting; the one-shots among them stay listed, and so pending.
    abandoned: callbacks that were given up while they still run. An `Engine` gives none up, so this is 0; the field is
        there for schedulers with time-outs.
    lateness: see `Lateness`.
    """

    scheduled: int
    started: int
    cancelled: int
    coalesced: int
    errors: int
    wakeups: int
    ready: int
    running: int
    pending: int
    dropped: int
    abandoned: int
    lateness: Lateness
