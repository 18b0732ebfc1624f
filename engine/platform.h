/* The platform calls of the engine: a waker, two clocks, memory, fork hooks and
 * a few atomics here, a mutex and its condition in mutex.h.
 *
 * Everything is `static inline` and free of Python: callable without the GIL.
 * Linux waits with ppoll on an eventfd, which ends early for a signal and is
 * as exact as the kernel's timers; other POSIX systems wait on a condition
 * variable; Windows waits on an event object.  Times are int64 nanoseconds.
 */
#ifndef PYSCHED_PLATFORM_H
#define PYSCHED_PLATFORM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PYSCHED_NEVER INT64_MAX

/* The longest single wait, 34 years: what a 32-bit time_t can hold. */
#define PYSCHED_LONGEST_WAIT (((int64_t)1 << 30) * 1000000000LL)

/* PYSCHED_PORTABLE builds what other POSIX systems get, so that it can be tested on Linux. */
#if defined(__linux__) && !defined(PYSCHED_PORTABLE)
#  define PYSCHED_LINUX
#endif

#if defined(_WIN32)
#  define WIN32_LEAN_AND_MEAN
#  include <windows.h>
#else
#  include <pthread.h>
#  include <sys/mman.h>
#  include <time.h>
#  include <unistd.h>
#  if defined(PYSCHED_LINUX)
#    include <poll.h>
#    include <sys/eventfd.h>
#    include <sys/prctl.h>
#    include <sys/timerfd.h>
#    include <errno.h>
#  endif
#endif

#if defined(_MSC_VER)
#  include <intrin.h>
#endif

/* ---------------------------------------------------------------- atomics */

#if defined(_MSC_VER)
static inline void pysched_atomic_increment(volatile long *value) { _InterlockedIncrement(value); }
static inline long pysched_atomic_decrement(volatile long *value) { return _InterlockedDecrement(value); }
static inline uint32_t pysched_peek(const uint32_t *word) { return *(const volatile uint32_t *)word; }
static inline void pysched_poke(uint32_t *word, uint32_t value) { *(volatile uint32_t *)word = value; }
static inline int pysched_bit_length(uint64_t value) {
    unsigned long index;
    if (_BitScanReverse(&index, (unsigned long)(value >> 32))) return (int)index + 33;
    return _BitScanReverse(&index, (unsigned long)value) ? (int)index + 1 : 0;
}
#else
static inline void pysched_atomic_increment(volatile long *value) {
    __atomic_add_fetch(value, 1, __ATOMIC_RELAXED);
}
static inline long pysched_atomic_decrement(volatile long *value) {
    return __atomic_sub_fetch(value, 1, __ATOMIC_ACQ_REL);
}
/* Of a word that a mutex guards, but for looks from outside, to which a value of a moment ago will do. */
static inline uint32_t pysched_peek(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static inline void pysched_poke(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }
static inline int pysched_bit_length(uint64_t value) {
    return value ? 64 - __builtin_clzll(value) : 0;
}
#endif

/* ----------------------------------------------------------------- memory */

/* Large tables come straight from the system: zeroed, given back whole, and on
 * Linux in huge pages.  A page fault costs 2 to 4 us on some virtual machines,
 * a fifth of that for each 4 kB of a huge page; with small pages that was a
 * quarter of the price of a registration. */

#define PYSCHED_LARGE ((size_t)1 << 18)      /* tables are large from here on */
#define PYSCHED_LARGE_PAGE ((size_t)1 << 21) /* sizes of large tables are multiples of it */

static inline void *pysched_large_alloc(size_t size) {
#if defined(_WIN32)
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
#else
    /* One huge page more than asked for, so that an aligned part can be cut out. */
    char *memory, *aligned;
    if (size > SIZE_MAX - PYSCHED_LARGE_PAGE) return NULL;
    memory = (char *)mmap(NULL, size + PYSCHED_LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == (char *)MAP_FAILED) return NULL;
    aligned = (char *)(((uintptr_t)memory + PYSCHED_LARGE_PAGE - 1) & ~(uintptr_t)(PYSCHED_LARGE_PAGE - 1));
    if (aligned > memory) munmap(memory, (size_t)(aligned - memory));
    if (aligned < memory + PYSCHED_LARGE_PAGE)
        munmap(aligned + size, (size_t)(memory + PYSCHED_LARGE_PAGE - aligned));
#  if defined(MADV_HUGEPAGE)
    madvise(aligned, size, MADV_HUGEPAGE);
#  endif
    return aligned;
#endif
}

static inline void pysched_large_free(void *memory, size_t size) {
    if (memory == NULL) return;
#if defined(_WIN32)
    (void)size;
    VirtualFree(memory, 0, MEM_RELEASE);
#else
    munmap(memory, size);
#endif
}

/* ----------------------------------------------------------------- clocks */

/* The clock of time.monotonic(), so that the two can be compared. */
static inline int64_t pysched_monotonic_ns(void) {
#if defined(_WIN32)
    LARGE_INTEGER frequency, count;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&count);
    return (count.QuadPart / frequency.QuadPart) * 1000000000LL
         + (count.QuadPart % frequency.QuadPart) * 1000000000LL / frequency.QuadPart;
#elif defined(__APPLE__)
    return (int64_t)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}

static inline int64_t pysched_wall_ns(void) {
#if defined(_WIN32)
    FILETIME file_time;
    ULARGE_INTEGER ticks;
    GetSystemTimePreciseAsFileTime(&file_time);
    ticks.LowPart = file_time.dwLowDateTime;
    ticks.HighPart = file_time.dwHighDateTime;
    return (int64_t)(ticks.QuadPart - 116444736000000000ULL) * 100;
#else
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}

/* The wall clock minus the monotonic clock.  What comes between two readings would look like a step: of three tries the
 * quickest counts. */
static inline int64_t pysched_wall_offset_ns(void) {
    int64_t offset = 0, quickest = INT64_MAX;
    int tries;
    for (tries = 0; tries < 3 && quickest > 20000; tries++) {
        int64_t before = pysched_monotonic_ns(), wall = pysched_wall_ns(), took = pysched_monotonic_ns() - before;
        if (took < quickest) {
            quickest = took;
            offset = wall - before - took;  /* the least that it can be: runs are late by that, never early */
        }
    }
    return offset;
}

/* A turn of a loop that polls: lets the other thread of the core go first. */
static inline void pysched_cpu_relax(void) {
#if defined(_WIN32)
    YieldProcessor();
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Linux lets a sleeping thread oversleep by its timer slack, 50 us unless told
 * otherwise.  Sets that of the calling thread and returns what it was. */
static inline long pysched_sleep_slack(long slack_ns) {
#if defined(PYSCHED_LINUX)
    int previous = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns, 0UL, 0UL, 0UL);
    return previous > 0 ? previous : 0;   /* 0 asks for the default */
#else
    return slack_ns;
#endif
}

#include "mutex.h"

/* ------------------------------------------------------------------ waker */

/* One thread waits, any thread wakes it.  A wake that comes before the wait
 * ends that wait at once; wakes do not add up.  Opening an open waker and
 * waking a closed one do nothing. */

#if defined(PYSCHED_LINUX)

typedef struct {
    int fd;        /* -1: closed */
    int clock_fd;  /* a timer that tells when the wall clock is set; -1: none yet, -2: there can be none */
} pysched_waker;

static inline void pysched_waker_init(pysched_waker *waker) { waker->fd = waker->clock_fd = -1; }

static inline int pysched_waker_open(pysched_waker *waker) {
    if (waker->fd >= 0) return 0;
    waker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return waker->fd < 0 ? -1 : 0;
}
static inline void pysched_waker_close(pysched_waker *waker) {
    if (waker->fd >= 0) close(waker->fd);
    if (waker->clock_fd >= 0) close(waker->clock_fd);
    waker->fd = waker->clock_fd = -1;
}
static inline void pysched_waker_wake(pysched_waker *waker) {
    const uint64_t one = 1;
    if (waker->fd >= 0) {
        ssize_t written = write(waker->fd, &one, sizeof one);
        (void)written;  /* EAGAIN: a wake is there already */
    }
}
/* Closes it in the child of a fork, where the thread that waited is gone. */
static inline void pysched_waker_forget(pysched_waker *waker) { pysched_waker_close(waker); }

/* A timer far in the future, which the kernel cancels when the wall clock is set, or the machine wakes from a suspend. */
static inline int pysched_arm_clock(int fd) {
    const struct itimerspec far_off = {{0, 0}, {INT32_MAX * 2LL, 0}};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far_off, NULL);
}

/* Lets later waits end when the wall clock is set; 0 if they cannot. */
static inline int pysched_waker_watch_clock(pysched_waker *waker) {
    if (waker->clock_fd == -1) {
        waker->clock_fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        if (waker->clock_fd < 0) waker->clock_fd = -2;
        else if (pysched_arm_clock(waker->clock_fd)) {
            close(waker->clock_fd);
            waker->clock_fd = -2;
        }
    }
    return waker->clock_fd >= 0;
}

/* Waits until a wake, a byte on `signal_fd` (-1: none), a signal of this
 * thread, a watched clock that is set, or `timeout_ns` (PYSCHED_NEVER: without limit).
 * Whether there was a wake, which is taken. */
static inline int pysched_waker_wait(pysched_waker *waker, int signal_fd, int64_t timeout_ns) {
    /* A negative descriptor is passed over. */
    struct pollfd polled[3] = {{waker->fd, POLLIN, 0}, {waker->clock_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
    struct timespec timeout = {timeout_ns / 1000000000LL, timeout_ns % 1000000000LL};
    uint64_t count;
    ssize_t taken;
    if (ppoll(polled, signal_fd < 0 ? 2 : 3, timeout_ns == PYSCHED_NEVER ? NULL : &timeout, NULL) <= 0) return 0;
    if (polled[0].revents) {
        taken = read(waker->fd, &count, sizeof count);
        (void)taken;
    }
    if (polled[1].revents) {
        /* ECANCELED: it was set. */
        taken = read(waker->clock_fd, &count, sizeof count);
        if (pysched_arm_clock(waker->clock_fd) && errno != ECANCELED) {
            close(waker->clock_fd);
            waker->clock_fd = -2;
        }
    }
    return polled[0].revents != 0;
}

/* Whether there is a wake that no wait has seen; it is taken, and nothing waits. */
static inline int pysched_waker_take(pysched_waker *waker) {
    uint64_t count;
    return read(waker->fd, &count, sizeof count) > 0;
}

#elif defined(_WIN32)

typedef struct { HANDLE event; } pysched_waker;

static inline void pysched_waker_init(pysched_waker *waker) { waker->event = NULL; }

static inline int pysched_waker_open(pysched_waker *waker) {
    if (waker->event) return 0;
    waker->event = CreateEventW(NULL, FALSE, FALSE, NULL);
    return waker->event == NULL ? -1 : 0;
}
static inline void pysched_waker_close(pysched_waker *waker) {
    if (waker->event) CloseHandle(waker->event);
    waker->event = NULL;
}
static inline void pysched_waker_wake(pysched_waker *waker) {
    if (waker->event) SetEvent(waker->event);
}
static inline void pysched_waker_forget(pysched_waker *waker) { waker->event = NULL; }
static inline int pysched_waker_watch_clock(pysched_waker *waker) { (void)waker; return 0; }
/* A console's Ctrl-C does not end the wait: with `signal_fd` set (the main
 * thread), it is cut into slices between which the caller looks for signals. */
static inline int pysched_waker_wait(pysched_waker *waker, int signal_fd, int64_t timeout_ns) {
    int64_t limit_ms = signal_fd >= 0 ? 100 : INFINITE - 1LL;
    int64_t timeout_ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    DWORD wait_ms = (timeout_ns == PYSCHED_NEVER && signal_fd < 0)
        ? INFINITE : (DWORD)(timeout_ms < limit_ms ? timeout_ms : limit_ms);
    return WaitForSingleObject(waker->event, wait_ms) == WAIT_OBJECT_0;
}
static inline int pysched_waker_take(pysched_waker *waker) { return WaitForSingleObject(waker->event, 0) == WAIT_OBJECT_0; }

#else  /* other POSIX systems */

typedef struct {
    pysched_raw_mutex mutex;
    pthread_cond_t condition;
    int open, woken;
} pysched_waker;

static inline void pysched_waker_init(pysched_waker *waker) { waker->open = waker->woken = 0; }

static inline int pysched_waker_open(pysched_waker *waker) {
    if (waker->open) return 0;
    pysched_raw_init(&waker->mutex);
    pysched_condition_init(&waker->condition);
    waker->woken = 0;
    waker->open = 1;
    return 0;
}
static inline void pysched_waker_close(pysched_waker *waker) {
    if (waker->open) {
        pthread_cond_destroy(&waker->condition);
        pysched_raw_destroy(&waker->mutex);
    }
    waker->open = 0;
}
static inline void pysched_waker_wake(pysched_waker *waker) {
    if (!waker->open) return;
    pysched_raw_lock(&waker->mutex);
    waker->woken = 1;
    pthread_cond_signal(&waker->condition);
    pysched_raw_unlock(&waker->mutex);
}
/* Closes it in the child of a fork: to destroy a condition variable would be to wait for the parent's waiters. */
static inline void pysched_waker_forget(pysched_waker *waker) { waker->open = 0; }
static inline int pysched_waker_watch_clock(pysched_waker *waker) { (void)waker; return 0; }

/* A condition variable does not end for a signal: with `signal_fd` set (the
 * main thread), the wait is cut into slices of 0.1 s between which the caller
 * looks for signals. */
static inline int pysched_waker_wait(pysched_waker *waker, int signal_fd, int64_t timeout_ns) {
    int64_t now_ns = pysched_monotonic_ns();
    int woken;
    if (signal_fd >= 0 && timeout_ns > 100000000LL) timeout_ns = 100000000LL;
    pysched_raw_lock(&waker->mutex);
    if (!waker->woken)
        pysched_raw_wait_until(
            &waker->condition, &waker->mutex,
            timeout_ns < PYSCHED_NEVER - now_ns ? now_ns + timeout_ns : PYSCHED_NEVER);
    woken = waker->woken;
    waker->woken = 0;
    pysched_raw_unlock(&waker->mutex);
    return woken;
}
static inline int pysched_waker_take(pysched_waker *waker) {
    int taken;
    pysched_raw_lock(&waker->mutex);
    taken = waker->woken;
    waker->woken = 0;
    pysched_raw_unlock(&waker->mutex);
    return taken;
}

#endif

/* ------------------------------------------------------------------- fork */

/* Handlers of fork() itself, which no thread can come between; -1 if there is no memory. */
static inline int pysched_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
#if defined(_WIN32)
    (void)before; (void)in_parent; (void)in_child;
    return 0;
#else
    return pthread_atfork(before, in_parent, in_child) ? -1 : 0;
#endif
}

#endif
