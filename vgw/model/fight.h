/* SPDX-License-Identifier: Apache-2.0 */
/* When to stop putting something back that someone else keeps changing (CONTRACT.md 6, promise 10). Pure. */
#ifndef VGW_MODEL_FIGHT_H
#define VGW_MODEL_FIGHT_H

#include <stdbool.h>
#include <stdint.h>

enum { FIGHT_LOSSES = 5, FIGHT_WINDOW_MS = 10000, FIGHT_RETRY_MS = 60000 };

/* Zero-initialise; one for each object. Times in ms of one clock. */
struct fight {
	int64_t losses[FIGHT_LOSSES]; /* a ring */
	unsigned n;
	bool contested;
	int64_t retry_ms; /* when contested: not before */
	int64_t last_ms;  /* the latest loss, put back or not */
	uint64_t repairs;
};

/* The object was found changed. True when it should be put back now. */
bool fight_lost(struct fight *f, int64_t now_ms);
/* The object is as it should be; a quiet window ends the dispute. */
void fight_quiet(struct fight *f, int64_t now_ms);
/* Contested, and worth a look although nothing tells of a change: to try again, or to see that it has become
 * quiet. */
bool fight_due(const struct fight *f, int64_t now_ms);

#endif
