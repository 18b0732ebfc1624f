"""What a scheduler keeps of its jobs beside what the engine counts: ids, options, the last errors.

A job that is all default has nothing here at all: its id is its reference in the engine, written out.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from pysched.job import DEFAULTS, JobOptions
from pysched.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysched.job import JobInfo

__all__ = ["JobBook"]


class JobBook:
    """Jobs by id and by reference. Safe in any thread; nothing of it is called with the engine's mutex held.

    `prefix`: what default ids begin with. `lives(reference)`: whether the engine has that job. `calls(reference)`:
    whether a thread is inside of its callback. `discard(reference)`: takes back that it was added, held.
    """

    def __init__(
        self,
        prefix: str,
        lives: Callable[[int], bool],
        calls: Callable[[int], bool],
        discard: Callable[[int], None],
    ) -> None:
        self.prefix = prefix
        self._lives = lives
        self._calls = calls
        self._discard = discard
        self._naming = RLock()  # held while a job gets an id of the user's
        self._named: list[tuple[str, int]] = []  # under that lock: of its holder, and of handlers that came in
        self.lookalikes = False  # whether users have taken ids that look like default ones
        self.ids: dict[str, int] = {}  # of jobs that have an id of their own, by it: their references
        self.options: dict[int, JobOptions] = {}  # of jobs that are not all default, by reference
        self.errors: dict[int, str] = {}  # last_error of jobs that have failed, by reference
        self.departed: dict[int, JobInfo] = {}  # jobs that were removed while their callback ran, by reference

    # -- looking --

    def options_of(self, reference: int) -> JobOptions:
        return self.options.get(reference, DEFAULTS)

    def default_id(self, reference: int) -> str:
        return f"{self.prefix}{reference:x}"

    def id_of(self, reference: int) -> str:
        """Of a job that was removed too, as long as its callback runs."""
        record = self.options.get(reference)
        if record is not None:
            return self.default_id(reference) if record.id is None else record.id
        left = self.departed.get(reference)
        return self.default_id(reference) if left is None else left.id

    def reference_of(self, job_id: str) -> int:
        """Raises KeyError for an unknown id."""
        if not isinstance(job_id, str):
            raise KeyError(job_id)
        plain = str.__str__(job_id)  # as it was entered, however a subclass hashes and compares
        reference = self.ids.get(plain) or self._of_default_id(plain)
        if not reference:
            raise KeyError(job_id)
        return reference

    def _of_default_id(self, job_id: str) -> int:
        """The reference of a live job that has this id by default, or 0."""
        if not job_id.startswith(self.prefix):
            return 0
        try:
            reference = int(job_id[len(self.prefix) :], 16)
        except ValueError:
            return 0
        if self.default_id(reference) != job_id or reference >> 56:
            return 0
        record = self.options.get(reference)
        if (record is not None and record.id is not None) or not self._lives(reference):
            return 0
        return reference

    # -- entering --

    def enter(self, reference: int, record: JobOptions | None) -> str:
        """Enter a new job that was given no id, and is held if there is a record; returns the id that it has."""
        if record is not None:
            self.options[reference] = record
        return self.checked_id(self.default_id(reference), reference)

    def checked_id(self, job_id: str, reference: int) -> str:
        """The default id of a new job, or one like it if a user has taken that."""
        if self.lookalikes and job_id in self.ids:
            with self._naming:
                while job_id in self.ids:
                    job_id += "+"
                self.ids[job_id] = reference
                self.options.setdefault(reference, JobOptions()).id = job_id
        return job_id

    def enter_as(self, job_id: str, reference: int, record: JobOptions, replace: bool, replaced: list[int]) -> None:
        """Enter a new job, which is still held, under an id of the user's; puts the jobs that go for it in `replaced`.

        Before they lose the id, so that who takes the entry back can give it to them again.  Raises ValueError, with
        the job discarded, if the id is taken and not `replace`.
        """
        with self._naming:
            begin = len(self._named)
            try:
                self._named.append((job_id, reference))
                old = self.ids.get(job_id) or self._of_default_id(job_id)
                if old and self._lives(old):  # else its end is about to be told
                    if not replace:
                        raise _taken(job_id)
                    replaced.append(old)
                self.options[reference] = record
                self.ids[job_id] = reference
                # A signal handler, or a destructor, may have taken the id since it was looked up.
                rivals = [other for name, other in self._named[begin + 1 :] if name == job_id]
                rivals = [other for other in rivals if other != self.ids[job_id] and self._lives(other)]
                if rivals and not replace and self.ids[job_id] == reference:
                    self.ids[job_id] = rivals[-1]
                    self.options.pop(reference)
                    raise _taken(job_id)
                replaced += rivals
                self.lookalikes = self.lookalikes or job_id.startswith(self.prefix)
            except BaseException:  # here, before another thread can be given the id
                self.withdraw(reference, replaced)
                raise
            finally:
                if not begin:
                    self._named.clear()

    def withdraw(self, reference: int, replaced: list[int]) -> None:
        """Take back that a new job was entered; the one it was to replace has its id again, if it is still there."""
        record = self.options.get(reference)
        self._discard(reference)
        self.forget(reference)
        if record is None or record.id is None:
            return
        with self._naming:
            for old in replaced:
                if self.options_of(old).id == record.id and self._lives(old):
                    self.ids.setdefault(record.id, old)

    def set_error(self, reference: int, text: str) -> None:
        self.errors[reference] = text
        if not self._lives(reference):  # it was removed, and nobody would take this away
            self.errors.pop(reference, None)

    # -- leaving --

    def forget(self, reference: int) -> None:
        """A job has left, or was removed."""
        self.errors.pop(reference, None)
        if reference in self.options:
            with self._naming:  # a new job may be getting the id just now
                record = self.options.get(reference)
                if record is not None and record.id is not None and self.ids.get(record.id) == reference:
                    del self.ids[record.id]
                self.options.pop(reference, None)

    def depart(self, reference: int, info: JobInfo) -> None:
        """Remember a job that is being removed while its callback runs, for as long as it does."""
        for other in list(self.departed):
            if not self._calls(other):
                self.departed.pop(other, None)
        self.departed[reference] = info

    def still_calling(self) -> list[tuple[int, JobInfo]]:
        """The removed jobs whose callbacks run."""
        return [(reference, info) for reference, info in list(self.departed.items()) if self._calls(reference)]

    def after_fork_in_child(self) -> None:
        self._naming = RLock()  # a thread of the parent may have held the other one
        self._named.clear()
        self.departed.clear()

    def check(self) -> None:
        """Raises AssertionError if ids and options disagree."""
        with self._naming:
            for job_id, reference in list(self.ids.items()):
                record: Any = self.options.get(reference)
                if record is None or record.id != job_id:
                    raise AssertionError("an id and its job disagree")


def _taken(job_id: str) -> ValueError:
    return ValueError(f"id {shown(job_id)} is taken; use replace=True to replace that job")
