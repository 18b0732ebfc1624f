"""What a fork and the end of the interpreter ask of engines, whichever engine it is."""

from __future__ import annotations

import gc
import os
import threading

import pytest
from support import WAIT, assert_quiet, handler_that_raises, run_python, wait_until

from pysched import lifecycle
from pysched.apart import apart


class Recorder:
    """Takes part like an engine and keeps what it was asked for."""

    def __init__(self):
        self.asked = []
        lifecycle.register(self)

    def _at_exit(self):
        self.asked.append("at exit")

    def _after_fork_in_child(self):
        self.asked.append("child")


class Holder(Recorder):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def _before_fork(self):
        self.lock.acquire()
        self.asked.append("before")

    def _after_fork_in_parent(self):
        self.lock.release()
        self.asked.append("parent")

    def _after_fork_in_child(self):
        self.lock = threading.Lock()
        super()._after_fork_in_child()


class Incomparable(Recorder):
    """A subclass may define these as it likes; nobody asks."""

    def __eq__(self, other):
        raise AssertionError("compared")

    def __hash__(self):
        raise AssertionError("hashed")


def in_child(check) -> int:
    """Fork, and return the status of a child that exits with 0 if `check()` is true."""
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def known() -> int:
    return len(lifecycle._engines)


def test_registration_is_weak_and_idempotent():
    gc.collect()
    before = known()
    engine = Recorder()
    lifecycle.register(engine)
    lifecycle.register(engine)
    assert known() == before + 1
    del engine
    gc.collect()
    assert known() == before


def test_nobody_is_compared_or_hashed():
    before = known()
    engines = [Incomparable() for _ in range(3)]
    assert known() == before + 3
    del engines
    gc.collect()
    assert known() == before


def test_many_threads_may_register_and_forget():
    gc.collect()
    before = known()
    barrier = threading.Barrier(4)

    def make():
        barrier.wait(WAIT)
        for _ in range(500):
            Recorder()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    gc.collect()
    assert known() == before


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_asks_each_side_for_its_own():
    plain, holder, odd = Recorder(), Holder(), Incomparable()
    assert in_child(lambda: plain.asked == odd.asked == ["child"] and holder.asked == ["before", "child"]) == 0
    assert plain.asked == odd.asked == []
    assert holder.asked == ["before", "parent"]
    assert holder.lock.acquire(blocking=False)


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_engines_hold_still_while_another_thread_forks():
    """What the lock guards is whole in the child, whatever the parent's threads were doing."""
    holder = Holder()
    pair = [0, 0]
    stop = threading.Event()

    def change():
        while not stop.is_set():
            with holder.lock:
                pair[0] += 1
                pair[1] += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            assert in_child(lambda: pair[0] == pair[1]) == 0
    finally:
        stop.set()
        thread.join(WAIT)


def test_the_interpreter_does_not_end_yet():
    assert not lifecycle.exiting()


EXIT = """
    import atexit, sys, threading
    from pysched import lifecycle

    {first}

    class Engine:
        def _at_exit(self):
            print("hook", lifecycle.exiting(), flush=True)
            released.set()

    released = threading.Event()
    engine, other = Engine(), Engine()
    lifecycle.register(engine)
    del other
    atexit.register(lambda: print("atexit", lifecycle.exiting()))
    lifecycle.arm()
    lifecycle.arm()

    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(1)
    pool.submit(released.wait)  # Python joins it before atexit: the hook must come earlier still
    print("main", lifecycle.exiting(), flush=True)
"""


@pytest.mark.parametrize("first", ["", "import concurrent.futures.thread", "import threading, logging"])
def test_engines_are_stopped_before_python_joins_its_pools(first):
    process = run_python(EXIT.format(first=first), engine="pure")
    assert_quiet(process)
    assert process.stdout.splitlines() == ["main False", "hook True", "atexit True"]


def test_arming_while_the_interpreter_ends_is_too_late_and_harmless():
    process = run_python(
        """
        import atexit
        from pysched import lifecycle

        class Engine:
            def _at_exit(self):
                print("hook")

        engine = Engine()
        lifecycle.register(engine)
        atexit.register(lambda: (lifecycle.arm(), print(lifecycle.exiting())))
        import threading
        threading._register_atexit(lambda: None)
        """,
        engine="pure",
    )
    assert_quiet(process)
    assert process.stdout.splitlines() == ["hook", "True"]


def test_importing_pysched_brings_in_no_pool():
    process = run_python("import sys, pysched; print('concurrent.futures.thread' in sys.modules)", engine="pure")
    assert_quiet(process)
    assert process.stdout.strip() == "False"


def test_at_the_recursion_limit_the_interpreter_does_not_seem_to_end(engine_name):
    """For ever, as no engine would start any more."""
    process = run_python(
        """
        import sys
        from pysched import lifecycle

        def deep(left):
            return deep(left - 1) if left else lifecycle.arm()

        raised = 0
        for depth in reversed(range(sys.getrecursionlimit() - 300, sys.getrecursionlimit())):
            try:
                deep(depth)
            except RecursionError:
                raised += 1
            assert not lifecycle.exiting(), depth
        assert 0 < raised < 300
        """,
        engine=engine_name,
    )
    assert_quiet(process)


@pytest.fixture
def unarmed(monkeypatch):
    """As before the first start of a loop; `hooks` are the threads that saw to the exit, and `acts` is done by them."""
    hooks, acts = [], []

    def register_atexit(hook):
        hooks.append(threading.get_ident())
        for act in acts:
            act()

    monkeypatch.setattr(lifecycle, "_armed", False)
    monkeypatch.setattr(threading, "_register_atexit", register_atexit)
    return hooks, acts


def test_what_the_first_start_imports_is_not_imported_where_signal_handlers_run(unarmed):
    """One that raises amid an import may leave the module's lock taken, and then no engine starts any more."""
    hooks, _ = unarmed
    lifecycle.arm()
    lifecycle.arm()
    assert len(hooks) == 1
    assert hooks[0] != threading.main_thread().ident


def test_a_runtime_error_of_a_signal_handler_is_not_taken_for_the_end_of_the_interpreter(unarmed):
    _, acts = unarmed
    with handler_that_raises() as interrupt, pytest.raises(RuntimeError, match="of a signal handler"):
        acts.append(interrupt)
        lifecycle.arm()
    assert not lifecycle.exiting()
    assert wait_until(lambda: lifecycle._armed)


def test_where_there_can_be_no_thread_the_exit_is_seen_to_on_this_one(unarmed):
    hooks, _ = unarmed
    before = threading.stack_size(1 << 46)  # more than there is
    try:
        with pytest.raises(RuntimeError, match="can't start new thread") as refused:
            apart(os.getpid)
        lifecycle.arm()
    finally:
        threading.stack_size(before)
    assert hooks == [threading.main_thread().ident]
    assert refused.type is RuntimeError
