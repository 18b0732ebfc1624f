"""The floor, in C++, compiled on the spot with the optimisation that the engine is built with (-O3).

`std::priority_queue` is called through ctypes, in this process, one call for all operations. It holds nothing but
nodes: no callback, no reference count, no lock, no cancellation. As a peer of the heap it is an equal, as a peer of
`call_many` a floor. One difference is ours: the engine asks the kernel for huge pages, `std::vector` does not.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from array import array
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Unavailable
from bench.workload import times_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.workload import Plan

__all__ = ["drain", "lateness", "pending", "push"]

FOLDER = Path(__file__).parent
BUILT = FOLDER.parent.parent / "build" / "bench"
COMPILERS = ("c++", "g++", "clang++")


def _compiled(name: str) -> ctypes.CDLL:
    """Compiled once a source, so that each measuring process need not."""
    source = FOLDER / f"{name}.cpp"
    target = BUILT / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.so"
    if not target.exists():
        compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
        if compiler is None:
            raise Unavailable("no C++ compiler")
        BUILT.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread", str(source), "-o", str(fresh)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise Unavailable(f"{Path(compiler).name} cannot build {source.name}")
        fresh.replace(target)
    return ctypes.CDLL(str(target))


@cache
def _queues() -> ctypes.CDLL:
    library = _compiled("priority_queue")
    library.queue_new.restype = ctypes.c_void_p
    library.queue_free.argtypes = [ctypes.c_void_p]
    library.queue_push_all.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.queue_pop_all.argtypes = [ctypes.c_void_p]
    library.queue_pop_all.restype = ctypes.c_size_t
    return library


@contextmanager
def _queue() -> Iterator[tuple[ctypes.CDLL, int]]:
    library = _queues()
    queue = library.queue_new()
    try:
        yield library, queue
    finally:
        library.queue_free(queue)


@contextmanager
def push(count: int) -> Iterator[Callable[[], object]]:
    with _queue() as (library, queue):
        address, _ = times_ns(count).buffer_info()
        yield lambda: library.queue_push_all(queue, address, count)


@contextmanager
def drain(count: int) -> Iterator[Callable[[], object]]:
    with _queue() as (library, queue):
        address, _ = times_ns(count).buffer_info()
        library.queue_push_all(queue, address, count)

        def timed() -> None:
            ordered = library.queue_pop_all(queue)
            assert ordered == count, f"{count - ordered} of {count} came out of order"

        yield timed


def pending(waits: array[float]) -> object:
    """Who holds as many nodes, until it is let go."""
    queues = ExitStack()
    library, queue = queues.enter_context(_queue())
    whens = array("q", (round(delay * 1e9) for delay in waits))
    library.queue_push_all(queue, whens.buffer_info()[0], len(whens))
    return queues


def lateness(plan: Plan) -> list[float]:
    """A thread without Python that waits on a condition variable: nothing is called, the lateness is stored."""
    run = _compiled("sleeper").sleeper_run
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    deadlines = array("q", (round(deadline * 1e9) for deadline in plan.deadlines()))
    late = array("q", bytes(8 * len(deadlines)))
    run(deadlines.buffer_info()[0], late.buffer_info()[0], len(deadlines))
    return [each / 1e9 for each in late]
