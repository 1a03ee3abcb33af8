/* SPDX-License-Identifier: Apache-2.0 */
/* From weights to the slots that new flows fall into. Pure. */
#ifndef VGW_MODEL_SLOTS_H
#define VGW_MODEL_SLOTS_H

#include "netcfg/base/arena.h"
#include "netcfg/model/netstate.h"

struct slot_target {
	struct ip_endpoint at;
	uint32_t weight; /* 0–100 */
	bool enabled;	 /* may take new flows */
};

/* Of every frontend with source balancing: any other number would move clients when it changed. */
enum { SLOTS_SOURCE = 512 };

/*
 * Round-robin and random: each enabled target as often as its weight over the greatest common divisor, the
 * turns of one spread as evenly as can be (smooth weighted round-robin). Source: SLOTS_SOURCE slots,
 * each given to the enabled target with the highest weighted score for it (weighted
 * rendezvous hashing), so that a target that goes or comes moves only its own. *OUT in ARENA; *N_OUT 0 when
 * nothing may take flows. 0 or -ENOMEM.
 */
int slots_make(const struct slot_target *targets, size_t n, uint8_t balance, struct arena *arena,
	       struct ip_endpoint **out, size_t *n_out);

/* How many slots round-robin and random give BY_WEIGHT[w] targets of each weight w below WEIGHTS; 0: none. */
uint32_t slots_turns(const uint32_t *by_weight, size_t weights);

#endif
