"""See decisions.pxd."""

from libc.stdint cimport uint32_t, uint64_t

from .core cimport COALESCED, DROPPED, MISSED, Core, Item, Job, News, Note, slot_at
from .heap cimport SLOT_BITS
from .memory cimport reallocate
from .platform cimport assert_held, poke

cdef enum:
    LEAST_ROOM = 2


cdef bint notes_widen(Core *core, Job *job) noexcept nogil:
    """Makes the ring of a job, or doubles its room; False if there is no memory."""
    cdef uint32_t room = LEAST_ROOM if job.noted == 0 else 2 * job.noted
    cdef Note *notes = <Note *>reallocate(job.notes, room * sizeof(Note))
    assert_held(&core.mutex)
    if notes != NULL:
        job.notes = notes
    return notes != NULL


cdef uint32_t notes_copy(const Core *core, const Job *job, Note *notes) noexcept nogil:
    """Copies what is shown, the oldest first, at most `Core.explains`; returns how many."""
    cdef uint32_t count = min(<uint32_t>job.noted, core.explains)
    cdef uint32_t i
    assert_held(&core.mutex)
    for i in range(count):
        notes[i] = job.notes[(job.noted - count + i) & (core.notes_room - 1)]
    return count


cdef void tell_decision(Core *core, uint32_t index, const Note *note) noexcept nogil:
    """Puts it into the news, if it is one that the owner is told of."""
    cdef News *news = core.news
    cdef Item *item
    assert_held(&core.mutex)
    if note.decision != MISSED and note.decision != COALESCED and note.decision != DROPPED:
        return
    item = &news.items[(news.head + core.news_count) % news.room]
    if core.news_count == news.room:          # the oldest goes
        news.head = (news.head + 1) % news.room
        news.lost += 1
    else:
        poke(&core.news_count, core.news_count + 1)
    item.reference = <uint64_t>slot_at(core, index).generation << SLOT_BITS | index
    item.note = note[0]
