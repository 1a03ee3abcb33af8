/* SPDX-License-Identifier: Apache-2.0 */
/* What the search keeps account of: packets to send, packets under way, losses. Pure. */
#ifndef VGW_MODEL_PMTU_SEARCH_INTERNAL_H
#define VGW_MODEL_PMTU_SEARCH_INTERNAL_H

#include "vgw/model/pmtu_search.h"

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* SIZE waits to be sent. */
bool pmtu_queued(const struct pmtu_search *s, uint32_t size);
void pmtu_enqueue(struct pmtu_search *s, uint32_t size);
/* Before all others; the last one may go for it. */
void pmtu_enqueue_first(struct pmtu_search *s, uint32_t size);
/* Keeps the sizes FROM to TO. */
void pmtu_thin_queue(struct pmtu_search *s, uint32_t from, uint32_t to);
void pmtu_drop_loss(struct pmtu_search *s, size_t i);
void pmtu_add_loss(struct pmtu_search *s, uint32_t size);
/* So many losses of one size are no chance. */
uint32_t pmtu_proof_needed(const struct pmtu_search *s);
int64_t pmtu_timeout_us(const struct pmtu_search *s);
/* NULL when it has been forgotten. */
struct pmtu_search_flight *pmtu_find_flight(struct pmtu_search *s, uint32_t id);
/* F is no longer under way; the pointer is void. */
void pmtu_land(struct pmtu_search *s, struct pmtu_search_flight *f);
void pmtu_make_room(struct pmtu_search *s);
void pmtu_expire(struct pmtu_search *s, int64_t now);
/* Nothing that is still under way matters for the next step. */
bool pmtu_settled(const struct pmtu_search *s);

#endif
