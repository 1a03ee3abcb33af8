/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the other end of every tunnel whether it is there, in which directions packets pass, and how large
 * they may be; and answers the other ends. One UDP socket for each of the agent's own addresses, and none
 * while there is nobody to ask.
 */
#ifndef VGW_PROBER_H
#define VGW_PROBER_H

#include <ev.h>

#include "netcfg/model/netstate.h"
#include "vgw/model/peer.h"
#include "vgw/model/peer_path.h"

struct prober;

/* Whether there is a way to the peer, as the kernel's tables say. */
enum prober_link { PROBER_READY, PROBER_ABSENT, PROBER_DOWN, PROBER_NO_ROUTE };

/* One tunnel as it is now. */
struct prober_tunnel {
	const char *name;	  /* its key; copied */
	struct ip_addr peer;	  /* family IP_NONE: nobody to ask */
	struct ip_prefix network; /* the peer's; packets from elsewhere are not its */
	int interface;		  /* index; 0: as routed */
	enum prober_link link;
	bool was_down;	   /* if only for a moment, since the last time */
	uint32_t in_force; /* MTU of the link, or of our route where there is none; bytes; 0 not known */
	uint32_t held;	   /* what packets to the network get: less than the link's where our route says so */
	uint32_t limit;	   /* the largest MTU that may ever be used */
	bool may_raise;	   /* the link follows the measurement, so it may be raised for one */
};

/* What is known of it. */
struct prober_view {
	enum peer_verdict verdict;
	enum peer_truth outbound, inbound;
	bool has_agent;
	struct peer_path path; /* mtu 0: not measured */
	uint32_t reverse_mtu;  /* 0: not told */
	double rtt_ms;	       /* below 0: not known */
	int loss_percent;      /* below 0: not known */
	int64_t heard_ms;      /* of the monotonic clock; below 0: never */
	bool raise;	       /* a search waits for, or uses, a link at its limit */
};

enum prober_change {
	PROBER_REPORT = 1, /* something that the status shows */
	PROBER_MTU = 2,	   /* a measured MTU, or a wish to raise a link */
};

typedef void prober_changed_fn(void *ctx, unsigned changes);

/* PORT: the probe port, here and there. NULL when memory is out. */
struct prober *prober_new(struct ev_loop *loop, uint16_t port, prober_changed_fn *changed, void *ctx);
/* NULL is fine. */
void prober_free(struct prober *p);

/*
 * The tunnels as they are now; what is known of one of the same name and peer is kept. OWN: the addresses to
 * ask from, IPv4 and IPv6, family IP_NONE for none. 0 or -ENOMEM (then nothing has changed).
 */
int prober_set(struct prober *p, const struct ip_addr own[2], const struct prober_tunnel *tunnels, size_t n);

/* False when no tunnel has that name. */
bool prober_view(const struct prober *p, const char *name, struct prober_view *out);

#endif
