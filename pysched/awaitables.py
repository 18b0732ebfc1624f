"""What a callback returns that has to be awaited."""

from __future__ import annotations

import sys

__all__ = ["discard", "is_awaitable", "is_cancellation"]


def is_awaitable(value: object) -> bool:
    """Whether ``await`` would take it: coroutines of Python and of Cython, and futures."""
    return value is not None and hasattr(type(value), "__await__")


def discard(awaitable: object) -> None:
    """Close what will not be awaited after all, so that no warning says that it never was."""
    close = getattr(awaitable, "close", None) or getattr(awaitable, "cancel", None)
    if close is not None:
        close()


def is_cancellation(error: BaseException) -> bool:
    """Whether it is asyncio's CancelledError, which nobody can have raised without importing its module."""
    module = sys.modules.get("asyncio.exceptions")
    return module is not None and isinstance(error, module.CancelledError)
