"""`Scheduler`: each slot has one fate, under every combination of policies: it runs, or is counted once."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from support import nothing

UTC = timezone.utc
T0 = datetime(2000, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Story:
    """A job each minute, which is slow or fails at times, beside a neighbour that blocks it, pauses and late starts."""

    def __init__(self, make_scheduler, clock, seed):
        self.random = random.Random(seed)
        self.clock = clock
        self.slots, self.events = [], []
        self.scheduler = make_scheduler(clock=clock, on_error=nothing)
        self.options = self.some_options()
        kind, when = self.random.choice([("every", "1m"), ("cron", "* * * * *")])
        getattr(self.scheduler, kind)(when, self.job, id="k", **self.options)
        for name in ("missed", "coalesced"):
            self.scheduler.on(name, self.events.append)
        self.scheduler.every("37s", lambda: clock.sleep(self.random.choice([0, 0, 0, 100])), id="neighbour")

    def some_options(self):
        pick, chance = self.random.choice, self.random.random
        options = {
            "catch_up": pick(["one", "none", "all"]),
            "overlap": pick(["skip", "queue"]),
            "max_instances": pick([1, 2, 3]),
        }
        for name, values in {
            "misfire_grace_time": [1, 30, 90, 200],
            "jitter": [1, 20, 50],
            "spread": [1, 20, 50],
            "max_retries": [2],
            "timeout": [10, 100],
        }.items():
            if chance() < 0.3:
                options[name] = pick(values)
        return options

    def job(self, ctx):
        if ctx.attempt == 1:
            assert self.clock.now() >= ctx.scheduled_time, "early"
            self.slots.append(ctx.scheduled_time)
        if self.random.random() < 0.4:
            self.clock.sleep(self.random.choice([1, 30, 61, 130, 400]))
        if self.random.random() < 0.2:
            raise ValueError

    def step(self):
        scheduler, clock, pick = self.scheduler, self.clock, self.random.choice
        what = self.random.random()
        if what < 0.6:
            clock.advance(pick([0, 7, 60, 61, 300]))
        elif what < 0.7:
            clock.sleep(pick([10, 100, 500]))
        elif what < 0.8:
            scheduler.pause_job("k")
        elif what < 0.9:
            scheduler.resume_job("k")
        elif not scheduler.running:
            scheduler.start_background()
        scheduler._check()

    def end(self):
        """In peace, until nothing waits any more."""
        self.scheduler.resume_job("k")
        self.scheduler.remove_job("neighbour")
        if not self.scheduler.running:
            self.scheduler.start_background()
        self.random.random = lambda: 1.0  # the job is quick and well from now on
        self.clock.advance("3h")


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(60))
def test_each_slot_has_one_fate(make_scheduler, clock, seed, logged):
    story = Story(make_scheduler, clock, seed)
    if seed % 3:
        story.scheduler.start_background()
    for _ in range(30):
        story.step()
    story.end()
    info = story.scheduler.get_job("k")
    passed = (story.scheduler.next_runs("k", 1)[0] - T0) // MINUTE - 1
    assert len(story.slots) == info.started_count == len(set(story.slots))
    assert info.started_count + info.coalesced_count + info.paused_count == passed, story.options
    told = {
        name: sum(event.count for event in story.events if event.event == name and event.job.id == "k")
        for name in ("missed", "coalesced")
    }
    assert told == {"missed": info.missed_count, "coalesced": info.coalesced_count - info.missed_count}
    if info.max_instances == 1:
        assert story.slots == sorted(story.slots)
    assert info.run_count + info.error_count == info.started_count
    assert all(entry[0] == "WARNING" and " timed out after " in entry[1] for entry in logged)
