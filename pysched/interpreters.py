"""Which of the interpreters of this process this is."""

from __future__ import annotations

import sys

__all__ = ["in_main_interpreter"]


def in_main_interpreter() -> bool:
    """Whether this is no sub-interpreter; True also where that cannot be known."""
    try:
        if sys.version_info >= (3, 13):
            from _thread import _is_main_interpreter

            return _is_main_interpreter()
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # private, and so it may go
        return True
    return bool(interpreters.get_current() == interpreters.get_main())
