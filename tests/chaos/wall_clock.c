/* Preloaded into the daemon alone: its wall clock is off by as many seconds as a file says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

/* The simulated GPU driver lives in the daemon, but a real one has the host's clocks. */
static int is_driver(const void *caller)
{
    Dl_info place;

    return dladdr(caller, &place) && place.dli_fname && strstr(place.dli_fname, "libnvidia-ml");
}

static long long off(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    FILE *file = path ? fopen(path, "re") : NULL;
    long long seconds = 0;

    if (file) {
        if (fscanf(file, "%lld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    int rc;

    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    rc = real(which, now);
    if (rc == 0 && which == CLOCK_REALTIME && !is_driver(__builtin_return_address(0)))
        now->tv_sec += off();
    return rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    int rc = clock_gettime(CLOCK_REALTIME, &precise);

    (void)zone;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return rc;
}

time_t time(time_t *kept)
{
    struct timespec precise;

    clock_gettime(CLOCK_REALTIME, &precise);
    if (kept)
        *kept = precise.tv_sec;
    return precise.tv_sec;
}
