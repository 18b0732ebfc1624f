"""Numbers of things as a reader likes them: 10^5, 2 x 10^4."""

from __future__ import annotations

__all__ = ["power"]


def power(count: int) -> str:
    """`10^5` for 100,000, `2 x 10^4` for 20,000; the plain number below 1,000 or where it is no such product."""
    digits = len(str(count)) - 1
    first, rest = divmod(count, 10**digits)
    if count < 1000 or rest:
        return f"{count:,}"
    return f"10^{digits}" if first == 1 else f"{first} x 10^{digits}"
