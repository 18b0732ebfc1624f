/* A mutex and its condition; a part of platform.h.
 *
 * With PYSCHED_DEBUG a mutex knows which thread holds it, and each thread how
 * many it holds.  To lock one twice, to give back one that another thread has,
 * to be without one that is needed, or to hold one where foreign code may run,
 * ends the process, with a line on stderr that names the function.  So does
 * giving one back while what it guards is not whole, if somebody has said how
 * to tell.
 */
#ifndef PYSCHED_MUTEX_H
#define PYSCHED_MUTEX_H

#ifndef PYSCHED_DEBUG
#  define PYSCHED_DEBUG 0
#endif

#if defined(_WIN32)
typedef SRWLOCK pysched_raw_mutex;
static inline void pysched_raw_init(pysched_raw_mutex *raw) { InitializeSRWLock(raw); }
static inline void pysched_raw_destroy(pysched_raw_mutex *raw) { (void)raw; }
static inline void pysched_raw_lock(pysched_raw_mutex *raw) { AcquireSRWLockExclusive(raw); }
static inline void pysched_raw_unlock(pysched_raw_mutex *raw) { ReleaseSRWLockExclusive(raw); }
#else
typedef pthread_mutex_t pysched_raw_mutex;
static inline void pysched_raw_init(pysched_raw_mutex *raw) { pthread_mutex_init(raw, NULL); }
static inline void pysched_raw_destroy(pysched_raw_mutex *raw) { pthread_mutex_destroy(raw); }
static inline void pysched_raw_lock(pysched_raw_mutex *raw) { pthread_mutex_lock(raw); }
static inline void pysched_raw_unlock(pysched_raw_mutex *raw) { pthread_mutex_unlock(raw); }
#endif

/* ------------------------------------------------------------------ owner */

#if PYSCHED_DEBUG

#include <stdio.h>

#  if defined(_MSC_VER)
#    define PYSCHED_THREAD_LOCAL __declspec(thread)
#  else
#    define PYSCHED_THREAD_LOCAL __thread
#  endif

/* Each extension module has a count of its own.  A mutex goes by that of the module which has initialised it, whoever
 * locks it: so all mutexes of one module have a common count. */
static PYSCHED_THREAD_LOCAL int pysched_held_here;
static inline int *pysched_held(void) { return &pysched_held_here; }

typedef struct {
    pysched_raw_mutex raw;
    volatile uintptr_t owner;      /* 0: nobody */
    int *(*held)(void);            /* how many the calling thread holds */
    const char *(*broken)(void *guarded);  /* NULL, or tells what is wrong with what it guards; NULL: nothing */
    void *guarded;
} pysched_mutex;

static inline uintptr_t pysched_me(void) {
#  if defined(_WIN32)
    return (uintptr_t)GetCurrentThreadId();
#  else
    return (uintptr_t)pthread_self();
#  endif
}
static inline void pysched_fail(const char *what, const char *function) {
    fprintf(stderr, "pysched: %s, in %s\n", what, function);
    fflush(stderr);
    abort();
}
/* Others look at the owner without the mutex: whoever they see there, it is not they. */
static inline uintptr_t pysched_mutex_owner(const pysched_mutex *mutex) {
#  if defined(_MSC_VER)
    return mutex->owner;
#  else
    return __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED);
#  endif
}
static inline void pysched_mutex_own(pysched_mutex *mutex, uintptr_t owner) {
#  if defined(_MSC_VER)
    mutex->owner = owner;
#  else
    __atomic_store_n(&mutex->owner, owner, __ATOMIC_RELAXED);
#  endif
}
static inline void pysched_mutex_taken(pysched_mutex *mutex) {
    pysched_mutex_own(mutex, pysched_me());
    ++*mutex->held();
}
static inline void pysched_mutex_left(pysched_mutex *mutex) {
    pysched_mutex_own(mutex, 0);
    --*mutex->held();
}
static inline void pysched_mutex_nobodys(pysched_mutex *mutex) {
    pysched_mutex_own(mutex, 0);
    mutex->held = pysched_held;
    mutex->broken = NULL;
}
static inline void pysched_mutex_watch(pysched_mutex *mutex, const char *(*broken)(void *), void *guarded) {
    mutex->guarded = guarded;
    mutex->broken = broken;
}
static inline void pysched_assert_whole(const pysched_mutex *mutex, const char *function) {
    const char *broken = mutex->broken == NULL ? NULL : mutex->broken(mutex->guarded);
    if (broken != NULL) pysched_fail(broken, function);
}

#  define PYSCHED_ASSERT_WHOLE(mutex) pysched_assert_whole(mutex, __func__)
#  define PYSCHED_ASSERT_HELD(mutex) \
    (pysched_mutex_owner(mutex) == pysched_me() ? (void)0 : pysched_fail("a mutex is needed that is not held here", __func__))
#  define PYSCHED_ASSERT_NOT_HELD(mutex) \
    (pysched_mutex_owner(mutex) != pysched_me() ? (void)0 : pysched_fail("a mutex is locked twice", __func__))
#  define PYSCHED_ASSERT_FREE(mutex) \
    (*(mutex)->held() == 0 ? (void)0 : pysched_fail("foreign code is to run while a mutex is held", __func__))

#else

typedef struct {
    pysched_raw_mutex raw;
} pysched_mutex;

static inline void pysched_mutex_taken(pysched_mutex *mutex) { (void)mutex; }
static inline void pysched_mutex_left(pysched_mutex *mutex) { (void)mutex; }
static inline void pysched_mutex_nobodys(pysched_mutex *mutex) { (void)mutex; }
static inline void pysched_mutex_watch(pysched_mutex *mutex, const char *(*broken)(void *), void *guarded) {
    (void)mutex; (void)broken; (void)guarded;
}

#  define PYSCHED_ASSERT_WHOLE(mutex) ((void)0)
#  define PYSCHED_ASSERT_HELD(mutex) ((void)0)
#  define PYSCHED_ASSERT_NOT_HELD(mutex) ((void)0)
#  define PYSCHED_ASSERT_FREE(mutex) ((void)0)

#endif

/* ------------------------------------------------------------------ mutex */

static inline void pysched_mutex_init(pysched_mutex *mutex) {
    pysched_raw_init(&mutex->raw);
    pysched_mutex_nobodys(mutex);
}
static inline void pysched_mutex_destroy(pysched_mutex *mutex) { pysched_raw_destroy(&mutex->raw); }

#define pysched_mutex_lock(mutex) (PYSCHED_ASSERT_NOT_HELD(mutex), pysched_mutex_lock_checked(mutex))
static inline void pysched_mutex_lock_checked(pysched_mutex *mutex) {
    pysched_raw_lock(&mutex->raw);
    pysched_mutex_taken(mutex);
}
#define pysched_mutex_unlock(mutex) \
    (PYSCHED_ASSERT_HELD(mutex), PYSCHED_ASSERT_WHOLE(mutex), pysched_mutex_unlock_checked(mutex))
static inline void pysched_mutex_unlock_checked(pysched_mutex *mutex) {
    pysched_mutex_left(mutex);
    pysched_raw_unlock(&mutex->raw);
}

/* In the child of a fork, whose parent's thread has locked it before: free again. */
static inline void pysched_mutex_renew(pysched_mutex *mutex) {
    pysched_mutex_left(mutex);
    pysched_raw_init(&mutex->raw);
}

/* -------------------------------------------------------------- condition */

/* Several threads wait, each for a signal or a broadcast; a wait may end for
 * no reason.  In the child of a fork a condition is initialised anew: its
 * waiters are gone. */

#if defined(_WIN32)
typedef CONDITION_VARIABLE pysched_condition;
static inline void pysched_condition_init(pysched_condition *condition) { InitializeConditionVariable(condition); }
static inline void pysched_condition_destroy(pysched_condition *condition) { (void)condition; }
static inline void pysched_raw_wait_until(pysched_condition *condition, pysched_raw_mutex *raw, int64_t until_ns) {
    int64_t timeout_ms = INFINITE;
    if (until_ns != PYSCHED_NEVER) timeout_ms = (until_ns - pysched_monotonic_ns()) / 1000000 + 1;
    if (timeout_ms <= 0) return;
    SleepConditionVariableSRW(
        condition, raw, (DWORD)(timeout_ms < INFINITE || until_ns == PYSCHED_NEVER ? timeout_ms : INFINITE - 1LL), 0);
}
static inline void pysched_condition_signal(pysched_condition *condition) { WakeConditionVariable(condition); }
static inline void pysched_condition_broadcast(pysched_condition *condition) { WakeAllConditionVariable(condition); }
#else
typedef pthread_cond_t pysched_condition;
static inline void pysched_condition_init(pysched_condition *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#  if !defined(__APPLE__)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#  endif
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
static inline void pysched_condition_destroy(pysched_condition *condition) { pthread_cond_destroy(condition); }
/* At most until `until_ns` of the monotonic clock (PYSCHED_NEVER: without limit). */
static inline void pysched_raw_wait_until(pysched_condition *condition, pysched_raw_mutex *raw, int64_t until_ns) {
    if (until_ns == PYSCHED_NEVER) {
        pthread_cond_wait(condition, raw);
        return;
    }
#  if defined(__APPLE__)
    int64_t left_ns = until_ns - pysched_monotonic_ns();
    struct timespec relative = {left_ns / 1000000000LL, left_ns % 1000000000LL};
    if (left_ns > 0) pthread_cond_timedwait_relative_np(condition, raw, &relative);
#  else
    struct timespec absolute = {until_ns / 1000000000LL, until_ns % 1000000000LL};
    pthread_cond_timedwait(condition, raw, &absolute);
#  endif
}
static inline void pysched_condition_signal(pysched_condition *condition) { pthread_cond_signal(condition); }
static inline void pysched_condition_broadcast(pysched_condition *condition) { pthread_cond_broadcast(condition); }
#endif

static inline void pysched_condition_wait_checked(
        pysched_condition *condition, pysched_mutex *mutex, int64_t until_ns) {
    pysched_mutex_left(mutex);
    pysched_raw_wait_until(condition, &mutex->raw, until_ns);
    pysched_mutex_taken(mutex);
}
#define pysched_condition_wait_until(condition, mutex, until_ns) \
    (PYSCHED_ASSERT_WHOLE(mutex), pysched_condition_wait_checked(condition, mutex, until_ns))
#define pysched_condition_wait(condition, mutex) pysched_condition_wait_until(condition, mutex, PYSCHED_NEVER)

#endif
