"""Whatever a timer goes through, nothing of it stays: no reference, no block of memory."""

import gc
import sys

from pysched import Engine
from pysched.testing import ManualClock


def callback(*args):
    """Does nothing."""


class Key:
    """Hashable by identity."""


def fail(*args):
    raise ValueError("run")


clock = ManualClock()
engine = Engine(clock=clock, on_error=lambda exc, handle: handle.when())
engine.start()
argument, key = object(), Key()


def once(round_):
    engine.call_later(1, callback, argument)
    engine.call_at(clock.time() + 1, callback, argument, argument)
    engine.call_later(1, callback, argument, key=(round_, key))
    engine.call_later(1, fail, argument)
    engine.call_many([1, 1], callback, [(argument,), (argument, argument)])
    every = engine.call_every(1, callback, argument, key=key)
    engine.call_every(1, callback, argument, key=key)
    replaced = engine.call_later(1, callback, argument, key="k")
    engine.call_later(5, callback, argument, key="k")
    cancelled = engine.call_later(1, callback, argument)
    handles = [every, replaced, cancelled]
    assert cancelled.cancel()
    assert not engine.cancel_key(("unknown", round_))
    clock.advance(1)
    assert engine.cancel_key(key)
    assert engine.cancel_key("k")
    for refused in (float("nan"), "1", -1):
        try:
            engine.call_later(refused, callback, argument)
        except (ValueError, TypeError):
            pass
    try:
        engine.call_many([1, 1, -1], callback, [(argument,)] * 3)
    except ValueError:
        pass
    try:
        engine.call_later(1, callback, argument, key=[argument])
    except TypeError:
        pass
    assert {repr(handle) for handle in handles}
    assert engine.stats().pending == len(engine) == 0


def measure():
    gc.collect()
    return (
        sys.getrefcount(callback), sys.getrefcount(fail), sys.getrefcount(argument), sys.getrefcount(key)
    ), sys.getallocatedblocks()  # fmt: skip


for round_ in range(300):
    once(round_)
references, blocks = measure()
for round_ in range(1000):
    once(round_)
references_after, blocks_after = measure()
engine._check()
assert references_after == references, (references, references_after)
assert blocks_after - blocks < 100, (blocks, blocks_after)
