"""Commands on the twin's engine: keys, fixed delays, errors.

Ground rules. The lock is that of the lanes, with the rules that stand there. A timer is armed before its turn
takes the lane, so that a failure to arm it changes nothing. A turn that comes due before it has taken its lane
is early, and armed again.
"""

from __future__ import annotations

from _thread import get_ident
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

from pysched import lifecycle
from pysched._pure.arguments import MAX_WORKERS, check_handler, checked_name, hash_of, kind
from pysched._pure.dispatch import Engine
from pysched._pure.lanes import Lanes, Turn
from pysched._pure.timers import Timer
from pysched.attributes import attribute_or_none
from pysched.awaitables import is_async_function, refusal_of
from pysched.clock import delay_ns, interval_ns
from pysched.reports import call_handler, log_error
from pysched.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pysched._pure.handle import TimerHandle
    from pysched._pure.lanes import Executable
    from pysched.clock import Clock

__all__ = ["CommandScheduler"]


class _Engine(Engine):
    """The engine of a CommandScheduler, which it keeps alive as long as the loop keeps it alive itself."""

    def __init__(self, core: _Core, max_workers: int, clock: Clock | None, name: str) -> None:
        super().__init__(None if max_workers == 1 else max_workers, clock=clock, name=name)
        self._loop.thread_suffix = "_t"
        self._owner = core

    def call_anew(self, handle: TimerHandle, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call later what could not be done when it was due: it keeps its due time, so nothing passes it."""
        return self._register(Timer(handle._timer.due_ns, callback, args))


class _Core:
    """What a CommandScheduler does, apart from its public face."""

    def __init__(
        self,
        scheduler: CommandScheduler,
        on_error: Callable[[BaseException, Any], object] | None,
        name: str,
        clock: Clock | None,
        max_workers: int,
    ) -> None:
        self.scheduler = scheduler
        self.on_error = on_error
        self.lanes = Lanes()
        self.engine = _Engine(self, max_workers, clock, name)
        self.running: dict[Turn, int] = {}  # the thread of each command that runs
        lifecycle.register(self)  # after the engine, so that a forked child finds that in order

    def submit(self, command: Executable, delay_s: float, key: Hashable, key_hash: int, repeats: bool) -> None:
        if key is None:
            self.arm(Turn(command, None, repeats), delay_s)
            return
        lane = self.lanes.pin(key, key_hash)
        try:
            self.arm(Turn(command, lane, repeats), delay_s)
        finally:
            with self.lanes.lock:
                lane.pins -= 1
            self.lanes.tidy(lane)

    def remove(self, key: Hashable) -> None:
        lane = self.lanes.find(key, hash_of(key))
        if lane is None:
            return
        with self.lanes.lock:
            turn, lane.holder, lane.held_back = lane.holder, None, False
        if turn is not None:
            turn.handle.cancel()
        self.lanes.tidy(lane)

    def arm(self, turn: Turn, delay_s: float | None, after: Turn | None = None) -> None:
        """Arm a turn, which takes its lane from whoever holds it; if `after` is given, only from that.

        `delay_s` is None for what was due before, as `after`.
        """
        if delay_s is None and after is not None:
            turn.handle = self.engine.call_anew(after.handle, self.due, turn)
        else:
            turn.handle = self.engine.call_later(delay_s or 0, self.due, turn)
        lane = turn.lane
        if lane is None:
            return
        with self.lanes.lock:
            loser = lane.holder
            if after is None or loser is after:
                lane.holder, lane.held_back = turn, False
                turn.settled = True
            else:
                loser = turn
        if loser is not None:
            loser.handle.cancel()
        if turn.early and loser is not turn:
            self.arm_again(turn)

    def arm_again(self, turn: Turn) -> None:
        """Arm anew what came due and could not run."""
        self.arm(Turn(turn.command, turn.lane, turn.repeats), None, turn)

    def due(self, turn: Turn) -> None:
        """The engine's callback."""
        if self.may_run(turn):
            self.running[turn] = get_ident()
            interval_s = self.run(turn.command)
            del self.running[turn]
            self.finish(turn, interval_s)

    def may_run(self, turn: Turn) -> bool:
        """Take the lane, if this is its holder's time and no other command of the key runs."""
        lane = turn.lane
        if lane is None:
            return True
        with self.lanes.lock:
            if not turn.settled:
                turn.early = True
                return False
            if lane.holder is not turn:
                return False
            if lane.running:
                lane.held_back = True
                return False
            lane.running = True
            return True

    def run(self, command: Executable) -> float | None:
        """Run a command; returns in how many seconds it is to run again. Never raises."""
        context = None
        try:
            context = self.scheduler.context
            refused = refusal_of(command.execute(context))
            if refused is not None:
                raise refused
        except BaseException as exc:
            self.report(exc, command, context)
        try:
            return _repeat_interval(command)
        except BaseException as exc:
            self.report(exc, command, context)
            return None

    def finish(self, turn: Turn, interval_s: float | None) -> None:
        """After a run: the command's next turn, if it repeats, and the lane's next one, if that waits."""
        if interval_s is not None:
            try:
                self.arm(Turn(turn.command, turn.lane, True), interval_s, turn)
            except BaseException as exc:  # no room for a timer, or a clock that fails
                log_error(f"{self.engine.name}: a command cannot be repeated", exc)
        lane = turn.lane
        if lane is None:
            return
        with self.lanes.lock:
            lane.running = False
            if lane.holder is turn:
                lane.holder = None
            waiting = lane.holder if lane.held_back else None
            lane.held_back = False
        if waiting is not None:
            self.arm_again(waiting)
        self.lanes.tidy(lane)

    def report(self, exc: BaseException, command: Executable, context: Any) -> None:
        """Hand an error to whom it concerns. Never raises."""
        if self.on_error is not None:
            call_handler(self.on_error, exc, command, self.engine.name)
            return
        message = f"{self.engine.name}: a command raised an exception"
        if context is None:
            log_error(message, exc)
            return
        try:
            context.last_error = exc
        except BaseException as failure:
            log_error(message, exc)
            log_error(f"{self.engine.name}: the context does not take a last_error", failure)

    def check(self) -> None:
        """Assert every invariant. For tests, while nobody else uses the scheduler."""
        self.engine._check()
        lanes = [lane for lanes in self.lanes.by_hash.values() for lane in lanes]
        for lane in lanes:
            assert not lane.dropped
            assert lane.pins == 0
            assert lane.holder is not None or lane.running
            assert lane in self.lanes.by_hash[lane.hash]
            assert lane.holder is None or lane.holder.lane is lane
            assert lane.running or not lane.held_back
        assert all(self.lanes.by_hash.values())

    def _after_fork_in_child(self) -> None:
        """Commands that ran on other threads run nowhere now; those that repeat are due again."""
        self.lanes.lock = RLock()
        for turn, thread in list(self.running.items()):
            if thread != get_ident():
                del self.running[turn]
                self.finish(turn, 0 if turn.repeats else None)

    def _at_exit(self) -> None:
        """The engine takes part itself."""


class CommandScheduler:
    """Runs commands after a delay, once or repeatedly, one at a time, with a shared context.

    A command is any object with `execute(context)`; `key` (None: no key) and `repeat_interval_s` (None: runs once)
    are optional.  See `pysched.Command`.

    `context` (default None): handed to each command; read from the attribute of that name at each run.

    `on_error`: `on_error(exc, command)` is called with whatever a command raised, SystemExit and the like included,
    on the thread that ran it.  None (default): the error is stored as `context.last_error`; without a context it is
    logged (logger `pysched`, ERROR).

    `name` (default "scheduler"): the loop's daemon thread is `{name}_t`.

    `clock`: a `pysched.Clock`; None (default): the system's, monotonic.  On a `pysched.testing.ManualClock` there
    is no thread.

    `max_workers` (default 1, at most 1,048,576): with more than one, commands run on a `ThreadPoolExecutor` of that
    many workers and may overlap, except those of one key: one that is due waits for the end of that run, and others
    pass it.  The context is then shared between threads.

    Delays and intervals are seconds.  Commands that are due run in the order of (due, submission). All methods are
    safe in any thread and in commands.  Bad arguments raise TypeError or ValueError naming the argument, with
    nothing changed.  A started scheduler stays alive until it is stopped; it can be neither copied nor pickled.
    """

    context: Any

    def __init__(
        self,
        context: Any = None,
        on_error: Callable[[BaseException, Any], object] | None = None,
        name: str = "scheduler",
        *,
        clock: Clock | None = None,
        max_workers: int = 1,
    ) -> None:
        check_handler(on_error)
        if isinstance(max_workers, bool) or not isinstance(max_workers, int):
            raise TypeError(f"max_workers must be an int, got {kind(max_workers)}")
        if not 1 <= max_workers <= MAX_WORKERS:
            raise ValueError(f"max_workers must be from 1 to {MAX_WORKERS}, got {shown(max_workers)}")
        self.__core = _Core(self, on_error, checked_name(name), clock, max_workers)
        self.context = context

    def start(self) -> None:
        """Starts the daemon thread; nothing if it runs.  What was pending before is still there.

        After a `stop` that a command outlived, the old loop goes on when the command returns, with a warning: there
        is never a second one.

        Raises TypeError if `_queue` or `_cancellation` was replaced, RuntimeError if there can be no new thread, or
        while the interpreter ends.
        """
        for attribute in ("_queue", "_cancellation"):
            if attribute in self.__dict__ or hasattr(type(self), attribute):
                raise TypeError(
                    f"{attribute} cannot be replaced: this scheduler keeps its commands elsewhere; "
                    "for a queue or a registry of your own use SchedulerWorker"
                )
        self.__core.engine.start()

    def stop(self, timeout: float | None = 2.0) -> None:
        """Ends the loop and waits for the end of what runs, at most `timeout` seconds; what is pending stays pending.

        `timeout`: finite and >= 0, default 2; None: without limit.  Inside a command it signals and returns.

        Raises TypeError or ValueError for a bad `timeout`, with nothing stopped.
        """
        self.__core.engine.stop(timeout)

    def submit(self, command: Executable, delay_s: float = 0.0) -> None:
        """Runs `command` once, `delay_s` seconds from now, or again and again if it has a `repeat_interval_s`.

        A command with the same `key` that waits is replaced.  Raises ValueError for a delay that is not finite and
        >= 0 or a `repeat_interval_s` that is not finite and > 0, TypeError for a command without `execute` or with an
        `async` one.  O(1) on average.
        """
        delay_ns(delay_s, "delay_s")
        _check_command(command)
        key = attribute_or_none(command, "key")
        key_hash = hash_of(key)
        repeats = _repeat_interval(command) is not None
        self.__core.submit(command, delay_s, key, key_hash, repeats)

    def schedule(
        self,
        command: Executable,
        interval_s: float,
        delay_s: float = 0.0,
        key: Hashable = None,
    ) -> None:
        """Runs `command` after `delay_s` seconds and then again `interval_s` seconds after the end of each run.

        `interval_s`: finite and > 0. `delay_s`: finite and >= 0, default 0. `key`: used instead of the command's
        own; None (default): the command's own.

        Submits a `ScheduledCommand` through `self.submit`.  From then on its `repeat_interval_s` counts, not that of
        the command inside it, and `on_error` is told of it; the command is its `.command`.  Raises what `submit`
        does, and costs as much.
        """
        interval_ns(interval_s, "interval_s")
        delay_ns(delay_s, "delay_s")
        _check_command(command)
        from pysched.commands import ScheduledCommand

        self.submit(ScheduledCommand(command, interval_s, key), delay_s)  # type: ignore[arg-type]

    def remove(self, key: Hashable) -> None:
        """Cancels the command of that key, pending or repeating: it never starts again.  Unknown keys are silent.

        Raises TypeError for a key that is not hashable.  O(1) amortised.
        """
        if key is not None:
            self.__core.remove(key)

    @property
    def name(self) -> str:
        """The name in logs and of threads: a str that is not empty, else TypeError or ValueError.

        May be set at any time; threads have the name of the time of the start.
        """
        return self.__core.engine.name

    @name.setter
    def name(self, value: str) -> None:
        self.__core.engine.name = value

    @name.deleter
    def name(self) -> None:
        raise AttributeError("name cannot be deleted")

    def __reduce__(self) -> NoReturn:
        # Also what `copy` asks: a copy would be a second owner of one loop.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__core.engine.name!r}>"

    def _check(self) -> None:
        self.__core.check()


def _check_command(command: object) -> None:
    execute = getattr(command, "execute", None)
    if not callable(execute):
        raise TypeError(f"command must have an execute(context) method, got {kind(command)}")
    if is_async_function(execute):
        raise TypeError(f"command must not have an async execute, which nothing would await, got {kind(command)}")


def _repeat_interval(command: Executable) -> float | None:
    """The command's `repeat_interval_s`, checked."""
    interval_s: float | None = attribute_or_none(command, "repeat_interval_s")
    if interval_s is not None:
        interval_ns(interval_s, "repeat_interval_s")
    return interval_s
