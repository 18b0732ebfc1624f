"""Daemon workers when the program ends or forks, each test in a process of its own."""

from __future__ import annotations

import os

import pytest
from support import assert_quiet, run_python

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")

PRELUDE = """
import os, sys, threading, time, warnings
from pysched import Engine, Scheduler

warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads

def wait_for(predicate):
    deadline = time.monotonic() + 20
    while not predicate():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)

inside = threading.Event()
def hang():
    inside.set()
    {hang}
"""
HANGS = {"a busy loop": "while True: pass", "a long sleep": "time.sleep(1000)", "nothing": "pass"}
hangs = pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
EXITS = int(os.environ.get("PYSCHED_TEST_EXITS", "3"))
"""How often each exit is tried."""


@hangs
def test_exit_waits_for_no_callback(engine_name, hang):
    program = PRELUDE.format(hang=hang) + (
        "engine = Engine(4, daemon=True)\n"
        "engine.call_later(0, hang)\n"
        "engine.call_every(0.001, int)\n"
        "engine.call_many([3600.0] * 1000, print)\n"
        "engine.start()\n"
        "assert inside.wait(20)\n"
        "wait_for(lambda: engine.stats().started > 5)\n"
        "print('over', flush=True)\n"
    )
    for _ in range(EXITS):
        process = run_python(program, engine=engine_name, timeout=20)
        assert_quiet(process)
        assert process.stdout == "over\n"


@hangs
def test_the_exit_of_a_schedulers_program_waits_for_no_callback(engine_name, hang):
    program = PRELUDE.format(hang=hang) + (
        "scheduler = Scheduler(max_workers=2, daemon=True)\n"
        "scheduler.after(0, hang)\n"
        "scheduler.every('1ms', int)\n"
        "scheduler.every('1h', print)\n"
        "scheduler.start_background()\n"
        "assert inside.wait(20)\n"
        "wait_for(lambda: scheduler.stats().started > 5)\n"
    )
    for _ in range(EXITS):
        assert_quiet(run_python(program, engine=engine_name, timeout=20))


def test_all_workers_may_hang_at_the_exit(engine_name):
    program = PRELUDE.format(hang="while True: time.sleep(0)") + (
        "engine = Engine(3, daemon=True)\n"
        "engine.call_many([0.0] * 10, hang)\n"
        "engine.start()\n"
        "wait_for(lambda: engine.stats().running == 3)\n"
        "assert engine.stop(0.02) is False\n"
        "sys.exit(7)\n"
    )
    assert_quiet(run_python(program, engine=engine_name, timeout=20), status=7)


@forks
def test_a_forked_child_finds_a_stopped_engine_and_gets_workers_of_its_own(engine_name):
    program = PRELUDE.format(hang="time.sleep(1000)") + (
        "engine = Engine(2, daemon=True, name='forked')\n"
        "ticks = []\n"
        "engine.call_every(0.001, lambda: ticks.append(os.getpid()))\n"
        "engine.call_later(0, hang)\n"
        "engine.start()\n"
        "assert inside.wait(20)\n"
        "wait_for(lambda: ticks)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    assert not engine.running\n"
        "    assert engine.stats().running == 0\n"
        "    assert threading.active_count() == 1\n"
        "    engine._check()\n"
        "    engine.start()\n"
        "    wait_for(lambda: os.getpid() in ticks)\n"
        "    both = threading.Barrier(3)\n"
        "    engine.call_many([0.0, 0.0], both.wait, [(20,), (20,)])\n"
        "    both.wait(20)\n"
        "    engine._check()\n"
        "    assert engine.stop(20)\n"
        "    assert threading.active_count() == 1\n"
        "    os._exit(5)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5\n"
        "seen = len(ticks)\n"
        "wait_for(lambda: len(ticks) > seen)\n"
    )
    assert_quiet(run_python(program, engine=engine_name, timeout=40))


@forks
def test_a_callback_may_fork_and_its_child_ends_with_it(engine_name):
    """What the child's only thread comes back to is a worker of the parent's: it leaves, and so the child is over."""
    program = PRELUDE.format(hang="pass") + (
        "engine = Engine(2, daemon=True)\n"
        "children, ran = [], []\n"
        "def fork():\n"
        "    pid = os.fork()\n"
        "    if pid:\n"
        "        children.append(pid)\n"
        "    else:\n"
        "        engine._check()\n"
        "engine.call_later(0, fork)\n"
        "engine.call_every(0.001, lambda: ran.append(1))\n"
        "engine.start()\n"
        "wait_for(lambda: children)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0\n"
        "seen = len(ran)\n"
        "wait_for(lambda: len(ran) > seen)\n"
        "assert engine.stop(20)\n"
        "engine._check()\n"
    )
    assert_quiet(run_python(program, engine=engine_name, timeout=40))
