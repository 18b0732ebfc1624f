"""Engines that are made, used and dropped leave nothing: neither memory nor garbage nor threads."""

import gc
import sys
import threading

from pysched import Engine
from pysched.testing import ManualClock


class Owner:
    """The everyday cycle: the engine's timers call the engine's owner."""

    alive = 0

    def __init__(self, executor=None, **options):
        type(self).alive += 1
        self.engine = Engine(executor, on_error=self.on_error, **options)
        self.handles = [
            self.engine.call_later(3600, self.tick),
            self.engine.call_every(3600, self.tick, key=self),
            self.engine.call_later(0, self.tick),
        ]
        self.engine.call_many([3600] * 50, self.tick, [(number,) for number in range(50)])
        self.ticked = threading.Event()

    def __del__(self):
        type(self).alive -= 1

    def tick(self, *args):
        self.ticked.set()

    def on_error(self, exc, handle):
        """Never called."""


def never_started():
    Owner()


def on_a_manual_clock():
    clock = ManualClock()
    owner = Owner(clock=clock)
    owner.engine.start()
    assert clock.advance(0) == 1
    owner.engine.stop()


def inline():
    owner = Owner()
    with owner.engine:
        assert owner.ticked.wait(20)


def with_a_pool():
    owner = Owner(2)
    with owner.engine:
        assert owner.ticked.wait(20)


def stopped_by_its_own_callback():
    engine = Engine(1)
    done = threading.Event()
    engine.call_later(0, lambda: (engine.stop(), done.set()))
    engine.start()
    assert done.wait(20)
    assert engine.stop(20)


USES = [never_started, on_a_manual_clock, inline, with_a_pool, stopped_by_its_own_callback]


def use_all(times):
    for _ in range(times):
        for use in USES:
            use()
    # A thread's last references go when it has ended.
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(20)
    gc.collect()


use_all(30)
blocks = sys.getallocatedblocks()
use_all(60)
grown = sys.getallocatedblocks() - blocks
assert Owner.alive == 0, Owner.alive
assert threading.active_count() == 1, threading.enumerate()
assert not gc.garbage
assert grown < 500, grown
