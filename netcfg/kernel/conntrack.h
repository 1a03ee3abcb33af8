/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking over netlink (linux/netfilter/nfnetlink_conntrack.h): the flows of a service's
 * backends. */
#ifndef NETCFG_KERNEL_CONNTRACK_H
#define NETCFG_KERNEL_CONNTRACK_H

#include "netcfg/base/err.h"
#include "netcfg/model/netstate.h"

/* One flow that was balanced: by its original and its reply tuple. */
struct ct_flow {
	struct ns_port port;		/* the frontend it went to */
	struct ip_endpoint client;	/* who opened it */
	struct ip_endpoint backend;	/* who answers */
	struct ip_endpoint seen_client; /* as the backend sees it: another one when masqueraded */
	uint32_t id;
	bool established; /* a client waits for it: UDP, or TCP that was answered and is not over */
	bool over;	  /* TCP that has been closed or reset: the kernel only remembers it */
};

struct conntrack;

/* 0 or -errno with ERR. */
int conntrack_open(struct conntrack **out, struct vgw_err *err);
/* NULL is fine. */
void conntrack_close(struct conntrack *c);

/* A frontend's port and one of the backends behind it. */
struct ct_pair {
	struct ns_port port;
	struct ip_endpoint backend;
};

/* For qsort(3) and bsearch(3). */
int ct_pair_cmp(const void *a, const void *b);

/*
 * The flows of the N sorted PAIRS, deleted; and no other. One dump, however many there are. *FLOWS (free(3))
 * and *N_FLOWS are those that were there. The kernel filters the dump where it can (CTA_FILTER, 5.8); what it
 * sends is compared here in any case. 0 or -errno with ERR.
 */
int conntrack_reap(struct conntrack *c, const struct ct_pair *pairs, size_t n, struct ct_flow **flows,
		   size_t *n_flows, struct vgw_err *err);

/*
 * Count flows without ever blocking: start a dump, then read a piece whenever conntrack_fd() is readable. FN
 * is called for each DNATed flow. conntrack_count_read() returns 1 while there is more to come, 0 at the end,
 * -errno when the dump was lost (start again later).
 */
int conntrack_fd(const struct conntrack *c);
int conntrack_count_start(struct conntrack *c);
int conntrack_count_read(struct conntrack *c, void (*fn)(void *ctx, const struct ct_flow *flow), void *ctx);

/* How many flows could not be entered since the network namespace began, over all CPUs. 0 or -errno. */
int conntrack_insert_failed(struct conntrack *c, uint64_t *out);

#endif
