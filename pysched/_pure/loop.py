"""The life of an engine: start, stop, the loop and its waits, exit and fork.

The loop is three steps over and over: pass on what is due, find the next deadline, wait for it. It waits
with nothing held and wakes for three reasons: the deadline, a new head, a stop. Who brings one of the
latter about sets `Session.wake`, which stays set until the loop has cleared it and looked at everything
anew, so nothing is missed in between.
"""

from __future__ import annotations

import threading
import time
from _thread import RLock, get_ident
from functools import partial
from sys import is_finalizing
from typing import TYPE_CHECKING, Any

from pysched import lifecycle
from pysched._pure.core import Session
from pysched._pure.handoff import Crew, Inline, OneByOne, Pool, pool_size
from pysched.apart import apart, is_on_main_thread
from pysched.clock import NEVER, DrivingClock, SystemClock
from pysched.reports import log_error, log_warning, printable
from pysched.waiting import Waiters, join

if TYPE_CHECKING:
    from pysched._pure.core import Core
    from pysched._pure.handoff import HandOff
    from pysched.clock import Driven

__all__ = ["Loop"]

LEAVE_S = 5
"""How long an interrupted `run` waits for its loop, which leaves at once."""

TRIES = 100
"""How often the end of a session is begun anew after something was raised in it."""

SIGNALS_S = 0.5
"""How long a `run` waits at a time: a signal that comes right before a wait does not end it."""


class Loop:
    """Starts and stops sessions of one engine; `executor` and `daemon` are as `Engine` takes them, and checked."""

    thread_suffix = ""  # the thread's name is that of the engine, and this

    def __init__(self, core: Core, executor: Any, daemon: bool, spin_ns: int) -> None:
        self._core = core
        self._executor = executor
        self._daemon = daemon
        self._spin_ns = spin_ns
        self._executor_lost = False  # it belongs to the parent of this forked child
        self._driver = core.clock if isinstance(core.clock, DrivingClock) else None
        self._age = self._driver.enlist() if self._driver is not None else 0
        self._thread: threading.Thread | None = None  # that of the latest session
        self._crew: list[threading.Thread] = []  # daemon workers of that session, and older ones that still run

    # -- start ------------------------------------------------------------------------------------------

    def start(self, engine: Driven) -> None:
        """Begin a session, whose thread (or driving clock) keeps `engine` alive; or take a stop back."""
        self._check_startable()
        # An insider: a signal handler that stops the engine meanwhile must not wait for this thread. Without
        # `enter` and `leave`, in which a handler that raises could leave it one for ever.
        thread, insiders = get_ident(), self._core.insiders
        outside = thread not in insiders
        try:
            insiders.add(thread)
            self._start(engine)
        finally:
            if outside:
                insiders.discard(thread)

    def _start(self, engine: Driven) -> None:
        session = Session(self._core.now())
        try:
            if not self._begin(session):
                return
            if self._driver is not None:
                self._driver.attach(self._age, engine)
                return
            apart(partial(self._open_alone, engine, session))
        except BaseException:  # a signal handler's, too: from the first line of the session on
            if self._driver is not None:
                self._driver.detach(engine)
            self._shut(session)
            raise

    def run(self, engine: Driven) -> None:
        """Be the loop, on this thread, or wait for its end."""
        if self._driver is not None:
            raise RuntimeError(f"{self._core.name}: its clock runs it; there is nothing for run() to wait for")
        self._check_startable()
        thread, insiders = get_ident(), self._core.insiders
        outside = thread not in insiders
        try:
            insiders.add(thread)
            self._run(engine)
        finally:
            if outside:
                insiders.discard(thread)

    def _run(self, engine: Driven) -> None:
        core = self._core
        session = Session(core.now())
        try:
            begun = self._begin(session, resume=False)
            if begun is None:
                return
            if not begun:
                raise RuntimeError(f"{core.name} is running already")
            if is_on_main_thread() and self._executor is not None:
                self._run_beside(engine, session)
                return
            session.interruptible = is_on_main_thread()
            self._serve(session, self._open(session))
        finally:
            self._shut(session)

    def _run_beside(self, engine: Driven, session: Session) -> None:
        """`run` with an executor on the main thread: the loop has a thread of its own, whose end this one awaits.

        Were it here, a signal handler that raises, Ctrl-C's for one, could interrupt the executor's Python code
        between the instructions that take and free a lock, and then that lock would never be free again.
        Nobody sees the difference: callbacks do not run here in any case.
        """
        core = self._core

        def is_closed() -> bool:
            with core.lock:
                return session.closed

        session.awaited = True
        try:
            thread = apart(partial(self._open_alone, engine, session))
            while not core.waiters.wait_for(is_closed, SIGNALS_S):
                pass
            if thread is not None:
                thread.join()  # it is about to tell what has ended it
        except BaseException:
            session.stop()
            if self._thread is not None and self._thread.is_alive():
                core.waiters.wait_for(is_closed, LEAVE_S)
            raise
        if session.failure is not None:
            failure, session.failure = session.failure, None
            raise failure

    def _open(self, session: Session) -> HandOff:
        hand_off = session.hand_off = self._make_hand_off(session)
        if isinstance(hand_off, Crew):
            self._crew = [thread for thread in self._crew if thread.is_alive()] + hand_off.threads
            hand_off.open()
        return hand_off

    def _open_alone(self, engine: Driven, session: Session) -> threading.Thread | None:
        """Give the loop a thread of its own. Here the threads of the session before are let go of, too.

        As an insider: a destructor that stops the engine meanwhile must not wait for this start.
        """
        if session.closed:
            return None  # by the main thread, before this one began
        entered = self._core.enter()
        try:
            hand_off = self._open(session)
            name = printable(self._core.name) + self.thread_suffix
            arguments = engine, session, hand_off
            thread = threading.Thread(target=self._serve_alone, args=arguments, name=name, daemon=True)
            if not session.closed:  # else that of a later session may stand there
                self._thread = thread
            thread.start()
        finally:
            self._core.leave(entered)
        return thread

    def _check_startable(self) -> None:
        if self._executor_lost:
            raise RuntimeError("the executor was made before a fork and has no threads here: make a new engine")
        if self._driver is None:
            lifecycle.arm()
            if lifecycle.exiting():
                raise RuntimeError("an engine cannot be started while the interpreter ends")

    def _begin(self, session: Session, resume: bool = True) -> bool | None:
        """Begin `session`, if there is no other; whether it was. None, and nothing is begun, if the engine was closed.

        `resume`: take a stop back that is under way.
        """
        core = self._core
        with core.lock:
            if core.closed:
                return None
            current = core.session
            if resume and current is not None and current.stopping and current.failure is not None:
                self._end(current, forced=True)  # it cannot go on; its loop will tell of that
            if core.begin(session):
                return True
            current = core.session  # None: a signal handler has come in, and stopped it
            resumed = resume and current is not None and current.stopping and current.failure is None
            if current is not None and resumed:
                current.wake.set()
                core.announce()
                current.stopping = False
        if resumed:
            core.go_on()
        if resumed and core.table.runs:
            log_warning(f"{core.name}: a callback from before the stop still runs; its loop goes on")
        return False

    def _make_hand_off(self, session: Session) -> HandOff:
        core, executor = self._core, self._executor
        if executor is None:
            return Inline(core, session)
        if isinstance(executor, int) and self._daemon:
            return Crew(core, session, executor)
        if isinstance(executor, int):
            from concurrent.futures import ThreadPoolExecutor

            own = ThreadPoolExecutor(executor, thread_name_prefix=f"{printable(core.name)}-worker")
            return Pool(core, session, own, executor, own=True)
        workers = pool_size(executor)
        if workers is not None:
            return Pool(core, session, executor, workers, own=False)
        return OneByOne(core, session, executor)

    # -- the loop ---------------------------------------------------------------------------------------

    def _serve_alone(self, engine: Driven, session: Session, hand_off: HandOff) -> None:  # noqa: ARG002
        """The loop's own thread; its frame keeps the engine alive. What ends the loop is for `run` to raise."""
        entered = self._core.enter()
        try:
            self._serve(session, hand_off)
        except BaseException:
            pass  # `_serve` has logged it
        finally:
            self._core.leave(entered)

    def _serve(self, session: Session, hand_off: HandOff) -> None:
        """Be the loop, and let go of its workers. What ends it is logged and raised, and so is what that raises.

        But for what `run` ends with because somebody wanted it, which is only raised.
        """
        try:
            self._loop(session, hand_off)
        except BaseException as failure:
            self._end(session, forced=True)  # nothing starts while this is told, in a drain that a pool has kept say
            self._ends_with(session, failure, "the loop has ended")
            raise
        finally:
            try:
                self._close(session)
            except BaseException as failure:
                session.hand_off = None  # once is enough: nobody interrupts a loop that has a pool
                self._ends_with(session, failure, "the loop has ended, but not its pool")
                raise

    def _ends_with(self, session: Session, failure: BaseException, message: str) -> None:
        if session.awaited and session.failure is None:
            session.failure = failure
        wanted = session.interruptible and isinstance(failure, (KeyboardInterrupt, SystemExit))
        if not wanted and not lifecycle.exiting():
            log_error(f"{self._core.name}: {message}", failure)

    def _loop(self, session: Session, hand_off: HandOff) -> None:
        """Until the session has ended. Raises what the clock or the executor raises."""
        core = self._core
        while True:
            session.wake.clear()
            if session.failure is not None:
                failure, session.failure = session.failure, None
                raise failure
            if session.stopping:
                if self._end(session, forced=False):
                    return
            else:
                now = core.look()
                core.settle()
                core.run_alarms(session, now)
                if not hand_off.pass_on(now):
                    self._wait(session)

    def _wait(self, session: Session) -> None:
        """Sleep until the next deadline, if it has not come yet, or until woken."""
        core = self._core
        core.settle()
        now = core.now()
        with core.lock:
            head = core.table.head()
            due = NEVER if head is None else head[0]
            if session.stopping or due <= now:
                return
            session.sleeps_until_ns = due
        core.announce()  # slots that were only coalesced are no longer due
        left = min(due - now if due < NEVER else NEVER, core.longest_wait_ns())
        try:
            if type(core.clock) is not SystemClock:
                core.clock.wait(session.wake, seconds(left))
            else:
                if left > self._spin_ns:
                    session.wake.wait(seconds(left if left == NEVER else left - self._spin_ns))
                if self._spin_ns:
                    self._poll(session, due)
        finally:
            session.sleeps_until_ns = -NEVER
            core.wakeups += 1

    def _poll(self, session: Session, due: int) -> None:
        """Poll the clock until `due`, if that is near, or until woken; other threads have their turn at each look."""
        while not session.wake.is_set() and 0 < due - self._core.now() <= self._spin_ns:
            time.sleep(0)

    def _close(self, session: Session) -> None:
        """End a session for good, and let go of its workers. Idempotent."""
        core = self._core
        self._end(session, forced=True)
        hand_off = session.hand_off
        try:
            if hand_off is not None:
                hand_off.close()
                session.hand_off = None
        finally:
            session.wake.set()  # if this is not the loop's own thread: a loop that sleeps has to leave
            with core.lock:
                core.announce()
                session.closed = True

    def _end(self, session: Session, forced: bool) -> bool:
        """Let nothing of a session start any more, unless a start has taken the stop back; a `forced` end cannot be."""
        core = self._core
        with core.lock:
            if not forced and not session.stopping:
                return False
            session.stopping = True
            session.ended = True
            if core.session is session:
                core.table.put_back()
                core.session = None
        return True

    def _shut(self, session: Session) -> None:
        """End a session on the thread that made it, although signal handlers raise meanwhile.

        What fails by itself, a pool without memory for its last word say, would fail for ever.
        """
        interruption: BaseException | None = None
        for _ in range(TRIES):
            try:
                if not session.closed or session.hand_off is not None:
                    self._close(session)
                if session.interruptible:
                    self._core.end_interrupted()
                break
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption

    # -- stop and wait ----------------------------------------------------------------------------------

    def stop(self, engine: Driven, timeout_s: float | None) -> bool:
        core = self._core
        alone = self._is_alone()
        session, threads = core.session, [self._thread, *self._crew]
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if session is not None:
            session.stop()
            if self._driver is not None:
                if self._end(session, forced=False):
                    self._close(session)
                self._driver.detach(engine)
        if core.must_not_wait() or alone:
            with core.lock:  # a worker that saw no mark has by now counted its run as started
                return core.others_running() == 0

        def is_over() -> bool:
            with core.lock:
                if session is not None and not session.closed:
                    return not session.stopping  # a start took the stop back
                return not core.table.runs or core.session is not None

        if core.waiters.wait_for(is_over, timeout_s) and (session is None or session.closed):
            for thread in threads:
                self._join(thread, deadline)
        return core.session is None and not core.table.runs

    def _join(self, thread: threading.Thread | None, deadline: float | None) -> None:
        """Wait for the last instructions of a thread of ours, so that nobody sees it after ``stop``."""
        if thread is not None and thread is not threading.current_thread():
            join(thread, deadline)

    def wait_idle(self, timeout_s: float | None) -> bool:
        core = self._core
        if self._is_alone():
            return core.is_idle()
        if core.must_not_wait():
            raise RuntimeError("wait_idle on a thread of the engine would wait for itself")
        if self._driver is not None:
            return core.is_idle()
        return core.waiters.wait_for(core.is_idle, timeout_s)

    def _is_alone(self) -> bool:
        """Whether the interpreter ends: other threads are gone, wherever they were, perhaps with the lock.

        None of them can have been in a straight stretch (`table`), so there is nothing to put in order.
        """
        alone = is_finalizing()
        if alone:
            self._core.lock = RLock()
        return alone

    def run_next(self, now_ns: int) -> bool:
        """What a driving clock calls: run the one earliest callback that is due."""
        core = self._core
        session = core.session
        if session is None:
            return False
        entered = core.enter()
        try:
            return Inline(core, session).pass_on(now_ns)
        except BaseException:
            core.end_interrupted()
            raise
        finally:
            core.leave(entered)

    # -- exit and fork ----------------------------------------------------------------------------------

    def at_exit(self) -> None:
        session = self._core.session
        if session is not None:
            session.stop()

    def after_fork_in_child(self, engine: Driven) -> None:
        """Be stopped: the threads are gone, and with them what ran on them."""
        core = self._core
        core.lock = RLock()
        session, core.session = core.session, None
        if session is not None:
            # If this very thread is in a callback, its loop finds the session closed and touches nothing.
            session.stopping = session.ended = session.closed = True
        core.table.put_back()
        core.table.forget_runs()
        core.insiders = set()
        core.waiters = Waiters()
        self._executor_lost = self._executor is not None and not isinstance(self._executor, int)
        if self._driver is not None:
            self._driver.detach(engine)


def seconds(left_ns: int) -> float | None:
    """How long a wait may take: none of `threading` takes more than TIMEOUT_MAX."""
    return None if left_ns == NEVER else min(left_ns / 1e9, threading.TIMEOUT_MAX)
