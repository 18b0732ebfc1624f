"""Decisions: what became of a job's slots and runs, noted for `explain` and told to the owner.

Both cost nothing where they are not asked for: `Core.notes_room` is 0, `Core.news` NULL.  Called with the mutex held.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t

from .core cimport RAN, Core, Decision, Job, Note
from .slots cimport slot_on_wall

cdef bint notes_widen(Core *core, Job *job) noexcept nogil
cdef void tell_decision(Core *core, uint32_t index, const Note *note) noexcept nogil
cdef uint32_t notes_copy(const Core *core, const Job *job, Note *notes) noexcept nogil


cdef inline void decide(
    Core *core, uint32_t index, Job *job, Decision decision, int64_t slot, int64_t count, int64_t now, int64_t late
) noexcept nogil:
    """`slot` is on the job's clock, the latest of `count`; `now` monotonic; `late` of a run that starts, ns."""
    cdef Note note
    if not core.notes_room and core.news == NULL:
        return
    note.when = now + core.wall_offset
    note.slot = slot_on_wall(core, job, slot)
    note.late = late
    note.count = <uint32_t>min(count, <int64_t>0xffffffffU)
    note.decision = decision
    if core.notes_room:
        add_note(core, job, &note)
    if core.news != NULL and decision != RAN:
        tell_decision(core, index, &note)


cdef inline void add_note(Core *core, Job *job, const Note *note) noexcept nogil:
    """The ring is made at a job's first decision, and grows with them; without memory for it they are not noted."""
    cdef uint32_t noted = job.noted
    # While it grows, its room is the next power of two.
    if noted < core.notes_room and noted & (noted - 1) == 0 and noted != 1 and not notes_widen(core, job):
        return
    job.notes[noted & (core.notes_room - 1)] = note[0]
    noted += 1
    job.noted = <uint16_t>(noted if noted < 2 * core.notes_room else core.notes_room)
