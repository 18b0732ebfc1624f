"""Plots: of costs over sizes, and of a steady load over time. By matplotlib, which is optional.

They are committed, so the files are small: text is text, lines have few elements, ids do not change from run to run.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bench.measure import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.result import Result

__all__ = ["draw", "draw_steady", "require"]

OURS = "pysched"
COLOURS = 10  # of matplotlib's cycle
UNITS = {"ns", "us", "ms", "B"}


def require() -> None:
    """Raises `Unavailable` if there is no matplotlib."""
    try:
        import_module("matplotlib")
    except ImportError:
        raise Unavailable("matplotlib is not installed: pip install -e '.[bench]'") from None


def draw(folder: Path, results: Sequence[Result]) -> dict[str, Path]:
    """One SVG file a column that was measured at several sizes, by the column's heading. Raises `Unavailable`."""
    drawn: dict[str, Path] = {}
    keys = {(result.row, result.key) for result in results}
    shown = (result for result in results if not result.pair and result.unit in UNITS)
    for (row, key, heading), group in groupby(shown, key=lambda result: (result.row, result.key, result.heading)):
        rising = list(group)
        if len(rising) > 1:
            alone = sum(name == row for name, _ in keys) == 1
            drawn[heading] = folder / f"{row}{'' if alone else f'-{key}'}.svg"
            with _figure(drawn[heading], figsize=(6.4, 3.8)) as figure:
                _draw_sizes(figure.subplots(), rising)
    return drawn


def draw_steady(path: Path, reports: Sequence[Mapping[str, Any]]) -> None:
    """One SVG file of what each case of `bench.million` did in each second. Raises `Unavailable`."""
    with _figure(path, figsize=(8, 8)) as figure:
        runs, lateness, cpu = figure.subplots(3, 1, sharex=True)
        for report in reports:
            seconds = report["seconds"]
            at = [second["at_s"] for second in seconds]
            [line] = runs.plot(at, [second["runs_per_s"] for second in seconds], label=report["case"])
            lateness.plot(at, [second["p50_us"] for second in seconds], color=line.get_color())
            lateness.plot(at, [second["p99_us"] for second in seconds], color=line.get_color(), linestyle=":")
            cpu.plot(at, [second["cpu"] for second in seconds], color=line.get_color())
        timers = max(report["timers"] for report in reports)
        runs.set(title=f"{timers:,} timers of one second, one worker thread", ylabel="runs a second")
        runs.set_ylim(0, 1.1 * max(second["runs_per_s"] for report in reports for second in report["seconds"]))
        runs.legend(loc="lower right")
        lateness.set(ylabel="lateness, us (p50 solid, p99 dotted)", yscale="log")
        cpu.set(ylabel="CPU, cores", xlabel="seconds")
        cpu.set_ylim(bottom=0)


@contextmanager
def _figure(path: Path, figsize: tuple[float, float]) -> Iterator[Any]:
    """A figure to draw into, which becomes the file when it is left. Raises `Unavailable`."""
    require()
    context = import_module("matplotlib").rc_context
    with context({"svg.fonttype": "none", "svg.hashsalt": OURS}):
        # Without pyplot no display is asked for, and nothing is to be closed.
        figure = import_module("matplotlib.figure").Figure(figsize=figsize, layout="constrained")
        yield figure
        for axes in figure.axes:
            axes.minorticks_off()  # each would be an element of the file
            axes.grid(visible=True, alpha=0.3)
        picture = StringIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
    path.write_text(compact(picture.getvalue()))


def compact(picture: str) -> str:
    """The same picture: each path on one line, and no more decimals than are seen."""
    picture = re.sub(r" ?\n(?=[LCQz\"])", "", picture)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", picture)


def _draw_sizes(axes: Any, rising: Sequence[Result]) -> None:
    everyone = dict.fromkeys(who for result in rising for who in result.values)
    for number, who in enumerate(everyone):
        found = [result for result in rising if who in result.values]
        ours = who.startswith(OURS)
        axes.plot(
            [result.count for result in found],
            [max(result.value(who), 0.01) for result in found],
            marker="o" if number < COLOURS else "s",
            markersize=4,
            linewidth=2.5 if ours else 1.2,
            linestyle="-" if ours else "--",
            label=who,
        )
    axes.set(xscale="log", yscale="log", title=rising[0].heading, ylabel=rising[0].unit)
    axes.set_xlabel("timers a second" if rising[0].size.endswith("/s") else "timers or jobs")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
