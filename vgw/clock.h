/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks, in ms: one for intervals, one for people. */
#ifndef VGW_CLOCK_H
#define VGW_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Since some moment before the program's start; never set back (CLOCK_MONOTONIC). */
static inline int64_t clock_mono_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Since 1970, UTC. */
static inline int64_t clock_wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
