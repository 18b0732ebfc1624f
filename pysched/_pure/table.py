"""The table of an engine's timers: heap, ready queue, keys, runs in progress.

Ground rules. One table belongs to one engine, whose lock guards it; all methods want it held, except
where they say otherwise. Under that lock no foreign code is called and no reference of a user's released.

Foreign code runs there all the same: a destructor whenever the garbage collector starts, a signal
handler on the main thread after any call. Both may call back into the engine, on this thread, which
holds the lock (it is re-entrant), and a handler may raise KeyboardInterrupt. So each change is one
*straight* stretch: everything it needs is made before, what it rests on is looked at once more, and
then only assignments follow and, last, one call into C. CPython lets others in when a call returns
and at backward jumps; a straight stretch has neither. They are marked in the code.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from pysched._pure.timers import Run
from pysched.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from pysched._pure.timers import Taken, Timer

    Entry = tuple[int, int, Timer]  # due_ns, order, timer
    Bucket = tuple[Timer, ...]

__all__ = ["STALE_LIMIT", "TimerTable"]

STALE_LIMIT = 1024
"""The heap is rebuilt as soon as its stale entries outnumber the live timers and these."""

NO_TIMERS: Bucket = ()


class TimerTable:
    """Every live timer of an engine, in order of (due, submission).

    Registering, promoting and re-arming cost O(log n), cancelling O(1) amortised.
    """

    def __init__(self) -> None:
        self.live = 0
        self.scheduled = 0
        self.started = 0
        self.cancelled = 0
        self.coalesced = 0
        self.errors = 0
        self.dropped = 0
        self.ready: OrderedDict[int, Timer] = OrderedDict()  # order of the run -> its timer
        self.runs: dict[int, Run] = {}  # order of the run -> a callback in progress
        self._heap: list[Entry] = []
        self._stale = 0
        self._edits = 0  # changes whenever an entry comes, goes or becomes stale
        self._orders = itertools.count()
        self._buckets: dict[int, Bucket] = {}  # hash of a key -> the live timers that have it

    # -- keys -------------------------------------------------------------------------------------------
    #
    # A dict with users' keys would run their __hash__ and __eq__ inside its operations, also when a timer
    # starts or is cancelled, and in between another thread may swap what was found. Here a key's hash is
    # taken once, and only `find` compares, outside the lock. Buckets are immutable, so whoever comes back
    # with the lock sees by identity whether what was found still holds. Removal compares nothing.

    def find(self, key: Hashable, key_hash: int) -> tuple[Bucket, Timer | None]:
        """The bucket of a hash, and the timer in it that holds `key`. Not under the lock: keys are compared."""
        bucket = self._buckets.get(key_hash, NO_TIMERS)
        for timer in bucket:
            held = timer.key
            if held is key or (held is not None and held == key):
                return bucket, timer
        return bucket, None

    # -- registration and cancellation ------------------------------------------------------------------

    def add(self, timer: Timer) -> None:
        """Register a timer without a key. O(log n)."""
        timer.order = next(self._orders)
        entry = (timer.due_ns, timer.order, timer)
        # straight:
        timer.armed = True
        self.live += 1
        self.scheduled += 1
        self._edits += 1
        heappush(self._heap, entry)

    def add_many(self, timers: list[Timer]) -> None:
        """Register timers without keys, all or none of them. O(k log n)."""
        entries = []
        for timer in timers:
            timer.order = next(self._orders)
            timer.armed = True  # nobody has seen it yet
            entries.append((timer.due_ns, timer.order, timer))
        count, sink = len(entries), deque[None](maxlen=0)
        while True:
            heap = self._heap
            pushing = map(heappush, itertools.repeat(heap), entries)
            if self._heap is heap:
                # straight:
                self.live += count
                self.scheduled += count
                self._edits += 1
                sink.extend(pushing)  # runs in C to its end
                return

    def add_keyed(self, timer: Timer, bucket: Bucket, old: Timer | None) -> bool:
        """Register `timer` with its key, in place of `old`, which holds it; both as `find` gave them.

        The key stays the object that it was, as in a dict.
        False, and nothing changed, if the bucket is another by now: find anew.
        """
        fresh = (*[other for other in bucket if other is not old], timer)
        timer.order = next(self._orders)
        entry = (timer.due_ns, timer.order, timer)
        key_hash = timer.key_hash
        # Not `get`: a call would let others in.
        if (self._buckets[key_hash] if key_hash in self._buckets else NO_TIMERS) is not bucket:  # noqa: SIM401
            return False
        # straight:
        if old is not None:  # live, since it is in the bucket
            old.live = False
            self.live -= 1
            self.cancelled += 1
            if old.armed:
                old.armed = False
                self._stale += 1
            if old.queued:
                old.queued = False
                del self.ready[old.run_order]
            timer.key = old.key
        self._buckets[key_hash] = fresh
        timer.armed = True
        self.live += 1
        self.scheduled += 1
        self._edits += 1
        heappush(self._heap, entry)
        self._bound_stale()
        return True

    def cancel(self, timer: Timer) -> bool:
        """End a timer before its next run; False if there is none to come."""
        while timer.live:
            bucket, rest = self._without(timer)
            ended = not timer.live  # a destructor may have cancelled it
            if ended or (timer.key is not None and self._buckets[timer.key_hash] is not bucket):
                continue
            # straight:
            timer.live = False
            self.live -= 1
            self.cancelled += 1
            self._edits += 1
            if timer.key is not None:
                if rest:
                    self._buckets[timer.key_hash] = rest
                else:
                    del self._buckets[timer.key_hash]
            if timer.armed:
                timer.armed = False
                self._stale += 1
            if timer.queued:
                timer.queued = False
                del self.ready[timer.run_order]
            self._bound_stale()
            return True
        return False

    # -- the way of a run: head of the heap -> ready queue -> started -> ended --------------------------

    def head(self) -> Entry | None:
        """The entry of the earliest live timer, which is the root then. Amortised O(log n)."""
        while self._heap:
            entry = self._heap[0]
            timer = entry[2]
            if timer.armed and timer.order == entry[1]:
                return entry
            # straight:
            self._edits += 1
            self._stale -= 1
            heappop(self._heap)
        return None

    def promote(self, now_ns: int) -> bool:
        """Queue the earliest run that is due at or before `now_ns`; False if none is.

        A periodic timer is armed for its next slot by that, and the slots that get no run are counted.
        """
        while (entry := self.head()) is not None and entry[0] <= now_ns and entry[0] < NEVER:
            timer = entry[2]
            if self._queue_slot(entry, now_ns) if timer.period_ns else self._queue_one_shot(entry):
                return True
        return False

    def _queue_one_shot(self, entry: Entry) -> bool:
        timer = entry[2]
        if not self._heap or self._heap[0] is not entry or not timer.armed:
            return False
        # straight:
        timer.armed = False
        timer.queued = True
        timer.run_due_ns = timer.due_ns
        timer.run_order = timer.order
        self._edits += 1
        self.ready[timer.order] = timer
        heappop(self._heap)
        return True

    def _queue_slot(self, entry: Entry, now_ns: int) -> bool:
        slot, _, timer = entry
        edits = self._edits
        period = timer.period_ns
        passed, runs = 0, False  # slots that get no run of their own; whether one gets its run now
        if timer.queued or timer.running:
            passed = (now_ns - slot) // period + 1
            slot += passed * period
        else:
            if slot < timer.busy_until_ns:  # it came due while the last run was queued or running
                passed = -(-(timer.busy_until_ns - slot) // period)
                slot += passed * period
            if slot <= now_ns:
                behind = (now_ns - slot) // period
                passed += behind
                slot += behind * period
                runs = True
        next_due = min(slot + period if runs else slot, NEVER)
        order = next(self._orders)
        armed = (next_due, order, timer)
        if self._edits != edits or not self._heap or self._heap[0] is not entry or not timer.armed:
            return False
        # straight:
        self.coalesced += passed
        if runs:
            timer.queued = True
            timer.run_due_ns = slot
            timer.run_order = timer.order
            self.ready[timer.order] = timer
        timer.due_ns = next_due
        timer.order = order
        self._edits += 1
        heapreplace(self._heap, armed)
        return runs

    def start_next(self, thread: int) -> Run | None:
        """Take the first run out of the ready queue; a one-shot has ended then. O(1)."""
        while self.ready:
            timer = self._first_ready()
            if timer is None:
                continue
            run = Run(timer, thread)
            bucket, rest = NO_TIMERS, NO_TIMERS
            frees_key = timer.key is not None and not timer.period_ns
            if frees_key:
                bucket, rest = self._without(timer)
            if not timer.queued or (frees_key and self._buckets[timer.key_hash] is not bucket):
                continue
            # straight:
            timer.queued = False
            if timer.period_ns:
                timer.running = True
            else:
                timer.live = False
                self.live -= 1
                if frees_key:
                    if rest:
                        self._buckets[timer.key_hash] = rest
                    else:
                        del self._buckets[timer.key_hash]
                run.key = timer.key
                timer.callback, timer.args, timer.key = None, (), None
            self.started += 1
            self.runs[run.order] = run
            del self.ready[run.order]
            self._bound_stale()
            return run
        return None

    def end(self, run: Run, end_ns: int | None, dropped: bool = False) -> None:
        """A run has ended, at `end_ns` if that could be told, or was `dropped` unstarted. Never counts twice."""
        timer = run.timer
        # straight:
        if run.order in self.runs:
            self.errors += run.failed
            self.started -= dropped
            self.dropped += dropped
            if timer.period_ns:
                timer.running = False
                if end_ns is not None:
                    timer.busy_until_ns = end_ns
            del self.runs[run.order]

    def put_back(self) -> None:
        """Return every queued run to the heap, with its old due time and order.

        The grid of a periodic timer then counts on from that slot, and so do the slots that were coalesced
        behind it.
        """
        while self.ready:
            timer = self._first_ready()
            if timer is None:
                continue
            entry = (timer.run_due_ns, timer.run_order, timer)
            behind = _slots_between(timer.run_due_ns, timer.due_ns, timer.period_ns)
            if not timer.queued or timer.run_order != entry[1]:
                continue
            # straight:
            timer.queued = False
            del self.ready[timer.run_order]
            if timer.armed:  # periodic: for a later slot
                self._stale += 1
            timer.armed = True
            timer.due_ns = timer.run_due_ns
            timer.order = timer.run_order
            self.coalesced -= behind
            self._edits += 1
            heappush(self._heap, entry)
        self._bound_stale()

    def revive(self, run: Run, taken: Taken, bucket: Bucket, holder: Timer | None) -> bool:
        """Undo `start_next`: the executor refused the run, and `taken` is what it was to be called with.

        A one-shot whose key has found another holder meanwhile counts as replaced by it. `bucket` and
        `holder` are those of the key; False, and nothing changed, if they hold no longer.
        """
        timer = run.timer
        callback, args, key = taken
        fresh = (*bucket, timer)
        entry = (run.due_ns, run.order, timer)
        behind = _slots_between(run.due_ns, timer.due_ns, timer.period_ns)
        key_hash = timer.key_hash
        if key is not None:  # noqa: SIM102
            if (self._buckets[key_hash] if key_hash in self._buckets else NO_TIMERS) is not bucket:  # noqa: SIM401
                return False
        # straight:
        if run.order not in self.runs:
            return True  # this is a forked child
        self.started -= 1
        timer.running = False
        del self.runs[run.order]
        if not timer.period_ns:
            if holder is not None:
                self.cancelled += 1
                return True
            timer.callback, timer.args, timer.key = callback, args, key
            timer.live = True
            self.live += 1
            if key is not None:
                self._buckets[key_hash] = fresh
        elif not timer.live:
            return True
        else:
            self._stale += 1
            self.coalesced -= behind
        timer.armed = True
        timer.due_ns = run.due_ns
        timer.order = run.order
        self._edits += 1
        heappush(self._heap, entry)
        self._bound_stale()
        return True

    def forget_runs(self) -> None:
        """Nothing runs any more, whatever did: this is a forked child."""
        self.runs = {}
        for timer in self.armed_timers():
            timer.running = False

    # -- views and helpers ------------------------------------------------------------------------------

    def armed_timers(self) -> Iterator[Timer]:
        """The timers of the live heap entries, in no order."""
        return (timer for _, order, timer in self._heap if timer.armed and timer.order == order)

    def first_due_ns(self) -> int | None:
        """When the earliest run is or was due, queued ones included; None if none ever is."""
        head = self.head()
        dues = [head[0]] if head is not None and head[0] < NEVER else []
        if self.ready:
            timer = self._first_ready()
            if timer is not None:
                dues.append(timer.run_due_ns)
        return min(dues, default=None)

    def _first_ready(self) -> Timer | None:
        """None if somebody got in between and the first has changed."""
        try:
            return next(iter(self.ready.values()))
        except (StopIteration, RuntimeError, KeyError):
            return None

    def _without(self, timer: Timer) -> tuple[Bucket, Bucket]:
        """The bucket that holds `timer`, and what it is to become when the timer ends."""
        if timer.key is None:
            return NO_TIMERS, NO_TIMERS
        bucket = self._buckets.get(timer.key_hash, NO_TIMERS)
        return bucket, tuple([other for other in bucket if other is not timer])

    def _bound_stale(self) -> None:
        """Drop the stale entries, O(n), if they outnumber the live timers and `STALE_LIMIT`."""
        while self._stale > self.live + STALE_LIMIT:
            edits = self._edits
            heap = [entry for entry in self._heap if entry[2].armed and entry[2].order == entry[1]]
            heapify(heap)
            if self._edits == edits:
                # straight:
                self._heap = heap
                self._stale = 0


def _slots_between(slot_ns: int, next_ns: int, period_ns: int) -> int:
    """How many slots of a grid lie strictly between two of its slots; the later one may be saturated."""
    return max(0, (next_ns - slot_ns) // period_ns - 1) if period_ns else 0
