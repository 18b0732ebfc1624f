"""The lateness histogram: logarithmic buckets of nanoseconds, 16 an octave.

Values below 32 ns have a bucket each; above, a value of `b` bits shares its bucket with those that
agree in their five highest bits. A percentile is thus at most 1/16 too high, and never too low.
"""

from __future__ import annotations

from pysched.clock import NEVER
from pysched.stats import Lateness

__all__ = ["LatenessHistogram", "bucket_of", "upper_edge_ns"]


def bucket_of(value_ns: int) -> int:
    """The bucket of a value in 0 ... NEVER."""
    shift = max(0, value_ns.bit_length() - 5)
    return 16 * shift + (value_ns >> shift)


def upper_edge_ns(bucket: int) -> int:
    """The largest value of a bucket."""
    shift = max(0, bucket // 16 - 1)
    return ((bucket - 16 * shift + 1) << shift) - 1


class LatenessHistogram:
    """Counts a value in O(1); guarded by the lock of its engine."""

    __slots__ = ("_count", "_counts", "_max_ns")

    def __init__(self) -> None:
        self._counts = [0] * (bucket_of(NEVER) + 1)
        self._count = 0
        self._max_ns = 0

    def add(self, value_ns: int) -> None:
        value_ns = max(0, min(value_ns, NEVER))
        bucket = bucket_of(value_ns)
        self._counts[bucket] += 1
        self._count += 1
        if value_ns > self._max_ns:
            self._max_ns = value_ns

    def remove(self, value_ns: int) -> None:
        """Take a value back; the greatest ever seen stays."""
        self._counts[bucket_of(max(0, min(value_ns, NEVER)))] -= 1
        self._count -= 1

    def snapshot(self) -> Lateness:
        """O(buckets)."""
        p50, p99, p999 = (self._percentile_ns(per_mille) / 1e9 for per_mille in (500, 990, 999))
        return Lateness(self._count, p50, p99, p999, self._max_ns / 1e9)

    def _percentile_ns(self, per_mille: int) -> int:
        """Upper edge of the bucket that holds the value of rank ceil(p * count), at most the maximum."""
        rank = -(-self._count * per_mille // 1000)
        seen = 0
        for bucket in range(bucket_of(self._max_ns)):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(upper_edge_ns(bucket), self._max_ns)
        return self._max_ns
