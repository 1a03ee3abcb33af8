/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by rt.c and rt_route.c alone. */
#ifndef NETCFG_KERNEL_RT_INTERNAL_H
#define NETCFG_KERNEL_RT_INTERNAL_H

#include <netlink/addr.h>
#include <netlink/cache.h>

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
int rt_observe_routes(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err);

#endif
