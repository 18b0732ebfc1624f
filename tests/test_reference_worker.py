"""The reference's worker, run on the test's own thread, with events that play the rest of the program."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
import weakref

import pytest
from sample_commands import TYPES_OF_ERRORS, Bare, FailingKey, Note, drain, raiser, size_of
from support import WAIT, handler_that_raises, in_other_thread

from pysched.cancellation import CancellationRegistry
from pysched.commands import BasicSchedulerContext, Command
from pysched.scheduler_queue import QueuedCommand, TimedCommandQueue
from pysched.worker import SchedulerWorker


class Script:
    """A wake event that plays the rest of the program: each wait notes its time-out and takes a step."""

    def __init__(self, program, *steps):
        self.program, self.steps, self.waits, self.clears = program, list(steps), [], 0

    def set(self):
        pass

    def clear(self):
        self.clears += 1

    def wait(self, timeout=None):
        self.waits.append(timeout)
        if self.steps:
            self.steps.pop(0)()
        else:
            self.program.stop_event.set()
        return True


class Watched:
    """A lock that knows whether it is held."""

    def __init__(self):
        self.lock = threading.Lock()

    def __enter__(self):
        assert self.lock.acquire(timeout=WAIT), "somebody ran under the lock"

    def __exit__(self, *exc_info):
        self.lock.release()

    @property
    def held(self):
        return self.lock.locked()


class Program:
    """A user's program around a worker."""

    def __init__(self, *steps, queue=None, cancellation=None, context=None, wake_event=None, **handlers):
        self.queue = queue or TimedCommandQueue()
        self.cancellation = cancellation or CancellationRegistry()
        self.lock = Watched()
        self.stop_event = threading.Event()
        self.wake_event = wake_event or Script(self, *steps)
        handlers.setdefault("set_last_error", None)
        self.worker = SchedulerWorker(
            self.queue, self.cancellation, self.lock, self.wake_event, self.stop_event, context, **handlers
        )

    def push(self, command, delay_s=0.0):
        with self.lock:
            token = self.cancellation.new_token(command)
            self.cancellation.activate(command, token)
            self.queue.push(time.monotonic() + delay_s, token, command)

    def remove(self, key):
        with self.lock:
            self.cancellation.remove(key)

    def run(self):
        """Run until nothing is due and the script is at its end."""
        self.worker.run()
        assert self.stop_event.is_set()


def test_the_worker_runs_what_is_due_in_order_and_hands_over_the_context():
    program, ran = Program(context="the context"), []
    for number in range(3):
        program.push(Bare(lambda context, number=number: ran.append((number, context))))
    program.run()
    assert ran == [(number, "the context") for number in range(3)]


def test_the_constructor_takes_its_arguments_by_position_and_by_name():
    stop = threading.Event()
    stop.set()
    arguments = (TimedCommandQueue(), CancellationRegistry(), threading.Lock(), threading.Event(), stop, None)
    SchedulerWorker(*arguments, print).run()
    SchedulerWorker(*arguments, print, print).run()
    names = ("queue", "cancellation", "lock", "wake_event", "stop_event", "context")
    SchedulerWorker(**dict(zip(names, arguments, strict=True)), set_last_error=print, on_error=None).run()


def test_the_worker_stops_between_two_commands():
    program, ran = Program(), []
    program.push(Bare(lambda context: program.stop_event.set()))
    program.push(Note("second", ran))
    program.run()
    assert ran == []
    assert len(drain(program.queue)) == 1


def test_a_worker_that_was_stopped_can_run_again():
    program, ran = Program(), []
    program.push(Note("first", ran))
    program.run()
    program.stop_event.clear()
    program.push(Note("second", ran))
    program.run()
    assert ran == ["first", "second"]


def test_a_future_command_is_waited_for():
    program = Program()
    program.push(Note("x"), delay_s=1000.0)
    program.run()
    [timeout] = program.wake_event.waits
    assert 990 < timeout <= 1000


def test_a_command_that_never_comes_does_not_overflow_the_wait():
    program = Program()
    program.push(Note("x"), delay_s=1e300)
    program.run()
    assert program.wake_event.waits == [None]


def test_the_worker_runs_a_real_command_when_its_time_comes():
    program, ran = Program(wake_event=threading.Event()), []
    begin = time.monotonic()
    program.push(Bare(lambda context: (ran.append(time.monotonic() - begin), program.stop_event.set())), 0.02)
    program.run()
    assert ran[0] >= 0.02


def test_a_repeating_command_is_pushed_again_its_interval_after_the_end_of_the_run():
    program, ends = Program(), []
    note = Bare(lambda context: ends.append(time.monotonic()))
    note.repeat_interval_s = 500.0
    program.push(note)
    program.run()
    [entry] = drain(program.queue)
    assert entry.command is note
    assert ends[0] + 500.0 <= entry.run_at <= time.monotonic() + 500.0


def test_a_repeating_command_repeats_whether_it_worked_or_raised():
    ran, errors = [], []
    program = Program(on_error=lambda exc, command: errors.append(exc))

    def execute(context):
        ran.append(len(ran))
        if len(ran) == 6:
            command.repeat_interval_s = None
        if len(ran) % 2:
            raise ValueError(len(ran))

    command = Bare(execute)
    command.repeat_interval_s = 1e-9
    program.wake_event.steps.extend([lambda: None] * 100)
    program.push(command)
    program.wake_event.steps.append(program.stop_event.set)
    program.run()
    assert ran == [0, 1, 2, 3, 4, 5]
    assert [exc.args for exc in errors] == [(1,), (3,), (5,)]


def test_repeat_interval_s_is_read_again_after_each_run():
    program, reads = Program(), []

    class Reader(Command):
        @property
        def repeat_interval_s(self):
            reads.append(len(reads))
            return None

        def execute(self, context):
            assert reads == []

    program.push(Reader())
    program.run()
    assert reads == [0]
    assert drain(program.queue) == []


@pytest.mark.parametrize(
    ("interval", "error"),
    [
        (0, ValueError),
        (-1.0, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (10**400, ValueError),
        (True, TypeError),
        ("5", TypeError),
        ([], TypeError),
    ],
)
def test_a_bad_repeat_interval_ends_the_repetition_and_is_reported(interval, error):
    errors, after = [], []
    program = Program(on_error=lambda exc, command: errors.append((type(exc), command)))
    program.push(note := Note("x", repeat_interval_s=interval))
    program.push(Note("after", after))
    program.run()
    assert errors == [(error, note)]
    assert note.to == ["x"]
    assert after == ["after"]
    assert drain(program.queue) == []


def test_removed_from_inside_its_own_run_it_does_not_repeat():
    program, ran = Program(), []

    class Once(Note):
        def execute(self, context):
            super().execute(context)
            program.remove("k")

    program.push(Once("x", ran, key="k", repeat_interval_s=1e-9))
    program.run()
    assert ran == ["x"]
    assert drain(program.queue) == []


def test_replaced_from_inside_its_own_run_only_the_new_one_goes_on():
    program = Program()

    class Replaced(Note):
        def execute(self, context):
            super().execute(context)
            program.push(new, delay_s=100.0)

    old, new = Replaced("old", key="k", repeat_interval_s=1e-9), Note("new", key="k")
    program.push(old)
    program.run()
    assert old.to == ["old"]
    assert [entry.command for entry in drain(program.queue, is_active=program.cancellation.is_active)] == [new]


def test_a_removed_command_never_runs():
    program = Program()
    program.push(Note("x", key="k"))
    program.push(other := Note("y", key="other"))
    program.remove("k")
    program.run()
    assert other.to == ["y"]


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
def test_any_error_goes_to_on_error_with_the_command(kind):
    seen, after = [], []
    program = Program(
        on_error=lambda exc, command: seen.append((exc, command)),
        set_last_error=lambda exc: pytest.fail("both handlers"),
        context=BasicSchedulerContext(),
    )
    error = kind("boom")
    program.push(failing := Bare(raiser(error)))
    program.push(Note("after", after))
    program.run()
    assert seen == [(error, failing)]
    assert after == ["after"]


def test_without_on_error_it_goes_to_set_last_error():
    context = BasicSchedulerContext()
    seen, error = [], ValueError("boom")
    program = Program(set_last_error=seen.append, context=context)
    program.push(Bare(raiser(error)))
    program.run()
    assert seen == [error]
    assert context.last_error is None


def test_without_either_it_goes_to_the_context():
    context, error = BasicSchedulerContext(), ValueError("boom")
    program = Program(context=context)
    program.push(Bare(raiser(error)))
    program.run()
    assert context.last_error is error


def test_fault_an_error_with_context_none_does_not_kill_the_loop(logged):
    """The reference's own wiring: the error is stored in a context that is None."""
    after, context = [], None

    def set_last_error(exc):
        context.last_error = exc

    program = Program(set_last_error=set_last_error, context=None)
    program.push(Bare(raiser(ValueError("boom"))))
    program.push(Note("after", after))
    program.run()
    assert after == ["after"]
    assert [(level, traceback) for level, _, traceback in logged] == [("ERROR", True)] * 2
    assert "ValueError: boom" in logged[0][1]
    assert "AttributeError" in logged[1][1]


def test_without_context_and_handlers_an_error_is_logged(logged):
    after = []
    program = Program()
    program.push(Bare(raiser(ValueError("boom"))))
    program.push(Note("after", after))
    program.run()
    assert after == ["after"]
    [(level, text, traceback)] = logged
    assert (level, traceback) == ("ERROR", True)
    assert "ValueError: boom" in text


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
@pytest.mark.parametrize("handler", ["on_error", "set_last_error"])
def test_fault_an_exception_inside_a_handler_does_not_kill_the_loop(logged, handler, kind):
    after = []
    program = Program(**{handler: raiser(kind("of the handler"))})
    program.push(Bare(raiser(ValueError("of the command"))))
    program.push(Note("after", after))
    program.run()
    assert after == ["after"]
    assert {(level, traceback) for level, _, traceback in logged} == {("ERROR", True)}
    text = "\n".join(text for _, text, _ in logged)
    assert "of the handler" in text
    assert "ValueError: of the command" in text


def test_a_logging_handler_that_raises_does_not_kill_the_loop(monkeypatch):
    after, unraisable = [], []
    monkeypatch.setattr(logging.getLogger("pysched"), "handle", raiser(SystemExit("of the logging handler")))
    monkeypatch.setattr(sys, "unraisablehook", lambda report: unraisable.append(report.exc_type))
    program = Program(on_error=raiser(ValueError()))
    program.push(Bare(raiser(ValueError())))
    program.push(Note("after", after))
    program.run()
    assert after == ["after"]
    assert unraisable == [SystemExit]


@pytest.mark.parametrize("kind", TYPES_OF_ERRORS)
def test_a_key_that_fails_is_an_error_of_its_command_and_ends_it(kind):
    errors, after = [], []
    error = kind("of the key")
    program = Program(on_error=lambda exc, command: errors.append((exc, command)))
    program.push(failing := FailingKey(error))
    program.push(Note("after", after))
    failing.failing = True
    program.run()
    assert errors == [(error, failing)]
    assert after == ["after"]
    assert drain(program.queue) == []


def test_a_key_that_fails_after_the_run_ends_the_repetition():
    errors = []
    program = Program(on_error=lambda exc, command: errors.append((type(exc), command)))

    class Fails(FailingKey):
        repeat_interval_s = 1e-9

        def execute(self, context):
            self.failing = True

    program.push(failing := Fails(ValueError("of the key")))
    program.run()
    assert errors == [(ValueError, failing)]
    assert drain(program.queue) == []


def test_an_error_of_a_users_queue_leaves_run():
    class Broken(TimedCommandQueue):
        def pop_ready(self, now, is_active):
            raise ZeroDivisionError("the queue")

    program = Program(queue=Broken())
    with pytest.raises(ZeroDivisionError, match="the queue"):
        program.worker.run()
    assert not program.lock.held


def test_users_code_runs_without_the_lock_and_so_do_destructors():
    held = []

    class Everything(Command):
        def __init__(self, key):
            self.key = key

        @property
        def repeat_interval_s(self):
            held.append(("repeat_interval_s", program.lock.held))
            return None

        def execute(self, context):
            held.append(("execute", program.lock.held))
            raise ValueError

        def __del__(self):
            held.append(("__del__", program.lock.held))

    program = Program(on_error=lambda exc, command: held.append(("on_error", program.lock.held)))
    program.push(Everything("dropped"))
    program.push(Everything("runs"))
    program.remove("dropped")
    program.run()
    assert sorted(held) == [
        ("__del__", False),
        ("__del__", False),
        ("execute", False),
        ("on_error", False),
        ("repeat_interval_s", False),
    ]


def test_an_idle_worker_holds_nothing_of_the_command_that_ran_last():
    """Also not of its exception."""
    alive = []
    program = Program(lambda: alive.append(reference()), on_error=lambda exc, command: None)

    def execute(context):
        raise ValueError

    command = Bare(execute)
    reference = weakref.ref(command)
    program.push(command)
    del command
    gc.collect()
    gc.disable()
    try:
        program.run()
    finally:
        gc.enable()
    assert alive == [None]


def test_fault_an_empty_queue_is_not_polled():
    program, ran = Program(), []
    program.wake_event.steps = [lambda: program.push(Note("x", ran)), lambda: program.stop_event.set()]
    program.run()
    assert program.wake_event.waits == [None, None]
    assert ran == ["x"]


def test_a_push_without_the_wake_event_is_noticed_by_a_worker_that_waits():
    """The reference would have seen it at its next poll."""
    waits, done = threading.Event(), threading.Event()

    class Wake(threading.Event):
        def wait(self, timeout=None):
            waits.set()
            return super().wait(timeout)

    program = Program(wake_event=Wake())

    def user():
        assert waits.wait(WAIT)
        program.push(Bare(lambda context: (done.set(), program.stop_event.set())))

    thread = threading.Thread(target=user)
    thread.start()
    assert in_other_thread(program.run)
    thread.join()
    assert done.is_set()


@pytest.mark.parametrize("delay_s", [None, 1000.0], ids=["empty queue", "a command in the future"])
def test_a_stop_without_the_wake_event_is_noticed_by_a_worker_that_waits(delay_s):
    waits = threading.Event()

    class Wake(threading.Event):
        def wait(self, timeout=None):
            waits.set()
            return super().wait(timeout)

    program = Program(wake_event=Wake())
    if delay_s is not None:
        program.push(Note("x"), delay_s)

    def user():
        assert waits.wait(WAIT)
        program.stop_event.set()

    thread = threading.Thread(target=user)
    thread.start()
    assert in_other_thread(program.run)
    thread.join()


def test_a_stop_just_before_the_wait_is_not_lost():
    """`stop_event` then `wake_event`, at the moment at which the worker has looked and not yet waits."""

    class Queue(TimedCommandQueue):
        def pop_ready(self, now, is_active):
            program.stop_event.set()
            program.wake_event.set()
            return super().pop_ready(now, is_active)

    program = Program(queue=Queue(), wake_event=threading.Event())
    assert in_other_thread(program.run)


def test_where_no_thread_can_be_started_an_empty_queue_is_polled_as_the_reference_does(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    program = Program()
    monkeypatch.setattr(threading.Thread, "start", start)
    program.run()
    assert program.wake_event.waits == [0.1]


def test_a_runtime_error_of_a_signal_handler_is_not_taken_for_a_lack_of_threads(monkeypatch):
    start, program = threading.Thread.start, Program()
    with handler_that_raises() as interrupt:

        def interrupted(self):
            interrupt()
            start(self)

        monkeypatch.setattr(threading.Thread, "start", interrupted)
        try:
            with pytest.raises(RuntimeError, match="of a signal handler"):
                program.run()
        finally:
            program.stop_event.set()


class ListQueue:
    """A user's own queue: a list, and `next_delay` without a default."""

    def __init__(self):
        self.entries, self.asked = [], 0

    def push(self, run_at, token, command):
        self.entries.append(QueuedCommand(run_at, len(self.entries), token, command))
        self.entries.sort()

    def pop_ready(self, now, is_active):
        self.asked += 1
        for entry in list(self.entries):
            if entry.run_at <= now:
                self.entries.remove(entry)
                if is_active(entry.command, entry.token):
                    return entry
        return None

    def next_delay(self, now):
        return max(0.0, self.entries[0].run_at - now) if self.entries else 0.1


class SetRegistry:
    """A user's own registry: a set of cancelled keys."""

    def __init__(self):
        self.cancelled = set()

    def new_token(self, command):
        return command.key

    def activate(self, command, token):
        self.cancelled.discard(token)

    def remove(self, key):
        self.cancelled.add(key)

    def is_active(self, command, token):
        return token not in self.cancelled


def test_the_worker_runs_on_a_queue_and_a_registry_of_ones_own():
    ran = []
    program = Program(queue=ListQueue(), cancellation=SetRegistry())
    program.push(Note("removed", ran, key="a"))
    program.push(Note("stays", ran, key="b"))
    program.remove("a")
    program.run()
    assert ran == ["stays"]


def test_a_users_queue_is_asked_as_often_as_its_next_delay_says():
    program, ran = Program(lambda: None, queue=ListQueue()), []
    program.wake_event.steps.append(lambda: program.queue.push(0.0, None, Note("unannounced", ran)))
    program.run()
    assert program.wake_event.waits == [0.1, 0.1, 0.1]
    assert ran == ["unannounced"]


def test_a_subclass_with_a_next_delay_of_its_own_is_asked_as_often_as_that_says():
    class Impatient(TimedCommandQueue):
        def next_delay(self, now, default_s=0.1):
            return min(0.025, super().next_delay(now, default_s))

    program = Program(queue=Impatient())
    program.run()
    assert program.wake_event.waits == [0.025]


def test_a_subclass_that_only_watches_is_not_polled():
    class Counting(TimedCommandQueue):
        pushed = 0

        def push(self, run_at, token, command):
            self.pushed += 1
            super().push(run_at, token, command)

    program, ran = Program(queue=Counting()), []
    program.wake_event.steps = [lambda: program.push(Note("x", ran)), lambda: program.stop_event.set()]
    program.run()
    assert program.wake_event.waits == [None, None]
    assert (program.queue.pushed, ran) == (1, ["x"])


def test_a_registry_keeps_nothing_of_the_keys_that_a_worker_has_run():
    program = Program()
    for number in range(100):
        program.push(Note(number, key=f"k{number}"))
    assert size_of(program.cancellation) == 100
    program.run()
    assert size_of(program.cancellation) == 0
