"""`TimerHandle`: a timer, as its user holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, final

if TYPE_CHECKING:
    from pysched._pure.core import Core
    from pysched._pure.timers import Timer

__all__ = ["TimerHandle", "new_handle"]


@final
class TimerHandle:
    """One timer of an engine, which makes the handle.  Handles of the same timer are equal and hash alike.

    It keeps neither callback nor arguments alive once the timer has ended.  All methods are safe in any thread and
    in destructors, work after the timer has ended, and are O(1), `cancel` amortised.  It can be neither copied nor
    pickled.
    """

    __slots__ = ("__weakref__", "_cancelled", "_core", "_due_ns", "_timer")

    _core: Core
    _timer: Timer
    _due_ns: int
    _cancelled: bool

    def __init__(self) -> None:
        raise TypeError("handles are made by an engine")

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'TimerHandle' is not an acceptable base type")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'TimerHandle' object")  # nor copy: a handle stands for its timer

    def cancel(self) -> bool:
        """Cancels the timer: True exactly if that prevented a run that would have come.

        Of a one-shot: until its callback starts.  Of a periodic timer True the first time, also while it runs: that
        run goes on, no other starts.  Callback and arguments are released at once.
        """
        if not self._core.cancel(self._timer):
            return False
        self._due_ns = self._timer.due_ns
        self._cancelled = True
        return True

    def when(self) -> float:
        """When the timer is next due, in seconds of the engine's `time()`.

        Of a timer that has ended: the due time known when this handle was made, or when its `cancel()` returned
        True.
        """
        due_ns = self._timer.due_ns
        return (due_ns if self._timer.live else self._due_ns) / 1e9

    def cancelled(self) -> bool:
        """Whether `cancel()` of this handle has returned True."""
        return self._cancelled

    def done(self) -> bool:
        """Whether nothing of this timer will start any more; a one-shot is done as soon as it starts."""
        return not self._timer.live

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimerHandle):
            return NotImplemented
        return self._timer is other._timer

    def __hash__(self) -> int:
        return hash(self._timer)

    def __repr__(self) -> str:
        timer = self._timer
        state = "pending" if timer.live else "cancelled" if self._cancelled else "done"
        period = f" every {timer.period_ns / 1e9} s" if timer.period_ns else ""
        return f"<TimerHandle {state}, due {self.when()}{period}>"


def new_handle(core: Core, timer: Timer) -> TimerHandle:
    handle = TimerHandle.__new__(TimerHandle)
    handle._core = core
    handle._timer = timer
    handle._due_ns = timer.due_ns
    handle._cancelled = False
    return handle
