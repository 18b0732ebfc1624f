"""Lanes: what there is to know of each key that commands use, and the turns that take them.

Ground rules. Each key in use has a lane: who holds the key, and whether a command of it runs. `Lanes.lock`
guards all of them. Nothing foreign runs under it: keys are hashed and compared before it is taken, references
are released after it, and the engine (whose clock may be a user's) is called without it. The sections under
it call nothing at all, so a signal handler, a destructor or a fork in the midst of one finds whole lanes.
"""

from __future__ import annotations

from collections import defaultdict
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pysched._pure.handle import TimerHandle

__all__ = ["Executable", "Lane", "Lanes", "Turn"]


class Executable(Protocol):
    """All that a command must be; `key` and `repeat_interval_s` may be missing."""

    def execute(self, context: Any, /) -> object: ...


class Lane:
    """A key in use: who holds it, and whether a command of it runs."""

    __slots__ = ("dropped", "hash", "held_back", "holder", "key", "pins", "running")

    def __init__(self, key: Hashable, key_hash: int) -> None:
        self.key = key
        self.hash = key_hash
        self.holder: Turn | None = None
        self.held_back = False  # the holder came due while an earlier command of the key ran
        self.running = False
        self.pins = 1  # submissions that are about to take it
        self.dropped = False  # not in the table any more


class Turn:
    """One coming run of a command. Each arming of a timer is a turn of its own."""

    __slots__ = ("command", "early", "handle", "lane", "repeats", "settled")

    handle: TimerHandle

    def __init__(self, command: Executable, lane: Lane | None, repeats: bool) -> None:
        self.command = command
        self.lane = lane
        self.repeats = repeats  # as far as was known when it was armed
        self.settled = lane is None  # has taken its lane
        self.early = False


class Lanes:
    """The lanes by key.

    Not a dict by key: that runs `__eq__` in the midst of a change. Here the lanes of a hash are a tuple;
    it is searched without the lock, and replaced under it if it is still the one that was searched.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.by_hash: defaultdict[int, tuple[Lane, ...]] = defaultdict(tuple)

    def find(self, key: Hashable, key_hash: int) -> Lane | None:
        """The lane of `key`, if it is in use. O(1)."""
        return _search(self.by_hash.get(key_hash, ()), key)

    def pin(self, key: Hashable, key_hash: int) -> Lane:
        """The lane of `key`, a new one if need be, which stays until the caller takes a pin away. O(1)."""
        while True:
            lanes = self.by_hash[key_hash]
            lane = _search(lanes, key)
            if lane is not None:
                with self.lock:
                    if not lane.dropped:
                        lane.pins += 1
                        return lane
            else:
                lane = Lane(key, key_hash)
                more = (*lanes, lane)
                with self.lock:
                    if self.by_hash[key_hash] is lanes:
                        self.by_hash[key_hash] = more
                        return lane

    def tidy(self, lane: Lane) -> None:
        """Drop `lane` if nobody needs it."""
        with self.lock:
            if lane.holder is not None or lane.running or lane.pins or lane.dropped:
                return
            lane.dropped = True
        while True:
            lanes = self.by_hash[lane.hash]
            rest = tuple([other for other in lanes if other is not lane])
            with self.lock:
                if self.by_hash[lane.hash] is lanes:
                    if rest:
                        self.by_hash[lane.hash] = rest
                    else:
                        del self.by_hash[lane.hash]
                    return


def _search(lanes: tuple[Lane, ...], key: Hashable) -> Lane | None:
    for lane in lanes:
        if not lane.dropped and (lane.key is key or lane.key == key):
            return lane
    return None
