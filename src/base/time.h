/* Clocks. Durations inside the program are monotonic microseconds. */
#ifndef PINFOLD_BASE_TIME_H
#define PINFOLD_BASE_TIME_H

#include <stdint.h>

uint64_t time_mono_us(void);
/* Microseconds since 1970-01-01 UTC. */
uint64_t time_wall_us(void);
/* RFC 3339 in UTC with milliseconds; at least 32 bytes. */
void time_format(uint64_t wall_us, char *text);

#endif
