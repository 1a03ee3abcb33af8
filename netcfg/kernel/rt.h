/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses and routes over rtnetlink (rtnetlink(7)), by libnl-3. */
#ifndef NETCFG_KERNEL_RT_H
#define NETCFG_KERNEL_RT_H

#include "netcfg/base/err.h"
#include "netcfg/model/netstate.h"

/* Our mark on routes: shipped as "vgw-agent" in rt_protos.d. */
enum { RT_PROTOCOL_VGW = 86 };

struct rt;

/* All bytes of one are set, padding too, so two compare with memcmp. */
struct rt_link {
	char name[NS_IFNAME];
	int index;
	uint32_t mtu; /* bytes */
	/*
	 * The MTUs that it takes, bytes, as far as the kernel tells (IFLA_MIN_MTU, IFLA_MAX_MTU) and the
	 * device below allows; 0: no bound is known. The kernel may refuse others all the same.
	 */
	uint32_t min_mtu, max_mtu;
	int lower;	   /* index of the device below, whose MTU bounds this one's; 0: none does */
	uint32_t headroom; /* what this one's headers take of that, bytes */
	bool up, loopback;
	bool ipv6; /* an address or a route of IPv6 is there, other than the link-local ones */
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

/* A network, and the route that leads there without ours. */
struct rt_origin {
	struct ip_prefix network;
	/* What our own route beside it must look like, MTU aside; network family IP_NONE: none leads there.
	 */
	struct ns_route route;
};

/*
 * Fills in the routes of N networks, each by the table that the kernel's rules choose for its first host; all
 * routes are read once for all of them. HOST: as observed. 0, or -errno with no route found.
 */
int rt_route_origins(struct rt *r, const struct rt_host *host, struct rt_origin *v, size_t n,
		     struct arena *arena);
/* INDEX: the interface by which the kernel would send to TO, our own routes considered. -ENETUNREACH. */
int rt_route_interface(struct rt *r, const struct ip_addr *to, int *index);

/* Never sets a link down. -ENODEV when it is gone; -EINVAL when the device cannot. */
int rt_link_set_mtu(struct rt *r, const char *name, uint32_t mtu, struct vgw_err *err);
int rt_route_add(struct rt *r, const struct ns_route *route, struct vgw_err *err);
/* One that is gone already is fine. */
int rt_route_remove(struct rt *r, const struct ns_route *route, struct vgw_err *err);

const struct rt_link *rt_host_link(const struct rt_host *h, const char *name);
/* The interface that carries exactly ADDRESS, or NULL. */
const char *rt_host_carrier(const struct rt_host *h, const struct ip_addr *address);

#endif
