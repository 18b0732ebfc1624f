"""`Engine`: the public face of the twin.

Arguments are checked and converted here, before anything changes; what happens is in `core` (timers and
their runs) and in `loop` (start, stop, the wait).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched._pure.arguments import (
    check_callback,
    check_clock,
    check_executor,
    check_handler,
    checked_name,
    hash_of,
    items,
    kind,
    timeout_s,
)
from pysched._pure.core import Core
from pysched._pure.dispatcher import Dispatcher
from pysched._pure.handle import new_handle
from pysched._pure.invariants import check_table
from pysched._pure.timers import Timer
from pysched.clock import NEVER, SystemClock, delay_ns, instant_ns, interval_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from types import TracebackType

    from typing_extensions import Self

    from pysched._pure.handle import TimerHandle
    from pysched.clock import Clock
    from pysched.stats import EngineStats

__all__ = ["Engine"]


class Engine(Dispatcher):
    """Calls functions at given times: once, or again and again on a grid.

    `executor`: who runs the callbacks.  None (default): the loop's own thread, one at a time.  An int from 1 to
    1,048,576: a `ThreadPoolExecutor` of that many workers, made and shut down by the engine.  A
    `ThreadPoolExecutor`: yours, never shut down here, used in batches.  Any other object whose `submit` returns a
    `Future`: one `submit` a callback; one that is dropped before its end is an error of that run.  The threads of such
    an executor are not known to the engine: in a callback there, `stop()` would wait for itself, and so would
    `wait_idle()`, which does not raise; call `stop(0)`.

    `daemon`: True: a number of workers are daemon threads of the engine's own, without a pool; the exit of the
    interpreter waits for none of their callbacks.  False (default): Python waits for those of a pool.  Callbacks
    without an executor run on a daemon thread in any case; with an executor of yours it is a ValueError.

    `clock`: a `pysched.Clock`; None (default): the system's, monotonic.  On a `pysched.testing.ManualClock` there
    is no thread and no executor: callbacks run inside its `advance`.

    `name` (default "pysched"): of the loop's thread, and in logs; workers are `{name}-worker_{i}`.

    `on_error`: `on_error(exc, handle)` is called with whatever a callback raised, SystemExit and the like included,
    on the thread that ran it; None (default): an ERROR with traceback on the logger `pysched`.

    `spin`: seconds, finite and >= 0, default 0: so long before a deadline the sleep ends, and the clock is polled
    instead.  That is more exact, and takes CPU time all the while.  Unused with a clock of yours.

    Delays are seconds, and count from the call, whether or not the engine is started; beyond 292 years they are
    accepted and never come.  Callbacks start in the order of (due, submission), never early; what they return is
    ignored, but for a coroutine, which nothing would await: that is an error of the run.  Bad arguments raise
    TypeError or ValueError naming the argument, with nothing changed; `TimerLimitError` is raised at 16,777,215 live
    timers.  All methods are safe in any thread, in callbacks and in destructors.  A started engine stays alive until
    it is stopped; it can be neither copied nor pickled.
    """

    __slots__ = ()

    def __init__(
        self,
        executor: Any = None,
        *,
        daemon: bool = False,
        clock: Clock | None = None,
        name: str = "pysched",
        on_error: Callable[[BaseException, TimerHandle], object] | None = None,
        spin: float = 0,
    ) -> None:
        check_handler(on_error)
        spin_ns = delay_ns(spin, "spin")
        check_executor(executor, daemon)
        name = checked_name(name)
        if clock is not None:
            check_clock(clock)
        handler = None
        if on_error is not None:

            def handler(error: BaseException, timer: Timer) -> object:
                return on_error(error, new_handle(core, timer))

        core = Core(SystemClock() if clock is None else clock, name, handler)
        super().__init__(core, executor, daemon, spin_ns)

    # -- timers -----------------------------------------------------------------------------------------

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, key: Hashable = None
    ) -> TimerHandle:
        """Calls `callback(*args)` once, `delay` seconds (finite and >= 0) from now; 0: after all that is due already.

        `key`: anything hashable, or None (default). The timer that holds the key is cancelled by this one, which
        holds it until its callback starts.

        Keyword arguments go into a `functools.partial`.  Callbacks are plain functions, never `async`: for
        asyncio let `loop.call_soon_threadsafe` be the callback.

        Raises TypeError or ValueError naming the argument, TimerLimitError, and what the clock or the key raises.
        O(1) on average, O(log n) at worst.
        """
        delay_in_ns = delay_ns(delay, "delay")
        check_callback(callback)
        key_hash = hash_of(key)
        now = self._core.now()
        return self._register(Timer(min(now + delay_in_ns, NEVER), callback, args, 0, key, key_hash))

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, key: Hashable = None) -> TimerHandle:
        """Calls `callback(*args)` once, at `when` (finite) in seconds of `time()`; a time in the past is taken as now.

        `key`, errors and cost as with `call_later`.
        """
        when_ns = instant_ns(when, "when")
        check_callback(callback)
        key_hash = hash_of(key)
        now = self._core.now()
        return self._register(Timer(max(now, when_ns), callback, args, 0, key, key_hash))

    def call_every(
        self,
        interval: float,
        callback: Callable[..., object],
        *args: Any,
        delay: float | None = None,
        key: Hashable = None,
    ) -> TimerHandle:
        """Calls `callback(*args)` on a fixed grid: now + `delay` + k x `interval` seconds.

        `interval`: finite and > 0, taken as at least 1 ns.  `delay`: finite and >= 0; None (default): one interval.
        `key`: as with `call_later`, but held until the timer is cancelled.

        A timer never overlaps itself: slots that come due while it is queued or running are coalesced and counted.
        What was missed otherwise, before the start for instance, collapses into one run of the latest slot.

        Errors as with `call_later`; O(log n) for the call and for each slot.
        """
        period_ns = interval_ns(interval, "interval")
        delay_in_ns = period_ns if delay is None else delay_ns(delay, "delay")
        check_callback(callback)
        key_hash = hash_of(key)
        now = self._core.now()
        return self._register(Timer(min(now + delay_in_ns, NEVER), callback, args, period_ns, key, key_hash))

    def call_many(
        self,
        delays: Iterable[float],
        callback: Callable[..., object],
        args: Iterable[tuple[Any, ...]] | None = None,
    ) -> int:
        """Calls `callback(*args[i])` once, `delays[i]` seconds from now, for each i; returns how many there are.

        `delays`: a buffer of float64 (array, NumPy) of one dimension, or any iterable of numbers, each finite and
        >= 0. `args`: an iterable of as many tuples; None (default): no arguments.

        All or nothing, without handles and keys.  Errors as with `call_later`, naming the element, as in
        `delays[3]`; ValueError if `delays` and `args` differ in length.  O(1) a timer on average.
        """
        check_callback(callback)
        seconds = items(delays, "delays", "a buffer of float64 or an iterable of numbers")
        delays_in_ns = [delay_ns(delay, f"delays[{i}]") for i, delay in enumerate(seconds)]
        count = len(delays_in_ns)
        tuples: list[tuple[Any, ...]] = [()] * count
        if args is not None:
            tuples = items(args, "args", "an iterable of tuples")
            if len(tuples) != count:
                raise ValueError(f"args must hold one tuple for each delay: {count}, got {len(tuples)}")
            for i, arguments in enumerate(tuples):
                if not isinstance(arguments, tuple):
                    raise TypeError(f"args[{i}] must be a tuple, got {kind(arguments)}")
        now = self._core.now()
        timers = [
            Timer(min(now + delay_in_ns, NEVER), callback, arguments)
            for delay_in_ns, arguments in zip(delays_in_ns, tuples, strict=True)
        ]
        self._core.register_many(timers)
        return len(timers)

    def cancel_key(self, key: Hashable) -> bool:
        """Cancels the timer that holds `key`, as `TimerHandle.cancel` does; False if none does.

        Raises TypeError for a key that is not hashable.  O(1) amortised.
        """
        key_hash = hash_of(key)
        if key is None:
            return False
        while True:
            _, timer = self._core.table.keys.find(key, key_hash)
            if timer is None:
                return False
            if self._core.cancel(timer):
                return True
            # It ended while keys were compared; the key may have gone to another timer.

    def _register(self, timer: Timer) -> TimerHandle:
        handle = new_handle(self._core, timer)
        self._core.register(timer)
        return handle

    # -- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the loop on a daemon thread of its own; nothing if it runs already.

        After a `stop` that a running callback has outlived, the old loop goes on, with a warning, unless it has left
        already: there are never two.

        Raises RuntimeError if the executor was made before a fork, if there can be no new thread, or while the
        interpreter ends; then the engine is stopped, as it is if a signal handler raises meanwhile.
        """
        self._loop.start(self)

    def stop(self, timeout: float | None = None) -> bool:
        """Stops the engine: no callback starts any more, what is queued keeps its place for the next start.

        Waits at most `timeout` seconds (finite and >= 0; None, the default: without limit) for callbacks that run,
        and returns whether none is left.  Inside a callback, or in a signal handler on the thread of `run()`, it
        signals and returns; the caller's own callback does not count.

        Raises TypeError or ValueError for a bad `timeout`, with nothing stopped.
        """
        return self._loop.stop(self, timeout_s(timeout))

    def run(self) -> None:
        """Runs the loop on this thread until `stop()`; without an executor callbacks run here too.

        On the main thread Ctrl-C ends it at once; without an executor a KeyboardInterrupt that leaves a callback or
        `on_error` does.

        Raises that KeyboardInterrupt, and whatever else a signal handler raises outside of a callback; RuntimeError
        if the engine is running, if a `ManualClock` drives it, and as `start` does; and what ended the loop, if the
        clock or the executor failed.  Afterwards the engine is stopped, and nothing that waits is lost.
        """
        self._loop.run(self)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Waits until nothing is due, queued or running: True, or False after `timeout` seconds.

        `timeout`: finite and >= 0; None (default): without limit.  Future timers do not count.  What is due on an
        engine that is not started waits until somebody starts it, and so does this.  On a `ManualClock` it answers
        at once.

        Raises RuntimeError on a thread of the engine, inside a callback for instance (see `executor` for callbacks
        where it does not); TypeError or ValueError for a bad `timeout`.
        """
        return self._loop.wait_idle(timeout_s(timeout))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- views ------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of the engine's clock: monotonic, of no particular origin."""
        return self._core.now() / 1e9

    def __len__(self) -> int:
        """Timers that may still start, each periodic one once.  O(1)."""
        return self._core.table.live

    def __bool__(self) -> bool:
        """True; an engine without timers is an engine."""
        return True

    def next_deadline(self) -> float | None:
        """When the earliest timer is due, in seconds of `time()`; None if none ever is.  O(log n) amortised."""
        with self._core.lock:
            due_ns = self._core.table.first_due_ns()
        return None if due_ns is None else due_ns / 1e9

    def stats(self) -> EngineStats:
        """An `EngineStats` of one instant: counts since the engine was made, lateness in seconds.  O(1)."""
        return self._core.stats()

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        return f"<{type(self).__name__} {self._core.name!r} {state}, {len(self)} timers>"

    def _check(self) -> None:
        """Assert every invariant. For tests. O(n)."""
        with self._core.lock:
            check_table(self._core.table)
