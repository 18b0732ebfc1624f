"""One fault a function: something of Python's happens while a mutex is held.  `fine_...` have none.

Translated beside the engine's modules and looked at (test_under_mutex.py), never compiled.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from .core cimport Core, References, drop
from .platform cimport lock, unlock

cdef Core core
kept = None


def releases_what_a_name_held():
    global kept
    lock(&core.mutex)
    kept = None
    unlock(&core.mutex)


def makes_an_object():
    lock(&core.mutex)
    number = core.started
    made = number + <object>core.errors
    unlock(&core.mutex)
    return made


def raises():
    lock(&core.mutex)
    if core.closed:
        raise RuntimeError("closed")
    unlock(&core.mutex)


def raises_after_a_branch_that_gives_it_back():
    lock(&core.mutex)
    if core.closed:
        unlock(&core.mutex)
    raise RuntimeError


def gives_it_back_on_one_way_only(callback):
    lock(&core.mutex)
    if core.closed:
        unlock(&core.mutex)
        return
    unlock(&core.mutex)
    lock(&core.mutex)
    while core.running:
        if core.gone:
            break
    else:
        unlock(&core.mutex)
    callback()


def looks_up_an_attribute(thing):
    lock(&core.mutex)
    thing.attribute
    unlock(&core.mutex)


def converts(number):
    lock(&core.mutex)
    core.errors = number
    unlock(&core.mutex)


def takes_the_gil():
    with nogil:
        lock(&core.mutex)
        with gil:
            pass
        unlock(&core.mutex)


def releases_the_gil():
    lock(&core.mutex)
    with nogil:
        core.errors += 1
    unlock(&core.mutex)


cdef void fine_alone(References *garbage) noexcept:
    drop(garbage)


def fine_caller_of_one_below():
    cdef References garbage
    fine_alone(&garbage)


cdef void releases_below(PyObject *thing) noexcept:
    Py_DECREF(<object>thing)


cdef void fine_between(PyObject *thing) noexcept:
    releases_below(thing)


def fine_caller_of_releases_below(thing):
    lock(&core.mutex)
    fine_between(<PyObject *>thing)
    unlock(&core.mutex)


def releases_one_that_was_shared_before(thing):
    Py_INCREF(thing)
    lock(&core.mutex)
    Py_DECREF(thing)
    unlock(&core.mutex)


def releases_twice_what_was_shared_once(thing):
    lock(&core.mutex)
    Py_INCREF(thing)
    Py_DECREF(thing)
    Py_DECREF(thing)
    unlock(&core.mutex)


def succeeds_in_a_try():
    try:
        fine_taking()
    except ValueError:
        return
    unlock(&core.mutex)


cdef int fine_taking() except -1:
    if kept:
        raise ValueError
    lock(&core.mutex)
    return 0


def fine_shares(thing):
    lock(&core.mutex)
    Py_INCREF(thing)
    Py_DECREF(thing)
    unlock(&core.mutex)


def fine_way_out_of_what_raises():
    fine_taking()
    unlock(&core.mutex)


def fine_in_turns(callback):
    for _ in range(3):
        lock(&core.mutex)
        core.errors += 1
        unlock(&core.mutex)
        callback(core.errors)
