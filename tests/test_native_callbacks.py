"""C callbacks (pysched._engine.capi): native/native_timers.pyx is compiled once, and calls all of its functions."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import chosen_engines
from cython_builds import build_module
from failures import IN_C, Case, fail_in_turn
from support import WAIT, SteppedClock, assert_quiet, nothing, pause, run_python, wait_until, while_at_work

from pysched import TimerLimitError
from pysched.testing import ManualClock

SOURCE = Path(__file__).parent / "native" / "native_timers.pyx"
MS = 1_000_000
SECOND = 1_000_000_000
NEVER = 2**63 - 1

pytestmark = [
    pytest.mark.skipif("native" not in chosen_engines(), reason="the twin has no C callbacks"),
    pytest.mark.timeout(300),
]

if "native" in chosen_engines():
    from pysched._engine import Engine
else:
    Engine = None

RUNNING = {
    "inline": {},
    "pool": {"executor": 2},
    "daemon workers": {"executor": 2, "daemon": True},
    "one daemon worker": {"executor": 1, "daemon": True},
}


@pytest.fixture(scope="session")
def native(tmp_path_factory):
    """The compiled module."""
    return build_module(SOURCE, tmp_path_factory.mktemp("native_timers"))


@pytest.fixture
def make(native):
    """Makes an engine and its `Timers`; all engines are stopped and checked at the end."""
    engines = []

    def make(**options):
        engine = Engine(**options)
        engines.append(engine)
        return engine, native.Timers(engine)

    yield make
    for engine in engines:
        assert engine.stop(WAIT), "a callback was left running"
        engine._check()


@pytest.fixture(params=RUNNING)
def running(request, make):
    """A started engine in each way of running callbacks."""
    engine, timers = make(**RUNNING[request.param])
    engine.start()
    return SimpleNamespace(engine=engine, timers=timers, options=RUNNING[request.param])


@pytest.fixture
def manual(make):
    """A started engine on a ManualClock."""
    clock = ManualClock()
    engine, timers = make(clock=clock)
    engine.start()
    return SimpleNamespace(engine=engine, timers=timers, clock=clock)


@pytest.fixture
def probe(native):
    return native.Probe()


# Without the GIL


def test_callbacks_run_while_another_thread_keeps_the_gil(running, probe, native):
    running.timers.every(MS, 0, probe)
    assert native.hold_gil(probe, 20, WAIT)
    assert (probe.with_gil, probe.overlaps) == (0, 0)
    assert probe.thread != threading.get_ident()


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("added", ["before", "after"])
def test_a_daemon_worker_that_waits_for_the_gil_leaves_them_to_others(make, probe, native, workers, added):
    engine, timers = make(executor=workers, daemon=True)
    engine.start()
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1000)  # nobody else gets the GIL
        for _ in range(workers):
            engine.call_later(0, nothing)
        if added == "before":
            timers.every(MS, 0, probe)
        deadline = time.monotonic() + 0.01
        while time.monotonic() < deadline:
            pass  # workers come for the callbacks of Python
        if added == "after":
            timers.every(MS, 0, probe)
        assert native.hold_gil(probe, 20, WAIT)
    finally:
        sys.setswitchinterval(before)
    assert engine.stats().started >= 20
    assert probe.overlaps == 0


def test_run_on_the_main_thread_calls_them_there(make, probe):
    engine, timers = make()
    stop = engine.stop
    timers.later(0, probe)
    timers.later_python(MS, stop)
    engine.run()
    assert (probe.calls, probe.thread, engine.running) == (1, threading.get_ident(), False)


def test_they_run_on_the_loops_thread_and_never_on_a_worker(make, probe):
    engine, timers = make(executor=2, name="loop")
    workers = set()
    for _ in range(20):
        engine.call_later(0, lambda: workers.add(threading.get_ident()))
        timers.later(0, probe)
    engine.start()
    assert wait_until(lambda: probe.calls == 20 and workers)
    [loop] = [thread.ident for thread in threading.enumerate() if thread.name == "loop"]
    assert probe.thread == loop
    assert loop not in workers


def test_an_executor_that_is_no_pool_is_never_given_them(make, probe):
    submitted = []

    class Direct(Executor):
        def submit(self, function, *args):
            submitted.append(function)
            future = Future()
            future.set_result(function(*args))
            return future

    engine, timers = make(executor=Direct())
    timers.every(MS, 0, probe)
    engine.call_later(0.005, int)
    engine.start()
    assert wait_until(lambda: probe.calls >= 10 and submitted)
    assert submitted == [int]


def test_daemon_workers_that_are_all_busy_hold_nothing_up(make, probe, native):
    """The loop's thread stands in for them; those that come free meanwhile let it finish."""
    engine, timers = make(executor=2, daemon=True)
    free = threading.Event()
    busy = threading.Semaphore(0)

    def block():
        busy.release()
        free.wait(WAIT)

    engine.call_later(0, block)
    engine.call_later(0, block)
    engine.start()
    assert all(busy.acquire(timeout=WAIT) for _ in range(2))
    timers.every(MS, 0, probe)
    assert wait_until(lambda: probe.calls >= 5)
    probe.hold(2000)
    free.set()
    assert wait_until(lambda: probe.calls >= 30)
    for _ in range(50):
        engine.call_later(0, pause, 0.0002)
    calls = probe.calls
    assert wait_until(lambda: probe.calls >= calls + 20)
    assert probe.overlaps == 0


def test_a_start_does_not_wait_for_the_call_that_a_stop_did_not_outlast(make, probe):
    """The daemon worker that is inside of it led.  The others, all new, do not leave the lead to it."""
    engine, timers = make(executor=2, daemon=True)
    blocked, let_out = threading.Event(), threading.Event()

    def block():
        blocked.set()
        let_out.wait(WAIT)

    timers.later_python(0, block)
    engine.start()
    assert blocked.wait(WAIT)
    for _ in range(2):
        assert not engine.stop(0.01)
        engine.start()
        engine._check()
        both = threading.Barrier(3)  # both workers, and this thread
        engine.call_many([0.0, 0.001], both.wait, [(WAIT,), (WAIT,)])
        both.wait(WAIT)
        timers.later(MS, probe)
        assert wait_until(lambda: probe.released == probe.calls > 0)
    let_out.set()
    assert engine.wait_idle(WAIT)
    engine._check()


# When


def test_they_keep_their_place_among_callbacks_of_python(manual):
    said = []
    log = [lambda name=name: said.append((name, manual.clock.time())) for name in "abcd"]
    manual.engine.call_later(1, log[0])
    manual.timers.later_python(SECOND, log[1])
    manual.engine.call_later(1, log[2])
    manual.timers.later_python(SECOND // 2, log[3])
    assert manual.clock.advance(2) == 4
    assert said == [("d", 0.5), ("a", 1.0), ("b", 1.0), ("c", 1.0)]


def test_the_order_is_the_same_on_an_inline_loop(make):
    engine, timers = make()
    said = []
    log = [lambda name=name: said.append(name) for name in "abc"]
    now = timers.time_ns() / 1e9
    engine.call_at(now, log[0])
    timers.later_python(0, log[1])
    engine.call_later(0, log[2])
    engine.call_later(0.001, engine.stop)
    engine.run()
    assert said == ["a", "b", "c"]


def test_at_is_in_the_engines_time_and_the_past_is_now(manual, probe):
    manual.clock.advance(10)
    assert manual.timers.time_ns() == 10 * SECOND
    manual.timers.at(12 * SECOND, probe)
    manual.timers.at(3 * SECOND, probe)
    assert (manual.clock.advance(0), probe.calls) == (1, 1)
    assert (manual.clock.advance(1.9), manual.clock.advance(0.2)) == (0, 1)
    assert manual.engine.stats().lateness.max == 0.0


def test_periodic_ones_stay_on_their_grid_and_coalesce_what_they_miss(manual, probe):
    manual.timers.every(SECOND, SECOND // 2, probe)
    assert manual.clock.advance(3) == 3
    manual.clock.sleep(2.2)  # 3.5 and 4.5 pass by
    manual.clock.advance(0)
    stats = manual.engine.stats()
    assert (probe.calls, stats.coalesced, stats.pending) == (4, 1, 1)
    assert manual.engine.next_deadline() == 5.5


def test_slots_that_come_while_it_runs_are_coalesced(make, probe):
    engine, timers = make()
    probe.hold(5000)
    timers.every(MS, 0, probe)
    engine.start()
    assert wait_until(lambda: probe.calls == 3)
    assert engine.stats().coalesced >= 6
    assert probe.overlaps == 0


def test_what_was_cancelled_is_within_bounds_while_the_others_run(running, probe):
    """Of as many as may be kept beside those that live, 1024 more; `_check()` holds at each start of one of these."""
    engine, timers = running.engine, running.timers
    assert engine.stop(WAIT)
    checked = []

    def check():
        engine._check()
        checked.append(1)

    for _ in range(20):
        timers.later_python(0, check)
    timers.later_bare(3599 * SECOND, probe)  # those that are cancelled would be dropped if they came to be first
    for timer in [timers.later_bare(3600 * SECOND, probe) for _ in range(21 + 1024)]:
        assert timers.cancel(timer)
    engine._check()
    engine.start()
    assert wait_until(lambda: len(checked) == 20)


def test_what_never_comes_is_accepted(manual, probe):
    manual.timers.later(NEVER, probe)
    manual.timers.every(NEVER, NEVER, probe)
    assert (len(manual.engine), manual.engine.next_deadline()) == (2, None)
    assert manual.clock.advance(10**6) == 0


def test_they_count_in_stats_like_others(running, probe):
    for _ in range(10):
        running.timers.later(0, probe)
    ids = [running.timers.later(3600 * SECOND, probe) for _ in range(5)]
    assert [running.timers.cancel(timer) for timer in ids[:3]] == [True] * 3
    assert wait_until(lambda: probe.calls == 10)
    assert running.engine.wait_idle(WAIT)
    stats = running.engine.stats()
    assert (stats.scheduled, stats.started, stats.cancelled, stats.pending, stats.running) == (15, 10, 3, 2, 0)
    assert (stats.errors, stats.lateness.count, len(running.engine)) == (0, 10, 2)


def test_more_than_one_chunk_of_the_table_can_wait(manual, probe):
    for i in range(10_000):
        manual.timers.later(i * MS, probe)
    assert manual.clock.advance(5) == 5001
    gc.collect()
    manual.engine._check()
    assert (manual.clock.advance(5), probe.calls, probe.released) == (4999, 10_000, 10_000)


def test_a_users_clock_is_asked_with_the_gil(make, probe):
    clock = SteppedClock()
    for options in ({}, {"executor": 1}):
        clock.set(0)
        calls = probe.calls
        engine, timers = make(clock=clock, **options)
        timers.every(SECOND, SECOND, probe)
        engine.start()
        clock.set(1)
        assert wait_until(lambda calls=calls: probe.calls == calls + 1)
        timers.later(SECOND, probe)
        clock.set(2)
        assert wait_until(lambda calls=calls: probe.calls == calls + 3)
        assert engine.stop(WAIT)
    assert probe.with_gil == 0


# Cancelling and releasing


def test_cancel_is_true_once_and_has_released_the_argument(manual, probe):
    timer = manual.timers.later(SECOND, probe)
    assert (manual.timers.cancel(timer), probe.released) == (True, 1)
    assert (manual.timers.cancel(timer), probe.released) == (False, 1)
    assert (manual.clock.advance(2), len(manual.engine), probe.calls) == (0, 0, 0)


def test_an_id_that_is_not_of_a_c_callback_cancels_nothing(manual, probe):
    handle = manual.engine.call_later(1, int)
    spent = manual.timers.later(0, probe)
    manual.clock.advance(0)
    every = [0, -1, 1, 2, NEVER, spent, *(generation << 24 | 1 for generation in range(4))]
    assert not any(manual.timers.cancel(timer) for timer in every)
    assert (handle.done(), manual.engine.stats().cancelled) == (False, 0)


def test_one_shots_release_after_the_call(running, probe):
    running.timers.later(0, probe)
    assert wait_until(lambda: probe.released == 1)
    assert (probe.calls, probe.released_inside) == (1, 0)


def test_a_periodic_one_that_cancels_itself_is_released_after_the_call(running, probe):
    assert running.engine.stop(WAIT)
    running.timers.cancel_inside(running.timers.every(NEVER, 0, probe), probe)
    running.engine.start()
    assert wait_until(lambda: probe.released == 1)
    assert (probe.calls, probe.cancelled, probe.released_inside) == (1, 1, 0)
    assert running.engine.wait_idle(WAIT)
    assert len(running.engine) == 0


def test_a_periodic_one_that_is_cancelled_while_it_runs_is_released_after_the_call(running, probe):
    probe.hold(50_000)
    timer = running.timers.every(MS, 0, probe)
    assert wait_until(lambda: probe.inside)
    assert running.timers.cancel(timer)
    assert running.engine.wait_idle(WAIT)
    assert (probe.calls, probe.released, probe.released_inside) == (1, 1, 0)


def test_release_may_be_null(manual, probe):
    manual.timers.later_bare(0, probe)
    timer = manual.timers.later_bare(SECOND, probe)
    manual.clock.advance(0)
    assert (manual.timers.cancel(timer), probe.calls, probe.released) == (True, 1, 0)


def test_an_engine_that_is_collected_releases_what_waits_and_takes_nothing_more(native, probe):
    engine = Engine()
    timers = native.Timers(engine)
    timers.later(SECOND, probe)
    timers.every(SECOND, SECOND, probe)
    engine.call_later(1, int, engine)  # a cycle
    del engine
    gc.collect()
    assert (probe.calls, probe.released) == (0, 2)
    with pytest.raises(RuntimeError, match="collected"):
        timers.later(0, probe)
    assert probe.released == 2


def test_a_users_clock_tells_of_an_engine_that_is_gone(native, probe):
    timers = native.Timers(Engine(clock=ManualClock()))
    with pytest.raises(RuntimeError, match="collected"):
        timers.time_ns()
    with pytest.raises(RuntimeError, match="collected"):
        timers.later(0, probe)


# The engine's life


def test_timers_outlast_a_stop(running, probe):
    engine, timers = running.engine, running.timers
    timers.every(2 * MS, 0, probe)
    assert wait_until(lambda: probe.calls >= 3)
    assert engine.stop(WAIT)
    calls = probe.calls
    timers.later(0, probe)
    pause(0.02)
    assert (probe.calls, len(engine), probe.released) == (calls, 2, 0)
    engine.start()
    assert wait_until(lambda: probe.calls >= calls + 3)
    assert probe.released == 1


def test_stop_waits_for_the_call_in_progress(running, probe):
    probe.hold(100_000)
    running.timers.every(MS, 0, probe)
    assert wait_until(lambda: probe.inside)
    assert not running.engine.stop(0)
    assert running.engine.stop(WAIT)
    assert (probe.inside, probe.calls, running.engine.stats().running) == (0, 1, 0)


def test_a_callback_may_take_the_gil_and_call_the_engine(running):
    said = []
    over = threading.Event()

    def inside():
        try:
            running.engine.wait_idle()
        except RuntimeError:
            said.append("wait_idle refuses")
        said.append(running.engine.stop())
        over.set()

    running.timers.every_python(MS, inside)
    assert over.wait(WAIT)
    assert running.engine.stop(WAIT)
    assert said == ["wait_idle refuses", True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_has_the_timers_and_runs_them_once_started(tmp_path, native):
    program = f"""
        import os, sys, importlib.util, time
        spec = importlib.util.spec_from_file_location("native_timers", {native.__file__!r})
        native = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(native)
        from pysched import Engine
        engine = Engine()
        timers, probe = native.Timers(engine), native.Probe()
        timers.every(1_000_000, 0, probe)
        engine.start()
        while probe.calls < 5:
            time.sleep(0.001)
        pid = os.fork()
        if pid == 0:
            calls = probe.calls
            assert not engine.running and len(engine) == 1
            engine._check()
            engine.start()
            while probe.calls < calls + 5:
                time.sleep(0.001)
            timers.later(0, probe)
            while probe.released < 1:
                time.sleep(0.001)
            assert engine.stop(10)
            engine._check()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        calls = probe.calls
        while probe.calls < calls + 5:
            time.sleep(0.001)
        assert engine.stop(10)
    """
    assert_quiet(run_python(program, engine="native"))


@pytest.mark.parametrize("options", RUNNING.values(), ids=RUNNING)
def test_the_interpreter_ends_while_they_run(options, native):
    program = f"""
        import importlib.util, time
        spec = importlib.util.spec_from_file_location("native_timers", {native.__file__!r})
        native = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(native)
        from pysched import Engine
        engine = Engine(**{options!r})
        timers, probe = native.Timers(engine), native.Probe()
        timers.every(100_000, 0, probe)
        timers.every_python(100_000, int)
        engine.start()
        while probe.calls < 5:
            time.sleep(0.001)
    """
    assert_quiet(run_python(program, engine="native"))


# Several threads


@pytest.mark.stress
def test_threads_of_c_add_and_cancel_while_the_collector_looks(running, probe, native):
    """The table grows meanwhile without the GIL; every argument is released once."""
    done = []
    running.engine.call_every(0.001, len, [])
    while_at_work(gc.collect, lambda: done.append(native.in_c_threads(running.timers, probe, 20_000, 2 * MS)))
    [(added, cancelled)] = done
    assert added == 40_000
    assert wait_until(lambda: probe.released == added)
    assert probe.calls == added - cancelled
    assert (probe.overlaps, len(running.engine)) == (0, 1)
    running.engine._check()


@pytest.mark.stress
def test_a_race_of_cancels_is_won_once(running, probe):
    """Two threads cancel what the engine is about to call."""
    prevented = [0, 0]
    for _ in range(200):
        timer = running.timers.later(MS // 10, probe)

        def cancel(who, timer=timer):
            prevented[who] += running.timers.cancel(timer)

        first = threading.Thread(target=cancel, args=(0,))
        first.start()
        cancel(1)
        first.join()
    assert wait_until(lambda: probe.released == 200)
    assert probe.calls + sum(prevented) == 200
    assert running.engine.stats().cancelled == sum(prevented)


# Faults


@pytest.mark.parametrize(
    "call",
    [
        lambda timers, probe: timers.later(-1, probe),
        lambda timers, probe: timers.every(0, 0, probe),
        lambda timers, probe: timers.every(1, -1, probe),
        lambda timers, probe: timers.later_null(),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_released(manual, probe, call):
    with pytest.raises(ValueError, match="delay_ns >= 0"):
        call(manual.timers, probe)
    assert (len(manual.engine), probe.released) == (0, 0)


def test_only_a_compiled_engine_can_be_opened(native):
    from pysched._engine import CommandScheduler
    from pysched._pure import Engine as PureEngine

    for other in (None, CommandScheduler(), PureEngine(), Engine):
        with pytest.raises(TypeError, match="engine must be a compiled Engine, got"):
            native.Timers(other)


class NativeCase(Case):
    """A call of the C interface while memory is short."""

    def __init__(self, native, probe, timers, prepare):
        self.probe, self.clock = probe, ManualClock()
        self.engine = Engine(clock=self.clock)
        if timers:
            self.engine.call_many([1e6] * timers, nothing)
        self.engine.start()
        self.timers = native.Timers(self.engine)
        super().__init__(prepare(self))

    def look(self):
        return len(self.engine), self.engine.stats(), self.probe.released

    def goes_on(self):
        calls = self.probe.calls
        self.timers.later(0, self.probe)
        self.clock.advance(0)
        assert self.probe.calls == calls + 1
        assert self.engine.stop(WAIT)
        self.engine._check()


@pytest.mark.parametrize("allocator", IN_C)
@pytest.mark.parametrize("timers", [0, 4095, 8191])
@pytest.mark.parametrize(
    "prepare",
    [
        lambda case: lambda: case.timers.later(SECOND, case.probe),
        lambda case: lambda: case.timers.at(SECOND, case.probe),
        lambda case: lambda: case.timers.every(SECOND, SECOND, case.probe),
        lambda case: lambda: type(case.timers)(case.engine),
    ],
    ids=["call_later", "call_at", "call_every", "open"],
)
def test_each_allocation_fails_in_turn(native, probe, prepare, timers, allocator):
    assert fail_in_turn(lambda: NativeCase(native, probe, timers, prepare), allocator) >= 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (-1, MemoryError),
        (-2, TimerLimitError),
        (-3, ValueError),
        (-4, RuntimeError),
        (-5, RuntimeError),
        (7, ValueError),
    ],
)
def test_errors_can_be_raised(native, error, kind):
    with pytest.raises(kind):
        native.raise_error(error)


def test_a_clock_that_fails_is_an_error_and_is_logged(make, probe, logged):
    class Failing(SteppedClock):
        failing = False

        def time_ns(self):
            if self.failing:
                raise ZeroDivisionError("no time")
            return super().time_ns()

    engine, timers = make(clock=Failing(), name="failing")
    Failing.failing = True
    for call in (lambda: timers.later(0, probe), timers.time_ns):
        with pytest.raises(RuntimeError, match="clock"):
            call()
    Failing.failing = False
    assert [(level, text.splitlines()[0]) for level, text, _ in logged] == [
        ("ERROR", "failing: the clock could not tell the time")
    ] * 2
    assert (len(engine), probe.released) == (0, 0)
