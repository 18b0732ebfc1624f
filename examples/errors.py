"""Where errors go: into the context, to a handler, and for an Engine to its `on_error`.

Run it with `python examples/errors.py`; it takes a second. No error ends a scheduler, and none is swallowed:
without a context and a handler it is logged, with its traceback, by the logger "pysched".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pysched import BasicSchedulerContext, Command, CommandScheduler, Engine, TimerHandle


@dataclass
class Fetch(Command):
    """Fails for a while, then works."""

    name: str
    failures: int = 2

    def execute(self, context: BasicSchedulerContext | None) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError(f"{self.name}: no route")
        print(f"{self.name}: fetched")


def in_a_context() -> None:
    """The context keeps the last error; whoever owns it looks when it likes."""
    context = BasicSchedulerContext()
    scheduler = CommandScheduler(context)
    scheduler.submit(Fetch("alpha"))
    scheduler.start()
    time.sleep(0.1)
    scheduler.stop()
    print(f"last error: {context.last_error!r}")


def in_a_handler() -> None:
    """A handler is told of each error and of the command, and may act. A repeating command goes on."""

    def on_error(error: BaseException, command: Command) -> None:
        print(f"handler: {command.key} raised {error!r}")

    scheduler = CommandScheduler(on_error=on_error)
    scheduler.schedule(Fetch("beta"), interval_s=0.1, key="beta")
    scheduler.start()
    time.sleep(0.45)
    scheduler.stop()


def in_an_engine() -> None:
    """An Engine hands over the timer instead: here a periodic one is cancelled at its second error."""
    seen = 0

    def on_error(error: BaseException, timer: TimerHandle) -> None:
        nonlocal seen
        seen += 1
        print(f"engine: error {seen}, {error!r}")
        if seen == 2:
            timer.cancel()

    with Engine(on_error=on_error) as engine:
        engine.call_every(0.1, lambda: 1 / 0)
        time.sleep(0.5)
        print(f"engine: {engine.stats().errors} errors, {len(engine)} timers left")


def main() -> None:
    in_a_context()
    in_a_handler()
    in_an_engine()


if __name__ == "__main__":
    main()
