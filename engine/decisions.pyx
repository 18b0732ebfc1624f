"""See decisions.pxd."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc

from .core cimport COALESCED, DROPPED, MISSED, Core, Decision, Item, Job, News, Note, Notes, slot_at
from .heap cimport SLOT_BITS
from .slots cimport slot_on_wall

cdef enum:
    LEAST_ROOM = 2


cdef void note_decision(
    Core *core, uint32_t index, Job *job, Decision decision, int64_t slot, int64_t count, int64_t now, int64_t late
) noexcept nogil:
    cdef Note note
    cdef News *news = core.news
    cdef Item *item
    note.when = now + core.wall_offset
    note.slot = slot_on_wall(core, job, slot)
    note.late = late
    note.count = <uint32_t>min(count, <int64_t>0xffffffffU)
    note.decision = decision
    if core.explains:
        add_note(core, job, &note)
    if news != NULL and (decision == MISSED or decision == COALESCED or decision == DROPPED):
        item = &news.items[(news.head + news.count) % news.room]
        if news.count == news.room:      # the oldest goes
            news.head = (news.head + 1) % news.room
            news.lost += 1
        else:
            news.count += 1
        item.reference = <uint64_t>slot_at(core, index).generation << SLOT_BITS | index
        item.note = note


cdef void add_note(Core *core, Job *job, const Note *note) noexcept nogil:
    """The ring of notes is made at a job's first decision, and grows with them; without memory the oldest are lost."""
    cdef Notes *notes = job.notes
    cdef uint32_t place
    if notes == NULL or (notes.count == notes.room and notes.room < core.explains):
        notes = wider(core, job)
        if notes == NULL:
            return
    place = notes.head + notes.count
    notes.items[place if place < notes.room else place - notes.room] = note[0]
    if notes.count < notes.room:
        notes.count += 1
    else:
        notes.head = notes.head + 1 if notes.head + 1 < notes.room else 0


cdef Notes *wider(Core *core, Job *job) noexcept nogil:
    """The ring with twice the room, or as it is if there is no memory; NULL if there is none at all."""
    cdef uint32_t room = LEAST_ROOM if job.notes == NULL else 2 * job.notes.room
    cdef Notes *notes
    if room > core.explains:
        room = core.explains
    notes = <Notes *>realloc(job.notes, sizeof(Notes) + (room - <size_t>1) * sizeof(Note))
    if notes == NULL:
        return job.notes
    if job.notes == NULL:
        notes.head = notes.count = 0
    notes.room = room
    job.notes = notes
    return notes
