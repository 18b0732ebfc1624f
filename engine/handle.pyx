"""See handle.pxd.  A handle is no container: the garbage collector never looks at it."""

cimport cython

from .core cimport Slot, core_hold, core_release, slot_at
from .platform cimport lock, unlock
from .timers cimport core_cancel


cdef TimerHandle new_handle(Core *core):
    """A handle of no timer yet; the caller sets which."""
    cdef TimerHandle handle = TimerHandle.__new__(TimerHandle)
    core_hold(core)
    handle.core = core
    return handle


cdef Core *core_of(TimerHandle self) except NULL:
    """The core; there is none in a handle that `TimerHandle.__new__` made."""
    if self.core == NULL:
        raise TypeError("handles are made by an engine")
    return self.core


cdef Slot *live_slot(TimerHandle self) noexcept:
    """The timer's slot while the timer lives, else NULL.  The mutex is held."""
    cdef Slot *slot = slot_at(self.core, self.slot)
    return slot if slot.generation == self.generation else NULL


@cython.final
@cython.freelist(256)
@cython.no_gc
cdef class TimerHandle:
    """One timer of an engine, which makes the handle.  Handles of the same timer are equal and hash alike.

    It keeps neither callback nor arguments alive once the timer has ended.  All methods are safe in any thread and
    in destructors, work after the timer has ended, and are O(1), `cancel` amortised.  It can be neither copied nor
    pickled.
    """

    def __init__(self):
        raise TypeError("handles are made by an engine")

    def __reduce__(self):
        raise TypeError("cannot pickle 'TimerHandle' object")      # nor copy: a handle stands for its timer

    def __dealloc__(self):
        if self.core != NULL:
            core_release(self.core)

    def cancel(self):
        """Cancels the timer: True exactly if that prevented a run that would have come.

        Of a one-shot: until its callback starts.  Of a periodic timer True the first time, also while it runs: that
        run goes on, no other starts.  Callback and arguments are released at once.
        """
        if not core_cancel(core_of(self), self.slot, self.generation, &self.when_ns):
            return False
        self.was_cancelled = True
        return True

    def when(self):
        """When the timer is next due, in seconds of the engine's `time()`.

        Of a timer that has ended: the due time known when this handle was made, or when its `cancel()` returned
        True.
        """
        cdef Slot *slot
        cdef int64_t when
        lock(&core_of(self).mutex)
        slot = live_slot(self)
        when = slot.when if slot != NULL else self.when_ns
        unlock(&self.core.mutex)
        return when / 1e9

    def cancelled(self):
        """Whether `cancel()` of this handle has returned True."""
        return self.was_cancelled

    def done(self):
        """Whether nothing of this timer will start any more; a one-shot is done as soon as it starts."""
        cdef bint live
        lock(&core_of(self).mutex)
        live = live_slot(self) != NULL
        unlock(&self.core.mutex)
        return not live

    def __eq__(self, other):
        if not isinstance(other, TimerHandle):
            return NotImplemented
        cdef TimerHandle that = <TimerHandle>other
        return self.core == that.core and self.slot == that.slot and self.generation == that.generation

    def __hash__(self):
        return hash((<size_t>self.core, self.slot, self.generation))

    def __repr__(self):
        state = "cancelled" if self.was_cancelled else "done" if self.done() else f"due at {self.when():.6f}"
        return f"<TimerHandle {self.slot}.{self.generation} {state}>"
