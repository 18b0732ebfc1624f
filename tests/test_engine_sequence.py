"""The count of submissions is used up after 2^40 of them; then all are numbered anew, in their order."""

from __future__ import annotations

import random

import pytest

import pysched._engine as native
from pysched.testing import ManualClock

LAST = 2**40 - 1


@pytest.mark.parametrize("left", range(8))
def test_ties_keep_their_order_over_the_end_of_the_count(left):
    clock, ran = ManualClock(), []
    engine = native.Engine(clock=clock)
    engine.start()
    for number in range(20):
        if number == 10:
            engine._set_order(LAST - left)
        engine.call_later(1, ran.append, number)
        engine._check()
    clock.advance(1)
    assert ran == list(range(20))


def test_everything_goes_on_while_the_count_ends_again_and_again():
    generator = random.Random(5)
    clock = ManualClock()
    engine = native.Engine(clock=clock)
    engine.start()
    ran: list[int] = []
    handles = []
    expected = 0
    ticks = engine.call_every(0.75, ran.append, -1)
    for number in range(400):
        handles.append(engine.call_later(generator.choice([0, 0.5, 1, 1, 2]), ran.append, number, key=number % 50))
        if generator.random() < 0.3:
            generator.choice(handles).cancel()
        if generator.random() < 0.3:
            engine._set_order(LAST - generator.randrange(6))
        if generator.random() < 0.2:
            expected += clock.advance(0.25)
        engine._check()
    expected += clock.advance(10)
    assert len(ran) == expected == engine.stats().started
    assert len(set(ran) - {-1}) == len([number for number in ran if number >= 0])
    ticks.cancel()
    assert len(engine) == 0
