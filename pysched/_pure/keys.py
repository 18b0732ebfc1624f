"""Which timer holds a key.

A dict with users' keys would run their ``__hash__`` and ``__eq__`` inside its operations, also when a timer
starts or is cancelled, and in between another thread may swap what was found. Here a key's hash is taken
once, and only `find` compares, outside the lock. Buckets are immutable, so whoever comes back with the lock
sees by identity whether what was found still holds. Removal compares nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pysched._pure.timers import Timer

    Bucket = tuple[Timer, ...]

__all__ = ["NO_TIMERS", "KeyTable"]

NO_TIMERS: Bucket = ()


class KeyTable:
    """Part of a `TimerTable`, under the same ground rules."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        # Hash of a key -> the timers that have it. A defaultdict only because it looks up without a call or
        # a jump in Python, after which others might come in; no empty bucket stays.
        self.buckets: defaultdict[int, Bucket] = defaultdict(tuple)

    def find(self, key: Hashable, key_hash: int) -> tuple[Bucket, Timer | None]:
        """The bucket of a hash, and the timer in it that holds `key`. Not under the lock: keys are compared."""
        bucket = self.buckets.get(key_hash, NO_TIMERS)
        for timer in bucket:
            held = timer.key
            if held is key or (held is not None and held == key):
                return bucket, timer
        return bucket, None

    def drop(self, timer: Timer) -> None:
        """Make a timer one without a key, which it keeps for its release."""
        while timer.key is not None:
            key_hash = timer.key_hash
            bucket = self.buckets.get(key_hash, NO_TIMERS)
            rest = tuple([other for other in bucket if other is not timer])
            if self.buckets[key_hash] is bucket:
                # straight:
                self.buckets[key_hash] = rest
                timer.spent_key = timer.key
                timer.key = None
                if not rest:
                    del self.buckets[key_hash]
            else:  # somebody got in between, and may have emptied the bucket
                self.tidy(key_hash)

    def tidy(self, key_hash: int) -> None:
        """Take away the empty bucket that a look-up of a hash without timers leaves behind."""
        if self.buckets[key_hash] is NO_TIMERS:
            del self.buckets[key_hash]
