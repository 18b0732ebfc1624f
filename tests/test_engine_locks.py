"""No lock is held while foreign code runs.

Each test lets foreign code wait for another thread that uses the engine: with a lock held, both would wait
for ever (here: until in_other_thread gives up).
"""

from __future__ import annotations

import logging
import threading

import pytest
from support import TOMORROW, WAIT, assert_quiet, in_other_thread, listening, nothing, run_python, wait_until

GIVE_UP = 5.0
"""Seconds after which foreign code stops waiting, so that a failing test ends."""


def use(engine):
    """Everything that another thread may want of an engine."""
    engine.call_later(TOMORROW, nothing, key="of the other").cancel()
    engine.call_every(TOMORROW, nothing, key="of the other")
    engine.cancel_key("of the other")
    engine.call_many([TOMORROW], nothing)
    engine.next_deadline()
    engine.stats()
    len(engine)
    assert engine.running in (True, False)


class Foreign:
    """Foreign code: called, it lets another thread use the engine and notes whether that came to an end."""

    def __init__(self):
        self.engine = None
        self.ended = []

    def __call__(self, *args):
        engine = self.engine
        if engine is not None:
            self.engine = None  # once
            self.ended.append(in_other_thread(lambda: use(engine), GIVE_UP))


@pytest.fixture
def foreign():
    return Foreign()


@pytest.fixture
def free(rig, foreign):
    """An engine, and `foreign` set to it; asserts at the end that foreign code ran and was not held up."""
    foreign.engine = rig.engine
    yield rig
    assert foreign.ended == [True]


class Deleted:
    def __init__(self, foreign):
        self.foreign = foreign

    def __del__(self):
        self.foreign()


def test_in_a_callback(free, foreign):
    free.engine.call_later(0, foreign)
    free.engine.start()
    free.settle()


@pytest.mark.parametrize("what", ["callback", "argument", "key"])
@pytest.mark.parametrize("how", ["cancel", "cancel_key", "replace"])
def test_in_a_destructor_after_cancelling(free, foreign, what, how):
    class Key:
        """Owns a Deleted."""

    key = Key() if what == "key" else "k"
    if what == "key":
        key.owned = Deleted(foreign)
    callback = (lambda owned: lambda *args: owned)(Deleted(foreign) if what == "callback" else None)
    args = [Deleted(foreign)] if what == "argument" else []
    handle = free.engine.call_later(TOMORROW, callback, *args, key=key)
    del callback, args
    match how:
        case "cancel":
            del key
            handle.cancel()
        case "cancel_key":
            free.engine.cancel_key(key)
            del key
        case "replace":
            free.engine.call_later(TOMORROW, nothing, key=key)
            free.engine.cancel_key(key)
            del key


@pytest.mark.parametrize("method", ["call_later", "call_many", "call_every"])
def test_in_a_destructor_after_a_run(free, foreign, method):
    match method:
        case "call_later":
            free.engine.call_later(0, nothing, Deleted(foreign))
        case "call_many":
            free.engine.call_many([0], nothing, [(Deleted(foreign),)])
        case "call_every":
            handle = free.engine.call_every(
                TOMORROW, lambda owned: (handle.cancel(), None)[1], Deleted(foreign), delay=0
            )
    free.engine.start()
    free.settle()
    assert wait_until(lambda: foreign.ended)


def test_in_a_destructor_of_what_a_callback_returned(free, foreign):
    free.engine.call_later(0, Deleted, foreign)
    free.engine.start()
    free.settle()
    assert wait_until(lambda: foreign.ended)


def test_in_on_error(make_rig, foreign):
    rig = make_rig(on_error=foreign)
    foreign.engine = rig.engine
    rig.engine.call_later(0, [].pop)
    rig.engine.start()
    rig.settle()
    assert foreign.ended == [True]


def test_in_a_logging_handler(free, foreign, logged):
    class Handler(logging.Handler):
        def handle(self, record):
            """In place of the inherited one, which would hold a lock of its own."""
            foreign()

    with listening(Handler()):
        free.engine.call_later(0, [].pop)
        free.engine.start()
        free.settle()


@pytest.mark.parametrize("method", ["__hash__", "__eq__"])
@pytest.mark.parametrize("act", ["call_later", "call_every", "call_at", "cancel_key", "cancel", "run"])
def test_in_the_hash_and_equality_of_a_key(make_rig, foreign, method, act):
    """In the last two only if the engine asks the key at all."""
    rig = make_rig()
    engine = rig.engine

    class Key:
        def __hash__(self):
            if method == "__hash__":
                foreign()
            return 1

        def __eq__(self, other):
            if method == "__eq__":
                foreign()
            return True

    first = engine.call_later(0 if act == "run" else TOMORROW, nothing, key=Key())
    foreign.engine = engine
    foreign.ended.clear()
    match act:
        case "call_later" | "call_at":
            getattr(engine, act)(TOMORROW, nothing, key=Key())
        case "call_every":
            engine.call_every(TOMORROW, nothing, key=Key())
        case "cancel_key":
            assert engine.cancel_key(Key())
        case "cancel":
            assert first.cancel()
        case "run":
            engine.start()
            rig.settle()
    if act in ("cancel", "run"):
        assert foreign.ended in ([], [True])
    else:
        assert foreign.ended == [True]


@pytest.mark.parametrize("act", ["call_later", "call_every", "call_at", "call_many", "wait_idle", "stop"])
@pytest.mark.parametrize("method", ["__float__", "__index__"])
def test_in_the_conversion_of_a_number(free, foreign, act, method):
    class Number:
        """Converts itself below."""

    def convert(self):
        foreign()
        return 1.0 if method == "__float__" else 1

    setattr(Number, method, convert)
    free.engine.start()
    match act:
        case "call_many":
            free.engine.call_many([Number()], nothing)
        case "wait_idle" | "stop":
            getattr(free.engine, act)(Number())
        case _:
            getattr(free.engine, act)(Number(), nothing)


@pytest.mark.parametrize("where", ["delays", "args"])
def test_in_the_iterators_of_call_many(free, foreign, where):
    def one(item):
        foreign()
        yield item

    if where == "delays":
        free.engine.call_many(one(TOMORROW), nothing)
    else:
        free.engine.call_many([TOMORROW], nothing, one(()))


def test_while_stop_waits_for_a_callback(make_engine):
    """Also registering and a second stop find no lock held by the first."""
    engine = make_engine()
    inside, release = threading.Event(), threading.Event()
    engine.call_later(0, lambda: (inside.set(), release.wait(WAIT)))
    engine.start()
    assert inside.wait(WAIT)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    assert wait_until(lambda: not engine.running)
    assert in_other_thread(lambda: use(engine), GIVE_UP)
    assert in_other_thread(lambda: engine.stop(0), GIVE_UP)
    release.set()
    stopper.join(WAIT)


def test_while_the_loop_sleeps(rig):
    rig.engine.call_later(TOMORROW, nothing)
    rig.engine.start()
    assert in_other_thread(lambda: use(rig.engine), GIVE_UP)


def test_an_argument_freed_by_a_failed_registration(free, foreign):
    with pytest.raises(TypeError, match="args"):
        free.engine.call_many([1, 1], nothing, [(Deleted(foreign),), None])


def test_what_a_dropped_engine_frees_may_use_another(free, foreign, impl):
    dropped = impl.Engine()
    dropped.call_later(TOMORROW, nothing, Deleted(foreign))
    del dropped
    assert wait_until(lambda: foreign.ended)


@pytest.mark.parametrize(
    "call",
    [
        "engine.stop()",
        "engine.stop(1)",
        "engine.start()",
        "engine.wait_idle(1)",
        "engine.call_later(9, int, key=1)",
        "engine.call_every(9, int, 1, 2)",
        "engine.call_many([9.0, 9.0], int)",
        "engine.call_later(9, int, key='%d' % 10**9)",
        "engine.call_later(9, int, key=b'%d' % 10**9)",
        "engine.call_later(9, int, key=int('1234567'))",
        "engine.cancel_key(1)",
        "engine.call_later(9, int).cancel()",
        "engine.next_deadline()",
        "engine.stats()",
        "repr(engine)",
    ],
)
def test_a_call_with_too_little_of_the_stack_left_leaves_no_lock_taken(call):
    """Any call of Python's may raise there, one that is made under the mutex as well. Of the twin that is not asked: a
    `with` itself may have no stack to give the lock back."""
    process = run_python(
        f"""
        import sys
        from pysched import Engine

        def deep(left):
            return deep(left - 1) if left else {call}

        engine = Engine()
        raised = 0
        for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit()):
            try:
                deep(depth)
            except RecursionError:
                raised += 1
            engine._check()
        assert 0 < raised < 300
        assert engine.stop(10)
        """,
        engine="native",
        timeout=30,
    )
    assert_quiet(process)
