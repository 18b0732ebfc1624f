"""The next fire of a cron expression, again and again, as aware datetimes."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from bench.measure import Unavailable
from pysched.schedule import parse_cron

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["croniter", "cronsim", "native", "twin"]

EXPRESSION = "*/5 9-17 * * mon-fri"


def start() -> datetime:
    return datetime(2024, 1, 15, 10, 20, tzinfo=ZoneInfo("Europe/Berlin"))


@contextmanager
def _engine(package: str, count: int) -> Iterator[Callable[[], object]]:
    module = import_module(f"{package}.calendar")
    begin = start()
    calendar = module.Calendar(parse_cron(EXPRESSION), module.Zone(begin.tzinfo))
    after = int(begin.timestamp())
    yield lambda: calendar.datetimes(after, count)


def native(count: int) -> AbstractContextManager[Callable[[], object]]:
    return _engine("pysched._engine", count)


def twin(count: int) -> AbstractContextManager[Callable[[], object]]:
    return _engine("pysched._pure", count)


@contextmanager
def croniter(count: int) -> Iterator[Callable[[], object]]:
    from croniter import croniter as peer  # type: ignore[import-untyped]

    get_next = peer(EXPRESSION, start()).get_next
    yield lambda: [get_next(datetime) for _ in range(count)]


@contextmanager
def cronsim(count: int) -> Iterator[Callable[[], object]]:
    try:
        peer = import_module("cronsim").CronSim(EXPRESSION, start())
    except ImportError:
        raise Unavailable("cronsim is not installed") from None
    yield lambda: [next(peer) for _ in range(count)]
