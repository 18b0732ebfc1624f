"""`Scheduler.on` in processes of their own: exit and fork, with an empty stderr."""

from __future__ import annotations

import os

import pytest
from support import assert_quiet, run_python

pytestmark = pytest.mark.real_time
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")

PRELUDE = """
import logging, os, signal, sys, threading, time
from pysched import Scheduler
from pysched.testing import ManualClock

def nothing():
    pass

def wait_for(predicate):
    deadline = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)

def in_child(check):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(10)
            check()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""


def quiet(text, engine_name):
    program = PRELUDE + "\n".join(line.removeprefix("        ") for line in text.splitlines())
    process = run_python(program, engine=engine_name, timeout=30)
    assert_quiet(process)
    return process.stdout


@pytest.mark.parametrize("end", ["", "scheduler.shutdown()", "scheduler.shutdown(wait=False)", "sys.exit(0)"])
def test_an_exit_with_events_that_wait(engine_name, end):
    quiet(
        f"""
        scheduler = Scheduler(2, timezone="UTC")
        told = []
        def listener(event):
            told.append(event)
            time.sleep(0.001)
        for name in ("added", "started", "succeeded", "removed", "missed", "coalesced", "dropped"):
            scheduler.on(name, listener)
        scheduler.start_background()
        for _ in range(50):
            scheduler.every("20ms", nothing)
        wait_for(lambda: len(told) > 20)
        for _ in range(40):
            scheduler.remove_job(scheduler.list_jobs()[0]["id"])
        {end}
        """,
        engine_name,
    )


def test_an_exit_while_a_listener_hangs(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC")
        began = threading.Event()
        scheduler.on("added", lambda event: (began.set(), time.sleep(1000)))
        scheduler.every("1h", nothing)
        began.wait(20)
        """,
        engine_name,
    )


def test_an_exit_with_a_listener_that_logs(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC", clock=ManualClock())
        for name in ("added", "dropped", "removed"):
            scheduler.on(name, lambda event: logging.getLogger("app").info("%s", event))
        scheduler.start_background()
        scheduler.every("1h", nothing, immediate=True)
        """,
        engine_name,
    )


@forks
def test_a_child_tells_nothing_of_its_parent_and_has_a_thread_of_its_own(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC")
        told, began, release = [], threading.Event(), threading.Event()
        def listener(event):
            told.append((os.getpid(), event.job.id))
            began.set()
            if not release.wait(20):
                raise AssertionError
        scheduler.on("added", listener)
        for number in range(100):
            scheduler.every("1h", nothing, id=f"parent {number}")
        began.wait(20)
        def check():
            told.clear()
            release.set()
            assert not [each for each in threading.enumerate() if each.name.endswith("-events")]
            scheduler.every("1h", nothing, id="child")
            wait_for(lambda: told)
            assert told == [(os.getpid(), "child")], told
            scheduler.start_background()
            started = []
            scheduler.on("started", started.append)
            scheduler.run_job("parent 7")
            wait_for(lambda: started)
            assert scheduler.shutdown() == []
        in_child(check)
        release.set()
        wait_for(lambda: len(told) == 100)
        scheduler.shutdown()
        """,
        engine_name,
    )


@forks
def test_a_fork_inside_a_listener(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC", clock=ManualClock())
        told = []
        def listener(event):
            told.append(event.event)
            if len(told) == 1:
                in_child(lambda: (scheduler.every("1s", nothing), told[1:] == ["added"] or 1 / 0))
        scheduler.on("added", listener)
        scheduler.every("1s", nothing)
        assert told == ["added"]
        """,
        engine_name,
    )


def test_a_scheduler_that_is_dropped_leaves_no_thread(engine_name):
    """Its thread ends when nothing has come for a while."""
    quiet(
        """
        import gc, weakref, pysched.events
        pysched.events.IDLE_S = 0.05
        scheduler = Scheduler(1, timezone="UTC")
        told = []
        scheduler.on("added", lambda event: told.append(1))
        scheduler.every("1h", nothing)
        wait_for(lambda: told)
        gone = weakref.ref(scheduler)
        del scheduler
        gc.collect()
        wait_for(lambda: threading.active_count() == 1)
        gc.collect()
        assert gone() is None
        """,
        engine_name,
    )


def test_without_listeners_there_is_no_thread(engine_name):
    quiet(
        """
        scheduler = Scheduler(1, timezone="UTC")
        done = threading.Event()
        scheduler.after(0, done.set)
        scheduler.start_background()
        assert done.wait(20)
        assert not [each for each in threading.enumerate() if each.name.endswith("-events")]
        scheduler.shutdown()
        wait_for(lambda: threading.active_count() == 1)
        """,
        engine_name,
    )
