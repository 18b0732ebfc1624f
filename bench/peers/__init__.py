"""One adapter for each contender; the same operations under the same names, see `bench.measure`."""

from __future__ import annotations

__all__ = ["NO_TIMERS"]

NO_TIMERS = dict.fromkeys(("rust-py-scheduler", "schedule"), "has jobs of an interval only")
"""Peers that a reader may miss in rows of timers, and why they are not there."""
