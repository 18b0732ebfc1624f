"""Seeded stress from several threads: what was registered runs once or was cancelled once, never both."""

from __future__ import annotations

import random
import threading
import time

import pytest
from support import TOMORROW, WAIT, in_threads, nothing, on_workers, wait_until

pytestmark = pytest.mark.stress

SEEDS = [1, 2]


class Ledger:
    """Counts runs of numbered callbacks. list.append is atomic; so is itertools-free counting by it."""

    def __init__(self):
        self.runs: list[int] = []

    def duplicates(self):
        return len(self.runs) - len(set(self.runs))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_one_shot_runs_once_or_was_cancelled_once(rig, seed):
    engine, ledger = rig.engine, Ledger()
    cancelled: list[int] = []
    engine.start()

    def work(worker):
        generator = random.Random(seed * 1000 + worker)
        mine = []
        for number in range(400):
            label = worker * 10_000 + number
            delay = generator.choice([0, 0, 0.0005, 0.001, generator.random() * 0.01])
            mine.append((engine.call_later(delay, ledger.runs.append, label), label))
            if generator.random() < 0.4:
                handle, label = generator.choice(mine)
                if handle.cancel():
                    cancelled.append(label)

    in_threads(*[lambda worker=worker: work(worker) for worker in range(4)])
    rig.until(lambda: len(engine) == 0)
    rig.settle()
    assert ledger.duplicates() == 0
    assert not set(ledger.runs) & set(cancelled)
    assert len(ledger.runs) + len(cancelled) == 1600
    stats = engine.stats()
    assert (stats.scheduled, stats.started, stats.cancelled) == (1600, len(ledger.runs), len(cancelled))
    assert (stats.ready, stats.running, stats.errors) == (0, 0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_under_fire(rig, seed):
    """A few keys that all threads register and cancel: the counters must add up to the last timer."""
    engine, runs = rig.engine, []
    engine.start()

    def work(worker):
        generator = random.Random(seed * 1000 + worker)
        for _ in range(400):
            key = generator.randrange(5)
            match generator.randrange(4):
                case 0:
                    engine.cancel_key(key)
                case 1:
                    engine.call_every(0.0005 + generator.random() * 0.001, runs.append, key, key=key)
                case _:
                    engine.call_later(generator.random() * 0.002, runs.append, key, key=key)

    in_threads(*[lambda worker=worker: work(worker) for worker in range(4)])
    for key in range(5):
        engine.cancel_key(key)
    assert len(engine) == 0
    rig.settle()
    settled = engine.stats()
    assert settled.started == len(runs)
    assert settled.scheduled >= settled.cancelled
    for key in range(5):
        assert engine.cancel_key(key) is False


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_at_once(rig, seed, caplog):
    """All methods from four threads, with restarts; _check() holds at the end and nothing is lost."""
    engine, ledger = rig.engine, Ledger()
    expected: list[int] = []
    engine.start()

    def register(worker):
        generator = random.Random(seed * 1000 + worker)
        for number in range(300):
            label = worker * 10_000 + number * 10
            match generator.randrange(8):
                case 0:
                    engine.call_many([0, 0.001], ledger.runs.append, [(label,), (label + 1,)])
                    expected.extend([label, label + 1])
                case 1:
                    engine.call_every(0.0005, nothing, key=("every", worker))
                case 2:
                    engine.cancel_key(("every", worker))
                case 3:
                    engine.call_later(TOMORROW, nothing).cancel()
                case 4:
                    assert engine.stats().pending >= 0
                    assert len(engine) >= 0
                    engine.next_deadline()
                case _:
                    engine.call_later(generator.random() * 0.003, ledger.runs.append, label)
                    expected.append(label)
        engine.cancel_key(("every", worker))

    def restart():
        generator = random.Random(seed)
        for _ in range(10):
            time.sleep(generator.random() * 0.003)  # at random moments
            engine.stop(WAIT)
            engine.start()

    in_threads(*[lambda worker=worker: register(worker) for worker in range(3)], restart)
    rig.until(lambda: len(engine) == 0)
    rig.settle()
    assert sorted(ledger.runs) == sorted(expected)
    assert engine.stats().errors == 0


def test_a_thousand_timers_from_eight_threads_all_run_at_the_right_time(make_engine):
    engine = make_engine()
    late = []

    def run(due):
        late.append(engine.time() - due)

    def register(seed):
        generator = random.Random(seed)
        for _ in range(125):
            due = engine.time() + generator.random() * 0.05
            engine.call_at(due, run, due)

    with engine:
        in_threads(*[lambda seed=seed: register(seed) for seed in range(8)])
        assert wait_until(lambda: len(late) == 1000)
    assert min(late) >= -1e-9  # call_at(due) is rounded up to a whole ns; `due` itself is a float
    assert max(late) < WAIT


@on_workers(None, 2)
def test_cancel_races_with_the_start_of_runs(make_engine, workers):
    """True or run, never both and never neither, at the very moment a timer is due."""
    engine = make_engine(**workers)
    runs: list[int] = []
    with engine:
        verdicts = []
        for number in range(300):
            handle = engine.call_later(0, runs.append, number)
            verdicts.append(handle.cancel())
        assert engine.wait_idle(WAIT)
    assert sorted(runs) == [number for number, cancelled in enumerate(verdicts) if not cancelled]


@on_workers(1, 3)
def test_cancelling_periodic_timers_while_they_run_leaves_no_run_behind(make_engine, workers):
    engine = make_engine(**workers)
    ended = set()
    wrong = []

    def run(number):
        # Every later start of a cancelled timer is wrong; the one in progress may still end.
        if number in ended:
            wrong.append(number)

    with engine:
        for number in range(100):
            handle = engine.call_every(0.0003, run, number)
            if number % 3:
                time.sleep(0.0005)  # before a run, during one or after it
            assert handle.cancel()
            assert engine.wait_idle(WAIT)
            ended.add(number)
        assert engine.wait_idle(WAIT)
    assert wrong == []
    assert len(engine) == 0


def test_engines_made_and_dropped_by_many_threads(impl):
    def work(seed):
        generator = random.Random(seed)
        for _ in range(15):
            engine = impl.Engine(generator.choice([None, 1]))
            for _ in range(generator.randrange(20)):
                engine.call_later(generator.random() * 0.001, nothing)
            if generator.random() < 0.7:
                engine.start()
                assert engine.stop(WAIT)

    in_threads(*[lambda seed=seed: work(seed) for seed in range(4)])
    assert threading.active_count() < 50


@pytest.mark.real_time
@on_workers(None, 1, 2)
@pytest.mark.parametrize("callback", [int, nothing], ids=["builtin", "Python function"])
def test_a_saturated_engine_leaves_the_other_threads_alive(make_engine, workers, callback):
    """Callbacks without end, none of which need ever meet the interpreter's own switch between threads."""
    engine = make_engine(**workers)
    for _ in range(2):
        engine.call_every(1e-9, callback)
    never = threading.Event()
    with engine:
        begin = time.monotonic()
        for _ in range(100):  # each of which waits for the GIL
            never.wait(0.0005)
        assert time.monotonic() - begin < WAIT
