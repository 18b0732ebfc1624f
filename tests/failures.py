"""Allocations that fail when a test wants them to.

Those that engine/ makes in C, in a debug build (PYSCHED_DEBUG=1, engine/memory.pxd), and those of the interpreter where
CPython's own module for tests is (`_testcapi`). The other allocations are left alone.
"""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from conftest import chosen_engines, live_objects

_testcapi: Any = None
if sys.version_info < (3, 12):  # later ones crash by themselves: a closure for which there is no memory is enough
    with suppress(ImportError):  # many systems leave it out
        import _testcapi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL = 1 << 30
"""As a count: all that follow fail, too."""

ENOUGH = 12
"""Nobody says whether one of the interpreter has failed: after so many calls without a MemoryError none did."""


def memory() -> Any:
    """The module of the compiled engine that lets allocations fail."""
    return importlib.import_module("pysched._engine.memory")


def has_failures_in_c() -> bool:
    if "native" not in chosen_engines():
        return False
    works = memory().fail_allocations(ALL)
    memory().end_failures()
    return bool(works)


in_c = pytest.mark.skipif(not has_failures_in_c(), reason="needs a debug build of the compiled engine")
in_python = pytest.mark.skipif(_testcapi is None, reason="needs _testcapi of CPython 3.10 or 3.11")


def skip_where_python_leaks(allocator: str) -> None:
    """Skip in debug builds, which look for leaks, what runs closures: CPython 3.11 loses arguments that need a cell."""
    if allocator == "Python" and live_objects() is not None:
        pytest.skip("CPython 3.11 itself leaks where the library's Python code has no memory for a closure")


ALLOCATORS = [
    pytest.param("C", marks=in_c),
    pytest.param("C, all that follow", marks=in_c),
    pytest.param("Python", marks=in_python),
]
"""Whose allocations fail: parameters of `fail_in_turn`."""
IN_C = ALLOCATORS[:2]


@contextmanager
def failing_in_c(number: int, count: int = 1, *, of_all_threads: bool = False) -> Iterator[Callable[[], int]]:
    """The engine's allocations from the `number`-th on fail, `count` of them; gives how many did, to be asked later."""
    failed = 0
    memory().fail_allocations(number, count, of_all_threads=of_all_threads)
    try:
        yield lambda: failed
    finally:
        failed = memory().end_failures()


def keep_locks_in_order() -> None:
    """Let CPython keep some memory for the end of ``with lock``, which calls `__exit__` with a tuple of three.

    Without it a ``with`` raises MemoryError and leaves the lock taken, and nothing written in Python can mend that. A
    collection has given back what was kept.
    """
    _ = [(number, number, number) for number in range(100)]


def attempt(operation: Callable[[], object], allocator: str, number: int) -> tuple[bool, bool]:
    """Call `operation` while one allocation fails: whether one may have, and whether it raised MemoryError.

    Whatever else it raises comes out. Nothing is allocated here meanwhile.
    """
    raised = False
    if allocator == "Python":
        keep_locks_in_order()
        collecting = gc.isenabled()
        gc.disable()  # a collection tells who has asked for it (Hypothesis has), and they would fail, too
        _testcapi.set_nomemory(number - 1, number)
        try:
            operation()
        except MemoryError:
            raised = True
        except RuntimeError as error:
            if "can't allocate lock" not in str(error):  # as CPython says when there is no memory for one of its locks
                raise
            raised = True
        finally:
            _testcapi.remove_mem_hooks()
            if collecting:
                gc.enable()
        return True, raised
    memory().fail_allocations(number, 1 if allocator == "C" else ALL)
    try:
        operation()
    except MemoryError:
        raised = True
    finally:
        failed = memory().end_failures()
    return failed > 0, raised


class Case:
    """One call that is to be made while memory is short."""

    atomic = True
    """Whether it changes nothing if it raises MemoryError: of all, or of the engine's own allocations ("C")."""

    def __init__(self, operation: Callable[[], object]) -> None:
        self.operation = operation

    def look(self) -> object:
        """What must not have changed when it has raised MemoryError."""

    def goes_on(self) -> None:
        """Asserts that all is well and that something ordinary works."""

    def is_atomic(self, allocator: str) -> bool:
        return self.atomic is True or allocator.startswith(str(self.atomic))


def fail_in_turn(arrange: Callable[[], Case], allocator: str) -> int:
    """Let the first allocation of a case's operation fail, in another one the second, and so on, until none does.

    Each time the operation succeeds, as the memory was for something that it can do without, or raises MemoryError
    with nothing changed or left behind, and works afterwards. Returns how often it raised.
    """
    number, raises, unhurt = 0, 0, 0
    while unhurt < (ENOUGH if allocator == "Python" else 1):
        number += 1
        assert number < 3000, "it never succeeds"
        case = arrange()
        lived = live_objects()  # first: it collects the cases before, which may count where this one looks
        before = case.look()
        failed, raised = attempt(case.operation, allocator, number)
        if raised:
            raises += 1
            unhurt = 0
            if case.is_atomic(allocator):
                assert case.look() == before, f"changed, although allocation {number} has failed"
                assert live_objects() == lived, f"left something behind as allocation {number} has failed"
                case.operation()
        elif not failed or allocator == "Python":
            unhurt += 1
        case.goes_on()
    return raises
