"""Counters add up, at every moment at which one may look: nothing is lost, and nothing is counted twice.

Of one-shots: scheduled = started + cancelled + pending + dropped, and of a `Scheduler` also those that were missed
(`misfire_grace_time`), which `coalesced` counts.  A one-shot whose run a `shutdown` has dropped stays listed, and so
is pending too.  Of slots of periodic jobs: test_scheduler_accounting.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future

import pytest
from support import WAIT, nothing, wait_until


def adds_up(stats, dropped_and_listed=0):
    found = stats.started + stats.cancelled + stats.pending + stats.dropped + stats.coalesced - dropped_and_listed
    assert stats.scheduled == found, stats


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(3))
def test_of_an_engine_that_is_stopped_and_started(make_rig, seed):
    rig = make_rig(on_error=nothing)
    engine, generator = rig.engine, random.Random(seed)
    handles = []
    for _ in range(40):
        for _ in range(20):
            key = generator.choice([None, None, generator.randrange(5)])
            callback = generator.choice([nothing, [].pop, lambda: engine.call_later(0, nothing)])
            handles.append(engine.call_later(generator.choice([0, 0.001, 0.002, 60]), callback, key=key))
        engine.call_many([0, 0.001, 60], nothing)
        for handle in generator.sample(handles, 5):
            handle.cancel()
        engine.cancel_key(generator.randrange(5))
        adds_up(engine.stats())
        if generator.random() < 0.5:
            engine.stop(WAIT) if engine.running else engine.start()
        if rig.clock is not None:
            rig.clock.advance("1ms")
        adds_up(engine.stats())
    engine.start()
    rig.settle()
    adds_up(engine.stats())
    assert engine.stop(WAIT)
    assert engine.stats().pending == len(engine)


def test_of_an_engine_while_other_threads_use_it(make_engine):
    """A snapshot is of one instant, so it adds up in the middle of everything."""
    engine, ending = make_engine(2), threading.Event()
    engine.start()

    def use(seed):
        generator = random.Random(seed)
        while not ending.is_set():
            handle = engine.call_later(generator.choice([0, 0.0001, 60]), nothing, key=generator.randrange(20))
            if generator.random() < 0.3:
                handle.cancel()

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            adds_up(engine.stats())
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    adds_up(engine.stats())


def test_of_an_engine_whose_executor_drops_what_it_was_given(make_engine):
    class Dropping:
        given = 0

        def submit(self, function, *args):
            self.given += 1
            future = Future()
            if self.given % 3:
                function(*args)
                future.set_result(None)
            else:
                future.cancel()
            return future

    engine = make_engine(Dropping())
    for _ in range(30):
        engine.call_later(0, nothing)
    engine.call_later(60, nothing)
    engine.start()
    assert engine.wait_idle(WAIT)
    stats = engine.stats()
    assert (stats.started, stats.dropped, stats.pending) == (20, 10, 1)
    adds_up(stats)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(20))
def test_of_one_shots_of_a_scheduler(make_scheduler, clock, seed):
    """With every option that says what becomes of them, and a shutdown in the middle, from inside or outside."""
    generator = random.Random(seed)
    scheduler = make_scheduler(clock=clock, on_error=nothing)

    def job():
        if generator.random() < 0.2:
            clock.sleep(generator.choice([0.5, 3, 10]))
        if generator.random() < 0.3:
            raise ValueError

    for step in range(120):
        options = generator.choice(
            [{}, {}, {"timeout": 2}, {"misfire_grace_time": 1}, {"max_retries": 2, "retry_backoff": 1}]
        )
        job_id = f"k{generator.randrange(30)}"
        match generator.randrange(8):
            case 0 | 1 | 2:
                scheduler.after(generator.choice([0, 1, 5, 100]), job, id=job_id, replace=True, **options)
            case 3:
                scheduler.after(generator.choice([0, 1, 5]), job, **options)
            case 4:
                clock.advance(generator.choice([0, 1, 4]))
            case 5 if scheduler.list_jobs():
                scheduler.remove_job(generator.choice(scheduler.list_jobs())["id"])
            case 6 if scheduler.list_jobs():
                chosen = generator.choice(scheduler.list_jobs())["id"]
                generator.choice([scheduler.pause_job, scheduler.resume_job])(chosen)
        if step == 20:
            scheduler.start_background()
        adds_up(scheduler.stats())
    if seed % 2:
        scheduler.after(0, scheduler.shutdown)
        for _ in range(3):
            scheduler.after(0, job)
        clock.advance(0)
        assert not scheduler.running
    else:
        scheduler.shutdown()
    stats = scheduler.stats()
    adds_up(stats, stats.dropped)
    assert (stats.running, stats.ready, stats.pending) == (0, 0, len(scheduler))


def test_of_one_shots_that_a_shutdown_finds_in_the_queue(make_scheduler):
    scheduler, inside, go = make_scheduler(1), threading.Event(), threading.Event()
    scheduler.after(0, lambda: (inside.set(), go.wait(WAIT)))
    for _ in range(5):
        scheduler.after(0, nothing)
    scheduler.after(60, nothing)
    scheduler.start_background()
    assert inside.wait(WAIT)
    assert wait_until(lambda: scheduler.stats().ready == 5)
    scheduler.shutdown(wait=False)
    go.set()
    assert scheduler.shutdown() == []
    stats = scheduler.stats()
    assert (stats.started, stats.dropped, stats.pending) == (1, 5, 6)
    adds_up(stats, stats.dropped)
    assert [scheduler.explain(info["id"])[-1].decision for info in scheduler.list_jobs()[:5]] == ["dropped"] * 5
