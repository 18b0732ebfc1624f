"""`JobEngine` with threads: pools, other executors, callers from everywhere, forks."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import pairwise

import pytest
from jobs import Jobs, S
from support import WAIT, SteppedClock, assert_quiet, in_threads, nothing, run_python, wait_until, while_at_work

pytestmark = pytest.mark.real_time
HOUR = 3600.0
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")


class Hand(Executor):
    """An executor whose futures the test runs and cancels by hand, or at once."""

    def __init__(self, at_once=False):
        self.at_once = at_once
        self.tasks = []
        self.refusing = False

    def submit(self, function, /, *args, **kwargs):
        if self.refusing:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self.tasks.append((future, function, args))
        if self.at_once:
            self.run()
        return future

    def run(self):
        future, function, args = self.tasks.pop(0)
        assert future.set_running_or_notify_cancel()
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)


@pytest.fixture
def make(impl):
    """Makes engines of jobs, which are stopped and checked at the end."""
    made = []

    def make(executor=2, clock=None):
        jobs = Jobs(impl, clock, executor)
        made.append(jobs)
        return jobs

    yield make
    for jobs in made:
        assert jobs.stop(WAIT)
        jobs._check()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(params=["own pool", "user's pool", "other executor"])
def executor(request, pool):
    return {"own pool": 2, "user's pool": pool, "other executor": Hand(at_once=True)}[request.param]


# Pools.


def test_jobs_run_on_workers_and_are_accounted_for(make, executor):
    jobs = make(executor)
    threads, tickets = set(), []
    plain = jobs.every(0.001, lambda: threads.add(threading.get_ident()))
    failing = jobs.every(0.001, lambda: 1 / 0)
    managed = jobs.every(0.001, lambda ticket: (tickets.append(ticket), ticket.finish(False)), managed=True)
    once = jobs.after(0.002, nothing)
    jobs.start()
    assert wait_until(lambda: min(jobs.look(each).started for each in (plain, failing, managed)) >= 5)
    assert wait_until(lambda: once in jobs.owner.left)
    assert jobs.stop(WAIT)
    for each in (plain, failing, managed):
        seen = jobs.look(each)
        assert seen.started == seen.succeeded + seen.failed
        assert (seen.failed > 0, seen.running) == (each == failing, 0)
    assert len(jobs.owner.failed) == jobs.look(failing).failed == jobs.stats().errors
    assert {ticket.reference for ticket in tickets} == {managed}
    assert threading.get_ident() not in threads


def test_a_run_knows_itself_where_it_runs_and_when_its_error_is_told(make, executor):
    jobs = make(executor)
    told, seen = threading.Event(), []

    def failed(reference, error):
        seen.append(jobs.current()[:2])
        told.set()

    jobs.owner._job_failed = failed
    job = jobs.after(0, lambda: 1 / 0)
    jobs.start()
    assert told.wait(WAIT)
    assert seen == [(job, 1)]
    assert wait_until(lambda: jobs.owner.left == [job])


def test_alarms_fire_although_all_workers_are_blocked(make):
    jobs = make(2)
    release, fired, threads = threading.Event(), threading.Event(), []
    for _ in range(3):
        jobs.after(0, release.wait, WAIT)
    jobs.start()
    assert wait_until(lambda: jobs.stats().running == 2)
    jobs.after(0.001, nothing)
    jobs.call_alarm(S // 500, lambda: (threads.append(threading.current_thread().name), fired.set()))
    assert fired.wait(WAIT)
    assert threads == ["jobs"]
    assert not release.is_set()
    release.set()


def test_an_alarm_waits_for_no_run_that_is_due_before_it(make, executor):
    jobs = make(executor)
    order = []
    jobs.call_alarm(0, lambda: order.append("alarm"))
    jobs.call_later(0, lambda: order.append("retry"))
    jobs.start()
    assert wait_until(lambda: len(order) == 2)
    assert sorted(order) == ["alarm", "retry"]
    assert jobs.stats().started == 1


def test_run_job_wakes_a_loop_that_sleeps(make, executor):
    jobs = make(executor)
    ran = threading.Event()
    job = jobs.every(HOUR, ran.set)
    jobs.start()
    assert jobs.run_job(job)
    assert ran.wait(WAIT)


def test_a_resume_and_a_new_grid_wake_a_loop_that_sleeps(make):
    jobs = make(1)
    ran = threading.Semaphore(0)
    one, other = jobs.after(0, ran.release), jobs.every(HOUR, ran.release)
    jobs.pause(one)
    jobs.start()
    assert not ran.acquire(timeout=0.01)
    assert jobs.resume(one)
    assert ran.acquire(timeout=WAIT)
    assert jobs.regrid(other, 0.001)
    assert ran.acquire(timeout=WAIT)


def test_an_owed_run_starts_as_soon_as_any_thread_ends_the_one_before(make):
    jobs = make(1)
    tickets, ran = [], threading.Semaphore(0)
    job = jobs.after(0.05, lambda ticket: (tickets.append(ticket), ran.release()), managed=True)
    jobs.start()
    assert jobs.run_job(job)
    assert ran.acquire(timeout=WAIT)
    assert wait_until(lambda: jobs.snapshot(job).next is None)
    assert jobs.wait_idle(WAIT)
    assert jobs.look(job).running == 1
    tickets[0].finish(False)
    assert ran.acquire(timeout=WAIT)
    tickets[1].finish(False)
    assert jobs.owner.left == [job]


def test_no_more_runs_overlap_than_there_are_instances(make):
    jobs = make(4)
    lock, inside, most = threading.Lock(), [0], [0]

    def run():
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        with lock:
            inside[0] -= 1

    job = jobs.every(0.0002, run, instances=2)
    jobs.start()
    assert wait_until(lambda: jobs.look(job).succeeded > 200)
    jobs.stop(WAIT)
    assert 1 <= most[0] <= 2


def test_four_threads_that_start_an_engine_start_one_loop(make):
    clock = SteppedClock()
    jobs = make(2, clock)
    runs, ran = [], threading.Semaphore(0)
    jobs.every(1, lambda: (runs.append(jobs.current()[1:]), ran.release()))
    in_threads(*[jobs.start] * 4)
    assert sum(thread.name == "jobs" for thread in threading.enumerate()) == 1
    for second in range(1, 6):
        clock.set(second)
        assert ran.acquire(timeout=WAIT)
        assert jobs.wait_idle(WAIT)
    assert runs == [(number, number * S) for number in range(1, 6)]


def test_snapshots_while_jobs_come_and_go(make):
    jobs = make(2)
    kept = [jobs.every(HOUR, nothing) for _ in range(200)]

    def churn():
        for number in range(300):
            mine = [jobs.every(0.001, nothing), jobs.every(HOUR, nothing, instances=3), jobs.after(0.0005, nothing)]
            if number % 3 == 0:
                jobs.pause(mine[0])
                jobs.run_job(mine[1])
                jobs.regrid(mine[1], HOUR)
            for each in mine:
                jobs.remove(each)

    def look():
        found = jobs.snapshots()
        assert [each.reference for each in found if each.reference in set(kept)] == kept
        assert all(a.order < b.order for a, b in pairwise(found))
        assert all(0 <= each.active <= each.running <= each.instances for each in found)
        jobs._check()

    jobs.start()
    while_at_work(look, churn)
    assert wait_until(lambda: len(jobs) == 200)
    assert [each.reference for each in jobs.snapshots()] == kept


# Stops, and executors that refuse.


def test_a_stop_waits_for_what_runs_and_drops_what_waits(make):
    jobs = make(1)
    release, inside = threading.Event(), threading.Event()
    first = jobs.every(HOUR, lambda: (inside.set(), release.wait(WAIT)))
    other = jobs.every(HOUR, nothing, instances=3)
    single = jobs.after(0, nothing)
    jobs.pause(single)
    jobs.start()
    jobs.run_job(first)
    assert inside.wait(WAIT)
    for _ in range(3):
        assert jobs.run_job(other)
    jobs.resume(single)
    assert wait_until(lambda: jobs.stats().ready == 4)
    assert jobs.stop(0) is False
    release.set()
    assert jobs.stop(WAIT)
    assert (jobs.stats().dropped, jobs.stats().ready) == (4, 0)
    assert [jobs.look(each).running for each in (first, other, single)] == [0, 0, 0]
    jobs.start()
    assert wait_until(lambda: jobs.owner.left == [single]), "its only slot comes again"
    assert jobs.look(other).started == 0


@pytest.mark.parametrize("managed", [False, True])
def test_a_refused_submit_ends_the_loop_and_leaves_no_count_behind(make, logged, managed):
    executor = Hand()
    executor.refusing = True
    jobs = make(executor)
    every, once = jobs.every(HOUR, nothing, managed=managed, first=0), jobs.after(0, nothing, managed=managed)
    jobs.start()
    assert wait_until(lambda: not jobs.running)
    assert jobs.stop(WAIT)
    ((level, text, _),) = logged
    assert (level, text.splitlines()[0]) == ("ERROR", "jobs: the loop has ended")
    assert jobs.stats().started == jobs.stats().ready == jobs.stats().running == 0
    assert jobs.stats().lateness.count == 0
    assert [(jobs.look(each).running, jobs.look(each).started) for each in (every, once)] == [(0, 0)] * 2
    executor.refusing = False
    executor.at_once = True
    if not managed:
        jobs.start()
        assert wait_until(lambda: jobs.owner.left == [once])


def test_a_pool_shut_down_behind_us_ends_the_loop(make, logged):
    pool = ThreadPoolExecutor(1)
    jobs = make(pool)
    job = jobs.every(HOUR, nothing)
    jobs.start()
    pool.shutdown()
    assert jobs.run_job(job)
    assert wait_until(lambda: not jobs.running)
    assert jobs.stop(WAIT)
    assert len(logged) == 1
    assert jobs.look(job).running == 0
    assert jobs.stats().dropped == 1


@pytest.mark.parametrize("managed", [False, True])
@pytest.mark.parametrize("removed", [False, True])
def test_a_run_that_an_executor_drops_leaves_nothing_behind(make, managed, removed):
    executor = Hand()
    jobs = make(executor)
    every, once = jobs.every(HOUR, nothing, managed=managed, first=0), jobs.after(0, nothing, managed=managed)
    jobs.start()
    assert wait_until(lambda: len(executor.tasks) == 2)
    assert (jobs.look(every).running, jobs.stats().started) == (1, 2)
    if removed:
        assert jobs.remove(every)
    for future, *_ in executor.tasks:
        assert future.cancel()
    assert jobs.wait_idle(WAIT)
    assert (jobs.stats().started, jobs.stats().dropped, jobs.stats().running, jobs.stats().errors) == (0, 2, 0, 0)
    assert jobs.stats().lateness.count == 0
    if not removed:
        seen = jobs.look(every)
        assert (seen.running, seen.started, seen.succeeded, seen.failed) == (0, 0, 0, 0)
    assert jobs.owner.left == [once]


def test_a_managed_run_of_another_executor_that_fails_is_told_of(make):
    executor = Hand()
    jobs = make(executor)
    job = jobs.every(HOUR, lambda ticket: 1 / 0, managed=True, first=0)
    jobs.start()
    assert wait_until(lambda: executor.tasks)
    executor.run()
    assert jobs.wait_idle(WAIT)
    assert jobs.owner.failed == [(job, "ZeroDivisionError('division by zero')")]
    seen = jobs.look(job)
    assert (seen.running, seen.failed, jobs.stats().errors) == (0, 1, 1)


def test_what_waits_for_a_stop_is_waited_for_by_nobody_inside(make):
    jobs = make(2)
    results, done = [], threading.Event()

    def run():
        with pytest.raises(RuntimeError):
            jobs.wait_idle(None)
        results.append(jobs.stop(None))
        done.set()

    jobs.after(0, run)
    jobs.start()
    assert done.wait(WAIT)
    assert jobs.stop(WAIT)
    assert results == [True]


# Policies.


def test_a_run_that_waits_for_a_worker_says_so(make):
    jobs = make(1)
    jobs.explain(4)
    started, release = threading.Event(), threading.Event()
    jobs.after(0, lambda: (started.set(), release.wait(WAIT)))
    job = jobs.every(HOUR, nothing)
    jobs.start()
    assert started.wait(WAIT)
    time.sleep(0.002)  # the worker is stuck, not only busy
    assert jobs.run_job(job)
    assert [note[0] for note in jobs.decisions(job)] == ["pool full"]
    release.set()
    assert wait_until(lambda: jobs.look(job).succeeded == 1)
    assert jobs.run_job(job)
    assert wait_until(lambda: jobs.look(job).succeeded == 2)
    assert [note[0] for note in jobs.decisions(job)] == ["pool full", "ran", "ran"]


@pytest.mark.parametrize("managed", [False, True])
def test_a_backlog_goes_on_whatever_the_executor(make, executor, managed):
    """Nothing else is due that could wake the loop."""
    jobs = make(executor)
    slots = []

    def call(*tickets):
        slots.append(jobs.current())
        for ticket in tickets:
            ticket.finish(False)

    job = jobs.every(HOUR, call, first=-9.5 * HOUR, catch_up="all", managed=managed)
    jobs.start()
    assert wait_until(lambda: jobs.snapshot(job).succeeded == 10)
    assert (len(slots), jobs.look(job).coalesced) == (10, 0)


def test_a_backlog_goes_on_when_an_executor_tells_of_the_end_later(make):
    hand = Hand()
    jobs = make(hand)
    job = jobs.every(HOUR, nothing, first=-2.5 * HOUR, catch_up="all")
    jobs.start()
    for number in range(3):
        assert wait_until(lambda: hand.tasks)
        assert jobs.look(job).queued == 2 - number
        hand.run()
    assert wait_until(lambda: jobs.look(job).succeeded == 3)


def test_a_backlog_goes_on_after_a_stop_that_was_taken_back(make):
    """A run ended in between, and no further slot comes that could see to it."""

    class Clock(SteppedClock):
        def wait(self, event, timeout):
            if asleep.is_set():
                waiting.set()
                go.wait(WAIT)
            else:
                event.wait(0.001)

    asleep, waiting, go = threading.Event(), threading.Event(), threading.Event()
    tickets = []
    jobs = make(1, Clock())
    job = jobs.every(1, tickets.append, first=-2.5, until=0, catch_up="all", managed=True)
    jobs.start()
    assert wait_until(lambda: tickets)
    asleep.set()
    assert waiting.wait(WAIT)
    assert not jobs.stop(0)
    tickets[0].finish(False)
    assert jobs.look(job).queued == 2
    jobs.start()
    asleep.clear()
    go.set()
    assert wait_until(lambda: len(tickets) == 2)
    tickets[1].finish(False)
    assert wait_until(lambda: len(tickets) == 3)
    tickets[2].finish(False)
    assert wait_until(lambda: jobs.owner.left == [job])


def test_from_end_goes_on_if_a_stop_drops_the_run_besides_that_its_slot_found(make):
    jobs = make(1)
    started, release = threading.Event(), threading.Event()
    jobs.after(0, lambda: (started.set(), release.wait(WAIT)))
    jobs.start()
    assert started.wait(WAIT)
    job = jobs.every(0.05, nothing, from_end=True)
    assert jobs.run_job(job)
    assert wait_until(lambda: jobs.look(job).coalesced == 1)
    assert jobs.look(job).next is None
    jobs.stop(0)
    release.set()
    assert jobs.stop(WAIT)
    assert jobs.look(job).next is not None
    jobs.start()
    assert wait_until(lambda: jobs.look(job).succeeded > 1)


# Forks.

PRELUDE = """
import importlib, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads
sys.path.insert(0, {tests!r})
import pysched
from jobs import Jobs
from support import wait_until
impl = importlib.import_module("pysched._engine" if pysched.engine_name == "native" else "pysched._pure")

def in_child(check):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            check()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""


def program(text):
    source = PRELUDE.format(tests=os.path.dirname(__file__))
    return source + "\n".join(line.removeprefix("        ") for line in text.splitlines())


@forks
def test_a_forked_child_finds_its_jobs_and_nothing_that_runs(engine_name):
    process = run_python(
        program(
            """
        jobs = Jobs(impl, executor=1)
        release, inside, ran = threading.Event(), threading.Event(), []
        blocked = jobs.every(3600, lambda: (inside.set(), release.wait(20)))
        waiting = jobs.every(3600, lambda: ran.append(1), instances=2)
        once = jobs.after(0, lambda: ran.append(2))
        left = jobs.after(0, lambda: None)
        jobs.pause(once)
        tickets = []
        managed = jobs.every(3600, tickets.append, managed=True)
        jobs.start()
        jobs.run_job(managed)
        assert wait_until(lambda: tickets and left in jobs.owner.left)
        jobs.run_job(blocked)
        assert inside.wait(20)
        jobs.run_job(waiting)
        jobs.run_job(waiting)
        jobs.resume(once)
        assert wait_until(lambda: jobs.stats().ready == 3)

        def check():
            jobs._check()
            assert not jobs.running
            assert (jobs.stats().dropped, jobs.stats().running, jobs.stats().ready) == (0, 0, 0)
            assert [jobs.look(each).running for each in (blocked, waiting, managed)] == [0, 0, 1]
            assert jobs.look(blocked).succeeded == 0
            tickets[0].give_back()
            assert jobs.look(managed).running == 0
            jobs.start()
            assert wait_until(lambda: ran == [2] and jobs.owner.left == [left, once])
            assert jobs.run_job(waiting)
            assert wait_until(lambda: ran == [2, 1])
            assert jobs.stop(20)
            jobs._check()

        in_child(check)
        assert jobs.running
        release.set()
        assert wait_until(lambda: jobs.look(waiting).succeeded == 2 and ran == [1, 1, 2])
        assert jobs.stop(20)
        jobs._check()
        """
        ),
        engine=engine_name,
    )
    assert_quiet(process)


@forks
def test_a_forked_child_has_no_backlogs_and_periods_go_on(engine_name):
    process = run_python(
        program(
            """
        jobs = Jobs(impl, executor=1)
        jobs.explain(4)
        release, inside, ran = threading.Event(), threading.Event(), []
        blocked = jobs.every(3600, lambda: (inside.set(), release.wait(20)), first=0, from_end=True)
        jobs.start()
        assert inside.wait(20)
        time.sleep(0.002)  # the worker is stuck, not only busy
        few = jobs.every(3600, lambda: ran.append(1), first=-2.5 * 3600, catch_up="all", max_runs=3)
        assert wait_until(lambda: jobs.look(few).queued == 2)
        start = jobs.look(blocked).last_start

        def check():
            jobs._check()
            assert jobs.stats().dropped == 0
            seen = jobs.look(blocked)
            assert seen.running == 0
            assert abs(seen.next - start - 3600 * 10**9) < 10**9  # two readings of the wall clock
            seen = jobs.look(few)
            assert (seen.running, seen.queued, seen.ticks_left, seen.next is None) == (0, 0, 3, False), seen
            assert [note[0] for note in jobs.decisions(few)] == ["pool full", "dropped", "dropped"]
            jobs.start()
            assert jobs.run_job(few)
            assert wait_until(lambda: ran == [1])
            assert jobs.stop(20)
            jobs._check()

        in_child(check)
        release.set()
        assert wait_until(lambda: ran == [1, 1, 1] and jobs.owner.left == [few])
        assert jobs.stop(20)
        jobs._check()
        """
        ),
        engine=engine_name,
    )
    assert_quiet(process)


@forks
def test_a_fork_inside_a_run(engine_name):
    process = run_python(
        program(
            """
        jobs = Jobs(impl, executor=1)
        parent, children = os.getpid(), []

        def run():
            pid = os.fork()
            if pid:
                children.append(pid)
                return
            status = 1
            try:
                signal.alarm(20)
                jobs._check()
                assert jobs.current() is None
                assert jobs.look(job).running == 0 and not jobs.running
                status = 0
            finally:
                os._exit(status)

        job = jobs.every(3600, run)
        jobs.start()
        assert jobs.run_job(job)
        assert wait_until(lambda: jobs.look(job).succeeded == 1)
        assert os.waitpid(children[0], 0)[1] == 0
        assert jobs.stop(20)
        """
        ),
        engine=engine_name,
    )
    assert_quiet(process)
