// The floor of lateness: a thread without Python that waits for each deadline on a condition variable.
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <thread>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace {

constexpr std::int64_t second = 1000000000;

std::int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * second + time.tv_nsec;
}

void sleep_to_each(const std::int64_t *deadlines, std::int64_t *late, std::size_t count) {
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1UL);  // or else the kernel lets it oversleep by 50 us
#endif
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_t never;
    pthread_cond_init(&never, &attributes);
    pthread_mutex_lock(&mutex);
    for (std::size_t i = 0; i < count; ++i) {
        const timespec until{static_cast<time_t>(deadlines[i] / second), static_cast<long>(deadlines[i] % second)};
        while (now() < deadlines[i])
            pthread_cond_timedwait(&never, &mutex, &until);
        late[i] = now() - deadlines[i];
    }
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&never);
    pthread_condattr_destroy(&attributes);
}

}  // namespace

extern "C" void sleeper_run(const std::int64_t *deadlines, std::int64_t *late, std::size_t count) {
    std::thread(sleep_to_each, deadlines, late, count).join();
}
