/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UDP socket on the probe port of one of the agent's own addresses: packets of peers' agents in and out.
 * Knows nothing of tunnels: who may be answered, and how often, is the owner's to decide.
 *
 * Every packet leaves unfragmented, whatever the kernel has learnt of the path (IP_PMTUDISC_PROBE): only the
 * device's own MTU refuses one. Errors are read from the socket's error queue (ip(7), IP_RECVERR).
 */
#ifndef VGW_PROBE_PEER_H
#define VGW_PROBE_PEER_H

#include <ev.h>

#include "netcfg/model/ip.h"
#include "vgw/model/peer_packet.h"

struct peer_socket;

struct peer_arrival {
	struct ip_endpoint from;
	int interface; /* index of the one it came in by */
};

struct peer_socket_events {
	void *ctx;
	/* A well-formed packet. */
	void (*packet)(void *ctx, const struct peer_arrival *at, const struct peer_packet *packet);
	/* Nobody listens at this address, its host says. */
	void (*refused)(void *ctx, const struct ip_addr *peer);
	/*
	 * A router says that a packet to PEER was too big. MTU as it names it, or 0; NONCE and SIZE of the
	 * packet where the report quotes enough of it, else 0.
	 */
	void (*too_big)(void *ctx, const struct ip_addr *peer, uint64_t nonce, uint32_t size, uint32_t mtu);
	/* Everything that was there has been read. */
	void (*read)(void *ctx);
};

/* OWN need not be on this host yet (IP_FREEBIND). 0 or -errno. EVENTS is copied. */
int peer_socket_open(struct ev_loop *loop, const struct ip_endpoint *own,
		     const struct peer_socket_events *events, struct peer_socket **out);
/* NULL is fine. */
void peer_socket_close(struct peer_socket *s);

/*
 * Sends PACKET with zeroes up to LEN bytes of payload, by the interface of that index (0: as routed).
 * 0; -EMSGSIZE with the device's limit in MTU (0 where it is not told); other -errno.
 */
int peer_socket_send(struct peer_socket *s, const struct ip_endpoint *to, int interface,
		     const struct peer_packet *packet, size_t len, uint32_t *mtu);

#endif
