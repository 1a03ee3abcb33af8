/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks: one for intervals, in ms and µs, and one for people; and what we have cost so far. */
#ifndef VGW_CLOCK_H
#define VGW_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Since some moment before the program's start; never set back (CLOCK_MONOTONIC). */
static inline int64_t clock_mono_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t clock_mono_ms(void)
{
	return clock_mono_us() / 1000;
}

/* Since 1970, UTC. */
static inline int64_t clock_wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Processor time of this process, the kernel's work for it included, in µs. */
static inline int64_t clock_cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#endif
