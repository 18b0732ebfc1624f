"""The clock protocol, the system's clock, the protocol of clocks that drive what they time, and units.

Time is in integer nanoseconds everywhere behind the public methods, which take seconds: the three
conversions at the end are that edge. Only ``wait`` takes seconds, as the waits of `threading` do.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "NEVER",
    "NS",
    "Clock",
    "Driven",
    "DrivingClock",
    "SystemClock",
    "WaitEvent",
    "delay_ns",
    "instant_ns",
    "interval_ns",
]

NS = 1_000_000_000
"""A second, in nanoseconds."""

NEVER = 2**63 - 1
"""The end of time, in nanoseconds: sums and conversions saturate here, and what is due then never comes."""


class WaitEvent(Protocol):
    """What a clock is given to wait for: the reading half of `threading.Event`."""

    def is_set(self) -> bool:
        """Whether there is a reason to end the wait."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds (None: without limit); returns ``is_set()``."""


@runtime_checkable
class Clock(Protocol):
    """A source of time. Any object with these three methods will do."""

    def time_ns(self) -> int:
        """Monotonic nanoseconds since an arbitrary origin; never goes back."""

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; may step either way."""

    def wait(self, event: WaitEvent, timeout: float | None) -> None:
        """Return when `event` is set or `timeout` seconds of this clock have passed (None: never).

        It may return early, for any reason: the engine looks at the clock again and waits anew.
        """


class SystemClock:
    """`time.monotonic_ns` and `time.time_ns`."""

    def time_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    def wait(self, event: WaitEvent, timeout: float | None) -> None:
        event.wait(timeout)


class Driven(Protocol):
    """What a `DrivingClock` runs: an engine, or a scheduler above one.

    Or an event loop, which has `_next_step_ns` besides: when it is to be run although a callback sleeps, or None.
    """

    def _next_due_ns(self) -> int | None:
        """Due time of the earliest live timer; None if there is none or it never comes."""

    def _run_next(self, now_ns: int) -> bool:
        """Run the one earliest timer due at or before `now_ns`, to its end, here; False if none was."""

    def _next_alarm_ns(self) -> int | None:
        """Due time of the earliest time-out of a run; None if there is none."""

    def _run_alarm(self) -> None:
        """Run that time-out, here, whatever else is due before it."""


class DrivingClock(ABC):
    """A clock that runs what it drives on the thread that moves it; nothing ever waits for it.

    An engine on such a clock starts no thread: it enlists when it is made, attaches when it is
    started, and is run until it detaches.
    """

    @abstractmethod
    def time_ns(self) -> int:
        """As `Clock.time_ns`."""

    @abstractmethod
    def wall_ns(self) -> int:
        """As `Clock.wall_ns`."""

    @abstractmethod
    def wait(self, event: WaitEvent, timeout: float | None) -> None:
        """As `Clock.wait`; a driven engine never calls it."""

    @abstractmethod
    def enlist(self) -> int:
        """The age of a newcomer: at one instant the lower age goes first."""

    @abstractmethod
    def attach(self, age: int, driven: Driven) -> None:
        """Drive `driven`, and keep it alive, until it detaches."""

    @abstractmethod
    def detach(self, driven: Driven) -> None:
        """Drive `driven` no longer; nothing happens if it was not attached."""

    @abstractmethod
    def sleep_until(self, over: Callable[[], bool], duration: float | None) -> None:
        """Let `duration` seconds pass, or less once ``over()``.

        Nothing starts meanwhile but time-outs of runs; coroutines that have begun go on. Without limit if `duration`
        is None: RuntimeError if no time-out is left that could end it.
        """


def delay_ns(value: object, name: str) -> int:
    """Seconds to nanoseconds, for a delay or a time-out: finite and >= 0.

    Rounded up, so that nothing is early, except where the product is within its own rounding error
    of a whole number: 0.3 s are 300,000,000 ns. Whole numbers are exact. Saturates at `NEVER`.

    Raises:
        TypeError: `value` is no real number, or is a bool.
        ValueError: it breaks the rule. Both name the argument, `name`.
    """
    rule = "finite and >= 0"
    number = _number(value, name, rule)
    if number < 0:
        raise ValueError(f"{name} must be {rule}, got {float(number)}")
    return _rounded_up(number)


def interval_ns(value: object, name: str) -> int:
    """As `delay_ns`, for an interval: finite and > 0, and at least a nanosecond."""
    rule = "finite and > 0"
    number = _number(value, name, rule)
    if number <= 0:
        raise ValueError(f"{name} must be {rule}, got {float(number)}")
    return _rounded_up(number)


def instant_ns(value: object, name: str) -> int:
    """As `delay_ns`, for a point in time or a signed step: finite. Saturates at both ends."""
    return _rounded_up(_number(value, name, "finite"))


def _number(value: object, name: str, rule: str) -> int | float:
    """`value` as an int or a finite float; an int that fits no float counts as infinite."""
    kind = type(value)
    if kind is not float:
        if (
            issubclass(kind, (bool, str))
            or not (hasattr(kind, "__float__") or hasattr(kind, "__index__"))
            or _is_no_real_number(value)
        ):
            raise TypeError(f"{name} must be a number of seconds, got {kind.__name__}")
        try:
            number = float(value)  # type: ignore[arg-type]
        except TypeError as error:  # an array, say, which has __float__ as long as it has one element
            raise TypeError(f"{name} must be a number of seconds: {error}") from error
        except OverflowError:
            raise ValueError(f"{name} must be {rule}, got a number too large for a float") from None
        except ValueError as error:  # a signaling NaN of `decimal`
            raise ValueError(f"{name} must be {rule}: {error}") from error
        if isinstance(value, int):
            return value
        value = number
    if not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be {rule}, got {value}")
    return value  # type: ignore[return-value]


def _is_no_real_number(value: object) -> bool:
    """Whether this is a truth value or a complex number of NumPy's, or an array of them, which have ``__float__`` too.

    Told by the kind of its dtype: the class is named ``bool`` or ``bool_``, depending on the version, and
    arrays of other libraries that keep to NumPy's types are not of NumPy's classes.
    """
    return getattr(getattr(value, "dtype", None), "kind", None) in ("b", "c")


def _rounded_up(number: float) -> int:
    if isinstance(number, int):
        return max(-NEVER, min(number * NS, NEVER))
    product = number * 1e9
    if abs(product) >= NEVER:
        return NEVER if product > 0 else -NEVER
    nearest = round(product)
    if abs(product - nearest) <= abs(product) * 2.0**-52:
        return nearest
    return math.ceil(product)
