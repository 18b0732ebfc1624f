"""How values that users gave stand in messages."""

from __future__ import annotations

__all__ = ["shown"]

_LONGEST = 60


def shown(value: object) -> str:
    """The repr of any value, cut at 60 characters. O(1) for text.

    The name of its type, if it has no repr: numbers of more than 4,300 digits have none, nor have fractions of them.
    """
    try:
        if isinstance(value, (str, bytes)):
            value = value[: _LONGEST + 1]
        text = repr(value)
    except Exception:
        return f"{type(value).__name__}(...)"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
