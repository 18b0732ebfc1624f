"""The sentences of docs/semantics.md and DESIGN section 5 about `Scheduler`, each a test named after it.

Those that other files hold to already, and in full:

- Grid. Never from "now", never early: test_scheduler_runs (early wake); late is better than never: the same;
  `start_at`: test_scheduler_options; `from_end`: test_scheduler_from_end.
- Calendars: test_cron_cases, test_calendar; the zone of the job, the scheduler, the system: test_scheduler_life.
- Once: test_scheduler_registration (ids, moments in the past, naive ones), test_scheduler_runs (leaving),
  test_scheduler_control (`remove_job`).
- Bounds, `max_runs`, `immediate`, jitter: test_scheduler_options. Spread: test_scheduler_policies.
- Order of (due, registration), what is added with no delay: test_scheduler_runs.
- Retries, their waits, `max_instances` meanwhile, what drops them: test_scheduler_retries. Time-outs, abandoned calls,
  health: test_scheduler_timeouts. What an attempt raises, `JobCancelled`: test_scheduler_errors, _retries.
- Late: test_scheduler_late. Busy: test_scheduler_overlap. Pauses, changes: test_scheduler_control, and `replace`:
  test_scheduler_registration.
- The wall clock: test_scheduler_wall. Coroutines: test_scheduler_coroutines, _loops. Listeners: test_scheduler_events.
- Stop: test_scheduler_life, exit and fork: test_scheduler_processes. `ManualClock`: test_manual_clock; its coroutines:
  test_scheduler_coroutines. Names of threads: test_scheduler_views, test_scheduler_events.
- What may be called where: test_semantics_calls.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
from support import WAIT, SteppedClock, nothing, wait_until

from pysched.testing import ManualClock

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)


def moment(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def note(runs, clock):
    return lambda: runs.append(clock.time())


class Held:
    """Occupies the only worker of a scheduler until `release` is set."""

    def __init__(self, scheduler):
        self.began, self.release = threading.Event(), threading.Event()
        scheduler.after(0, self.hold)
        scheduler.start_background()
        assert self.began.wait(WAIT)

    def hold(self):
        self.began.set()
        self.release.wait(WAIT)


# Grid.


@pytest.mark.parametrize("start", [0, 3, 9.999])
def test_the_grid_is_registration_plus_k_intervals_started_or_not(make_scheduler, clock, runs, note, start):
    """An interval job's grid is registration + k x interval, started or not."""
    scheduler = make_scheduler(clock=clock)
    clock.advance(2)
    scheduler.every("10s", note)
    clock.advance(start)
    scheduler.start_background()
    clock.advance(35 - start)
    assert runs == [12, 22, 32]


def test_what_fell_before_the_start_collapses_into_one_run_at_once(make_scheduler, clock, runs, note):
    """Registered at 0, started at 1.51, runs at 1.51, 2.01, 3.01."""
    scheduler = make_scheduler(clock=clock)
    clock.advance(0.01)
    scheduler.every("1s", note)
    clock.advance(1.5)
    scheduler.start_background()
    clock.advance(2)
    assert runs == [1.51, 2.01, 3.01]


def test_a_callback_that_takes_long_does_not_shift_the_grid(scheduler, clock, runs):
    """The next fire is computed from the scheduled slot, never from "now"."""

    def job():
        runs.append(clock.time())
        clock.sleep(7.3)

    scheduler.every("10s", job)
    clock.advance(1000)
    assert runs == list(range(10, 1010, 10))


# Calendars.


@pytest.mark.parametrize(
    ("expression", "wall", "expected"),
    [
        # Clocks go forward on 2024-03-31 in Paris, from 2:00 to 3:00, which is 1:00 in UTC.
        ("30 2 * * *", datetime(2024, 3, 31, tzinfo=UTC), ["03:00"]),
        ("*/30 2 * * *", datetime(2024, 3, 31, tzinfo=UTC), []),
        ("*/30 * * * *", datetime(2024, 3, 31, 0, 29, tzinfo=UTC), ["01:30", "03:00", "03:30", "04:00"]),
        # Back on 2024-10-27, from 3:00 to 2:00, which is 1:00 in UTC.
        ("30 2 * * *", datetime(2024, 10, 27, tzinfo=UTC), ["02:30"]),
        ("*/30 * * * *", datetime(2024, 10, 27, 0, 29, tzinfo=UTC), ["02:30", "02:00", "02:30", "03:00"]),
    ],
)
def test_when_the_zones_clocks_change(make_scheduler, expression, wall, expected):
    """A fixed time runs once: in the first minute after a gap, in the first pass of a repeated hour; `*` follows."""
    clock, slots = ManualClock(wall), []
    scheduler = make_scheduler(clock=clock, timezone="Europe/Paris")
    scheduler.cron(expression, lambda ctx: slots.append(ctx.scheduled_time))
    scheduler.start_background()
    clock.advance("3h" if expression.endswith("2 * * *") else 6060)
    assert [f"{slot:%H:%M}" for slot in slots] == expected
    if expected == ["02:30"]:
        assert slots[0].fold == 0


# Order.


@pytest.mark.real_time
@pytest.mark.parametrize("kind", ["own", "users"])
def test_with_one_worker_callbacks_run_strictly_in_order(make_scheduler, kind):
    """With one worker they run strictly one after the other, in the order of (due, registration)."""
    pool = ThreadPoolExecutor(1) if kind == "users" else None
    scheduler = make_scheduler(executor=pool) if pool else make_scheduler(1)
    order, inside = [], []

    def job(number):
        inside.append(number)
        order.append(number)
        assert inside == [number]
        inside.clear()

    for number in range(500):
        scheduler.after(0.8 if number % 2 else 0.1, job, args=[number])
    scheduler.start_background()
    assert wait_until(lambda: len(order) == 500)
    assert order == [*range(0, 500, 2), *range(1, 500, 2)]
    scheduler.shutdown()
    if pool:
        pool.shutdown()


@pytest.mark.real_time
def test_with_several_workers_they_overlap(make_scheduler):
    """With several workers they overlap and may finish in any order."""
    scheduler, barrier = make_scheduler(3), threading.Barrier(3)
    for _ in range(3):
        scheduler.after(0, lambda: barrier.wait(WAIT))
    scheduler.start_background()
    assert wait_until(lambda: len(scheduler) == 0)
    assert not barrier.broken


def test_a_retry_with_no_wait_goes_behind_what_is_due(make_scheduler, clock):
    """A retry or a timer that a callback adds with no delay goes behind everything that is due already."""
    scheduler, order = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()

    def fails(ctx):
        order.append(f"attempt {ctx.attempt}")
        scheduler.after(0, lambda: order.append("added"))
        if ctx.attempt == 1:
            raise ValueError

    scheduler.after(1, fails, max_retries=1, retry_backoff=0)
    scheduler.after(1, lambda: order.append("due"))
    clock.advance(1)
    assert order == ["attempt 1", "due", "added", "attempt 2", "added"]


# Runs.


@pytest.mark.real_time
@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["plain", "managed"])
def test_a_run_takes_its_instance_when_it_is_due_not_when_a_worker_is_free(make_scheduler, options):
    """`running` counts slots taken, waiting or running."""
    scheduler = make_scheduler(1)
    held = Held(scheduler)
    scheduler.every("20ms", nothing, id="k", **options)
    assert wait_until(lambda: scheduler.get_job("k").running == 1)
    assert wait_until(lambda: scheduler.get_job("k").coalesced_count > 2)
    info = scheduler.get_job("k")
    assert (info.running, info.started_count, info.missed_count) == (1, 0, 0)
    held.release.set()


def test_time_spent_waiting_for_a_worker_does_not_count_for_the_timeout(make_scheduler):
    """`timeout` is counted from the start of the first attempt, never while the run waits for a worker."""
    clock, done = SteppedClock(), threading.Event()
    scheduler = make_scheduler(1, clock=clock)
    held = Held(scheduler)
    scheduler.every("1h", done.set, timeout=5, immediate=True, id="k")
    assert wait_until(lambda: scheduler.stats().ready == 1)
    clock.set(20)
    clock.let_look()
    assert scheduler.get_job("k").timeout_count == 0
    held.release.set()
    assert done.wait(WAIT)
    assert wait_until(lambda: scheduler.get_job("k").run_count == 1)
    assert scheduler.get_job("k").timeout_count == 0


def test_a_tick_is_one_run_over_all_its_attempts(make_scheduler, clock):
    """run_count: succeeded; error_count: failed or timed out; timeout_count: of those; started_count: began."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def job(ctx):
        tick = round((ctx.scheduled_time - T0).total_seconds() / 100)
        if tick == 1 and ctx.attempt < 3:
            raise ValueError  # succeeds with the third
        if tick == 2:
            raise ValueError  # fails
        if tick == 3:
            ctx.cancel.wait(1000)  # times out

    scheduler.every("100s", job, max_retries=2, retry_backoff=1, timeout=50, id="k")
    clock.advance(480)
    info = scheduler.get_job("k")
    assert (info.started_count, info.run_count, info.error_count, info.timeout_count) == (4, 2, 2, 1)


def test_a_retry_draws_no_jitter(make_scheduler, clock):
    """A retry is no new tick for max_runs, jitter or the `started` event."""
    scheduler, times, started = make_scheduler(clock=clock, on_error=nothing), [], []
    scheduler.on("started", started.append)
    scheduler.start_background()

    def fails():
        times.append(clock.time())
        raise ValueError

    scheduler.every("100s", fails, jitter=50, max_retries=3, retry_backoff=0, max_runs=2)
    clock.advance(300)
    assert len(times) == 8
    assert len(set(times)) == 2
    assert len(started) == 2
    assert len(scheduler) == 0


def test_the_late_end_of_a_call_changes_nothing(scheduler, clock):
    """At a time-out the slot is given back at once; a later end of that call changes nothing."""
    scheduler.every("100s", lambda: clock.sleep(30), timeout=5, id="k")
    clock.advance(100)
    at_its_end = scheduler.get_job("k")
    assert (at_its_end.error_count, at_its_end.run_count, at_its_end.running) == (1, 0, 0)
    assert at_its_end.last_run_at == moment(105)
    assert scheduler.stats().abandoned == 0


# Late and busy, in one table: each kind of slot without a run is counted where it belongs.


def test_missed_coalesced_and_paused_are_told_apart(make_scheduler, clock):
    """`coalesced_count` counts missed and busy, `missed_count` the former; `paused_count` is apart from both."""
    scheduler = make_scheduler(clock=clock)

    def job():
        if clock.time() == 65:
            clock.sleep(30)

    scheduler.every("10s", job, id="k")
    clock.advance(35)  # 10 and 20 are missed, 30 runs
    scheduler.start_background()
    clock.advance(15)
    scheduler.pause_job("k")
    clock.advance(13)  # 60 passes by
    scheduler.resume_job("k")
    clock.advance(2)
    assert scheduler.run_job("k")  # busy from 65 to 95: 70, 80 and 90
    clock.advance(35)
    info = scheduler.get_job("k")
    assert (info.missed_count, info.coalesced_count, info.paused_count) == (2, 5, 1)
    assert info.started_count == 5  # 30, 40, 50, run_job, 100


def test_interval_slots_are_counted_exactly(make_scheduler, clock):
    """Interval slots are counted exactly (arithmetic)."""
    scheduler = make_scheduler(clock=clock)
    scheduler.every("1ms", nothing, id="k")
    clock.advance(timedelta(days=365))
    scheduler.start_background()
    clock.advance(0)
    assert scheduler.get_job("k").missed_count == 365 * 86400 * 1000 - 1


# Pauses.


def test_a_time_out_goes_on_in_a_pause(make_scheduler, clock):
    """A run in progress, its retries and time-outs go on."""
    scheduler, attempts = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()

    def job(ctx):
        attempts.append(clock.time())
        if ctx.attempt == 1:
            scheduler.pause_job("k")
            scheduler.pause()
            raise ValueError
        ctx.cancel.wait(1000)

    scheduler.every("100s", job, max_retries=1, retry_backoff=10, timeout=30, id="k")
    clock.advance(100)
    clock.advance(50)
    info = scheduler.get_job("k")
    assert len(attempts) == 2
    assert (info.timeout_count, info.enabled, info.running) == (1, False, 0)


# Options.


DURATIONS = ["90s", "1m30s", 90, 90.0, timedelta(seconds=90), " 90s "]


@pytest.mark.parametrize("value", DURATIONS, ids=str)
def test_every_duration_option_takes_what_an_interval_takes(scheduler, clock, runs, note, value):
    """`every`, `after`, jitter, spread, misfire_grace_time, timeout, retry_backoff, shutdown, wait_idle."""
    scheduler.every(value, note, id="k")
    scheduler.after(value, note)
    options = {"jitter": value, "spread": value, "misfire_grace_time": value, "timeout": value, "retry_backoff": value}
    scheduler.every("1h", nothing, id="o", **options)
    info = scheduler.get_job("o")
    assert (info.timeout, info.retry_backoff) == (90, 90)
    scheduler.reschedule_job("k", every=value)
    scheduler.reschedule_job("k", after=value)
    assert scheduler.wait_idle(value)
    clock.advance(90)
    assert runs == [90, 90]
    assert scheduler.shutdown(timeout=value) == []


@pytest.mark.parametrize("options", [{}, {"timeout": 9}], ids=["plain", "managed"])
def test_jitter_is_shown_and_drawn_anew_each_tick(scheduler, clock, options):
    """`next_run_at` shows it, `scheduled_time` is the slot; added only."""
    seen = []
    scheduler.every("10s", lambda ctx: seen.append((clock.now(), ctx.scheduled_time)), jitter=5, id="k", **options)
    for tick in range(1, 51):
        shown = scheduler.get_job("k").next_run_at
        clock.advance(10 * tick + 5 - clock.time())
        assert seen[-1] == (shown, moment(10 * tick))
        assert timedelta(0) <= shown - moment(10 * tick) < timedelta(seconds=5)
    assert len({at - slot for at, slot in seen}) > 45


def test_max_runs_counts_what_comes_from_slots_and_the_immediate_run(make_scheduler, clock):
    """`max_runs`: not `run_job`, retries, nor slots that were left out."""
    scheduler, ticks = make_scheduler(clock=clock, on_error=nothing), []
    scheduler.start_background()

    def job(ctx):
        ticks.append(clock.time())
        raise ValueError

    scheduler.every("10s", job, max_runs=3, immediate=True, max_retries=1, retry_backoff=0, id="k")
    clock.advance(0)
    assert scheduler.run_job("k") is True
    scheduler.pause_job("k")
    clock.advance(100)
    scheduler.resume_job("k")
    clock.advance(5)
    clock.sleep(30)
    clock.advance(200)
    assert ticks == [0, 0, 0, 0, 135, 135, 140, 140]
    assert len(scheduler) == 0


# Stop.


def test_after_a_shutdown_nothing_starts(scheduler, clock, runs, note, logged):
    """`shutdown` is for good: no slot, no retry, no timer, no registration, no start."""
    for register in (
        lambda: scheduler.every("1s", note, immediate=True),
        lambda: scheduler.cron("* * * * *", note),
        lambda: scheduler.after(1, note),
        lambda: scheduler.at(moment(1), note),
    ):
        register()
    scheduler.shutdown()
    scheduler.after(0, note)
    scheduler.every("1s", note, immediate=True)
    scheduler.start_background()
    clock.advance("1d")
    assert runs == []
    with pytest.raises(RuntimeError):
        scheduler.run_job(scheduler.list_jobs()[0]["id"])
    assert [entry[0] for entry in logged] == ["WARNING"] * 2  # of the registration, once, and of the start


@pytest.mark.real_time
def test_shutdown_in_a_destructor_signals_and_returns(make_scheduler):
    """From inside a callback, a listener, a destructor or the loop that runs our coroutines."""
    scheduler, done = make_scheduler(1), []

    class Owner:
        def __del__(self):
            done.append(scheduler.shutdown())

    def job(owner=None):
        owner = Owner()
        del owner

    scheduler.after(0, job, id="k")
    scheduler.start_background()
    assert wait_until(lambda: done)
    assert [info.id for info in done[0]] == ["k"]
    assert not scheduler.running


def test_a_shutdown_drops_retries_and_what_waits_and_counts_them(make_scheduler, clock):
    """Runs that wait for a worker are dropped and counted, retries that wait end as failed."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.start_background()

    def fails():
        raise ValueError

    scheduler.every("10s", fails, max_retries=3, retry_backoff=30, id="retried")
    scheduler.every("10s", lambda: [scheduler.run_job("idle"), scheduler.shutdown()], id="k")
    scheduler.every("1h", nothing, id="idle")
    clock.advance(10)
    assert scheduler.get_job("retried").running == 0
    assert scheduler.get_job("retried").error_count == 1
    assert scheduler.stats().dropped == 1
    assert [each.decision for each in scheduler.explain("idle")] == ["dropped"]


# ManualClock.


def test_a_manual_clock_behaves_as_one_worker(make_scheduler, clock):
    """max_workers and executors are accepted and unused; callbacks run on the calling thread, each to its end."""
    scheduler, threads, inside = make_scheduler(8, clock=clock), set(), []

    def job():
        threads.add(threading.current_thread())
        inside.append(1)
        clock.sleep(1)
        assert len(inside) == 1
        inside.pop()

    for _ in range(5):
        scheduler.every("10s", job, max_instances=3)
    scheduler.start_background()
    clock.advance(100)
    assert threads == {threading.current_thread()}


def test_advance_counts_callbacks_each_attempt_once(make_scheduler, clock):
    """`advance` returns how many callbacks ran: each attempt, no time-outs, no handlers, no listeners."""
    scheduler = make_scheduler(clock=clock, on_error=nothing)
    scheduler.on("started", nothing)
    scheduler.start_background()

    def fails(ctx):
        if ctx.attempt < 3:
            raise ValueError
        ctx.cancel.wait(100)

    scheduler.after(1, fails, max_retries=5, retry_backoff=0, timeout=20)
    scheduler.after(2, nothing)
    assert clock.advance(100) == 4


def test_retry_jitter_is_seeded_with_the_clock(make_scheduler):
    """A run repeats."""
    seen = []
    for _ in range(2):
        clock, times = ManualClock(), []
        scheduler = make_scheduler(clock=clock, on_error=nothing)
        scheduler.start_background()

        def fails(clock=clock, times=times):
            times.append(clock.time())
            raise ValueError

        scheduler.every("1h", fails, max_retries=5, retry_backoff=1, jitter=600)
        clock.advance("5h")
        seen.append(times)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 20


def test_at_one_instant_the_older_scheduler_goes_first(make_scheduler, clock):
    """Any number of schedulers may share a clock, a listener of one may use the other."""
    first, second, order = make_scheduler(clock=clock), make_scheduler(clock=clock), []
    first.on("started", lambda event: second.after(0, lambda: order.append("from the first")))
    for scheduler, name in ((second, "second"), (first, "first")):
        scheduler.start_background()
        scheduler.after(1, order.append, args=[name])
    clock.advance(1)
    assert order == ["first", "second", "from the first"]
