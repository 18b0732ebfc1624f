"""Commands on the twin's engine: keys, fixed delays, errors.

Ground rules. Each key in use has a lane: who holds the key, and whether a command of it runs. `_Lanes.lock`
guards all of them. Nothing foreign runs under it: keys are hashed and compared before it is taken, references
are released after it, and the engine (whose clock may be a user's) is called without it. The sections under
it call nothing at all, so a signal handler, a destructor or a fork in the midst of one finds whole lanes.

A timer is armed before its turn takes the lane, so that a failure to arm it changes nothing. A turn that
comes due before it has taken its lane is early, and armed again.
"""

from __future__ import annotations

from _thread import get_ident
from collections import defaultdict
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from pysched import lifecycle
from pysched._pure.dispatch import Engine
from pysched._pure.timers import Timer
from pysched.clock import delay_ns, interval_ns
from pysched.reports import call_handler, log_error

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pysched._pure.dispatch import TimerHandle
    from pysched.clock import Clock

__all__ = ["CommandScheduler"]


class _Executable(Protocol):
    """All that a command must be; `key` and `repeat_interval_s` may be missing."""

    def execute(self, context: Any, /) -> object: ...


class _Lane:
    """A key in use: who holds it, and whether a command of it runs."""

    __slots__ = ("dropped", "hash", "held_back", "holder", "key", "pins", "running")

    def __init__(self, key: Hashable, key_hash: int) -> None:
        self.key = key
        self.hash = key_hash
        self.holder: _Turn | None = None
        self.held_back = False  # the holder came due while an earlier command of the key ran
        self.running = False
        self.pins = 1  # submissions that are about to take it
        self.dropped = False  # not in the table any more


class _Turn:
    """One coming run of a command. Each arming of a timer is a turn of its own."""

    __slots__ = ("command", "early", "handle", "lane", "repeats", "settled")

    handle: TimerHandle

    def __init__(self, command: _Executable, lane: _Lane | None, repeats: bool) -> None:
        self.command = command
        self.lane = lane
        self.repeats = repeats  # as far as was known when it was armed
        self.settled = lane is None  # has taken its lane
        self.early = False


class _Lanes:
    """The lanes by key.

    Not a dict by key: that runs `__eq__` in the midst of a change. Here the lanes of a hash are a tuple;
    it is searched without the lock, and replaced under it if it is still the one that was searched.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.by_hash: defaultdict[int, tuple[_Lane, ...]] = defaultdict(tuple)

    def find(self, key: Hashable) -> _Lane | None:
        """The lane of `key`, if it is in use. O(1)."""
        return _search(self.by_hash.get(_hash(key), ()), key)

    def pin(self, key: Hashable) -> _Lane:
        """The lane of `key`, a new one if need be, which stays until the caller takes a pin away. O(1)."""
        key_hash = _hash(key)
        while True:
            lanes = self.by_hash[key_hash]
            lane = _search(lanes, key)
            if lane is not None:
                with self.lock:
                    if not lane.dropped:
                        lane.pins += 1
                        return lane
            else:
                lane = _Lane(key, key_hash)
                more = (*lanes, lane)
                with self.lock:
                    if self.by_hash[key_hash] is lanes:
                        self.by_hash[key_hash] = more
                        return lane

    def tidy(self, lane: _Lane) -> None:
        """Drop `lane` if nobody needs it."""
        with self.lock:
            if lane.holder is not None or lane.running or lane.pins or lane.dropped:
                return
            lane.dropped = True
        while True:
            lanes = self.by_hash[lane.hash]
            rest = tuple([other for other in lanes if other is not lane])
            with self.lock:
                if self.by_hash[lane.hash] is lanes:
                    if rest:
                        self.by_hash[lane.hash] = rest
                    else:
                        del self.by_hash[lane.hash]
                    return


class _Engine(Engine):
    """The engine of a CommandScheduler, which it keeps alive as long as the loop keeps it alive itself."""

    def __init__(self, core: _Core, max_workers: int, clock: Clock | None, name: str) -> None:
        super().__init__(None if max_workers == 1 else max_workers, clock=clock, name=name)
        self._loop.thread_suffix = "_t"
        self._owner = core

    def rename(self, name: str) -> None:
        self._core.name = name

    def call_anew(self, handle: TimerHandle, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call later what could not be done when it was due: it keeps its due time, so nothing passes it."""
        return self._register(Timer(handle._timer.due_ns, callback, args))


class _Core:
    """What a CommandScheduler does, apart from its public face."""

    def __init__(
        self,
        scheduler: CommandScheduler,
        on_error: Callable[[BaseException, Any], object] | None,
        clock: Clock | None,
        max_workers: int,
    ) -> None:
        self.scheduler = scheduler
        self.on_error = on_error
        self.lanes = _Lanes()
        self.engine = _Engine(self, max_workers, clock, scheduler.name)
        self.running: dict[_Turn, int] = {}  # the thread of each command that runs
        lifecycle.register(self)  # after the engine, so that a forked child finds that in order

    def start(self) -> None:
        self.engine.rename(self.scheduler.name)
        self.engine.start()

    def submit(self, command: _Executable, delay_s: float, key: Hashable, repeats: bool) -> None:
        if key is None:
            self.arm(_Turn(command, None, repeats), delay_s)
            return
        lane = self.lanes.pin(key)
        try:
            self.arm(_Turn(command, lane, repeats), delay_s)
        finally:
            with self.lanes.lock:
                lane.pins -= 1
            self.lanes.tidy(lane)

    def remove(self, key: Hashable) -> None:
        lane = self.lanes.find(key)
        if lane is None:
            return
        with self.lanes.lock:
            turn, lane.holder, lane.held_back = lane.holder, None, False
        if turn is not None:
            turn.handle.cancel()
        self.lanes.tidy(lane)

    def arm(self, turn: _Turn, delay_s: float | None, after: _Turn | None = None) -> None:
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

    def arm_again(self, turn: _Turn) -> None:
        """Arm anew what came due and could not run."""
        self.arm(_Turn(turn.command, turn.lane, turn.repeats), None, turn)

    def due(self, turn: _Turn) -> None:
        """The engine's callback."""
        if self.may_run(turn):
            self.running[turn] = get_ident()
            interval_s = self.run(turn.command)
            del self.running[turn]
            self.finish(turn, interval_s)

    def may_run(self, turn: _Turn) -> bool:
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

    def run(self, command: _Executable) -> float | None:
        """Run a command; returns in how many seconds it is to run again. Never raises."""
        context = None
        try:
            context = self.scheduler.context
            command.execute(context)
        except BaseException as exc:
            self.report(exc, command, context)
        try:
            return _repeat_interval(command)
        except BaseException as exc:
            self.report(exc, command, context)
            return None

    def finish(self, turn: _Turn, interval_s: float | None) -> None:
        """After a run: the command's next turn, if it repeats, and the lane's next one, if that waits."""
        if interval_s is not None:
            try:
                self.arm(_Turn(turn.command, turn.lane, True), interval_s, turn)
            except BaseException as exc:  # no room for a timer, or a clock that fails
                log_error(f"{self.scheduler.name}: a command cannot be repeated", exc)
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

    def report(self, exc: BaseException, command: _Executable, context: Any) -> None:
        """Hand an error to whom it concerns. Never raises."""
        if self.on_error is not None:
            call_handler(self.on_error, exc, command)
            return
        message = f"{self.scheduler.name}: a command raised an exception"
        if context is None:
            log_error(message, exc)
            return
        try:
            context.last_error = exc
        except BaseException as failure:
            log_error(message, exc)
            log_error(f"{self.scheduler.name}: the context does not take a last_error", failure)

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
    """Runs commands after a delay, once or repeatedly, one at a time.

    A command is any object with an `execute(context)` method; its `key` (None: no key) and its
    `repeat_interval_s` (None: runs once) may be missing. See `pysched.Command`.

    `context`: handed to each command; read from the attribute of that name at each run.

    `on_error(exc, command)`: told of each error of a command, SystemExit and the like included, on the
    thread that ran it. Without, the error is stored as `context.last_error`; without a context too, logged.

    `name`: the loop is a daemon thread named `f"{name}_t"`.

    `clock`: None for the system's monotonic clock. On a `ManualClock` no thread is started.

    `max_workers`: with more than 1, commands run on a pool of as many threads and may overlap, but never two
    of one key: a due command whose key is running waits for the end of that run, and others pass it.

    Everything may be called from any thread and from inside commands. Commands that are due run in the order
    of (due time, submission). ValueError and TypeError name the argument and are raised with nothing changed.
    """

    name: str
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
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error must be callable or None, not {type(on_error).__name__}")
        if isinstance(max_workers, bool) or not isinstance(max_workers, int):
            raise TypeError(f"max_workers must be an int, not {type(max_workers).__name__}")
        if max_workers < 1:
            raise ValueError(f"max_workers must be >= 1, got {max_workers}")
        self.name = name
        self.context = context
        self.__core = _Core(self, on_error, clock, max_workers)

    def start(self) -> None:
        """Run what is due from now on; does nothing while running. Pending commands of before are kept.

        After a `stop` that a hung command outlasted, the old loop goes on when the command returns, and a
        warning is logged: there is never a second one. TypeError if `_queue` or `_cancellation` was replaced.
        """
        for attribute in ("_queue", "_cancellation"):
            if attribute in self.__dict__ or hasattr(type(self), attribute):
                raise TypeError(
                    f"{attribute} cannot be replaced: this scheduler keeps its commands elsewhere; "
                    "for a queue or a registry of your own use SchedulerWorker"
                )
        self.__core.start()

    def stop(self, timeout: float | None = 2.0) -> None:
        """Start nothing more, and wait for the end of what runs, at most `timeout` seconds (None: any time).

        What was pending stays pending. From inside a command it does not wait.
        """
        self.__core.engine.stop(timeout)

    def submit(self, command: _Executable, delay_s: float = 0.0) -> None:
        """Run `command` in `delay_s` seconds (finite and >= 0); and again, if its `repeat_interval_s` says so.

        It replaces the pending command of the same key, if there is one; one that runs goes on, but does not
        repeat. O(log n).
        """
        _check_command(command)
        delay_ns(delay_s, "delay_s")
        key = _attribute_or_none(command, "key")
        repeats = _repeat_interval(command) is not None
        self.__core.submit(command, delay_s, key, repeats)

    def schedule(
        self,
        command: _Executable,
        interval_s: float,
        delay_s: float = 0.0,
        key: Hashable = None,
    ) -> None:
        """Run `command` in `delay_s` seconds, and again `interval_s` seconds after the end of each run.

        `interval_s` is finite and > 0. `key`: instead of the command's own. Submits a `ScheduledCommand`
        through `self.submit`; that is also what `on_error` is told of.
        """
        _check_command(command)
        interval_ns(interval_s, "interval_s")
        delay_ns(delay_s, "delay_s")
        from pysched.commands import ScheduledCommand

        self.submit(ScheduledCommand(command, interval_s, key), delay_s)  # type: ignore[arg-type]

    def remove(self, key: Hashable) -> None:
        """Cancel the command of `key`, pending or repeating: it does not run again. Unknown keys are silent."""
        if key is not None:
            self.__core.remove(key)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _check(self) -> None:
        self.__core.check()


def _search(lanes: tuple[_Lane, ...], key: Hashable) -> _Lane | None:
    for lane in lanes:
        if not lane.dropped and (lane.key is key or lane.key == key):
            return lane
    return None


def _hash(key: Hashable) -> int:
    try:
        return hash(key)
    except TypeError as exc:
        raise TypeError(f"key must be hashable, {type(key).__name__} is not") from exc


def _check_command(command: object) -> None:
    if not callable(getattr(command, "execute", None)):
        raise TypeError(f"command must have a method execute(context), {type(command).__name__} has none")


def _repeat_interval(command: _Executable) -> float | None:
    """The command's `repeat_interval_s`, checked."""
    interval_s: float | None = _attribute_or_none(command, "repeat_interval_s")
    if interval_s is not None:
        interval_ns(interval_s, "repeat_interval_s")
    return interval_s


def _attribute_or_none(command: object, name: str) -> Any:
    """As `pysched.commands.attribute_or_none`."""
    try:
        return getattr(command, name)
    except AttributeError:
        if hasattr(type(command), name):
            raise
        return None
