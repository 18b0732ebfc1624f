"""Measurements that need a process of their own: `python -m bench.probe WHAT WHO COUNT` prints one JSON object.

`measure` starts one and returns what it printed.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import process_time, sleep
from typing import TypeAlias

try:
    import psutil  # type: ignore[import-untyped]
except ImportError:
    raise SystemExit("the bench needs psutil: pip install -e '.[bench]'") from None

from bench.measure import cpu_ns
from bench.peers import event_loop, heap
from bench.peers.engines import NATIVE, TWIN
from bench.peers.schedulers import OURS, RUST
from bench.workload import delays

__all__ = ["measure"]

Numbers: TypeAlias = Mapping[str, float]

PENDING: dict[str, Callable[[array[float]], object]] = {
    "pysched": NATIVE.pending,
    "pysched, handles kept": NATIVE.pending_kept,
    "heapq.heappush": heap.pending,
    "asyncio call_later": event_loop.pending,
    "twin": TWIN.pending,
    "Scheduler": lambda waits: OURS.pending(len(waits)),
    "rust-py-scheduler": lambda waits: RUST.pending(len(waits)),
}
IDLE = {"pysched": NATIVE.idle, "asyncio": event_loop.idle, "twin": TWIN.idle}
IDLE_SECONDS = 2.0


def measure(what: str, who: str, count: int) -> Numbers:
    """The numbers of one fresh process."""
    command = [sys.executable, "-m", "bench.probe", what, who, str(count)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    numbers: Numbers = json.loads(done.stdout)
    return numbers


def memory(who: str, count: int) -> Numbers:
    """Growth of the resident set a timer, in bytes."""
    fill = PENDING[who]
    waits = array("d", delays(count))
    fill(waits[:1000])  # so that what is made once is not counted
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    holder = fill(waits)
    gc.collect()
    grown = process.memory_info().rss - before
    del holder
    return {"bytes": grown / count}


def collection(who: str, count: int) -> Numbers:
    """Milliseconds of CPU time of a full collection, without and with the timers."""
    empty = _pause_ms()
    holder = PENDING[who](array("d", delays(count)))
    full = _pause_ms()
    del holder
    return {"empty_ms": empty, "full_ms": full}


def _pause_ms() -> float:
    gc.collect()  # what is young grows old, what need not be tracked is dropped
    pauses = []
    for _ in range(3):
        begin = cpu_ns()
        gc.collect()
        pauses.append(cpu_ns() - begin)
    return median(pauses) / 1e6


def idle(who: str, count: int) -> Numbers:
    """Wake-ups by the contender's own count, CPU time and the kernel's count of waits that ended."""
    wakeups, stop = IDLE[who](count)
    gc.collect()
    sleep(0.2)
    woken, cpu, switches = wakeups(), process_time(), _switches()
    sleep(IDLE_SECONDS)
    numbers = {
        "cpu_ms": (process_time() - cpu) * 1e3,
        # One is this thread's own sleep.
        "switches": _switches() - switches - 1,
        "wakeups": wakeups() - woken,
    }
    stop()
    return numbers


def _switches() -> int:
    """The kernel's count of waits that ended, of all threads of this process."""
    if sys.platform == "win32":
        return int(psutil.Process().num_ctx_switches().voluntary)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def main(what: str, who: str, count: str) -> None:
    probe = {"memory": memory, "collection": collection, "idle": idle}[what]
    print(json.dumps(probe(who, int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
