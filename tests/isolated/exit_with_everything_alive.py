"""The interpreter tears down handles, engines, clocks and destructors that use them, in any order, in silence."""

import atexit
import sys
import threading

from pysched import Engine
from pysched.testing import ManualClock


class Using:
    def __init__(self, engine):
        self.engine = engine

    def __del__(self):
        self.engine.call_later(1, print).cancel()
        len(self.engine)
        self.engine.stats()
        self.engine.stop(0)


clock = ManualClock()
engines = [Engine(), Engine(2), Engine(clock=clock), Engine(name="never started")]
handles = []
for engine in engines:
    handles.append(engine.call_later(3600, print, Using(engine)))
    handles.append(engine.call_every(0.001, int, key=Using(engine)))
    handles.append(engine.call_every(3600, Using, engine))
    engine.call_many([3600] * 10, print, [(Using(engine),)] * 10)
for engine in engines[:3]:
    engine.start()
clock.advance(1)
atexit.register(lambda: [engine.call_later(0, int) for engine in engines])
sys.modules["kept alive"] = handles  # freed after most of everything else
threading.Thread(target=lambda: [handle.when() for handle in handles]).start()
