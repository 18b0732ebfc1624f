"""The plot of `bench.million`: what each case did in each second. Needs matplotlib: pip install -e '.[bench]'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["draw"]


def draw(reports: list[dict[str, Any]], file: Path) -> None:
    """Writes one picture, in the format that the name of `file` asks for: a panel each for runs, lateness and CPU."""
    figure = Figure(figsize=(8, 8), layout="constrained")  # without pyplot no display is asked for
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
    for panel in (runs, lateness, cpu):
        panel.grid(alpha=0.3)
    with mpl.rc_context({"svg.hashsalt": "pysched"}):  # the same picture of the same numbers
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
