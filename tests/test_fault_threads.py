"""There can be no new thread: at a start, and when a pool is given its first work. Nothing is lost."""

from __future__ import annotations

import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from faces import all_faces, restartable
from support import WAIT, listening, nothing, wait_until

RAW = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
"""What `Thread.start` asks the system by."""


@pytest.fixture
def no_threads(monkeypatch):
    """A switch: while it is on, the system gives no thread."""

    class Switch:
        on = False
        refused = 0

    begin = getattr(threading, RAW)

    def refuse(*args, **kwargs):
        if Switch.on:
            Switch.refused += 1
            raise RuntimeError("can't start new thread")
        return begin(*args, **kwargs)

    monkeypatch.setattr(threading, RAW, refuse)
    return Switch


@all_faces
@pytest.mark.parametrize("workers", [None, 2])
def test_no_thread_for_the_loop(make_face, no_threads, kind, workers):
    face, ran = make_face(kind, workers=workers), []
    face.once(0, lambda: ran.append(1))
    face.every(0.001, lambda: ran.append(2))
    no_threads.on = True
    for _ in range(3):
        with pytest.raises(RuntimeError, match="^can't start new thread$"):
            face.start()
    no_threads.on = False
    face.made._check()
    assert ran == []
    face.start()
    assert wait_until(lambda: ran.count(1) == 1 and ran.count(2) > 2)
    assert face.stop(WAIT)
    assert ran.count(1) == 1


@restartable
def test_no_thread_for_the_first_work_of_a_pool(make_face, no_threads, logged, kind):
    """The loop ends and says so; the work waits for another start."""
    face, ran = make_face(kind, workers=2), []
    face.start()
    no_threads.on = True
    face.once(0, lambda: ran.append(1))
    face.once(0.001, lambda: ran.append(2))
    assert wait_until(lambda: no_threads.refused and "the loop has ended" in str(logged))
    assert face.stop(WAIT)
    no_threads.on = False
    face.made._check()
    assert ran == []
    assert len(logged) == 1
    assert "can't start new thread" in logged[0][1]
    face.start()
    assert wait_until(lambda: sorted(ran) == [1, 2])


def test_no_thread_for_the_first_work_of_a_schedulers_pool(make_scheduler, no_threads, logged):
    scheduler, ran = make_scheduler(2), []
    scheduler.start_background()
    no_threads.on = True
    scheduler.after(0, lambda: ran.append(1))
    assert wait_until(lambda: not scheduler.running)
    no_threads.on = False
    scheduler._check()
    assert (ran, len(scheduler)) == ([], 1)
    scheduler.start_background()
    assert wait_until(lambda: ran == [1])
    assert [text.splitlines()[0] for _, text, _ in logged] == ["pysched: the loop has ended"]


def test_run_raises_that_a_pool_has_no_thread(make_engine, no_threads, logged):
    engine, ran = make_engine(2), []
    begin = threading.Thread.start

    def loop_only(thread):
        no_threads.on = thread.name.startswith("pysched-worker")
        begin(thread)

    engine.call_later(0, lambda: (ran.append(1), engine.stop(0)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", loop_only)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            engine.run()
    no_threads.on = False
    assert (engine.running, len(engine), ran) == (False, 1, [])
    engine.run()
    assert ran == [1]
    assert len(logged) == 1


def test_a_pool_that_has_no_thread_for_more_stops_the_engine_and_loses_nothing(make_engine, no_threads, logged):
    """ThreadPoolExecutor keeps what it could not start a thread for, and raises, although it has others."""
    engine, ran, release = make_engine(2), [], threading.Event()
    inside = threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    no_threads.on = True
    engine.call_later(0, ran.append, 1)
    assert wait_until(lambda: not engine.running)
    no_threads.on = False
    release.set()
    assert engine.stop(WAIT)
    engine._check()
    engine.start()
    assert engine.wait_idle(WAIT)
    assert ran == [1]
    assert len(logged) == 1


def test_what_a_pool_keeps_though_it_has_no_thread_runs_nothing_while_that_is_told(make_engine, no_threads, logged):
    """The loop has ended already: what is due waits for another start."""
    pool, ran, seen = ThreadPoolExecutor(1), [], []
    engine = make_engine(pool)

    class Teller(logging.Handler):
        def emit(self, record):
            no_threads.on = False
            pool.submit(nothing).result(WAIT)  # behind what the pool has kept
            seen.append((engine.running, list(ran)))

    with listening(Teller()):
        engine.start()
        no_threads.on = True
        engine.call_later(0, ran.append, 1)
        assert wait_until(lambda: seen)
        assert engine.stop(WAIT)
    assert seen == [(False, [])]
    engine._check()
    engine.start()
    assert wait_until(lambda: ran == [1])
    assert engine.stop(WAIT)
    pool.shutdown()


def test_no_thread_for_coroutines_is_an_error_of_the_run(make_scheduler, clock, no_threads):
    told = []
    scheduler = make_scheduler(2, on_error=lambda error, run: told.append(str(error)))

    async def job():
        """Nothing to wait for."""

    job_id = scheduler.every("1ms", job)
    begin = threading.Thread.start

    def all_but_asyncio(thread):
        no_threads.on = thread.name.endswith("-asyncio")
        try:
            begin(thread)
        finally:
            no_threads.on = False

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", all_but_asyncio)
        scheduler.start_background()
        assert wait_until(lambda: scheduler.get_job(job_id).error_count > 2)
    assert wait_until(lambda: scheduler.get_job(job_id).run_count > 2)
    assert set(told) == {"can't start new thread"}
    assert sys.exc_info() == (None, None, None)
