"""What foreign code raises, on each face: the loop survives it, and everybody else keeps their times."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import logging
import sys
import warnings

import pytest
from faces import Act, all_faces, program
from support import WAIT, assert_quiet, listening, nothing, run_python


class Odd(Exception):
    """Says nothing of itself."""

    def __str__(self):
        raise ZeroDivisionError

    __repr__ = __str__


class Hostile:
    """A callable that raises whatever else is asked of it, and when it is called too."""

    calls = 0
    __signature__ = inspect.Signature()  # else `inspect` compares it, and `every` passes on what that raises

    def __call__(self, *args):
        Hostile.calls += 1
        raise Odd

    def refuse(self, *args):
        raise Odd

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = refuse
    __hash__ = __repr__ = __str__ = __format__ = __iter__ = __index__ = refuse


@pytest.fixture
def unraised(monkeypatch):
    """What Python itself reports of destructors."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: told.append(each.exc_type))
    return told


@all_faces
def test_a_callable_whose_every_method_raises_harms_nobody(make_face, clock, logged, kind):
    Hostile.calls = 0
    face, runs = make_face(kind, clock=clock), []
    face.start()
    face.once(1, Hostile())
    face.every(1, Hostile())
    face.every(1, lambda: runs.append(clock.time()))
    clock.advance(5)
    assert runs == [1, 2, 3, 4, 5]
    assert Hostile.calls == 6
    assert len(logged) == 6


@all_faces
@pytest.mark.parametrize("where", ["argument", "result", "locals of an error", "cancelled", "replaced"])
def test_a_destructor_that_raises_harms_nobody(make_face, clock, logged, unraised, kind, where):
    class Owned:
        def __del__(self):
            raise Odd

    def fails():
        owned = Owned()
        raise ValueError(owned)

    face, runs = make_face(kind, clock=clock, on_error=nothing), []
    face.start()
    face.every(1, lambda: runs.append(clock.time()))
    match where:
        case "argument":
            face.once(1, functools.partial(nothing, Owned()))
        case "result":
            face.once(1, Owned)
        case "locals of an error":
            face.once(1, fails)
        case "cancelled":
            face.once(1, functools.partial(nothing, Owned()), "k")
            face.cancel("k")
        case "replaced":
            face.once(1, functools.partial(nothing, Owned()), "k")
            face.once(1, nothing, "k")
    clock.advance(3)
    assert runs == [1, 2, 3]
    assert unraised == [Odd]
    assert logged == []


@all_faces
@pytest.mark.parametrize("failure", [ValueError, SystemExit, KeyboardInterrupt, "signature"], ids=str)
def test_a_handler_that_fails_is_called_each_time_and_logged_once_each(make_face, clock, logged, kind, failure):
    calls = []

    def handler(error, subject):
        calls.append(type(error))
        raise failure

    face = make_face(kind, clock=clock, on_error=(lambda: None) if failure == "signature" else handler)
    heard, runs = [], []
    if kind == "scheduler":
        face.made.on("error", lambda event: 1 / 0)
        face.made.on("error", heard.append)
    face.start()

    def job():
        runs.append(clock.time())
        raise LookupError

    face.every(1, job)
    clock.advance(5)
    assert runs == [1, 2, 3, 4, 5]
    assert calls == ([] if failure == "signature" else [LookupError] * 5)
    assert sum("on_error raised" in text for _, text, _ in logged) == 5
    assert len(logged) == (10 if kind == "scheduler" else 5)
    assert len(heard) == (5 if kind == "scheduler" else 0)


@all_faces
def test_a_handler_that_fails_is_logged_with_the_names_that_are_known(make_face, clock, logged, kind):
    face = make_face(kind, clock=clock, name="nightly", on_error=lambda error, subject: 1 / 0)
    face.start()
    face.once(1, [].pop, "k")
    clock.advance(1)
    whose = "nightly: job k (pop)" if kind == "scheduler" else "nightly"
    assert [text.splitlines()[0] for _, text, _ in logged] == [f"{whose}: on_error raised an exception"]


def three_errors_that_cannot_be_logged(make_face, clock, kind):
    """A job fails each second, and so does the handler of the log; the job goes on."""

    class Broken(logging.Handler):
        def emit(self, record):
            raise Odd

    face, runs = make_face(kind, clock=clock), []
    face.start()

    def job():
        runs.append(clock.time())
        raise LookupError

    face.every(1, job)
    with listening(Broken()):
        clock.advance(3)
    assert runs == [1, 2, 3]


@all_faces
def test_a_logging_handler_that_raises_harms_nobody(make_face, clock, unraised, logged, kind):
    three_errors_that_cannot_be_logged(make_face, clock, kind)
    assert unraised == [Odd] * 3


@all_faces
def test_the_hook_that_python_has_by_default_is_told_of_it_too(make_face, clock, monkeypatch, logged, capsys, kind):
    """It takes nothing but what Python itself makes; another one may be looser."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    three_errors_that_cannot_be_logged(make_face, clock, kind)
    told = capsys.readouterr().err
    assert told.count("Exception ignored in: pysched, while it logged ") == 3
    assert told.count("Odd") >= 3
    assert "TypeError" not in told


@all_faces
@pytest.mark.parametrize("workers", ["None", "2"])
def test_what_callbacks_raise_is_not_the_status_of_the_program(engine_name, kind, workers):
    process = run_python(
        program(
            kind,
            """
        logging.getLogger("pysched").addHandler(logging.NullHandler())
        import asyncio
        ran = threading.Event()
        def fail(error):
            raise error
        for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), BaseException()):
            once(made, 0, lambda error=error: fail(error))
        every(made, 0.001, lambda: sys.exit(4))
        once(made, 0.02, ran.set)
        start(made)
        assert ran.wait(20)
        stop(made, 20)
        print("still here")
        """,
            workers=workers,
        ),
        engine=engine_name,
    )
    assert_quiet(process)
    assert process.stdout == "still here\n"


@all_faces
def test_no_name_can_pass_for_a_line_of_the_log(make_face, clock, logged, kind):
    forged = "x\nERROR:pysched:all is lost\x1b[2J\r"
    face = make_face(kind, clock=clock, name=forged)
    face.start()
    face.once(1, [].pop)
    if kind == "scheduler":
        face.made.every(1, lambda: clock.sleep(3), id=forged, name=forged, timeout=2)
        face.made.every(1, [].pop, id=f"{forged}2")
    clock.advance(5)
    assert len(logged) > (2 if kind == "scheduler" else 0)
    for _, text, has_traceback in logged:
        lines = text.splitlines()
        assert lines[0].isprintable()
        assert len(lines) == 1 or has_traceback
        assert "all is lost" not in "".join(lines[1:])


# Coroutine functions: awaited, or refused, and never a success that did nothing.


async def coroutine(*args):
    ran.append(1)
    await asyncio.sleep(0)
    ran.append(2)


async def generator(*args):
    ran.append(1)
    yield


class Awaited:
    async def __call__(self, *args):
        await coroutine()

    async def method(self, *args):
        await coroutine()


ran: list[int] = []
FUNCTIONS = {"function": coroutine, "method": Awaited().method, "generator": generator}
HIDDEN = {
    "partial": functools.partial(coroutine, 1),
    "__call__": Awaited(),
    "lambda": lambda *args: coroutine(),
    "generator in a partial": functools.partial(generator, 1),
}


@pytest.fixture(autouse=True)
def nothing_is_never_awaited():
    ran.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("register", ["call_later", "call_every", "call_many"])
def test_an_engine_refuses_a_coroutine_function(make_engine, clock, name, register):
    engine = make_engine(clock=clock)
    with pytest.raises(TypeError, match="callback must not be async"):
        getattr(engine, register)([1] if register == "call_many" else 1, FUNCTIONS[name])
    assert len(engine) == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_scheduler_refuses_a_coroutine_function(make_face, clock, name):
    face = make_face("commands", clock=clock)
    command = type("Command", (), {"execute": FUNCTIONS[name]})()
    for register in (face.made.submit, lambda command: face.made.schedule(command, 1)):
        with pytest.raises(TypeError, match="command must not have an async execute"):
            register(command)
    face.start()
    assert clock.advance(5) == 0


@pytest.mark.parametrize("kind", ["engine", "commands"])
@pytest.mark.parametrize("name", HIDDEN)
def test_a_coroutine_that_nobody_would_await_is_an_error_of_the_run(make_face, clock, kind, name):
    told = []
    face = make_face(kind, clock=clock, on_error=lambda error, subject: told.append(error))
    face.start()
    face.every(1, HIDDEN[name])
    clock.advance(2)
    assert [type(error) for error in told] == [TypeError] * 2
    assert "coroutine" in str(told[0])
    assert ran == []
    told.clear()


@pytest.mark.parametrize("workers", [None, 2, "another executor"])
def test_a_coroutine_that_nobody_would_await_on_real_threads(make_engine, workers):
    class AtOnce:
        def submit(self, function, *args):
            from concurrent.futures import Future

            future = Future()
            future.set_result(function(*args))
            return future

    told = []
    executor = AtOnce() if workers == "another executor" else workers
    engine = make_engine(executor, on_error=lambda error, timer: told.append(type(error)))
    engine.call_later(0, HIDDEN["lambda"])
    engine.start()
    assert engine.wait_idle(WAIT)
    assert told == [TypeError]
    assert engine.stats().errors == 1


def test_tasks_and_futures_go_on_by_themselves_and_are_no_error(make_face, clock):
    """What `loop.create_task` returns may be awaited, but need not be."""
    loop = asyncio.new_event_loop()
    try:
        future = loop.create_future()
        for kind in ("engine", "commands"):
            face = make_face(kind, clock=clock, on_error=lambda error, subject: pytest.fail(repr(error)))
            face.start()
            face.once(0, lambda: future)
        assert clock.advance(0) == 2
        assert not future.cancelled()
        future.cancel()
    finally:
        loop.close()


def test_a_worker_of_commands_refuses_coroutines_too(make_worker):
    told = make_worker(Act(HIDDEN["lambda"], None))
    assert [type(error) for error in told] == [TypeError]


@pytest.fixture
def make_worker():
    """Runs one command in a `SchedulerWorker`; what it told `on_error`."""
    import threading

    from pysched.cancellation import CancellationRegistry
    from pysched.scheduler_queue import TimedCommandQueue
    from pysched.worker import SchedulerWorker

    def run(command):
        told, stop, queue = [], threading.Event(), TimedCommandQueue()

        def on_error(error, command):
            told.append(error)
            stop.set()

        queue.push(0, None, command)
        SchedulerWorker(
            queue, CancellationRegistry(), threading.Lock(), threading.Event(), stop, None, None, on_error
        ).run()
        return told

    return run
