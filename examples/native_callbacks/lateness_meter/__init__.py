"""How late a timer is, measured without the GIL."""

from .meter import Meter

__all__ = ["Meter"]
