"""Decisions: what became of a job's slots and runs, noted for `explain` and told to the owner.

Both cost nothing where they are not asked for: `Core.explains` is 0, `Core.news` NULL.  Called with the mutex held.
"""

from libc.stdint cimport int64_t, uint32_t

from .core cimport Core, Decision, Job, Slot

cdef void note_decision(
    Core *core, uint32_t index, Job *job, Decision decision, int64_t slot, int64_t count, int64_t now, int64_t late
) noexcept nogil


cdef inline void decide(
    Core *core, uint32_t index, Job *job, Decision decision, int64_t slot, int64_t count, int64_t now, int64_t late
) noexcept nogil:
    """`slot` is on the job's clock, the latest of `count`; `now` monotonic; `late` of a run that starts, ns."""
    if core.explains or core.news != NULL:
        note_decision(core, index, job, decision, slot, count, now, late)
