"""`Engine` under random acts, against counts that add up exactly."""

from __future__ import annotations

from threading import get_ident
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Any, ClassVar

from bench.soaking.book import Slots
from bench.soaking.life import FAR_S, KEYS, WAIT_S, Life, delay_us
from pysched import Engine

if TYPE_CHECKING:
    from random import Random

    from bench.soaking.book import Entry, World
    from pysched import TimerHandle

__all__ = ["EngineLife"]

MOST_PERIODIC = 6
MOST_PARTNERS = 30


class Periodic:
    """A periodic timer: its handle, its grid, and how it ended."""

    def __init__(self, slots: Slots, deed: str) -> None:
        self.slots = slots
        self.deed = deed
        self.handle: TimerHandle | None = None
        self.inside: list[int] = []


class EngineLife(Life):
    """`options` are the Engine's: who runs its callbacks, and by which clock."""

    acts: ClassVar = {
        "add": 30,
        "add_at": 5,
        "add_keyed": 25,
        "add_many": 2,
        "cancel": 12,
        "cancel_key": 6,
        "add_periodic": 2,
        "cancel_periodic": 2,
        "look": 6,
        "check": 1,
        "stop_and_start": 1,
    }

    def __init__(self, kind: str, world: World, random: Random, **options: Any) -> None:
        super().__init__(kind, world, random)
        self.made = Engine(on_error=self.on_error, **options)
        self.handles: list[tuple[Entry, TimerHandle]] = []
        """Of some that have no key."""
        self.partners: list[tuple[Entry, TimerHandle]] = []
        """Those that callbacks may cancel too."""
        self.periodic: list[Periodic] = []
        self.ended: list[Periodic] = []

    def begin(self) -> None:
        if self.random.random() < 0.5:  # some are registered before
            self.made.start()
            self.held_until_ns = monotonic_ns()

    # -- acts --

    def add(self) -> None:
        delay = delay_us(self.random)
        entry = self.entry(delay)
        handle = self.made.call_later(delay / 1e6, self.fire, entry)
        self.handles.append((entry, handle))
        if len(self.handles) > 200:
            del self.handles[:100]
        if self.random.random() < 0.1 and len(self.partners) < MOST_PARTNERS:
            self.partners.append((entry, handle))

    def add_at(self) -> None:
        delay = delay_us(self.random)
        entry = self.entry(delay, label="call_at")
        when = self.made.time() + delay / 1e6
        entry.due_ns = entry.since_ns = int(when * 1e9) - 1  # it went through a float
        self.made.call_at(when, self.fire, entry)

    def add_keyed(self) -> None:
        key = self.random.randrange(KEYS)
        delay = delay_us(self.random)
        entry = self.entry(delay, label="keyed one-shot")
        self.made.call_later(delay / 1e6, self.fire, entry, key=key)
        before = self.held.get(key)
        if before is not None:
            before.gone_ns = monotonic_ns()
        self.held[key] = entry

    def add_many(self) -> None:
        delays = [delay_us(self.random) for _ in range(self.random.randint(1, 60))]
        entries = [self.entry(delay, label="one of many") for delay in delays]
        given = self.made.call_many([delay / 1e6 for delay in delays], self.fire, [(entry,) for entry in entries])
        self.expect(given == len(delays), f"call_many took {given} of {len(delays)}")

    def cancel(self) -> None:
        if self.handles:
            self._cancel(*self.random.choice(self.handles))

    def cancel_from_inside(self) -> None:
        try:
            self._cancel(*self.partners.pop())
        except IndexError:
            pass

    def _cancel(self, entry: Entry, handle: TimerHandle) -> None:
        if handle.cancel():
            entry.cancelled.append(True)
            self.expect(handle.cancelled(), "a handle whose cancel() returned True says it is not cancelled")
        self.expect(handle.done(), "the handle of a one-shot is not done after cancel()")

    def cancel_key(self) -> None:
        key = self.random.randrange(KEYS)
        prevented = self.made.cancel_key(key)
        entry = self.held.pop(key, None)
        if entry is None:
            self.expect(not prevented, f"cancel_key({key}) prevented the run of nothing")
        elif prevented:
            entry.cancelled.append(True)
        else:
            self.expect(entry.due_ns <= monotonic_ns(), "cancel_key is False for what was not due yet")

    def add_from_inside(self) -> None:
        delay = delay_us(self.random)
        entry = self.entry(delay, "nothing", "one-shot of a callback")
        self.made.call_later(delay / 1e6, self.fire, entry)

    def add_periodic(self) -> None:
        if len(self.periodic) >= MOST_PERIODIC:
            return
        interval = self.random.choice((1_000, 2_500, 10_000, 40_000)) * 1000
        # What the grid is can be asked for as long as its first slot is to come, or the loop stands still.
        delay = self.random.choice((300_000_000, 2_000_000_000) if self.made.running else (0, interval))
        periodic = Periodic(Slots(monotonic_ns() + delay, interval), self.random.choices(*self.deeds)[0])
        before = monotonic_ns()
        handle = self.made.call_every(interval / 1e9, self._tick, periodic, delay=delay / 1e9)
        doubt = 1 + (monotonic_ns() - before) // interval
        due_ns = round(handle.when() * 1e9)
        passed = 0
        if periodic.slots.starts:  # this thread was held up for long
            passed = max(0, due_ns - periodic.slots.anchor_ns) // interval
            periodic.slots.doubt = doubt
        periodic.slots.anchor_ns = due_ns - passed * interval
        periodic.handle = handle
        self.periodic.append(periodic)

    def _tick(self, periodic: Periodic) -> None:
        periodic.slots.starts.append(monotonic_ns())
        periodic.inside.append(get_ident())
        if len(periodic.inside) > 1:
            self.fault("a periodic timer overlaps itself")
        try:
            self.do(periodic.deed)
        finally:
            periodic.inside.pop()

    def cancel_periodic(self) -> None:
        if self.periodic:
            self._cancel_periodic(self.periodic.pop(self.random.randrange(len(self.periodic))))

    def _cancel_periodic(self, periodic: Periodic) -> None:
        handle, slots = periodic.handle, periodic.slots
        assert handle is not None
        least = slots.before(round(handle.when() * 1e9))
        self.expect(handle.cancel(), "the first cancel of a periodic timer returned False")
        self.expect(not handle.cancel(), "the second cancel of a periodic timer returned True")
        # One of them may have waited for a worker: it counts as cancelled.
        slots.passed = least - 1, max(least, slots.until(monotonic_ns()))
        self.ended.append(periodic)

    def look(self) -> None:
        match self.random.randrange(5):
            case 0:
                len(self.made)
            case 1:
                stats = self.made.stats()
                found = stats.started + stats.cancelled + stats.pending + stats.dropped
                # A periodic timer is scheduled and pending once, and started often.
                self.expect(stats.scheduled <= found, f"less than was scheduled: {stats}")
            case 2:
                self.made.next_deadline()
            case 3:
                repr(self.made)
            case _ if self.handles:
                entry, handle = self.random.choice(self.handles)
                self.expect(handle.when() * 1e9 >= entry.due_ns - 1000, "when() is before the due time")

    def check(self) -> None:
        self.made._check()

    def stop_and_start(self) -> None:
        if not self.made.running:
            self.held_until_ns = monotonic_ns()
            self.made.start()
            return
        if self.random.random() < 0.3:
            self.made.stop(0)
        self.expect(self.made.stop(WAIT_S), "a stop without haste left something running")
        self.expect(not self.made.running, "it runs after a stop")
        before = self.started_in_all()
        sleep(self.random.choice((0, 0.001, 0.03)))
        self.expect(self.started_in_all() == before, "something started while it was stopped")
        if self.periodic and self.random.random() < 0.5:
            self._cancel_periodic(self.periodic.pop())
        if self.random.random() < 0.7:
            self.held_until_ns = monotonic_ns()
            self.made.start()

    # -- the end --

    def settle(self) -> None:
        self.held_until_ns = monotonic_ns()
        self.made.start()
        self.wait_for_entries()
        self.expect(self.made.stop(WAIT_S), "the last stop left something running")
        self.check_that_it_is_still()
        self.check_entries()
        self.check_failures()
        self._check_counts()
        self.made._check()

    def _check_counts(self) -> None:
        stats = self.made.stats()
        far = monotonic_ns() + FAR_S // 2 * 1_000_000_000
        everywhere = [*self.periodic, *self.ended]
        pending = sum(not entry.is_settled and entry.due_ns > far for entry in self.entries) + len(self.periodic)
        prevented = sum(entry.was_prevented for entry in self.entries) + len(self.ended)
        for name, found, expected in (
            ("scheduled", stats.scheduled, len(self.entries) + len(everywhere)),
            ("pending", stats.pending, pending),
            ("len()", len(self.made), pending),
            ("started", stats.started, self.started_in_all()),
            ("cancelled", stats.cancelled, prevented),
            ("errors", stats.errors, len(self.failures)),
            ("ready", stats.ready, 0),
            ("running", stats.running, 0),
            ("dropped", stats.dropped, 0),
            ("abandoned", stats.abandoned, 0),
            ("lateness.count", stats.lateness.count, stats.started),
        ):
            self.expect(found == expected, f"{name} is {found}, not {expected}: {stats}")
        least = most = 0
        for periodic in everywhere:
            slots, handle = periodic.slots, periodic.handle
            assert handle is not None
            passed = slots.passed or (slots.before(round(handle.when() * 1e9)),) * 2
            least += passed[0] - slots.doubt - len(slots.starts)
            most += passed[1] - len(slots.starts)
            found = slots.fault()
            if found is not None:
                self.fault(found)
        self.expect(
            least <= stats.coalesced <= most,
            f"of slots that passed without a run there are {least} to {most}, and coalesced is {stats.coalesced}",
        )
        self.counts["slots"] += sum(len(each.slots.starts) for each in everywhere) + stats.coalesced
        self.counts["coalesced"] += stats.coalesced

    def started_in_all(self) -> int:
        return super().started_in_all() + sum(len(each.slots.starts) for each in [*self.periodic, *self.ended])

    def check_in_child(self) -> str | None:
        found = super().check_in_child()
        if found is None:
            ran: list[int] = []
            self.made.call_later(0, ran.append, 1)
            self.made.start()
            for _ in range(5_000):
                if ran:
                    break
                sleep(0.002)
            else:
                return "what is started in a forked child does not run"
            self.made.stop(0)
        return found
