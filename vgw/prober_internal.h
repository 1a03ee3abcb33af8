/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the prober*.c files alone. */
#ifndef VGW_PROBER_INTERNAL_H
#define VGW_PROBER_INTERNAL_H

#include "vgw/probe/echo.h"
#include "vgw/probe/peer.h"
#include "vgw/probe/ping.h"
#include "vgw/prober.h"

/* A link that is to be raised for a search and is not by then stays as it is. */
enum { PROBER_RAISE_WAIT_MS = 3000 };

/* One tunnel with somebody to ask. */
struct asked {
	struct prober *prober;
	struct prober_tunnel now; /* .name is this one's own */
	struct peer peer;
	struct peer_path path;
	struct peer_budget budget;
	struct pmtu_search *search; /* with the peer's agent; NULL: none runs */
	struct echo *echo;	    /* the same without one */
	uint32_t ceiling;	    /* the largest size that it tries */
	uint32_t secret;	    /* upper half of the search's nonces */
	int64_t small_ms;	    /* the next small probe */
	int64_t raise_ms;	    /* since when a raised link is waited for; below 0: not */
	bool raise, touched;
	struct prober_view shown; /* as last reported */
	ev_timer timer;
};

struct prober {
	struct ev_loop *loop;
	uint16_t port;
	prober_changed_fn *changed;
	void *ctx;
	struct ip_addr own[2];
	struct peer_socket *sockets[2];
	struct ping *pings[2]; /* opened when a peer without an agent is asked */
	bool no_pings;	       /* said so already */
	struct asked **asked;
	size_t n;
};

/* Everything that is due for one tunnel, and when to look again. */
void prober_turn(struct asked *a);
/* What the socket of one address hands on. */
struct peer_socket_events prober_events(struct prober *p);

/* Sends a request of SIZE bytes (0: the smallest). 0 or -errno; -EMSGSIZE with MTU. */
int prober_ask(struct asked *a, uint64_t nonce, uint32_t size, int64_t now_ms, uint32_t *mtu);

void prober_look(const struct asked *a, struct prober_view *out);

/* For peers without an agent: prober_echo.c. */
void prober_ping(struct asked *a, uint64_t nonce, uint32_t size);
/* False when it cannot begin. */
bool prober_echo(struct asked *a, uint32_t ceiling);

/* A search is over. */
void prober_searched(struct asked *a, const struct pmtu_search_result *result);

#endif
