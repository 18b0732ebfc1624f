"""docs/semantics.md, "What may be called where": from callbacks, coroutines, listeners, destructors, other threads.

Signal handlers at any moment: test_scheduler_processes, test_scheduler_races; all from eight threads at once:
test_scheduler_registration, test_scheduler_control.
"""

from __future__ import annotations

import asyncio
import gc
import io
from datetime import datetime, timezone

import pytest
from support import in_other_thread, nothing

UTC = timezone.utc
T1 = datetime(2000, 1, 2, tzinfo=UTC)

CALLS = {
    "every": lambda s: s.every("1h", nothing),
    "cron": lambda s: s.cron("* * * * *", nothing),
    "after": lambda s: s.after("1h", nothing),
    "at": lambda s: s.at(T1, nothing),
    "every, with options": lambda s: s.every("1h", nothing, id="new", timeout=5, spread=1, overlap="queue"),
    "replace": lambda s: s.every("1h", nothing, id="k", replace=True),
    "remove_job": lambda s: s.remove_job("k"),
    "pause_job": lambda s: s.pause_job("k"),
    "resume_job": lambda s: s.resume_job("k"),
    "run_job": lambda s: s.run_job("k"),
    "reschedule_job": lambda s: s.reschedule_job("k", every="2h"),
    "reschedule_job to cron": lambda s: s.reschedule_job("k", cron="0 0 * * *"),
    "remove_all_jobs": lambda s: s.remove_all_jobs(),
    "pause": lambda s: s.pause(),
    "resume": lambda s: s.resume(),
    "get_job": lambda s: s.get_job("k"),
    "list_jobs": lambda s: s.list_jobs(),
    "next_runs": lambda s: s.next_runs("k", 3),
    "explain": lambda s: s.explain("k"),
    "stats": lambda s: s.stats(),
    "is_healthy": lambda s: s.is_healthy(),
    "len": len,
    "print": lambda s: print(s, file=io.StringIO()),
    "on": lambda s: s.on("started", nothing)(),
    "shutdown": lambda s: s.shutdown(),
}
all_calls = pytest.mark.parametrize("call", CALLS)


@pytest.fixture
def used(scheduler):
    """A scheduler with a job `k`, one of another kind, and a listener of everything there is."""
    scheduler.every("1h", nothing, id="k")
    scheduler.cron("* * * * *", nothing, timeout=5)
    for name in ("added", "removed", "paused", "resumed", "started", "succeeded", "dropped"):
        scheduler.on(name, nothing)
    return scheduler


@all_calls
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_in_a_callback(used, clock, call, options):
    done = []
    used.after(1, lambda: (CALLS[call](used), done.append(call)), **options)
    clock.advance(1)
    assert done == [call]
    used._check()


@all_calls
def test_in_its_own_callback(used, clock, call):
    """Of the very job that is asked about, or changed."""
    done = []

    def job():
        if not done:
            done.append(call)
            CALLS[call](used)

    used.every("1h", job, id="k", replace=True, immediate=True)
    clock.advance(0)
    assert done == [call]
    clock.advance("3h")
    used._check()


@all_calls
def test_in_a_coroutine(used, clock, call):
    done = []

    async def job():
        await asyncio.sleep(1)
        CALLS[call](used)
        done.append(call)

    used.after(1, job)
    clock.advance(3)
    assert done == [call]
    used._check()


@all_calls
@pytest.mark.parametrize("event", ["added", "started", "succeeded", "removed"])
def test_in_a_listener(used, clock, call, event):
    done = []

    def listener(told):
        if not done and told.job.name == "<lambda>":
            done.append(call)
            CALLS[call](used)

    used.on(event, listener)
    used.after(1, lambda: None)
    clock.advance(1)
    assert done == [call]
    used._check()


@all_calls
def test_in_a_destructor(used, clock, call):
    """Also one that the collector runs, at a moment of its own."""
    done = []

    class Owner:
        def __init__(self):
            self.me = self

        def __del__(self):
            CALLS[call](used)
            done.append(call)

    Owner()
    gc.collect()
    assert done == [call]
    used._check()


@all_calls
def test_in_a_destructor_of_a_callback(used, clock, call):
    """Which goes when its job does."""
    done = []

    class Callback:
        def __call__(self):
            pass

        def __del__(self):
            CALLS[call](used)
            done.append(call)

    used.after(1, Callback())
    clock.advance(1)
    gc.collect()
    assert done == [call]
    used._check()


@all_calls
def test_in_an_error_handler(used, clock, call):
    done = []

    def handler(error, run):
        CALLS[call](used)
        done.append(call)

    used.after(1, lambda: 1 / 0, on_error=handler)
    clock.advance(1)
    assert done == [call]
    used._check()


@all_calls
@pytest.mark.parametrize("clocked", [True, False], ids=["manual", "real"])
def test_in_another_thread(make_scheduler, clock, call, clocked):
    scheduler = make_scheduler(2, clock=clock if clocked else None)
    scheduler.every("1h", nothing, id="k")
    scheduler.start_background()
    assert in_other_thread(lambda: CALLS[call](scheduler))
    scheduler._check()


@pytest.mark.parametrize("started", [True, False])
@all_calls
def test_before_the_start(make_scheduler, clock, call, started, logged):
    """All but `run_job`, which says that the scheduler is not running."""
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1h", nothing, id="k")
    if started:
        scheduler.start_background()
        scheduler.shutdown()
    if call == "run_job":
        with pytest.raises(RuntimeError, match="not running"):
            CALLS[call](scheduler)
    else:
        CALLS[call](scheduler)
    scheduler._check()
    assert len(logged) <= 1  # of a registration that comes too late


@pytest.mark.parametrize("call", ["wait_idle", "run", "start_background"])
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_what_is_refused_in_a_callback(scheduler, clock, call, options):
    raised = []

    def job():
        try:
            getattr(scheduler, call)()
        except RuntimeError as error:
            raised.append(str(error))

    scheduler.after(1, job, **options)
    clock.advance(1)
    assert len(raised) == 1
    assert scheduler.running
