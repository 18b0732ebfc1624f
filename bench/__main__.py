"""`python -m bench`: prints the table of ratios. See `bench.measure` for how, `bench.rows` for what."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench.row import Settings
from bench.rows import ROWS
from bench.table import environment, markdown, text

if TYPE_CHECKING:
    from bench.result import Result
    from bench.row import Row

LEAST_ROUNDS = 5


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 whatever was measured: a missed goal is news, not an error."""
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, for a look")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="%(default)s, which is the least, or more")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, each round included")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args(arguments)
    if options.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}, got {options.rounds}")

    settings = Settings(options.quick, options.rounds)
    facts = environment(quick=options.quick, rounds=options.rounds)
    results: list[Result] = []
    try:
        for row in ROWS:
            if not options.only or row.name in options.only:
                results += measured(row, settings)
    finally:  # a row that fails, or Ctrl-C, takes nothing away from the rows before it
        print(*facts, "", text(results), sep="\n")
        missed = [f"{result.title} ({result.goal.text})" for result in results if result.goal and result.met is False]
        if missed:
            print("\nmissed: " + "; ".join(missed))
        if options.markdown:
            options.markdown.write_text("\n".join([*(f"- {fact}" for fact in facts), "", markdown(results), ""]))
        if options.json:
            record = {"environment": facts, "results": [result.as_json() for result in results]}
            options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


def measured(row: Row, settings: Settings) -> list[Result]:
    """The results of a row; says on stderr how far it is."""
    begin = perf_counter()
    print(f"{row.name} ...", end=" ", file=sys.stderr, flush=True)
    results = row.run(settings)
    print(f"{perf_counter() - begin:.1f} s", file=sys.stderr)
    return results


if __name__ == "__main__":
    sys.exit(main())
