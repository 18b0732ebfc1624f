"""Which allocations fail: what tests of debug builds tell engine/memory.pxd."""

from .interpreter cimport this_thread
from .platform cimport DEBUG, atomic_decrement

cdef bint armed = False
cdef bint everywhere
cdef unsigned long victim            # the thread whose allocations count, unless those of all do
cdef long most = 0
cdef long left = 1                   # until the first that fails


cdef bint refused() noexcept nogil:
    """Whether this allocation is to fail."""
    cdef long ahead
    if not armed or not (everywhere or victim == this_thread()):
        return False
    ahead = atomic_decrement(&left)
    return -most < ahead <= 0


def fail_allocations(long number, long count=1, *, bint of_all_threads=False):
    """Lets `count` allocations fail from the `number`-th on (1: the next): those of this thread, or of all threads.

    Whether they will: False unless this is a debug build.  Until `end_failures`.  Not to be called while other threads
    allocate; O(1).
    """
    global armed, everywhere, victim, most, left
    if number < 1 or count < 1:
        raise ValueError(f"number and count must be at least 1, got {number} and {count}")
    everywhere = of_all_threads
    victim = this_thread()
    left = number
    most = count
    armed = DEBUG
    return armed


def end_failures():
    """Lets all allocations be; returns how many have failed since `fail_allocations`."""
    global armed
    armed = False
    return min(max(1 - left, 0), most)
