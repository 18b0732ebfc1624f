"""The exceptions that pysched raises beside Python's own."""

__all__ = ["JobCancelled", "TimerLimitError"]


class TimerLimitError(RuntimeError):
    """The engine holds as many live timers as it can; nothing was registered."""


class JobCancelled(Exception):
    """Raised by `CancelToken.raise_if_cancelled`: the run ends as failed, neither retried nor reported."""
