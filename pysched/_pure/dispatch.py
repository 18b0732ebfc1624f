"""`Engine`: the public face of the twin.

Arguments are checked and converted here, before anything changes; what happens is in `core` (timers and
their runs) and in `loop` (start, stop, the wait).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pysched import lifecycle
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
from pysched._pure.handle import new_handle
from pysched._pure.invariants import check_table
from pysched._pure.loop import Loop
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


class Engine:
    """Calls functions at given times: once, or again and again on a grid.

    Args:
        executor: where callbacks run. None: on the loop's own thread, one at a time. An int >= 1: on that
            many threads of the engine's own. A `ThreadPoolExecutor`: on its threads, in batches. Any other
            object with a ``submit``: there, one submit a callback. A user's executor is never shut down.
        clock: a `Clock`; None: the system's monotonic clock. On a ManualClock no thread is started, and
            callbacks run inside its ``advance``.
        name: the name of the loop's thread; the engine's own workers are ``{name}-worker_{i}``.
        on_error: called as ``on_error(exc, handle)`` with what a callback raises, SystemExit and the like
            included, on the thread that ran it. None: it is logged by the logger ``pysched``.

    Raises:
        TypeError, ValueError: an argument is none of these; the message names it.

    Timers may be registered at any time; delays count from the call. Callbacks start in the order of (due,
    submission) and never early. Delays and intervals are seconds; those beyond 292 years are accepted and
    never come. What a callback returns is ignored. Every method may be called from any thread, from
    callbacks and destructors. A started engine stays alive until it is stopped.
    """

    __slots__ = ("__weakref__", "_core", "_loop")

    def __init__(
        self,
        executor: Any = None,
        *,
        clock: Clock | None = None,
        name: str = "pysched",
        on_error: Callable[[BaseException, TimerHandle], object] | None = None,
    ) -> None:
        check_handler(on_error)
        check_executor(executor)
        name = checked_name(name)
        if clock is not None:
            check_clock(clock)
        handler = None
        if on_error is not None:

            def handler(error: BaseException, timer: Timer) -> object:
                return on_error(error, new_handle(core, timer))

        core = self._core = Core(clock or SystemClock(), name, handler)
        self._loop = Loop(core, executor)
        lifecycle.register(self)

    # -- timers -----------------------------------------------------------------------------------------

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, key: Hashable = None
    ) -> TimerHandle:
        """Call ``callback(*args)`` in `delay` seconds (finite and >= 0).

        key: anything hashable; a timer of the engine that has the same key is cancelled. It belongs to the
            timer until the callback starts. None: no key.

        Raises:
            TypeError, ValueError: an argument is wrong; the message names it, and nothing has changed.
            TimerLimitError: too many live timers.

        O(log n).
        """
        delay_in_ns = delay_ns(delay, "delay")
        check_callback(callback)
        key_hash = hash_of(key)
        now = self._core.now()
        return self._register(Timer(min(now + delay_in_ns, NEVER), callback, args, 0, key, key_hash))

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, key: Hashable = None) -> TimerHandle:
        """As `call_later`, at the time `when` of `time`, in seconds; one that is past is taken as now."""
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
        """Call ``callback(*args)`` every `interval` seconds (finite and > 0), first in `delay` seconds.

        delay: finite and >= 0; None: one interval.
        key: as in `call_later`; it belongs to the timer until that is cancelled.

        The slots are call time + delay + k * interval, whatever the callback or the machine do in between.
        A timer never overlaps itself: a slot that comes due while it is queued or running is counted as
        coalesced, not made up for. Of several slots that are due at once, before `start` for instance, only
        the latest runs.

        Raises as `call_later`. O(log n) for the call, and for each slot.
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
        """Call `callback` once for each of `delays`, in as many seconds from now; returns how many they are.

        delays: an array of floats, or any iterable of numbers, each finite and >= 0.
        args: the arguments of each call, a tuple for each delay; None: no arguments.

        All or nothing: with an error nothing is registered. Raises as `call_later`, naming the element, and
        ValueError if `args` and `delays` differ in length. O(k log n), without handles.
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
        """`TimerHandle.cancel` of the timer that has `key`; False if there is none. O(1) amortised.

        Raises:
            TypeError: `key` is not hashable.
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
        """Begin to run what is due, on a daemon thread; nothing happens if the engine runs already.

        After a `stop` that has not ended because of a callback that still runs on the loop's thread, the old
        loop goes on when that returns, and a warning is logged: there are never two.

        Raises:
            RuntimeError: the executor was made before a fork; or the interpreter is ending.
        """
        self._loop.start(self)

    def stop(self, timeout: float | None = None) -> bool:
        """Start nothing any more, and wait for the callbacks in progress, at most `timeout` seconds.

        Returns whether nothing is left running. What was due and had not started keeps its place, and
        `start` goes on with it. From inside a callback, or on the thread of `run`, it does not wait; the
        caller's own callback does not count. In a signal handler it takes no lock and is always safe.

        timeout: finite and >= 0; None: without limit.
        """
        return self._loop.stop(self, timeout_s(timeout))

    def run(self) -> None:
        """Be the loop, on this thread, until `stop` is called.

        Without an executor callbacks run on this thread as well. Ctrl-C ends it at once, also inside a
        callback, if this is the main thread.

        Raises:
            RuntimeError: the engine is not stopped, its clock is a driving one, or as `start`.
            Exception: what the clock or the executor raised, if the engine could not go on because of it.
        """
        self._loop.run(self)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is due, queued or running; timers of the future do not count.

        Returns whether that came about within `timeout` seconds (finite and >= 0; None: without limit). On a
        driving clock it answers at once.

        Raises:
            RuntimeError: inside a callback of this engine.
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

    @property
    def name(self) -> str:
        """The name in logs and of threads, a str that is not empty; threads take the name of the time of the start."""
        return self._core.name

    @name.setter
    def name(self, value: str) -> None:
        self._core.name = checked_name(value)

    @name.deleter
    def name(self) -> None:
        raise AttributeError("name cannot be deleted")

    def __reduce__(self) -> NoReturn:
        # Also what `copy` asks: a copy would be a second owner of one loop.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def time(self) -> float:
        """The engine's clock, in monotonic seconds."""
        return self._core.now() / 1e9

    @property
    def running(self) -> bool:
        """Whether the engine is started and not stopped."""
        session = self._core.session
        return session is not None and not session.stopping

    def __len__(self) -> int:
        """Timers that may still start; a periodic one counts once."""
        return self._core.table.live

    def __bool__(self) -> bool:
        """True; an engine without timers is an engine."""
        return True

    def next_deadline(self) -> float | None:
        """When the earliest timer is due, in `time` seconds; None if there is none. Amortised O(log n)."""
        with self._core.lock:
            due_ns = self._core.table.first_due_ns()
        return None if due_ns is None else due_ns / 1e9

    def stats(self) -> EngineStats:
        """A snapshot of the counters. O(1)."""
        return self._core.stats()

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        return f"<{type(self).__name__} {self._core.name!r} {state}, {len(self)} timers>"

    def _check(self) -> None:
        """Assert every invariant. For tests. O(n)."""
        with self._core.lock:
            check_table(self._core.table)

    # -- what the clock and the interpreter call --------------------------------------------------------

    def _next_due_ns(self) -> int | None:
        with self._core.lock:
            return self._core.table.first_due_ns()

    def _run_next(self, now_ns: int) -> bool:
        return self._loop.run_next(now_ns)

    def _at_exit(self) -> None:
        self._loop.at_exit()

    def _before_fork(self) -> None:
        self._core.lock.acquire()

    def _after_fork_in_parent(self) -> None:
        self._core.lock.release()

    def _after_fork_in_child(self) -> None:
        self._loop.after_fork_in_child(self)
