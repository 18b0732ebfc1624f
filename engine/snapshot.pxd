"""`Snapshot`: a job at one instant, copied under the mutex, looked at later and without it."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport Core, Job

cdef struct Copy:                    # of a job, with references of its own to what it has
    Job job
    uint64_t reference
    int64_t when
    int64_t wall_offset
    int state
    uint32_t queued
    PyObject *callback
    PyObject *receiver
    PyObject *schedule


cdef class Snapshot:
    cdef Copy copy

    cdef object offset(self)


cdef void take_copy(Core *core, uint32_t index, int64_t now, Copy *copy) noexcept
cdef Snapshot new_snapshot(const Copy *copy)
cdef void copy_release(const Copy *copy) noexcept
