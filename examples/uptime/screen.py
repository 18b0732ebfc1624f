"""The table: redrawn in place on a terminal, printed once at the end anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uptime.watch import Monitor, Service

HEADER = f"{'service':<26} {'targets':>7} {'checks':>7} {'failed':>6} {'median':>8}  state"


class Screen:
    """Shows a Monitor on stdout."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0  # lines of the table that stands on the terminal
        self._before = (monitor.began, 0)  # when it was drawn, and how many checks were done then

    def update(self) -> None:
        if self._live:
            columns, rows = shutil.get_terminal_size()
            lines = [*self._table(rows - 6), "", *self._summary(*self._before)]
            # A line that wraps, or one above the top, could not be drawn over again.
            self._draw([line[: columns - 1] for line in lines])
            self._before = (self._monitor.engine.time(), self._done())

    def finish(self) -> None:
        """Draw the table for the last time, whole, with the rate over all the time."""
        whole = self._table(len(self._monitor.services))
        self._draw([*whole, "", *self._summary(self._monitor.began, 0)])

    def _draw(self, lines: list[str]) -> None:
        over = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        sys.stdout.write(over + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self._drawn = len(lines)

    def _table(self, height: int) -> list[str]:
        services = list(self._monitor.services.values())
        if len(services) > height:
            services.sort(key=lambda service: not service.down)  # what is down stays in sight
        shown = services[: max(height, 1)]
        lines = [HEADER, *(self._row(service) for service in shown)]
        if len(shown) < len(services):
            lines.append(f"... and {len(services) - len(shown)} more")
        return lines

    def _row(self, service: Service) -> str:
        state = "up"
        if service.down:
            outage = service.outages[-1]
            state = f"DOWN since {outage.began - self._monitor.began:.1f} s"
            if len(service.down) < len(service.targets):
                state += f", {len(service.down)} of {len(service.targets)}"
            state += f": {outage.reason}"
        return (
            f"{service.name:<26} {len(service.targets):>7,} {service.checks:>7,} {service.failures:>6,} "
            f"{milliseconds(service.seconds):>8}  {state}"
        )

    def _summary(self, since: float, done_then: int) -> list[str]:
        """The totals, and the rate since the time `since`, when `done_then` checks were done."""
        engine, began = self._monitor.engine, self._monitor.began
        now, done, stats = engine.time(), self._done(), engine.stats()
        rate = (done - done_then) / max(now - since, 1e-9)
        late = stats.lateness
        return [
            f"{now - began:.1f} s: {done:,} checks, {rate:,.0f} a second; "
            f"{stats.running} in progress, {stats.ready} waiting, {stats.coalesced} skipped",
            f"late by {milliseconds(late.p50)} (p50), {milliseconds(late.p99)} (p99), {milliseconds(late.max)} (max)",
        ]

    def _done(self) -> int:
        return sum(service.checks for service in self._monitor.services.values())


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.2f} ms"
