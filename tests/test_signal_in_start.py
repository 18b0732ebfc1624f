"""Signal handlers that come in while this very thread starts an engine or runs it: they stop it, or raise."""

from __future__ import annotations

import pytest
from support import assert_quiet, run_python

PROGRAM = """
import signal, time
from pysched import Engine

for attempt in range(120):
    engine = Engine({executor})
    signal.signal(signal.SIGALRM, lambda number, frame: engine.stop())
    engine.call_later(0.02, engine.stop)
    signal.setitimer(signal.ITIMER_REAL, 0.00002 * (attempt % 40) + 1e-6)
    if attempt % 2:
        engine.start()
        time.sleep(0.001)
        engine.stop()
    else:
        engine.run()
"""


@pytest.mark.parametrize("executor", [None, 2])
def test_a_stop_in_a_handler_returns_whatever_line_of_a_start_it_interrupts(engine_name, executor):
    assert_quiet(run_python(PROGRAM.format(executor=executor), engine=engine_name, timeout=240))


RAISING = """
import signal, sys, threading, time
from pysched import Engine

def nothing():
    pass

signal.signal(signal.SIGALRM, lambda number, frame: sys.exit("terminated"))
for attempt in range(240):
    engine = Engine({executor}, on_error=lambda exc, handle: engine.stop())
    engine.call_every(0.0001, nothing)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00002 * (attempt % 40) + 1e-6)
        if attempt % 2:
            engine.start()
            while True:
                time.sleep(1)
        engine.run()
    except SystemExit:
        pass
    except RuntimeError as error:  # the handler came in while threading.Thread.start() held a lock of its own
        assert isinstance(error.__context__, SystemExit), error
    assert engine.stop(20), attempt
    assert not engine.running
    ran = threading.Event()
    engine.call_later(0, ran.set)
    engine.start()
    assert ran.wait(20), attempt
    assert engine.wait_idle(20), attempt
    assert engine.stop(20), attempt
    engine._check()
"""


@pytest.mark.parametrize("executor", [None, 2])
def test_an_engine_can_be_started_again_whatever_line_of_a_start_a_handler_leaves_by_raising(engine_name, executor):
    """As a handler of SIGTERM that calls sys.exit does."""
    assert_quiet(run_python(RAISING.format(executor=executor), engine=engine_name, timeout=240))
