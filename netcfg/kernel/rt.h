/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses and routes over rtnetlink (rtnetlink(7)), by libnl-3. */
#ifndef NETCFG_KERNEL_RT_H
#define NETCFG_KERNEL_RT_H

#include "netcfg/base/err.h"
#include "netcfg/model/netstate.h"

/* Our mark on routes: shipped as "vgw-agent" in rt_protos.d. */
enum { RT_PROTOCOL_VGW = 86 };

struct rt;

struct rt_link {
	char name[NS_IFNAME];
	int index;
	uint32_t mtu; /* bytes */
	bool up, loopback;
};

struct rt_address {
	char interface[NS_IFNAME];
	struct ip_addr address;
	uint8_t len; /* prefix length */
};

/* What a host has, in one arena. */
struct rt_host {
	struct rt_link *links;
	size_t n_links;
	struct rt_address *addresses;
	size_t n_addresses;
	char default_if[NS_IFNAME]; /* of the IPv4 default route, else the IPv6 one; "" without */
	struct ns_route *own;	    /* our routes */
	size_t n_own;
};

int rt_open(struct rt **out, struct vgw_err *err);
/* NULL is fine. */
void rt_close(struct rt *r);
/* Our netlink port, as notifications name it. */
uint32_t rt_port(const struct rt *r);

/* Interrupted dumps are repeated. 0 or -errno with ERR. */
int rt_observe(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err);

/*
 * The route that leads to NETWORK without ours: by the table that the kernel's rules choose for its first
 * host. OUT gets what our own route beside it must look like, MTU aside. -ENETUNREACH without one.
 */
int rt_route_origin(struct rt *r, const struct ip_prefix *network, struct ns_route *out);

/* Never sets a link down. -ENODEV when it is gone; -EINVAL when the device cannot. */
int rt_link_set_mtu(struct rt *r, const char *name, uint32_t mtu, struct vgw_err *err);
int rt_route_add(struct rt *r, const struct ns_route *route, struct vgw_err *err);
/* One that is gone already is fine. */
int rt_route_remove(struct rt *r, const struct ns_route *route, struct vgw_err *err);

const struct rt_link *rt_host_link(const struct rt_host *h, const char *name);
/* The interface that carries exactly ADDRESS, or NULL. */
const char *rt_host_carrier(const struct rt_host *h, const struct ip_addr *address);

#endif
