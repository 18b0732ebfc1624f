"""The table of jobs that `print(scheduler)` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched.reports import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pysched.job import JobInfo

__all__ = ["MOST_ROWS", "job_table"]

MOST_ROWS = 50
WIDTH = 120
LEAST = 12  # no column is cut to less
GAP = "  "
HEADS = ("id", "name", "schedule", "next run", "runs", "errors", "last error")
NUMBERS = {4, 5}  # columns that are aligned to the right, and never cut
WHOLE = {3, *NUMBERS}


def job_table(head: str, jobs: Iterable[JobInfo], count: int, *, paused: bool = False) -> str:
    """`head`, and below it a row for each of `jobs`, the first ones of `count`; `paused`: all of them are.

    Columns are as wide as they need to be; where that is more than `WIDTH` the widest texts are cut. Characters count
    as one column each.
    """
    rows = [_cells(job, paused) for job in jobs]
    lines = [plain(head, WIDTH)]
    if rows:
        widths = _widths([HEADS, *rows])
        lines += [_line(row, widths) for row in (HEADS, *rows)]
    if count > len(rows):
        lines.append(f"... and {count - len(rows)} more")
    return "\n".join(lines)


def _cells(job: JobInfo, paused: bool) -> tuple[str, ...]:
    next_run = "-" if job.next_run_at is None else job.next_run_at.isoformat(" ", "seconds")
    if paused or not job.enabled:
        next_run = "paused"
    return (
        plain(job.id),
        plain(job.name),
        plain(job.schedule),
        next_run,
        str(job.run_count),
        str(job.error_count),
        plain(job.last_error or "-"),
    )


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    flexible = [column for column in range(len(widths)) if column not in WHOLE]
    while sum(widths) + len(GAP) * (len(widths) - 1) > WIDTH:
        widest = max(flexible, key=widths.__getitem__)
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (
        text.rjust(width) if column in NUMBERS else cut(text, width).ljust(width)
        for column, (text, width) in enumerate(zip(cells, widths, strict=True))
    )
    return GAP.join(fitted).rstrip()


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def plain(text: str, width: int = WIDTH) -> str:
    """One line of it, at most `width` characters; what cannot be printed is escaped."""
    return cut(printable(cut(text, width)), width)
