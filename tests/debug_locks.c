/* One fault of locking, which a debug build ends the process for; which one is the program's argument. */
#define _GNU_SOURCE
#define PYSCHED_DEBUG 1
#include "platform.h"

static pysched_mutex mutex, other;
static pysched_condition condition;
static pysched_waker waker;

static void *lock_it(void *nothing) {
    pysched_mutex_lock(&mutex);
    return nothing;
}

static const char *what_is_broken(void *guarded) { return *(int *)guarded ? "what it guards is broken" : NULL; }

static void in_another_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, lock_it, NULL);
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    int fault = count > 1 ? arguments[1][0] : '0';
    pysched_mutex_init(&mutex);
    pysched_mutex_init(&other);
    pysched_condition_init(&condition);
    switch (fault) {
    case '1':
        pysched_mutex_lock(&mutex);
        pysched_mutex_lock(&mutex);
        break;
    case '2':
        in_another_thread();
        pysched_mutex_unlock(&mutex);
        break;
    case '3':
        in_another_thread();
        PYSCHED_ASSERT_HELD(&mutex);
        break;
    case '4':
        pysched_mutex_lock(&mutex);
        PYSCHED_ASSERT_FREE(&other);
        break;
    case '5':
    case '6':
        pysched_mutex_watch(&mutex, what_is_broken, &fault);
        pysched_mutex_lock(&mutex);
        if (fault == '6') pysched_condition_wait_until(&condition, &mutex, pysched_monotonic_ns());
        pysched_mutex_unlock(&mutex);
        break;
    default:
        fault = 0;
        pysched_mutex_watch(&mutex, what_is_broken, &fault);
        pysched_mutex_lock(&mutex);
        PYSCHED_ASSERT_HELD(&mutex);
        pysched_condition_wait_until(&condition, &mutex, pysched_monotonic_ns());
        PYSCHED_ASSERT_HELD(&mutex);
        pysched_mutex_unlock(&mutex);
        PYSCHED_ASSERT_FREE(&mutex);
        in_another_thread();
        PYSCHED_ASSERT_FREE(&mutex);
        pysched_mutex_renew(&mutex);
        ++*mutex.held();               /* it was the other thread's count that renew took back */
        pysched_mutex_lock(&mutex);
        pysched_mutex_unlock(&mutex);
        PYSCHED_ASSERT_FREE(&mutex);
        pysched_waker_init(&waker);
        if (pysched_waker_open(&waker)) return 1;
        if (pysched_waker_wait(&waker, -1, 1000)) return 2;      /* nobody has woken it */
        pysched_waker_wake(&waker);
        if (!pysched_waker_wait(&waker, -1, PYSCHED_NEVER)) return 3;
        pysched_waker_close(&waker);
        PYSCHED_ASSERT_FREE(&mutex);
    }
    return 0;
}
