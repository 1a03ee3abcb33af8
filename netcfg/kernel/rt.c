/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/rt.h"

#include <errno.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
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

struct address_walk {
	struct rt_host *out;
	size_t cap;
};

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
	struct address_walk *w = ctx;
	struct nl_addr *local = rtnl_addr_get_local(addr);
	const char *name = link_name(w->out, rtnl_addr_get_ifindex(addr));
	struct rt_address *a = &w->out->addresses[w->out->n_addresses];

	if (w->out->n_addresses == w->cap || !name || rt_to_addr(local, &a->address) < 0)
		return;
	memcpy(a->interface, name, NS_IFNAME);
	rt_mark_ipv6(w->out, rtnl_addr_get_ifindex(addr), &a->address);
	a->len = (uint8_t)rtnl_addr_get_prefixlen(addr);
	w->out->n_addresses++;
}

bool rt_interrupted(int nlerr)
{
	return nlerr == -NLE_DUMP_INTR || nlerr == -NLE_INTR;
}

struct nl_cb *rt_callbacks(struct rt *r, nl_recvmsg_msg_cb_t fn, void *ctx)
{
	/* nl_socket_get_cb() takes a reference of its own. */
	struct nl_cb *own = nl_socket_get_cb(r->socket), *copy = nl_cb_clone(own);

	nl_cb_put(own);
	if (copy)
		nl_cb_set(copy, NL_CB_VALID, NL_CB_CUSTOM, fn, ctx);
	return copy;
}

/* A dump that a change interrupted is made again: a fresh cache each time. */
static int fill_addresses(struct rt *r, struct nl_cache **out)
{
	int rc = -NLE_DUMP_INTR;

	for (int i = 0; i < RT_TRIES && rt_interrupted(rc); i++)
		rc = rtnl_addr_alloc_cache(r->socket, out);
	return rc;
}

int rt_observe(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err)
{
	struct address_walk w = {.out = out};
	struct nl_cache *cache = NULL;
	int rc;

	memset(out, 0, sizeof(*out));
	rc = rt_observe_links(r, arena, out, err);
	if (rc)
		return rc;
	rc = fill_addresses(r, &cache);
	if (rc < 0)
		return rt_fail(err, rc, "addresses", "cannot list the addresses");
	w.cap = (size_t)nl_cache_nitems(cache);
	out->addresses = arena_calloc(arena, w.cap + 1, sizeof(*out->addresses));
	if (out->addresses)
		nl_cache_foreach(cache, take_address, &w);
	nl_cache_free(cache);
	if (!out->addresses)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "host", "no memory");
	return rt_observe_routes(r, arena, out, err);
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
