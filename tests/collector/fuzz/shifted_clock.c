/* Preloaded into a process: its wall clock is off by the seconds that the file named by CLOCK_SHIFT holds, a double. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *shift(void) {
    static const volatile double *place;
    static const double none = 0;
    if (!place) {
        const char *path = getenv("CLOCK_SHIFT");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        place = mapped == MAP_FAILED ? &none : mapped;
    }
    return place;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*original)(clockid_t, struct timespec *);
    if (!original) original = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = original(clock, at);
    if (!failed && clock == CLOCK_REALTIME) at->tv_sec += (time_t)*shift();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
