"""`current_run()`: which run the caller is inside of."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from contextvars import Token

    from pysched.runner import JobRun

__all__ = ["current_run", "introduce", "leave", "managed_run"]

managed_run: ContextVar[JobRun | None] = ContextVar("pysched.current_run", default=None)
"""The run of a managed job that this context is inside of; its `Runner` sets it."""

# Those whose engines can be asked: what a job without options runs needs no record of its own. By identity, as no
# `__hash__` of a subclass is to be called; looked through by `valuerefs`, which other threads do not disturb.
_owners: WeakValueDictionary[int, Any] = WeakValueDictionary()


def leave(before: Token[JobRun | None], run: JobRun | None) -> None:
    """Take `managed_run` back from `run`, to what it was `before`.

    Where there is no memory for that, nobody is in `run` any more.
    """
    try:
        managed_run.reset(before)
    except MemoryError:
        if run is not None:
            run._lost = True


def introduce(owner: Any) -> None:
    """Let `current_run` ask the `JobOwner` of a scheduler, as long as that lives."""
    _owners[id(owner)] = owner


def current_run() -> JobRun | None:
    """The `JobRun` of the callback that calls this; None outside of one.

    The same object as long as the attempt lasts.
    """
    run = managed_run.get()
    if run is None or run._lost:
        run = None
        for known in _owners.valuerefs():
            owner = known()
            run = None if owner is None else owner.current_run()
            if run is not None:
                break
    return run
