"""What a `Scheduler` on a ManualClock does, in the plainest terms: the oracle of test_scheduler_machine.

Times are whole milliseconds. Nothing here is fast: the next thing to do is looked for among all there is. One thing
happens at a time, in the order of (due, submission), as on one worker; time-outs alone go off while a callback sleeps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

MINUTE = 60_000


@dataclass
class Tick:
    """A run over all its attempts."""

    job: Job
    slot: int
    attempts: int = 0
    calling: bool = False
    over: bool = False
    deadline: int | None = None
    deadline_order: int = 0
    retry: tuple[int, int] | None = None  # due, order


@dataclass
class Job:
    name: str
    script: dict[str, Any]  # what its callback does: see `Model.call`
    kind: str  # "every", "cron", "once"
    period: int
    slot: int | None  # the next one; None: no further
    order: int  # of submission, for its slot
    registered: int
    max_instances: int = 1
    max_retries: int = 0
    timeout: int | None = None
    max_runs: int | None = None
    paused: bool = False
    parked: bool = False  # a single slot that came while all were paused
    owed: bool = False  # a single slot that came while its instances were busy
    asked: list[tuple[int, int, int]] = field(default_factory=list)  # of run_job: (due, order, slot)
    active: list[Tick] = field(default_factory=list)
    busy_until: int = -1
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    error: str | None = None
    gone: bool = False

    @property
    def single(self) -> bool:
        return self.kind == "once"

    @property
    def running(self) -> int:
        return len(self.asked) + len(self.active)

    @property
    def has_room(self) -> bool:
        return self.running < self.max_instances

    def following(self, slot: int) -> int:
        return slot + self.period if self.kind == "every" else (slot // MINUTE + 1) * MINUTE


COUNTS = ("started_count", "run_count", "error_count", "timeout_count", "coalesced_count", "paused_count")


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.orders = itertools.count()
        self.jobs: dict[str, Job] = {}  # in order of registration
        self.ticks: list[Tick] = []  # of all jobs, removed ones too
        self.all_paused = False
        self.started = False
        self.closed = False
        self.trace: list[Any] = []

    # -- what a user may do --

    def add(self, name: str, kind: str, period: int, script: dict[str, Any], **options: Any) -> None:
        slot = (self.now // MINUTE + 1) * MINUTE if kind == "cron" else self.now + period
        self.jobs[name] = Job(name, script, kind, period, slot, next(self.orders), self.now, **options)

    def remove(self, name: str) -> bool | None:
        job = self.jobs.pop(name, None)
        if job is None:
            return None
        job.gone = True
        for tick in [each for each in self.ticks if each.job is job and each.retry is not None]:
            self.end(tick, "JobCancelled")
        return job.slot is not None or job.owed or bool(job.asked) or not job.single

    def pause(self, name: str) -> None:
        self.jobs[name].paused = True
        self.jobs[name].owed = False

    def resume(self, name: str) -> None:
        job = self.jobs[name]
        if not (job.paused or job.parked):
            return
        job.paused = job.parked = False
        job.order = next(self.orders)
        if not job.single and job.slot is not None:
            while job.slot <= self.now:
                job.counts["paused_count"] += 1
                job.slot = job.following(job.slot)

    def passed_by(self, job: Any) -> int:
        """How many slots have passed in a pause of its own that goes on."""
        count, slot = 0, job.slot
        while job.paused and not job.single and slot is not None and slot <= self.now:
            count, slot = count + 1, job.following(slot)
        return count

    def resume_all(self) -> None:
        self.all_paused = False
        for job in self.jobs.values():
            if job.parked and not job.paused:
                job.parked = False
                job.order = next(self.orders)

    def run_job(self, name: str) -> bool:
        job = self.jobs[name]
        if not job.has_room:
            return False
        job.asked.append((self.now, next(self.orders), self.now))
        return True

    def reschedule(self, name: str, kind: str, period: int) -> None:
        job = self.jobs[name]
        job.kind, job.period = kind, period
        job.asked.clear()
        job.owed = job.parked = False
        if job.max_runs == 0:
            job.slot = None
        else:
            job.slot = (self.now // MINUTE + 1) * MINUTE if kind == "cron" else self.now + period
        job.order = next(self.orders)
        self.settle(job)

    def start(self) -> None:
        self.started = True

    def shutdown(self) -> None:
        self.closed = True
        self.started = False
        for tick in [each for each in self.ticks if each.retry is not None]:
            self.end(tick, "JobCancelled")
        for job in list(self.jobs.values()):
            job.asked.clear()
            self.settle(job)

    def advance(self, length: int) -> int:
        target, count = self.now + length, 0
        while self.started and (found := self.first()) is not None and found[0] <= target:
            self.now = max(self.now, found[0])
            count += found[1](*found[2:])
        self.now = max(self.now, target)
        return count

    # -- what comes next --

    def first(self) -> Any:
        """When the first of all is due, what to do, and of what.

        Runs that were asked for come before all that is late, as they are in the ready queue already.
        """
        asked = [(due, order, self.start_asked, job) for job in self.jobs.values() for due, order, _ in job.asked[:1]]
        others: list[Any] = [
            (job.slot, job.order, self.come, job)
            for job in self.jobs.values()
            if job.slot is not None and not (job.paused or job.parked or job.owed)
        ]
        others += [(*tick.retry, self.attempt, tick) for tick in self.ticks if tick.retry is not None]
        others += [(*alarm, self.expire, alarm_of) for alarm, alarm_of in self.alarms()]
        if not asked and not others:
            return None
        due = min(each[0] for each in asked + others)
        first = min(asked, key=lambda each: each[1]) if asked else min(others, key=lambda each: each[:2])
        return due, *first[2:]

    def alarms(self) -> list[tuple[tuple[int, int], Tick]]:
        return [((tick.deadline, tick.deadline_order), tick) for tick in self.ticks if tick.deadline is not None]

    def start_asked(self, job: Job) -> bool:
        _, _, slot = job.asked.pop(0)
        return self.begin(job, slot)

    def come(self, job: Job) -> bool:
        """The job's slot has come."""
        assert job.slot is not None
        latest, passed = job.slot, 0
        if job.single:
            following = None
        else:
            while job.following(latest) <= self.now:
                latest, passed = job.following(latest), passed + 1
            following = job.following(latest)
        job.slot = following
        job.order = next(self.orders)
        if self.all_paused:
            if job.single:
                job.slot, job.parked = latest, True
            else:
                job.counts["paused_count"] += passed + 1
            return False
        if not job.has_room or (not job.single and latest < job.busy_until):
            if job.single:
                job.slot, job.owed = latest, True
            else:
                job.counts["coalesced_count"] += passed + 1
            return False
        job.counts["coalesced_count"] += passed
        if job.max_runs is not None:
            job.max_runs -= 1
            if job.max_runs == 0:
                job.slot = None
        return self.begin(job, latest)

    # -- runs --

    def begin(self, job: Job, slot: int) -> bool:
        job.counts["started_count"] += 1
        tick = Tick(job, slot)
        job.active.append(tick)
        self.ticks.append(tick)
        if job.timeout is not None:
            tick.deadline, tick.deadline_order = self.now + job.timeout, next(self.orders)
        return self.attempt(tick)

    def attempt(self, tick: Tick) -> bool:
        job = tick.job
        tick.retry = None
        tick.attempts += 1
        tick.calling = True
        error = self.call(tick)
        tick.calling = False
        if tick.over:
            return True
        if error is None or tick.attempts > job.max_retries or job.gone or self.closed:
            self.end(tick, error)
        else:
            tick.retry = (self.now, next(self.orders))
        return True

    def call(self, tick: Tick) -> str | None:
        """What the script of each job says: note, sleep, act, fail."""
        job, script = tick.job, tick.job.script
        self.trace.append((job.name, tick.slot, tick.attempts, self.now))
        self.sleep(script["sleep"], tick if script["waits"] else None)
        number = script["calls"] = script.get("calls", 0) + 1
        for action in script["actions"] if number <= 3 else ():
            self.trace.append(self.act(job.name, action))
        return "ValueError" if script["fails"] and number % script["fails"] == 0 else None

    def act(self, name: str, action: tuple[Any, ...]) -> Any:
        raise NotImplementedError  # `test_scheduler_machine` does the same to both

    def sleep(self, length: int, until: Tick | None) -> None:
        target = self.now + length
        while not (until is not None and (until.over or self.closed)):
            due = min(
                (alarm for alarm in self.alarms() if alarm[0][0] <= target), key=lambda each: each[0], default=None
            )
            if due is None or not self.started:
                self.now = max(self.now, target)
                return
            self.now = max(self.now, due[0][0])
            self.expire(due[1])

    def expire(self, tick: Tick) -> bool:
        tick.job.counts["timeout_count"] += 1
        self.end(tick, "TimeoutError")
        return False

    def end(self, tick: Tick, error: str | None) -> None:
        job = tick.job
        tick.over, tick.retry, tick.deadline = True, None, None
        self.ticks.remove(tick)
        if not job.has_room:
            job.busy_until = self.now
        job.active.remove(tick)
        job.counts["run_count" if error is None else "error_count"] += 1
        job.error = error
        if job.owed:
            job.owed = False
            job.order = next(self.orders)
        self.settle(job)

    def settle(self, job: Job) -> None:
        if job.slot is None and not job.running and self.jobs.get(job.name) is job:
            job.gone = True
            del self.jobs[job.name]

    def state(self) -> Any:
        return [
            {
                "id": job.name,
                "next": None if job.slot is None or job.paused or job.parked or job.owed else job.slot,
                "enabled": not job.paused,
                "running": job.running,
                "error": job.error,
                **job.counts,
                "paused_count": job.counts["paused_count"] + self.passed_by(job),
            }
            for job in self.jobs.values()
        ]
