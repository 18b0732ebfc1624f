"""See runners.pxd."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free

from .core cimport JOB, Core, Run, Runner
from .heap cimport SLOT_BITS
from .interpreter cimport this_thread
from .memory cimport allocate_zeroed
from .platform cimport assert_held


cdef Runner *runner_new() except NULL:
    """Not on the stack of its thread: greenlets copy stacks away, and at exit those of daemon threads are gone."""
    cdef Runner *runner = <Runner *>allocate_zeroed(1, sizeof(Runner))
    if runner == NULL:
        raise MemoryError
    return runner


cdef void runner_enter(Core *core, Runner *runner) noexcept nogil:
    assert_held(&core.mutex)
    runner.thread = this_thread()
    runner.calling = False
    runner.next = core.runners
    core.runners = runner


cdef void runner_set(Runner *runner, const Run *run) noexcept nogil:
    """Says which run the thread is inside of, if it is one of a job."""
    runner.job = 0
    if run.flags & JOB:
        runner.job = <uint64_t>run.generation << SLOT_BITS | run.slot
        runner.number = run.number
        runner.scheduled = run.scheduled


cdef void runner_leave(Core *core, Runner *runner) noexcept nogil:
    """Takes it off the list and frees it."""
    cdef Runner **link = &core.runners
    assert_held(&core.mutex)
    while link[0] != NULL and link[0] != runner:
        link = &link[0].next
    if link[0] == runner:                # not there in a forked child
        link[0] = runner.next
    free(runner)


cdef bint runs_here(Core *core, size_t *own) noexcept nogil:
    """Whether this thread is in a loop or drain of the core; `own`: how many callbacks it is inside of."""
    cdef unsigned long thread = this_thread()
    cdef Runner *runner = core.runners
    cdef bint here = False
    assert_held(&core.mutex)
    own[0] = 0
    while runner != NULL:
        if runner.thread == thread:
            here = True
            own[0] += runner.calling
        runner = runner.next
    return here
