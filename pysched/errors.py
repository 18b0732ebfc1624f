"""The exceptions that pysched raises beside Python's own."""

__all__ = ["TimerLimitError"]


class TimerLimitError(RuntimeError):
    """The engine holds as many live timers as it can; nothing was registered."""
