"""`Scheduler`: whichever step at the end of a run fails, its instance is given back and the next tick comes."""

from __future__ import annotations

import pytest
from support import nothing

EVENTS = ("started", "succeeded", "error", "retry", "timeout", "removed")


def outcomes(clock):
    """A callback that succeeds, fails and takes too long in turn."""
    turn = iter("sft" * 100)

    def job():
        match next(turn):
            case "f":
                raise ValueError
            case "t":
                clock.sleep(3)

    return job


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", ["JobEvent", "as_it_will_be", "put"])
def test_the_delivery_of_its_events(make_scheduler, clock, monkeypatch, logged, step, failure):
    """Not even the error that no event could be made stops anything; it is logged each time."""
    import pysched.announcer

    scheduler = make_scheduler(clock=clock, on_error=nothing)
    for event in EVENTS:
        scheduler.on(event, nothing)
    scheduler.start_background()
    job_id = scheduler.every("10s", outcomes(clock), timeout=2, max_retries=1, retry_backoff=0)

    def fails(*args, **about):
        raise failure

    with monkeypatch.context() as patched:
        if step == "put":
            patched.setattr(scheduler._events, "put", fails)
        else:
            patched.setattr(pysched.announcer, step, fails)
        for _ in range(6):
            clock.advance(10)
            assert scheduler.get_job(job_id).running == 0
    info = scheduler.get_job(job_id)
    assert info.started_count == info.run_count + info.error_count == 6
    assert sum("could not be told" in text for _, text, _ in logged) >= 6
    clock.advance(10)
    assert scheduler.get_job(job_id).started_count == 7
    assert not scheduler._runner.all_open()


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt, SystemExit])
def test_the_hand_over_of_a_coroutine(make_scheduler, clock, monkeypatch, logged, failure):
    scheduler, ran = make_scheduler(clock=clock), []
    scheduler.start_background()

    async def job():
        ran.append(1)

    job_id = scheduler.every("10s", job, on_error=nothing)

    def fails(*args, **about):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(scheduler._runner.coroutines, "_lane_now", fails)
        clock.advance(20)
        info = scheduler.get_job(job_id)
        assert (info.running, info.error_count, info.run_count) == (0, 2, 0)
    clock.advance(10)
    info = scheduler.get_job(job_id)
    assert (info.running, info.error_count, info.run_count) == (0, 2, 1)
    assert ran == [1]


@pytest.mark.parametrize("options", [{}, {"timeout": 2}, {"max_retries": 1, "retry_backoff": 0}], ids=str)
def test_the_reading_of_what_was_returned(scheduler, clock, logged, options):
    """A result whose class, and whose every method, raises."""

    class Hostile:
        def __getattribute__(self, name):
            raise ZeroDivisionError

        __eq__ = __bool__ = __repr__ = __await__ = None

    job_id = scheduler.every("10s", Hostile, **options)
    clock.advance(30)
    info = scheduler.get_job(job_id)
    assert (info.running, info.started_count) == (0, 3)
    assert info.run_count + info.error_count == 3
