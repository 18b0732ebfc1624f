"""Ctrl-C while an engine starts, and what it may not meet on the main thread."""

from __future__ import annotations

import concurrent.futures
import signal
import threading
import weakref

import pytest
from support import EXECUTORS, WAIT, nothing, pause, wait_until

from pysched import apart

MAIN = threading.main_thread()


def interrupt():
    """As a Ctrl-C does, which the system hands to the main thread."""
    signal.pthread_kill(MAIN.ident, signal.SIGINT)


@pytest.fixture(params=["before it begins", "before its threads", "amid it", "at its end"])
def ctrl_c_in_a_start(request, monkeypatch):
    """Lets one Ctrl-C come in the next start of the loop of `engines[0]`; the event is set when that start is over."""
    begin, begin_thread = apart.start_new_thread, threading.Thread.start
    engines, over = [], threading.Event()
    moment = request.param

    def start_new_thread(action, args):
        monkeypatch.setattr(apart, "start_new_thread", begin)
        if moment == "before it begins":
            over.set()
            signal.raise_signal(signal.SIGINT)
        begin(act, (action, args))

    def act(action, args):
        try:
            action(*args)
            _, error = args[1]
            assert error is None
        finally:
            over.set()

    def start(thread):
        if moment == "before its threads":
            come()
        begin_thread(thread)
        if moment != "before its threads" and "worker" not in thread.name:
            come()

    def come():
        monkeypatch.setattr(threading.Thread, "start", begin_thread)
        pause(0.005)  # the main thread waits by now; if it is only about to, it sees the signal at the end: as right
        interrupt()
        if moment != "at its end":
            wait_until(lambda: not engines[0].running, 0.5)

    monkeypatch.setattr(apart, "start_new_thread", start_new_thread)
    if moment != "before it begins":
        monkeypatch.setattr(threading.Thread, "start", start)
    yield engines, over
    assert over.is_set(), "the start was not on another thread"


STARTS = {
    **{f"start, {name}": ("start", workers) for name, workers in EXECUTORS.items()},
    **{f"run, {name}": ("run", workers) for name, workers in EXECUTORS.items() if name != "inline"},
}


@pytest.mark.parametrize(("way", "workers"), STARTS.values(), ids=STARTS)
def test_ctrl_c_in_a_start_leaves_a_stopped_engine(make_engine, way, workers, ctrl_c_in_a_start):
    engines, over = ctrl_c_in_a_start
    engine = make_engine(**workers)
    engines.append(engine)
    with pytest.raises(KeyboardInterrupt):
        getattr(engine, way)()
    assert over.wait(WAIT)
    assert wait_until(lambda: not engine.running)
    assert engine.stop(WAIT) is True
    engine._check()
    engine.call_later(0, nothing)
    with engine:
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == 1
    engine.call_later(0, engine.stop)
    engine.run()


@pytest.mark.parametrize(("way", "workers"), STARTS.values(), ids=STARTS)
def test_a_destructor_that_stops_it_amid_the_start_does_not_wait_for_that_start(make_engine, way, workers, monkeypatch):
    """It may run wherever there is an allocation, so on the thread that starts the others as well."""
    engine = make_engine(**workers)
    begin, stops = threading.Thread.start, []

    class Stops:
        def __del__(self):
            stops.append((engine.stop(WAIT), threading.get_ident() == MAIN.ident))

    garbage = [Stops()]

    def start(thread):
        garbage.clear()
        begin(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        getattr(engine, way)()
    assert stops == [(True, False)]
    assert wait_until(lambda: not engine.running)
    engine.call_later(0, nothing)
    with engine:
        assert engine.wait_idle(WAIT)


@pytest.fixture
def ends_on_main_thread(monkeypatch):
    """The threads and pools of engines whose last reference went on the main thread, by name, while the test ran."""
    names = []
    watched = []

    class Thread(threading.Thread):
        def start(self):
            watch(self, self.name)
            super().start()

    class Pool(concurrent.futures.ThreadPoolExecutor):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            watch(self, "a pool")

    def watch(thing, name):
        def gone(_):
            if threading.get_ident() == MAIN.ident:
                names.append(name)

        watched.append(weakref.ref(thing, gone))

    monkeypatch.setattr(threading, "Thread", Thread)
    monkeypatch.setattr(threading.Thread, "start", Thread.start)
    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", Pool)
    yield names, watched
    watched.clear()


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
def test_what_remains_of_a_start_does_not_go_on_the_main_thread(make_engine, executor, ends_on_main_thread):
    """It ends in callbacks of weak references, Python's own, and a Ctrl-C that comes in one is lost."""
    names, watched = ends_on_main_thread
    engine = make_engine(**executor)
    for _ in range(3):
        engine.call_later(0, engine.stop)
        engine.run()
        engine.start()
        engine.call_later(0, nothing)
        assert engine.wait_idle(WAIT)
        assert engine.stop(WAIT)
    assert len(watched) >= 3
    assert not names


def test_apart_is_a_plain_call_on_another_thread(monkeypatch):
    monkeypatch.setattr(apart, "start_new_thread", None)
    idents = []
    thread = threading.Thread(target=lambda: idents.append(apart.apart(threading.get_ident)))
    thread.start()
    thread.join(WAIT)
    assert idents == [thread.ident]


def test_apart_returns_and_raises_what_the_action_does():
    assert apart.apart(threading.get_ident) != MAIN.ident
    assert apart.apart(lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        apart.apart(lambda: 1 // 0)
    with pytest.raises(SystemExit):
        apart.apart(lambda: exit(3))


def test_apart_says_so_when_there_can_be_no_thread(monkeypatch):
    def refuse(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(apart, "start_new_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        apart.apart(nothing)


def test_apart_leaves_no_reference_behind():
    class Thing:
        pass

    thing, result = Thing(), Thing()
    gone = [weakref.ref(thing), weakref.ref(result)]

    def fail(thing):
        raise ValueError(thing)

    assert apart.apart(lambda kept=result: kept) is result
    with pytest.raises(ValueError, match="Thing"):
        apart.apart(lambda kept=thing: fail(kept))
    del thing, result
    assert wait_until(lambda: [each() for each in gone] == [None, None])
