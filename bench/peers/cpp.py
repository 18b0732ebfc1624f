"""C++'s `std::priority_queue`, compiled on the spot with the optimisation that the engine is built with (-O3).

It is called through ctypes, in this process, one call for all operations. It holds nothing but nodes: no callback,
no reference count, no lock, no cancellation. As a peer of the heap it is an equal, as a peer of `call_many` a floor.
One difference is ours: the engine asks the kernel for huge pages, `std::vector` does not.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Unavailable
from bench.workload import times_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["drain", "push"]

SOURCE = Path(__file__).with_name("priority_queue.cpp")
COMPILERS = ("c++", "g++", "clang++")


@cache
def _library() -> ctypes.CDLL:
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
    if compiler is None:
        raise Unavailable("no C++ compiler")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        target = Path(directory) / "priority_queue.so"
        command = [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", str(SOURCE), "-o", str(target)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise Unavailable(f"{compiler} failed: {built.stderr.strip().splitlines()[-1:]}")
        library = ctypes.CDLL(str(target))
    library.queue_new.restype = ctypes.c_void_p
    library.queue_free.argtypes = [ctypes.c_void_p]
    library.queue_push_all.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.queue_pop_all.argtypes = [ctypes.c_void_p]
    library.queue_pop_all.restype = ctypes.c_size_t
    return library


@contextmanager
def _queue() -> Iterator[tuple[ctypes.CDLL, int]]:
    library = _library()
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
