"""What `python -m bench --peers` leaves in a folder: `results.json`, `results.md`, and plots where sizes vary."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from bench.table import cost, markdown, multiple, piped, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bench.result import Result

__all__ = ["as_markdown", "goal_lines", "record", "write"]


def write(folder: Path, facts: Sequence[str], results: Sequence[Result], plots: Mapping[str, Path]) -> None:
    """`plots`: the picture of each column that has one, by its heading."""
    write_json(folder / "results.json", record(facts, results))
    (folder / "results.md").write_text(as_markdown(facts, results, plots))


def record(facts: Sequence[str], results: Sequence[Result]) -> dict[str, object]:
    """Everything, each round included."""
    return {"environment": list(facts), "results": [result.as_json() for result in results]}


def as_markdown(facts: Sequence[str], results: Sequence[Result], plots: Mapping[str, Path]) -> str:
    """Goals first, then a table a column of the rows: contenders down, sizes across."""
    goals = [result for result in results if result.goal and result.met is not None]
    missed = sum(result.met is False for result in goals)
    parts = [
        "# Measured",
        "Written by `python -m bench --peers`; what each row means stands in [performance.md](../performance.md).",
        "\n".join(f"- {fact}" for fact in facts),
        f"## Goals: {len(goals) - missed} met, {missed} missed",
        markdown(goal_lines(goals)),
        "## Each row",
        "Beside each cost, in brackets, its multiple of pysched's: the median of the rounds' ratios.",
    ]
    shown = (result for result in results if not result.pair and result.row != "growth")
    for _, group in groupby(shown, key=lambda result: (result.row, result.heading)):
        parts += _section(list(group), plots)
    if grown := [result for result in results if result.row == "growth"]:
        parts += [
            "## Growth",
            "What one costs among the most, as a multiple of what it costs among the fewest.",
            _growth(grown),
        ]
    return "\n\n".join(parts) + "\n"


def goal_lines(results: Iterable[Result]) -> list[Result]:
    """Those that have a goal, with no other peer than the one that it names: a line each in a table."""
    return [result.beside(result.goal.peer) for result in results if result.goal]


def _growth(results: Iterable[Result]) -> str:
    lines = [["", "sizes", "pysched", "others"], ["---", "---", "--:", "---"]]
    for result in results:
        others = ", ".join(f"{who} {multiple(result.value(who))}" for who in result.peers)
        lines.append([result.heading, result.size, multiple(result.value(result.ours)), others])
    return piped(lines)


def _section(group: Sequence[Result], plots: Mapping[str, Path]) -> list[str]:
    title = group[0].heading
    sizes = [result.size for result in group]
    everyone = dict.fromkeys(who for result in group for who in result.values)
    lines = [["", *sizes], ["---", *("--:" for _ in sizes)]]
    lines += [[who, *(_cell(result, who) for result in group)] for who in everyone]
    lines.append(["rounds", *(str(len(result.values[result.ours])) for result in group)])
    parts = [f"### {title}", piped(lines)]
    if absent := _absent(group):
        parts.append(f"Not measured: {absent}.")
    if title in plots:
        parts.append(f"![{title}]({plots[title].name})")
    return parts


def _cell(result: Result, who: str) -> str:
    if who not in result.values:
        return ""
    against = None if who == result.ours else result.multiple(who)
    text = cost(result.value(who), result.unit)
    return f"{text} ({multiple(against)})" if against else text


def _absent(group: Sequence[Result]) -> str:
    """Each with its reason, once, and the size from which on it holds, where it does not hold for all."""
    notes: dict[tuple[str, str], str] = {}
    for result in group:
        for who, reason in result.absent.items():
            notes.setdefault((who, reason), result.size)
    smallest = group[0].size
    return "; ".join(
        f"{who}{'' if size == smallest else f' from {size} on'} ({reason})" for (who, reason), size in notes.items()
    )
