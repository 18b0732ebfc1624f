"""Signal handlers and destructors that come in at any moment of a call: they use the engine, or raise."""

from __future__ import annotations

import itertools
import threading

import pytest
from support import TOMORROW, WAIT, Intruder, SteppedClock, nothing, wait_until

from pysched.clock import SystemClock


class SameHash:
    """Keys that differ and have one hash."""

    def __hash__(self):
        return 7


class Late(RuntimeError):
    """What a handler raises: of a kind that the library itself might be tempted to catch."""


def late():
    raise Late


def interrupt():
    raise KeyboardInterrupt


MINE, OTHER = SameHash(), SameHash()

CALLS = {
    "cancel": lambda engine, clock, handle: handle.cancel(),
    "cancel_key": lambda engine, clock, handle: engine.cancel_key(MINE),
    "replace": lambda engine, clock, handle: engine.call_later(2, nothing, key=MINE),
    "start": lambda engine, clock, handle: clock.advance(1),
    "call_many": lambda engine, clock, handle: engine.call_many([0.5, 2], nothing),
}

INTRUSIONS = {
    "cancel": lambda engine: engine.cancel_key(OTHER),
    "cancel the same": lambda engine: engine.cancel_key(MINE),
    "replace": lambda engine: engine.call_later(3, nothing, key=OTHER),
    "replace the same": lambda engine: engine.call_later(3, nothing, key=MINE),
    "another": lambda engine: engine.call_later(0.25, nothing, key=SameHash()),
}


@pytest.mark.parametrize("others", ["present", "absent"])
@pytest.mark.parametrize("intrude", INTRUSIONS.values(), ids=INTRUSIONS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_keys_are_whole_whoever_comes_in_between(impl, call, intrude, others):
    """A destructor that cancels a key whose hash is that of the key at hand, for one."""
    from pysched.testing import ManualClock

    for moment in itertools.count(1):
        clock = ManualClock()
        engine = impl.Engine(clock=clock)
        engine.start()
        handle = engine.call_later(1, nothing, key=MINE)
        if others == "present":
            engine.call_later(1, nothing, key=OTHER)
        with Intruder(moment, lambda engine=engine: intrude(engine)) as intruder:
            call(engine, clock, handle)
        engine._check()
        clock.advance(10)
        engine._check()
        assert len(engine) == 0
        assert engine.stats().running == 0
        if not intruder.came:
            break


@pytest.mark.parametrize("call", ["cancel", "cancel_key", "replace"])
def test_a_handler_that_raises_makes_nobody_wait_for_ever(make_engine, call):
    """Its exception comes out, and who waits for what the interrupted call brought about has been told."""
    for moment in itertools.count(1):
        engine = make_engine(clock=SteppedClock())  # not started: what is due keeps it from being idle
        handle = engine.call_later(0, nothing, key="k")
        ended = threading.Event()
        waiter = threading.Thread(target=lambda engine=engine, ended=ended: engine.wait_idle(2 * WAIT) and ended.set())
        waiter.start()
        if hasattr(engine, "_core"):
            assert wait_until(lambda engine=engine: engine._core.waiters)
        raised = False
        with Intruder(moment, late) as intruder:
            try:
                if call == "cancel":
                    handle.cancel()
                elif call == "cancel_key":
                    engine.cancel_key("k")
                else:
                    engine.call_later(TOMORROW, nothing, key="k")
            except Late:
                raised = True
        assert raised == intruder.came
        engine._check()
        if not handle.done():
            handle.cancel()
        assert ended.wait(WAIT), moment
        waiter.join(WAIT)
        if not intruder.came:
            break


@pytest.mark.parametrize("register", ["call_later", "call_many", "key"])
def test_a_handler_that_raises_takes_no_wake_up_with_it(make_engine, register):
    """A registration that it leaves has not changed anything, or the loop knows of the timer."""

    class Real(SteppedClock):
        def wait(self, event, timeout):
            event.wait(timeout)

    for moment in itertools.count(1):
        engine = make_engine(clock=Real())
        ran: list[int] = []
        with engine:
            assert wait_until(lambda engine=engine: engine.wait_idle(WAIT) and asleep(engine))
            with Intruder(moment, late) as intruder:
                try:
                    if register == "call_later":
                        engine.call_later(0, ran.append, 1)
                    elif register == "key":
                        engine.call_later(0, ran.append, 1, key="k")
                    else:
                        engine.call_many([0], ran.append, [(1,)])
                except Late:
                    pass
            assert wait_until(lambda engine=engine: len(engine) == 0), moment
        if not intruder.came:
            break


@pytest.mark.parametrize("kind", ["one-shot", "with a key", "periodic"])
def test_a_handler_that_raises_around_a_callback_costs_no_run(make_engine, clock, kind):
    """What was not called yet when it came is due again; what had returned is over."""
    for moment in itertools.count(1):
        engine, ran = make_engine(clock=clock), []
        engine.start()
        for number in range(2):
            if kind == "periodic":
                engine.call_every(TOMORROW, ran.append, number, delay=1)
            else:
                engine.call_later(1, ran.append, number, key=number if kind == "with a key" else None)
        with Intruder(moment, late) as intruder:
            try:
                clock.advance(2)
            except Late:
                pass
        engine._check()
        clock.advance(2)
        stats = engine.stats()
        assert ran == [0, 1], moment
        assert (stats.started, stats.running, stats.errors, stats.lateness.count) == (2, 0, 0, 2), moment
        assert engine.stop(WAIT)
        if not intruder.came:
            break


def asleep(engine):
    """Whether the loop waits; of the compiled one, which nothing can come in between, it does not matter."""
    session = engine._core.session if hasattr(engine, "_core") else None
    return session is None or session.sleeps_until_ns > 0


def test_a_handler_that_raises_makes_nobody_wait_for_ever_for_a_stop(make_engine, logged):
    """run() ends by its exception, and a thread that waits in stop() is told, whichever line it leaves by."""
    for moment in itertools.count(1):
        engine = make_engine(clock=SteppedClock())
        results: list[bool] = []
        stopper = threading.Thread(target=lambda engine=engine, results=results: results.append(engine.stop(2 * WAIT)))

        def begin(stopper=stopper, engine=engine):
            stopper.start()
            wait_until(lambda: not engine.running)

        engine.call_later(0, begin)
        with Intruder(moment, late) as intruder:
            try:
                engine.run()
            except Late:
                pass
        if stopper.ident is None:
            stopper.start()
        stopper.join(WAIT)
        assert results == [True], moment
        engine._check()
        if not intruder.came:
            break


class FailsInAWorker(SystemClock):
    """Fails once, in a worker; the loop, which is in its wait by then, stays there until it is let go."""

    def __init__(self):
        self.waits, self.may_go = threading.Event(), threading.Event()
        self.failed = False

    def time_ns(self):
        if not self.failed and "-worker" in threading.current_thread().name:
            self.failed = True
            assert self.waits.wait(WAIT)
            raise ZeroDivisionError
        return super().time_ns()

    def wait(self, event, timeout):
        if self.failed and not self.may_go.is_set():
            self.waits.set()
            assert self.may_go.wait(WAIT)
        else:
            event.wait(0.001)


@pytest.mark.filterwarnings("ignore:Exception ignored in. pysched, while:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("daemon", [False, True], ids=["pool", "daemon workers"])
def test_a_handler_that_raises_in_a_start_after_a_failure_leaves_an_engine_that_starts(make_engine, daemon, logged):
    """The failure is told by this start, whose loop there must be afterwards, or no start at all."""
    for moment in itertools.count(1):
        clock = FailsInAWorker()
        engine = make_engine(2, daemon=daemon, clock=clock)
        engine.call_later(0, nothing)
        engine.start()
        assert wait_until(lambda clock=clock, engine=engine: clock.waits.is_set() and not engine.running)
        raised = False
        with Intruder(moment, interrupt) as intruder:
            try:
                engine.start()
            except KeyboardInterrupt:
                raised = True
        assert raised == intruder.came, moment
        clock.may_go.set()
        assert engine.stop(WAIT), moment
        with engine:
            assert engine.wait_idle(WAIT), moment
        engine._check()
        if not intruder.came:
            break


@pytest.mark.parametrize(
    "workers",
    [{}, {"executor": 2}, {"executor": 2, "daemon": True}],
    ids=["inline", "two workers", "two daemon workers"],
)
def test_a_stop_and_a_start_in_the_middle_of_a_start_give_one_loop(make_engine, workers, logged):
    """The start that was interrupted must not take the later one's place for its own."""

    def count(name: str) -> int:
        return [thread.name for thread in threading.enumerate()].count(name)

    for moment in itertools.count(1):
        engine = make_engine(**workers, name="only")
        with Intruder(moment, lambda engine=engine: [engine.stop(0), engine.start()]) as intruder:
            engine.start()
        ran = threading.Event()
        engine.call_later(0, ran.set)
        assert ran.wait(WAIT)
        assert wait_until(lambda: count("only") == 1 and count("only-worker_0") <= 1)
        assert engine.stop(WAIT)
        assert wait_until(lambda: count("only") == count("only-worker_0") == 0)
        if not intruder.came:
            break
