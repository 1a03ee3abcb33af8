/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bare ACK from a frontend to the client of a flow that is gone. Its sequence number is made up: the
 * client answers with a challenge ACK (RFC 5961 5), which belongs to no flow any more, and the rules reset
 * it. So a client that only listens learns that its backend is dead. Needs CAP_NET_RAW.
 */
#ifndef NETCFG_KERNEL_FORGE_H
#define NETCFG_KERNEL_FORGE_H

#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

struct forge;

/* MARK: the packet mark (SO_MARK) that the rules know these packets by. 0 or -errno with ERR. */
int forge_open(uint32_t mark, struct forge **out, struct vgw_err *err);
/* NULL is fine. */
void forge_close(struct forge *f);
/* FROM and TO are of one family. 0 or -errno. */
int forge_ack(struct forge *f, const struct ip_endpoint *from, const struct ip_endpoint *to);

#endif
