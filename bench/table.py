"""What the bench writes: tables as text and as Markdown, the lines above them that say where they come from, JSON."""

from __future__ import annotations

import gc
import json
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pysched import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.measure import Ratio
    from bench.result import Result

__all__ = ["aligned", "cost", "environment", "markdown", "multiple", "piped", "text", "write_json"]

HEAD = ("operation", "pysched", "beside", "its cost", "pysched / it (range)", "goal", "met")
Cells = tuple[str, ...]


def environment(how: Sequence[str]) -> list[str]:
    """Facts that a reader needs to judge the numbers, and `how` they came about; take it before a run: the load is
    that of the last minute."""
    day = datetime.now(timezone.utc).date().isoformat()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    load = "" if busy is None else f", load average {busy:.2f} before the run"
    return [
        f"{day}, pysched {__version__}, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores{load}",
        *how,
        *(["BUSY: other programs ran too; no verdict on a goal is to be trusted"] if busy and busy > 1.0 else []),
        f"cyclic gc {'enabled' if gc.isenabled() else 'DISABLED'} with thresholds {gc.get_threshold()}, "
        "collected before each measurement",
        "CPU time of the thread for what stays on one thread and never waits, wall time for the rest",
    ]


def text(results: Iterable[Result]) -> str:
    return aligned([HEAD, *_lines(results)])


def markdown(results: Iterable[Result]) -> str:
    return piped([HEAD, ["---"] * len(HEAD), *_lines(results)])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (lines[0], rule, *lines[1:])
    )


def piped(lines: Iterable[Sequence[str]]) -> str:
    """Markdown; the second line is to say how columns are set."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_json(path: Path, record: object) -> None:
    """On one line: nobody reads it, and programs need no blanks."""
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def _lines(results: Iterable[Result]) -> list[Cells]:
    return [line for result in results for line in _lines_of(result)]


def _lines_of(result: Result) -> list[Cells]:
    """One line for each peer; the goal stands beside the peer that it names."""
    own = (result.title, cost(result.value(result.ours), result.unit))
    goal = result.goal
    verdict = (goal.text, {True: "yes", False: "NO", None: "not measured"}[result.met]) if goal else ("", "")
    on_first_line = goal is not None and (goal.peer is None or goal.peer not in result.peers)
    lines: list[Cells] = []
    for peer in result.peers or [""]:
        its_cost = cost(result.value(peer), result.unit) if peer else ""
        against = _ratio(result.ratio(peer)) if peer else ""
        here = (goal is not None and peer == goal.peer) or (on_first_line and not lines)
        lines.append((*(own if not lines else ("", "")), peer, its_cost, against, *(verdict if here else ("", ""))))
    if result.absent:
        reasons = "; ".join(f"{who}: {reason}" for who, reason in result.absent.items())
        lines.append((f"  ({reasons})", *[""] * (len(HEAD) - 1)))
    return lines


def cost(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def _ratio(found: Ratio | None) -> str:
    return "" if found is None else f"{multiple(found.median)} ({multiple(found.low)} .. {multiple(found.high)})"


def multiple(value: float) -> str:
    """Small ratios as fractions: 1/48 says more than 0.021."""
    return f"{value:.2f}x" if value >= 0.1 else f"1/{1 / value:.1f}" if value else "0"


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    models: Sequence[str] = []
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
    return models[0] if models else platform.processor() or "unknown processor"
