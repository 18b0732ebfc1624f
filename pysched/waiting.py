"""Waits that a signal handler or a destructor may end.

A `threading.Event` holds a lock of its own for a moment in ``set``; a signal handler that calls
``set`` just then, on the same thread, waits for itself. A raw lock used as a binary semaphore has
no such moment: one call, no state in between. That is all there is here.

(Not a `SimpleQueue`, whose ``get`` waits for ever if a signal comes at the very end of its time-out.)
"""

from __future__ import annotations

import time
from _thread import TIMEOUT_MAX, LockType, allocate_lock, get_ident
from typing import TYPE_CHECKING

from pysched.refusals import raised_here

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

__all__ = ["Waiters", "WakeEvent", "breathe", "join"]

_joins: set[tuple[int, Thread]] = set()
"""Who is in `join` just now, and for whom."""


def breathe() -> None:
    """Do nothing, in Python: the interpreter looks for other threads and signals at the start of a function."""


def _semaphore() -> LockType:
    """A lock that is taken: the next ``acquire`` waits for a ``release``, by whichever thread."""
    lock = allocate_lock()
    lock.acquire()
    return lock


def _permit(semaphore: LockType) -> None:
    """Let one ``acquire`` through, now or later; permits do not add up."""
    try:
        semaphore.release()
    except RuntimeError as error:
        if not raised_here(error):  # else there was a permit already
            raise


def _acquire(semaphore: LockType, timeout: float | None) -> None:
    """Wait for a permit, at most `timeout` seconds; signal handlers run meanwhile, and may raise."""
    semaphore.acquire(True, -1 if timeout is None else min(max(timeout, 0.0), TIMEOUT_MAX))


def join(thread: Thread, deadline: float | None) -> None:
    """Wait for the end of a thread, if it has begun, until the `deadline` of `time.monotonic()` (None: without limit).

    `Thread.join` and `is_alive` take a lock of the thread's for a moment. A signal handler or destructor that comes in
    just then, on the same thread, and joins as well would wait for itself: here it returns at once, and who was
    interrupted goes on to wait.
    """
    mine = get_ident(), thread
    if mine in _joins:
        return
    try:
        _joins.add(mine)
        if thread.is_alive():
            thread.join(None if deadline is None else min(max(0.0, deadline - time.monotonic()), TIMEOUT_MAX))
    finally:
        _joins.discard(mine)


def _wait_for(predicate: Callable[[], bool], semaphore: LockType, deadline: float | None) -> bool:
    while not predicate():
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0.0:
            return False
        _acquire(semaphore, remaining)
    return True


class WakeEvent:
    """`threading.Event` for one waiting thread, whose ``set`` is safe in signal handlers and destructors."""

    __slots__ = ("_flag", "_semaphore")

    def __init__(self) -> None:
        self._flag = False
        self._semaphore = _semaphore()

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        _permit(self._semaphore)

    def clear(self) -> None:
        """Only for the waiting thread, which must look at the state that ``set`` announces afterwards."""
        self._flag = False
        self._semaphore.acquire(False)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds (None: without limit). It may return early."""
        if not self._flag:
            _acquire(self._semaphore, timeout)
        return self._flag


class Waiters:
    """Threads that wait for a condition which other threads bring about and announce."""

    __slots__ = ("_semaphores",)

    def __init__(self) -> None:
        self._semaphores: list[LockType] = []

    def __bool__(self) -> bool:
        """Whether anybody waits; who brings a condition about may ask first."""
        return bool(self._semaphores)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until ``predicate()`` is true, at most `timeout` seconds (None: without limit).

        Returns whether it was. The predicate runs on the calling thread, with nothing held.
        On the main thread a Ctrl-C ends the wait.
        """
        if predicate():
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        semaphore = _semaphore()
        try:
            # Listed before the next look at the condition: an announcement in between leaves a permit.
            self._semaphores.append(semaphore)
            return _wait_for(predicate, semaphore, deadline)
        finally:
            if semaphore in self._semaphores:  # not if Ctrl-C came before it was listed
                self._semaphores.remove(semaphore)

    def notify(self) -> None:
        """Make every waiting thread look at its condition again. Takes no lock.

        Who brings about the condition under a lock that its predicate takes may call this first, under the same
        lock: then nothing that is raised in between, by a signal handler say, can keep it from those who wait.
        """
        for semaphore in tuple(self._semaphores):
            _permit(semaphore)
