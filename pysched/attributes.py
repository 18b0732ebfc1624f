"""Attributes that an object may lack."""

from __future__ import annotations

from typing import Any

__all__ = ["attribute_or_none"]


def attribute_or_none(command: object, name: str) -> Any:
    """The attribute, or None if there is none: duck-typed commands may lack `key` and `repeat_interval_s`.

    Not `getattr(command, name, None)`, which takes a property that fails with AttributeError for missing.
    """
    try:
        return getattr(command, name)
    except AttributeError:
        if hasattr(type(command), name):
            raise
        return None
