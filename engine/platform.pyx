"""The engine's clocks, as Python functions for tests; the rest of this module is platform.h."""


def read_monotonic_ns():
    """The clock of deadlines, which is that of `time.monotonic_ns()`."""
    return monotonic_ns()


def read_wall_ns():
    """Nanoseconds since the Unix epoch."""
    return wall_ns()
