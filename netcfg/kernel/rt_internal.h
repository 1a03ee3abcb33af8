/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the rt*.c files alone. */
#ifndef NETCFG_KERNEL_RT_INTERNAL_H
#define NETCFG_KERNEL_RT_INTERNAL_H

#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/handlers.h>

#include "netcfg/kernel/rt.h"

enum { RT_TRIES = 20 };

struct rt {
	struct nl_sock *socket;
};

/* libnl's negative error number to -errno. */
int rt_errno(int nlerr);
/* ERR from libnl's error; returns -errno. */
int rt_fail(struct vgw_err *err, int nlerr, const char *where, const char *what);
int rt_to_addr(struct nl_addr *a, struct ip_addr *out);
/* ADDRESS is used by the link of that index: IPv6 that is not link-local or multicast is marked. */
void rt_mark_ipv6(struct rt_host *h, int index, const struct ip_addr *address);
/* Whether a dump is to be made again: something changed meanwhile. */
bool rt_interrupted(int nlerr);
/* The socket's callbacks with FN for each message; NULL when memory is out. To be given back (nl_cb_put). */
struct nl_cb *rt_callbacks(struct rt *r, nl_recvmsg_msg_cb_t fn, void *ctx);
int rt_observe_links(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err);
int rt_observe_routes(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err);

#endif
