"""See decisions.pxd."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc

from .core cimport COALESCED, DROPPED, MISSED, Core, Decision, Item, Job, News, Note, Notes, slot_at
from .heap cimport SLOT_BITS
from .slots cimport offset_of


cdef void note_decision(
    Core *core, uint32_t index, Job *job, Decision decision, int64_t slot, int64_t count, int64_t now, int64_t late
) noexcept nogil:
    cdef Note note
    cdef News *news = core.news
    cdef Item *item
    note.when = now + core.wall_offset
    note.slot = slot + core.wall_offset - offset_of(core, job)
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
    """The ring of notes is made at a job's first decision; without memory for it there are none."""
    cdef Notes *notes = job.notes
    if notes == NULL:
        notes = <Notes *>calloc(1, sizeof(Notes) + (core.explains - 1) * sizeof(Note))
        if notes == NULL:
            return
        job.notes = notes
    notes.items[(notes.head + notes.count) % core.explains] = note[0]
    if notes.count < core.explains:
        notes.count += 1
    else:
        notes.head = (notes.head + 1) % core.explains
