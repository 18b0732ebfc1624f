"""Commands that run once, repeatedly, and not at all, because they were cancelled or replaced.

Run it with `python examples/usage.py`; it takes two seconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pysched import BasicSchedulerContext, Command, CommandScheduler


@dataclass
class Journal(BasicSchedulerContext):
    """What the commands share. They run one at a time, so it needs no lock."""

    began: float = field(default_factory=time.monotonic)
    polls: int = 0

    def write(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:4.1f} s  {text}")


@dataclass
class Say(Command):
    text: str
    key: str | None = None

    def execute(self, context: Journal) -> None:
        context.write(self.text)


class Poll(Command):
    """Polls a device, more slowly each time, and ends its own repetition after the third."""

    key = "poll"

    def __init__(self) -> None:
        self.wait = 0.2
        self.repeat_interval_s = self.wait  # makes a plain submit() repeat; read again after each run

    def execute(self, context: Journal) -> None:
        context.polls += 1
        context.write(f"poll {context.polls}")
        self.wait *= 2
        self.repeat_interval_s = self.wait if context.polls < 3 else None


def main() -> None:
    journal = Journal()
    scheduler = CommandScheduler(journal)

    # Once. Commands may be submitted before the start, and from any thread after it.
    scheduler.submit(Say("once, at once"))
    scheduler.submit(Say("once, half a second later"), delay_s=0.5)

    # Repeatedly: every 0.4 s, counted from the end of each run, until removed.
    scheduler.schedule(Say("heartbeat"), interval_s=0.4, key="heartbeat")
    scheduler.submit(Poll(), delay_s=0.1)

    # A key belongs to its newest submission: the first of these never runs.
    scheduler.submit(Say("a draft, never seen", key="save"), delay_s=1.0)
    scheduler.submit(Say("the final version", key="save"), delay_s=1.0)

    # Cancelled before its time.
    scheduler.submit(Say("never said", key="farewell"), delay_s=1.2)
    scheduler.remove("farewell")

    scheduler.start()
    time.sleep(1.1)
    scheduler.remove("heartbeat")
    journal.write("no more heartbeats")
    time.sleep(0.7)
    scheduler.stop()


if __name__ == "__main__":
    main()
