"""An allocation that fails is a MemoryError at the registration, which loses and changes nothing."""

import array
import gc
import resource
import sys

from pysched import Engine, engine_name
from pysched.testing import ManualClock

if not sys.platform.startswith("linux"):
    sys.exit()  # elsewhere the limit is not kept

NATIVE = engine_name == "native"
MEMORY = 120_000_000 if NATIVE else 40_000_000
TOO_MANY = 14_000_000 if NATIVE else 1_000_000
CHUNK = 100_000 if NATIVE else 10_000


def size():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


ran = 0


def run():
    global ran
    ran += 1


clock = ManualClock()
engine = Engine(clock=clock)
engine.start()
delays = array.array("d", range(100)) * (CHUNK // 100)
many = array.array("d", [1.0]) * TOO_MANY
reserve = bytearray(5_000_000)  # to fail in what is under test, and not in this script

resource.setrlimit(resource.RLIMIT_AS, (size() + MEMORY, resource.RLIM_INFINITY))
registered = 0
failed = False
before = engine.stats().scheduled
try:
    # In one piece: they do not fit, and none of them may stay.
    engine.call_many(many, run)
except MemoryError:
    failed = True
del reserve
assert failed
assert (len(engine), engine.stats().scheduled) == (0, 0), engine.stats()
engine._check()
del many

failed = False
try:
    for _ in range(200):
        registered += engine.call_many(delays, run)
except MemoryError:
    failed = True
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
gc.collect()
assert failed, registered
if not NATIVE and len(engine) > registered:
    registered += CHUNK  # Python itself may run out of memory once all is done, on the way back
assert len(engine) == registered == engine.stats().scheduled, (len(engine), registered)
engine._check()
assert clock.advance(2) == ran == 3 * registered // 100, (registered, ran)
assert len(engine) == registered - ran
engine.call_later(0, run)
assert clock.advance(0) == 1
engine._check()
