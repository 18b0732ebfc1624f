"""Checks of arguments that have nothing to do with time: each raises an error that names the argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched.awaitables import is_async_function
from pysched.clock import delay_ns
from pysched.text import shown

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = [
    "MAX_WORKERS",
    "check_callback",
    "check_clock",
    "check_executor",
    "check_handler",
    "checked_name",
    "hash_of",
    "items",
    "kind",
    "timeout_s",
]

MAX_WORKERS = 2**20


def kind(value: object) -> str:
    return type(value).__name__


def check_callback(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {kind(callback)}")
    if is_async_function(callback):
        raise TypeError("callback must not be async: nothing would await it")


def check_handler(on_error: object) -> None:
    if on_error is not None and not callable(on_error):
        raise TypeError(f"on_error must be callable, got {kind(on_error)}")


def check_clock(clock: object) -> None:
    methods = ("time_ns", "wall_ns", "wait")
    if isinstance(clock, type) or not all(callable(getattr(clock, method, None)) for method in methods):
        raise TypeError(f"clock must have time_ns, wall_ns and wait, got {kind(clock)}")


def checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {kind(name)}")
    if not name:
        raise ValueError("name must not be empty")
    return str.__str__(name)  # plain text also of a subclass, an enumeration's member say


def check_executor(executor: object, daemon: object = False) -> None:
    """Both as `Engine` takes them."""
    if not isinstance(daemon, bool):
        raise TypeError(f"daemon must be a bool, got {kind(daemon)}")
    if executor is None:
        return
    if isinstance(executor, bool):
        raise TypeError("executor must be None, a number of workers or an Executor, got a bool")
    if isinstance(executor, int):
        if not 1 <= executor <= MAX_WORKERS:
            raise ValueError(
                f"executor, as a number of workers, must be from 1 to {MAX_WORKERS}, got {shown(executor)}"
            )
    elif isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be None, a number of workers or an Executor, got {kind(executor)}")
    elif daemon:
        raise ValueError("daemon needs a number of workers: the threads of an executor are its own")


def hash_of(key: Hashable) -> int:
    """Runs foreign code, and passes on what it raises."""
    try:
        return hash(key)
    except TypeError as error:
        raise TypeError(f"key must be hashable: {error}") from error


def items(values: Any, name: str, rule: str) -> list[Any]:
    """The elements of an iterable; a text, whose elements are texts, is none."""
    is_iterable = hasattr(type(values), "__iter__") or hasattr(type(values), "__getitem__")
    if not is_iterable or isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{name} must be {rule}, got {kind(values)}")
    try:
        return list(values)
    except (TypeError, NotImplementedError) as error:  # of arrays with no dimension, or with several
        raise TypeError(f"{name} must be {rule}: {error}") from error


def timeout_s(timeout: float | None) -> float | None:
    return None if timeout is None else delay_ns(timeout, "timeout") / 1e9
