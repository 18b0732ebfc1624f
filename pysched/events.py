"""What listeners are told: `JobEvent`, and how it gets to them.

Ground rules. Events are put into one queue by whoever makes them, with nothing held, and are told in that order, so
those of a job come in order. That is done by a thread of its own, begun with the first event; with the clock of a test
by whoever puts them in, at once. A queue that is full loses its oldest events, which are counted.
"""

from __future__ import annotations

import threading
import time
from _thread import start_new_thread
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pysched.apart import is_on_main_thread
from pysched.callbacks import is_async
from pysched.lifecycle import exiting
from pysched.refusals import raised_here
from pysched.reports import log_error, log_warning, printable
from pysched.text import shown
from pysched.waiting import WakeEvent, join

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pysched.job import JobInfo
    from pysched.runner import JobRun

__all__ = ["EventName", "Events", "JobEvent"]

EventName: TypeAlias = Literal[
    "added",
    "removed",
    "started",
    "succeeded",
    "error",
    "retry",
    "timeout",
    "missed",
    "coalesced",
    "paused",
    "resumed",
    "dropped",
]
"""added, removed: a job. started, succeeded, timeout: a run, over all its attempts. error: an attempt that failed;
retry: that there will be another. missed: slots without a run, as the scheduler was late; coalesced: as the job was
busy. dropped: runs that were due when the scheduler was shut down. paused, resumed: a job, or all of them."""

NAMES: tuple[str, ...] = get_args(EventName)
MOST = 10_000
"""Events that may wait to be told."""
START_S = 0.001
"""How often who waits for a thread that is being started looks again."""
IDLE_S = 5.0
"""How long the thread waits for another event: one whose scheduler is gone must not stay."""


@dataclass(frozen=True)
class JobEvent:
    """What has happened to a job. What does not apply to an event of that name is None."""

    event: EventName
    time: datetime
    """When: aware, in the job's zone."""
    job_id: str
    """Empty if all jobs are meant (`pause`, `resume`)."""
    job_name: str
    job: JobInfo | None
    """The job just then; None if all are meant, or if it had been removed."""
    run: JobRun | None = None
    scheduled_time: datetime | None = None
    """The slot, aware; of several slots the latest."""
    lateness: float | None = None
    """Of a run: seconds to its start from when it was due, or from the scheduler's start if that was later."""
    duration: float | None = None
    """Of a run that has ended: seconds since its start, all attempts and waits; of an attempt: since its own."""
    error: BaseException | None = None
    result: Any = None
    """What the callback returned."""
    count: int = 1
    """Of slots, or of dropped runs."""


class Events:
    """The listeners of one scheduler and the events that wait to be told to them.

    `driven`: there is no thread, as with the clock of a test.
    """

    def __init__(self, name: str, driven: bool) -> None:
        self._name = name
        self._driven = driven
        self._listeners: dict[str, dict[Listener, None]] = {each: {} for each in NAMES}  # in the order of addition
        self._waiting: deque[JobEvent] = deque()
        self._told = WakeEvent()
        self._threads: dict[str, threading.Thread] = {}  # "by": the one; who puts it in first begins it
        self._begun = False  # that thread; until then it cannot be joined
        self._ending = False
        self._telling = False  # with the clock of a test: an event that a listener causes is told after it
        self.lost = 0

    def wants(self, event: str) -> bool:
        """Whether anybody listens. O(1)."""
        return bool(self._listeners[event])

    def wants_any(self, *events: str) -> bool:
        return any(self._listeners[event] for event in events)

    def add(self, event: str, function: Callable[[JobEvent], object]) -> Callable[[], object]:
        """Listen; returns what ends that. Raises ValueError or TypeError naming the argument."""
        if not isinstance(event, str):
            raise TypeError(f"event must be a str, got {type(event).__name__}")
        if event not in NAMES:
            raise ValueError(f"event must be one of {', '.join(NAMES)}, got {shown(event)}")
        if not callable(function):
            raise TypeError(f"fn must be callable, got {type(function).__name__}")
        if is_async(function):
            raise TypeError("fn must be a plain function: nothing would await it")
        listener = Listener(function)
        listeners = self._listeners[event]
        listeners[listener] = None
        return lambda: listeners.pop(listener, None)

    def put(self, event: JobEvent) -> None:
        """Tell the listeners of it, soon. Raises nothing."""
        while len(self._waiting) >= MOST:
            self._lose()
        self._waiting.append(event)
        if self._driven:
            self._tell_here()
            return
        if not self._threads and not exiting():
            self._begin()
        self._told.set()

    def _lose(self) -> None:
        try:
            self._waiting.popleft()
        except IndexError:
            return
        if not self.lost:
            log_warning(f"{self._name}: listeners are too slow: the oldest of {MOST} events are dropped")
        self.lost += 1

    def _begin(self) -> None:
        name = f"{printable(self._name)}-events"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        turn = [thread]  # who takes it starts the thread
        if not is_on_main_thread():
            if self._threads.setdefault("by", thread) is thread:
                self._open(turn)
            return
        # Once the thread stands there it has to be started, or all would wait for it for ever; a signal handler may
        # raise in between, or right after that. Whoever comes too late finds that it is nobody's turn.
        try:
            self._offer(thread, turn)
        except BaseException:
            self._offer(thread, turn)
            raise

    def _offer(self, thread: threading.Thread, turn: list[threading.Thread]) -> None:
        if turn and self._threads.setdefault("by", thread) is thread:
            self._open_apart(turn)

    def _open_apart(self, turn: list[threading.Thread]) -> None:
        """Start the thread, but not on the main one, and do not wait for that: its lock may be taken by this thread."""
        try:
            start_new_thread(self._open, (turn,))
        except (RuntimeError, MemoryError) as failure:
            if isinstance(failure, RuntimeError) and not raised_here(failure):
                raise
            self._close(failure)

    def _open(self, turn: list[threading.Thread]) -> None:
        try:
            thread = turn.pop()
        except IndexError:
            return
        try:
            thread.start()
        except BaseException as failure:
            self._close(failure)

    def _close(self, failure: BaseException) -> None:
        """There is no memory for the thread, say, or the interpreter ends."""
        self._threads.pop("by", None)
        if not exiting():
            log_error(f"{self._name}: no thread for listeners", failure)

    def _serve(self) -> None:
        self._begun = True
        while True:
            self._told.clear()
            self._tell_all()
            if not self._waiting and (self._ending or not self._told.wait(IDLE_S)):
                self._begun = False
                self._threads.pop("by", None)
                if self._waiting:  # somebody came at the last moment, and saw that there was a thread
                    self._begin()
                return

    def _tell_here(self) -> None:
        while self._waiting and not self._telling:  # once more for what came while the mark was being taken back
            self._telling = True
            try:
                self._tell_all()
            finally:
                self._telling = False

    def _tell_all(self) -> None:
        while self._waiting:
            try:
                event = self._waiting.popleft()
            except IndexError:
                return
            for listener in list(self._listeners[event.event]):
                listener.tell(self._name, event)

    @property
    def is_here(self) -> bool:
        """Whether this is their thread."""
        return self._threads.get("by") is threading.current_thread()

    def end(self, timeout: float | None) -> bool:
        """Tell what waits and end the thread; wait for that at most `timeout` seconds, not at all on that thread.

        Returns whether all is told.
        """
        self._ending = True
        thread = self._threads.get("by")
        if thread is not None:
            self._told.set()
            if thread is not threading.current_thread():
                self._join(thread, timeout)
        return not self._waiting and (thread is None or self._threads.get("by") is not thread)

    def _join(self, thread: threading.Thread, timeout: float | None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not self._begun and self._threads.get("by") is thread:  # another thread is about to start it
            if end is not None and time.monotonic() >= end:
                return
            time.sleep(START_S)
        join(thread, end)

    def after_fork_in_child(self) -> None:
        """The thread is the parent's, and so is what waits."""
        self._threads.clear()
        self._begun = False
        self._waiting.clear()
        self._told = WakeEvent()
        self._telling = False


class Listener:
    """A function that was added; the same one may be added twice."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[JobEvent], object]) -> None:
        self._function = function

    def tell(self, name: str, event: JobEvent) -> None:
        """What it raises is logged, and hurts nobody."""
        try:
            self._function(event)
        except BaseException as failure:
            log_error(f"{name}: a listener of {event.event!r} raised an exception", failure)
