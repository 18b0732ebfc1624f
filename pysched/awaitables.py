"""What a callback must not return where nobody awaits it."""

from __future__ import annotations

__all__ = ["is_awaitable", "refuse"]


def is_awaitable(value: object) -> bool:
    """Whether ``await`` would take it: coroutines of Python and of Cython, and futures."""
    return value is not None and hasattr(type(value), "__await__")


def refuse(awaitable: object) -> TypeError:
    """Close `awaitable`, so that no warning says it was never awaited; return the error that says it was refused."""
    close = getattr(awaitable, "close", None) or getattr(awaitable, "cancel", None)
    if close is not None:
        close()
    return TypeError(f"the callback returned an awaitable ({type(awaitable).__name__}), which nothing awaits")
