"""The options of a job: their types, their defaults, and what may be said about them before anything is done."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from pysched.callbacks import is_async
from pysched.clock import NEVER, NS
from pysched.schedule import parse_duration
from pysched.text import shown
from pysched.zones import EPOCH, parse_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import tzinfo

    from pysched.runner import JobRun

__all__ = [
    "ONCE",
    "REPEATED",
    "SCHEDULED",
    "Duration",
    "OnceOptions",
    "RepeatedOptions",
    "ScheduledOptions",
    "check_choice",
    "check_count",
    "check_cron_options",
    "check_defaults",
    "check_flag",
    "check_handler",
    "check_options",
    "given",
    "shows",
    "spread_of",
    "wall_ns_of",
]

Duration: TypeAlias = str | float | timedelta
"""A text like "1h30m", seconds, or a timedelta."""


class OnceOptions(TypedDict, total=False):
    """What `after` and `at` take by keyword, and all others too."""

    id: str | None  # default: a short one, never used twice
    name: str | None  # default: the callback's
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    tags: Iterable[str]
    replace: bool  # remove the job that has the id
    on_error: Callable[[BaseException, JobRun], object] | None
    misfire_grace_time: Duration | None  # slots that are later than this are left out; default: none is


class RepeatedOptions(OnceOptions, total=False):
    """What `every` and `cron` take by keyword."""

    start_at: datetime | None  # where the grid begins; a past one keeps its phase
    until: datetime | None  # slots from here on do not exist; refused before the first one, `immediate` or not
    max_runs: int | None
    jitter: Duration | None  # each run is late by a random time below it
    spread: Duration | None  # each run is late by a time below it that is always the same, hashed on the id
    catch_up: Literal["one", "none", "all"]  # which of the slots that were missed are run: the latest, none, each
    overlap: Literal["skip", "queue"]  # slots that find `max_instances` runs busy are left out, or wait
    immediate: bool  # one run at the start


class IntervalOptions(RepeatedOptions, total=False):
    """What `every` takes by keyword."""

    from_end: bool  # the interval is counted from the end of each run; there is no grid


class ScheduledOptions(RepeatedOptions, total=False):
    """What `cron` takes by keyword."""

    timezone: str | tzinfo | None  # default: the scheduler's
    seconds: bool  # six fields, seconds first
    hashed: bool  # H is a value hashed on the id, or without one on the callback's qualified name


F = TypeVar("F", bound="Callable[..., Any]")

MOST_INSTANCES = 1 << 20
MOST_RUNS = (1 << 63) - 1
_MICROSECOND = timedelta(microseconds=1)

ONCE: dict[str, Any] = {
    "id": None,
    "name": None,
    "args": (),
    "kwargs": None,
    "tags": (),
    "replace": False,
    "on_error": None,
    "misfire_grace_time": None,
}
REPEATED = {
    **ONCE,
    "start_at": None,
    "until": None,
    "max_runs": None,
    "jitter": None,
    "spread": None,
    "immediate": False,
    "catch_up": "one",
    "overlap": "skip",
}
INTERVAL = {**REPEATED, "from_end": False}
COUNTS: dict[str, Any] = {"max_retries": 0, "retry_backoff": 0.5, "timeout": None, "max_instances": 1}
"""What all take by position, too."""
OF_ONE_JOB = {"id", "name", "args", "kwargs", "replace", "start_at", "until"}
"""What cannot be the default of all jobs."""
SCHEDULED = {**REPEATED, "timezone": None, "seconds": False, "hashed": False}


class NotGiven:
    """Stands for an argument that was not given, whose default may be the scheduler's."""

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = NotGiven()


def shows(defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Give a function that takes ``**options`` a signature that names them; defaults cost 15 ns each a call.

    What has the default `NOT_GIVEN` shows the one that it has if the scheduler has no other.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults.items()
        ]
        positional = [
            each.replace(default=COUNTS[each.name]) if each.default is NOT_GIVEN else each
            for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        function.__signature__ = signature.replace(parameters=positional + named)  # type: ignore[attr-defined]
        return function

    return decorate


def given(options: Mapping[str, Any], defaults: Mapping[str, Any], function: str) -> dict[str, Any]:
    """All options, those that are not given with their defaults. TypeError for one that there is not."""
    for name in options:
        if name not in defaults:
            raise TypeError(f"{function}() got an unexpected keyword argument {shown(name)}")
    return {**defaults, **options}


def check_options(
    options: Mapping[str, Any], max_retries: object, retry_backoff: object, timeout: object, max_instances: object
) -> dict[str, Any]:
    """All options in the form in which they are used: durations in ns, `retry_backoff` and `timeout` in seconds.

    Those that the kind of job does not take have their defaults. Raises TypeError or ValueError naming the option.
    """
    checked = {**SCHEDULED, **INTERVAL, **options}
    check_count(max_retries, "max_retries", least=0)
    check_count(max_instances, "max_instances", least=1, most=MOST_INSTANCES)
    checked["max_retries"] = max_retries
    checked["max_instances"] = max_instances
    checked["retry_backoff"] = parse_duration(retry_backoff, "retry_backoff", zero=True) / NS
    checked["timeout"] = None if timeout is None else parse_duration(timeout, "timeout") / NS
    max_runs = checked["max_runs"]
    if max_runs is None:
        checked["max_runs"] = 0
    else:
        check_count(max_runs, "max_runs", least=1, most=MOST_RUNS)
    checked["id"] = _plain_id(checked["id"])
    name = checked["name"]
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    checked["tags"] = _tags(checked["tags"])
    checked["args"] = _items(checked["args"], "args")
    checked["kwargs"] = _keywords(checked["kwargs"])
    for name in ("start_at", "until"):
        if checked[name] is not None:
            checked[name] = wall_ns_of(checked[name], name)
    for name in ("jitter", "spread"):
        checked[name] = 0 if checked[name] is None else parse_duration(checked[name], name, zero=True)
    grace = checked["misfire_grace_time"]
    checked["misfire_grace_time"] = NEVER if grace is None else parse_duration(grace, "misfire_grace_time")
    check_choice(checked["catch_up"], "catch_up", ("one", "none", "all"))
    check_choice(checked["overlap"], "overlap", ("skip", "queue"))
    for name in ("replace", "immediate", "from_end"):
        check_flag(checked[name], name)
    check_handler(checked["on_error"])
    if checked["from_end"] and (
        checked["max_instances"] > 1 or checked["catch_up"] == "all" or checked["overlap"] == "queue"
    ):
        raise ValueError('from_end does not go with max_instances > 1, catch_up="all" or overlap="queue"')
    return checked


def check_defaults(defaults: object) -> dict[str, Any]:
    """The options of a scheduler's own for all its jobs.

    Raises TypeError or ValueError naming `defaults` or the option.
    """
    if defaults is None:
        return {}
    if not isinstance(defaults, Mapping):
        raise TypeError(f"defaults must be a mapping of job options, got {type(defaults).__name__}")
    found = dict(defaults)
    for name in found:
        if name in OF_ONE_JOB:
            raise TypeError(f"defaults must be options that many jobs may have, got {shown(name)}")
        if name not in {**COUNTS, **INTERVAL, **SCHEDULED}:
            raise TypeError(f"defaults must be options of jobs, there is no {shown(name)}")
    if "tags" in found:
        found["tags"] = _tags(found["tags"])  # an iterator gives its items only once
    counts = [found.get(name, standard) for name, standard in COUNTS.items()]
    check_options({name: value for name, value in found.items() if name not in COUNTS}, *counts)
    check_cron_options({**SCHEDULED, **found})
    if found.get("timezone") is not None:
        parse_zone(found["timezone"])
    return found


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def spread_of(key: str, limit: int) -> int:
    """A number from 0 to below `limit` from the hash of a text: the same in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % limit


def check_cron_options(options: Mapping[str, Any]) -> None:
    """Those that are needed to read the expression."""
    _plain_id(options["id"])
    for name in ("seconds", "hashed"):
        check_flag(options[name], name)


def _plain_id(job_id: object) -> str | None:
    if job_id is None:
        return None
    if not isinstance(job_id, str):
        raise TypeError(f"id must be a str, got {type(job_id).__name__}")
    if not job_id:
        raise ValueError("id must not be empty")
    return str.__str__(job_id)  # plain text also of a subclass


def _tags(tags: object) -> frozenset[str]:
    found = _items(tags, "tags")
    for tag in found:
        if not isinstance(tag, str):
            raise TypeError(f"tags must be an iterable of str, got a {type(tag).__name__} in it")
    return frozenset(map(str.__str__, found))


def _items(value: object, name: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)):  # whose items are letters, or numbers
        raise TypeError(f"{name} must be an iterable of items, got a {type(value).__name__}: write [{shown(value)}]")
    if not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must be an iterable, got {type(value).__name__}")
    return tuple(value)


def _keywords(kwargs: object) -> dict[str, Any]:
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a mapping, got {type(kwargs).__name__}")
    for key in kwargs:
        if not isinstance(key, str):
            raise TypeError(f"kwargs must have names for keys, got {shown(key)}")
    return dict(kwargs)


def check_flag(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")


def check_count(value: object, name: str, *, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least or (most is not None and value > most):
        raise ValueError(
            f"{name} must be at least {least}{'' if most is None else f' and at most {most}'}, got {shown(value)}"
        )


def check_handler(on_error: object) -> None:
    if on_error is None:
        return
    if not callable(on_error):
        raise TypeError(f"on_error must be callable, got {type(on_error).__name__}")
    if is_async(on_error):
        raise TypeError("on_error must be a plain function: nothing would await it")


def wall_ns_of(moment: object, name: str) -> int:
    """Unix nanoseconds of an aware datetime."""
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be an aware datetime, got {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise ValueError(f"{name} must be aware, got a datetime without a time zone: {moment.isoformat()}")
    return (moment - EPOCH) // _MICROSECOND * 1000
