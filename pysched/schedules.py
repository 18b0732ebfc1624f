"""The cron schedules of a scheduler: jobs of the same expression and zone share one, and with it each next fire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pysched.schedule import parse_cron

if TYPE_CHECKING:
    from datetime import tzinfo

    from pysched.engine import CalendarSchedule

__all__ = ["Schedules"]

FEW = 64


class Label(NamedTuple):
    """What a schedule was made of."""

    text: str  # as a job shows it
    zone: tzinfo
    seconds: bool
    hashed: str | None


class Schedules:
    """`backend` has the classes `CalendarSchedule`, `Calendar` and `Zone`."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._known: dict[object, CalendarSchedule] = {}
        self._sweep_at = FEW

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self, expression: str, seconds: bool, hashed: str | None, zone: tzinfo, name: str = "expression"
    ) -> CalendarSchedule:
        """The schedule that all jobs of that expression and zone share. O(1) for a known one.

        Its `label` is a `Label`. Raises TypeError, or ValueError for a bad expression.
        """
        if not isinstance(expression, str):
            raise TypeError(f"{name} must be a str, got {type(expression).__name__}")
        expression = str.__str__(expression)  # plain text also of a subclass, which may compare as it likes
        hashed = None if hashed is None else str.__str__(hashed)
        key = (expression, seconds, hashed, id(zone))
        known = self._known.get(key)
        if known is not None:
            return known
        fields = parse_cron(expression, seconds=seconds, hashed=hashed)
        backend = self._backend
        found = backend.CalendarSchedule(
            backend.Calendar(fields, backend.Zone(zone)), Label(f"cron {fields.expression}", zone, seconds, hashed)
        )
        if len(self._known) >= self._sweep_at:
            self._sweep()
        return self._known.setdefault(key, found)

    def _sweep(self) -> None:
        """Drop those that no job has; as often as their number has doubled."""
        for key, schedule in list(self._known.items()):
            if not schedule.jobs:
                self._known.pop(key, None)
        self._sweep_at = 2 * len(self._known) + FEW
