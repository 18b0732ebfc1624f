"""Declarations of `interpreter.h` and of the slots of a type, with pointers instead of objects.

A garbage collection must not count references, so the collector's functions
are declared here with `PyObject *` throughout.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from "interpreter.h":
    PyObject *take_exception "pysched_take_exception"() noexcept
    PyObject *call "pysched_call"(PyObject *callable, PyObject *first, PyObject *second) noexcept
    PyObject *call_tuple "pysched_call_tuple"(PyObject *callable, PyObject *tuple) noexcept
    PyObject *call_method "pysched_call_method"(PyObject *receiver, PyObject *name, PyObject *argument) noexcept

    int optional_attribute "pysched_optional_attribute"(PyObject *object, PyObject *name, PyObject **value) except -1

    bint is_simple "pysched_is_simple"(PyObject *callback) noexcept
    object id_of "pysched_id_of"(object prefix, uint64_t reference)
    bint is_awaitable "pysched_is_awaitable"(PyObject *object) noexcept
    bint is_asynchronous "pysched_is_asynchronous"(PyObject *object) noexcept
    bint is_async_function "pysched_is_async_function"(PyObject *callback) noexcept

    unsigned long this_thread "PyThread_get_thread_ident"() noexcept nogil

    ctypedef int (*VisitFunction "visitproc")(PyObject *, void *) noexcept
    ctypedef int (*TraverseFunction "traverseproc")(PyObject *, VisitFunction, void *) noexcept
    ctypedef int (*ClearFunction "inquiry")(PyObject *) noexcept
    ctypedef PyObject *(*CompareFunction "richcmpfunc")(PyObject *, PyObject *, int) noexcept
    ctypedef struct TypeSlots "PyTypeObject":
        TraverseFunction tp_traverse
        ClearFunction tp_clear
        CompareFunction tp_richcompare
        unsigned int tp_version_tag          # 0, or another one after each change of the type
    TypeSlots *type_of "Py_TYPE"(PyObject *object) noexcept
