"""What a RuntimeError says.

At the recursion limit any call may raise one, a RecursionError, and so may a signal handler of the user's: neither is
the refusal that the caller of a function knows how to take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["raised_here", "says_closed"]


def raised_here(error: RuntimeError) -> bool:
    """Whether it comes from a function in C that was called where it is caught: what is of Python has a frame."""
    return type(error) is RuntimeError and error.__traceback__ is not None and error.__traceback__.tb_next is None


def says_closed(error: RuntimeError, loop: AbstractEventLoop) -> bool:
    """Whether `loop` raised it as it is closed."""
    return type(error) is RuntimeError and loop.is_closed()
