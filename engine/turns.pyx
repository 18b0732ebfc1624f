"""See turns.pxd.

Ground rules
* Every thread that runs callbacks lists a `Runner` in its core, so that a `stop` from inside knows itself.
* A run is finished under the mutex in the same breath in which the next one is taken.
* Whoever sees, under the mutex, that the phase is not STARTED starts nothing any more.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from .core cimport ALARM, STARTED, Core, References, Run, Runner, before_foreign_code, drop, has_tidings
from .dispatcher cimport Dispatcher, now_of, raise_failure
from .drains cimport drains_summon
from .lead cimport BATCH, drain_park, promote
from .natives cimport TURN, native_call, native_due, native_end, native_take
from .platform cimport assert_held, lock, unlock
from .runners cimport runner_enter, runner_leave, runner_new, runner_set
from .runs cimport core_alarm_due, core_collect_due, core_finish, core_take_due, core_take_ready
from .waiters cimport core_notify
from .wakes cimport core_sleeps_too_long

from pysched.waiting import breathe

cdef enum:
    GIL_SHARE_NS = 1_000_000         # a thread that runs callbacks lets others have the GIL this often


cdef inline int share_gil(int64_t now, int64_t *since) except -1:
    """Lets the interpreter switch threads, at least once a millisecond: callbacks that are builtins never do.

    By running a Python function, at whose start the interpreter looks whether another thread waits for the GIL, and
    hands it over.  To release and retake it here would do harm: the waiter is woken too late to get it, and begins to
    count its switch interval anew.
    """
    if now - since[0] > GIL_SHARE_NS or now < since[0]:
        since[0] = now
        breathe()
    return 0


cdef struct Turn:                    # one thread's way through a series of runs
    Runner *runner
    Run run
    References garbage               # of the run before, to be dropped outside the mutex
    int64_t now                      # the end of the run before
    int64_t again                    # when its command comes again, or NO_REPEAT
    int64_t gil_since
    uint32_t forks
    bint running                     # `run` has started and is not finished


cdef int begin_turn(Dispatcher self, Turn *turn) except -1:
    """Lists this thread as one that runs callbacks.  Returns with the mutex held, unless it raises.

    Never inside of a `try`, at whose end references are released.
    """
    prepare_turn(self, turn)
    enter_turn(self.c, turn)
    return 0


cdef int prepare_turn(Dispatcher self, Turn *turn) except -1:
    """The first half of `begin_turn`, which may raise."""
    memset(turn, 0, sizeof(Turn))
    turn.now = turn.gil_since = now_of(self)
    turn.forks = self.c.forks
    self.read_wall()
    turn.runner = runner_new()
    return 0


cdef void enter_turn(Core *core, Turn *turn) noexcept nogil:
    lock(&core.mutex)
    runner_enter(core, turn.runner)


cdef bint finish_run(Core *core, Turn *turn) noexcept nogil:
    """Finishes the run in progress, if there is one; False in a child that the callback forked.  The mutex is held."""
    assert_held(&core.mutex)
    if core.forks != turn.forks:
        turn.running = False             # it was the parent's, and the child's core has forgotten it
        return False
    if turn.running:
        core_finish(core, &turn.run, turn.now, turn.again, &turn.garbage)
        turn.running = turn.runner.calling = False
    return True


cdef bint call_run(Dispatcher self, Turn *turn, bint interruptible) noexcept:
    """Calls the run just taken and waits for its end: True if that ends the turn, with a reason in `failure`.

    Called with the mutex held and returns with it held; in between nothing is held.
    """
    cdef bint over
    turn.running = turn.runner.calling = True
    runner_set(turn.runner, &turn.run)
    unlock(&self.c.mutex)
    drop_garbage(turn)
    if has_tidings(self.c):
        self.reap()
    over = self.perform(&turn.run, interruptible)
    try:
        turn.now = now_of(self)
        share_gil(turn.now, &turn.gil_since)      # Ctrl-C may come out of it
    except BaseException as error:
        # The run ends at the last time that is known.
        self.failure = error
        over = True
    before_foreign_code()
    turn.again = self.repeat_at(&turn.run, turn.now)
    drop(&turn.run.references)
    lock(&self.c.mutex)
    return over


cdef int end_turn(Dispatcher self, Turn *turn, bint wake, bint over) except -1:
    """Takes the thread off the list and gives the mutex back.

    `wake`: the loop is to be woken.  `over`: what ended the turn is in `failure`, and is raised.
    """
    cdef Core *core = self.c
    if wake or has_garbage(turn) or has_tidings(core):
        unlock(&core.mutex)
        if wake:
            self.wake()                  # first: a destructor may take its time
        drop_garbage(turn)               # on the list still: or it may stop the engine, and wait for this thread
        if has_tidings(core):
            self.reap()
        lock(&core.mutex)
    runner_leave(core, turn.runner)
    unlock(&core.mutex)
    core_notify(core)
    if over:
        raise_failure(self)
    return 0


cdef inline bint has_garbage(const Turn *turn) noexcept nogil:
    return turn.garbage.callback != NULL or turn.garbage.key != NULL


cdef inline void drop_garbage(Turn *turn) noexcept:
    if has_garbage(turn):
        drop(&turn.garbage)
        memset(&turn.garbage, 0, sizeof(References))


cdef bint call_native(Dispatcher self, Turn *turn) noexcept:
    """`call_run` of a C function, without the GIL, and the end of its run."""
    cdef bint over = False
    turn.runner.job = 0
    turn.runner.calling = True
    unlock(&self.c.mutex)
    with nogil:
        native_call(&turn.run)
    try:
        turn.now = now_of(self)
    except BaseException as error:
        self.failure = error
        over = True
    lock(&self.c.mutex)
    native_end(self.c, &turn.run, turn.now, turn.forks)
    turn.runner.calling = False
    return over


cdef bint run_first(Dispatcher self, int64_t now) except -1:
    """Runs the earliest timer, if it is due by `now` and the engine is started: whether a callback ran."""
    cdef Turn turn
    cdef bint ran = False, over = False
    begin_turn(self, &turn)
    if self.c.phase == STARTED:
        if core_take_ready(self.c, now, False, &turn.run) or core_take_due(self.c, now, True, &turn.run):
            ran = True
            over = call_run(self, &turn, False)
            finish_run(self.c, &turn)
        elif native_take(self.c, now, &turn.run):
            ran = True
            over = call_native(self, &turn)
    end_turn(self, &turn, False, over)
    return ran and not turn.run.flags & ALARM


cdef int run_inline(Dispatcher self, bint interruptible) except -1:
    """Runs what is due, one callback after the other, until nothing is."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef bint over = False
    begin_turn(self, &turn)
    while finish_run(core, &turn):
        if over or core.phase != STARTED or not core_take_due(core, turn.now, False, &turn.run):
            break
        over = call_run(self, &turn, interruptible)
    end_turn(self, &turn, False, over)
    return 0


cdef bint is_due(Dispatcher self, bint (*due)(Core *, int64_t) noexcept nogil) except -1:
    """Whether `due` says so of this moment."""
    cdef int64_t now = now_of(self)
    cdef bint answer
    lock(&self.c.mutex)
    answer = due(self.c, now)
    unlock(&self.c.mutex)
    return answer


cdef int run_alarms(Dispatcher self) except -1:
    """Runs the alarms that are due and first in the heap, on the loop's thread."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef bint over = False
    if not is_due(self, core_alarm_due):
        return 0
    begin_turn(self, &turn)
    while finish_run(core, &turn):
        if over or core.phase != STARTED or not core_alarm_due(core, turn.now):
            break
        core_take_due(core, turn.now, True, &turn.run)
        over = call_run(self, &turn, False)
    end_turn(self, &turn, False, over)
    return 0


cdef int run_natives(Dispatcher self) except -1:
    """Calls C functions that are due and first in the heap, on the loop's thread; the clock is a user's."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef size_t called = 0
    cdef bint over = False
    if not is_due(self, native_due):
        return 0
    begin_turn(self, &turn)
    while (not over and called < TURN and core.forks == turn.forks and core.phase == STARTED
            and native_take(core, turn.now, &turn.run)):
        over = call_native(self, &turn)
        called += 1
    end_turn(self, &turn, False, over)
    return 0


# -- drains ---------------------------------------------------------------------------------------------------------

cdef bint take_or_collect(Core *core, int64_t now, Run *run) noexcept:
    """Starts the first ready timer, after a look at what came due meanwhile if there is none.  The mutex is held."""
    assert_held(&core.mutex)
    if core_take_ready(core, now, False, run):
        return True
    if not core_collect_due(core, now, BATCH):
        return False
    drains_summon(core)                  # this drain takes one; the others go on
    return core_take_ready(core, now, False, run)


cdef void drain_occupied(Core *core, int64_t now) noexcept nogil:
    """Counts a drain as one that is inside of foreign code: what comes due is not left to it."""
    assert_held(&core.mutex)
    core.busy += 1
    if core.busy >= core.workers:
        core.full_since = now
    if core.following:
        promote(core, now)


cdef int clear_up(Dispatcher self, Turn *turn, bint alarm) except -1:
    """Does what is left to do before a drain parks, which may run destructors and reports of any length.

    No mutex held.  `alarm`: one is due, of those that the leader runs.
    """
    drop_garbage(turn)
    if has_tidings(self.c):
        self.reap()
    if alarm:
        run_alarms(self)
    return 0


cdef bint park(Dispatcher self, uint32_t epoch, Turn *turn) noexcept:
    """Waits without the GIL for more work: True if that ends the turn, with a reason in `failure`.

    Called and returns with the mutex held; nothing is held in between, nor where an exception is made or kept.
    """
    cdef Core *core = self.c
    # Of the leader, who met one at the top of the heap.
    cdef bint alarm = core.following and core_alarm_due(core, turn.now)
    cdef bint over = False
    if alarm or has_garbage(turn) or has_tidings(core):
        drain_occupied(core, turn.now)
        unlock(&core.mutex)
        try:
            clear_up(self, turn, alarm)
        except BaseException as error:
            self.failure = error
            over = True
        lock(&core.mutex)
        if core.epoch == epoch and core.forks == turn.forks:
            core.busy -= 1
        if over:
            return True
    unlock(&core.mutex)
    core_notify(core)
    try:
        with nogil:
            drain_park(core, epoch, self.event, turn.runner)
        turn.now = turn.gil_since = now_of(self)
    except BaseException as error:
        self.failure = error
        over = True
    lock(&core.mutex)
    return over


cdef int drain_ready(Dispatcher self, uint32_t epoch) except -1:
    """One drain: takes callbacks one at a time until nothing is ready or due and it may not park, or a stop."""
    cdef Core *core = self.c
    cdef Turn turn
    cdef bint over = False, wake
    try:
        prepare_turn(self, &turn)
    except BaseException:                # a start that comes before the loop has left must not count on this drain
        lock(&core.mutex)
        core.drains -= core.epoch == epoch and core.drains != 0
        unlock(&core.mutex)
        raise
    enter_turn(core, &turn)
    while True:
        if turn.running and core.epoch == epoch and core.forks == turn.forks:
            core.busy -= 1
        if not finish_run(core, &turn):
            break
        if over or core.epoch != epoch or core.phase != STARTED:
            break
        if not take_or_collect(core, turn.now, &turn.run):
            if not core.parking:
                break
            over = park(self, epoch, &turn)
            continue
        drain_occupied(core, turn.now)
        over = call_run(self, &turn, False)
    if core.epoch == epoch and core.drains:      # a pool of a user's make may run one twice
        core.drains -= 1
    # The loop may sleep past the next timer because this drain was there, or because it was held back until now.
    wake = core_sleeps_too_long(core)
    end_turn(self, &turn, wake, over)
    return 0
