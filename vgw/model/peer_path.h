/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to measure the path MTU of one tunnel, and what is known of it. Pure: times in ms of one clock.
 *
 * A value once measured is confirmed every PATH_CONFIRM_MS by one packet of just that size. Two of those in
 * a row that are lost, while the peer answers small ones, start a new search at once. Upwards is looked
 * seldom, and when something says that the path has changed.
 */
#ifndef VGW_MODEL_PEER_PATH_H
#define VGW_MODEL_PEER_PATH_H

#include "vgw/model/pmtu_search.h"

enum {
	PATH_CONFIRM_MS = 2000,
	/* Without an answer for three round trips and a bit it is a miss; no sooner and no later than: */
	PATH_MISS_MIN_MS = 300,
	PATH_MISS_MS = 1000,
	PATH_MISSES = 2,
	PATH_RAISE_MS = 180000,	   /* between searches upwards that need the link raised */
	PATH_LOOK_MS = 15000,	   /* between those that do not */
	PATH_RETRY_MS = 1000,	   /* after a search without a result; then twice as long each time, */
	PATH_RETRY_MAX_MS = 10000, /* up to this */
	PATH_REPORT_MS = 2000,	   /* reports of routers start at most one search in so long */
};

enum path_task { PATH_NOTHING, PATH_CONFIRM, PATH_SEARCH, PATH_RAISE };

struct peer_path {
	uint32_t mtu; /* bytes of the IP packet; 0 not measured */
	enum pmtu_verdict pmtud;
	int64_t measured_ms;
	uint32_t tried;	 /* the largest size that was tried: of what is above nothing is known */
	bool at_ceiling; /* nothing larger will ever be used: there is nothing to look for above */

	int64_t raise_every_ms; /* PATH_RAISE_MS, or as its owner sets it */
	bool searching, awaiting;
	bool search_due, up; /* at search_ms; upwards too */
	int64_t search_ms, confirm_ms, raise_ms;
	uint64_t nonce; /* of the confirmation under way */
	int64_t miss_ms;
	unsigned misses;
	int64_t retry_ms; /* until the next search, should this one have no result either */
};

/* Nothing known: a search is due at once. */
void path_init(struct peer_path *p, int64_t now_ms);
/* Search at once, upwards too: the link is another one, or has another MTU. What is known holds until the
 * result. */
void path_changed(struct peer_path *p, int64_t now_ms);
/* A router or the kernel says that a packet of SIZE was too big. */
void path_reported(struct peer_path *p, uint32_t size, int64_t now_ms);

/*
 * What is due now; a miss is counted on the way. PATH_RAISE: a search for a larger value than the one known.
 * PATH_NOTHING while a search runs.
 */
enum path_task path_next(struct peer_path *p, int64_t now_ms);
/* RTT_MS: what an answer usually takes; below 0 where that is not known. */
void path_confirm_sent(struct peer_path *p, uint64_t nonce, double rtt_ms, int64_t now_ms);
/* ms until the confirmation under way is a miss; -1 when there is none. */
int64_t path_wait(const struct peer_path *p, int64_t now_ms);
/* True when NONCE was the confirmation's. */
bool path_confirmed(struct peer_path *p, uint64_t nonce, int64_t now_ms);
void path_search_started(struct peer_path *p);
/*
 * RESULT as of PMTU_SEARCH_DONE or _UNKNOWN, of a search up to TRIED; LIMIT: the largest that may ever be
 * used. True when mtu or pmtud is another.
 */
bool path_search_ended(struct peer_path *p, const struct pmtu_search_result *result, uint32_t tried,
		       uint32_t limit, int64_t now_ms);

/*
 * Whether packets of an MTU of IN_FORCE are known not to arrive, although smaller ones do. No question of
 * pmtud: where routers say so and senders listen, what arrives are other packets, smaller ones.
 */
bool path_swallows(const struct peer_path *p, uint32_t in_force);

#endif
