"""A signal handler that stops the engine while this very thread starts it must not wait for this thread."""

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
    assert_quiet(run_python(PROGRAM.format(executor=executor), engine=engine_name, timeout=60))
