"""The compiled `CommandScheduler`: a dispatcher whose runs are commands."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t, uint32_t

from .core cimport COMMAND, NO_ARGUMENTS, NO_REPEAT, REPEATS, Entry, References, Run, drop, saturating_add
from .dispatch cimport start as start_loop
from .dispatch cimport stop as stop_loop
from .dispatcher cimport now_of
from .driven cimport Driven
from .interpreter cimport TypeSlots, call_method, is_async_function, optional_attribute, type_of
from .invariants cimport core_check
from .keys cimport key_hash, keys_prefetch
from .numbers cimport interval_ns, timeout_seconds, to_ns
from .timers cimport core_add, core_cancel_key

from pysched.reports import call_handler, log_error
from pysched.text import shown

cdef object ScheduledCommand = None
cdef str EXECUTE = "execute"


cdef class CommandScheduler(Driven):
    """CommandScheduler(context=None, on_error=None, name='scheduler', *, clock=None, max_workers=1)\n--\n\n\
    Runs commands after a delay, once or repeatedly, one at a time, with a shared context.

    A command is any object with `execute(context)`; `key` (None: no key) and `repeat_interval_s` (None: runs once)
    are optional.  See `pysched.Command`.

    `context` (default None): handed to each command; read from the attribute of that name at each run.

    `on_error`: `on_error(exc, command)` is called with whatever a command raised, SystemExit and the like included,
    on the thread that ran it.  None (default): the error is stored as `context.last_error`; without a context it is
    logged (logger `pysched`, ERROR).

    `name` (default "scheduler"): the loop's daemon thread is `{name}_t`.

    `clock`: a `pysched.Clock`; None (default): the system's, monotonic.  On a `pysched.testing.ManualClock` there
    is no thread.

    `max_workers` (default 1, at most 1,048,576): with more than one, commands run on a `ThreadPoolExecutor` of that
    many workers and may overlap, except those of one key: one that is due waits for the end of that run, and others
    pass it.  The context is then shared between threads.

    Delays and intervals are seconds.  Commands that are due run in the order of (due, submission). All methods are
    safe in any thread and in commands.  Bad arguments raise TypeError or ValueError naming the argument, with
    nothing changed.  A started scheduler stays alive until it is stopped; it can be neither copied nor pickled.
    """

    cdef public object context
    cdef object on_error
    cdef TypeSlots *known_type           # the class of the latest command, whose `execute` was seen to be callable,
    cdef unsigned int known_version      # and its version: an address alone may be that of another class by now
    cdef dict __dict__

    def __init__(self, context=None, on_error=None, name="scheduler", *, clock=None, max_workers=1):
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error must be callable, got {type(on_error).__name__}")
        if isinstance(max_workers, bool) or not isinstance(max_workers, int):
            raise TypeError(f"max_workers must be an int, got {type(max_workers).__name__}")
        if not 1 <= max_workers <= 1 << 20:
            raise ValueError(f"max_workers must be from 1 to {1 << 20}, got {shown(max_workers)}")
        self.set_up(name, clock)
        self.workers = max_workers if max_workers > 1 else 0
        self.context = context
        self.on_error = on_error

    def submit(self, command, delay_s=0.0):
        """Runs `command` once, `delay_s` seconds from now, or again and again if it has a `repeat_interval_s`.

        A command with the same `key` that waits is replaced.  Raises ValueError for a delay that is not finite and
        >= 0 or a `repeat_interval_s` that is not finite and > 0, TypeError for a command without `execute` or with an
        `async` one.  O(1) on average.
        """
        cdef int64_t delay = to_ns(delay_s, "delay_s")
        cdef Entry entry
        cdef uint32_t slot, generation
        cdef References garbage
        if not self.is_known(command):
            self.check_command(command)
        key = attribute(command, "key")
        entry.key = NULL
        if key is not None:
            entry.key = <PyObject *>key
            entry.hash = key_hash(key)
            keys_prefetch(&self.c.keys, entry.hash)      # it comes while the next lines run
        interval = attribute(command, "repeat_interval_s")
        entry.flags = COMMAND
        if interval is not None:
            interval_ns(interval, "repeat_interval_s")
            entry.flags = COMMAND | REPEATS
        entry.callback = <PyObject *>command
        entry.receiver = entry.arguments = NULL
        entry.layout = NO_ARGUMENTS
        entry.period = 0
        entry.when = saturating_add(now_of(self), delay)
        if core_add(self.c, &entry, &slot, &generation, &garbage):
            self.wake()
        if garbage.callback != NULL:
            drop(&garbage)

    def schedule(self, command, interval_s, delay_s=0.0, key=None):
        """Runs `command` after `delay_s` seconds and then again `interval_s` seconds after the end of each run.

        `interval_s`: finite and > 0. `delay_s`: finite and >= 0, default 0. `key`: used instead of the command's
        own; None (default): the command's own.

        Submits a `ScheduledCommand` through `self.submit`.  From then on its `repeat_interval_s` counts, not that of
        the command inside it, and `on_error` is told of it; the command is its `.command`.  Raises what `submit`
        does, and costs as much.
        """
        global ScheduledCommand
        interval_ns(interval_s, "interval_s")
        to_ns(delay_s, "delay_s")
        self.check_command(command)
        if ScheduledCommand is None:
            from pysched.commands import ScheduledCommand
        self.submit(ScheduledCommand(command, interval_s, key), delay_s)

    def remove(self, key):
        """Cancels the command of that key, pending or repeating: it never starts again.  Unknown keys are silent.

        Raises TypeError for a key that is not hashable.  O(1) amortised.
        """
        if key is not None:
            key_hash(key)
            core_cancel_key(self.c, key)

    def start(self):
        """Starts the daemon thread; nothing if it runs.  What was pending before is still there.

        After a `stop` that a command outlived, the old loop goes on when the command returns, with a warning: there
        is never a second one.

        Raises TypeError if `_queue` or `_cancellation` was replaced, RuntimeError if there can be no new thread, or
        while the interpreter ends.
        """
        self.check_untouched()
        start_loop(self)

    def stop(self, timeout=2.0):
        """Ends the loop and waits for the end of what runs, at most `timeout` seconds; what is pending stays pending.

        `timeout`: finite and >= 0, default 2; None: without limit.  Inside a command it signals and returns.

        Raises TypeError or ValueError for a bad `timeout`, with nothing stopped.
        """
        stop_loop(self, timeout_seconds(timeout))

    def _check(self):
        """Raises AssertionError naming the first broken invariant; O(n)."""
        core_check(self.c)

    def __repr__(self):
        return f"<{type(self).__name__} {self._name!r}>"

    cdef str loop_name(self):
        return f"{self._name}_t"

    cdef int check_command(self, object command) except -1:
        execute = getattr(command, EXECUTE, None)
        if not callable(execute):
            raise TypeError(f"command must have an execute(context) method, got {type(command).__name__}")
        if is_async_function(<PyObject *>execute):
            raise TypeError(
                f"command must not have an async execute, which nothing would await, got {type(command).__name__}"
            )
        if callable(getattr(type(command), EXECUTE, None)):
            self.known_type = type_of(<PyObject *>command)
            self.known_version = self.known_type.tp_version_tag
        return 0

    cdef inline bint is_known(self, object command) noexcept:
        cdef TypeSlots *kind = type_of(<PyObject *>command)
        return kind == self.known_type and kind.tp_version_tag == self.known_version and self.known_version != 0

    cdef int check_untouched(self) except -1:
        for name in ("_queue", "_cancellation"):
            if name in vars(self) or hasattr(type(self), name):
                raise TypeError(
                    f"{name} cannot be replaced: this scheduler keeps its commands elsewhere; "
                    "for a queue or a registry of your own use SchedulerWorker"
                )
        return 0

    # -- what a run is --

    cdef PyObject *invoke(self, Run *run) noexcept:
        context = self.context               # held: the command may give the scheduler another one
        return call_method(run.references.callback, <PyObject *>EXECUTE, <PyObject *>context)

    cdef int64_t repeat_at(self, Run *run, int64_t now) noexcept:
        """The interval is asked for after each run: a command may change or end its repetition."""
        try:
            interval = attribute(<object>run.references.callback, "repeat_interval_s")
            if interval is None:
                return NO_REPEAT
            return saturating_add(now, interval_ns(interval, "repeat_interval_s"))
        except BaseException as error:
            self.report(run, error)
            return NO_REPEAT

    cdef object report(self, Run *run, object error):
        if self.on_error is not None:
            return call_handler(self.on_error, error, <object>run.references.callback, self._name)
        if self.context is None:
            log_error(f"{self._name}: a command raised an exception", error)
        else:
            try:
                self.context.last_error = error
            except BaseException as failure:
                log_error(f"{self._name}: a command raised an exception", error)
                log_error(f"{self._name}: the context does not take a last_error", failure)


cdef inline object attribute(object command, str name):
    """The attribute, or None if there is none; a property that fails with AttributeError is not taken for missing."""
    cdef PyObject *found
    optional_attribute(<PyObject *>command, <PyObject *>name, &found)
    if found == NULL:
        return insist(command, name)
    value = <object>found
    Py_DECREF(value)
    return value


cdef object insist(object command, str name):
    return getattr(command, name) if hasattr(type(command), name) else None
