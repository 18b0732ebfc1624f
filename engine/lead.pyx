"""See lead.pxd.  Nothing here needs the GIL, and this is the one place where a thread of the engine sleeps."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .core cimport STARTED, STOPPED, Core, Runner, first_due, has_tidings, saturating_add, time_left
from .drains cimport core_set_phase, drains_summon, drains_wanted
from .natives cimport native_due, native_first, natives_run
from .platform cimport (
    LONGEST_WAIT,
    NEVER,
    assert_held,
    condition_signal,
    condition_wait,
    condition_wait_until,
    cpu_relax,
    lock,
    monotonic_ns,
    unlock,
    waker_take,
    waker_wait,
    waker_wake,
    waker_watch_clock,
    wall_offset_ns,
)
from .runs cimport core_alarm_due, core_collect_due, core_put_back
from .waiters cimport WakeEvent
from .wakes cimport ASIDE_NS, core_attend, core_prune, core_sleeps_too_long
from .wall cimport core_see_wall

cdef enum:
    DRAIN_GRACE_NS = 100_000         # how long the loop leaves due timers to a drain that is between callbacks
    WORK_GRACE_NS = 1_000_000        # the same while all workers are at work and get on
    DEPUTY_NS = 200_000              # how long after its deadline the leader's deputy looks whether it leads again
    POLL_NS = 10_000_000             # how long a thread polls without a look at signals, stops and the wall clock


cdef bint has_work(Core *core, int64_t now) noexcept nogil:
    """Whether there is something for the loop's thread to do, with the GIL."""
    assert_held(&core.mutex)
    if core.workers == 0:
        return core.heap.size != 0 and core.heap.nodes[0].when <= now and not native_first(core)
    return drains_wanted(core) != 0 or core_alarm_due(core, now)


cdef int64_t sleep_until(Core *core, int64_t now) noexcept nogil:
    cdef int64_t due = first_due(core)
    cdef int64_t grace = saturating_add(now, DRAIN_GRACE_NS)
    assert_held(&core.mutex)
    if (core.drains - core.parked > core.busy or core.napping) and due < grace and not native_first(core):
        # A drain between two callbacks takes what comes due, and wakes the loop if it ends before that.
        return grace
    return due


cdef bint leaves_it_to_drains(const Core *core, uint64_t *seen) noexcept nogil:
    """Whether all workers are at work, callbacks have started since the loop's last look, and nothing is its own.

    Each of them looks at what came due when its callback ends, and whoever stops doing so wakes the loop.  Were the
    loop to look as well, the two would fight for the mutex and for each other's cache lines.
    """
    cdef bint get_on = core.started != seen[0]
    assert_held(&core.mutex)
    seen[0] = core.started
    return (get_on and core.drains - core.parked + core.napping >= core.workers
            and not core.alarms and not core.natives)


cdef void leave_loop(Core *core) noexcept nogil:
    assert_held(&core.mutex)
    core_put_back(core)
    core.looping = False
    core_set_phase(core, STOPPED)
    waker_wake(&core.left)


cdef bint is_over(Core *core, uint32_t epoch) noexcept nogil:
    """Whether the loop of this start must end; if so, the core is a stopped one, or that of another start already."""
    assert_held(&core.mutex)
    if core.epoch != epoch:
        return True
    if core.phase == STARTED:
        return False
    leave_loop(core)
    return True


# -- one sleep ------------------------------------------------------------------------------------------------------

cdef void poll(Core *core, int64_t until) noexcept nogil:
    """Polls the clock until `until`, if that is near, or until somebody wakes the loop."""
    cdef int64_t now = monotonic_ns()
    cdef int64_t limit = min(until, now + POLL_NS)
    if until - now > core.spin:
        return                           # the sleep was ended by something else
    while now < limit and not waker_take(&core.waker):
        cpu_relax()
        now = monotonic_ns()


cdef void sleep(Core *core, int signal_fd, int64_t now, int64_t until) noexcept nogil:
    """Sleeps until `until`, a wake-up, a signal, or a step of the wall clock; may return early.

    The mutex is given back meanwhile.
    """
    cdef int64_t longest = LONGEST_WAIT
    cdef int64_t asleep = until if until == NEVER else until - core.spin
    cdef bint woken = False
    assert_held(&core.mutex)
    core.sleep_until = until
    core.sleeping = True
    if core.on_wall and not waker_watch_clock(&core.waker):
        longest = CLOCK_LOOK_NS
    unlock(&core.mutex)
    if asleep > now:
        woken = waker_wait(&core.waker, signal_fd, min(time_left(asleep, now), longest))
    if core.spin and not woken:
        poll(core, until)
    lock(&core.mutex)
    core.sleeping = False
    core.wakeups += 1


# -- the loop's thread ----------------------------------------------------------------------------------------------

cdef Outcome wait_for_work(Core *core, uint32_t epoch, int signal_fd, Runner *runner) noexcept nogil:
    """Sleeps until something is due that needs the GIL; due timers reach the ready ring without it.  No mutex held.

    `runner`: that of the calling thread, which calls C functions here.
    """
    cdef int64_t now
    cdef uint64_t seen = 0
    cdef size_t collected = 0, called
    lock(&core.mutex)
    while True:
        if is_over(core, epoch):
            unlock(&core.mutex)
            return LEFT
        if core.following and (core.led or core.heir or core.parked):
            core.aside_until = NEVER     # a worker sees to everything
            condition_wait(&core.aside, &core.mutex)
            core.aside_until = -NEVER    # it looks now: no need to signal
            continue
        if core.keeps_wall:
            core_see_wall(core, wall_offset_ns(), monotonic_ns())
        now = monotonic_ns()
        if core.workers and not core.following and signal_fd < 0 and leaves_it_to_drains(core, &seen):
            sleep(core, signal_fd, now, saturating_add(now, WORK_GRACE_NS))
            continue
        if core.workers:
            collected = core_collect_due(core, now, BATCH)
            drains_summon(core)
            if collected == BATCH and not drains_wanted(core):
                unlock(&core.mutex)      # registrations and drains get a turn
                lock(&core.mutex)
                continue
        called = call_natives(core, epoch, now, runner)
        if called:
            now = monotonic_ns()
        core_prune(core)
        if has_work(core, now):
            unlock(&core.mutex)
            return WORK
        if called and signal_fd < 0:
            continue
        if has_tidings(core) or (collected and core.waiters != NULL):
            unlock(&core.mutex)          # what was due was coalesced: that may be what somebody waits for
            return LOOK
        if core.following:
            stand_aside(core, now)
            continue
        if not called:
            sleep(core, signal_fd, now, sleep_until(core, now))
        if signal_fd >= 0:               # with the GIL: what needs none goes first
            call_natives(core, epoch, monotonic_ns(), runner)
            unlock(&core.mutex)
            return LOOK


cdef size_t call_natives(Core *core, uint32_t epoch, int64_t now, Runner *runner) noexcept nogil:
    """Calls C functions that are due; how many.  The mutex is given back meanwhile."""
    cdef size_t called
    assert_held(&core.mutex)
    if not native_due(core, now):
        return 0
    core.standing_in = core.following
    called = natives_run(core, epoch, now, runner)
    if core.standing_in and core.epoch == epoch:
        core.standing_in = False
        if core.parked and not (core.led or core.outgoing):
            core.heir = True
            condition_signal(&core.condition)
    return called


cdef void stand_aside(Core *core, int64_t now) noexcept nogil:
    """Waits while all workers are inside callbacks, until shortly after the next deadline.

    No callback of Python can run at that time, so it is not to be met exactly.  A worker that is free meanwhile takes
    the lead again without a signal, and it would only be in the way of one that wakes at the deadline.
    """
    cdef int64_t until = first_due(core)
    assert_held(&core.mutex)
    if core.on_wall:
        until = min(until, saturating_add(now, CLOCK_LOOK_NS))
    core.aside_until = until if native_first(core) else saturating_add(until, ASIDE_NS)
    condition_wait_until(&core.aside, &core.mutex, core.aside_until)
    core.aside_until = -NEVER


# -- drains ---------------------------------------------------------------------------------------------------------

cdef void drain_park(Core *core, uint32_t epoch, WakeEvent event, Runner *runner) noexcept nogil:
    """Lets a drain wait until there is something for it to do, or its start is over.  No mutex held.

    `runner`: that of the calling thread, which calls C functions if it leads.

    `event`: what wakes a loop that waits through a user's clock.  A child that is forked meanwhile has no such thread,
    hence no look at `forks`.
    """
    lock(&core.mutex)
    if core.epoch == epoch:
        if core.following:
            follow(core, epoch, runner)
        else:
            await_summons(core, epoch, event)
    unlock(&core.mutex)


cdef void unpark(Core *core) noexcept nogil:
    """Ends the wait of a drain.

    Whoever wakes first takes a summons, whomever the signal was meant for: the counts agree all the same.
    """
    assert_held(&core.mutex)
    if core.summons:
        core.summons -= 1
    else:
        core.parked -= 1


cdef void await_summons(Core *core, uint32_t epoch, WakeEvent event) noexcept nogil:
    assert_held(&core.mutex)
    core.parked += 1
    if event is None and nap(core, epoch):
        return
    # The loop may sleep past the next timer because this drain was there.
    if core_sleeps_too_long(core):
        if event is None:
            waker_wake(&core.waker)
        else:
            event.announce()
    while core.phase == STARTED and not core.summons and core.ring_count == core.zombies:
        condition_wait(&core.condition, &core.mutex)
        if core.epoch != epoch:
            return
    unpark(core)


cdef bint nap(Core *core, uint32_t epoch) noexcept nogil:
    """Lets a parked drain wait for the next deadline itself, if that is near; True if it is parked no more.

    Where timers come thick, waking the loop, which would then wake this drain again, costs more than the callbacks.
    """
    cdef int64_t now = monotonic_ns()
    cdef int64_t due
    assert_held(&core.mutex)
    core_prune(core)
    if native_first(core):               # the loop's own
        return False
    due = first_due(core)
    if core.napping or core.summons or core.phase != STARTED or due > saturating_add(now, DRAIN_GRACE_NS):
        return False
    if core.ring_count != core.zombies:
        return False                     # what came due while this drain was on its way here
    core.napping = True
    condition_wait_until(&core.condition, &core.mutex, due)
    if core.epoch != epoch:
        return True                      # another start's drains are counted anew
    core.napping = False
    unpark(core)
    return True


# -- daemon workers -------------------------------------------------------------------------------------------------

cdef void promote(Core *core, int64_t now) noexcept nogil:
    """Sees to it that somebody is there at the next deadline, as the caller is about to do something else."""
    cdef int64_t when = max(first_due(core), now)
    assert_held(&core.mutex)
    if core.on_wall:
        when = min(when, saturating_add(now, CLOCK_LOOK_NS))
    core_attend(core, when)


cdef void step_down(Core *core, int64_t now) noexcept nogil:
    """Ends the lead of a worker of an earlier start: one of the present start's may lead now."""
    assert_held(&core.mutex)
    core.outgoing = False
    promote(core, now)


cdef bint calls_for_worker(const Core *core) noexcept nogil:
    """Whether something is ready for a worker that waits.

    Where there are C functions, not if enough are on their way to it: they may have to wait for the GIL, and one that
    stays can call what needs none.
    """
    assert_held(&core.mutex)
    return core.ring_count != core.zombies and (not core.natives or drains_wanted(core) != 0)


cdef void leave_natives(Core *core) noexcept nogil:
    """Leaves C functions to another, as the caller is about to wait for the GIL."""
    assert_held(&core.mutex)
    if core.natives and core.phase == STARTED:
        promote(core, monotonic_ns())


cdef void lead(Core *core, uint32_t epoch, Runner *runner) noexcept nogil:
    """Waits for something to do, as the only one.  What came due is in the ready ring afterwards."""
    cdef int64_t now
    cdef size_t collected, called
    assert_held(&core.mutex)
    core.led = True
    while True:
        if core.keeps_wall:
            core_see_wall(core, wall_offset_ns(), monotonic_ns())
        now = monotonic_ns()
        collected = core_collect_due(core, now, BATCH)
        called = 0
        if native_due(core, now):
            core.engaged = True
            called = natives_run(core, epoch, now, runner)
            if core.epoch != epoch:
                return                   # another leads since: it did not have to wait for this one
            core.engaged = False
        if called:
            now = monotonic_ns()
            if core.phase != STARTED:
                break
        core_prune(core)
        if (calls_for_worker(core) or core_alarm_due(core, now) or has_tidings(core)
                or (collected and core.waiters != NULL)):
            break
        if called:
            continue
        sleep(core, -1, now, first_due(core))
        if core.epoch != epoch:
            step_down(core, now)
            return
        if core.phase != STARTED:
            break
    core.led = False
    drains_summon(core)                  # this worker takes one run; the others go on
    leave_natives(core)


cdef void await_lead(Core *core, uint32_t epoch) noexcept nogil:
    """Waits while another leads, as its deputy unless there is one that looks as early (lead.pxd).

    Returns when this worker was called, or its time has come, and now and then for no reason.
    """
    cdef int64_t until = NEVER, due = first_due(core)
    assert_held(&core.mutex)
    # A C function keeps the leader in the lead, and one that is late is awake: it sees to it that somebody leads.
    if core.led and not (core.engaged or native_first(core)) and due > monotonic_ns():
        until = saturating_add(due, DEPUTY_NS)
    if until < core.deputy_until:
        core.deputy_until = until
        condition_wait_until(&core.condition, &core.mutex, until)
        if core.epoch != epoch:
            return
        core.wakeups += 1
        if core.deputy_until == until:   # else another is the deputy now
            core.deputy_until = NEVER
        if (core.phase != STARTED or core.summons or core.heir or core.natives or core.ring_count == core.zombies
                or drains_wanted(core)):
            return
        # Whoever comes for what is ready waits for the GIL, as this one would, and sees to it that somebody leads.
    condition_wait(&core.condition, &core.mutex)


cdef void follow(Core *core, uint32_t epoch, Runner *runner) noexcept nogil:
    """Waits, parked or in the lead, until there is something for this worker to do, or its start is over."""
    assert_held(&core.mutex)
    core.parked += 1
    if core_sleeps_too_long(core):            # as of what the run that this worker has just ended comes next
        waker_wake(&core.waker)
    while core.phase == STARTED and not core.summons and not calls_for_worker(core):
        if not (core.led or core.outgoing or core.standing_in):
            core.parked -= 1
            core.heir = False
            lead(core, epoch, runner)
            return
        await_lead(core, epoch)
        if core.epoch != epoch:
            return
    unpark(core)
    core.heir = False                    # it may have been this one: who starts a run looks again
    leave_natives(core)
