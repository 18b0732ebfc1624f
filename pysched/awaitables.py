"""What a callback returns that has to be awaited."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Coroutine
from types import FunctionType, MethodType

__all__ = ["discard", "is_async_function", "is_awaitable", "is_cancellation", "refusal_of"]

_ASYNC = 0x80 | 0x100 | 0x200  # inspect.CO_COROUTINE, CO_ITERABLE_COROUTINE and CO_ASYNC_GENERATOR, without inspect


def is_awaitable(value: object) -> bool:
    """Whether ``await`` would take it: coroutines of Python and of Cython, and futures."""
    return value is not None and hasattr(type(value), "__await__")


def is_async_function(value: object) -> bool:
    """Whether it is a function or method made by ``async def``: the call alone runs nothing of it. O(1)."""
    function = value.__func__ if type(value) is MethodType else value
    return type(function) is FunctionType and function.__code__.co_flags & _ASYNC != 0


def refusal_of(result: object) -> BaseException | None:
    """The error of a call whose `result` is a coroutine, where nobody awaits; None for any other. O(1).

    The coroutine is closed.  Tasks and futures go on without being awaited, so they are no error.
    """
    if result is None or not isinstance(result, (Coroutine, AsyncGenerator)):
        return None
    try:
        if isinstance(result, Coroutine):
            result.close()
    except BaseException as error:  # it runs elsewhere, or has begun to and objects
        return error
    return TypeError(f"the callback returned a coroutine ({type(result).__name__}), which nothing would await")


def discard(awaitable: object) -> None:
    """Close what will not be awaited after all, so that no warning says that it never was."""
    close = getattr(awaitable, "close", None) or getattr(awaitable, "cancel", None)
    if close is not None:
        close()


def is_cancellation(error: BaseException) -> bool:
    """Whether it is asyncio's CancelledError, which nobody can have raised without importing its module."""
    module = sys.modules.get("asyncio.exceptions")
    return module is not None and isinstance(error, module.CancelledError)
