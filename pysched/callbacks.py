"""What a callback is: whether it may be called at all, and which of its parameters the scheduler fills."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from pysched.awaitables import is_awaitable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PLAIN", "Wanted", "check_callback", "is_async", "is_simple", "name_of", "stable_name_of", "wanted_of"]

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ANYTHING = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class Wanted(NamedTuple):
    """The parameters that are filled by name."""

    cancel: bool
    ctx: bool


PLAIN = Wanted(cancel=False, ctx=False)


def is_simple(callback: object) -> bool:
    """Whether it is a plain function or method without parameters: then there is nothing more to ask. O(1), fast."""
    own = 0
    if type(callback) is MethodType:
        callback = callback.__func__
        own = 1
    if type(callback) is not FunctionType:
        return False
    code = callback.__code__
    if code.co_argcount != own or code.co_kwonlyargcount or code.co_flags & _ASYNC:
        return False
    # One that takes anything may have the signature of another, as an attribute (functools.wraps).
    return not code.co_flags & _ANYTHING or not callback.__dict__


def check_callback(callback: object) -> None:
    """Raise TypeError unless it can be called; an async generator is refused too, as nobody would take its items."""
    if not callable(callback):
        hint = ": give the function itself, not what a call of it returns" if is_awaitable(callback) else ""
        raise TypeError(f"callback must be callable, got {type(callback).__name__}{hint}")
    if any(inspect.isasyncgenfunction(each) for each in _functions_of(callback)):
        raise TypeError(f"callback {name_of(callback)} is an async generator: nothing would take what it yields")


def is_async(callback: object) -> bool:
    """Whether it is an `async def`, through `partial` and ``__call__`` too; others may return an awaitable as well."""
    return any(inspect.iscoroutinefunction(each) for each in _functions_of(callback))


def _functions_of(callback: object) -> tuple[object, object]:
    while isinstance(callback, partial):
        callback = callback.func
    return callback, inspect.getattr_static(type(callback), "__call__", None)


def wanted_of(callback: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Wanted:
    """Which of its parameters are filled: `cancel` always, `ctx` where it has no default, neither if it is bound.

    Raises TypeError naming `callback` if `args` and `kwargs` do not fit, or a parameter cannot be filled.
    """
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # a builtin that tells nothing of itself
        return PLAIN
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"callback {name_of(callback)} does not take args and kwargs: {error}") from None
    cancel = ctx = False
    for name, parameter in signature.parameters.items():
        if name in bound or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        by_name = parameter.kind is not parameter.POSITIONAL_ONLY
        if name == "cancel" and by_name:
            cancel = True
        elif parameter.default is parameter.empty:
            if name != "ctx" or not by_name:
                raise TypeError(
                    f"callback {name_of(callback)} has a parameter {name!r} that nothing fills: "
                    "give it in args or kwargs, or call it cancel or ctx"
                )
            ctx = True
    return Wanted(cancel, ctx)


def name_of(callback: object) -> str:
    """``__name__``, of what a `partial` wraps and of an object's class if it has none itself, or raises."""
    if type(callback) is FunctionType:
        return callback.__name__
    name = _text_attribute(callback, "__name__")
    while name is None and issubclass(type(callback), partial):  # `isinstance` asks the object, and a dead proxy raises
        callback = callback.func  # type: ignore[attr-defined]
        name = _text_attribute(callback, "__name__")
    return type(callback).__name__ if name is None else name


def stable_name_of(callback: object) -> str:
    """Module and ``__qualname__``, or the name where there is none: the same in every process."""
    while issubclass(type(callback), partial):
        callback = callback.func  # type: ignore[attr-defined]
    name = _text_attribute(callback, "__qualname__")
    return f"{_text_attribute(callback, '__module__') or ''}.{name_of(callback) if name is None else name}"


def _text_attribute(callback: object, attribute: str) -> str | None:
    """None if it is no text; a view of all jobs does not fail for one whose attributes raise."""
    try:
        value = getattr(callback, attribute, None)
    except Exception:
        return None
    return value if isinstance(value, str) else None
