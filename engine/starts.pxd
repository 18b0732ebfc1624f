"""What taking a run out of the table means, for timers (runs.pyx) and jobs (jobs.pyx) alike."""

from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t

from .core cimport ALARM, Core, Run, Slot, count_references
from .lateness cimport histogram_add


cdef inline void ring_append(Core *core, uint32_t index) noexcept nogil:
    core.ring[(core.ring_head + core.ring_count) & core.ring_mask] = index
    core.ring_count += 1


cdef inline void begin_run(Core *core, Slot *slot, Run *run, int64_t due, int64_t now) noexcept nogil:
    run.due = due
    run.layout = slot.layout
    run.flags = slot.flags
    run.generation = slot.generation
    run.failed = run.dropped = False
    run.key = 0
    run.references.callback = slot.callback
    run.references.receiver = slot.receiver
    run.references.arguments = slot.arguments
    run.references.key = NULL
    core.running += 1
    if slot.flags & ALARM:
        return                           # the engine's own affair
    core.started += 1
    run.late = now - (due if due > core.start_ns else core.start_ns)
    histogram_add(&core.lateness, run.late)


cdef inline void share_references(Run *run) noexcept:
    Py_INCREF(<object>run.references.callback)
    if run.references.receiver != NULL:
        Py_INCREF(<object>run.references.receiver)
    if run.references.arguments != NULL:
        Py_INCREF(<object>run.references.arguments)
    count_references(1 + (run.references.receiver != NULL) + (run.references.arguments != NULL))
