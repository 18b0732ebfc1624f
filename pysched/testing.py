"""`ManualClock`: time that stands still until a test moves it.

Engines and schedulers made with ``clock=ManualClock()`` start no thread. Nothing happens between two
calls of `ManualClock.advance`, which runs what comes due on the calling thread, so tests need no
sleep, no tolerance and no lock, and a year passes in no time.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pysched.clock import NEVER, DrivingClock, delay_ns, instant_ns
from pysched.text import shown
from pysched.zones import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched.clock import Driven, WaitEvent

__all__ = ["ManualClock"]

_MILLENNIUM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_DURATION = re.compile(r"\s*(?=[0-9])(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m(?!s))?(?:([0-9]+)s)?(?:([0-9]+)ms)?\s*")
_UNITS_NS = (86_400_000_000_000, 3_600_000_000_000, 60_000_000_000, 1_000_000_000, 1_000_000)
_CALLBACKS_AN_INSTANT = 1_000_000


class ManualClock(DrivingClock):
    """A clock that only a test moves; any number of engines and schedulers may share it.

    Its monotonic time starts at 0, its wall clock at `wall`, an aware datetime (default: the year
    2000, in UTC). A duration is a number of seconds, a `timedelta`, or a string: whole numbers with the
    units d h m s ms, each unit at most once and the larger first, blanks only around: ``"1h30m"``, ``"2d"``,
    ``"250ms"``. It must be finite and >= 0.

    Raises:
        TypeError: `wall` is no datetime.
        ValueError: `wall` is naive.
    """

    def __init__(self, wall: datetime = _MILLENNIUM) -> None:
        if not isinstance(wall, datetime):
            raise TypeError(f"wall must be an aware datetime, not {type(wall).__name__}")
        if wall.utcoffset() is None:
            raise ValueError("wall must be an aware datetime, got a naive one")
        self._time_ns = 0
        self._wall_offset_ns = _timedelta_ns(wall - EPOCH)
        self._moving = threading.RLock()  # guards the two above; no foreign code runs under it
        self._ages = itertools.count()
        self._driven: dict[int, Driven] = {}
        self._advancing: dict[str, tuple[int, int]] = {}  # "by": process and thread inside advance()

    def __repr__(self) -> str:
        return f"<ManualClock time={self.time()}>"

    def time(self) -> float:
        """Monotonic seconds since the clock was made."""
        return self._time_ns / 1e9

    def time_ns(self) -> int:
        """Monotonic nanoseconds since the clock was made."""
        return self._time_ns

    def now(self) -> datetime:
        """The wall clock, in UTC, cut to the microsecond."""
        return EPOCH + timedelta(microseconds=self.wall_ns() // 1000)

    def wall_ns(self) -> int:
        """The wall clock in nanoseconds since the Unix epoch."""
        with self._moving:
            return self._wall_offset_ns + self._time_ns

    def advance(self, duration: float | str | timedelta) -> int:
        """Let `duration` pass; returns how many callbacks ran.

        Everything that comes due on the way runs on the calling thread, each callback to its end, in
        the order of (due, submission), while the time stands at each due instant. At one instant the
        engine that was made first goes first. A `sleep` in a callback may move the time past the end
        of `duration`; what comes due by that only runs at the next call. Each callback costs a look at every
        engine on the clock and O(log n).

        Raises:
            TypeError, ValueError: `duration` is none; the time has not moved.
            RuntimeError: called by a callback that a call of it runs, or while another thread is in it;
                or more than 10**6 callbacks ran at one instant; or coroutines of jobs are to go on and this is
                inside of a running event loop: there use `advance_async`.
        """
        length = _duration_ns(duration, "duration")
        mine = (os.getpid(), threading.get_ident())
        try:
            self._claim(mine)
            return self._run_until(min(self._time_ns + length, NEVER))
        finally:
            # Without a call, after which Ctrl-C could come in again and leave the clock claimed.
            if "by" in self._advancing and self._advancing["by"] is mine:
                del self._advancing["by"]

    async def advance_async(self, duration: float | str | timedelta) -> int:
        """`advance` inside of a running event loop, where the loop of the coroutines of jobs cannot run: in a thread.

        What comes due runs on that thread, one after the other as ever, while the running loop goes on.
        """
        import asyncio

        return await asyncio.to_thread(self.advance, duration)

    def sleep(self, duration: float | str | timedelta) -> None:
        """Let `duration` pass without starting anything but time-outs: what comes due meanwhile will be late.

        Coroutines that have begun go on, but for those of a loop that this is called inside of. The `time.sleep` of
        callbacks under test; it also works outside of them. O(1), and what goes on meanwhile.

        Raises:
            TypeError, ValueError: `duration` is none; the time has not moved.
        """
        self._sleep(lambda: False, _duration_ns(duration, "duration"))

    def sleep_until(self, over: Callable[[], bool], duration: float | str | timedelta | None) -> None:
        """`sleep`, but only until ``over()``, asked after each time-out of a run and each step of a coroutine.

        `duration` None: without limit; RuntimeError if no time-out is left.
        """
        self._sleep(over, None if duration is None else _duration_ns(duration, "duration"))

    def _sleep(self, over: Callable[[], bool], length: int | None) -> None:
        target = NEVER if length is None else min(self._time_ns + length, NEVER)
        while not over():
            alarm = self._earliest(target, "_next_alarm_ns")
            if alarm is None and length is None:
                raise RuntimeError("what this waits for never comes: time moves on this thread only")
            step = self._earliest(target if alarm is None else alarm[0] - 1, "_next_step_ns")
            if step is not None:
                self._move_to(step[0])
                step[1]._run_next(self._time_ns)
            elif alarm is not None:
                self._move_to(alarm[0])
                alarm[1]._run_alarm()
            else:
                self._move_to(target)
                return

    def step_wall(self, duration: float | str | timedelta) -> None:
        """Set the wall clock forward by `duration`, back if it is negative ("-1h"); monotonic time stands still.

        Raises:
            TypeError, ValueError: `duration` is none, or not finite; the clock has not moved.
        """
        if isinstance(duration, timedelta):
            step = _timedelta_ns(duration)
        elif isinstance(duration, str):
            text = duration.strip()
            step = -_parsed_ns(text[1:], "duration") if text.startswith("-") else _parsed_ns(text, "duration")
        else:
            try:
                step = instant_ns(duration, "duration")
            except TypeError as error:
                raise _no_duration(duration, "duration") from error
        with self._moving:
            self._wall_offset_ns += step

    def suspend(self, duration: float | str | timedelta) -> None:
        """As if the machine had slept for `duration`: the wall clock moves, monotonic time stands still.

        Raises:
            TypeError, ValueError: `duration` is none; the clock has not moved.
        """
        step = _duration_ns(duration, "duration")
        with self._moving:
            self._wall_offset_ns += step

    def wait(self, event: WaitEvent, timeout: float | None) -> None:  # noqa: ARG002
        """Raises RuntimeError: who waits on the thread that should move the clock waits for ever."""
        raise RuntimeError("nothing can wait for a ManualClock; let time pass with advance()")

    def enlist(self) -> int:
        return next(self._ages)

    def attach(self, age: int, driven: Driven) -> None:
        self._driven[age] = driven

    def detach(self, driven: Driven) -> None:
        for age, other in list(self._driven.items()):
            if other is driven:
                self._driven.pop(age, None)

    def _claim(self, mine: tuple[int, int]) -> None:
        """Enter advance(), or raise; ``setdefault`` lets one of several threads in."""
        holder = self._advancing.setdefault("by", mine)
        if holder is mine:
            return
        if holder[1] == mine[1]:
            raise RuntimeError("advance() was called by a callback that advance() runs; use sleep()")
        if holder[0] == mine[0]:
            raise RuntimeError("another thread is inside advance() of this clock")
        self._advancing["by"] = mine  # this is a forked child, and that thread stayed in the parent

    def _run_until(self, target: int) -> int:
        total = at_this_instant = 0
        while (earliest := self._earliest(target, "_next_due_ns")) is not None:
            due, driven = earliest
            before = self._time_ns
            self._move_to(due)
            if self._time_ns != before:
                at_this_instant = 0
            now = self._time_ns
            if not driven._run_next(now):
                continue
            total += 1
            at_this_instant = at_this_instant + 1 if self._time_ns == now else 0
            if at_this_instant > _CALLBACKS_AN_INSTANT:
                raise RuntimeError(f"more than {_CALLBACKS_AN_INSTANT} callbacks ran at {self.time()} s")
        self._move_to(target)
        return total

    def _earliest(self, target: int, question: str) -> tuple[int, Driven] | None:
        """Whose turn it is, and when, if that is by `target`: the smallest (due, age)."""
        candidates = [
            (due, age, driven)
            for age, driven in list(self._driven.items())
            if (ask := getattr(driven, question, None)) and (due := ask()) is not None and due <= target
        ]
        if not candidates:
            return None
        due, _, driven = min(candidates, key=lambda candidate: candidate[:2])
        return due, driven

    def _move_to(self, time_ns: int) -> None:
        with self._moving:
            self._time_ns = max(self._time_ns, time_ns)


def _duration_ns(duration: object, name: str) -> int:
    if isinstance(duration, str):
        return _parsed_ns(duration, name)
    if isinstance(duration, timedelta):
        length = _timedelta_ns(duration)
        if length < 0:
            raise ValueError(f"{name} must be finite and >= 0, got {shown(duration)}")
        return length
    try:
        return delay_ns(duration, name)
    except TypeError as error:
        raise _no_duration(duration, name) from error


def _no_duration(value: object, name: str) -> TypeError:
    kind = type(value).__name__
    return TypeError(f'{name} must be a number of seconds, a string like "1h30m" or a timedelta, got {kind}')


def _timedelta_ns(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000


def _parsed_ns(text: str, name: str) -> int:
    """ "1h30m" in nanoseconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(
            f'{name} must be seconds or like "1h30m" (units d h m s ms, falling, each once), got {shown(text)}'
        )
    total = 0
    for number, unit in zip(found.groups(), _UNITS_NS, strict=True):
        # Thirty digits of any unit are past the end of time; int() refuses to read thousands, zeros or not.
        digits = (number or "").lstrip("0")
        total += NEVER if len(digits) > 30 else int(digits or "0") * unit
    return min(total, NEVER)
