"""Memory runs out while engines run: in loops, workers and the runs themselves. No run is lost."""

from __future__ import annotations

import os
from functools import partial

import pytest
from failures import ALL, ALLOCATORS, IN_C, attempt, failing_in_c, in_c, in_python, skip_where_python_leaks
from support import TOMORROW, WAIT, nothing, wait_until
from test_engine_executors import AtOnce, ByHand, carry_out

from pysched import current_run
from pysched.testing import ManualClock

pytestmark = pytest.mark.timeout(300)

RUNNERS = {
    "inline": dict,
    "pool": lambda: {"executor": 2},
    "daemon workers": lambda: {"executor": 2, "daemon": True},
    "an executor that is no pool": lambda: {"executor": AtOnce()},
}

MOST = 400
"""Allocations that a test lets fail at most, one after the other."""


def until_none_fails(once):
    """Call `once(number)` with 1, 2, ... until it says that nothing has failed; the last number."""
    for number in range(1, MOST):
        if not once(number):
            return number
    raise AssertionError("it never succeeds")


@in_c
@pytest.mark.parametrize("count", [1, ALL], ids=["one", "all that follow"])
@pytest.mark.parametrize("kind", RUNNERS)
def test_a_loop_without_memory_ends_and_loses_no_run(compiled, make_engine, logged, kind, count):
    """What it needs fails in turn, on all of its threads: the run happens all the same, or after another start."""

    def once(number):
        engine, ran = make_engine(**RUNNERS[kind]()), []
        for each in range(3):
            engine.call_later(0, ran.append, each)
        repeated = engine.call_every(0.001, nothing)
        with failing_in_c(number, count, of_all_threads=True) as failures:
            try:
                engine.start()
            except MemoryError:
                assert not engine.running
            wait_until(lambda: len(ran) == 3 or not engine.running)

        def has(condition):
            engine.start()  # a drain that has failed may stop the engine at any time
            return condition()

        assert wait_until(lambda: has(lambda: len(ran) == 3))
        before = engine.stats().started
        assert wait_until(lambda: has(lambda: engine.stats().started > before + 2))
        assert repeated.cancel()
        assert engine.stop(WAIT)
        engine._check()
        assert sorted(ran) == [0, 1, 2]
        assert engine.stats().running == 0
        return failures()

    assert until_none_fails(once) > 2
    assert {"MemoryError" in text for _, text, _ in logged} == {True}


@in_c
@pytest.mark.parametrize("kind", RUNNERS)
def test_run_raises_it_and_loses_no_run(compiled, make_engine, logged, kind):
    def once(number):
        engine, ran, raised = make_engine(**RUNNERS[kind]()), [], False
        engine.call_later(0, ran.append, 1)
        engine.call_later(0.01, lambda: engine.stop(0))
        with failing_in_c(number, of_all_threads=True) as failures:
            try:
                while len(engine) and not raised:
                    engine.run()
            except MemoryError:
                raised = True
        assert not engine.running
        assert raised or number > 1  # the first allocation is that of the call itself
        while len(engine):
            engine.run()
        assert engine.stop(WAIT)
        assert ran == [1]
        engine._check()
        return failures()

    until_none_fails(once)
    assert {"MemoryError" in text for _, text, _ in logged} == {True}


@in_c
def test_the_end_of_a_run_needs_no_memory(compiled, make_engine):
    """The future tells of it: nobody would ever tell again."""
    executor = ByHand()
    engine = make_engine(executor)
    engine.call_later(0, nothing)
    engine.start()
    future, work = executor.take()
    assert wait_until(lambda: engine.stats().running == 1)
    with failing_in_c(1, ALL) as failures:
        carry_out(future, work)
    assert failures() == 0
    assert engine.wait_idle(WAIT)


@in_c
def test_a_fork_needs_no_memory(compiled):
    engine = compiled.Engine(2)
    engine.call_later(TOMORROW, nothing, key="a")
    engine.start()
    with failing_in_c(1, ALL) as failures:
        child = os.fork()
        if child == 0:
            os._exit(engine.running or len(engine) != 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert failures() == 0
    assert engine.stop(WAIT)


def advance_to(clock, seconds):
    """Let time pass, however often there is no memory for it."""
    while True:
        try:
            clock.advance(max(0, seconds - clock.time()))
        except MemoryError:
            continue
        return


@pytest.mark.parametrize("allocator", IN_C)
def test_advance_without_memory_loses_no_run(compiled, allocator):
    def once(number):
        clock = ManualClock()
        engine, ran = compiled.Engine(clock=clock), []
        for each in (1, 2, 3):
            engine.call_later(each, lambda: ran.append(("once", clock.time())))
        engine.call_every(1, lambda: ran.append(("every", clock.time())))
        engine.start()
        with failing_in_c(number, 1 if allocator == "C" else 3) as failures:
            advance_to(clock, 4)
        assert ran == [("once", 1), ("every", 1), ("once", 2), ("every", 2), ("once", 3), ("every", 3), ("every", 4)]
        assert engine.stop(WAIT)
        engine._check()
        return failures()

    until_none_fails(once)


def test_a_lasting_shortage_of_memory_ends_the_retries(make_scheduler, clock, monkeypatch):
    """An attempt that could not begin counts as one."""

    class Short:
        def set(self, run):
            raise MemoryError

    seen = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: seen.append(type(error)))
    job = scheduler.every("1s", seen.append, args=["ran"], max_retries=2, retry_backoff=0)
    with monkeypatch.context() as patch:
        patch.setattr("pysched.runner.managed_run", Short())
        scheduler.start_background()
        clock.advance(1)
    assert seen == [MemoryError] * 3
    assert scheduler.get_job(job).error_count == 1
    clock.advance(1)
    assert seen[3:] == ["ran"]


@in_python
def test_no_run_is_left_behind_on_its_thread(compiled, scheduler_type, logged):
    """A context may need memory to be set, and to be as it was before: the run ends, and is over for `current_run`."""
    clock = ManualClock()
    scheduler = scheduler_type(clock=clock, timezone="UTC", on_error=nothing)
    scheduler.start_background()
    job = scheduler.every("1s", lambda: 1 / 0, max_retries=1, retry_backoff=0, timeout=60)
    for number in range(1, 600):
        attempt(partial(clock.advance, 1), "Python", number)
        assert current_run() is None
        advance_to(clock, number)
        assert scheduler.get_job(job).running == 0
    assert scheduler.shutdown(timeout=WAIT) == []


class Waver:
    """A callback that is slow at first, and fails each third time."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls < 3:
            self.clock.sleep(2.5)
        if self.calls % 3 == 0:
            raise LookupError


JOBS = {
    "plain": {},
    "queued": {"overlap": "queue"},
    "several": {"max_instances": 2, "catch_up": "all"},
    "managed": {"max_retries": 1, "retry_backoff": 0, "timeout": 60},
}
EVENTS = ("started", "succeeded", "error", "missed", "coalesced", "dropped", "removed")


@pytest.mark.parametrize("listened", [False, True], ids=["unheard", "listened to"])
@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("allocator", [ALLOCATORS[0], ALLOCATORS[2]])
def test_each_slot_has_one_fate_whatever_fails(compiled, scheduler_type, logged, allocator, kind, listened):
    """Tickets, notes, backlogs, news, events and errors are made while jobs run."""
    skip_where_python_leaks(allocator)

    def once(number):
        clock = ManualClock()
        scheduler = scheduler_type(clock=clock, timezone="UTC", on_error=nothing)
        for event in EVENTS if listened else ():
            scheduler.on(event, nothing)
        scheduler.start_background()
        job = scheduler.every("1s", Waver(clock), **JOBS[kind])
        failed, _ = attempt(lambda: clock.advance(10), allocator, number)
        advance_to(clock, 20)
        info = scheduler.get_job(job)
        assert info.run_count + info.error_count + info.coalesced_count + info.running == 20, scheduler.explain(job)
        scheduler._check()
        assert scheduler.shutdown(timeout=WAIT) == []
        assert scheduler.get_job(job).running == 0
        return failed

    if allocator == "C":
        until_none_fails(once)
    else:  # there are thousands
        for number in range(1, 2000, 29):
            once(number)
