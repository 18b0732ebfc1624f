"""The table of an engine's timers: heap (`deadlines`), ready queue, keys, runs in progress.

Ground rules. One table belongs to one engine, whose lock guards it; all methods want it held, except
where they say otherwise. Under that lock no foreign code is called and no reference of a user's released.

Foreign code runs there all the same: a destructor whenever the garbage collector starts, a signal handler
on the main thread. Both may call back into the engine, on this thread, which holds the lock (it is
re-entrant), and a handler may raise KeyboardInterrupt. And memory may run out. So each change is one
*straight* stretch, marked in the code: all that may fail comes first, new counts and containers included;
then only assignments follow, and at most one call into C that needs no memory. CPython lets others in when
a call returns and where it jumps; a straight stretch has neither: the conditions that it stands under are
the last thing looked at, and fall through to it. Where somebody did get in before, it is tried again.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from pysched._pure.deadlines import Deadlines
from pysched._pure.grid import slots_between, slots_by
from pysched._pure.keys import NO_TIMERS, KeyTable
from pysched._pure.timers import NOBODY, Run
from pysched.clock import NEVER

if TYPE_CHECKING:
    from pysched._pure.deadlines import Entry
    from pysched._pure.keys import Bucket
    from pysched._pure.timers import Taken, Timer

__all__ = ["TimerTable"]


class TimerTable(Deadlines):
    """Every live timer of an engine, in order of (due, submission).

    Registering, promoting and re-arming cost O(log n), cancelling O(1) amortised.
    """

    __slots__ = ("cancelled", "coalesced", "dropped", "errors", "keys", "ready", "runs", "scheduled", "started")

    def __init__(self) -> None:
        super().__init__()
        self.scheduled = 0
        self.started = 0
        self.cancelled = 0
        self.coalesced = 0
        self.errors = 0
        self.dropped = 0
        self.ready: OrderedDict[int, Timer] = OrderedDict()  # order of the run -> its timer
        self.runs: dict[int, Run] = {}  # order of the run -> a callback in progress
        self.keys = KeyTable()

    # -- registration and cancellation ------------------------------------------------------------------

    def add(self, timer: Timer) -> None:
        """Register a timer without a key. O(log n)."""
        while not timer.armed:
            edition = self._push(timer)
            if self._edition == edition:
                # straight:
                live = self.live + 1
                armed = self.armed + 1
                self.scheduled += timer.counted
                self.live = live
                self.armed = armed
                timer.armed = True

    def add_many(self, timers: list[Timer]) -> None:
        """Register timers without keys, all or none of them. O(k log n)."""
        count = len(timers)
        sink = deque[None](maxlen=0)  # runs an iterator in C to its end
        while True:
            arming = map(setattr, timers, itertools.repeat("armed"), itertools.repeat(True))
            entries = []
            for timer in timers:
                timer.order = next(self._orders)
                entries.append((timer.due_ns, timer.order, timer))
            edition = self._edition + 1
            self._edition = edition
            try:
                sink.extend(map(heappush, itertools.repeat(self._heap), entries))
            except MemoryError:
                self._bound_stale()
                raise
            if self._edition == edition:
                # straight:
                live = self.live + count
                armed = self.armed + count
                self.scheduled += count
                self.live = live
                self.armed = armed
                sink.extend(arming)
                return

    def add_keyed(self, timer: Timer, bucket: Bucket, old: Timer | None) -> bool:
        """Register `timer` with its key, in place of `old`, which holds it; both as `find` gave them.

        The key stays the object that it was, as in a dict. False, and nothing changed, if the bucket is
        another by now: find anew.
        """
        key_hash = timer.key_hash
        key = timer.key if old is None else old.key
        fresh = (*[other for other in bucket if other is not old], timer)
        loser = NOBODY if old is None else old
        if self.keys.buckets.get(key_hash, NO_TIMERS) is not bucket:
            return False
        edition = self._push(timer)
        if self._edition == edition:
            if self.keys.buckets[key_hash] is bucket:  # so `old` is live, or there is none
                # straight:
                live = self.live + 1 - loser.live
                armed = self.armed + 1 - loser.armed
                cancelled = self.cancelled + loser.live
                self.scheduled += 1
                self.live = live
                self.armed = armed
                self.cancelled = cancelled
                self.keys.buckets[key_hash] = fresh
                timer.key = key
                timer.armed = True
                loser.live = False
                loser.armed = False
                if loser.queued:
                    loser.queued = False
                    del self.ready[loser.run_order]
                self._bound_stale()
                return True
            self.keys.tidy(key_hash)
        return False

    def cancel(self, timer: Timer) -> bool:
        """End a timer before its next run; False if there is none to come."""
        if timer.live:
            self.keys.drop(timer)
        if timer.live:
            # straight:
            live = self.live - 1
            armed = self.armed - timer.armed
            self.cancelled += timer.counted
            self.live = live
            self.armed = armed
            timer.live = False
            timer.armed = False
            if timer.queued:
                timer.queued = False
                del self.ready[timer.run_order]
            self._bound_stale()
            return True
        return False

    # -- the way of a run: head of the heap -> ready queue -> started -> ended --------------------------

    def promote(self, now_ns: int) -> bool:
        """Queue the earliest run, if it is due at or before `now_ns`; False if it is not.

        A periodic timer is armed for its next slot by that, and the slots that get no run are counted; False too
        if there are only such: then there may be more that is due.
        """
        entry = self.head()
        if entry is None or entry[0] > now_ns or entry[0] >= NEVER:
            return False
        return self._promote(entry, now_ns)

    def _promote(self, entry: Entry, now_ns: int) -> bool:
        edition = self._edition
        timer = entry[2]
        if not timer.period_ns:
            return self._queue_one_shot(entry)
        slot, passed, runs = slots_by(now_ns, entry[0], timer)
        if runs:
            return self._queue_slot(entry, edition, slot, passed)
        self._skip_to(entry, edition, slot, passed)
        return False

    def promote_some(self, now_ns: int, limit: int) -> bool:
        """Queue up to `limit` runs that are due at or before `now_ns`; whether there may be more."""
        return all(self.promote(now_ns) for _ in range(limit))

    def _queue_one_shot(self, entry: Entry) -> bool:
        timer = entry[2]
        if self._heap and self._heap[0] is entry and timer.armed:
            # straight:
            edition = self._edition + 1
            armed = self.armed - 1
            self.ready[timer.order] = timer
            self._edition = edition
            self.armed = armed
            timer.run_due_ns = timer.due_ns
            timer.run_order = timer.order
            timer.queued = True
            timer.armed = False
            heappop(self._heap)
            return True
        return False

    def _queue_slot(self, entry: Entry, edition: int, slot: int, passed: int) -> bool:
        """Queue the run of a slot, and arm its timer for the next one."""
        timer = entry[2]
        after = (min(slot + timer.period_ns, NEVER), next(self._orders), timer)
        if self._edition == edition and self._heap and self._heap[0] is entry and timer.armed:
            # straight:
            coalesced = self.coalesced + passed
            self.ready[timer.order] = timer
            self.coalesced = coalesced
            timer.run_due_ns = slot
            timer.run_order = timer.order
            timer.queued = True
            timer.due_ns = after[0]
            timer.order = after[1]
            self._edition = edition + 1
            heapreplace(self._heap, after)
            return True
        return False

    def _skip_to(self, entry: Entry, edition: int, slot: int, passed: int) -> None:
        """Arm a timer for a slot of the future; those passed over get no run."""
        timer = entry[2]
        after = (min(slot, NEVER), next(self._orders), timer)
        if self._edition == edition and self._heap and self._heap[0] is entry and timer.armed:
            # straight:
            self.coalesced += passed
            timer.due_ns = after[0]
            timer.order = after[1]
            self._edition = edition + 1
            heapreplace(self._heap, after)

    def start_next(self, thread: int, now_ns: int) -> Run | None:
        """Take the first run out of the ready queue, at `now_ns`; a one-shot has ended then. O(1)."""
        while self.ready:
            timer = self._first_ready()
            run = None if timer is None else self._start(timer, thread, now_ns)
            if run is not None:
                return run
        return None

    def _start(self, timer: Timer, thread: int, now_ns: int) -> Run | None:  # noqa: ARG002
        """Start the queued run of `timer`, which is the first; None if it is so no longer."""
        if not timer.period_ns:
            self.keys.drop(timer)
        run = Run(timer, thread, timer.run_due_ns, timer.run_order)
        started = self._start_slot(run) if timer.period_ns else self._start_one_shot(run)
        return run if started else None

    def _start_slot(self, run: Run) -> bool:
        timer = run.timer
        if timer.queued and timer.run_order == run.order:
            # straight:
            started = self.started + 1
            self.runs[run.order] = run
            self.started = started
            timer.queued = False
            timer.running = True
            del self.ready[run.order]
            return True
        return False

    def _start_one_shot(self, run: Run) -> bool:
        timer = run.timer
        if timer.queued and timer.run_order == run.order:
            # straight:
            started = self.started + 1
            live = self.live - 1
            self.runs[run.order] = run
            self.started = started
            self.live = live
            timer.queued = False
            timer.live = False
            timer.callback = None  # the run has these
            timer.args = ()
            timer.spent_key = None
            del self.ready[run.order]
            self._bound_stale()
            return True
        return False

    def end(self, run: Run, end_ns: int | None, dropped: bool = False) -> bool:
        """A run has ended, at `end_ns` if that could be told, or was `dropped` unstarted.

        False, and nothing changed, if its end was told before.
        """
        timer = run.timer
        busy_until = timer.busy_until_ns if end_ns is None else end_ns
        if run.order in self.runs:
            # straight:
            errors = self.errors + run.failed
            started = self.started - dropped
            self.dropped += dropped
            self.errors = errors
            self.started = started
            timer.busy_until_ns = busy_until
            timer.running = False
            del self.runs[run.order]
            return True
        return False

    def end_all_of(self, thread: int) -> None:
        """End the runs that were started for a thread."""
        for run in list(self.runs.values()):
            if run.thread == thread:
                self.end(run, None)

    def put_back(self) -> None:
        """Return every queued run to the heap, with its old due time and order.

        The grid of a periodic timer then counts on from that slot, and so do the slots that were coalesced
        behind it.
        """
        while self.ready:
            timer = self._first_ready()
            if timer is not None:
                self._put_back(timer)
        self._bound_stale()

    def _put_back(self, timer: Timer) -> None:
        entry = (timer.run_due_ns, timer.run_order, timer)
        order = timer.order
        behind = slots_between(entry[0], timer.due_ns, timer.period_ns)
        if timer.queued and timer.run_order == entry[1] and timer.order == order:
            # straight:
            edition = self._edition + 1
            armed = self.armed + 1 - timer.armed  # a periodic one is armed for a later slot
            coalesced = self.coalesced - behind
            self._edition = edition
            self.armed = armed
            self.coalesced = coalesced
            timer.due_ns = timer.run_due_ns
            timer.order = timer.run_order
            timer.armed = True
            timer.queued = False
            del self.ready[entry[1]]
            heappush(self._heap, entry)  # there is room: it was in the heap before

    def revive(self, run: Run, taken: Taken, bucket: Bucket, holder: Timer | None) -> bool:
        """Undo `start_next`: the executor refused the run, and `taken` is what it was to be called with.

        A one-shot whose key has found another holder meanwhile counts as replaced by it. `bucket` and
        `holder` are those of the key; False, and nothing changed, if they hold no longer.
        """
        timer = run.timer
        callback, args, key = taken
        if key is not None and self.keys.buckets.get(timer.key_hash, NO_TIMERS) is not bucket:
            return False
        if run.order not in self.runs:
            return True  # this is a forked child
        del self.runs[run.order]
        self.started -= 1
        timer.running = False
        if not timer.period_ns:
            if holder is not None:
                self.cancelled += 1
                return True
            timer.callback, timer.args, timer.key = callback, args, key
            if key is not None:
                self.keys.buckets[timer.key_hash] = (*bucket, timer)
            timer.live = True
            self.live += 1
        elif timer.live:
            self.coalesced -= slots_between(run.due_ns, timer.due_ns, timer.period_ns)
        else:
            return True
        self.armed += 1 - timer.armed
        timer.armed = True
        timer.due_ns = run.due_ns
        timer.order = run.order
        self._edition += 1
        heappush(self._heap, (run.due_ns, run.order, timer))
        self._bound_stale()
        return True

    def forget_runs(self) -> None:
        """Nothing runs any more, whatever did: this is a forked child."""
        self.runs = {}
        for timer in self.armed_timers():
            timer.running = False

    # -- views and helpers ------------------------------------------------------------------------------

    def first_due_ns(self) -> int | None:
        """When the next run is or was due, queued or not; None if none ever is.

        A run of a job that was asked for may be due later than what is late in the heap.
        """
        timer = self._first_ready() if self.ready else None
        head = self.head()
        due = NEVER if head is None else head[0]
        if timer is not None:
            due = min(due, timer.run_due_ns)
        return due if due < NEVER else None

    def _first_ready(self) -> Timer | None:
        """None if somebody got in between and there is none any more."""
        for timer in self.ready.values():  # nobody can get in between the iterator's making and its first step
            return timer
        return None
