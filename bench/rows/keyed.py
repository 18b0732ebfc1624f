"""Timers with keys: adding with new keys, replacing those that are held, and cancelling by key.

The keys are new strings, so the first contact with one includes its hash. The peers have no keys: beside them stand the
few lines of Python that add them, the recipe of heapq's documentation and a dict of asyncio's handles. A part of the
difference is therefore that of a Python function to a compiled one, which is what a program would see. Beside
`cancel_key` stands the keyed add that came before it.
"""

from __future__ import annotations

from bench.measure import cpu_ns
from bench.peers import heap
from bench.peers.engines import NATIVE, TWIN
from bench.peers.event_loop import ASYNCIO, UVLOOP
from bench.result import Goal
from bench.row import USUAL, timed

__all__ = ["ROWS"]

ROWS = [
    timed(
        "key",
        "call_later(key=), new key",
        {
            "pysched": NATIVE.add_keyed,
            "heapq and a dict": heap.add_keyed,
            "asyncio and a dict": ASYNCIO.add_keyed,
            "twin": TWIN.add_keyed,
        },
        clock=cpu_ns,
        sizes=(USUAL,),
        others={"uvloop and a dict": UVLOOP.add_keyed},
    ),
    timed(
        "replace",
        "call_later(key=), held key",
        {
            "pysched": NATIVE.replace_keyed,
            "heapq and a dict": heap.replace_keyed,
            "asyncio and a dict": ASYNCIO.replace_keyed,
            "twin": TWIN.replace_keyed,
        },
        clock=cpu_ns,
        sizes=(USUAL,),
        others={"uvloop and a dict": UVLOOP.replace_keyed},
    ),
    timed(
        "cancel-key",
        "cancel_key",
        {
            "pysched": NATIVE.cancel_keyed,
            "call_later(key=)": NATIVE.add_keyed,
            "heapq and a dict": heap.cancel_keyed,
            "asyncio and a dict": ASYNCIO.cancel_keyed,
            "twin": TWIN.cancel_keyed,
        },
        clock=cpu_ns,
        sizes=(USUAL,),
        goal=Goal("<= 1.2x a keyed add", 1.2, "call_later(key=)"),
        others={"uvloop and a dict": UVLOOP.cancel_keyed},
    ),
]
