/* What the engine needs of the interpreter and Cython does not declare, in one form for CPython 3.10 and newer. */
#ifndef PYSCHED_INTERPRETER_H
#define PYSCHED_INTERPRETER_H

#include <Python.h>
#include <stdint.h>

/* The current exception as an object with its traceback, owned by the caller; none is set afterwards. */
static inline PyObject *pysched_take_exception(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* callable(first?, second?) with room in front, so that bound methods need no copy; NULL arguments must be last. */
static inline PyObject *pysched_call(PyObject *callable, PyObject *first, PyObject *second) {
    PyObject *arguments[3] = {NULL, first, second};
    size_t count = (first != NULL) + (second != NULL);
    return PyObject_Vectorcall(callable, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

static inline PyObject *pysched_call_tuple(PyObject *callable, PyObject *tuple) {
    return PyObject_Vectorcall(callable, &PyTuple_GET_ITEM(tuple, 0), (size_t)PyTuple_GET_SIZE(tuple), NULL);
}

/* receiver.name(argument), without making the bound method */
static inline PyObject *pysched_call_method(PyObject *receiver, PyObject *name, PyObject *argument) {
    PyObject *arguments[3] = {NULL, receiver, argument};
    return PyObject_VectorcallMethod(name, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* The attribute: a new reference in `*value`, or NULL there
 * if there is none; -1 with an exception for any error but AttributeError.
 * Looking up what may be missing this way raises and catches nothing. */
static inline int pysched_optional_attribute(PyObject *object, PyObject *name, PyObject **value) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyObject_GetOptionalAttr(object, name, value);
#else
    return _PyObject_LookupAttr(object, name, value);
#endif
}

/* Whether it has `__await__`, as coroutines of Python and of Cython, and futures have. */
static inline int pysched_is_awaitable(PyObject *object) {
    PyAsyncMethods *methods = Py_TYPE(object)->tp_as_async;
    return methods != NULL && methods->am_await != NULL;
}

/* Whether it is a coroutine, an asynchronous generator, or something else that `await` or `async for` would take. */
static inline int pysched_is_asynchronous(PyObject *object) {
    PyAsyncMethods *methods = Py_TYPE(object)->tp_as_async;
    return methods != NULL && (methods->am_await != NULL || methods->am_anext != NULL);
}

#define PYSCHED_ASYNC (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)

/* Whether it is a function or method made by `async def`: the call alone runs nothing of it. */
static inline int pysched_is_async_function(PyObject *callback) {
    if (PyMethod_Check(callback)) callback = PyMethod_GET_FUNCTION(callback);
    return PyFunction_Check(callback) && ((PyCodeObject *)PyFunction_GET_CODE(callback))->co_flags & PYSCHED_ASYNC;
}

/* Whether it is a plain function or method without parameters, which gives no coroutine or generator of one. One that
   takes anything and has attributes may have the signature of another (functools.wraps). */
static inline int pysched_is_simple(PyObject *callback) {
    int own = 0;
    PyCodeObject *code;
    PyObject *dict;                      /* may hold __wrapped__ or __signature__, which say something else */
    if (PyMethod_Check(callback)) {
        callback = PyMethod_GET_FUNCTION(callback);
        own = 1;
    }
    if (!PyFunction_Check(callback)) return 0;
    code = (PyCodeObject *)PyFunction_GET_CODE(callback);
    dict = ((PyFunctionObject *)callback)->func_dict;
    return code->co_argcount == own && code->co_kwonlyargcount == 0
        && !(code->co_flags & PYSCHED_ASYNC)
        && (!(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) || dict == NULL || PyDict_GET_SIZE(dict) == 0);
}

static inline PyObject *pysched_id_of(PyObject *prefix, uint64_t reference) {
    char digits[17];
    char *first = digits + 16;
    *first = '\0';
    do {
        *--first = "0123456789abcdef"[reference & 15];
        reference >>= 4;
    } while (reference);
    return PyUnicode_FromFormat("%U%s", prefix, first);
}

#endif
