"""Whatever jobs and commands go through, nothing of them stays: memory is flat under churn."""

import gc
import logging
import sys

from pysched import CommandScheduler, Scheduler
from pysched.testing import ManualClock

logging.getLogger("pysched").disabled = True
clock = ManualClock()
scheduler = Scheduler(clock=clock, timezone="UTC", on_error=lambda error, run: None)
scheduler.start_background()
commands = CommandScheduler(clock=clock, on_error=lambda error, command: None)
commands.start()
argument = object()
JOBS = [
    {},
    {"timeout": 1},
    {"max_retries": 2, "retry_backoff": 0.1},
    {"id": "k", "replace": True, "tags": ["t"]},
    {"misfire_grace_time": 1},
]


class Act:
    repeat_interval_s = None

    def __init__(self, key, function):
        self.key = key
        self.function = function

    def execute(self, context):
        self.function()


def good(*args):
    """Does nothing."""


def bad(*args):
    raise ValueError(argument)


def slow(*args):
    clock.sleep(1.5)


async def coroutine(*args):
    """Does nothing."""


def once(round_):
    end = scheduler.on("succeeded", good)
    for options in JOBS:
        for callback in (good, bad, slow, coroutine):
            scheduler.after(1, callback, args=[argument], **options)
            scheduler.every(1, callback, args=[argument], **(options | {"catch_up": "all", "overlap": "queue"}))
            scheduler.cron("* * * * *", callback, args=[argument], **options)
    scheduler.every(1, good, id=f"k{round_}", jitter=0.1)
    for callback in (good, bad):
        commands.submit(Act(None, callback), 1)
        commands.schedule(Act(("k", round_), callback), 1)
        commands.schedule(Act("k", callback), 1)
    clock.advance(3)
    for info in scheduler.list_jobs()[::2]:
        scheduler.pause_job(info["id"])
        scheduler.run_job(info["id"])
        scheduler.explain(info["id"])
    clock.step_wall(120)
    clock.advance(1)
    for info in scheduler.list_jobs()[::3]:
        scheduler.reschedule_job(info["id"], after=1)
    clock.advance(1)
    scheduler.remove_all_jobs()
    commands.remove(("k", round_))
    commands.remove("k")
    commands.remove(("unknown", round_))
    clock.advance(3)
    end()
    assert len(scheduler) == 0
    assert scheduler.stats().running == scheduler.stats().pending == 0


def measure():
    gc.collect()
    return [sys.getrefcount(each) for each in (argument, good, bad, slow)], sys.getallocatedblocks()


for round_ in range(4):
    once(round_)
references, blocks = measure()
for round_ in range(4, 12):
    once(round_)
references_after, blocks_after = measure()
scheduler._check()
commands._check()
assert references_after == references, (references, references_after)
assert blocks_after - blocks < 300, (blocks, blocks_after)
