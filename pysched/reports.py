"""How errors leave an engine: through the one logger, `pysched`, without ever raising.

No handler is installed and nothing is logged in the tick path.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

__all__ = ["call_handler", "log_error", "log_warning", "logger", "printable"]


def logger() -> logging.Logger:
    """The logger `pysched`; `logging` is imported by the first who needs it."""
    import logging

    return logging.getLogger("pysched")


def printable(text: str) -> str:
    """On one line: what cannot be printed is escaped, so that no name can pass for a line of the log. O(n)."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def log_error(message: str, error: BaseException) -> BaseException | None:
    """Log `error` with its traceback, at ERROR. What a logging handler raises goes to `sys.unraisablehook`.

    It is returned as well: it may be a Ctrl-C, which came while the log was written.
    """
    try:
        logger().error("%s", printable(message), exc_info=(type(error), error, error.__traceback__))
    except BaseException as failure:
        _last_resort(message, failure)
        return failure
    return None


def log_warning(message: str) -> None:
    """Log at WARNING, as `log_error` does."""
    try:
        logger().warning("%s", printable(message))
    except BaseException as failure:
        _last_resort(message, failure)


def call_handler(
    handler: Callable[..., object], error: BaseException, subject: object, whose: str = ""
) -> BaseException | None:
    """Call ``handler(error, subject)``, an `on_error` of the user's; what it raises is logged and returned.

    `whose`: what the line in the log begins with. What the log raises is returned instead if it is a Ctrl-C.
    """
    try:
        handler(error, subject)
    except BaseException as failure:
        if failure.__context__ is None:
            failure.__context__ = error  # so that the log tells both
        unlogged = log_error(
            f"{whose}: on_error raised an exception" if whose else "on_error raised an exception", failure
        )
        return unlogged if isinstance(unlogged, KeyboardInterrupt) else failure
    return None


def _last_resort(message: str, failure: BaseException) -> None:
    if isinstance(failure, ImportError) and sys.is_finalizing():
        return  # a destructor at the end of the interpreter, when there is no `logging` any more
    _Unlogged(message, failure)


class _Unlogged:
    """What could not be logged; let go of at once, it is told to `sys.unraisablehook` by Python itself.

    For what the hook takes can be made by Python alone, and the hook that a program has by default takes nothing else.
    """

    def __init__(self, message: str, failure: BaseException) -> None:
        self._message = message
        self._failure = failure

    def __repr__(self) -> str:
        return f"pysched, while it logged {self._message!r}"

    @property
    def __del__(self) -> _Unlogged:
        """Not a function, since what is shown as the place of the failure is what is called here."""
        return self

    def __call__(self) -> None:
        try:
            raise self._failure
        finally:
            del self  # whoever keeps the failure keeps its traceback, and that this frame
