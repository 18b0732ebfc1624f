"""The native timer heap by itself, against heapq."""

from __future__ import annotations

import heapq
import random
from types import SimpleNamespace

import pytest
from conftest import chosen_engines
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

if "native" not in chosen_engines():
    pytest.skip("only the twin is under test", allow_module_level=True)

from pysched._engine.heap import TimerHeap

SLOT_BITS = 24
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3) | st.sampled_from([-(2**63), -1, 0, 2**63 - 1])
SLOTS = st.integers(0, 2**SLOT_BITS - 1)


def drained(heap):
    return [heap.pop() for _ in range(len(heap))]


def test_an_empty_heap():
    heap = TimerHeap()
    assert len(heap) == 0
    assert heap.drain() == 0
    heap._check()
    for take in (heap.pop, heap.peek):
        with pytest.raises(IndexError):
            take()


def test_push_gives_the_tie_word_of_order_and_slot():
    heap = TimerHeap()
    for order, slot in enumerate([5, 1, 2**SLOT_BITS - 1, 1], start=1):
        assert heap.push(7, slot) == order << SLOT_BITS | slot


def test_the_order_goes_on_after_pops():
    heap = TimerHeap()
    heap.push(1, 1)
    heap.pop()
    heap.push(1, 1)
    heap.drain()
    assert heap.push(1, 1) >> SLOT_BITS == 3


@pytest.mark.parametrize(
    ("when", "slot"), [(2**63, 1), (-(2**63) - 1, 1), (1, 2**SLOT_BITS), (1, -1), (1, 2**70), ("1", 1)]
)
def test_what_does_not_fit_is_refused_and_changes_nothing(when, slot):
    heap = TimerHeap()
    heap.push(1, 1)
    with pytest.raises((ValueError, OverflowError, TypeError)):
        heap.push(when, slot)
    assert (len(heap), heap.peek()) == (1, (1, 1))
    assert heap.push(1, 2) >> SLOT_BITS == 2


@given(st.lists(st.tuples(TIMES, SLOTS), max_size=300))
def test_pops_come_by_time_then_by_submission(entries):
    heap = TimerHeap()
    for when, slot in entries:
        heap.push(when, slot)
        heap._check()
    expected = [entry for _, _, entry in sorted((entry[0], index, entry) for index, entry in enumerate(entries))]
    assert drained(heap) == expected


@given(st.lists(st.tuples(TIMES, SLOTS), max_size=300))
def test_drain_pops_all_in_order(entries):
    heap = TimerHeap()
    for when, slot in entries:
        heap.push(when, slot)
    assert heap.drain() == len(entries)
    assert len(heap) == 0
    heap.push(5, 6)
    assert drained(heap) == [(5, 6)]


@pytest.mark.parametrize("size", [*range(22), 63, 64, 65, 84, 85, 86, 340, 341, 342, 1365, 5000])
@pytest.mark.parametrize("shape", ["rising", "falling", "equal", "random"])
def test_every_size_around_the_borders_of_its_levels(size, shape):
    """4-ary levels end at 1, 5, 21, 85, 341, ... nodes."""
    generator = random.Random(size)
    times = {
        "rising": range(size),
        "falling": range(size, 0, -1),
        "equal": [7] * size,
        "random": [generator.randrange(size) for _ in range(size)],
    }[shape]
    heap = TimerHeap()
    for slot, when in enumerate(times):
        heap.push(when, slot)
    heap._check()
    expected = sorted((when, slot) for slot, when in enumerate(times))
    assert [heap.pop() for _ in range(size // 2)] == expected[: size // 2]
    heap._check()
    assert drained(heap) == expected[size // 2 :]


class AgainstHeapq(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.heap, self.model, self.order = TimerHeap(), [], 0

    @rule(when=TIMES, slot=SLOTS)
    def push(self, when, slot):
        self.order += 1
        assert self.heap.push(when, slot) == self.order << SLOT_BITS | slot
        heapq.heappush(self.model, (when, self.order, slot))

    @rule(when=st.integers(0, 3), count=st.integers(1, 40))
    def push_ties(self, when, count):
        for slot in range(count):
            self.push(when, slot)

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 10))
    def pop(self, count):
        for _ in range(min(count, len(self.model))):
            when, _, slot = heapq.heappop(self.model)
            assert self.heap.peek() == (when, slot)
            assert self.heap.pop() == (when, slot)

    @rule()
    def drain(self):
        assert self.heap.drain() == len(self.model)
        self.model.clear()

    @invariant()
    def same(self):
        self.heap._check()
        assert len(self.heap) == len(self.model)
        if self.model:
            assert self.heap.peek() == (self.model[0][0], self.model[0][2])


TestAgainstHeapq = AgainstHeapq.TestCase


@pytest.mark.stress
def test_a_large_heap_with_a_moving_window():
    """The pattern of a scheduler: the root goes, something later comes."""
    generator = random.Random(3)
    heap, model = TimerHeap(), []
    for number in range(20_000):
        when = generator.randrange(10**6)
        heapq.heappush(model, (when, heap.push(when, number % 1000)))
    for _ in range(20_000):
        when, tie = heapq.heappop(model)
        assert heap.pop() == (when, tie & 0xFFFFFF)
        later = when + generator.choice([1, 1000, 1000, 10**6])
        heapq.heappush(model, (later, heap.push(later, generator.randrange(1000))))
    heap._check()
    assert heap.drain() == 20_000


def test_two_heaps_share_nothing():
    both = SimpleNamespace(one=TimerHeap(), other=TimerHeap())
    both.one.push(1, 1)
    assert len(both.other) == 0
    assert both.other.push(1, 1) >> SLOT_BITS == 1
