"""A measurement in a process of its own: `python -m bench.probe ROW WHO COUNT` prints one JSON object.

`measure` starts one and returns what it found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from bench.measure import Unavailable

if TYPE_CHECKING:
    from bench.row import Numbers

__all__ = ["TWIN", "Found", "measure"]

TWIN = "twin"
"""This contender's process runs with the engine in plain Python behind all of pysched."""


@dataclass(frozen=True)
class Found:
    """What a process measured, and what that took: seconds, once it had begun, and its greatest resident set."""

    numbers: Numbers
    seconds: float
    peak_bytes: int


def measure(row: str, who: str, count: int, limit_s: float | None = None) -> Found:
    """The numbers of one fresh process. Raises `Unavailable` when it cannot, fails, or takes more than `limit_s`."""
    command = [sys.executable, "-m", "bench.probe", row, who, str(count)]
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYSCHED_ENGINE": "pure" if who == TWIN else "native"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"took more than {limit_s:.0f} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise Unavailable(f"failed: {last[0]}")
    answer = json.loads(done.stdout)
    if "unavailable" in answer:
        raise Unavailable(answer["unavailable"])
    return Found(answer["numbers"], answer["seconds"], answer["peak_bytes"])


def _peak_bytes() -> int:
    if sys.platform == "win32":
        import psutil  # type: ignore[import-untyped]

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(row: str, who: str, count: str) -> None:
    from bench.rows import ROWS  # here: the rows import this module

    answer: dict[str, object]
    begin = perf_counter()
    try:
        numbers = next(found for found in ROWS if found.name == row).numbers(who, int(count))
        answer = {"numbers": numbers, "seconds": perf_counter() - begin, "peak_bytes": _peak_bytes()}
    except Unavailable as reason:
        answer = {"unavailable": str(reason)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
