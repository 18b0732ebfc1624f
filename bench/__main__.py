"""`python -m bench`: prints the table of ratios. See `bench.measure` for how, `bench.rows` for what.

With `--peers` each side has a process of its own, more peers and more sizes are measured, and a report with plots is
written to docs/performance. See `bench.beside`.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench import beside, plots, report, together
from bench.growth import growth
from bench.measure import Unavailable
from bench.rows import ROWS
from bench.table import environment, markdown, text, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.result import Result
    from bench.row import Row

LEAST_ROUNDS = 5
LIMIT_S = 20.0
REPORT = Path(__file__).resolve().parent.parent / "docs" / "performance"


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 whatever was measured: a missed goal is news, not an error."""
    options = _options(arguments)
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    facts = environment(_how(options))
    results: list[Result] = []
    end = perf_counter() + options.minutes * 60.0
    try:
        for number, row in enumerate(rows):
            with _progress(row):
                results += _measured(row, options, (end - perf_counter()) / (len(rows) - number))
    finally:  # a row that fails, or Ctrl-C, takes nothing away from the rows before it
        if options.peers:
            results += growth(results)
            _report(options.output, facts, results)
        print(*facts, "", text(report.goal_lines(results) if options.peers else results), sep="\n")
        missed = [f"{result.title} ({result.goal.text})" for result in results if result.goal and result.met is False]
        if missed:
            print("\nmissed: " + "; ".join(missed))
        if options.markdown:
            options.markdown.write_text("\n".join([*(f"- {fact}" for fact in facts), "", markdown(results), ""]))
        if options.json:
            write_json(options.json, report.record(facts, results))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="%(default)s, which is the least, or more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, each round included")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--peers", action="store_true", help="each side in a process of its own, and a report")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="with --peers, only these sizes")
    parser.add_argument("--minutes", type=float, help="with --peers, about how long (default: 30; with --quick, 5)")
    parser.add_argument("--output", type=Path, metavar="DIR", default=REPORT, help="of --peers: %(default)s")
    options = parser.parse_args(arguments)
    if options.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}, got {options.rounds}")
    if options.sizes and not options.peers:
        parser.error("--sizes needs --peers")
    if options.minutes is None:
        options.minutes = 5.0 if options.quick else 30.0
    if options.sizes and min(options.sizes) < 1:
        parser.error(f"--sizes must be positive, got {min(options.sizes)}")
    return options


def _measured(row: Row, options: argparse.Namespace, row_s: float) -> list[Result]:
    if not options.peers:
        return together.measured(row, options.rounds, quick=options.quick)
    sizes = row.sizes[:2] if options.quick else row.sizes
    if options.sizes and row.grows and len(row.sizes) > 1:
        sizes = options.sizes
    return beside.measured(row, options.rounds, sizes, beside.Limits(LIMIT_S, row_s))


def _how(options: argparse.Namespace) -> list[str]:
    if not options.peers:
        quick = ["QUICK: sizes are a tenth; the goals are meant for the full ones"] if options.quick else []
        return [f"medians of {options.rounds} alternated rounds", *quick]
    return [
        f"each side in a process of its own, alternating; medians of {options.rounds} rounds, or of as many as there "
        f"was time for in {options.minutes:.0f} minutes; a measurement may take {LIMIT_S:.0f} s",
        *(["QUICK: two sizes, for a look"] if options.quick else []),
    ]


def _report(folder: Path, facts: Sequence[str], results: Sequence[Result]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Path] = {}
    try:
        drawn = plots.draw(folder, results)
    except Unavailable as reason:
        print(f"no plots: {reason}", file=sys.stderr)
    report.write(folder, facts, results, drawn)


@contextmanager
def _progress(row: Row) -> Iterator[None]:
    """Says on stderr how far it is."""
    begin = perf_counter()
    print(f"{row.name} ...", end=" ", file=sys.stderr, flush=True)
    yield
    print(f"{perf_counter() - begin:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
