"""How due runs reach the threads that call them: four ways, one for each kind of executor.

`pass_on` is called by the loop, on its thread, with nothing held. It raises what the executor raises,
which ends the loop; runs that were queued then return to the heap.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from pysched.lifecycle import exiting, leave_pool
from pysched.reports import log_error, printable

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from pysched._pure.core import Core, Session
    from pysched._pure.timers import Run

__all__ = ["Crew", "HandOff", "Inline", "OneByOne", "Pool", "pool_size"]

BATCH = 256  # runs queued while the lock is held once


class HandOff(Protocol):
    def pass_on(self, now_ns: int) -> bool:
        """Pass on what is due at `now_ns`, or a part of it; whether to be called again at once."""

    def close(self) -> None:
        """The loop has ended."""


class Inline:
    """Callbacks run on the loop's own thread, one at a time."""

    def __init__(self, core: Core, session: Session) -> None:
        self._core = core
        self._session = session

    def pass_on(self, now_ns: int) -> bool:
        run = self._core.start_due(self._session, now_ns, get_ident())
        if run is None:
            return False
        self._core.execute(run, self._session)
        return run.timer.counted

    def close(self) -> None:
        pass


class Drains:
    """Callbacks run on worker threads, in batches: what `Pool` and `Crew` share.

    A submit costs more than most callbacks, so what is submitted is a drain, which takes one run after the
    other from the ready queue until that is empty. There are always as many drains between two callbacks
    as there are runs that wait, or workers that are free: a slow callback delays nobody while a worker is
    free. Neither a start (one run fewer, one drain fewer) nor an end (one worker more, one drain more)
    breaks that, so only the loop submits.

    `_active` drains are submitted and have not ended, `_busy` of them are inside a callback; both are guarded
    by the lock of the core.
    """

    def __init__(self, core: Core, session: Session, max_workers: int) -> None:
        self._core = core
        self._session = session
        self._max_workers = max_workers
        self._active = 0
        self._busy = 0

    def pass_on(self, now_ns: int) -> bool:
        core, table = self._core, self._core.table
        with core.lock:
            more = not self._session.stopping and table.promote_some(now_ns, BATCH)
            free = self._max_workers - self._busy
            wanted = min(len(table.ready), free) - (self._active - self._busy)
            self._active += max(0, wanted)
        submitted = 0
        try:
            while submitted < wanted:
                self._submit()
                submitted += 1
        except BaseException:
            # A pool that has no new thread for a drain says no and keeps it: so it stays counted, and counts itself out
            # if it gets one after all.
            with core.lock:
                self._active -= wanted - submitted - 1
            raise
        return more

    def _submit(self) -> None:
        """Have a worker call `_drain`."""
        raise NotImplementedError

    def _drain(self) -> None:
        entered = self._core.enter()
        try:
            while self._run_one():
                pass
        except BaseException as failure:  # the clock's
            with self._core.lock:
                self._active -= 1
            self._session.fail(failure)
        finally:
            self._core.leave(entered)

    def _run_one(self) -> bool:
        core = self._core
        now = core.look()
        with core.lock:
            run = core.start_next(self._session, now, get_ident())
            if run is None:
                self._active -= 1
                return False
            self._count_busy(1)
        try:
            core.execute(run, self._session)
        finally:
            with core.lock:
                self._count_busy(-1)
        return True

    def _count_busy(self, change: int) -> None:
        """Under the lock."""
        self._busy += change
        self._core.note_busy(self._session, self._busy >= self._max_workers)


class Pool(Drains):
    """The workers are those of a ThreadPoolExecutor."""

    def __init__(self, core: Core, session: Session, executor: ThreadPoolExecutor, max_workers: int, own: bool) -> None:
        super().__init__(core, session, max_workers)
        self._executor = executor
        self._own = own

    def close(self) -> None:
        if self._own:
            self._executor.shutdown(wait=False)

    def _submit(self) -> None:
        self._executor.submit(self._drain_of, os.getpid()).add_done_callback(self._drained)

    def _drain_of(self, process: int) -> None:
        self._drain()
        if self._own and os.getpid() != process:  # a callback has forked, and this is the child
            leave_pool(self._executor)

    def _drained(self, future: Future[None]) -> None:
        """Take back the count of a drain that was cancelled, or whose pool broke, before it began."""
        if future.cancelled() or future.exception() is not None:
            with self._core.lock:
                self._active -= 1
            self._session.wake.set()  # the loop submits another, or learns that the pool is shut down


class Crew(Drains):
    """The workers are daemon threads, for which nobody waits at the exit of the interpreter.

    The loop's thread hands over to them as to a pool; in the compiled engine one of them is the one that waits.
    """

    def __init__(self, core: Core, session: Session, max_workers: int) -> None:
        super().__init__(core, session, max_workers)
        self._calls: SimpleQueue[bool] = SimpleQueue()
        name = printable(core.name)
        self.threads = [Thread(target=self._serve, name=f"{name}-worker_{i}", daemon=True) for i in range(max_workers)]

    def open(self) -> None:
        """Start the threads. RuntimeError if there can be no more of them; `close` must follow."""
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        for _ in self.threads:
            self._calls.put(False)

    def _submit(self) -> None:
        self._calls.put(True)

    def _serve(self) -> None:
        """What each thread does; one that forked in a callback ends with it: in the child the session has ended."""
        while not self._session.ended and self._calls.get():
            self._drain()


class OneByOne:
    """Each callback is submitted to an executor of another kind (processes, a cluster, a test's).

    It counts as started when it is submitted, and as running until its future is done.
    """

    def __init__(self, core: Core, session: Session, executor: Any) -> None:
        self._core = core
        self._session = session
        self._executor = executor

    def pass_on(self, now_ns: int) -> bool:
        run = self._core.start_due(self._session, now_ns, 0)
        if run is None:
            return False
        self._submit(run)
        return True

    def close(self) -> None:
        pass

    def _submit(self, run: Run) -> None:
        answer = Answer(self, run)  # beforehand, as there must be one if it was submitted; lives on if it is refused
        taken = run.take()
        try:
            future = self._executor.submit(*self._core.call_of(run, taken))
        except BaseException:
            self._core.give_back(run, taken)
            raise
        answer.kept = self._core.kept_of(run, taken)
        try:
            future.add_done_callback(answer)
        except BaseException:  # no future: nobody will tell of the end
            self._tell(run, self._core.omission_of(run))
            self._dismiss(answer.kept)
            self._core.end(run)
            raise

    def is_open(self, run: Run) -> bool:
        """Whether the end of the run is still to be told."""
        return run.order in self._core.table.runs

    def done(self, run: Run, future: Future[object] | None, kept: Any) -> None:
        """The run has ended, as its future says; None: that is gone, and nobody will ever tell."""
        if not self.is_open(run):
            return  # its future told before
        entered = self._core.enter()  # in on_error nobody may wait for this run
        run.thread = get_ident()  # which is inside of it from now on
        from concurrent.futures import Future

        dropped = False
        try:
            if future is None:
                raise RuntimeError("the executor dropped the future of the callback, whose end nobody knows now")
            dropped = bool(future.cancelled())
            error = None if dropped else future.exception() or self._core.omission_of(run)
            self._tell(run, error)
            if not dropped and error is None and isinstance(future, Future):  # others may have to fetch the result
                self._core.take_result(run, future.result())
        except BaseException as failure:  # a future of another make may answer with anything
            dropped = False
            self._tell(run, failure)
        finally:
            self._dismiss(kept)
            self._core.leave(entered)
            try:
                self._core.end(run, dropped)
            except BaseException as failure:  # the clock's
                self._session.fail(failure)

    def _tell(self, run: Run, error: BaseException | None) -> None:
        if error is not None:
            self._core.fail(run, error)

    def _dismiss(self, kept: Any) -> None:
        try:
            self._core.dismiss(kept)
        except BaseException as failure:
            log_error(f"{self._core.name}: a callback failed to end", failure)


class Answer:
    """What a future is to call at its end, or to let go of if there will be none."""

    __slots__ = ("_pool", "_run", "kept")

    def __init__(self, pool: OneByOne, run: Run) -> None:
        self._pool = pool
        self._run = run
        self.kept: Any = None  # what `dismiss` gets

    def __call__(self, future: Future[object]) -> None:
        self._pool.done(self._run, future, self.kept)

    def __del__(self) -> None:
        if self._pool.is_open(self._run) and not exiting():
            self._pool.done(self._run, None, self.kept)


def pool_size(executor: object) -> int | None:
    """The number of threads of a ThreadPoolExecutor; None for anything else."""
    module = sys.modules.get("concurrent.futures.thread")
    if module is None or not isinstance(executor, module.ThreadPoolExecutor):
        return None
    size = getattr(executor, "_max_workers", None)
    return size if isinstance(size, int) else None
