"""What became of a job's slots and runs: noted for `JobEngine.explain`, and told to the owner.

A job's notes are part of its state. What is still to be told is a chain of pairs, the latest first, so that it grows by
one assignment.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "COALESCED",
    "DROPPED",
    "MISSED",
    "NO_NEWS",
    "PASSED",
    "POOL_FULL",
    "QUEUED",
    "RAN",
    "TOLD",
    "Chain",
    "News",
    "Note",
    "in_order",
]

RAN: Final = "ran"
COALESCED: Final = "coalesced"  # all instances were busy
MISSED: Final = "missed"  # the engine was late
PASSED: Final = "paused"  # in a pause
POOL_FULL: Final = "pool full"  # a run waits for a worker
QUEUED: Final = "queued"  # waits for an instance, in the backlog
DROPPED: Final = "dropped"  # the engine was stopped
TOLD: Final = frozenset((MISSED, COALESCED, DROPPED))
"""What the owner is told of."""

MOST = 2**32 - 1
"""Slots that one note counts, as the compiled engine does."""


class Note(NamedTuple):
    decision: str
    when: int  # wall clock, ns
    slot: int  # the latest that it is about, on the wall clock
    slots: int  # how many
    late: int  # of a run: how late it started, ns

    @classmethod
    def made(cls, decision: str, when: int, slot: int, count: int, late: int) -> Note:
        return cls(decision, when, slot, min(count, MOST), late)


class News(NamedTuple):
    reference: int
    note: Note


Chain: TypeAlias = "tuple[News, Chain] | tuple[()]"

NO_NEWS: Chain = ()


def in_order(told_next: deque[News], chain: Chain, most: int) -> deque[News]:
    """The news of both, the oldest first; of more than `most` the oldest are left out."""
    fresh = []
    while chain:
        news, chain = chain
        fresh.append(news)
    together = deque(told_next, maxlen=most)
    together.extend(reversed(fresh))
    return together
