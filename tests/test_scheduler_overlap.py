"""`Scheduler`: slots that find `max_instances` runs busy: `overlap="skip"` and `overlap="queue"`."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest
from support import WAIT, nothing, wait_until

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def slow(runs, clock):
    """A callback that takes 25 s; notes when it began, and for which slot."""

    def job(ctx):
        runs.append((clock.time(), (ctx.scheduled_time - T0).total_seconds()))
        clock.sleep(25)

    return job


def counts(scheduler, job_id="k"):
    info = scheduler.get_job(job_id)
    return info.started_count, info.coalesced_count, info.missed_count


def test_skip_leaves_them_out_and_counts_them(scheduler, clock, runs, slow):
    events = []
    scheduler.on("coalesced", events.append)
    scheduler.every("10s", slow, overlap="skip", id="k")
    clock.advance(100)
    assert runs == [(10, 10), (40, 40), (70, 70), (100, 100)]
    clock.advance(0)
    assert counts(scheduler) == (4, 8, 0)
    assert [(event.count, event.scheduled_time) for event in events] == [(2, moment(at)) for at in (30, 60, 90, 120)]


def test_queue_lets_them_wait_first_in_first_out(scheduler, clock, runs, slow):
    scheduler.every("10s", slow, overlap="queue", max_runs=6)
    clock.advance(300)
    assert runs == [(10 + 25 * n, 10 + 10 * n) for n in range(6)]
    assert len(scheduler) == 0


def test_queued_slots_of_a_calendar(scheduler, clock):
    runs = []

    def job(ctx):
        runs.append(((clock.now() - T0).total_seconds(), (ctx.scheduled_time - T0).total_seconds()))
        clock.sleep(150)

    scheduler.cron("* * * * *", job, overlap="queue", max_runs=4)
    clock.advance(1000)
    assert runs == [(60 + 150 * n, 60 + 60 * n) for n in range(4)]


def test_nothing_is_counted_of_what_waits(scheduler, clock, runs, slow):
    events = []
    for name in ("coalesced", "missed"):
        scheduler.on(name, events.append)
    scheduler.every("10s", slow, overlap="queue", id="k")
    clock.advance(100)
    assert counts(scheduler)[1:] == (0, 0)
    assert events == []
    assert "queued" in [each.decision for each in scheduler.explain("k")]


def test_a_thousand_wait_at_most_and_the_rest_is_counted(scheduler, clock, runs):
    events = []
    scheduler.on("coalesced", events.append)

    def job(ctx):
        runs.append((ctx.scheduled_time - T0).total_seconds())
        if len(runs) == 1:
            clock.sleep(2500.5)

    scheduler.every("1s", job, overlap="queue", id="k")
    clock.advance(10)
    clock.advance(0)
    assert clock.time() == 2501.5
    assert runs == list(range(1, 1002))
    assert counts(scheduler) == (1001, 1500, 0)
    assert [(event.count, event.scheduled_time) for event in events] == [(1500, moment(2501))]
    clock.advance(1)
    assert runs[-1] == 2502


def test_the_thousand_are_of_one_job(scheduler, clock):
    """Another job has a thousand of its own."""
    runs = {"a": [], "b": []}

    def job(name, ctx):
        runs[name].append((ctx.scheduled_time - T0).total_seconds())
        if len(runs[name]) == 1:
            clock.sleep(900)

    for name in runs:
        scheduler.every("1s", job, overlap="queue", args=[name], id=name, catch_up="all")
    clock.advance(1)
    clock.advance(0)
    seconds = round(clock.time())
    assert seconds == 1801
    for name, slots in runs.items():
        assert slots == sorted(slots)
        assert len(slots) + scheduler.get_job(name).coalesced_count == seconds
    assert min(map(len, runs.values())) > 1000


@pytest.mark.real_time
@pytest.mark.parametrize("instances", [1, 2, 3])
def test_instances_on_real_threads(make_scheduler, instances):
    """As many at once as may be, slots in order, none twice, and none left out."""
    scheduler, lock = make_scheduler(4), threading.Lock()
    began, inside, most, release = [], [], [0], threading.Event()

    def job(ctx):
        with lock:
            began.append(ctx.scheduled_time)
            inside.append(1)
            most[0] = max(most[0], len(inside))
        release.wait(WAIT)
        with lock:
            inside.pop()

    scheduler.every("10ms", job, overlap="queue", catch_up="all", max_instances=instances, max_runs=30)
    scheduler.start_background()
    assert wait_until(lambda: len(inside) == instances)
    assert wait_until(lambda: scheduler.list_jobs()[0]["running"] == instances)
    release.set()
    assert wait_until(lambda: len(began) == 30)
    assert wait_until(lambda: len(scheduler) == 0)
    assert most[0] <= instances
    assert len(set(began)) == 30
    if instances == 1:
        assert began == sorted(began)
    assert abs(max(began) - min(began) - timedelta(milliseconds=290)) < timedelta(milliseconds=5)


def test_run_job_does_not_wait(scheduler, clock, runs):
    """What finds the instances busy is refused; slots that come in such a run wait."""

    def job(ctx):
        runs.append(clock.time())
        if len(runs) == 1:
            assert scheduler.run_job("k") is False
            clock.sleep(22)

    scheduler.every("10s", job, overlap="queue", id="k")
    clock.advance(5)
    assert scheduler.run_job("k") is True
    clock.advance(0)
    clock.advance(3)
    assert runs == [5, 27, 27, 30]


def test_until_and_a_queue(scheduler, clock, runs, slow):
    """Slots before it run however late; then the job leaves."""
    scheduler.every("10s", slow, overlap="queue", until=moment(40))
    clock.advance(300)
    assert runs == [(10, 10), (35, 20), (60, 30)]
    assert len(scheduler) == 0


def test_max_runs_counts_what_waits(scheduler, clock, runs, slow):
    scheduler.every("10s", slow, overlap="queue", max_runs=2, id="k")
    clock.advance(19)
    assert runs == [(10, 10)]
    assert len(scheduler) == 1
    clock.advance(300)
    assert runs == [(10, 10), (35, 20)]
    assert len(scheduler) == 0


def test_a_tick_that_waits_for_a_retry_lets_slots_wait(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job(ctx):
        runs.append(((ctx.scheduled_time - T0).total_seconds(), ctx.attempt))
        if ctx.scheduled_time == moment(10) and ctx.attempt == 1:
            raise ValueError

    scheduler.every("10s", job, overlap="queue", max_retries=1, retry_backoff=30, id="k")
    clock.advance(60)
    assert runs[:3] == [(10, 1), (10, 2), (20, 1)]
    assert [slot for slot, _ in runs[2:]] == [20, 30, 40, 50, 60]
    assert counts(scheduler) == (6, 0, 0)


def test_a_time_out_lets_the_next_one_go(scheduler, clock, runs):
    def job(ctx):
        runs.append((clock.time(), (ctx.scheduled_time - T0).total_seconds()))
        ctx.cancel.wait(60)

    scheduler.every("10s", job, overlap="queue", timeout=15, max_runs=4)
    clock.advance(100)
    assert runs == [(10, 10), (25, 20), (40, 30), (55, 40)]


# With a backlog. On a ManualClock the loop sees what came when a run has ended: from the second run on there is one.


class Backlog:
    """Acts in the second run, which has two slots behind it."""

    def __init__(self, scheduler, clock, act):
        self.scheduler, self.clock, self.act, self.runs = scheduler, clock, act, []
        scheduler.every("10s", self.job, overlap="queue", id="k")
        clock.advance(10)
        clock.advance(0)

    def job(self, ctx):
        self.runs.append((ctx.scheduled_time - T0).total_seconds())
        if len(self.runs) == 1:
            self.clock.sleep(35)
        elif len(self.runs) == 2:
            self.act()


def test_a_removal_drops_the_backlog(scheduler, clock):
    backlog = Backlog(scheduler, clock, lambda: scheduler.remove_job("k"))
    clock.advance(100)
    assert backlog.runs == [10, 20]
    assert len(scheduler) == 0
    scheduler._check()


def test_a_new_grid_drops_the_backlog(scheduler, clock):
    backlog = Backlog(scheduler, clock, lambda: scheduler.reschedule_job("k", every="100s"))
    clock.advance(100)
    assert backlog.runs == [10, 20, 145]
    assert counts(scheduler) == (3, 0, 0)


def test_a_shutdown_drops_the_backlog_and_counts_it(scheduler, clock):
    events = []
    scheduler.on("dropped", events.append)
    backlog = Backlog(scheduler, clock, scheduler.shutdown)
    assert backlog.runs == [10, 20]
    assert scheduler.stats().dropped == 2
    assert sum(event.count for event in events) == 2
    assert {event.job.id for event in events} == {"k"}
    dropped = [each for each in scheduler.explain("k") if each.decision == "dropped"]
    assert sum(each.count for each in dropped) == 2
    assert dropped[-1].scheduled_time == moment(40)


def test_a_pause_lets_the_backlog_go_on(scheduler, clock):
    """It came before the pause."""
    backlog = Backlog(scheduler, clock, lambda: scheduler.pause_job("k"))
    clock.advance(100)
    assert backlog.runs == [10, 20, 30, 40]
    scheduler.resume_job("k")
    clock.advance(10)
    assert backlog.runs == [10, 20, 30, 40, 150]


def test_a_job_that_is_replaced_takes_its_backlog_along(scheduler, clock):
    later = []
    backlog = Backlog(
        scheduler, clock, lambda: scheduler.every("10s", lambda: later.append(clock.time()), id="k", replace=True)
    )
    clock.advance(20)
    assert backlog.runs == [10, 20]
    assert later == [55, 65]


def test_the_backlog_is_in_wait_idle(scheduler, clock):
    seen = []
    Backlog(scheduler, clock, lambda: seen.append(scheduler.stats().running))
    assert seen == [1]
    assert scheduler.wait_idle() is True


def test_a_failing_run_lets_the_backlog_go_on(make_scheduler, clock, runs):
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job(ctx):
        runs.append((ctx.scheduled_time - T0).total_seconds())
        clock.sleep(25)
        raise SystemExit

    scheduler.every("10s", job, overlap="queue", max_runs=5, id="k")
    clock.advance(200)
    assert runs == [10, 20, 30, 40, 50]


def test_a_queue_together_with_all(make_scheduler, clock, runs, slow):
    """What was missed before the start and what came meanwhile, each once and in order."""
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", slow, overlap="queue", catch_up="all", max_runs=8)
    clock.advance(35)
    scheduler.start_background()
    clock.advance(300)
    assert [slot for _, slot in runs] == [10 * n for n in range(1, 9)]


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_the_only_slot_of_a_one_shot_always_waits(scheduler, clock, overlap, runs):
    """`after` has no such option: its slot waits for a `run_job` to end."""

    def job():
        runs.append(clock.time())
        if len(runs) == 1:
            clock.sleep(30)

    scheduler.after(10, job, id="k")
    scheduler.run_job("k")
    clock.advance(0)
    clock.advance(0)
    assert runs == [0, 30]
    assert len(scheduler) == 0
