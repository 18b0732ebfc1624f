"""`Scheduler` under random acts: each slot of a grid has one fate, each job that comes once comes once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from time import monotonic_ns, sleep, time_ns
from typing import TYPE_CHECKING, Any, ClassVar

from bench.soaking.book import Slots
from bench.soaking.clocks import SteppedWall
from bench.soaking.life import FAR_S, KEYS, WAIT_S, Life, delay_us
from pysched import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from bench.soaking.book import Entry, World
    from pysched import CancelToken, JobRun

__all__ = ["SchedulerLife"]

MOST_GRIDS = 5
TIMEOUT_S = 0.03
SECOND_NS = 1_000_000_000
STEPS_S = (0.3, 2.0, 90.0, 3600.0, 4 * 3600.0, 86400.0, 40 * 86400.0)


class Grid:
    """A job that repeats, registered between two instants, and its runs."""

    def __init__(self, deed: str) -> None:
        self.deed = deed
        self.earliest: Slots | None = None
        self.latest: Slots | None = None
        self.now_ns: Callable[[], int] = monotonic_ns
        self.id = ""
        self.starts: list[int] = []
        self.by_hand = 0
        """Runs by `run_job`, which are of no slot."""


class SchedulerLife(Life):
    """`options` are the Scheduler's; with a `SteppedWall` as its clock the wall clock is set at random."""

    acts: ClassVar = {
        "add": 25,
        "add_at": 4,
        "add_with_id": 20,
        "add_coroutine": 4,
        "add_flaky": 4,
        "add_overrun": 1,
        "add_limited": 1,
        "remove": 12,
        "hold_and_let_go": 3,
        "add_grid": 2,
        "run_by_hand": 2,
        "pause_grid": 2,
        "remove_grid": 1,
        "pause_all": 1,
        "look": 4,
        "check": 1,
        "step_wall": 1,
    }

    def __init__(self, kind: str, world: World, random: Random, **options: Any) -> None:
        super().__init__(kind, world, random)
        self.name = f"{kind} {world.counts[kind]['lives']}"
        self.made = Scheduler(4, timezone="UTC", on_error=self.on_error, name=self.name, **options)
        clock = options.get("clock")
        self.clock = clock if isinstance(clock, SteppedWall) else None
        self.grids: list[Grid] = []
        self.ended: list[Grid] = []
        self.seconds: list[int] = []
        """The slots of the job that comes each second, as it ran."""
        self.retries = 0
        self.overruns: list[bool] = []
        self.registered: list[bool] = []
        """One for each job, in whatever thread it was registered."""
        self.told: list[bool] = []
        """One for each event "started", if anybody listens."""
        self.listens = random.random() < 0.5

    def begin(self) -> None:
        if self.listens:
            self.made.on("started", lambda _: self.told.append(True))
        if self.random.random() < 0.5:
            self.add_grid()
            self.add()
        self.made.cron("* * * * * *", self._second, seconds=True, id="second")
        self.registered.append(True)
        self.held_until_ns = monotonic_ns()
        self.made.start_background()

    # -- acts: what comes once --

    def add(self) -> None:
        self._after(delay_us(self.random))

    def add_from_inside(self) -> None:
        self._after(delay_us(self.random), "nothing", "job of a job")

    def _after(self, delay: int, what: str | None = None, label: str = "job") -> None:
        self.made.after(delay / 1e6, self._once(self.entry(delay, what, label)))
        self.registered.append(True)

    def _once(self, entry: Entry) -> Callable[[], None]:
        return lambda: self.fire(entry)

    def add_at(self) -> None:
        if self.clock is not None:
            return  # its moment moves with the wall clock
        delay = self.random.randint(0, 100_000)
        entry = self.entry(delay, label="job at a moment")
        self.made.at(datetime.now(timezone.utc) + timedelta(microseconds=delay + 1), self._once(entry))
        entry.due_ns -= 1_000_000  # the two clocks are not read at one instant, and one of them is slewed
        self.registered.append(True)

    def add_with_id(self) -> None:
        job_id = f"id{self.random.randrange(KEYS)}"
        delay = delay_us(self.random)
        entry = self.entry(delay, label="job with an id")
        self.made.after(delay / 1e6, self._once(entry), id=job_id, replace=True)
        self.registered.append(True)
        before = self.held.get(job_id)
        if before is not None:
            before.gone_ns = monotonic_ns()
        self.held[job_id] = entry

    def remove(self) -> None:
        job_id = f"id{self.random.randrange(KEYS)}"
        entry = self.held.pop(job_id, None)
        try:
            prevented = self.made.remove_job(job_id)
        except KeyError:
            # It has left: its only run has ended.
            self.expect(entry is None or entry.starts, "a job has left without its run")
            return
        if entry is None:
            self.fault(f"there was a job {job_id}, which nobody registered")
        elif prevented:
            entry.cancelled.append(True)
        else:
            self.expect(entry.due_ns <= monotonic_ns(), "remove_job is False for what was not due yet")

    def hold_and_let_go(self) -> None:
        """Pause a job that comes once, for a moment."""
        job_id = f"id{self.random.randrange(KEYS)}"
        entry = self.held.get(job_id)
        try:
            self.made.pause_job(job_id)
            sleep(self.random.choice((0, 0.002)))
            if entry is not None:
                entry.since_ns = monotonic_ns()
            self.made.resume_job(job_id)
        except KeyError:
            pass  # it has run

    def add_coroutine(self) -> None:
        delay = delay_us(self.random)
        entry = self.entry(delay, self.random.choice(("nothing", "nothing", "fail")), "coroutine")
        self.made.after(delay / 1e6, self._fire_later, args=(entry,))
        self.registered.append(True)

    async def _fire_later(self, entry: Entry) -> None:
        await asyncio.sleep(self.random.choice((0, 0.001, 0.01)))
        self.world.started(self.kind, entry, HELD)
        if entry.what == "fail":
            self.failures.append(True)
            raise ValueError("of a coroutine")

    def add_flaky(self) -> None:
        """One that fails some times, and is tried at most four times."""
        fails, delay = self.random.randint(0, 4), self.random.randint(0, 50_000)
        entry = self.entry(delay, "fail", f"job that fails {fails} times", expected=min(fails + 1, 4))
        self.retries += entry.expected - 1

        def flaky() -> None:
            self.world.started(self.kind, entry, self.held_until_ns)
            if len(entry.starts) <= fails:
                self.fail()

        self.made.after(delay / 1e6, flaky, max_retries=3, retry_backoff=0.002)
        self.registered.append(True)

    def add_overrun(self) -> None:
        """One that times out, and at times goes on for a while."""
        entry = self.entry(0, "overrun", "job that times out")
        more = self.random.choice((0, 0, 0.05))

        def overrun(cancel: CancelToken) -> None:
            self.world.started(self.kind, entry, self.held_until_ns)
            self.expect(cancel.wait(WAIT_S), "the token of a run that timed out did not fire")
            sleep(more)
            self.overruns.append(True)

        self.made.after(0, overrun, timeout=TIMEOUT_S)
        self.registered.append(True)

    def add_limited(self) -> None:
        """One that comes `max_runs` times and leaves."""
        runs = self.random.randint(1, 5)
        entry = self.entry(5_000, None, f"job of {runs} runs", expected=runs)
        self.made.every(0.005, self._once(entry), max_runs=runs)
        self.registered.append(True)

    # -- acts: what repeats --

    def add_grid(self) -> None:
        if len(self.grids) >= MOST_GRIDS:
            return
        choose = self.random.choice
        interval = choose((5, 20, 60)) * 1_000_000
        grid = Grid(self.random.choices(*self.deeds)[0])
        before = monotonic_ns()
        grid.id = self.made.every(
            interval / 1e9,
            lambda: self._tick(grid),
            max_instances=choose((1, 1, 3)),
            overlap=choose(("skip", "queue")),
            catch_up=choose(("one", "none", "all")),
            max_retries=0,
        )
        grid.earliest = Slots(before + interval, interval)
        grid.latest = Slots(monotonic_ns() + interval, interval)
        self.registered.append(True)
        self.grids.append(grid)

    def _tick(self, grid: Grid) -> None:
        grid.starts.append(monotonic_ns())
        self.do(grid.deed)

    def run_by_hand(self) -> None:
        if self.grids:
            grid = self.random.choice(self.grids)
            if self.made.run_job(grid.id):
                grid.by_hand += 1

    def pause_grid(self) -> None:
        if self.grids:
            grid = self.random.choice(self.grids)
            if self.made.get_job(grid.id).enabled:
                self.made.pause_job(grid.id)
            else:
                self.made.resume_job(grid.id)

    def remove_grid(self) -> None:
        if self.grids:
            grid = self.grids.pop(self.random.randrange(len(self.grids)))
            self.made.pause()
            self._check_grid(grid)
            self.expect(self.made.remove_job(grid.id), "remove_job of a job that repeats returned False")
            self.held_until_ns = monotonic_ns()
            self.made.resume()
            self.ended.append(grid)

    def pause_all(self) -> None:
        self.made.pause()
        sleep(self.random.choice((0, 0.001, 0.02)))
        self.held_until_ns = monotonic_ns()
        self.made.resume()

    def _check_grid(self, grid: Grid) -> None:
        """Each slot has run, or was counted once: that must come about while everything is paused."""
        earliest, latest = grid.earliest, grid.latest
        assert earliest is not None
        assert latest is not None

        def adds_up() -> bool:
            least = latest.until(monotonic_ns())
            info = self.made.get_job(grid.id)
            most = earliest.until(monotonic_ns())
            found = info.started_count - grid.by_hand + info.coalesced_count + info.paused_count
            return bool(info.running == 0 and least <= found <= most and info.started_count == len(grid.starts))

        if not self.wait_for(
            adds_up, f"the sum of the slots of a job: {len(grid.starts)} runs, {grid.by_hand} by hand"
        ):
            self.fault(f"{self.made.get_job(grid.id)}, and {latest.until(monotonic_ns())} slots")
        info = self.made.get_job(grid.id)
        self.expect(info.run_count + info.error_count == info.started_count, f"ends and starts differ: {info}")
        self.counts["slots"] += info.started_count + info.coalesced_count + info.paused_count
        self.counts["coalesced"] += info.coalesced_count - info.missed_count
        self.counts["missed"] += info.missed_count
        self.counts["paused"] += info.paused_count

    def _second(self, ctx: JobRun) -> None:
        slot = round(ctx.scheduled_time.timestamp() * SECOND_NS)
        latest = time_ns() if self.clock is None else self.clock.latest_ns()
        self.seconds.append(slot)
        if slot > latest:
            self.fault(f"a cron job ran {slot - latest} ns early")

    def step_wall(self) -> None:
        if self.clock is not None and self.random.random() < 0.1:
            self.clock.step(self.random.choice(STEPS_S) * self.random.choice((1, -1)))
            self.counts["wall clock set"] += 1

    def look(self) -> None:
        match self.random.randrange(6):
            case 0:
                str(self.made)
            case 1:
                self.made.list_jobs()
            case 2:
                self.made.stats()
            case 3:
                self.made.is_healthy()
            case 4:
                self.made.next_runs("second", 3)
            case 5:
                self.made.explain("second")

    def check(self) -> None:
        self.made._check()

    # -- the end --

    def settle(self) -> None:
        self.wait_for_entries()
        self.made.pause()
        for grid in self.grids:
            self._check_grid(grid)
        self.wait_for(lambda: self.made.wait_idle(WAIT_S), "wait_idle")
        self._check_seconds()
        self._check_counts()
        left = self.made.shutdown(timeout=WAIT_S)
        self.expect(left == [], f"shutdown left {left}")
        self.check_that_it_is_still()
        self.check_entries()
        self.check_failures()
        if self.listens:
            self.expect(
                len(self.told) == self._ticks(), f"{self._ticks()} runs began, and listeners were told {len(self.told)}"
            )
        self.made._check()
        self.counts["retries"] += self.retries
        self.counts["time-outs"] += len(self.overruns)

    def _ticks(self) -> int:
        """Runs begun, each over all its attempts once; those of a job of so many runs are runs."""
        return self.started_in_all() - self.retries

    def _check_seconds(self) -> None:
        slots = self.seconds
        back = sum(after <= before for before, after in pairwise(slots))
        allowed = 0 if self.clock is None else self.clock.steps_back
        self.expect(back <= allowed, f"a cron job went back {back} times, the wall clock {allowed} times")
        info = self.made.get_job("second")
        self.expect(info.started_count == len(slots), f"{len(slots)} runs of a cron job are counted so: {info}")

    def _check_counts(self) -> None:
        far = monotonic_ns() + FAR_S // 2 * SECOND_NS
        pending = sum(not entry.is_settled and entry.due_ns > far for entry in self.entries) + len(self.grids) + 1
        stats = self.made.stats()
        for name, found, expected in (
            ("scheduled", stats.scheduled, len(self.registered) + self.retries),  # which are timers too
            ("pending", stats.pending, pending),
            ("len()", len(self.made), pending),
            ("ready", stats.ready, 0),
            ("running", stats.running, 0),
            ("dropped", stats.dropped, 0),
            ("abandoned", stats.abandoned, 0),
        ):
            self.expect(found == expected, f"{name} is {found}, not {expected}: {stats}")
        overruns = sum(entry.what == "overrun" for entry in self.entries)
        logged = sum(text.startswith(f"{self.name}: ") for text in self.world.time_outs)
        self.expect(
            overruns == len(self.overruns) == logged,
            f"{overruns} runs should time out, {len(self.overruns)} did, {logged} were logged",
        )

    def started_in_all(self) -> int:
        grids = sum(len(grid.starts) for grid in [*self.grids, *self.ended])
        return super().started_in_all() + grids + len(self.seconds)


HELD = 1 << 62
"""In the place of a time until which something was held up: its lateness is not measured."""
