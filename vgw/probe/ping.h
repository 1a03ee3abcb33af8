/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single ICMP or ICMPv6 echoes to peers without an agent, over one raw socket (CAP_NET_RAW) that is bound to
 * one of the agent's own addresses and gets nothing but echo replies.
 */
#ifndef VGW_PROBE_PING_H
#define VGW_PROBE_PING_H

#include <ev.h>

#include "netcfg/model/ip.h"

struct ping;

/* An echo came back from FROM, by the interface of that index, with our tag. */
typedef void ping_reply_fn(void *ctx, const struct ip_addr *from, int interface, uint64_t nonce);

/* SOURCE need not be on this host yet. 0 or -errno: -EPERM without the privilege. */
int ping_open(struct ev_loop *loop, const struct ip_addr *source, ping_reply_fn *reply, void *ctx,
	      struct ping **out);
/* NULL is fine. */
void ping_close(struct ping *p);
/*
 * A packet of SIZE bytes, its IP header included (0: the smallest), unfragmented, by the interface of that
 * index (0: as routed). 0 or -errno.
 */
int ping_send(struct ping *p, const struct ip_addr *to, int interface, uint32_t size, uint64_t nonce);

#endif
