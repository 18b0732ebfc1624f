"""`python -m bench.million`: a million periodic timers of one second, on one worker thread, for half a minute.

Each case of `bench.steady` runs in a process of its own, one after the other. The goals are none missed at 0.75 of a
core for `Engine.call_every`, and at one core for `Scheduler.every`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import plots
from bench.measure import Unavailable
from bench.row import MILLION
from bench.steady import CASES, Case, measure
from bench.table import aligned, environment, write_json

__all__ = ["main", "text"]

ROOT = Path(__file__).resolve().parent.parent
GOALS = {"engine": 0.75, "scheduler": 1.0}
HEAD = ("case", "runs/s", "missed", "late p50", "late p99", "CPU", "goal", "RSS", "registered in")


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 whatever was measured: a missed goal is news, not an error."""
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=__doc__)
    parser.add_argument("--timers", type=int, default=MILLION, metavar="N", help="%(default)s")
    parser.add_argument("--seconds", type=int, default=30, metavar="N", help="that are measured, %(default)s")
    for name in sorted({case.api for case in CASES}):
        parser.add_argument(f"--{name}", dest="apis", action="append_const", const=name, help="only this API")
    for name in ("inline", "pool", "daemon"):
        parser.add_argument(f"--{name}", dest="workers", action="append_const", const=name, help="only such workers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, each second included")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw runs, lateness and CPU over time")
    parser.add_argument("--here", action="store_true", help="measure the one case here and print JSON only")
    options = parser.parse_args(arguments)
    if options.timers < 1 or options.seconds < 1:
        parser.error("--timers and --seconds must be at least 1")
    if options.plot:
        try:
            plots.require()  # before the measurement
        except Unavailable as reason:
            parser.error(f"--plot: {reason}")
    cases = [
        case
        for case in CASES
        if case.api in (options.apis or [case.api]) and case.workers in (options.workers or [case.workers])
    ]
    if not cases:
        parser.error("a Scheduler has no inline workers")
    if options.here:
        print(json.dumps(measure(cases[0], options.timers, options.seconds).as_json()))
        return 0

    facts = environment([])[:1]
    reports = [apart(case, options.timers, options.seconds) for case in cases]
    print(*facts, f"{options.timers:,} timers of one second, {options.seconds} s", text(reports), sep="\n")
    if options.json:
        write_json(options.json, {"environment": facts, "reports": reports})
    if options.plot:
        plots.draw_steady(options.plot, reports)
    return 0


def apart(case: Case, timers: int, seconds: int) -> dict[str, Any]:
    """The report of a fresh process."""
    print(f"{case.name} ...", file=sys.stderr, flush=True)
    flags = [f"--{case.api}", f"--{case.workers}", "--here", f"--timers={timers}", f"--seconds={seconds}"]
    command = [sys.executable, "-m", "bench.million", *flags]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def text(reports: list[dict[str, Any]]) -> str:
    """An aligned table, one line a case."""
    return aligned([HEAD, *map(line_of, reports)])


def line_of(report: dict[str, Any]) -> tuple[str, ...]:
    total = report["total"]
    limit = GOALS[report["case"].partition("-")[0]]
    met = total["missed"] == 0 and total["cpu"] <= limit
    return (
        report["case"],
        f"{total['runs_per_s']:,.0f}",
        f"{total['missed']:,}",
        f"{total['p50_us']:,.0f} us",
        f"{total['p99_us']:,.0f} us",
        f"{total['cpu']:.2f}",
        f"<= {limit:g} {'met' if met else 'MISSED'}",
        f"{total['rss_mb']:,.0f} MB",
        f"{report['register_s']:.1f} s",
    )


if __name__ == "__main__":
    sys.exit(main())
