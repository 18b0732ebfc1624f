"""`Scheduler`: list_jobs, get_job, stats, repr, len and truth."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import threading
import weakref
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from support import WAIT, nothing, wait_until, while_at_work

from pysched import JobInfo

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def test_get_job_and_list_jobs_say_the_same(scheduler, clock, logged):
    scheduler.every("10s", lambda: clock.sleep(1), tags=["t"], max_retries=2)
    scheduler.cron("* * * * *", lambda: 1 / 0, timezone="Asia/Tokyo", timeout=5)
    scheduler.after("1h", nothing)
    scheduler.at(datetime(2001, 1, 1, tzinfo=ZoneInfo("Europe/Paris")), nothing)
    clock.advance(100)
    for listed in scheduler.list_jobs():
        info = scheduler.get_job(listed["id"])
        assert isinstance(info, JobInfo)
        assert list(listed) == [field.name for field in dataclasses.fields(JobInfo)]
        for key, value in listed.items():
            seen = getattr(info, key)
            if key in ("last_run_at", "next_run_at", "started_at"):
                seen = None if seen is None else str(int(seen.timestamp()))
            elif key == "timezone":
                seen = str(seen)
            elif key == "tags":
                assert isinstance(seen, frozenset)
                seen = tuple(sorted(seen))
            assert seen == value, key


def test_times_of_a_job_are_aware_and_in_its_zone(scheduler, clock):
    tokyo = ZoneInfo("Asia/Tokyo")
    job_id = scheduler.cron("* * * * *", lambda: clock.sleep(1.5), timezone=tokyo)
    clock.advance(61)
    info = scheduler.get_job(job_id)
    assert info.timezone is tokyo
    assert info.started_at == T0 + timedelta(seconds=60)
    assert info.last_run_at == T0 + timedelta(seconds=61.5)
    assert info.next_run_at == T0 + timedelta(seconds=120)
    assert {each.tzinfo for each in (info.started_at, info.last_run_at, info.next_run_at)} == {tokyo}


def test_the_zone_of_an_at_is_its_own(scheduler):
    zone = timezone(timedelta(hours=2))
    info = scheduler.get_job(scheduler.at(datetime(2001, 1, 1, tzinfo=zone), nothing))
    assert (info.timezone, info.next_run_at.tzinfo) == (zone, zone)


def test_a_job_info_is_frozen(scheduler, clock):
    job_id = scheduler.every("10s", nothing)
    info = scheduler.get_job(job_id)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.run_count = 5
    clock.advance(20)
    assert info.run_count == 0
    assert scheduler.get_job(job_id).run_count == 2
    assert info == dataclasses.replace(info)
    assert isinstance(hash(info), int)


def test_a_dict_of_list_jobs_is_the_callers(scheduler):
    scheduler.every("10s", nothing)
    scheduler.list_jobs()[0]["run_count"] = 99
    scheduler.list_jobs().clear()
    assert scheduler.list_jobs()[0]["run_count"] == 0


def test_the_order_is_that_of_registration(scheduler, clock):
    ids = [scheduler.every(10 - number, nothing) for number in range(9)]
    scheduler.remove_job(ids.pop(4))
    ids += [scheduler.cron("* * * * *", nothing), scheduler.every(1, nothing, id="a"), scheduler.after(500, nothing)]
    clock.advance(50)
    scheduler.reschedule_job(ids[2], every=50)
    scheduler.pause_job(ids[0])
    assert [info["id"] for info in scheduler.list_jobs()] == ids


def test_names(scheduler):
    class Owner:
        def method(self):
            pass

        def __call__(self):
            pass

    callbacks = [
        nothing,
        lambda: 0,
        Owner().method,
        Owner(),
        partial(nothing),
        partial(partial(Owner().method)),
        Owner,
        [].clear,
    ]
    for callback in callbacks:
        scheduler.every("1s", callback)
    scheduler.every("1s", nothing, name="given")
    scheduler.every("1s", nothing, name="", timeout=1)
    names = [info["name"] for info in scheduler.list_jobs()]
    assert names == ["nothing", "<lambda>", "method", "Owner", "nothing", "method", "Owner", "clear", "given", ""]


def test_while_a_job_runs(scheduler, clock):
    seen = []

    def job():
        clock.sleep(2)
        seen.append(scheduler.get_job(job_id))

    job_id = scheduler.every("10s", job, timeout=5)
    clock.advance(10)
    (info,) = seen
    assert (info.running, info.started_count, info.run_count) == (1, 1, 0)
    assert (info.started_at, info.last_run_at) == (T0 + timedelta(seconds=10), None)
    assert info.next_run_at == T0 + timedelta(seconds=20)


def test_counts_add_up(scheduler, clock, logged):
    outcomes = iter("sftsfsssfts" * 50)

    def job():
        match next(outcomes):
            case "f":
                raise ValueError
            case "t":
                clock.sleep(7)

    job_id = scheduler.every("10s", job, timeout=5)
    clock.advance(200)
    info = scheduler.get_job(job_id)
    assert info.run_count + info.error_count == info.started_count == 20
    assert info.timeout_count == 3
    assert info.error_count == 9
    assert (info.coalesced_count, info.missed_count, info.paused_count) == (0, 0, 0)


def test_stats(scheduler, clock, logged):
    assert scheduler.stats().pending == 0
    scheduler.every("10s", nothing)
    scheduler.every("10s", lambda: 1 / 0)
    scheduler.every("10s", lambda: clock.sleep(25))
    clock.advance(60)
    stats = scheduler.stats()
    assert stats.pending == len(scheduler) == 3
    assert (stats.running, stats.ready, stats.abandoned, stats.dropped) == (0, 0, 0, 0)
    infos = scheduler.list_jobs()
    assert stats.started == sum(info["started_count"] for info in infos)
    assert stats.errors == sum(info["error_count"] for info in infos)
    assert stats.coalesced == sum(info["coalesced_count"] for info in infos) > 0
    assert stats.lateness.count == stats.started


def test_lateness_is_seen(scheduler, clock):
    scheduler.every("10s", lambda: clock.sleep(4), max_runs=1)
    scheduler.every("10s", nothing, max_runs=1)
    clock.advance(10)
    assert scheduler.stats().lateness.max == pytest.approx(4, rel=0.1)


def test_an_empty_scheduler_is_true(make_scheduler):
    scheduler = make_scheduler()
    assert len(scheduler) == 0
    assert scheduler
    assert scheduler.list_jobs() == []


def test_repr_and_name(make_scheduler, clock, scheduler_type):
    scheduler = make_scheduler(clock=clock, name="mine")
    assert scheduler.name == "mine"
    assert repr(scheduler) == "<Scheduler 'mine' not running, 0 jobs>"
    scheduler.every("1s", nothing)
    scheduler.start_background()
    assert "running, 1 jobs" in repr(scheduler)
    scheduler.shutdown()
    assert "shut down" in repr(scheduler)


@pytest.mark.real_time
def test_threads_are_named(make_scheduler):
    scheduler, names, barrier = make_scheduler(3, name="mine"), set(), threading.Barrier(4)

    def job():
        names.add(threading.current_thread().name)
        barrier.wait(WAIT)

    for _ in range(3):
        scheduler.after(0, job)
    scheduler.start_background()
    barrier.wait(WAIT)
    assert all(name.startswith("mine-worker_") for name in names)
    assert len(names) == 3
    assert "mine" in {thread.name for thread in threading.enumerate()}


def test_a_hundred_thousand_jobs(make_scheduler, clock, engine_name):
    """The twin does with a tenth: what it takes is no matter."""
    count = 100_000 if engine_name == "native" else 10_000
    scheduler = make_scheduler(clock=clock)

    def callback():
        pass

    for number in range(count):
        scheduler.every(60 + number % 1000, callback)
    infos = scheduler.list_jobs()
    assert len(infos) == len(scheduler) == count
    assert len({info["id"] for info in infos}) == count
    assert [info["schedule"] for info in infos[:3]] == ["every 60s", "every 61s", "every 62s"]
    assert scheduler.get_job(infos[count // 2]["id"]).name == "callback"
    assert scheduler.next_runs(infos[-1]["id"], 1)
    del infos
    assert scheduler.remove_all_jobs() == count
    gc.collect()
    assert len(scheduler) == 0


@pytest.mark.real_time
def test_views_while_everything_moves(make_scheduler):
    """A snapshot is one instant: what it counts adds up."""
    scheduler = make_scheduler(2, on_error=nothing)
    for number in range(20):
        options = {"timeout": 5} if number % 2 else {}
        scheduler.every("1ms", nothing if number % 3 else (lambda: 1 / 0), max_instances=1 + number % 2, **options)
    scheduler.start_background()

    def look():
        for info in scheduler.list_jobs():
            assert info["running"] <= info["max_instances"]
            done = info["run_count"] + info["error_count"]
            assert done <= info["started_count"] <= done + info["max_instances"]
            assert info["timeout_count"] <= info["error_count"]

    def change():
        for _ in range(300):
            scheduler.remove_job(scheduler.every("1ms", nothing))
            scheduler.remove_job(scheduler.cron("* * * * *", nothing, tags=["x"]))

    while_at_work(look, change)
    assert wait_until(lambda: all(info["started_count"] > 3 for info in scheduler.list_jobs()))


class Secretive:
    """A callable whose name is a secret from some time on."""

    secret = False

    @property
    def __name__(self):
        if self.secret:
            raise RuntimeError("secret")
        return "open"

    def __call__(self):
        pass


def test_a_callback_whose_name_raises_is_named_by_its_class(scheduler, clock):
    callback = Secretive()
    job_id = scheduler.every(1, callback)
    assert scheduler.get_job(job_id).name == "open"
    callback.secret = True
    assert scheduler.get_job(job_id).name == "Secretive"
    assert [job["name"] for job in scheduler.list_jobs()] == ["Secretive"]
    clock.advance(1)
    assert scheduler.get_job(job_id).run_count == 1


@pytest.mark.parametrize("wrap", [lambda callback: callback, partial], ids=["itself", "in a partial"])
@pytest.mark.parametrize("options", [{}, {"timeout": 5}], ids=["plain", "managed"])
def test_a_proxy_of_a_callback_that_is_gone(scheduler, clock, logged, wrap, options):
    def callback():
        pass

    job_id = scheduler.every(1, wrap(weakref.proxy(callback)), **options)
    scheduler.every(1, nothing)
    clock.advance(1)
    del callback
    gc.collect()
    assert [job["name"] for job in scheduler.list_jobs()][1] == "nothing"
    clock.advance(1)
    info = scheduler.get_job(job_id)
    assert (info.run_count, info.error_count, info.running) == (1, 1, 0)
    assert info.last_error.startswith("ReferenceError")


class Untold(tzinfo):
    """A zone whose text cannot be had."""

    def utcoffset(self, dt):
        return timedelta(0)

    dst = utcoffset

    def tzname(self, dt):
        raise RuntimeError("no name")

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def test_a_zone_whose_text_raises_is_named_by_its_class(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, timezone=Untold())
    scheduler.start_background()
    scheduler.cron("* * * * *", nothing, timezone=Untold())
    scheduler.every(1, nothing)
    scheduler.cron("* * * * *", nothing, timezone="UTC")
    clock.advance(60)
    assert [job["timezone"] for job in scheduler.list_jobs()] == ["Untold", "Untold", "UTC"]
    assert json.dumps(scheduler.list_jobs())


def test_jobs_can_be_written_as_json(scheduler, clock):
    scheduler.every(1, nothing, tags=["b", "a"], max_retries=1, timeout="2s")
    scheduler.cron("* * * * *", nothing)
    clock.advance(1)
    (tagged, plain) = json.loads(json.dumps(scheduler.list_jobs()))
    assert (tagged["tags"], plain["tags"]) == (["a", "b"], [])


def test_a_scheduler_is_not_copied(scheduler):
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="Scheduler"):
            way(scheduler)
