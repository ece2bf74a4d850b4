#include "base/time.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t time_mono_us(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t time_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

void time_format(uint64_t wall_us, char *text)
{
	time_t seconds = (time_t)(wall_us / 1000000u);
	struct tm tm;
	size_t used;

	gmtime_r(&seconds, &tm);
	used = strftime(text, 24, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + used, 8, ".%03uZ",
		 (unsigned)(wall_us % 1000000u / 1000u) % 1000u);
}

int64_t time_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

uint64_t time_rusage_us(const struct rusage *ru)
{
	return (uint64_t)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) *
		       1000000u +
	       (uint64_t)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
}
