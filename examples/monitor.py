"""An uptime monitor: checks HTTP targets on a fixed grid, shows what is down, and accounts for every check.

    python examples/monitor.py                     500 targets on 5 services of its own, one of which fails
    python examples/monitor.py --targets FILE      the URLs in FILE, one a line

An `Engine` with a pool of threads runs the checks, each target on a periodic timer of its own. In the
demonstration a `Scheduler` takes one service down half-way and brings it back. The exit status is 0 if
that outage was found and seen to end and every check that fell due is accounted for, 1 if not, 130 on Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pysched import Engine, JobRun, Scheduler
from uptime.probe import Prober, Url
from uptime.screen import Screen, milliseconds
from uptime.services import Services
from uptime.watch import Books, Monitor, Outage, Service

SERVICES = 5
TARGETS = 500
VICTIM = 2  # the service that the drill takes down
REFRESH = 0.25  # seconds
PATIENCE = 6.0  # seconds that late checks are waited for after the end


@dataclass
class Drill:
    """What is done to the services, by jobs that run once, and when that was."""

    services: Services
    engine: Engine
    down_at: float | None = None
    back_at: float | None = None
    error: BaseException | None = None

    def take_down(self) -> None:
        self.down_at = self.engine.time()
        self.services.take_down(VICTIM)

    def bring_back(self) -> None:
        self.services.bring_back(VICTIM)
        self.back_at = self.engine.time()

    def failed(self, error: BaseException, run: JobRun) -> None:
        self.error = error


def watch(monitor: Monitor, screen: Screen) -> None:
    """Keep the screen up to date until every target has had its last check, or is too late with it."""
    while not monitor.finished() and monitor.engine.time() < monitor.end + PATIENCE:
        time.sleep(REFRESH)
        monitor.update()
        screen.update()


def drill_report(drill: Drill, monitor: Monitor) -> tuple[bool, str]:
    """Whether the outage of the drill was found and seen to end, and the line that says so."""
    if drill.error is not None or drill.down_at is None or drill.back_at is None:
        return False, f"it failed itself: {drill.error or 'it did not take place'}"
    victim = monitor.services[drill.services.urls[VICTIM]]
    found = [outage for outage in victim.outages if outage.overlaps(drill.down_at, drill.back_at)]
    if not found:
        return False, f"the outage of {victim.name} was MISSED"
    first, last = found[0], found[-1]
    if last.ended is None:
        return False, f"the outage of {victim.name} was found, its end MISSED"
    return True, (
        f"outage found {milliseconds(first.began - drill.down_at)} after the service went down, "
        f"its end {milliseconds(last.ended - drill.back_at)} after it came back"
    )


def books_report(books: Books) -> tuple[bool, str]:
    """Whether every check is accounted for, and the line that says so."""
    fine = books.lost == 0 and books.errors == 0 and books.done > 0
    return fine, (
        f"{books.due:,} due: {books.done:,} done, {books.skipped:,} skipped, {books.unstarted:,} not started, "
        f"{books.errors:,} failed in themselves, {books.lost:,} lost"
    )


def outage_line(service: Service, outage: Outage, began: float) -> str:
    line = f"outage  {service.name} from {outage.began - began:.2f} s"
    if outage.ended is None:
        return f"{line}, not over: {outage.reason}"
    return f"{line} to {outage.ended - began:.2f} s: {outage.reason}"


def run(options: argparse.Namespace, urls: list[Url], services: Services | None) -> int:
    """Monitor `urls`; with `services` hold the drill on them as well. Returns the exit status."""
    with closing(Prober(options.timeout)) as prober:
        engine = Engine(options.workers, name="monitor")
        monitor = Monitor(engine, urls, prober, interval=options.interval, seconds=options.seconds)
        screen = Screen(monitor)
        drill = Drill(services, engine) if services else None
        director = Scheduler(1, name="drill", on_error=drill.failed if drill else None)
        if drill:
            director.after(options.seconds / 2, drill.take_down)
            director.after(options.seconds * 2 / 3, drill.bring_back)
        try:
            engine.start()
            director.start_background()
            watch(monitor, screen)
        finally:
            director.shutdown()
            books = monitor.close()
            screen.finish()

    print()
    for service in monitor.services.values():
        for outage in service.outages:
            print(outage_line(service, outage, monitor.began))
    reports = {"checks": books_report(books)}
    if drill:
        reports["drill"] = drill_report(drill, monitor)
    for subject, (fine, line) in reports.items():
        print(f"{subject:<7} {line}" if fine else f"{subject:<7} FAILED: {line}")
    return 0 if all(fine for fine, _ in reports.values()) else 1


def read_targets(file: str) -> list[Url]:
    """The URLs in `file`, one a line; blank lines and those that begin with # do not count."""
    urls = []
    for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            try:
                urls.append(Url.parse(text))
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None
    if not urls:
        raise ValueError(f"{file} names no targets")
    return urls


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return number


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An uptime monitor for HTTP targets.")
    parser.add_argument("--targets", metavar="FILE", help="URLs to check, one a line, instead of the demonstration")
    parser.add_argument("--seconds", type=positive, default=12.0, help="how long to monitor (default: %(default)g)")
    parser.add_argument(
        "--interval", type=positive, default=1.0, help="seconds between checks of a target (default: %(default)g)"
    )
    parser.add_argument(
        "--timeout", type=positive, default=2.0, help="seconds to wait for a server (default: %(default)g)"
    )
    parser.add_argument(
        "--workers", type=int, default=16, metavar="N", help="threads that make the checks (default: %(default)d)"
    )
    options = parser.parse_args()
    if options.workers < 1:
        parser.error(f"argument --workers: must be positive, got {options.workers}")
    if options.targets is None and options.seconds < 6 * options.interval:
        parser.error(
            "argument --seconds: the demonstration takes at least six intervals: an outage must be found in it"
        )
    try:
        options.urls = read_targets(options.targets) if options.targets else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return options


def main() -> int:
    options = parse_options()
    try:
        if options.urls:
            return run(options, options.urls, None)
        with Services(SERVICES) as services:
            return run(options, [Url.parse(f"{services.urls[i % SERVICES]}/{i}") for i in range(TARGETS)], services)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
