"""What the drivers of all schedulers have in common: a life of random acts, then the books are closed."""

from __future__ import annotations

import traceback
from time import monotonic, monotonic_ns, sleep
from typing import TYPE_CHECKING, Any, ClassVar

from bench.soaking.book import Entry

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from random import Random

    from bench.soaking.book import World

__all__ = ["FAR_S", "WAIT_S", "Life", "delay_us"]

WAIT_S = 60.0
"""Seconds to wait for what must happen: who waits as long has found a fault."""

FAR_S = 3600
"""What is due only then is pending at the end."""

FAILURES: tuple[type[BaseException], ...] = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException)
KEYS = 20


def delay_us(random: Random) -> int:
    """A delay in microseconds: at once, soon, or too far away to come."""
    span = random.choice((0, 200, 3_000, 3_000, 30_000, 150_000))
    return random.randint(0, span) if random.random() < 0.93 else FAR_S * 1_000_000 + random.randint(0, 1_000_000)


class Life:
    """One scheduler, from its making to its end, under random acts of one thread and of its own callbacks.

    `made` is the scheduler. Whoever derives from it says what may be done (`acts`: weights), starts it in `begin`,
    and closes the books in `settle`.
    """

    made: Any
    acts: ClassVar[dict[str, int]]

    def __init__(self, kind: str, world: World, random: Random) -> None:
        self.kind = kind
        self.world = world
        self.random = random
        self.entries: list[Entry] = []
        self.held: dict[object, Entry] = {}
        """By key: what was registered under it last."""
        self.failures: list[bool] = []
        """One for each exception that left a callback."""
        self.reported: list[bool] = []
        """One for each that `on_error` was told of."""
        self.held_until_ns = monotonic_ns()
        self.adding: list[bool] = []
        """One for each callback that is about to register another."""
        self.is_closing = False
        """Whether callbacks are to register no more."""
        self.is_over = False

    @property
    def counts(self) -> Counter[str]:
        return self.world.counts[self.kind]

    def fault(self, text: str) -> None:
        self.world.fault(self.kind, text)

    def expect(self, holds: object, text: str) -> None:
        if not holds:
            self.fault(text)

    # -- what runs --

    def entry(self, delay: int, what: str | None = None, label: str = "one-shot", **options: Any) -> Entry:
        """A new one, due `delay` microseconds from now or later."""
        what = what or self.random.choices(*self.deeds)[0]
        entry = Entry(monotonic_ns() + delay * 1000, what, label, **options)
        self.entries.append(entry)
        return entry

    @property
    def deeds(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """What callbacks do, and weights."""
        return ("nothing", "fail", "add", "cancel", "linger", "look"), (60, 10, 12, 8, 8, 2)

    def fire(self, entry: Entry) -> None:
        """The callback of every one-shot."""
        self.world.started(self.kind, entry, self.held_until_ns)
        self.do(entry.what)

    def do(self, what: str) -> None:
        match what:
            case "fail":
                self.fail()
            case "add":
                self.adding.append(True)
                if not self.is_closing:
                    self.add_from_inside()
                self.adding.pop()
            case "cancel":
                self.cancel_from_inside()
            case "linger":
                sleep(self.random.choice((0, 0.0005, 0.003)))
            case "look":
                repr(self.made)

    def fail(self) -> None:
        self.failures.append(True)
        raise self.random.choice(FAILURES)("of the soak")

    def add_from_inside(self) -> None:
        """Register another, from inside of a callback."""
        raise NotImplementedError

    def cancel_from_inside(self) -> None:
        """Cancel one, from inside of a callback."""

    def on_error(self, error: BaseException, subject: object) -> None:
        self.reported.append(True)

    # -- its course --

    def live(self, seconds: float, over: Callable[[], bool]) -> None:
        """Begin, act for so long or until ``over()``, close the books."""
        try:
            self.begin()
            end = monotonic() + seconds
            names, weights = tuple(self.acts), tuple(self.acts.values())
            while monotonic() < end and not over():
                for name in self.random.choices(names, weights, k=self.random.randint(1, 8)):
                    getattr(self, name)()
                    self.counts[name] += 1
                sleep(self.random.choice((0, 0.0005, 0.002, 0.004)))
            self.settle()
        except BaseException:
            self.fault(traceback.format_exc())
        finally:
            self.is_over = True
        self.counts["lives"] += 1
        self.counts["one-shots"] += len(self.entries)
        self.counts["prevented"] += sum(entry.was_prevented for entry in self.entries)
        self.counts["failures"] += len(self.failures)

    def begin(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        raise NotImplementedError

    def wait_for(self, condition: Callable[[], bool], text: str) -> bool:
        """Wait until it holds; that it did not is a fault."""
        deadline = monotonic() + WAIT_S
        while not condition():
            if monotonic() > deadline:
                self.fault(f"{text}: not within {WAIT_S:g} s")
                return False
            sleep(0.002)
        return True

    def wait_for_entries(self) -> None:
        """Until all that can come has come, and nothing registers any more."""
        self.is_closing = True
        self.wait_for(lambda: not self.adding, "the end of callbacks that register")
        soon = monotonic_ns() + FAR_S // 2 * 1_000_000_000
        waiting = [entry for entry in self.entries if entry.due_ns < soon]

        def is_done() -> bool:
            nonlocal waiting
            waiting = [entry for entry in waiting if not entry.is_settled]
            return not waiting

        self.wait_for(is_done, f"{len(waiting)} one-shots that are due")

    def check_entries(self) -> None:
        now = monotonic_ns()
        for entry in self.entries:
            found = entry.fault(now)
            if found is not None:
                self.fault(found)

    def check_failures(self) -> None:
        self.expect(
            len(self.failures) == len(self.reported),
            f"{len(self.failures)} failures, and on_error was told of {len(self.reported)}",
        )

    def check_that_it_is_still(self) -> None:
        """Nothing starts after a stop."""
        before = self.started_in_all()
        sleep(0.02)
        self.expect(self.started_in_all() == before, "something started after the stop")

    def started_in_all(self) -> int:
        return sum(len(entry.starts) for entry in self.entries)

    # -- in a forked child --

    def found_running(self) -> str | None:
        """What is wrong in a child, where all is stopped."""
        return f"{self.kind} runs in a forked child" if getattr(self.made, "running", False) else None

    def check_in_child(self) -> str | None:
        """What is wrong with this one in a child."""
        before = self.started_in_all()
        sleep(0.02)
        return "something started in a forked child" if self.started_in_all() != before else None
