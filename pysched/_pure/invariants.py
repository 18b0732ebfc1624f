"""What always holds of a timer table, for tests: ``Engine._check()``; of jobs, see `job_invariants`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pysched._pure.deadlines import STALE_LIMIT
from pysched._pure.jobs import Job
from pysched.clock import NEVER

if TYPE_CHECKING:
    from pysched._pure.table import TimerTable

__all__ = ["check_table"]


def check_table(table: TimerTable) -> None:
    """Assert every invariant. Under the lock of the engine."""
    heap = table._heap
    for index in range(1, len(heap)):
        assert heap[(index - 1) // 2][:2] < heap[index][:2], "the heap is out of order"
    armed = list(table.armed_timers())
    assert len({id(timer) for timer in armed}) == len(armed), "a timer is armed twice"
    assert table.armed == len(armed)
    assert len(heap) - len(armed) <= table.live + STALE_LIMIT
    for due_ns, order, timer in heap:
        assert due_ns <= NEVER
        assert not (timer.armed and timer.order == order) or (timer.live and timer.due_ns == due_ns)
    timers = {order: timer for order, timer in table.ready.items() if not isinstance(timer, Job)}
    for order, timer in timers.items():
        assert timer.queued
        assert timer.live
        assert timer.run_order == order
        assert timer.armed == bool(timer.period_ns), "a queued one-shot is armed, or a periodic is not"
    waiting = [timer for timer in timers.values() if not timer.period_ns]
    assert table.live == len(armed) + len(waiting), "a live timer is neither armed nor queued"
    assert sum(timer.queued for timer in armed) == len(timers) - len(waiting)
    keyed = {id(timer) for timer in [*armed, *waiting] if timer.key is not None}
    for key_hash, bucket in table.keys.buckets.items():
        assert bucket, "an empty bucket was left behind"
        for timer in bucket:
            assert timer.key_hash == key_hash
            keyed.remove(id(timer))
    assert not keyed, "a key was lost"
    for timer in [*armed, *waiting]:
        assert timer.callback is not None
    for order, run in table.runs.items():
        assert run.order == order
        assert not run.timer.period_ns or run.timer.running
