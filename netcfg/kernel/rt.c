/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/rt.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/socket.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/kernel/rt_internal.h"

int rt_errno(int nlerr)
{
	switch (-nlerr) {
	case NLE_SUCCESS:
		return 0;
	case NLE_NODEV:
	case NLE_OBJ_NOTFOUND:
		return -ENODEV;
	case NLE_EXIST:
		return -EEXIST;
	case NLE_PERM:
	case NLE_NOACCESS:
		return -EPERM;
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_DUMP_INTR:
	case NLE_INTR:
		return -EINTR;
	case NLE_INVAL:
	case NLE_RANGE:
		return -EINVAL;
	case NLE_OPNOTSUPP:
		return -EOPNOTSUPP;
	case NLE_AGAIN:
		return -EAGAIN;
	default:
		return -EIO;
	}
}

int rt_fail(struct vgw_err *err, int nlerr, const char *where, const char *what)
{
	int rc = rt_errno(nlerr);

	return vgw_err_set(err, rc, rc == -EPERM ? "NotPermitted" : "KernelError", where, "%s: %s", what,
			   nl_geterror(nlerr));
}

int rt_open(struct rt **out, struct vgw_err *err)
{
	struct rt *r = calloc(1, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "rtnetlink", "no memory");
	r->socket = nl_socket_alloc();
	rc = r->socket ? nl_connect(r->socket, NETLINK_ROUTE) : -NLE_NOMEM;
	if (rc < 0) {
		rt_close(r);
		return rt_fail(err, rc, "rtnetlink", "cannot open a route netlink socket");
	}
	/* Dumps are read into the smallest buffer that holds a message otherwise, one system call each. */
	nl_socket_set_msg_buf_size(r->socket, 32768);
	*out = r;
	return 0;
}

void rt_close(struct rt *r)
{
	if (!r)
		return;
	nl_socket_free(r->socket);
	free(r);
}

uint32_t rt_port(const struct rt *r)
{
	return nl_socket_get_local_port(r->socket);
}

struct link_walk {
	struct arena *arena;
	struct rt_host *out;
	size_t cap;
	bool failed;
};

static void take_link(struct nl_object *object, void *ctx)
{
	struct rtnl_link *link = (struct rtnl_link *)object;
	struct link_walk *w = ctx;
	const char *name = rtnl_link_get_name(link);
	struct rt_link *l;

	if (!name || w->out->n_links == w->cap)
		return;
	l = &w->out->links[w->out->n_links++];
	strncpy(l->name, name, NS_IFNAME - 1);
	l->index = rtnl_link_get_ifindex(link);
	l->mtu = rtnl_link_get_mtu(link);
	l->up = rtnl_link_get_flags(link) & IFF_UP;
	l->loopback = rtnl_link_get_flags(link) & IFF_LOOPBACK;
}

int rt_to_addr(struct nl_addr *a, struct ip_addr *out)
{
	memset(out, 0, sizeof(*out));
	if (!a)
		return -EINVAL;
	if (nl_addr_get_family(a) == AF_INET && nl_addr_get_len(a) == 4)
		out->family = IP_V4;
	else if (nl_addr_get_family(a) == AF_INET6 && nl_addr_get_len(a) == 16)
		out->family = IP_V6;
	else
		return -EINVAL;
	memcpy(out->bytes, nl_addr_get_binary_addr(a), nl_addr_get_len(a));
	return 0;
}

static const char *link_name(const struct rt_host *h, int index)
{
	for (size_t i = 0; i < h->n_links; i++)
		if (h->links[i].index == index)
			return h->links[i].name;
	return NULL;
}

static void take_address(struct nl_object *object, void *ctx)
{
	struct rtnl_addr *addr = (struct rtnl_addr *)object;
	struct link_walk *w = ctx;
	struct nl_addr *local = rtnl_addr_get_local(addr);
	const char *name = link_name(w->out, rtnl_addr_get_ifindex(addr));
	struct rt_address *a = &w->out->addresses[w->out->n_addresses];

	if (w->out->n_addresses == w->cap || !name || rt_to_addr(local, &a->address) < 0)
		return;
	memcpy(a->interface, name, NS_IFNAME);
	a->len = (uint8_t)rtnl_addr_get_prefixlen(addr);
	w->out->n_addresses++;
}

/* A dump that a change interrupted is made again: a fresh cache each time. */
static int cache_fill(struct rt *r, int (*alloc)(struct rt *, struct nl_cache **), struct nl_cache **out)
{
	int rc = -NLE_DUMP_INTR;

	for (int i = 0; i < RT_TRIES && (rc == -NLE_DUMP_INTR || rc == -NLE_INTR); i++)
		rc = alloc(r, out);
	return rc;
}

static int alloc_links(struct rt *r, struct nl_cache **out)
{
	return rtnl_link_alloc_cache(r->socket, AF_UNSPEC, out);
}

static int alloc_addresses(struct rt *r, struct nl_cache **out)
{
	return rtnl_addr_alloc_cache(r->socket, out);
}

int rt_observe(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err)
{
	struct link_walk w = {.arena = arena, .out = out};
	struct nl_cache *cache = NULL;
	int rc = cache_fill(r, alloc_links, &cache);

	memset(out, 0, sizeof(*out));
	if (rc < 0)
		return rt_fail(err, rc, "links", "cannot list the links");
	w.cap = (size_t)nl_cache_nitems(cache);
	out->links = arena_calloc(arena, w.cap, sizeof(*out->links));
	if (out->links)
		nl_cache_foreach(cache, take_link, &w);
	nl_cache_free(cache);
	rc = cache_fill(r, alloc_addresses, &cache);
	if (rc < 0)
		return rt_fail(err, rc, "addresses", "cannot list the addresses");
	w.cap = (size_t)nl_cache_nitems(cache);
	out->addresses = arena_calloc(arena, w.cap + 1, sizeof(*out->addresses));
	if (out->addresses)
		nl_cache_foreach(cache, take_address, &w);
	nl_cache_free(cache);
	if (!out->links || !out->addresses)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "host", "no memory");
	return rt_observe_routes(r, arena, out, err);
}

int rt_link_set_mtu(struct rt *r, const char *name, uint32_t mtu, struct vgw_err *err)
{
	struct rtnl_link *have = NULL, *change = rtnl_link_alloc();
	int rc = change ? rtnl_link_get_kernel(r->socket, 0, name, &have) : -NLE_NOMEM;

	if (!rc) {
		rtnl_link_set_mtu(change, mtu);
		rc = rtnl_link_change(r->socket, have, change, 0);
	}
	if (have)
		rtnl_link_put(have);
	if (change)
		rtnl_link_put(change);
	if (rc < 0) {
		rt_fail(err, rc, name, "cannot set the MTU");
		if (rt_errno(rc) == -EINVAL)
			vgw_err_set(err, -EINVAL, "OutOfRange", name, "the device does not take an MTU of %u",
				    mtu);
		return rt_errno(rc);
	}
	return 0;
}

const struct rt_link *rt_host_link(const struct rt_host *h, const char *name)
{
	for (size_t i = 0; i < h->n_links; i++)
		if (!strcmp(h->links[i].name, name))
			return &h->links[i];
	return NULL;
}

const char *rt_host_carrier(const struct rt_host *h, const struct ip_addr *address)
{
	for (size_t i = 0; i < h->n_addresses; i++)
		if (!ip_addr_cmp(&h->addresses[i].address, address))
			return h->addresses[i].interface;
	return NULL;
}
