"""A core's life: made with one count, freed with the last.  See core.pxd for the ground rules.

And what debug builds (PYSCHED_DEBUG=1) know of all cores.
"""

from cpython.ref cimport Py_XDECREF
from libc.stdlib cimport free

from .heap cimport heap_free
from .keys cimport keys_free, keys_init
from .memory cimport allocate_zeroed
from .platform cimport (
    assert_free,
    atomic_decrement,
    atomic_increment,
    condition_destroy,
    condition_init,
    lock,
    mutex_destroy,
    mutex_init,
    unlock,
    waker_close,
    waker_init,
)
from .slab cimport slab_free, slab_init


cdef Mutex registry_mutex               # guards the list of cores; taken before any core's mutex, never after
cdef Core *registry_head = NULL
cdef long references_held = 0           # guarded by the GIL
mutex_init(&registry_mutex)


cdef Mutex *registry_lock() noexcept nogil:
    return &registry_mutex


cdef Core *first_core() noexcept nogil:
    return registry_head


cdef Core *core_new() noexcept nogil:
    """A core with one count, for its owner; NULL if there is no memory.  No mutex held."""
    global registry_head
    cdef Core *core = <Core *>allocate_zeroed(1, sizeof(Core))
    cdef Slot slot                       # one of each, to tell where in it the slab keeps its links
    cdef Record record
    cdef Job job
    if core == NULL:
        return NULL
    mutex_init(&core.mutex)
    condition_init(&core.condition)
    condition_init(&core.aside)
    slab_init(&core.slots, sizeof(Slot), <uint32_t>(<char *>&slot.key - <char *>&slot))
    slab_init(&core.records, sizeof(Record), <uint32_t>(<char *>&record.waiting - <char *>&record))
    slab_init(&core.jobs, sizeof(Job), <uint32_t>(<char *>&job.waiting - <char *>&job))
    keys_init(&core.keys)
    waker_init(&core.waker)
    waker_init(&core.left)
    core.references = 1
    lock(&registry_mutex)
    core.next = registry_head
    if registry_head != NULL:
        registry_head.previous = core
    registry_head = core
    unlock(&registry_mutex)
    return core


cdef void core_hold(Core *core) noexcept nogil:
    atomic_increment(&core.references)


cdef void core_release(Core *core) noexcept nogil:
    """Gives up a count; the last one frees the memory, which then holds no references.  No mutex held."""
    global registry_head
    assert_free(&registry_mutex)         # which comes before any core's
    if atomic_decrement(&core.references):
        return
    lock(&registry_mutex)
    if core.previous != NULL:
        core.previous.next = core.next
    else:
        registry_head = core.next
    if core.next != NULL:
        core.next.previous = core.previous
    unlock(&registry_mutex)
    waker_close(&core.waker)
    waker_close(&core.left)
    heap_free(&core.heap)
    slab_free(&core.slots)
    slab_free(&core.records)
    slab_free(&core.jobs)
    keys_free(&core.keys)
    free(core.ring)
    if core.news != NULL:
        free(core.news.items)
        free(core.news)
    condition_destroy(&core.condition)
    condition_destroy(&core.aside)
    mutex_destroy(&core.mutex)
    free(core)


cdef void drop(References *garbage) noexcept:
    """Releases references; destructors run here, so no mutex may be held."""
    before_foreign_code()
    count_references(
        -<long>(garbage.callback != NULL) - (garbage.receiver != NULL)
        - (garbage.arguments != NULL) - (garbage.key != NULL)
    )
    Py_XDECREF(garbage.callback)
    Py_XDECREF(garbage.receiver)
    Py_XDECREF(garbage.arguments)
    Py_XDECREF(garbage.key)


# -- debug builds -----------------------------------------------------------------------------------------------------

cdef void assert_no_mutex() noexcept nogil:
    assert_free(&registry_mutex)         # all cores' mutexes go by the same count


cdef void add_to_references(long by) noexcept:
    global references_held
    references_held += by


def live_objects():
    """What lives: a dict of `cores`, their `slots` and `jobs`, and `references` held by slots, keys and runs.

    Of cores alone what nobody counts on any more is gone; so a difference that remains is a leak.  None unless this is
    a debug build.  O(cores).
    """
    cdef Core *core
    cdef size_t cores = 0, slots = 0, jobs = 0
    if not DEBUG:
        return None
    lock(&registry_mutex)
    core = registry_head
    while core != NULL:
        lock(&core.mutex)
        cores += 1
        slots += core.slots.top - 1 - core.slots.free_count
        jobs += core.jobs.top - 1 - core.jobs.free_count
        unlock(&core.mutex)
        core = core.next
    unlock(&registry_mutex)
    return {"cores": cores, "slots": slots, "jobs": jobs, "references": references_held}
