"""Greenlets: one thread whose stack comes and goes, in the midst of a callback too."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet cannot be installed on this Python"
)


def overwrite_stack(depth=200):
    return overwrite_stack(depth - 1) if depth else list(map(str, range(100)))


def test_a_callback_may_switch_to_another_greenlet_and_come_back(impl, clock):
    import greenlet

    engine = impl.Engine(clock=clock)
    engine.start()
    main = greenlet.getcurrent()
    ran = []

    def callback():
        ran.append(main.switch("inside"))

    engine.call_later(1, callback)
    engine.call_later(2, ran.append, "after")
    advance = greenlet.greenlet(lambda: clock.advance(2))
    assert advance.switch() == "inside"
    overwrite_stack()
    assert engine.stats().running == 1
    with pytest.raises(RuntimeError, match="would wait for itself"):  # the thread is inside a callback
        engine.wait_idle(0)
    engine.call_later(0.5, ran.append, "between")
    assert advance.switch("back") == 3
    assert ran == ["back", "between", "after"]
    assert engine.wait_idle(0)
    assert engine.stats().running == 0
    engine._check()


def test_an_engine_may_be_stopped_and_started_while_a_callback_is_switched_away(impl, clock):
    import greenlet

    engine = impl.Engine(clock=clock)
    engine.start()
    main = greenlet.getcurrent()
    engine.call_later(1, main.switch, "inside")
    advance = greenlet.greenlet(lambda: clock.advance(1))
    assert advance.switch() == "inside"
    assert engine.stop(), "the thread's own callback does not count"
    overwrite_stack()
    engine.start()
    assert advance.switch() == 1
    assert engine.stop()
    assert engine.stats().running == 0
    engine._check()
