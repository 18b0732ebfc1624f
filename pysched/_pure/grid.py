"""The grid of a periodic timer: which of its slots runs, and which are passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysched._pure.timers import Timer

__all__ = ["slots_between", "slots_by"]


def slots_by(now_ns: int, due_ns: int, timer: Timer) -> tuple[int, int, bool]:
    """What is to become of a periodic timer due at `due_ns` <= `now_ns`: a slot, and whether it runs now.

    If not, the slot is the next one to come. The number between them is that of the slots without a run.
    """
    period = timer.period_ns
    if timer.queued or timer.running:
        passed = (now_ns - due_ns) // period + 1
        return due_ns + passed * period, passed, False
    passed = 0
    if due_ns < timer.busy_until_ns:  # these came due while the last run was queued or running
        passed = -(-(timer.busy_until_ns - due_ns) // period)
    slot = due_ns + passed * period
    if slot > now_ns:
        return slot, passed, False
    behind = (now_ns - slot) // period
    return slot + behind * period, passed + behind, True


def slots_between(slot_ns: int, next_ns: int, period_ns: int) -> int:
    """How many slots of a grid lie strictly between two of its slots; the later one may be saturated."""
    return max(0, (next_ns - slot_ns) // period_ns - 1) if period_ns else 0
