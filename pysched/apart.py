"""What is kept from the thread on which signal handlers run.

A handler may raise in any line of Python on the main thread, Ctrl-C's for one. In `Thread.start`, which waits on a
condition of Python's own, it may leave a lock taken for ever, or end in a RuntimeError instead; in the callback of a
weak reference, which is what remains of a `Thread` or a pool when its last reference goes, it is not raised at all.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock, get_ident, start_new_thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

__all__ = ["apart", "is_on_main_thread", "is_refusal"]

Result = TypeVar("Result")


def is_on_main_thread() -> bool:
    """Whether signal handlers run on this thread."""
    return get_ident() == threading.main_thread().ident


def apart(action: Callable[[], Result]) -> Result:
    """Call `action` where no signal handler runs; return what it returns, or raise what it raises.

    The main thread waits for another one that does it. A handler that raises ends that wait, but not the action, which
    may not even have begun; what the action raises then nobody learns, so it must clear up after itself. RuntimeError
    or MemoryError, too, if there can be no thread.
    """
    if not is_on_main_thread():
        return action()
    done = allocate_lock()
    done.acquire()
    outcome: list[Any] = []
    start_new_thread(_act, (action, outcome, done))
    done.acquire()
    result, error = outcome or (None, MemoryError())
    outcome.clear()
    if error is None:
        return cast("Result", result)
    try:
        raise error
    finally:
        del error  # its traceback has this frame


def is_refusal(error: RuntimeError) -> bool:
    """Whether `apart`, called where this is caught, raised it as there can be no thread."""
    here = error.__traceback__
    there = None if here is None else here.tb_next  # that of `apart`; what is of Python has a frame below it
    return type(error) is RuntimeError and there is not None and there.tb_next is None


def _act(action: Callable[[], object], outcome: list[Any], done: LockType) -> None:
    try:
        outcome += action(), None
    except BaseException as error:
        outcome += None, error
    finally:
        done.release()
