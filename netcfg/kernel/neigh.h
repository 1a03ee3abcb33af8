/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours that have stopped to answer ARP or neighbour solicitations, as hints for the checks
 * (linux/neighbour.h, NUD_FAILED; RFC 826, RFC 4861 7.3.3).
 *
 * Tried on a 6.18 kernel with its defaults: a host that falls silent is REACHABLE for 15 to 45 s more, STALE
 * until something is sent to it, 5 s later PROBE, 3 s later FAILED; one that was not known fails after 3 s.
 * It is told again every 3 s while something is sent.
 */
#ifndef NETCFG_KERNEL_NEIGH_H
#define NETCFG_KERNEL_NEIGH_H

#include <stdbool.h>

#include "netcfg/base/err.h"
#include "netcfg/model/ip.h"

struct neigh;

/* 0 or -errno with ERR. */
int neigh_open(struct neigh **out, struct vgw_err *err);
/* NULL is fine. */
void neigh_close(struct neigh *n);
int neigh_fd(const struct neigh *n);
/*
 * Reads some of what is there without blocking; what is left keeps the descriptor readable. FN gets the
 * address of each neighbour that has failed, on whatever link. Hints may be lost: an overflow is no error.
 */
void neigh_read(struct neigh *n, void (*fn)(void *ctx, const struct ip_addr *address), void *ctx);

/* The address of one RTM_NEWNEIGH message of LEN bytes that says NUD_FAILED; false for any other. */
bool neigh_parse(const void *message, size_t len, struct ip_addr *out);

#endif
