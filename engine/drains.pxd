"""Drains, the tasks that a thread pool is given: how many there should be, and those that wait for work.

A drain of a pool of our own does not end when nothing is left to do, but parks: nobody else wants its worker.  What
comes due next then reaches a worker by one signal, sent by the loop without the GIL, instead of by a `submit`, which
is Python code, makes a dozen objects and has the loop's thread hold the GIL while the worker waits for it.  In a user's
pool no drain parks, since other work may wait for its worker.

All functions are called with the core's mutex held.
"""

from libc.stdint cimport uint32_t

from .core cimport Core, Phase


cdef uint32_t drains_wanted(const Core *core) noexcept nogil
cdef void drains_summon(Core *core) noexcept nogil
cdef bint drains_go_on(Core *core) noexcept nogil
cdef void core_set_phase(Core *core, Phase phase) noexcept nogil
