"""CommandScheduler on real threads and the real clock: its thread, waking, stop and start, several workers.

Nothing here waits for time to pass, except where a test is marked `real_time`.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from sample_commands import Bare, Note, raiser, schedulers
from support import TOMORROW, WAIT, assert_quiet, comes_to_rest, in_other_thread, in_threads, run_python, wait_until

from pysched.commands import BasicSchedulerContext


@pytest.fixture
def make(impl):
    with schedulers(impl) as make:
        yield make


class Gate(Bare):
    """A command that tells when it has begun, and ends when it is let go."""

    def __init__(self, key=None):
        super().__init__(self.run)
        self.key = key
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.threads = []

    def run(self, context):
        self.threads.append(threading.current_thread())
        self.begun.set()
        assert self.go.wait(WAIT)
        self.ended.set()


class Signal(Bare):
    """A command that tells when it has run."""

    def __init__(self, key=None):
        super().__init__(self.run)
        self.key = key
        self.ran = threading.Event()
        self.threads = []

    def run(self, context):
        self.threads.append(threading.current_thread())
        self.ran.set()


class Alone:
    """Notes whether any two of its calls overlap. It is not thread-safe itself: it must not need to be."""

    def __init__(self):
        self.runs = 0
        self.inside = 0
        self.overlapped = False

    def execute(self, context):
        self.inside += 1
        runs = self.runs
        time.sleep(0)  # the GIL goes to whoever wants it: an overlap would be likely
        self.runs = runs + 1
        self.overlapped |= self.inside != 1
        self.inside -= 1


def threads_named(name):
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


# ---------------------------------------------------------------- the thread


def test_commands_run_on_a_daemon_thread_with_the_schedulers_name(make):
    scheduler, command = make(name="polls"), Signal()
    scheduler.start()
    scheduler.submit(command)
    assert command.ran.wait(WAIT)
    [thread] = threads_named("polls")
    assert command.threads == [thread]
    assert (thread.name, thread.daemon) == ("polls_t", True)


def test_stop_joins_the_thread(make):
    """As the reference does: programs look for threads that were left behind."""
    scheduler = make(name="joined")
    for _ in range(100):
        scheduler.start()
        [thread] = threads_named("joined")
        scheduler.stop()
        assert not thread.is_alive()
    assert threads_named("joined") == []


def test_the_default_name_of_the_thread(make):
    scheduler = make()
    scheduler.start()
    assert [thread.name for thread in threads_named("scheduler")] == ["scheduler_t"]


def test_the_thread_has_the_name_of_the_time_of_the_start(make):
    scheduler = make(name="first")
    scheduler.name = "second"
    scheduler.start()
    assert [thread.name for thread in threads_named("first") + threads_named("second")] == ["second_t"]


def test_a_second_start_while_running_starts_no_second_thread(make):
    scheduler, command = make(name="twice"), Signal()
    for _ in range(3):
        scheduler.start()
    assert len(threads_named("twice")) == 1
    scheduler.submit(command)
    assert command.ran.wait(WAIT)


def test_eight_threads_start_it_at_once(make):
    scheduler, command = make(name="eight"), Alone()
    in_threads(*[scheduler.start] * 8)
    assert len(threads_named("eight")) == 1
    command.repeat_interval_s = 1e-6
    scheduler.submit(command)
    assert wait_until(lambda: command.runs >= 50)
    scheduler.stop()
    assert not command.overlapped


def test_a_new_command_wakes_a_scheduler_that_waits_for_a_later_one(make):
    scheduler, late, soon = make(), Signal(), Signal()
    scheduler.start()
    scheduler.submit(late, TOMORROW)
    scheduler.submit(soon, 0.01)
    assert soon.ran.wait(WAIT)
    assert not late.ran.is_set()


def test_a_delay_is_never_early(make):
    scheduler, times = make(), []
    done = threading.Event()
    begin = time.monotonic()
    scheduler.submit(Bare(lambda context: (times.append(time.monotonic() - begin), done.set())), 0.02)
    scheduler.start()
    assert done.wait(WAIT)
    assert times[0] >= 0.02


def test_fault_an_idle_scheduler_does_not_poll(make):
    """Nor does one whose only command comes tomorrow. The waits are seen by a clock of the test's own."""

    class Seen:
        time_ns, wall_ns = staticmethod(time.monotonic_ns), staticmethod(time.time_ns)

        def __init__(self):
            self.waits = []

        def wait(self, event, timeout):
            self.waits.append(timeout)
            event.wait(timeout)

    clock = Seen()
    scheduler = make(clock=clock)
    scheduler.start()
    assert wait_until(lambda: clock.waits)
    assert clock.waits == [None]
    scheduler.submit(Note("x"), TOMORROW)
    assert wait_until(lambda: len(clock.waits) == 2)
    assert clock.waits[1] > TOMORROW - 60


@pytest.mark.real_time
@pytest.mark.parametrize("delay", [None, TOMORROW])
def test_fault_an_idle_scheduler_uses_no_cpu(make, delay):
    scheduler = make(name="idle")
    scheduler.start()
    if delay is not None:
        scheduler.submit(Note("x"), delay)
    [thread] = threads_named("idle")
    clock = time.pthread_getcpuclockid(thread.ident)
    assert comes_to_rest(lambda: time.clock_gettime_ns(clock), 0.3)


def test_a_context_lives_as_long_as_a_command_that_was_handed_it(make):
    """Whoever gives the scheduler another one meanwhile: a command in C may use it to its last line."""

    class Context:
        last_error = None

    scheduler = make(Context())
    reference = weakref.ref(scheduler.context)
    begun, replaced, alive = threading.Event(), threading.Event(), []

    def look(context):
        del context
        begun.set()
        assert replaced.wait(WAIT)
        alive.append(reference() is not None)

    ran = Signal()
    scheduler.submit(Bare(look))
    scheduler.submit(ran)
    scheduler.start()
    assert begun.wait(WAIT)
    scheduler.context = Context()
    gc.collect()
    replaced.set()
    assert ran.ran.wait(WAIT)
    assert alive == [True]
    assert wait_until(lambda: reference() is None)


def test_commands_run_one_at_a_time_whoever_submits_them(make):
    """So they may share their context without locks."""
    scheduler, command = make(), Alone()
    scheduler.start()
    in_threads(*[lambda: [scheduler.submit(command) for _ in range(250)]] * 4)
    assert wait_until(lambda: command.runs == 1000)
    assert not command.overlapped


@pytest.mark.parametrize("max_workers", [1, 3])
def test_no_submission_is_lost_however_soon_it_comes_due(make, switching, max_workers):
    """Not even if that is before the submit has taken the key."""
    scheduler, ran, count = make(max_workers=max_workers), [], 1500
    scheduler.start()

    def work(thread):
        for number in range(count):
            scheduler.submit(Note(number, ran, key=(thread, number)))

    in_threads(*[lambda thread=thread: work(thread) for thread in range(3)])
    assert wait_until(lambda: len(ran) == 3 * count), len(ran)
    scheduler.stop(WAIT)
    assert sorted(ran) == sorted([*range(count)] * 3)


def test_submissions_of_several_threads_under_one_key_leave_one(make, clock):
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            time.sleep(0)  # the others get in between more often
            return isinstance(other, Key)

    scheduler, command = make(clock=clock), Alone()

    class Keyed(Alone):
        @property
        def key(self):
            return Key()

        def execute(self, context):
            command.execute(context)

    def work():
        for number in range(50):
            scheduler.submit(Keyed(), TOMORROW)
            scheduler.submit(Note("x", key=number % 5), TOMORROW)
            scheduler.remove(number % 5)

    in_threads(*[work] * 4)
    scheduler._check()
    scheduler.start()
    assert clock.advance(TOMORROW) == 1
    assert command.runs == 1


def test_an_error_does_not_kill_the_thread(make, logged):
    scheduler, after = make(name="errors"), Signal()
    scheduler.start()
    [thread] = threads_named("errors")
    for kind in (ValueError, SystemExit, KeyboardInterrupt):
        scheduler.submit(Bare(raiser(kind("boom"))))
    scheduler.submit(after)
    assert after.ran.wait(WAIT)
    assert after.threads == [thread]
    assert len(logged) == 3


# ---------------------------------------------------------------- stop and start


def test_stop_waits_for_the_command_that_runs(make):
    scheduler, gate, order = make(), Gate(), []
    scheduler.start()
    scheduler.submit(gate)
    assert gate.begun.wait(WAIT)

    def stop():
        scheduler.stop(timeout=None)
        order.append(("stopped", gate.ended.is_set()))

    stopper = threading.Thread(target=stop)
    stopper.start()
    gate.go.set()
    stopper.join(WAIT)
    assert order == [("stopped", True)]


def test_stop_wakes_a_scheduler_that_waits(make):
    for delay in (None, TOMORROW):
        scheduler = make()
        if delay is not None:
            scheduler.submit(Note("x"), delay)
        scheduler.start()
        assert in_other_thread(lambda scheduler=scheduler: scheduler.stop(None))


def test_start_after_stop_runs_what_was_pending(make):
    scheduler, gate, pending = make(name="again"), Gate(), [Signal() for _ in range(5)]
    scheduler.start()
    scheduler.submit(gate)
    assert gate.begun.wait(WAIT)
    for command in pending:
        scheduler.submit(command)
    scheduler.stop(0)
    gate.go.set()
    scheduler.stop(None)
    assert not any(command.ran.is_set() for command in pending)
    scheduler.start()
    assert all(command.ran.wait(WAIT) for command in pending)


def test_fault_stop_from_inside_a_command_does_not_raise(make):
    context, stopped = BasicSchedulerContext(), threading.Event()
    scheduler, after = make(context, name="inside"), Note("after")
    [] = threads_named("inside")
    scheduler.submit(Bare(lambda context: (scheduler.stop(), scheduler.stop(None), stopped.set())))
    scheduler.submit(after)
    scheduler.start()
    assert stopped.wait(WAIT)
    assert wait_until(lambda: threads_named("inside") == [])
    assert (context.last_error, after.to) == (None, [])
    scheduler.start()
    assert wait_until(lambda: after.to == ["after"])


def test_fault_start_after_a_stop_that_a_hung_command_outlasted_gives_no_second_loop(make, logged):
    """The old one goes on when the command returns, and a warning says so."""
    scheduler, hung, after, alone = make(name="hung"), Gate(), Signal(), Alone()
    scheduler.start()
    scheduler.submit(hung)
    assert hung.begun.wait(WAIT)
    [thread] = threads_named("hung")
    begin = time.monotonic()
    scheduler.stop(timeout=0.01)
    assert time.monotonic() - begin < WAIT / 2
    assert not hung.ended.is_set()
    for _ in range(3):
        scheduler.start()
    assert threads_named("hung") == [thread]
    assert [level for level, _, _ in logged] == ["WARNING"]
    alone.repeat_interval_s = 1e-6
    scheduler.submit(after)
    scheduler.submit(alone)
    assert not after.ran.is_set()
    hung.go.set()
    assert after.ran.wait(WAIT)
    assert wait_until(lambda: alone.runs >= 50)
    assert after.threads == [thread]
    assert threads_named("hung") == [thread]
    scheduler.stop()
    assert not alone.overlapped


def test_a_hung_stop_without_start_ends_when_the_command_returns(make):
    scheduler, hung, after = make(name="ends"), Gate(), Note("after")
    scheduler.start()
    scheduler.submit(hung)
    scheduler.submit(after)
    assert hung.begun.wait(WAIT)
    scheduler.stop(0)
    hung.go.set()
    assert wait_until(lambda: threads_named("ends") == [])
    assert after.to == []


def test_cycles_of_start_and_stop_by_two_threads(make, logged):
    scheduler, command = make(), Alone()
    command.repeat_interval_s = 1e-5
    scheduler.submit(command)

    def cycle():
        for _ in range(50):
            scheduler.start()
            scheduler.stop(WAIT)

    in_threads(cycle, cycle)
    assert not command.overlapped
    scheduler.stop()
    runs = command.runs
    scheduler.start()
    assert wait_until(lambda: command.runs > runs), "it was lost"
    scheduler.stop()
    assert not command.overlapped
    assert {level for level, _, _ in logged} <= {"WARNING"}, "a start that took a stop back says so"


def test_two_stops_from_inside_and_one_from_outside(make):
    scheduler, stopping = make(name="three", max_workers=2), threading.Barrier(3)

    def execute(context):
        stopping.wait(WAIT)
        scheduler.stop()

    scheduler.submit(Bare(execute))
    scheduler.submit(Bare(execute))
    scheduler.start()
    stopping.wait(WAIT)
    assert in_other_thread(lambda: scheduler.stop(None))
    assert wait_until(lambda: threads_named("three") == [])


# ---------------------------------------------------------------- several workers


def test_with_several_workers_commands_overlap_on_threads_of_their_own(make):
    scheduler, meeting, threads = make(name="pool", max_workers=3), threading.Barrier(3), []

    def execute(context):
        threads.append(threading.current_thread())
        meeting.wait(WAIT)

    for _ in range(3):
        scheduler.submit(Bare(execute))
    scheduler.start()
    assert wait_until(lambda: len(threads) == 3 and not meeting.broken and meeting.n_waiting == 0)
    assert {thread.name for thread in threads} == {f"pool-worker_{number}" for number in range(3)}
    assert "pool_t" in [thread.name for thread in threads_named("pool")]
    scheduler.stop(WAIT)
    assert not meeting.broken
    assert wait_until(lambda: threads_named("pool") == [])


@pytest.fixture
def held_back(make):
    """(scheduler, running, held): `running` runs, `held` of the same key is due, and others have passed it."""
    scheduler, running, held, other = make(max_workers=2), Gate("k"), Signal("k"), Signal()
    scheduler.start()
    scheduler.submit(running)
    assert running.begun.wait(WAIT)
    scheduler.submit(held)
    scheduler.submit(other)
    assert other.ran.wait(WAIT), "it could not pass"
    assert not held.ran.is_set(), "one key overlaps itself"
    yield scheduler, running, held
    running.go.set()


def others_have_run(scheduler):
    """Both workers have come by: what was due before has started, if it ever does."""
    meeting = threading.Barrier(3)
    scheduler.submit(Bare(lambda context: meeting.wait(WAIT)))
    scheduler.submit(Bare(lambda context: meeting.wait(WAIT)))
    meeting.wait(WAIT)


def test_a_due_command_whose_key_runs_is_held_back_and_others_pass_it(held_back):
    _, running, held = held_back
    running.go.set()
    assert held.ran.wait(WAIT)
    assert running.ended.is_set()


def test_a_command_that_is_held_back_can_be_removed(held_back):
    scheduler, running, held = held_back
    scheduler.remove("k")
    running.go.set()
    others_have_run(scheduler)
    assert not held.ran.is_set()


def test_a_command_that_is_held_back_can_be_replaced(held_back):
    scheduler, running, held = held_back
    new = Signal("k")
    scheduler.submit(new)
    running.go.set()
    assert new.ran.wait(WAIT)
    assert running.ended.is_set()
    others_have_run(scheduler)
    assert not held.ran.is_set()


def test_a_command_that_is_held_back_can_be_replaced_by_a_later_one(held_back):
    scheduler, running, held = held_back
    later = Signal("k")
    scheduler.submit(later, TOMORROW)
    running.go.set()
    others_have_run(scheduler)
    assert not held.ran.is_set()
    assert not later.ran.is_set()
    scheduler.remove("k")


def test_a_removed_key_is_still_held_back_while_its_command_runs(held_back):
    """The key is free, but two commands of it never overlap."""
    scheduler, running, held = held_back
    scheduler.remove("k")
    new, other = Signal("k"), Signal()
    scheduler.submit(new)
    scheduler.submit(other)
    assert other.ran.wait(WAIT)
    assert not new.ran.is_set()
    running.go.set()
    assert new.ran.wait(WAIT)
    assert not held.ran.is_set()


def test_a_command_that_is_held_back_stays_queued_over_stop(held_back):
    scheduler, running, held = held_back
    scheduler.stop(0)
    running.go.set()
    scheduler.stop(None)
    scheduler._check()
    assert not held.ran.is_set()
    scheduler.start()
    assert held.ran.wait(WAIT)


def test_a_command_that_is_held_back_keeps_its_place_over_stop(held_back):
    """What came due after it would keep both workers busy."""
    scheduler, running, held = held_back
    later = [Gate(), Gate()]
    for gate in later:
        scheduler.submit(gate)
    assert later[0].begun.wait(WAIT)
    later[0].go.set()
    assert later[1].begun.wait(WAIT)
    later += [Gate(), Gate()]
    for gate in later[2:]:
        scheduler.submit(gate)
    scheduler.stop(0)
    running.go.set()
    later[1].go.set()
    scheduler.stop(None)
    assert not any(event.is_set() for event in (held.ran, later[2].begun, later[3].begun))
    scheduler.start()
    assert held.ran.wait(WAIT)
    for gate in later[2:]:
        gate.go.set()


def test_a_command_that_is_held_back_runs_after_a_restart_while_the_key_still_runs(held_back, logged):
    scheduler, running, held = held_back
    scheduler.stop(0)
    scheduler.start()
    assert not held.ran.is_set()
    running.go.set()
    assert held.ran.wait(WAIT)
    assert running.ended.is_set()
    assert {level for level, _, _ in logged} <= {"WARNING"}


def test_a_repeating_command_that_runs_holds_back_what_replaces_it(make):
    scheduler, gate, new, other = make(max_workers=2), Gate("k"), Signal("k"), Signal()
    gate.repeat_interval_s = 1e-6
    scheduler.start()
    scheduler.submit(gate)
    assert gate.begun.wait(WAIT)
    scheduler.submit(new)
    scheduler.submit(other)
    assert other.ran.wait(WAIT)
    assert not new.ran.is_set()
    gate.go.set()
    assert new.ran.wait(WAIT)
    others_have_run(scheduler)
    assert len(gate.threads) == 1, "it has been replaced"


def test_one_key_never_overlaps_itself_whoever_submits_it(make):
    scheduler = make(max_workers=4)
    commands = {key: Alone() for key in "ab"}
    for key, command in commands.items():
        command.key = key
        command.repeat_interval_s = 1e-6
    scheduler.start()

    def work():
        for _ in range(200):
            for command in commands.values():
                scheduler.submit(command)
            scheduler.remove("b")

    in_threads(work, work, work)
    assert wait_until(lambda: commands["a"].runs >= 100)
    scheduler.stop(WAIT)
    assert [command.overlapped for command in commands.values()] == [False, False]
    scheduler._check()


# ---------------------------------------------------------------- the process


def test_a_program_that_ends_with_a_running_scheduler_ends_at_once_and_in_silence(engine_name):
    program = """
        import threading, time
        from pysched import CommandScheduler

        begun = threading.Event()

        class Hangs:
            def execute(self, context):
                begun.set()
                time.sleep(1000)

        idle, hung = CommandScheduler(), CommandScheduler()
        idle.start()
        hung.start()
        hung.submit(Hangs())
        begun.wait()
    """
    assert_quiet(run_python(program, engine=engine_name, timeout=WAIT))


def test_a_forked_child_finds_it_stopped_and_can_start_it(engine_name):
    """Also its keys: a command that ran in the parent does not hold its key in the child, and repeats there."""
    program = """
        import os, threading, warnings
        from pysched import CommandScheduler

        begun, go = threading.Event(), threading.Event()
        parent = os.getpid()

        class Runs:
            key = "k"
            repeat_interval_s = 1e-3

            def execute(self, context):
                if os.getpid() == parent:
                    begun.set()
                    go.wait()
                else:
                    repeated.set()

        class Sets:
            key = None

            def __init__(self):
                self.ran = threading.Event()

            def execute(self, context):
                self.ran.set()

        repeated = threading.Event()
        scheduler = CommandScheduler(max_workers=2)
        scheduler.start()
        scheduler.submit(Runs())
        assert begun.wait(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                before = Sets()
                scheduler.submit(before)
                scheduler.start()
                assert before.ran.wait(20), "submitted in the child"
                assert repeated.wait(20), "repeats in the child"
                same = Sets()
                same.key = "k"
                scheduler.submit(same)
                assert same.ran.wait(20), "the key is held"
                scheduler.stop()
                scheduler._check()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        go.set()
        after = Sets()
        scheduler.submit(after)
        assert after.ran.wait(20), "the parent"
        scheduler.stop()
    """
    assert_quiet(run_python(program, engine=engine_name, timeout=60))


def test_forks_while_threads_submit_and_remove(engine_name):
    """No child finds a lock that nobody will release, and the parent notices nothing."""
    program = """
        import os, threading, time, warnings
        from pysched import CommandScheduler

        class Counts:
            key = "k"
            repeat_interval_s = None
            runs = 0

            def execute(self, context):
                Counts.runs += 1

        scheduler, ending = CommandScheduler(), threading.Event()
        scheduler.start()

        def busy():
            while not ending.is_set():
                scheduler.submit(Counts())
                scheduler.remove("unknown")
                scheduler.remove("k")

        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        warnings.simplefilter("ignore", DeprecationWarning)
        for _ in range(25):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    scheduler.submit(Counts())
                    scheduler.remove("k")
                    scheduler.submit(Counts())
                    before = Counts.runs
                    scheduler.start()
                    deadline = time.monotonic() + 20
                    while Counts.runs == before and time.monotonic() < deadline:
                        time.sleep(0.001)
                    assert Counts.runs > before
                    scheduler.stop()
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
        ending.set()
        for thread in threads:
            thread.join()
        before = Counts.runs
        scheduler.submit(Counts())
        while Counts.runs == before:
            time.sleep(0.001)
        scheduler.stop()
        scheduler._check()
    """
    assert_quiet(run_python(program, engine=engine_name, timeout=60))
