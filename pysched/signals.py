"""`SignalWatch`: how SIGINT and SIGTERM end a `run()`, first gently, then at once.

Ground rules. Python calls handlers on the main thread between any two instructions of it. So the one here takes no
lock: at the first signal it leaves a mark and has the loop told to end; at the second it puts the program's handlers
back and raises, as Ctrl-C does. A third is none of its business any more: it does what it did before.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["SignalWatch"]

ROOM = 1024  # bytes, more than the `struct sigaction` of any platform


class SignalWatch:
    """For one `run()`, on the main thread: `begin` is what tells the loop to end, and must be safe in a handler."""

    def __init__(self, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._before: dict[int, tuple[Any, _Disposition | None]] = {}
        self.number: int | None = None  # of the first signal that came
        self.error: BaseException | None = None  # that the second one raised: a destructor may have swallowed it

    def install(self) -> None:
        """Be told of the signals, whatever they did before; `restore` must follow, also if this is interrupted."""
        for name in ("SIGTERM", "SIGINT"):
            number = getattr(signal, name, None)
            if number is not None:
                self._before[number] = signal.getsignal(number), _disposition(number)
                signal.signal(number, self._arrived)

    def restore(self) -> None:
        """Put the program's handlers back, where no other one has been set meanwhile. Idempotent."""
        for number, (handler, disposition) in list(self._before.items()):
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
                if disposition is not None:
                    disposition.put_back()
            self._before.pop(number, None)

    def look(self) -> None:
        """For the loop's thread at its start: a signal that came before there was a loop could not tell it to end."""
        if self.number is not None:
            self._begin()

    def _arrived(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.number is None:
            self.number = number
            self._begin()
        else:
            self._leave(number)

    def _leave(self, number: int) -> NoReturn:
        self.restore()
        # The status is what a shell gives to a program that a signal has ended.
        self.error = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
        raise self.error


class _Disposition:
    """What the operating system does at a signal: the handlers and flags too that Python's table does not know of."""

    def __init__(self, number: int) -> None:
        import ctypes

        self._number = number
        self._sigaction = ctypes.CDLL(None, use_errno=True).sigaction
        self._saved = ctypes.create_string_buffer(ROOM)
        if self._sigaction(number, None, self._saved):
            raise OSError(ctypes.get_errno(), "sigaction")

    def put_back(self) -> None:
        self._sigaction(self._number, self._saved, None)


def _disposition(number: int) -> _Disposition | None:
    """None where it cannot be had: on Windows, or in a Python without `ctypes`. Then Python's table has to do."""
    try:
        return _Disposition(number)
    except (ImportError, OSError, TypeError, AttributeError):
        return None
