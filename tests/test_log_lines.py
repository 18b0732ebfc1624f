"""A message in the log is one line, whatever names, ids and exceptions say; the traceback below it is Python's own."""

from __future__ import annotations

import logging
import threading

import pytest
from faces import Act, all_faces
from support import WAIT, SteppedClock, nothing, wait_until

FORGED = "x\nERROR:pysched:all is lost\x1b[2J\r\x85\u2028\ud800"


@pytest.fixture
def messages():
    """The messages of all that is logged, without tracebacks."""
    found = []

    class Keeps(logging.Handler):
        def emit(self, record):
            found.append(record.getMessage())

    logger, handler = logging.getLogger("pysched"), Keeps()
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


@pytest.fixture
def nothing_logged(messages):
    """Asked for by a test of something else."""
    yield
    assert messages == []


@pytest.fixture(autouse=True)
def are_lines(request, messages, caplog):
    """Each message that was logged, of which there must be some, is one printable line."""
    yield
    assert messages or "nothing_logged" in request.fixturenames
    assert [text for text in messages if not text.isprintable()] == []
    del caplog  # asked for, so that logging is no fault here


class Forger(Exception):
    def __str__(self):
        return FORGED


Forger.__name__ = FORGED.replace("\ud800", "")


def forge(*args):
    raise Forger(FORGED)


@all_faces
def test_of_a_callback_that_fails(make_face, clock, kind):
    face = make_face(kind, clock=clock, name=FORGED)
    face.start()
    face.once(1, forge, FORGED)
    clock.advance(1)


@all_faces
def test_of_a_handler_that_fails(make_face, clock, kind):
    face = make_face(kind, clock=clock, name=FORGED, on_error=forge)
    face.start()
    face.once(1, forge, FORGED)
    clock.advance(1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_of_a_clock_that_fails(impl):
    class Failing(SteppedClock):
        broken = False

        def time_ns(self):
            return forge() if self.broken else 0

    clock = Failing()
    engine = impl.Engine(clock=clock, name=FORGED)
    engine.start()
    clock.broken = True
    assert wait_until(lambda: not engine.running)


def test_of_an_executor_that_refuses(impl):
    class Refusing:
        submit = staticmethod(forge)

    engine = impl.Engine(Refusing(), name=FORGED)
    engine.call_later(0, nothing)
    engine.start()
    assert wait_until(lambda: not engine.running)


def test_of_a_context_that_refuses(impl, clock):
    class Refusing:
        __setattr__ = forge

    scheduler = impl.CommandScheduler(Refusing(), name=FORGED, clock=clock)
    scheduler.submit(Act(forge, None))
    scheduler.start()
    clock.advance(1)


def test_of_a_listener_that_fails(scheduler, clock):
    scheduler.on("started", forge)
    scheduler.every("1s", nothing, id=FORGED)
    clock.advance(1)


def test_of_a_run_that_times_out(scheduler, clock):
    scheduler.every("1s", lambda: clock.sleep(0.5), id=FORGED, name=FORGED, timeout=0.1)
    clock.advance(1)


def test_of_a_job_that_comes_too_late(make_scheduler, clock):
    scheduler = make_scheduler(clock=clock, name=FORGED)
    scheduler.shutdown()
    scheduler.every("1s", nothing, id=FORGED)


def test_of_a_coroutine_that_fails(scheduler, clock):
    async def job():
        forge()

    scheduler.after(1, job, id=FORGED)
    clock.advance(1)


def test_of_a_time_zone_that_is_not_known(scheduler_type, monkeypatch):
    monkeypatch.setenv("TZ", FORGED.replace("\ud800", ""))
    scheduler_type().shutdown()


def test_of_the_names_of_threads(impl, scheduler_type, nothing_logged):
    """A format with ``%(threadName)s`` shows them."""
    names = []
    made = [impl.Engine(name=FORGED), impl.Engine(1, name=FORGED), impl.Engine(1, daemon=True, name=FORGED)]
    made += [impl.CommandScheduler(name=FORGED)]
    for engine in made[:3]:
        engine.call_later(0, lambda: names.append(threading.current_thread().name))
    scheduler = scheduler_type(name=FORGED, timezone="UTC")

    async def job():
        names.append(threading.current_thread().name)

    scheduler.on("started", lambda _: names.append(threading.current_thread().name))
    scheduler.after(0, job)
    for each in made:
        each.start()
    scheduler.start_background()
    assert wait_until(lambda: len(names) == 5)
    names += [thread.name for thread in threading.enumerate()]
    for each in made:
        each.stop(WAIT)
    scheduler.shutdown()
    assert [name for name in names if not name.isprintable()] == []


def test_the_table_of_jobs(scheduler, clock):
    scheduler.every("1s", forge, id=FORGED, name=FORGED)
    clock.advance(1)
    plain = len(str(scheduler).splitlines())
    assert all(line.isprintable() for line in str(scheduler).splitlines())
    scheduler.remove_all_jobs()
    scheduler.every("1s", [].pop, id="k")
    clock.advance(1)
    assert len(str(scheduler).splitlines()) == plain
