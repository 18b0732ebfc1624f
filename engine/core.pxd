"""All that one engine keeps in C: `Core`, its slots, and the rules for touching them.

Ground rules
* `Core.mutex` guards everything in a `Core`.  A few words may be looked at without it, by `peek`, where whoever makes a
  change that is missed sees to it; they are marked, and written by `poke`.  The GIL guards nothing of it, but object
  pointers in slots and key entries are written only by a thread that holds the GIL (or is attached), since the garbage
  collector reads them.  Slots of C functions are written without it: so the collector takes the mutex to look which are
  which.
* Nothing under the mutex allocates a Python object, releases a reference or runs foreign code.  References that are
  to go are moved into a `References` and dropped after the unlock.  tests/test_under_mutex.py sees to it.
* A thread that holds the mutex never waits for the GIL; so one that holds the GIL may wait for the mutex.
* A `Core` lives as long as somebody counts on it: `_Core` (the owner of the references in it), each handle, each thread
  in a loop.  With `_Core` go the references; with the last count the memory.
"""

from cpython.method cimport PyMethod_Check, PyMethod_GET_FUNCTION, PyMethod_GET_SELF
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from .heap cimport Heap
from .keys cimport KeyTable
from .lateness cimport Histogram
from .platform cimport DEBUG, NEVER, Condition, Mutex, Waker, assert_held, peek
from .schedule cimport Schedule
from .slab cimport Slab, slab_at


cdef enum:
    STALE_ALLOWANCE = 1024           # stale nodes that are let be, however few are live

cdef enum SlotState:
    FREE
    PENDING          # in the heap, by the node whose tie it holds
    READY            # in the ready ring and no longer in the heap
    RUNNING          # a command in progress, which may come again, or a one-shot that an executor is being given
    HELD             # a due command whose key is running
    ZOMBIE           # cancelled while in the ready ring, which still holds its index, once
    PAUSED           # a job that was paused
    ENDED            # a job to which no further slot comes; it leaves when its last run has ended

cdef enum ArgumentLayout:
    NO_ARGUMENTS
    ONE_ARGUMENT
    ARGUMENT_TUPLE

cdef enum SlotFlags:
    COMMAND = 1      # `callback` is a command: execute(context)
    REPEATS = 2      # a command that had an interval when it was submitted
    JOB = 4          # `record` is that of a Job
    MANAGED = 8      # a job whose runs are ended by a Ticket
    ALARM = 16       # runs on the loop's own thread, never on a worker, who may all be busy
    NATIVE = 32      # a C function, its argument and what releases that stand instead of the references (natives.pxd)

cdef extern from "platform.h":
    const int64_t NO_REPEAT "INT64_MIN"  # instead of a time: the command does not come again

cdef enum Phase:
    STOPPED
    STARTED
    STOPPING

cdef struct Slot:                    # 56 bytes: with its node of 16, what a pending one-shot costs
    PyObject *callback               # owned, unless NATIVE; NULL in a slot that holds no references
    PyObject *receiver               # the `self` of an unpacked bound method, or NULL
    PyObject *arguments              # by `layout`: nothing, the argument, or a tuple of several
    int64_t when                     # due; of a periodic timer that is queued or running: its next slot
    uint64_t tie                     # that of its node in the heap; any other node of this slot is stale
    uint32_t generation              # counts the timers that had this slot; never 0 in a live one
    uint32_t record                  # accounting of a periodic timer or a job, or 0
    uint32_t key                     # entry of the cancellation table, or 0; free slots are linked through it
    uint8_t state
    uint8_t layout
    uint8_t flags

cdef struct Record:                  # accounting of a periodic timer
    int64_t period
    int64_t busy_until               # end of its last run
    int64_t waiting_when             # due time and tie of the run in the ready ring
    uint64_t waiting_tie
    uint64_t runs
    uint64_t errors
    uint64_t coalesced
    uint32_t waiting                 # runs in the ready ring: 0 or 1
    uint32_t active                  # runs in progress: 0 or 1

cdef enum JobFlags:
    WALL = 1         # its slots are on the wall clock
    IMMEDIATE = 2    # a run at the start is still to come; the node in the heap is that run's
    FAILING = 4      # its last tick failed
    OWED = 8         # its only slot came while its runs were busy; it runs when one of them ends
    LEFT = 16        # in the list of those that have left
    DISABLED = 32    # paused by itself, not only with all jobs
    SINGLE = 64      # it has one slot only
    SPENT = 128      # the last of its `ticks_left` has come
    EXCUSED = 256    # its only slot is late because of a pause or of its own runs: that does not count as late
    FROM_END = 512   # its period counts from the end of its run: while it runs, it is out of the heap
    QUEUES = 1024    # slots that find all instances busy wait in its backlog
    ALL = 2048       # of slots that were missed, each is run
    NONE = 4096      # of slots that were missed, none is run; without both: the latest
    UNTOLD = 8192    # held back until its owner has named it; else it is pending

cdef enum Decision:                  # what becomes of slots, and of runs
    RAN
    COALESCED        # all instances were busy
    MISSED           # the engine was late
    PASSED           # in a pause
    POOL_FULL        # a run waits for a worker
    QUEUED           # waits for an instance, in the backlog
    DROPPED          # the engine was stopped
    RETRIED          # told by the owner
    OUT_OF_TIME      # told by the owner

cdef struct Waiting:                 # a run of a job in the ready ring
    int64_t slot                     # on the job's clock
    int64_t due                      # monotonic, jitter included
    bint ticks                       # counts for `ticks_left`

cdef struct Rare:                    # of a job: what few have
    int64_t grace                    # slots that are later than this are dropped, ns; NEVER: none is
    int64_t delay                    # each slot is due so much later, ns
    int64_t begin                    # on the job's clock: no slot is before it
    Waiting *backlog                 # ring of the runs that wait for an instance
    uint32_t room                    # of that ring: a power of two, or 0
    uint32_t head
    uint32_t count

cdef struct Note:
    int64_t when                     # wall clock, ns
    int64_t slot                     # the latest that it is about, on the wall clock
    int64_t late                     # of a run: how late it started, ns
    uint32_t count                   # of slots
    uint8_t decision

cdef struct Job:                     # definition and accounting of a job of a `Scheduler`
    int64_t period                   # 0: by its schedule; of a single slot: the delay that it was given, or 0
    Schedule *schedule               # of a cron job; its owner's reference is the job's
    int64_t slot                     # the next one, ns on the job's clock; it is due `jitter` later at most
    int64_t until                    # slots from here on do not exist; NEVER: all do
    int64_t jitter                   # the greatest, ns; 0: none
    uint64_t order                   # of registration
    uint64_t ticks_left              # until the last one; 0: no limit
    uint64_t started
    uint64_t succeeded
    uint64_t failed
    uint64_t timed_out
    uint64_t coalesced               # `missed` included
    uint64_t missed
    uint64_t paused
    int64_t last_start               # wall clock, ns; 0: never
    int64_t last_end
    int64_t busy_until               # when a run was free again, after all were taken
    Waiting *queue                   # ring of the runs that wait, `instances` long; NULL with one instance:
    Waiting only                     # then it is this one
    uint32_t queue_head
    uint32_t waiting                 # runs in the ready ring
    uint32_t active                  # runs started and not ended, those that wait for a retry included
    uint32_t instances               # the greatest number of both together
    uint32_t taken_back              # starts that an executor undid: numbers of runs are not given twice
    uint16_t flags                   # JobFlags
    uint16_t noted                   # decisions; once the ring is full, from its room to below twice that
    Rare *rare                       # NULL: nothing of it
    Note *notes                      # ring of the latest, `Core.notes_room` of them at the end; NULL: none yet

cdef struct Item:                    # of news
    uint64_t reference
    Note note

cdef struct News:                    # ring of decisions that are still to be told
    Item *items
    uint32_t room
    uint32_t head
    uint64_t lost                    # told of too late: the oldest were overwritten

cdef struct References:              # owned, to be dropped outside the mutex
    PyObject *callback
    PyObject *receiver
    PyObject *arguments
    PyObject *key                    # of a job: the owner of its schedule

cdef struct Entry:                   # what a new timer is made of; all references are borrowed
    PyObject *callback
    PyObject *receiver
    PyObject *arguments
    PyObject *key
    Py_hash_t hash
    int64_t when
    int64_t period                   # 0: one-shot
    uint8_t layout
    uint8_t flags

cdef struct Run:                     # a callback taken from the core, from its start to its end
    References references            # owned by the run
    int64_t due
    int64_t late                     # how much later than `due` and `Core.start_ns` it started
    int64_t scheduled                # of a job: the slot, ns on the wall clock
    uint64_t number                  # of a job: how many of its runs have started
    bint ticks                       # of a job: counts for its `ticks_left`
    uint32_t slot
    uint32_t generation
    uint32_t key                     # of a command: the entry that is marked as running
    uint8_t layout
    uint8_t flags
    bint periodic
    bint failed
    bint dropped                     # by an executor that had taken it

cdef struct Runner:                  # a thread inside a loop, a drain or ManualClock.advance
    unsigned long thread
    bint calling                     # inside a callback
    uint64_t job                     # reference of the job whose callback that is, or 0
    uint64_t number                  # of its run
    int64_t scheduled
    Runner *next

cdef struct Permit:                  # a binary semaphore, see waiters.pxd
    void *lock                       # of Python; taken unless a permit was given
    bint given

cdef struct Waiter:                  # a thread in wait_idle or stop
    Permit permit
    Waiter *next

cdef struct Core:
    Mutex mutex
    long references
    uint64_t unchecked               # in a debug build: what it may look at since its invariants were checked
    Core *previous                   # all cores of the process, for fork
    Core *next

    Heap heap
    Slab slots
    Slab records
    Slab jobs
    KeyTable keys
    uint64_t order                   # that of the latest submission
    size_t stale                     # nodes of the heap whose timer is gone
    size_t live                      # timers that may still start, each periodic one once
    size_t periodic                  # live timers that have a record
    size_t outside                   # slots READY, RUNNING, HELD, PAUSED or ENDED: each may be put back into the heap
    size_t instances                 # that jobs may have in the ring beyond their first
    uint32_t ended                   # jobs that have left, linked by their keys, and are still to be told of; peeked at
    uint64_t job_order               # that of the latest job
    size_t on_wall                   # jobs whose slots are on the wall clock
    size_t backlog                   # runs in the backlogs of all jobs
    uint32_t explains                # how many decisions are shown of each job
    uint32_t notes_room              # for how many there is room: a power of two; 0: none are noted
    News *news                       # decisions that the owner wants to be told of, or NULL
    uint32_t news_count              # how many are there; peeked at, which `news`, that may be replaced, could not be
    size_t alarms                    # that are pending
    size_t natives                   # timers of C functions that may still start
    int64_t wall_offset              # wall clock - monotonic clock, ns
    int64_t planned_offset           # the same when the jobs that are on the wall clock were planned
    int64_t tolerance                # the latest of several slots is not missed if it is at most so late, ns
    uint64_t random                  # state of the generator of jitter
    bint all_paused
    bint closed                      # it starts no more: what is due never comes
    bint gone                        # `_Core` is: nobody would release what is added now
    uint32_t telling                 # 1: a thread tells the owner of news and of jobs that have left; peeked at
    bint keeps_wall                  # whether `wall_offset` is kept
    size_t reserved                  # slots and nodes promised to a call_many in progress

    uint32_t *ring                   # indices of slots, due and waiting for a worker
    uint32_t ring_mask
    uint32_t ring_head
    uint32_t ring_count              # zombies included
    uint32_t zombies

    uint64_t scheduled
    uint64_t started
    uint64_t cancelled
    uint64_t coalesced
    uint64_t errors
    uint64_t wakeups
    uint64_t dropped
    size_t running                   # callbacks in progress
    Histogram lateness

    Phase phase
    uint32_t epoch                   # grows with each start: drains of an earlier one know themselves
    bint orphans                     # in a child: runs of the parent's threads are still to be released
    uint32_t forks                   # grows in each child: a thread that forked in a callback knows itself
    bint looping                     # a thread is in the loop
    bint launched                    # one is, or is being made for it: nobody else moves the phase to STOPPED
    bint native_clock
    bint sleeping                    # the loop waits, until `sleep_until` unless woken
    int64_t sleep_until
    int64_t start_ns
    Waker waker
    uint32_t workers                 # of the thread pool; 0: callbacks run in the loop
    uint32_t drains                  # submitted and not ended, of this epoch
    uint32_t busy                    # of those: inside a callback
    int64_t full_since               # when the last worker that was free got into its callback
    bint parking                     # a drain without work waits for more (drains.pxd)
    uint32_t parked                  # drains that wait and were not summoned
    bint napping                     # one of them waits for the next deadline, which is near
    uint32_t summons                 # sent to parked drains that have not woken yet
    Condition condition              # on which they wait, with `mutex`
    bint following                   # drains are threads of our own, and one of them leads (lead.pxd)
    bint led                         # one of them does
    bint outgoing                    # the leader of an earlier start has not woken yet: no other may sleep meanwhile
    bint engaged                     # the leader is inside of C functions, and does not sleep
    bint heir                        # one that is parked was told to lead
    bint standing_in                 # the loop's own thread calls C functions: none takes the lead meanwhile
    int64_t deputy_until             # when the deputy, who is parked, looks by itself; NEVER: there is none
    Condition aside                  # on which the loop's own thread waits beside them
    int64_t aside_until              # when it looks by itself
    int64_t spin                     # how long before a deadline a sleep ends and polling begins, ns
    Waker left                       # wakes a run() that waits beside its loop
    Waiter *waiters
    uint32_t waiter_count            # peeked at
    Runner *runners


cdef Core *core_new() noexcept nogil
cdef Mutex *registry_lock() noexcept nogil
cdef Core *first_core() noexcept nogil
cdef void core_hold(Core *core) noexcept nogil
cdef void core_release(Core *core) noexcept nogil
cdef void drop(References *garbage) noexcept
cdef void assert_no_mutex() noexcept nogil
cdef void add_to_references(long by) noexcept


cdef inline void before_foreign_code() noexcept nogil:
    """What comes may run foreign code, so this thread must hold no mutex: a debug build ends if it does."""
    if DEBUG:
        assert_no_mutex()


cdef inline void count_references(long by) noexcept:
    """In a debug build, counts references that cores and runs take (> 0) and release (< 0)."""
    if DEBUG:
        add_to_references(by)


cdef inline bint has_tidings(const Core *core) noexcept nogil:
    """Whether the owner of jobs is to be told of something that no other thread is about to tell."""
    return not peek(&core.telling) and (peek(&core.ended) != 0 or peek(&core.news_count) != 0)


cdef inline int64_t first_due(const Core *core) noexcept nogil:
    """Due time of the first of the heap, stale or not; NEVER if the heap is empty."""
    return core.heap.nodes[0].when if core.heap.size else NEVER


cdef inline Slot *slot_at(const Core *core, uint32_t index) noexcept nogil:
    return <Slot *>slab_at(&core.slots, index)


cdef inline Record *record_at(const Core *core, uint32_t index) noexcept nogil:
    return <Record *>slab_at(&core.records, index)


cdef inline Job *job_at(const Core *core, uint32_t index) noexcept nogil:
    return <Job *>slab_at(&core.jobs, index)


cdef inline void entry_call(Entry *entry, object callback, tuple arguments) noexcept:
    """Sets what `entry` calls, in its cheapest form: a bound method as function and `self`, one argument bare."""
    cdef Py_ssize_t count = PyTuple_GET_SIZE(arguments)
    entry.callback = <PyObject *>callback
    entry.receiver = NULL
    entry.arguments = NULL
    entry.layout = NO_ARGUMENTS
    if count > 1:
        # A method keeps its object here: a call with a tuple cannot take one more argument in front.
        entry.layout = ARGUMENT_TUPLE
        entry.arguments = <PyObject *>arguments
        return
    if PyMethod_Check(callback):
        entry.callback = <PyObject *>PyMethod_GET_FUNCTION(callback)
        entry.receiver = <PyObject *>PyMethod_GET_SELF(callback)
    if count:
        entry.layout = ONE_ARGUMENT
        entry.arguments = <PyObject *>PyTuple_GET_ITEM(arguments, 0)


cdef inline void take_references(Slot *slot, References *garbage) noexcept nogil:
    garbage.callback = slot.callback
    garbage.receiver = slot.receiver
    garbage.arguments = slot.arguments
    slot.callback = slot.receiver = slot.arguments = NULL


cdef inline int64_t time_left(int64_t until, int64_t now) noexcept nogil:
    """until - now, for until > now; NEVER if `until` is, whatever sign a user's clock gives to `now`."""
    return NEVER if until == NEVER or (now < 0 and until > NEVER + now) else until - now


cdef inline int64_t shifted(int64_t time, int64_t by) noexcept nogil:
    """time + by, within -NEVER and NEVER."""
    if by >= 0:
        return time + by if time < NEVER - by else NEVER
    return time + by if time > -NEVER - by else -NEVER


cdef inline int64_t saturating_add(int64_t a, int64_t b) noexcept nogil:
    """a + b for b >= 0, at most NEVER."""
    return a + b if a < NEVER - b else NEVER
