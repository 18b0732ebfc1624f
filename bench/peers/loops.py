"""The loops that are timed of all whose API is like that of an event loop, so that nobody's is another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.workload import delays, keys, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Timed = Callable[[], None]
    Pairs = Sequence[tuple[float, str]]

__all__ = ["adding", "adding_keyed", "cancelling", "keeping", "pairs", "removing"]


def adding(call_later: Callable[..., object], count: int) -> Timed:
    """`call_later(delay, callback)`, what it returns dropped."""
    waits = delays(count)

    def timed() -> None:
        for delay in waits:
            call_later(delay, nothing)

    return timed


def keeping(call_later: Callable[..., object], count: int) -> Timed:
    """The same, what it returns kept."""
    waits = delays(count)
    kept: list[object] = []

    def timed() -> None:
        keep = kept.append
        for delay in waits:
            keep(call_later(delay, nothing))

    return timed


def cancelling(handles: Iterable[Any]) -> Timed:
    def timed() -> None:
        for handle in handles:
            handle.cancel()

    return timed


def pairs(count: int) -> Pairs:
    """Delays, each with a new key."""
    return list(zip(delays(count), keys(count), strict=True))


def adding_keyed(add: Callable[..., object], waits: Pairs) -> Timed:
    """`add(delay, callback, key)`."""

    def timed() -> None:
        for delay, key in waits:
            add(delay, nothing, key)

    return timed


def removing(remove: Callable[[str], object], names: Iterable[str]) -> Timed:
    """`remove(key)`."""

    def timed() -> None:
        for key in names:
            remove(key)

    return timed
