"""The collector may run at any allocation, and a destructor that it calls may use the engine.

With a threshold of 1 it runs inside nearly everything, on the engine's own threads too, so a lock that is
held over an allocation hangs here, and a change that is half done is seen here.
"""

import faulthandler
import gc
import itertools
import threading

from pysched import Engine
from pysched.testing import ManualClock

faulthandler.dump_traceback_later(40, exit=True)

used = itertools.count()


class Using:
    """Garbage in a cycle, whose end uses the engine."""

    def __init__(self, engine):
        self.engine = engine
        self.cycle = self

    def __del__(self):
        engine = self.engine
        turn = next(used)
        match turn % 6:
            case 0:
                engine.call_later(1000, int, key=turn % 7)
            case 1:
                engine.cancel_key(turn % 5)
            case 2:
                engine.call_every(1000, int, key=turn % 3).cancel()
            case 3:
                engine.call_many([1000, 1000], int)
            case 4:
                engine.stats()
                len(engine)
                engine.next_deadline()
            case 5:
                engine.call_later(0, int)


def work(engine, rounds):
    for number in range(rounds):
        Using(engine)
        engine.call_later(0, int, key=number % 5)
        Using(engine)
        engine.call_every(0.5, int, key=number % 3)
        Using(engine)
        engine.call_later(1, int).cancel()
        Using(engine)
        engine.cancel_key(number % 5)
        Using(engine)
        engine.call_many([0, 1], int)
        Using(engine)
        engine.stats()
        repr(engine.call_later(0, Using, engine))


thresholds = gc.get_threshold()

clock = ManualClock()
manual = Engine(clock=clock)
manual.start()
gc.set_threshold(1)
for _ in range(30):
    work(manual, 3)
    clock.advance(0.5)
gc.set_threshold(*thresholds)
manual._check()
manual.stop()
gc.collect()

for executor in (None, 2):
    engine = Engine(executor)
    engine.start()
    gc.set_threshold(1)
    threads = [threading.Thread(target=work, args=(engine, 25)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.set_threshold(*thresholds)
    assert engine.stop(20)
    engine._check()
    stats = engine.stats()
    assert stats.errors == 0, stats
    assert next(used) > 100

gc.collect()
