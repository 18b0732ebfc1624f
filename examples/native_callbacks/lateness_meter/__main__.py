"""Compares a timer of C with one of Python while another thread computes: python -m lateness_meter [seconds]."""

from __future__ import annotations

import sys
import threading
import time

import pysched

from .meter import Meter

INTERVAL_S = 0.001


def compute(until: float) -> None:
    """Keep the interpreter busy."""
    number = 1
    while time.monotonic() < until:
        number = number * 1103515245 % 2147483647


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with pysched.Engine() as in_c, pysched.Engine() as in_python:
        meter = Meter(in_c, INTERVAL_S, capacity=1_000_000)
        in_python.call_every(INTERVAL_S, int)
        busy = threading.Thread(target=compute, args=(time.monotonic() + seconds,))
        busy.start()
        busy.join()
        meter.stop()
        late = sorted(meter.lateness())
        beside = in_python.stats().lateness
    print(f"in C:      {len(late)} calls, p50 {late[len(late) // 2] * 1e6:,.0f} us, worst {late[-1] * 1e6:,.0f} us")
    print(f"in Python: {beside.count} calls, p50 {beside.p50 * 1e6:,.0f} us, worst {beside.max * 1e6:,.0f} us")


if __name__ == "__main__":
    main()
