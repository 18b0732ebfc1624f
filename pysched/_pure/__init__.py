"""The twin: the engine in plain Python, readable, and the oracle of the tests of the compiled one.

``PYSCHED_ENGINE=pure`` chooses it. It keeps the same promises with the same words; only its speed differs.
"""

from __future__ import annotations

from pysched._pure.commands import CommandScheduler
from pysched._pure.dispatch import Engine
from pysched._pure.handle import TimerHandle

__all__ = ["CommandScheduler", "Engine", "TimerHandle"]
