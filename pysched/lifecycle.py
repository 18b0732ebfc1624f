"""What engines do at the end of the interpreter, and in a forked child.

Ground rules. The table holds weak references, keyed by identity, so that no ``__eq__`` or
``__hash__`` of a subclass ever runs; every access is one dict operation, so no lock is needed.

An engine registers when it is made, and offers:

``_at_exit()``               stop, without waiting;
``_after_fork_in_child()``   be a stopped engine, whatever the parent's threads were doing;
``_before_fork()``, ``_after_fork_in_parent()``   optional: hold still while the process is copied.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from pysched.apart import apart, is_refusal
from pysched.reports import log_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["arm", "exiting", "leave_pool", "register", "stops_before_pools"]

_engines: dict[int, ref[Any]] = {}
_held: dict[int, list[Any]] = {}  # forking thread -> the engines that hold still for it
_armed = False
_early = False
_exiting = False


def register(engine: Any) -> None:
    """Make `engine` take part in exit and fork, until it is collected. Idempotent, O(1)."""
    identity = id(engine)
    known = _engines.get(identity)
    if known is not None and known() is engine:
        return
    _engines[identity] = ref(engine, partial(_forget, identity))


def _forget(identity: int, gone: ref[Any]) -> None:
    if _engines.get(identity) is gone:
        del _engines[identity]


def arm() -> None:
    """See to it that the exit of the interpreter stops the engines; every start of a loop calls it.

    Python joins the threads of its pools before ``atexit`` runs, and a drain whose queue never
    empties then never ends. Only hooks of `threading` run earlier, last registered first: so the
    module of the pools is imported first, whether or not this engine uses one. That costs a few
    milliseconds, hence not at import.
    """
    if _armed:
        return
    try:
        apart(_arm)  # a signal handler that raises amid an import may leave the module's lock taken for ever
    except RuntimeError as error:
        if not is_refusal(error):
            raise
        _arm()  # a `run` needs no thread


def _arm() -> None:
    global _armed, _early
    import threading

    try:
        import concurrent.futures.thread  # noqa: F401

        hook: Callable[[Callable[[], None]], object] = threading._register_atexit  # type: ignore[attr-defined]
        hook(_at_exit)
        _early = True
    except AttributeError:
        import atexit

        atexit.register(_at_exit)
    except RecursionError:  # one as well, of a caller that is deep down
        raise
    except RuntimeError:  # either says so: the hooks have run, the interpreter is ending
        _at_exit()
    _armed = True


def leave_pool(pool: Any) -> None:
    """In a forked child: let this thread, a worker of `pool` whose callback has forked, end with the call at hand.

    It would wait for ever for work that nobody gives, and the child with it. `shutdown` will not do: it takes a lock
    that a thread may have had which is not in the child. What is touched here is private, and guarded.
    """
    queue = getattr(pool, "_work_queue", None)
    if queue is not None:
        pool._shutdown = True
        queue.put(None)


def stops_before_pools() -> bool:
    """Whether engines are stopped before Python joins the threads of its pools; known after `arm`."""
    return _early


def exiting() -> bool:
    """Whether the interpreter is ending: nothing new starts, and a loop that fails is no news any more.

    What callbacks and commands raise is: those that run at the exit of the program are waited for, and their
    errors are reported as ever.
    """
    return _exiting or sys.is_finalizing()


def _live() -> list[Any]:
    engines = [known() for known in list(_engines.values())]
    return [engine for engine in engines if engine is not None]


def _at_exit() -> None:
    global _exiting
    _exiting = True
    for engine in _live():
        engine._at_exit()


def _before_fork() -> None:
    held = _held[get_ident()] = []
    # By identity: two threads that fork at once then take the locks in the same order.
    for engine in sorted(_live(), key=id):
        if hasattr(engine, "_before_fork"):
            engine._before_fork()
            held.append(engine)


def _after_fork_in_parent() -> None:
    for engine in _held.pop(get_ident(), ()):
        engine._after_fork_in_parent()


def _after_fork_in_child() -> None:
    _held.clear()
    for engine in _live():
        _reset_in_child(engine)


def _reset_in_child(engine: Any) -> None:
    try:
        engine._after_fork_in_child()
    except BaseException as error:  # a user's clock, say; the other engines are to be whole all the same
        log_error("an engine could not be reset in a forked child", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
