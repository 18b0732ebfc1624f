"""All rows of the table, in its order. The docstrings say what each measures and how it could mislead."""

from __future__ import annotations

from bench.row import Row, Timed
from bench.rows import churn, commands, cron, dispatch, idle, jobs, keyed, lateness, pending, pop, register

__all__ = ["ROWS", "TIMED"]

ROWS: list[Row] = [
    *register.ROWS,
    *keyed.ROWS,
    *churn.ROWS,
    *dispatch.ROWS,
    *commands.ROWS,
    *pop.ROWS,
    *jobs.ROWS,
    *cron.ROWS,
    *pending.ROWS,
    *idle.ROWS,
    *lateness.ROWS,
]

TIMED = [row for row in ROWS if isinstance(row, Timed)]
