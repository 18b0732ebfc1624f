"""Helpers that several test modules share."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pysched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

WAIT = 20.0
"""Seconds to wait for what must happen: only a failing test ever waits as long."""

SCRIPTS = Path(__file__).parent / "isolated"
"""Programs that tests run in a process of their own."""

LIBRARY = str(Path(pysched.__file__).parent)

MODES = ("inline", "one worker", "two workers", "daemon workers", "user's pool", "manual")
EXECUTORS: dict[str, dict[str, Any]] = {
    "inline": {},
    "one worker": {"executor": 1},
    "two workers": {"executor": 2},
    "daemon workers": {"executor": 2, "daemon": True},
}
"""Arguments of an `Engine`, by who runs its callbacks."""

TOMORROW = 86400.0

REGISTRATIONS: dict[str, Callable[..., Any]] = {
    "call_later": lambda engine, delay, callback, *args: engine.call_later(delay, callback, *args),
    "call_at": lambda engine, delay, callback, *args: engine.call_at(engine.time() + delay, callback, *args),
    "call_every": lambda engine, delay, callback, *args: engine.call_every(TOMORROW, callback, *args, delay=delay),
    "call_many": lambda engine, delay, callback, *args: engine.call_many([delay], callback, [args]),
}
"""The ways to register a callback, as f(engine, delay, callback, *args); call_many's result is a count."""

HANDLES = {name: register for name, register in REGISTRATIONS.items() if name != "call_many"}
"""The ways to register that give a handle."""


def on_workers(*counts: int | None) -> pytest.MarkDecorator:
    """Parametrises `workers`, arguments of an `Engine`: a pool of so many each, and daemon workers; None: inline."""
    cases: dict[str, dict[str, Any]] = {}
    for count in counts:
        if count is None:
            cases["inline"] = {}
        else:
            cases[f"pool of {count}"] = {"executor": count}
            cases[f"{count} daemon"] = {"executor": count, "daemon": True}
    return pytest.mark.parametrize("workers", cases.values(), ids=cases)


def nothing(*args: object) -> None:
    """A callback that does nothing."""


class Intruder:
    """Runs `act` once at the `moment`-th of the moments at which CPython may let a signal handler or a destructor in.

    Those are, in the library's Python code, the start of each function and the return of each function in C. No
    collection of garbage is among them, which comes when it likes: what is raised in a callback of a weak reference to
    an older engine goes nowhere.
    """

    def __init__(self, moment: int, act: Callable[[], object]) -> None:
        self._left = moment
        self._act = act
        self.came = False

    def __enter__(self) -> Intruder:
        self._before = sys.getprofile()
        self._collects = gc.isenabled()
        gc.disable()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(self._before)
        if self._collects:
            gc.enable()

    def _look(self, frame: Any, event: str, arg: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(LIBRARY):
            self._left -= 1
            if self._left == 0:
                self.came = True
                self._act()


def wait_until(predicate: Callable[[], object], timeout: float = WAIT) -> bool:
    """Whether `predicate` comes true within `timeout` seconds of real time."""
    deadline = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def label(value: object) -> str:
    """An id for a parameter: its repr without addresses, so that it is the same in every run."""
    return re.sub(r" (object )?at 0x[0-9a-f]+", "", ascii(value))[:40]


def pause(seconds: float) -> None:
    """Let real time pass, where nothing can be waited for: what must not happen, or a random moment."""
    time.sleep(seconds)


def comes_to_rest(count: Callable[[], object], seconds: float = 0.1) -> bool:
    """Whether `count()` stays what it is for so long, sooner or later: when a thread comes to its rest nobody knows."""

    def rests() -> bool:
        before = count()
        pause(seconds)
        return count() == before

    return wait_until(rests)


class SteppedClock:
    """A clock for engines with real threads, which stands still until the test sets it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.looks = 0  # how often the engine came to wait, because nothing was due

    def set(self, seconds: float) -> None:
        self.now_ns = round(seconds * 1e9)

    def let_look(self) -> None:
        """Wait until the engine has looked at the time that is now: the next wait may be that of a look before."""
        looks = self.looks
        assert wait_until(lambda: self.looks >= looks + 2)

    def time_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    def wait(self, event: threading.Event, timeout: float | None) -> None:
        """Ends early, as it may: the engine looks at the time again."""
        self.looks += 1
        event.wait(0.001)


class Rig:
    """An engine in one of MODES, and one way for all of them to let time pass."""

    def __init__(self, impl: ModuleType, mode: str, **options: Any) -> None:
        self.mode = mode
        self.pool = ThreadPoolExecutor(2) if mode == "user's pool" else None
        self.clock: Any = None
        if mode == "manual":
            from pysched.testing import ManualClock

            self.clock = options["clock"] = ManualClock()
        if self.pool is not None:
            options["executor"] = self.pool
        self.engine = impl.Engine(**EXECUTORS.get(mode, {}), **options)

    def settle(self) -> None:
        """Let everything that is due run to its end."""
        if self.clock is not None:
            self.clock.advance(0)
        assert self.engine.wait_idle(WAIT)

    def until(self, predicate: Callable[[], object]) -> None:
        """Let time pass until `predicate` is true."""
        if self.clock is None:
            assert wait_until(predicate)
            return
        for _ in range(1000):
            if predicate():
                return
            self.clock.advance("10ms")
        raise AssertionError("it did not happen within ten seconds of the manual clock")

    def close(self) -> None:
        assert self.engine.stop(WAIT), "a callback was left running"
        self.engine._check()
        if self.pool is not None:
            self.pool.shutdown()


def in_other_thread(function: Callable[[], object], timeout: float = WAIT) -> bool:
    """Run `function` on another thread and wait for it; False if it did not end: somebody holds a lock."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(timeout)
    return not thread.is_alive()


def in_threads(*functions: Callable[[], object]) -> None:
    """Run `functions` at once, each on its own thread, and raise the first error of any."""
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> None:
        barrier.wait(WAIT)
        function()

    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(run, function) for function in functions]:
            future.result(4 * WAIT)


def while_at_work(look: Callable[[], object], *work: Callable[[], object]) -> None:
    """Run `work` at once, each on its own thread, and `look` again and again on one more until all of it has ended.

    With a pause after each look: who takes a lock again as soon as it is released starves those that wait for it.
    """
    over = threading.Event()

    def watch() -> None:
        look()
        while not over.wait(0.001):
            look()

    def run() -> None:
        try:
            in_threads(*work)
        finally:
            over.set()

    in_threads(run, watch)


@contextmanager
def unchanged(engine: Any) -> Iterator[None]:
    """Asserts that the body changes nothing of `engine` that can be seen."""
    before = (len(engine), engine.next_deadline(), engine.stats(), engine.running)
    yield
    assert (len(engine), engine.next_deadline(), engine.stats(), engine.running) == before
    engine._check()


def run_python(
    program: str, *args: object, engine: str | None = None, timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program (source text, or the path of a script) in an interpreter that makes warnings errors."""
    process = start_python(program, *args, engine=engine, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the program did not end within {timeout} s\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_python(
    program: str, *args: object, engine: str | None = None, flags: Sequence[str] = (), **options: Any
) -> subprocess.Popen[str]:
    """Start a program as run_python does; its streams are pipes.

    `flags` are more options of the interpreter. Not in the current directory: at the root of the sources `import
    pysched` would find them, not what is installed.
    """
    options.setdefault("cwd", SCRIPTS)
    environment = dict(os.environ)
    if engine is not None:
        environment["PYSCHED_ENGINE"] = engine
    what = [program] if program.endswith(".py") else ["-c", textwrap.dedent(program)]
    return subprocess.Popen(
        [sys.executable, "-W", "error", *flags, *what, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def assert_quiet(process: subprocess.CompletedProcess[str], status: int = 0, warning: str | None = None) -> None:
    """Asserts that a program ended with `status` and wrote nothing to stderr, or one line that ends with `warning`."""
    lines = process.stderr.splitlines()
    expected = [] if warning is None else [line for line in lines[:1] if line.endswith(warning)] or [warning]
    assert (process.returncode, lines) == (status, expected), process.stdout + process.stderr


def threads_of(name):
    """The names of an engine's threads that live, in order."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.split("-worker_")[0] == name)


@contextmanager
def listening(handler):
    """`handler` gets what is logged meanwhile."""
    logging.getLogger("pysched").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("pysched").removeHandler(handler)


@contextmanager
def handler_that_raises() -> Iterator[Callable[[], None]]:
    """Gives what has a handler on the main thread raise RuntimeError("of a signal handler"), and waits for that."""
    raised = threading.Event()

    def handler(number: int, frame: object) -> None:
        raised.set()
        raise RuntimeError("of a signal handler")

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        raised.wait(WAIT)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGUSR1, before)
