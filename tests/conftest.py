"""Fixtures of the whole suite. Each contract test runs on both engines through `impl`."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import sys
import threading
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from faces import FACES
from hypothesis import HealthCheck, settings
from support import MODES, WAIT, Rig, listening, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import ModuleType

    from pysched.testing import ManualClock

settings.register_profile(
    "pysched", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("pysched")


def pytest_configure() -> None:
    """Let Ctrl-C be a KeyboardInterrupt in tests and their children: what a shell starts with `&` is to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep collections in tests from going through some thousand collected tests each time."""
    gc.collect()
    gc.freeze()


_MODULES = {"native": "pysched._engine", "pure": "pysched._pure"}


def chosen_engines() -> list[str]:
    """The engines to test: both, unless PYSCHED_TEST_ENGINES names some ("pure", "native,pure")."""
    return os.environ.get("PYSCHED_TEST_ENGINES", "native,pure").split(",")


def load_engine(name: str) -> ModuleType:
    """The module of the engine `name`; one that cannot be imported is an error, never a skip."""
    return importlib.import_module(_MODULES[name])


# Live objects: in a debug build (PYSCHED_DEBUG=1) the compiled engines count them, and no test may leave any behind.

_LIVE_BEFORE = pytest.StashKey[dict[str, int]]()
_HAS_FAILED = pytest.StashKey[bool]()


def live_objects() -> dict[str, int] | None:
    """What lives in compiled engines once garbage is collected; None unless they are of a debug build."""
    if "native" not in chosen_engines():
        return None
    count = importlib.import_module("pysched._engine.core").live_objects
    if count() is None:
        return None
    gc.collect()
    return count()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    before = live_objects()
    if before is not None:
        item.stash[_LIVE_BEFORE] = before
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is not None:
        item.stash[_HAS_FAILED] = True  # its traceback keeps alive what it sees
    report = yield
    # pytest-xdist cannot pass on the lone surrogates that tests let be logged.
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)  # its end is the last: no record of the log is kept any more
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    before = item.stash.get(_LIVE_BEFORE, None)
    if before is not None and not item.stash.get(_HAS_FAILED, False):
        getattr(item, "funcargs", {}).clear()  # pytest does so, but later
        for value in getattr(getattr(item, "callspec", None), "params", {}).values():
            if isinstance(value, BaseException):
                # A parameter that was raised outlives the test, with all frames that it passed, and its context.
                value.__traceback__ = value.__context__ = None
        gone = wait_until(lambda: _is_below(live_objects(), before), 5)
        assert gone, f"left behind: {before} before, now {live_objects()}"
    return result


def _is_below(counts: dict[str, int] | None, limits: dict[str, int]) -> bool:
    return counts is not None and all(counts[kind] <= limit for kind, limit in limits.items())


@cache
def scheduler_type_of(impl: ModuleType) -> Any:
    """`Scheduler` on an engine's module, whichever this process has chosen."""
    from pysched import Scheduler

    jobs = importlib.import_module(f"{impl.__name__}.job_engine")
    schedules = importlib.import_module(f"{impl.__name__}.schedule")
    calendars = importlib.import_module(f"{impl.__name__}.calendar")
    backend = SimpleNamespace(
        JobEngine=jobs.JobEngine,
        CalendarSchedule=schedules.CalendarSchedule,
        Calendar=calendars.Calendar,
        Zone=calendars.Zone,
    )
    return type("Scheduler", (Scheduler,), {"_backend": backend})


@pytest.fixture(scope="session", params=chosen_engines())
def impl(request: pytest.FixtureRequest) -> ModuleType:
    """An engine's module: Engine, TimerHandle, CommandScheduler."""
    return load_engine(request.param)


@pytest.fixture(scope="session")
def compiled(impl: ModuleType) -> ModuleType:
    """The compiled engine's module."""
    if impl.__name__ != _MODULES["native"]:
        pytest.skip("of the compiled engine")
    return impl


@pytest.fixture(scope="session")
def calendar(impl: ModuleType) -> ModuleType:
    """The engine's module of calendars: Calendar, Zone."""
    return importlib.import_module(f"{impl.__name__}.calendar")


@pytest.fixture
def engine_name(impl: ModuleType) -> str:
    """The value of PYSCHED_ENGINE that makes a subprocess use `impl`."""
    return next(name for name, module in _MODULES.items() if module == impl.__name__)


@pytest.fixture
def clock() -> ManualClock:
    from pysched.testing import ManualClock

    return ManualClock()


@pytest.fixture
def make_engine(impl: ModuleType) -> Iterator[Callable[..., Any]]:
    """Makes engines that are stopped and checked at the end of the test."""
    engines = []

    def make(*args: Any, **options: Any) -> Any:
        engine = impl.Engine(*args, **options)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        assert engine.stop(WAIT), "a callback was left running"
        engine._check()


@pytest.fixture
def engine(make_engine: Callable[..., Any], clock: ManualClock) -> Any:
    """An engine on `clock`, started."""
    engine = make_engine(clock=clock)
    engine.start()
    return engine


@pytest.fixture
def scheduler_type(impl: ModuleType) -> Any:
    """`Scheduler` on `impl`."""
    return scheduler_type_of(impl)


@pytest.fixture
def make_scheduler(scheduler_type: Any) -> Iterator[Callable[..., Any]]:
    """Makes schedulers, in UTC unless told otherwise, that are shut down and checked at the end of the test."""
    schedulers = []

    def make(*args: Any, **options: Any) -> Any:
        options.setdefault("timezone", "UTC")
        scheduler = scheduler_type(*args, **options)
        schedulers.append(scheduler)
        return scheduler

    yield make
    for scheduler in schedulers:
        assert scheduler.shutdown(timeout=WAIT) == [], "a callback was left running"
        scheduler._check()
        assert all(info["running"] == 0 for info in scheduler.list_jobs())


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Any], clock: ManualClock) -> Any:
    """A scheduler on `clock`, started."""
    scheduler = make_scheduler(clock=clock)
    scheduler.start_background()
    return scheduler


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """A way to run callbacks: inline, own pools of one and two threads, daemon workers, a user's pool, ManualClock."""
    return request.param


@pytest.fixture
def make_rig(impl: ModuleType, mode: str) -> Iterator[Callable[..., Rig]]:
    """Makes rigs of `mode` (see support.Rig), which are closed and checked at the end of the test."""
    rigs = []

    def make(**options: Any) -> Rig:
        rig = Rig(impl, mode, **options)
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    """An engine in each mode, not started."""
    return make_rig()


@pytest.fixture
def make_face(impl: ModuleType) -> Iterator[Callable[..., Any]]:
    """Makes faces by the names of `faces.FACES`, which are stopped and checked at the end of the test."""
    made = []

    def make(kind: str, **options: Any) -> Any:
        face = FACES[kind](impl, **options)
        made.append(face)
        return face

    yield make
    for face in made:
        face.close()


class _Records(logging.Handler):
    """Keeps what is logged, as (level name, text, has a traceback); never the record, which holds frames."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[str, str, bool]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.logged.append((record.levelname, text, bool(record.exc_info)))


@pytest.fixture
def logged() -> Iterator[list[tuple[str, str, bool]]]:
    """What the logger `pysched` is given during the test: (level name, text with traceback, has one)."""
    handler = _Records()
    with listening(handler):
        yield handler.logged


@pytest.fixture(autouse=True)
def nothing_unexpected_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails tests during which something is logged but time-outs, unless they ask for `logged` or `caplog`."""
    if {"logged", "caplog"} & set(request.fixturenames):
        yield
        return
    handler = _Records()
    with listening(handler):
        yield
    assert [entry for entry in handler.logged if " timed out after " not in entry[1]] == []


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    """Fails tests after which threads are alive that were not there before."""
    before = set(threading.enumerate())
    yield
    assert wait_until(lambda: set(threading.enumerate()) <= before, 5), (
        f"left running: {[thread.name for thread in set(threading.enumerate()) - before]}"
    )


@pytest.fixture
def switching():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
