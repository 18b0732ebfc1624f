"""The largest number of live timers is a clear error, and the engine goes on; needs 1.3 GB for some seconds."""

from __future__ import annotations

import array
import sys

import pysched

LARGEST = 2**24 - 1
TOMORROW = 86_400.0

if pysched.engine_name == "pure":
    sys.exit()  # has no limit but memory

engine = pysched.Engine()
many = array.array("d", [TOMORROW]) * (LARGEST + 1)


def refused(register: object, *args: object) -> bool:
    assert callable(register)
    before = len(engine)
    try:
        register(*args)
    except pysched.TimerLimitError:
        return len(engine) == before
    return False


assert refused(engine.call_many, many, int)
handle = engine.call_later(TOMORROW, int)
assert refused(engine.call_many, many[:LARGEST], int)
assert engine.call_many(many[: LARGEST - 1], int) == LARGEST - 1
assert len(engine) == LARGEST
assert refused(engine.call_later, 0, int)
assert refused(engine.call_every, 1, int)
assert refused(engine.call_many, [0.0], int)
assert refused(lambda: engine.call_later(0, int, key="k"))
assert not engine.cancel_key("k")
assert handle.cancel()
assert len(engine) == LARGEST - 1
assert not refused(engine.call_later, TOMORROW, int)
assert refused(engine.call_later, 0, int)
assert len(engine) == LARGEST
