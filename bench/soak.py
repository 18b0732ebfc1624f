"""`python -m bench.soak --minutes N`: every kind of scheduler on the real clock under random acts, against a model.

Each kind has a thread of its own that makes one, adds, cancels, adds again under the same keys, pauses, stops and
starts, and after some seconds closes the books: every job that comes once has run once or was cancelled, and the
counts of the library are those of the model (`bench.soaking`). Callbacks fail, linger, time out, are tried again, add
and cancel. The main thread forks meanwhile; the child looks whether it finds everything stopped. Who may set the
machine's clock is not asked: the wall clock is set back and forth through a `pysched.Clock` of a user's, on a
`Scheduler` that has it.

Exit status 1 if anything is not as the model says. The seed is printed; with it the acts are random in the same way,
but for what threads make of them.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import random
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.soaking.book import World
    from bench.soaking.life import Life

HANG_S = 150.0
"""So long after its time the soak has not ended: it hangs."""

CHILD_S = 60.0
GROWTH_BYTES = 100_000_000
"""Memory may grow by so much from the end of the first lives to the end: allocators keep what they had at the peak."""


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: all was as the model says."""
    options = _options(arguments)
    os.environ["PYSCHED_ENGINE"] = options.engine  # before the first import of pysched
    seconds = options.seconds if options.seconds is not None else 60.0 * options.minutes
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    faulthandler.enable()
    print(f"soak of the {options.engine} engine, {seconds:g} s, --seed {seed}", flush=True)
    return Soak(seconds, seed).run()


class Soak:
    """One run of the program."""

    def __init__(self, seconds: float, seed: int) -> None:
        from bench.soaking.book import World

        self.seconds = seconds
        self.seed = seed
        self.world = World()
        self.makers = _makers(self.world)
        self.lives: dict[str, Life] = {}
        """The one of each kind that lives now."""
        self.forks = 0
        self.memory: list[int] = []
        """Resident bytes at each tenth of the time."""
        self.end = 0.0
        logging.getLogger("pysched").addHandler(_Log(self.world))
        logging.getLogger("pysched").propagate = False
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)  # of 3.12: there are threads

    def run(self) -> int:
        for kind in self.makers:
            self.world.open(kind)
            self._live(kind, random.Random(f"{self.seed} {kind} warm"), 0.3)
        self.lives.clear()
        before = _resources()
        self.end = time.monotonic() + self.seconds
        threads = [threading.Thread(target=self._drive, args=(kind,), name=kind) for kind in self.makers]
        for thread in threads:
            thread.start()
        self._fork_until_the_end()
        for thread in threads:
            thread.join(max(0.0, self.end + HANG_S - time.monotonic()))
            if thread.is_alive():
                print(f"hangs: {thread.name}; --seed {self.seed}", flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(1)
        self.lives.clear()
        return self._report(before, _resources())

    def _drive(self, kind: str) -> None:
        generator = random.Random(f"{self.seed} {kind}")
        while time.monotonic() < self.end:
            self._live(kind, generator, min(generator.uniform(1, 10), self.end - time.monotonic()))

    def _live(self, kind: str, generator: random.Random, seconds: float) -> None:
        life = self.makers[kind](kind, generator)
        self.lives[kind] = life
        life.live(seconds, lambda: len(self.world.faults) > 10)

    # -- forks --

    def _fork_until_the_end(self) -> None:
        generator = random.Random(f"{self.seed} forks")
        while (left := self.end - time.monotonic()) > 0:
            time.sleep(min(left, generator.uniform(0.2, 2)))
            if self.seconds - left >= len(self.memory) * self.seconds / 10:
                self.memory.append(_resident())
            lives = [life for life in self.lives.values() if not life.is_over]
            if lives:
                self._fork(lives, generator.choice(lives))

    def _fork(self, lives: list[Life], started: Life) -> None:
        """In a child all `lives` are stopped; the one that is started there runs."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                wrong = next((found for life in lives if (found := life.found_running())), None)
                wrong = wrong or started.check_in_child()
                if wrong is None:
                    status = 0
                else:
                    os.write(2, f"in a forked child: {started.kind}: {wrong}\n".encode())
            except BaseException as error:
                os.write(2, f"in a forked child: {started.kind}: {error!r}\n".encode())
            finally:
                os._exit(status)
        self.forks += 1
        deadline = time.monotonic() + CHILD_S
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, 9)
                os.waitpid(child, 0)
                self.world.fault(started.kind, "a forked child hangs")
                return
            time.sleep(0.005)
        if ended[1] != 0:
            self.world.fault(started.kind, f"a forked child ended with {os.waitstatus_to_exitcode(ended[1])}")

    # -- the report --

    def _report(self, before: dict[str, int], after: dict[str, int]) -> int:
        print(f"\n{'':34}{'callbacks':>10}{'p50':>9}{'p99':>9}{'p99.9':>9}{'max':>9}  lateness, ms")
        for kind, lateness in self.world.lateness.items():
            shown = [lateness.percentile(share) / 1e6 for share in (0.5, 0.99, 0.999)] + [lateness.most_ns / 1e6]
            print(f"{kind:34}{lateness.count:10,}" + "".join(f"{each:9.3f}" for each in shown))
        print()
        for kind, counts in self.world.counts.items():
            print(f"{kind}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
        print(f"\nforks {self.forks}; the wall clock was set through a clock of a user's (--seed {self.seed})")
        for name, value in before.items():
            print(f"{name}: {value:,} at the start, {after[name]:,} at the end")
        print(f"resident bytes on the way: {', '.join(f'{each:,}' for each in self.memory)}")
        for name in ("threads", "descriptors"):
            if after.get(name, 0) > before.get(name, 0):
                self.world.fault("process", f"{name} rose from {before[name]} to {after[name]}")
        if after["resident bytes"] - before["resident bytes"] > GROWTH_BYTES:
            self.world.fault("process", f"memory grew by more than {GROWTH_BYTES:,} bytes")
        for fault in self.world.faults:
            print(f"not as it has to be: {fault}")
        print(f"{len(self.world.faults)} deviations, --seed {self.seed}" if self.world.faults else "clean")
        return 1 if self.world.faults else 0


class _Log(logging.Handler):
    """Time-outs are expected and counted; whatever else the library logs is a fault."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if " timed out after " in text:
            self._world.time_outs.append(text)
        else:
            trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            self._world.fault("log", f"{text}\n{trace}")


def _makers(world: World) -> dict[str, Callable[[str, random.Random], Life]]:
    from bench.soaking.clocks import SteppedWall
    from bench.soaking.commands import CommandLife
    from bench.soaking.engines import EngineLife
    from bench.soaking.schedulers import SchedulerLife

    def engine(**options: Any) -> Callable[[str, random.Random], Life]:
        return lambda kind, generator: EngineLife(kind, world, generator, **options)

    def commands(workers: int) -> Callable[[str, random.Random], Life]:
        return lambda kind, generator: CommandLife(kind, world, generator, workers)

    def scheduler(**options: Any) -> Callable[[str, random.Random], Life]:
        return lambda kind, generator: SchedulerLife(kind, world, generator, **options)

    return {
        "Engine, inline": engine(),
        "Engine, pool of 2": engine(executor=2),
        "Engine, 2 daemon workers": engine(executor=2, daemon=True),
        "CommandScheduler": commands(1),
        "CommandScheduler, pool of 3": commands(3),
        "Scheduler, pool of 4": scheduler(),
        "Scheduler, 4 daemon workers": scheduler(daemon=True),
        "Scheduler, wall clock set": lambda kind, generator: SchedulerLife(
            kind, world, generator, clock=SteppedWall(), daemon=generator.random() < 0.5
        ),
    }


def _resources() -> dict[str, int]:
    """Of this process, once what has ended is gone."""
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    found = {"threads": threading.active_count()}
    if os.path.isdir("/proc/self/fd"):
        found["descriptors"] = len(os.listdir("/proc/self/fd"))
    found["resident bytes"] = _resident()
    return found


def _resident() -> int:
    """Bytes of memory; the most there ever were where the present ones cannot be asked for."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--seconds", type=float, help="the same in seconds")
    parser.add_argument("--seed", type=int, help="of the random acts; printed if not given")
    parser.add_argument("--engine", choices=["native", "pure"], default="native")
    options = parser.parse_args(arguments)
    span = options.minutes if options.seconds is None else options.seconds
    if not 0 < span < 1e6:
        parser.error("the time must be more than 0")
    return options


if __name__ == "__main__":
    sys.exit(main())
