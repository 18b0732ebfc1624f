"""Signal handlers and destructors that stop what the thread they come in on is waiting for just then.

`Thread.join` and `is_alive` take a lock of the thread's for a moment; who asks again just then waits for itself.
"""

from __future__ import annotations

import threading
import time

import pytest
from support import EXECUTORS, WAIT, nothing, wait_until

from pysched.waiting import join


@pytest.fixture
def amid_each_join(monkeypatch):
    """A list of what is to be done each time Python's lock of a thread would be held; the lock is not taken twice."""
    acts, held = [], set()

    def holding(method):
        def call(thread, *args):
            mine = threading.get_ident(), id(thread)
            if mine in held:
                pytest.fail("it would wait for itself")
            held.add(mine)
            try:
                for act in acts:
                    act()
            finally:
                held.discard(mine)
            return method(thread, *args)

        return call

    monkeypatch.setattr(threading.Thread, "join", holding(threading.Thread.join))
    monkeypatch.setattr(threading.Thread, "is_alive", holding(threading.Thread.is_alive))
    yield acts
    acts.clear()


def test_a_join_amid_a_join_returns_and_the_first_goes_on(amid_each_join):
    release, inner = threading.Event(), []
    thread = threading.Thread(target=release.wait, args=(WAIT,))
    thread.start()
    amid_each_join.append(lambda: inner.append(join(thread, None)))
    amid_each_join.append(release.set)
    join(thread, None)
    amid_each_join.clear()
    assert len(inner) == 2
    assert not thread.is_alive()


def test_a_join_ends_with_its_deadline_and_takes_threads_that_have_not_begun():
    release = threading.Event()
    thread = threading.Thread(target=release.wait, args=(WAIT,))
    join(thread, None)
    thread.start()
    join(thread, time.monotonic() - 1)
    assert thread.is_alive()
    release.set()
    join(thread, 1e300)
    assert not thread.is_alive()


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_an_engine_is_stopped_amid_its_own_stop(make_engine, executor, amid_each_join):
    engine, stopped = make_engine(**executor), []
    for _ in range(3):
        engine.start()
        amid_each_join.append(lambda: stopped.append(engine.stop()))
        assert engine.stop() is True
        amid_each_join.clear()
    assert all(stopped)
    assert len(stopped) >= 3


def test_a_scheduler_is_shut_down_amid_its_own_shutdown(make_scheduler, amid_each_join):
    scheduler, left = make_scheduler(2), []

    async def coroutine():
        pass

    scheduler.on("added", nothing)
    scheduler.after(0, coroutine)
    scheduler.start_background()
    assert wait_until(lambda: not len(scheduler))
    amid_each_join.append(lambda: left.append(scheduler.shutdown()))
    assert scheduler.shutdown() == []
    amid_each_join.clear()
    assert left
    assert not any(left)
