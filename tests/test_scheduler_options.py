"""`Scheduler`: what the options of a job do: start_at, until, max_runs, jitter, immediate, tags, args, on_error."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from support import nothing

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def after(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    """A callback that notes when it runs."""
    return lambda: runs.append(clock.time())


# start_at.


def test_start_at_is_the_first_slot(scheduler, clock, runs, note):
    scheduler.every("10s", note, start_at=after(3))
    clock.advance(30)
    assert runs == [3, 13, 23]


def test_start_at_in_the_past_keeps_the_phase_and_catches_nothing_up(scheduler, clock, runs, note):
    clock.advance(100)
    job_id = scheduler.every("10s", note, start_at=after(3))
    clock.advance(20)
    assert runs == [103, 113]
    assert scheduler.get_job(job_id).coalesced_count == 0


@pytest.mark.parametrize("past", [0, 10, 1_000_000])
def test_start_at_on_a_slot_that_is_now(scheduler, clock, runs, note, past):
    clock.advance(1_000_000)
    scheduler.every("10s", note, start_at=after(1_000_000 - past))
    clock.advance(10)
    assert runs == [1_000_000, 1_000_010]


def test_start_at_of_cron_is_included(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note, start_at=after(120))
    scheduler.cron("* * * * *", note, start_at=after(121))
    clock.advance(180)
    assert runs == [120, 180, 180]


@pytest.mark.parametrize("year", [1, 9999])
def test_start_at_in_other_times(scheduler, clock, runs, note, year):
    scheduler.every("1h", note, start_at=datetime(year, 1, 1, tzinfo=UTC))
    clock.advance("1h")
    assert runs == ([0, 3600] if year == 1 else [])


# until.


def test_until_is_exclusive(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note, until=after(30))
    clock.advance(15)
    assert scheduler.get_job(job_id).next_run_at == after(20)
    clock.advance(35)
    assert runs == [10, 20]
    with pytest.raises(KeyError):
        scheduler.get_job(job_id)


def test_until_of_cron(scheduler, clock, runs, note):
    scheduler.cron("* * * * *", note, until=after(180), id="k")
    clock.advance(600)
    assert runs == [60, 120]
    assert len(scheduler) == 0
    scheduler.cron("* * * * *", note, id="k")


def test_a_slot_before_until_runs_however_late(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", note, until=after(35))
    clock.advance(1000)
    scheduler.start_background()
    clock.advance(0)
    assert runs == [1000]
    assert len(scheduler) == 0


def test_the_end_of_time_as_until(scheduler, clock, runs, note):
    scheduler.every("10s", note, until=datetime.max.replace(tzinfo=UTC))
    scheduler.cron("* * * * *", nothing, until=datetime.max.replace(tzinfo=UTC))
    clock.advance(60)
    assert runs == [10, 20, 30, 40, 50, 60]


# max_runs.


def test_max_runs_counts_starts_and_then_the_job_leaves(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note, max_runs=3)
    clock.advance(25)
    assert scheduler.get_job(job_id).run_count == 2
    clock.advance(25)
    assert runs == [10, 20, 30]
    with pytest.raises(KeyError):
        scheduler.get_job(job_id)


def test_the_last_run_is_still_listed_while_it_runs(scheduler, clock):
    seen = []
    job_id = scheduler.every("10s", lambda: seen.append(scheduler.get_job(job_id)), max_runs=1)
    clock.advance(10)
    assert [(info.running, info.next_run_at) for info in seen] == [(1, None)]
    assert len(scheduler) == 0


def test_max_runs_counts_no_retries(scheduler, clock, runs, note, logged):
    def job():
        note()
        raise ValueError

    scheduler.every("100s", job, max_retries=1, retry_backoff=0, max_runs=2)
    clock.advance(1000)
    assert runs == [100, 100, 200, 200]


def test_max_runs_counts_no_run_job(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note, max_runs=2)
    scheduler.run_job(job_id)
    clock.advance(100)
    assert runs == [0, 10, 20]


def test_max_runs_counts_no_coalesced_slots(scheduler, clock, runs):
    def job():
        runs.append(clock.time())
        clock.sleep(25)

    scheduler.every("10s", job, max_runs=2)
    clock.advance(100)
    assert runs == [10, 40]


def test_max_runs_counts_no_paused_slots(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note, max_runs=2)
    scheduler.pause_job(job_id)
    clock.advance(35)
    scheduler.resume_job(job_id)
    scheduler.pause()
    clock.advance(30)
    scheduler.resume()
    clock.advance(100)
    assert runs == [70, 80]


def test_max_runs_counts_the_immediate_run(scheduler, clock, runs, note):
    scheduler.every("10s", note, max_runs=2, immediate=True)
    clock.advance(100)
    assert runs == [0, 10]


def test_max_runs_that_are_spent_are_spent_on_another_grid_too(scheduler, clock, runs, note):
    def job():
        note()
        scheduler.reschedule_job("k", every="1s")

    scheduler.every("10s", job, max_runs=1, id="k")
    clock.advance(100)
    assert runs == [10]
    assert len(scheduler) == 0


def test_max_runs_that_are_left_are_left_on_another_grid(scheduler, clock, runs, note):
    scheduler.every("10s", note, max_runs=3, id="k")
    clock.advance(10)
    scheduler.reschedule_job("k", every="1s")
    clock.advance(100)
    assert runs == [10, 11, 12]


# immediate.


def test_immediate_is_one_run_at_the_registration_of_a_running_scheduler(scheduler, clock, runs, note):
    clock.advance(5)
    scheduler.every("10s", note, immediate=True)
    scheduler.cron("* * * * *", note, immediate=True)
    assert runs == []
    clock.advance(25)
    assert runs == [5, 5, 15, 25]


def test_immediate_is_one_run_at_the_start(make_scheduler, clock, runs, note):
    scheduler = make_scheduler(clock=clock)
    scheduler.every("10s", note, immediate=True)
    clock.advance(5)
    scheduler.start_background()
    clock.advance(20)
    assert runs == [5, 10, 20]


@pytest.mark.parametrize("immediate", [False, True])
def test_a_run_at_the_start_alone_is_no_job(scheduler, immediate):
    """`until` is of the slots: where there is none, `immediate` does not help."""
    with pytest.raises(ValueError, match="until must be after the job's first slot"):
        scheduler.every("10s", nothing, until=after(10), immediate=immediate)
    assert len(scheduler) == 0


def test_immediate_long_before_start_at(scheduler, clock, runs, note):
    scheduler.every("10s", note, immediate=True, start_at=after(100))
    clock.advance(110)
    assert runs == [0, 100, 110]


# jitter.


def test_jitter_is_added_drawn_anew_and_moves_no_grid(scheduler, clock, runs, note):
    job_id = scheduler.every("10s", note, jitter=4)
    shown = []
    for _ in range(200):
        shown.append((scheduler.get_job(job_id).next_run_at - T0).total_seconds())
        clock.advance(10)
        shown[-1] = max(shown[-1], 0)
    lateness = [run - 10 * (number + 1) for number, run in enumerate(runs)]
    assert all(0 <= late < 4 for late in lateness)
    assert len(set(lateness)) > 100
    assert max(lateness) > 3
    assert min(lateness) < 1


def test_the_jitter_is_shown_and_the_scheduled_time_is_the_slot(scheduler, clock):
    seen = []
    job_id = scheduler.every("10s", lambda ctx: seen.append((ctx.scheduled_time, clock.now())), jitter="5s")
    expected = []
    for _ in range(20):
        expected.append(scheduler.get_job(job_id).next_run_at)
        clock.advance((expected[-1] - clock.now()).total_seconds() + 1e-5)
    assert [slot for slot, _ in seen] == [after(10 * n) for n in range(1, 21)]
    assert all(abs(ran - shown) < timedelta(milliseconds=1) for (_, ran), shown in zip(seen, expected, strict=True))


def test_jitter_of_cron_may_be_long(scheduler, clock, runs, note):
    scheduler.cron("0 * * * *", note, jitter="30m")
    clock.advance("10h")
    assert [int(run // 3600) for run in runs] == list(range(1, len(runs) + 1))
    assert len(runs) in (9, 10)


def test_runs_with_jitter_can_be_repeated(make_scheduler):
    from pysched.testing import ManualClock

    def times():
        clock, found = ManualClock(), []
        scheduler = make_scheduler(clock=clock)
        scheduler.every("10s", lambda: found.append(clock.time()), jitter=5)
        scheduler.start_background()
        clock.advance(1000)
        return found

    assert times() == times()


# args and kwargs, names, tags.


def test_args_and_kwargs(scheduler, clock):
    seen = []

    def job(a, b=2, *args, c, d=4, **kwargs):
        seen.append((a, b, args, c, d, kwargs))

    scheduler.every("1s", job, args=(1,), kwargs={"c": 3})
    scheduler.every("1s", job, args=[1, 2, 3], kwargs={"c": 3, "e": 5})
    clock.advance(1)
    assert seen == [(1, 2, (), 3, 4, {}), (1, 2, (3,), 3, 4, {"e": 5})]


def test_args_without_kwargs(scheduler, clock):
    seen = []
    scheduler.every("1s", lambda *args: seen.append(args), args=(1, 2))
    scheduler.every("1s", seen.append, args=("x",))
    clock.advance(1)
    assert seen == [(1, 2), "x"]


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2), {}), ((1,), {"a": 1}), ((), {"b": 1})], ids=str)
def test_args_that_do_not_fit_are_refused(make_scheduler, args, kwargs):
    scheduler = make_scheduler()
    with pytest.raises(TypeError, match="callback"):
        scheduler.every("1s", lambda a: None, args=args, kwargs=kwargs)
    assert len(scheduler) == 0


def test_tags_filter(scheduler):
    for number in range(6):
        scheduler.every("1s", nothing, id=str(number), tags=[f"mod{number % 3}", "all"])
    scheduler.every("1s", nothing, id="none")
    assert [info["id"] for info in scheduler.list_jobs(tag="mod1")] == ["1", "4"]
    assert [info["id"] for info in scheduler.list_jobs(tag="all")] == list("012345")
    assert scheduler.list_jobs(tag="other") == []
    assert scheduler.list_jobs(tag="") == []
    assert scheduler.remove_all_jobs(tag="mod1") == 2
    assert scheduler.remove_all_jobs(tag="other") == 0
    assert len(scheduler) == 5
    assert scheduler.remove_all_jobs() == 5
    assert scheduler.remove_all_jobs() == 0
    assert scheduler.list_jobs() == []


@pytest.mark.parametrize("tag", [5, [], ["a"], b"a", False, ("a",)], ids=repr)
def test_a_tag_is_text(scheduler, tag):
    scheduler.every("1s", nothing, tags=["a"])
    for method in (scheduler.list_jobs, scheduler.remove_all_jobs):
        with pytest.raises(TypeError, match="^tag must be a str"):
            method(tag=tag)
    assert len(scheduler) == 1


# on_error.


def test_on_error_of_the_scheduler_gets_the_error_and_the_run(make_scheduler, clock):
    told = []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: told.append((repr(error), run)))
    scheduler.start_background()
    job_id = scheduler.every("10s", lambda: 1 / 0)
    clock.advance(20)
    assert [(error, run.job_id, run.attempt) for error, run in told] == [
        ("ZeroDivisionError('division by zero')", job_id, 1)
    ] * 2
    assert [run.scheduled_time for _, run in told] == [after(10), after(20)]
    assert told[0][1].run_id != told[1][1].run_id


def test_a_jobs_own_handler_wins_and_is_called_once_an_attempt(make_scheduler, clock):
    own, common = [], []
    scheduler = make_scheduler(clock=clock, on_error=lambda error, run: common.append(run.attempt))
    scheduler.start_background()
    scheduler.every(
        "10s", lambda: 1 / 0, on_error=lambda error, run: own.append(run.attempt), max_retries=2, retry_backoff=0
    )
    scheduler.every("10s", lambda: 1 / 0, max_retries=1, retry_backoff=0)
    clock.advance(10)
    assert (own, common) == ([1, 2, 3], [1, 2])


def test_a_jobs_own_handler_is_called_for_the_run_that_removed_it(scheduler, clock):
    told = []

    def job():
        scheduler.remove_job("k")
        raise LookupError

    scheduler.every("1s", job, id="k", on_error=lambda error, run: told.append((type(error), run.job_id)))
    clock.advance(5)
    assert told == [(LookupError, "k")]
    assert not scheduler._book.errors
    assert not scheduler._book.options
