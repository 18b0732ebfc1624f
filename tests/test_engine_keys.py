"""Keys: the newer timer replaces the older one of the same key; an unknown key leaves nothing behind."""

from __future__ import annotations

import sys
import threading
from fractions import Fraction
from random import Random

import pytest
from support import HANDLES, TOMORROW, WAIT, label, nothing, unchanged, wait_until

REGISTER_WITH_KEY = {
    "call_later": lambda engine, delay, callback, *args, key: engine.call_later(delay, callback, *args, key=key),
    "call_at": lambda engine, delay, callback, *args, key: engine.call_at(
        engine.time() + delay, callback, *args, key=key
    ),
    "call_every": lambda engine, delay, callback, *args, key: engine.call_every(
        TOMORROW, callback, *args, delay=delay, key=key
    ),
}
assert REGISTER_WITH_KEY.keys() == HANDLES.keys()

first_and_second = pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(first, second, id=f"{one}, then {two}")
        for one, first in REGISTER_WITH_KEY.items()
        for two, second in REGISTER_WITH_KEY.items()
    ],
)
registrations = pytest.mark.parametrize("register", REGISTER_WITH_KEY.values(), ids=REGISTER_WITH_KEY)


class Collision:
    """Hashes like all of its kind; equal by value, counting comparisons."""

    compared = 0

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 1

    def __eq__(self, other):
        type(self).compared += 1
        return isinstance(other, Collision) and self.value == other.value


@first_and_second
@pytest.mark.parametrize("started", [False, True])
def test_the_newer_timer_of_a_key_replaces_the_older(make_engine, clock, first, second, started):
    engine = make_engine(clock=clock)
    if started:
        engine.start()
    runs = []
    old = first(engine, 1, pytest.fail, "ran", key="k")
    new = second(engine, 2, runs.append, "new", key="k")
    assert (old.done(), old.cancelled(), old.cancel()) == (True, False, False)
    assert (new.done(), new.cancelled(), len(engine)) == (False, False, 1)
    engine.start()
    clock.advance(3)
    assert runs == ["new"]
    assert engine.stats()[:5] == (2, 1, 1, 0, 0)


@registrations
def test_replacing_is_right_in_every_mode(rig, register):
    engine = rig.engine
    engine.start()
    ran = threading.Event()
    register(engine, 0.02, pytest.fail, "ran", key=("a", 1))
    register(engine, 0.02, ran.set, key=("a", 1))
    rig.until(ran.is_set)
    rig.settle()
    assert engine.stats().started == 1


@registrations
def test_cancel_key_is_cancel_of_the_handle_that_holds_it(engine, clock, register):
    handle = register(engine, 1, pytest.fail, "ran", key="k")
    assert engine.cancel_key("k") is True
    assert engine.cancel_key("k") is False
    assert (handle.done(), handle.cancelled(), handle.cancel(), len(engine)) == (True, False, False, 0)
    assert clock.advance(5) == 0
    assert engine.stats().cancelled == 1


@registrations
def test_cancel_frees_the_key(engine, register):
    handle = register(engine, 1, nothing, key="k")
    assert handle.cancel()
    assert engine.cancel_key("k") is False
    assert not register(engine, 1, nothing, key="k").done()
    assert engine.stats().cancelled == 1


def test_a_key_is_free_as_soon_as_its_one_shot_starts(rig):
    engine = rig.engine
    seen = []

    def run():
        seen.append(engine.cancel_key("k"))
        seen.append(engine.call_later(TOMORROW, nothing, key="k"))

    engine.call_later(0, run, key="k")
    engine.start()
    rig.settle()
    assert seen[0] is False
    assert not seen[1].done()
    assert (engine.stats().cancelled, len(engine)) == (0, 1)
    assert engine.cancel_key("k") is True


def test_a_key_belongs_to_a_periodic_timer_until_it_is_cancelled(engine, clock):
    seen = []
    engine.call_every(1, lambda: seen.append(len(seen) == 2 and engine.cancel_key("k")), key="k")
    clock.advance(10)
    assert seen == [False, False, True]
    assert engine.cancel_key("k") is False


def test_the_key_of_a_queued_run_still_holds(make_engine):
    engine = make_engine(1)
    release = threading.Event()
    engine.call_later(0, release.wait, WAIT)
    engine.call_later(0, pytest.fail, "ran", key="k")
    with engine:
        assert wait_until(lambda: engine.stats().ready == 1 and engine.stats().running == 1)
        assert engine.cancel_key("k") is True
        release.set()
        assert engine.wait_idle(WAIT)
    assert engine.stats().started == 1


@registrations
@pytest.mark.parametrize("how", ["run", "cancel", "cancel_key", "replace"])
def test_an_ended_timer_takes_nothing_from_its_successor(engine, clock, register, how):
    """A late cancel of the old handle must not touch the new owner of the key."""
    old = register(engine, 0, nothing, key="k")
    match how:
        case "run":
            clock.advance(0)
            old.cancel()
        case "cancel":
            old.cancel()
        case "cancel_key":
            engine.cancel_key("k")
    new = engine.call_later(1, nothing, key="k")
    assert old.cancel() is False
    assert not new.done()
    assert engine.cancel_key("k") is True
    assert new.done()


@registrations
@pytest.mark.parametrize("key", [[], {}, set(), ([],), bytearray()], ids=label)
def test_unhashable_keys_are_refused_by_name(engine, register, key):
    with unchanged(engine), pytest.raises(TypeError, match="key"):
        register(engine, 1, nothing, key=key)


@pytest.mark.parametrize("key", [[], {}, ([],)], ids=label)
def test_cancel_key_refuses_unhashable_keys_by_name(engine, key):
    with unchanged(engine), pytest.raises(TypeError, match="key"):
        engine.cancel_key(key)


@registrations
def test_none_means_no_key(engine, register):
    for _ in range(3):
        register(engine, 1, nothing, key=None)
    assert len(engine) == 3
    assert engine.stats().cancelled == 0


@registrations
@pytest.mark.parametrize(
    "key",
    ["k", "", 0, False, -1, 1.5, float("inf"), b"k", (), ("a", (1, 2)), frozenset({1}), Ellipsis, int, object(), 2**70],
    ids=label,
)
def test_everything_hashable_is_a_key(engine, register, key):
    register(engine, 1, nothing, key=key)
    assert not register(engine, 2, nothing, key=key).done()
    assert len(engine) == 1
    assert engine.cancel_key(key) is True
    assert engine.cancel_key(key) is False


def test_keys_are_the_same_by_equality_as_in_a_dict(engine):
    engine.call_later(1, nothing, key=1)
    engine.call_later(1, nothing, key=1.0)
    engine.call_later(1, nothing, key=True)
    engine.call_later(1, nothing, key=Fraction(1))
    assert len(engine) == 1
    nan = float("nan")
    engine.call_later(1, nothing, key=nan)
    engine.call_later(1, nothing, key=nan)
    assert len(engine) == 2
    assert engine.cancel_key(nan)
    assert engine.cancel_key(1)
    assert len(engine) == 0


def test_keys_that_collide_are_kept_apart(engine, clock):
    runs = []
    for value in range(50):
        engine.call_later(1, pytest.fail, "ran", key=Collision(value))
    for value in range(50):
        engine.call_later(1, runs.append, value, key=Collision(value))
    assert engine.cancel_key(Collision(7))
    assert not engine.cancel_key(Collision(7))
    assert not engine.cancel_key(Collision(50))
    engine._check()
    assert clock.advance(1) == 49
    assert runs == [value for value in range(50) if value != 7]


@registrations
@pytest.mark.parametrize("method", ["__hash__", "__eq__"])
def test_an_error_of_the_key_is_passed_on_and_changes_nothing(engine, register, method):
    class Key:
        broken = False

        def __hash__(self):
            if self.broken and method == "__hash__":
                raise ZeroDivisionError("mine")
            return 1

        def __eq__(self, other):
            if self.broken or other.broken:
                raise ZeroDivisionError("mine")
            return False

    register(engine, 1, nothing, key=Key())
    bad = Key()
    bad.broken = True
    with unchanged(engine), pytest.raises(ZeroDivisionError, match="mine"):
        register(engine, 1, nothing, key=bad)
    with unchanged(engine), pytest.raises(ZeroDivisionError, match="mine"):
        engine.cancel_key(bad)


def test_a_key_that_cannot_be_compared_any_more_holds_nothing_up(engine, clock):
    """Its timer starts and is cancelled by handle as any other, and the loop goes on."""

    class Key:
        comparable = True

        def __hash__(self):
            if not self.comparable:
                raise ZeroDivisionError("hashed")
            return id(self) >> 4

        def __eq__(self, other):
            return self is other

    runs, keys = [], [Key() for _ in range(3)]
    engine.call_later(1, runs.append, 1, key=keys[0])
    handle = engine.call_later(1, runs.append, 2, key=keys[1])
    engine.call_every(1, runs.append, 3, key=keys[2])
    Key.comparable = False
    assert handle.cancel()
    clock.advance(2)
    assert runs == [1, 3, 3]
    assert engine.stats().errors == 0
    Key.comparable = True
    assert not engine.cancel_key(keys[0])
    assert not engine.cancel_key(keys[1])
    assert engine.cancel_key(keys[2])


@registrations
@pytest.mark.parametrize("act", ["cancel", "replace", "run", "many"])
def test_an_equality_that_uses_the_engine_is_safe(engine, clock, register, act):
    """__eq__ runs in the middle of a replacement; what it does to the same key must not confuse anyone."""
    depth = []

    class Key:
        def __init__(self, meddle):
            self.meddle = meddle

        def __hash__(self):
            return 1

        def __eq__(self, other):
            if self.meddle and not depth:
                depth.append(1)
                match act:
                    case "cancel":
                        engine.cancel_key(Key(False))
                    case "replace":
                        engine.call_later(5, nothing, key=Key(False))
                    case "run":
                        engine.call_later(5, nothing)
                    case "many":
                        for value in range(100):
                            engine.call_later(5, nothing, key=value)
            return isinstance(other, Key)

    engine.call_later(1, nothing, key=Key(False))
    register(engine, 2, nothing, key=Key(True))
    engine._check()
    stats = engine.stats()
    assert stats.scheduled == stats.cancelled + len(engine)
    assert engine.cancel_key(Key(False)) is True
    assert engine.cancel_key(Key(False)) is False
    engine._check()
    clock.advance(10)
    engine._check()


def test_unknown_keys_leave_nothing_behind(engine):
    class Key:
        """Hashable by identity."""

    key = Key()
    references = sys.getrefcount(key)
    for _ in range(100):
        assert engine.cancel_key(key) is False
    assert sys.getrefcount(key) == references
    engine._check()


def test_one_key_from_many_threads_leaves_exactly_one_timer(make_engine):
    engine = make_engine()
    barrier = threading.Barrier(4)
    live = []

    def register():
        barrier.wait(WAIT)
        for _ in range(250):
            live.append(engine.call_later(TOMORROW, nothing, key=Collision("k")))

    threads = [threading.Thread(target=register) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine) == 1
    assert engine.stats().cancelled == 999
    assert [handle.done() for handle in live].count(False) == 1
    assert engine.cancel_key(Collision("k"))


def test_keys_that_come_and_go_are_found_as_long_as_they_are_there(make_engine, clock):
    """Against a dict, with keys that crowd the same places of a table and many that were there before."""
    engine = make_engine(clock=clock)
    random = Random(5)
    held = {}
    pool = [Collision(number) for number in range(30)] + [2**61 * n for n in range(40)] + list("abcdefgh")
    for step in range(6000):
        key = random.choice(pool)
        if random.random() < 0.5:
            held[key] = engine.call_later(TOMORROW, nothing, key=key)
        else:
            assert engine.cancel_key(key) is (held.pop(key, None) is not None)
        if step % 250 == 0:
            engine._check()
    assert len(engine) == len(held)
    for key, handle in held.items():
        assert engine.cancel_key(key) is True
        assert handle.done()


def test_a_table_of_keys_stays_fit_however_many_have_passed_through_it(make_engine, clock):
    engine = make_engine(clock=clock)
    for number in range(30_000):
        engine.call_later(TOMORROW, nothing, key=number)
        if number >= 10:
            assert engine.cancel_key(number - 10)
    assert not engine.cancel_key(0)
    assert len(engine) == 10
    engine._check()
