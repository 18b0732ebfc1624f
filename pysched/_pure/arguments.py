"""Checks of arguments that have nothing to do with time: each raises an error that names the argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pysched.clock import delay_ns

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["check_callback", "check_executor", "hash_of", "items", "kind", "timeout_s"]

MAX_WORKERS = 2**20


def kind(value: object) -> str:
    return type(value).__name__


def check_callback(callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"callback must be callable, not {kind(callback)}")


def check_executor(executor: object) -> None:
    if executor is None:
        return
    if isinstance(executor, int) and not isinstance(executor, bool):
        if not 1 <= executor <= MAX_WORKERS:
            raise ValueError(f"executor, as a number of threads, must be from 1 to {MAX_WORKERS}, got {executor}")
    elif isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be None, a number of threads or an Executor, not {kind(executor)}")


def hash_of(key: Hashable) -> int:
    """Runs foreign code, and passes on what it raises."""
    try:
        return hash(key)
    except TypeError as error:
        raise TypeError(f"key must be hashable, {kind(key)} is not") from error


def items(values: Iterable[Any], name: str) -> list[Any]:
    try:
        iterator = iter(values)
    except TypeError:
        raise TypeError(f"{name} must be iterable, not {kind(values)}") from None
    return list(iterator)


def timeout_s(timeout: float | None) -> float | None:
    return None if timeout is None else delay_ns(timeout, "timeout") / 1e9
