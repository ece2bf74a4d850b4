/* Clocks. Durations inside the program are monotonic microseconds. */
#ifndef PINFOLD_BASE_TIME_H
#define PINFOLD_BASE_TIME_H

#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

uint64_t time_mono_us(void);
/* Microseconds since 1970-01-01 UTC. */
uint64_t time_wall_us(void);
/* RFC 3339 in UTC with milliseconds; at least 32 bytes. */
void time_format(uint64_t wall_us, char *text);

/* Nanoseconds since 1970, as a file's times are compared and kept. */
int64_t time_ns(const struct timespec *t);

/* User and system time together. */
uint64_t time_rusage_us(const struct rusage *ru);

#endif
