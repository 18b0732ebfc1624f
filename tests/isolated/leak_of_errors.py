"""A thousand failing callbacks with large locals: memory does not grow, and no cycle is left to the collector."""

import gc
import logging
import resource
import sys

from pysched import Engine

SIZE = 10_000_000


class Quiet(logging.Handler):
    def emit(self, record):
        record.getMessage()


class Local:
    alive = 0

    def __init__(self):
        type(self).alive += 1
        self.block = bytearray(SIZE)

    def __del__(self):
        type(self).alive -= 1


def fail():
    local = Local()
    raise ValueError(len(local.block))


def give():
    return Local()


def forget(exc, handle):
    """Keeps nothing."""


def fail_too(exc, handle):
    raise RuntimeError("handler")


logging.getLogger("pysched").addHandler(Quiet())
logging.getLogger("pysched").propagate = False


def peak():
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


gc.disable()
engines = [Engine(executor, on_error=on_error) for executor in (None, 1) for on_error in (None, forget, fail_too)]


def rounds(count):
    for engine in engines:
        with engine:
            for _ in range(count):
                engine.call_later(0, fail)
                engine.call_later(0, give)
                assert engine.wait_idle(20)


rounds(5)
assert Local.alive == 0, Local.alive
gc.collect()
before = peak()
rounds(80)
assert Local.alive == 0, Local.alive
assert peak() - before < 5 * SIZE, (before, peak())
found = [thing for thing in gc.get_objects() if isinstance(thing, (ValueError, RuntimeError))]
assert not found, found
assert sum(engine.stats().errors for engine in engines) == 85 * len(engines)
