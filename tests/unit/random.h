/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for properties: the same ones each time, or those of VGW_SEED; the seed is printed. */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct random {
	uint64_t state;
};

/* xorshift64* */
static inline uint32_t random_u32(struct random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return (uint32_t)((r->state * 0x2545f4914f6cdd1du) >> 32);
}

/* 0 to N - 1; 0 for N 0. */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
	return n ? random_u32(r) % n : 0;
}

/* True PERCENT times of 100. */
static inline int random_chance(struct random *r, uint32_t percent)
{
	return random_below(r, 100) < percent;
}

static inline struct random random_start(void)
{
	const char *text = getenv("VGW_SEED");
	struct random r = {text ? strtoull(text, NULL, 0) : 0x76677761};

	printf("# VGW_SEED=%" PRIu64 "\n", r.state);
	if (!r.state)
		r.state = 1;
	return r;
}

#endif
