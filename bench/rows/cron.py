"""The next fire of a cron expression, from one to the next, each made an aware datetime.

`*/5 9-17 * * mon-fri` in Berlin, through changes of summer time. The engine makes its datetimes in one call, the
peers one a call, as their interfaces are; without datetimes, as a scheduler steps, it needs less than half of this.
Not in the price: parsing, and reading the changes of a zone, some 10 ms once a zone.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import apscheduler3, cron
from bench.result import Goal
from bench.row import timed

__all__ = ["ROWS"]

ROWS = [
    timed(
        "cron",
        "next cron fire",
        {"pysched": cron.native, "croniter": cron.croniter, "cronsim": cron.cronsim, "twin": cron.twin},
        clock=cpu_ns,
        count=10_000,
        goal=Goal("<= 1/80 of croniter", 1 / 80, "croniter"),
        sizes=(10_000,),
        others={"APScheduler 3": apscheduler3.cron},
        cannot={"rust-py-scheduler": "does not offer it"},
    ),
]
