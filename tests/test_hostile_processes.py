"""Use that means no good, of all faces, in processes of their own: signal handlers, and callbacks that fork."""

from __future__ import annotations

import os
import signal

import pytest
from faces import all_faces, program
from support import assert_quiet, run_python

workers = pytest.mark.parametrize("workers", [None, 2], ids=["1", "2"])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@workers
@all_faces
def test_a_signal_handler_that_stops_it_amid_registrations(engine_name, kind, workers):
    """At whatever moment of a call it comes: nothing hangs, and the program goes on."""
    process = run_python(
        program(
            kind,
            """
        handled = []
        def handler(number, frame):
            handled.append(1)
            stop(made, 5)
        signal.signal(signal.SIGALRM, handler)
        every(made, 0.001, lambda: None)
        for round in range(20):
            if not isinstance(made, Scheduler) or round == 0:
                start(made)
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (round + 1))
            seen = len(handled)
            while len(handled) == seen:
                once(made, 0, int)
            stop(made, 20)  # where the handler must not wait, it has only begun to stop it
        made._check()
        print(len(handled))
        """,
            workers,
        ),
        engine=engine_name,
    )
    warning = "jobs that are registered now never run" if kind == "scheduler" else None
    assert_quiet(process, warning=warning)
    assert process.stdout == "20\n"


# Forks in callbacks.

FORKS = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads
        children, ran, parent = [], [], os.getpid()
        def wait_for(condition):
            deadline = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < deadline
                time.sleep(0.001)
        def tick():
            if os.getpid() != parent:
                os._exit(3)  # it runs in the child
            ran.append(1)
        def fork():
            pid = os.fork()
            if pid:
                children.append(pid)
            else:
                in_child()
        every(made, 0.001, tick)
        once(made, 0.01, fork)
        start(made)
        wait_for(lambda: children)
        def ended():
            pid, status = os.waitpid(children[0], os.WNOHANG)
            if pid:
                children[0] = os.waitstatus_to_exitcode(status)
            return pid
        wait_for(ended)
        assert children == [0], children
        seen = len(ran)
        wait_for(lambda: len(ran) > seen)
        stop(made, 20)
        made._check()
"""
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def forking(kind, in_child, workers):
    return program(kind, f"\n        def in_child():\n            {in_child}\n" + FORKS, workers)


@forks
@workers
@all_faces
@pytest.mark.parametrize("in_child", ["pass", "stop(made, 5)"])
def test_a_callback_that_forks_and_returns_ends_the_child(engine_name, kind, workers, in_child):
    """What the child's only thread comes back to, a loop or a pool, is the parent's: it leaves, and that is all."""
    assert_quiet(run_python(forking(kind, in_child, workers), engine=engine_name, timeout=60))


@forks
@workers
@all_faces
def test_a_callback_that_forks_and_raises_ends_the_child(engine_name, kind, workers):
    """SystemExit is an error like any other, told once, in the child; `PRELUDE` gives jobs a handler that is silent."""
    process = run_python(forking(kind, "raise SystemExit(3)", workers), engine=engine_name, timeout=60)
    assert process.returncode == 0, process.stderr
    lines = process.stderr.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == (
        [] if kind == "scheduler" else [lines[0], "Traceback (most recent call last):", "SystemExit: 3"]
    )


@forks
@workers
@all_faces
def test_a_callback_that_forks_and_exits(engine_name, kind, workers):
    process = run_python(forking(kind, "made._check(); os._exit(0)", workers), engine=engine_name, timeout=60)
    assert_quiet(process)


@forks
def test_a_coroutine_that_forks_and_returns_ends_the_child(engine_name):
    """With this step of it: what else runs on the loop is the parent's."""
    text = FORKS.replace("def fork():", "async def fork():")
    text = text.replace("start(made)\n", "made.after(0, other)\n        start(made)\n")
    others = """
        import asyncio
        def in_child():
            pass
        async def other():
            while True:
                await asyncio.sleep(0.001)
                tick()
"""
    assert_quiet(run_python(program("scheduler", others + text), engine=engine_name, timeout=60))
