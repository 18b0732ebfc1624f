"""Cancelled and ended timers give their memory to those that come after; a debounce does not grow for ever."""

import gc
import resource
import sys

from pysched import Engine, engine_name

COUNT = 50_000 if engine_name == "native" else 5_000


def peak():
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


engine = Engine()


def fill_and_cancel():
    for handle in [engine.call_later(3600 + number, print, number) for number in range(COUNT)]:
        assert handle.cancel()


def debounce():
    for number in range(4 * COUNT):
        engine.call_later(3600 + number, print, number, key=number % 10)


def unknown_keys():
    for number in range(4 * COUNT):
        assert not engine.cancel_key(("unknown", number))


fill_and_cancel()
debounce()
gc.collect()
before, blocks = peak(), sys.getallocatedblocks()
for _ in range(3):
    fill_and_cancel()
    debounce()
    unknown_keys()
    engine._check()
gc.collect()
assert len(engine) == 10
assert sys.getallocatedblocks() - blocks < 1000, (blocks, sys.getallocatedblocks())
assert peak() - before < 8_000_000, (before, peak())
