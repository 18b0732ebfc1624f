"""`Ticket`: a run of a managed job, whose manager says when it has ended and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pysched._pure.jobs import Outcome
from pysched.reports import log_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched._pure.job_core import JobCore
    from pysched._pure.jobs import JobCall

__all__ = ["Ticket"]


@final
class Ticket:
    """A run of a managed job, whose manager says when it has ended and how.

    `scheduled_wall_ns`: the slot on the wall clock. `number`: how many runs of the job have started, this included.
    `late_ns`: from when it was due to its start.
    """

    __slots__ = (
        "_called",
        "_claimed",
        "_core",
        "_finished",
        "_job",
        "_started_ns",
        "late_ns",
        "number",
        "scheduled_wall_ns",
    )

    def __init__(self, core: JobCore, run: JobCall) -> None:
        self._core = core
        self._job = run.job
        self.scheduled_wall_ns = run.scheduled
        self.number = run.number
        self.late_ns = run.late_ns
        self._started_ns = run.started_ns
        self._called = False  # through itself
        self._claimed = False
        self._finished = False

    @property
    def reference(self) -> int:
        """That of the job."""
        return self._job.reference

    def __call__(self, manager: Callable[[Ticket], object]) -> None:
        """Calls the manager with this; what an executor is given to call. Once, and not after the end of the run."""
        with self._core.lock:
            first = not (self._called or self._finished)
            self._called = True
        if first:
            manager(self)

    def claim(self) -> bool:
        """True for the one who asks first: the one who may end the run."""
        with self._core.lock:
            first = not self._claimed
            self._claimed = True
        return first

    def finish(self, failed: bool, timed_out: bool = False) -> None:
        """Ends the run: its instance is free."""
        self._end(Outcome.TIMED_OUT if timed_out else Outcome.FAILED if failed else Outcome.SUCCEEDED)

    def give_back(self) -> None:
        """Frees the instance of a run that has no outcome: it went with the parent of a fork."""
        self._end(Outcome.NONE)

    def _end(self, outcome: Outcome) -> None:
        core = self._core
        try:
            now = core.now()
        except BaseException as failure:  # the run must end all the same
            log_error(f"{core.name}: the clock has failed at the end of a run", failure)
            now = self._started_ns
        with core.lock:
            first = not self._finished
            self._claimed = self._finished = True
        if first:
            core.change(self._job, core.table.steps.ended, now, outcome)
