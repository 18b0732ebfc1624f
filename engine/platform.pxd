"""Declarations of `platform.h` and `mutex.h`: mutex, waker, clocks, fork hooks; none needs the GIL."""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "platform.h" nogil:
    const int64_t NEVER "PYSCHED_NEVER"
    const int64_t LONGEST_WAIT "PYSCHED_LONGEST_WAIT"

    ctypedef struct Mutex "pysched_mutex":
        pass
    void mutex_init "pysched_mutex_init"(Mutex *mutex) noexcept
    void mutex_destroy "pysched_mutex_destroy"(Mutex *mutex) noexcept
    void lock "pysched_mutex_lock"(Mutex *mutex) noexcept
    void unlock "pysched_mutex_unlock"(Mutex *mutex) noexcept
    void mutex_renew "pysched_mutex_renew"(Mutex *mutex) noexcept
    # In a debug build, asks `broken(guarded)` whenever the mutex is given back, and ends the process if it is not NULL.
    void mutex_watch "pysched_mutex_watch"(
        Mutex *mutex, const char *(*broken)(void *) noexcept nogil, void *guarded
    ) noexcept

    # Nothing, unless it is a debug build.
    const bint DEBUG "PYSCHED_DEBUG"
    void assert_held "PYSCHED_ASSERT_HELD"(const Mutex *mutex) noexcept      # by this thread
    void assert_free "PYSCHED_ASSERT_FREE"(const Mutex *mutex) noexcept      # this thread holds none, be it this or not

    ctypedef struct Condition "pysched_condition":
        pass
    void condition_init "pysched_condition_init"(Condition *condition) noexcept
    void condition_destroy "pysched_condition_destroy"(Condition *condition) noexcept
    void condition_wait "pysched_condition_wait"(Condition *condition, Mutex *mutex) noexcept
    void condition_wait_until "pysched_condition_wait_until"(
        Condition *condition, Mutex *mutex, int64_t until_ns
    ) noexcept
    void condition_signal "pysched_condition_signal"(Condition *condition) noexcept
    void condition_broadcast "pysched_condition_broadcast"(Condition *condition) noexcept

    ctypedef struct Waker "pysched_waker":
        pass
    void waker_init "pysched_waker_init"(Waker *waker) noexcept
    int waker_open "pysched_waker_open"(Waker *waker) noexcept
    void waker_close "pysched_waker_close"(Waker *waker) noexcept
    void waker_forget "pysched_waker_forget"(Waker *waker) noexcept
    void waker_wake "pysched_waker_wake"(Waker *waker) noexcept
    bint waker_take "pysched_waker_take"(Waker *waker) noexcept
    bint waker_watch_clock "pysched_waker_watch_clock"(Waker *waker) noexcept
    bint waker_wait "pysched_waker_wait"(Waker *waker, int signal_fd, int64_t timeout_ns) noexcept

    const size_t LARGE "PYSCHED_LARGE"
    const size_t LARGE_PAGE "PYSCHED_LARGE_PAGE"
    void *large_alloc "pysched_large_alloc"(size_t size) noexcept
    void large_free "pysched_large_free"(void *memory, size_t size) noexcept

    int64_t monotonic_ns "pysched_monotonic_ns"() noexcept
    void cpu_relax "pysched_cpu_relax"() noexcept
    int64_t wall_ns "pysched_wall_ns"() noexcept
    int64_t wall_offset_ns "pysched_wall_offset_ns"() noexcept
    long sleep_slack "pysched_sleep_slack"(long slack_ns) noexcept

    void atomic_increment "pysched_atomic_increment"(long *value) noexcept
    long atomic_decrement "pysched_atomic_decrement"(long *value) noexcept
    uint32_t peek "pysched_peek"(const uint32_t *word) noexcept      # without the mutex that guards it
    void poke "pysched_poke"(uint32_t *word, uint32_t value) noexcept      # with it
    int bit_length "pysched_bit_length"(uint64_t value) noexcept

    int at_fork "pysched_at_fork"(
        void (*before)() noexcept nogil, void (*in_parent)() noexcept nogil, void (*in_child)() noexcept nogil
    ) noexcept
