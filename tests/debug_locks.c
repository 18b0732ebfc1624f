/* One fault of locking, which a debug build ends the process for; which one is the program's argument. */
#define _GNU_SOURCE
#define PYSCHED_DEBUG 1
#include "platform.h"

static pysched_mutex mutex, other;
static pysched_condition condition;

static void *lock_it(void *nothing) {
    pysched_mutex_lock(&mutex);
    return nothing;
}

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
    default:
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
    }
    return 0;
}
