/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the flows of a dead backend so that both an active and an idle client learn of it at once, and counts
 * flows. The rules have sent new flows elsewhere before this is asked for.
 */
#ifndef VGW_REAPER_H
#define VGW_REAPER_H

#include <ev.h>

#include "netcfg/base/err.h"
#include "netcfg/kernel/conntrack.h"

struct reaper;

/* N flows of PORT that BACKEND answered have been reaped. */
typedef void reaper_reaped_fn(void *ctx, const struct ns_port *port, const struct ip_endpoint *backend,
			      size_t n);
/* A flow of PORT that BACKEND answers is there now. */
typedef void reaper_flow_fn(void *ctx, const struct ns_port *port, const struct ip_endpoint *backend);

struct reaper_events {
	reaper_reaped_fn *reaped;
	/* Asked before each later look: a backend that is back keeps its flows. */
	bool (*still_dead)(void *ctx, const struct ct_pair *pair);
	/*
	 * Asked before each portion of forged ACKs: the rule that keeps them from being tracked is there. One
	 * that is tracked makes the kernel take the client's next SYN from that port for a reply, and refuse
	 * it.
	 */
	bool (*may_forge)(void *ctx);
	void (*count_begin)(void *ctx);
	reaper_flow_fn *flow;
	void (*count_end)(void *ctx);
	void *ctx;
};

/* 0 or -errno with ERR. Without CAP_NET_RAW idle clients are not drawn out: said in the log. */
int reaper_new(struct ev_loop *loop, const struct reaper_events *events, struct reaper **out,
	       struct vgw_err *err);
/* NULL is fine. */
void reaper_free(struct reaper *r);

/* Reap the flows of N pairs now, and look again twice for flows that came back between deletion and rule. */
void reaper_kill(struct reaper *r, const struct ct_pair *pairs, size_t n);
/* What is still to be looked for or drawn out is left as it is: our rules are about to go. */
void reaper_forget(struct reaper *r);
/*
 * Begin a count, unless one is running. What the last one cost is made up for first, so that counting, which
 * is for reports alone, takes no more than a fiftieth of a core however many flows there are; AT_ONCE does
 * not wait for that.
 */
void reaper_count(struct reaper *r, bool at_once);
/* How many flows the kernel could not enter, ever. 0 or -errno. */
int reaper_insert_failed(struct reaper *r, uint64_t *out);

#endif
