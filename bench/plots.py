"""Plots of costs over sizes, by matplotlib, which is optional."""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bench.measure import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.result import Result

__all__ = ["draw"]

OURS = "pysched"
COLOURS = 10  # of matplotlib's cycle
UNITS = {"ns", "us", "ms", "B"}


def draw(folder: Path, results: Sequence[Result]) -> dict[str, Path]:
    """One SVG file a column that was measured at several sizes, by the column's heading. Raises `Unavailable`."""
    try:
        import_module("matplotlib").use("svg")
        pyplot = import_module("matplotlib.pyplot")
    except ImportError:
        raise Unavailable("matplotlib is not installed: pip install -e '.[bench]'") from None
    # Text stays text, and ids do not change from run to run: small files with small differences.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": OURS})
    drawn: dict[str, Path] = {}
    keys = {(result.row, result.key) for result in results}
    shown = (result for result in results if not result.pair and result.unit in UNITS)
    for (row, key, heading), group in groupby(shown, key=lambda result: (result.row, result.key, result.heading)):
        rising = list(group)
        if len(rising) > 1:
            alone = sum(name == row for name, _ in keys) == 1
            drawn[heading] = folder / f"{row}{'' if alone else f'-{key}'}.svg"
            _draw(pyplot, drawn[heading], rising)
    return drawn


def _draw(pyplot: Any, path: Path, rising: Sequence[Result]) -> None:
    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
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
    axes.minorticks_off()  # each would be an element of the file
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
