"""An engine as simple as can be: a list of timers, searched from end to end.

It knows ManualClock only, and says what engines do there; test_state_machine.py holds both engines to it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from pysched.stats import EngineStats, Lateness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pysched.testing import ManualClock


def nanoseconds(seconds: float) -> int:
    """`seconds` in ns, rounded up, but a product within its own error of a whole number is that number."""
    product = seconds * 1e9
    nearest = round(product)
    return nearest if abs(product - nearest) <= abs(product) * 2.0**-52 else ceil(product)


def upper_edge(ns: int) -> int:
    """The upper edge of the histogram's bucket that holds `ns`: 16 buckets an octave."""
    if ns < 16:
        return ns
    shift = ns.bit_length() - 5
    return (((ns >> shift) + 1) << shift) - 1


class ModelTimer:
    def __init__(self, due: int, order: int, period: int, callback: Any, args: tuple, key: object) -> None:
        self.due, self.order, self.period = due, order, period
        self.callback, self.args, self.key = callback, args, key
        self.busy_until = 0
        self.ended = False


class ModelHandle:
    def __init__(self, engine: ModelEngine, timer: ModelTimer) -> None:
        self.engine, self.timer, self.known, self.mine = engine, timer, timer.due, False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelHandle) and self.timer is other.timer

    def __hash__(self) -> int:
        return id(self.timer)

    def cancel(self) -> bool:
        if self.done():
            return False
        self.known, self.mine = self.timer.due, True
        self.engine.end(self.timer)
        return True

    def when(self) -> float:
        return (self.known if self.done() else self.timer.due) / 1e9

    def cancelled(self) -> bool:
        return self.mine

    def done(self) -> bool:
        return self.timer.ended


class ModelEngine:
    def __init__(self, *, clock: ManualClock, on_error: Callable[[BaseException, ModelHandle], object]) -> None:
        self.clock, self.on_error, self.age = clock, on_error, clock.enlist()
        self.timers: list[ModelTimer] = []
        self.lateness: list[int] = []
        self.order = self.scheduled = self.started = self.cancelled = self.coalesced = self.errors = 0
        self.inside = self.started_at = 0
        self.running = False

    # registering

    def add(self, due: int, callback: Any, args: tuple, *, period: int = 0, key: object = None) -> ModelHandle:
        if key is not None:
            self.cancel_key(key)
        self.order += 1
        self.scheduled += 1
        timer = ModelTimer(due, self.order, period, callback, args, key)
        self.timers.append(timer)
        return ModelHandle(self, timer)

    def call_later(self, delay: float, callback: Any, *args: Any, key: object = None) -> ModelHandle:
        return self.add(self.clock.time_ns() + nanoseconds(delay), callback, args, key=key)

    def call_at(self, when: float, callback: Any, *args: Any, key: object = None) -> ModelHandle:
        return self.add(max(nanoseconds(when), self.clock.time_ns()), callback, args, key=key)

    def call_every(
        self, interval: float, callback: Any, *args: Any, delay: float | None = None, key: object = None
    ) -> ModelHandle:
        due = self.clock.time_ns() + nanoseconds(interval if delay is None else delay)
        return self.add(due, callback, args, period=nanoseconds(interval), key=key)

    def call_many(self, delays: Iterable[float], callback: Any, args: Iterable[tuple]) -> int:
        return len([self.call_later(delay, callback, *more) for delay, more in zip(delays, args, strict=True)])

    # ending

    def end(self, timer: ModelTimer) -> None:
        self.drop(timer)
        self.cancelled += 1

    def drop(self, timer: ModelTimer) -> None:
        self.timers.remove(timer)
        timer.ended = True

    def cancel_key(self, key: object) -> bool:
        for timer in self.timers:
            if timer.key == key:
                self.end(timer)
                return True
        return False

    # running

    def start(self) -> None:
        if not self.running:
            self.running, self.started_at = True, self.clock.time_ns()
            self.clock.attach(self.age, self)

    def stop(self) -> bool:
        self.running = False
        self.clock.detach(self)
        return True

    def earliest(self) -> ModelTimer | None:
        return min(self.timers, key=lambda timer: (timer.due, timer.order), default=None)

    def _next_due_ns(self) -> int | None:
        timer = self.earliest()
        return timer.due if timer else None

    def _next_alarm_ns(self) -> None:
        """It has no time-outs."""

    def _run_next(self, now: int) -> bool:
        timer = self.earliest()
        if timer is None or timer.due > now:
            return False
        slot = timer.due
        if timer.period:
            slots = range(timer.due, max(now, timer.busy_until) + timer.period, timer.period)
            self.order += 1
            timer.order = self.order
            runnable = [slot for slot in slots if timer.busy_until <= slot <= now]
            if not runnable:
                timer.due = next(slot for slot in slots if slot >= timer.busy_until)
                self.coalesced += slots.index(timer.due)
                return False
            slot = runnable[-1]
            self.coalesced += slots.index(slot)
            timer.due = slot + timer.period
        else:
            self.drop(timer)
        self.lateness.append(now - max(slot, self.started_at))
        self.started += 1
        self.inside += 1
        try:
            timer.callback(*timer.args)
        except BaseException as error:
            self.errors += 1
            self.on_error(error, ModelHandle(self, timer))
        self.inside -= 1
        timer.busy_until = self.clock.time_ns()
        return True

    # looking

    def __len__(self) -> int:
        return len(self.timers)

    def next_deadline(self) -> float | None:
        timer = self.earliest()
        return timer.due / 1e9 if timer else None

    def stats(self) -> EngineStats:
        late = sorted(self.lateness)

        def percentile(per_mille: int) -> float:
            return min(upper_edge(late[-(-per_mille * len(late) // 1000) - 1]), late[-1]) / 1e9

        lateness = Lateness(0, 0.0, 0.0, 0.0, 0.0)
        if late:
            lateness = Lateness(len(late), percentile(500), percentile(990), percentile(999), late[-1] / 1e9)
        return EngineStats(
            self.scheduled, self.started, self.cancelled, self.coalesced, self.errors, 0, 0, self.inside,
            len(self.timers), 0, 0, lateness,
        )  # fmt: skip

    def _check(self) -> None:
        assert len({timer.key for timer in self.timers} - {None}) == len(
            [timer for timer in self.timers if timer.key is not None]
        )
