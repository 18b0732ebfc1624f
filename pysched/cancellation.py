"""Tokens that tell whether a queued command is still wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pysched.attributes import attribute_or_none

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pysched.commands import Command

__all__ = ["CancellationRegistry"]


class _Token:
    """Stands for one submission of a key; only its identity matters."""

    __slots__ = ("__weakref__",)


class CancellationRegistry:
    """Which token of each key is active: the one activated last, unless the key was removed since.

    Ours are held weakly. They live as long as the queue entry that carries them, so what has run leaves
    nothing behind, however many keys there are. Tokens of another make (the methods take any object) are
    kept until their key is removed or activated anew.

    Not thread-safe: guard it and the queue with one lock. Each method is O(1).
    """

    def __init__(self) -> None:
        self._active: WeakValueDictionary[Hashable, _Token] = WeakValueDictionary()
        self._foreign: dict[Hashable, object] = {}

    def new_token(self, command: Command) -> object | None:
        """A fresh token, not yet active; None for a command without a key."""
        return None if attribute_or_none(command, "key") is None else _Token()

    def activate(self, command: Command, token: object | None) -> None:
        """Make `token` the active one of the command's key: the earlier one is cancelled by that.

        Does nothing for a command without a key.
        """
        key = attribute_or_none(command, "key")
        if key is None:
            return
        self.remove(key)
        if isinstance(token, _Token):
            self._active[key] = token
        elif token is not None:
            self._foreign[key] = token

    def remove(self, key: Hashable) -> None:
        """Cancel what is active under `key`. An unknown key is silent and leaves nothing behind."""
        self._active.pop(key, None)
        self._foreign.pop(key, None)

    def is_active(self, command: Command, token: object | None) -> bool:
        """Whether `token` is the active one of the command's key; always true without a key."""
        key = attribute_or_none(command, "key")
        if key is None:
            return True
        if isinstance(token, _Token):
            return self._active.get(key) is token
        return token is not None and self._foreign.get(key) is token
