/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: which of them are ours, which one leads somewhere without us, and ours beside it. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/socket.h>
#include <string.h>

#include "netcfg/kernel/rt_internal.h"

static int to_prefix(struct nl_addr *a, struct ip_prefix *out)
{
	memset(out, 0, sizeof(*out));
	if (!a)
		return -EINVAL;
	if (nl_addr_get_len(a) == 0) {
		/* The default route's destination has no bytes. */
		out->addr.family = nl_addr_get_family(a) == AF_INET6 ? IP_V6 : IP_V4;
		return 0;
	}
	out->len = (uint8_t)nl_addr_get_prefixlen(a);
	return rt_to_addr(a, &out->addr);
}

static void interface_name(const struct rt_host *h, int index, char *out)
{
	memset(out, 0, NS_IFNAME);
	for (size_t i = 0; h && i < h->n_links; i++)
		if (h->links[i].index == index)
			memcpy(out, h->links[i].name, NS_IFNAME);
	if (!h && index > 0)
		if_indextoname((unsigned)index, out);
}

/* HOST NULL: ask the kernel for the interface's name. */
static int to_route(struct rtnl_route *route, const struct rt_host *host, struct ns_route *out)
{
	struct rtnl_nexthop *hop = rtnl_route_nexthop_n(route, 0);
	uint32_t mtu = 0;

	memset(out, 0, sizeof(*out));
	if (to_prefix(rtnl_route_get_dst(route), &out->network) < 0 || !hop)
		return -EINVAL;
	rtnl_route_get_metric(route, RTAX_MTU, &mtu);
	out->mtu = mtu;
	out->table = rtnl_route_get_table(route);
	out->metric = rtnl_route_get_priority(route);
	interface_name(host, rtnl_route_nh_get_ifindex(hop), out->interface);
	rt_to_addr(rtnl_route_nh_get_gateway(hop), &out->gateway);
	rt_to_addr(rtnl_route_get_pref_src(route), &out->source);
	return out->interface[0] ? 0 : -ENODEV;
}

/* nl_socket_get_cb() takes a reference of its own. */
static struct nl_cb *clone_callbacks(struct rt *r)
{
	struct nl_cb *own = nl_socket_get_cb(r->socket), *copy = nl_cb_clone(own);

	nl_cb_put(own);
	return copy;
}

typedef int route_fn(struct rtnl_route *route, void *ctx);

struct route_dump {
	route_fn *fn;
	void *ctx;
	int rc;
};

static int dump_cb(struct nl_msg *msg, void *ctx)
{
	struct route_dump *d = ctx;
	struct rtnl_route *route = NULL;

	if (nlmsg_hdr(msg)->nlmsg_type != RTM_NEWROUTE || rtnl_route_parse(nlmsg_hdr(msg), &route) < 0)
		return NL_OK;
	if (!d->rc)
		d->rc = d->fn(route, d->ctx);
	rtnl_route_put(route);
	return NL_OK;
}

/*
 * Every route, one by one. Not through libnl's cache: it takes two routes of one network, table and metric
 * for the same, and that is how ours stands in front of the original.
 */
static int dump_once(struct rt *r, struct route_dump *d)
{
	struct rtmsg all = {.rtm_family = AF_UNSPEC};
	struct nl_cb *cb = clone_callbacks(r);
	int rc = cb ? nl_send_simple(r->socket, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all)) : -NLE_NOMEM;

	if (rc >= 0) {
		nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, dump_cb, d);
		rc = nl_recvmsgs(r->socket, cb);
	}
	if (cb)
		nl_cb_put(cb);
	return rc < 0 ? rc : 0;
}

static bool interrupted(int rc)
{
	return rc == -NLE_DUMP_INTR || rc == -NLE_INTR;
}

struct route_walk {
	struct rt_host *out;
	struct arena *arena;
	size_t cap;
	uint32_t best_metric;
	uint8_t best_family;
};

static int take_own(struct route_walk *w, const struct ns_route *r)
{
	struct rt_host *out = w->out;

	if (out->n_own == w->cap) {
		struct ns_route *bigger;

		w->cap = w->cap ? w->cap * 2 : 8;
		bigger = arena_calloc(w->arena, w->cap, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		if (out->n_own)
			memcpy(bigger, out->own, out->n_own * sizeof(*bigger));
		out->own = bigger;
	}
	out->own[out->n_own++] = *r;
	return 0;
}

static int take_route(struct rtnl_route *route, void *ctx)
{
	struct route_walk *w = ctx;
	struct ns_route r;
	bool better;

	if (rtnl_route_get_type(route) != RTN_UNICAST || to_route(route, w->out, &r) < 0)
		return 0;
	if (rtnl_route_get_protocol(route) == RT_PROTOCOL_VGW)
		return take_own(w, &r);
	if (r.network.len || r.table != RT_TABLE_MAIN)
		return 0;
	better = !w->out->default_if[0] || r.network.addr.family < w->best_family ||
		 (r.network.addr.family == w->best_family && r.metric < w->best_metric);
	if (better) {
		memcpy(w->out->default_if, r.interface, NS_IFNAME);
		w->best_metric = r.metric;
		w->best_family = r.network.addr.family;
	}
	return 0;
}

int rt_observe_routes(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err)
{
	int rc = -NLE_DUMP_INTR;

	for (int i = 0; i < RT_TRIES && interrupted(rc); i++) {
		struct route_walk w = {.out = out, .arena = arena};
		struct route_dump d = {.fn = take_route, .ctx = &w};

		out->own = NULL;
		out->n_own = 0;
		out->default_if[0] = '\0';
		rc = dump_once(r, &d);
		if (d.rc)
			return vgw_err_set(err, d.rc, "OutOfMemory", "routes", "no memory");
	}
	return rc < 0 ? rt_fail(err, rc, "routes", "cannot list the routes") : 0;
}

struct table_answer {
	uint32_t table;
	bool found;
};

static int table_cb(struct nl_msg *msg, void *ctx)
{
	struct table_answer *a = ctx;
	struct rtnl_route *route = NULL;

	if (nlmsg_hdr(msg)->nlmsg_type == RTM_NEWROUTE && rtnl_route_parse(nlmsg_hdr(msg), &route) == 0) {
		a->table = rtnl_route_get_table(route);
		a->found = rtnl_route_get_type(route) == RTN_UNICAST;
		rtnl_route_put(route);
	}
	return NL_OK;
}

/* RTM_F_FIB_MATCH (linux/rtnetlink.h, 4.13): the entry itself instead of what it resolves to. */
static int kernel_table(struct rt *r, const struct ip_addr *to, uint32_t *table)
{
	struct rtmsg head = {
		.rtm_family = to->family == IP_V6 ? AF_INET6 : AF_INET,
		.rtm_dst_len = (uint8_t)(ip_addr_size(to) * 8),
		.rtm_flags = RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETROUTE, 0);
	struct nl_cb *cb = clone_callbacks(r);
	struct table_answer answer = {0};
	int rc = -NLE_NOMEM;

	if (msg && cb) {
		nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, table_cb, &answer);
		rc = nlmsg_append(msg, &head, sizeof(head), NLMSG_ALIGNTO);
		if (!rc)
			rc = nla_put(msg, RTA_DST, (int)ip_addr_size(to), to->bytes);
		if (!rc)
			rc = nl_send_auto(r->socket, msg);
		if (rc >= 0)
			rc = nl_recvmsgs(r->socket, cb);
		if (rc >= 0)
			rc = nl_wait_for_ack(r->socket);
	}
	nlmsg_free(msg);
	if (cb)
		nl_cb_put(cb);
	if (rc < 0 || !answer.found)
		return -ENETUNREACH;
	*table = answer.table;
	return 0;
}

struct origin_walk {
	const struct ip_prefix *network;
	uint32_t table;
	struct ns_route *out;
	bool found;
};

/* The most specific route of the table that holds all of the network, the best metric of those, ours left
 * out. */
static int take_origin(struct rtnl_route *route, void *ctx)
{
	struct origin_walk *w = ctx;
	struct ns_route r;

	if (rtnl_route_get_type(route) != RTN_UNICAST || rtnl_route_get_table(route) != w->table ||
	    rtnl_route_get_protocol(route) == RT_PROTOCOL_VGW)
		return 0;
	if (to_route(route, NULL, &r) < 0 || !ip_prefix_contains(&r.network, w->network))
		return 0;
	if (w->found && (r.network.len < w->out->network.len ||
			 (r.network.len == w->out->network.len && r.metric >= w->out->metric)))
		return 0;
	*w->out = r;
	w->found = true;
	return 0;
}

int rt_route_origin(struct rt *r, const struct ip_prefix *network, struct ns_route *out)
{
	struct origin_walk w = {.network = network, .out = out};
	struct ip_addr host;
	int rc;

	if (ip_prefix_first_host(network, &host) < 0)
		host = network->addr;
	rc = kernel_table(r, &host, &w.table);
	if (rc < 0)
		return rc;
	rc = -NLE_DUMP_INTR;
	for (int i = 0; i < RT_TRIES && interrupted(rc); i++) {
		struct route_dump d = {.fn = take_origin, .ctx = &w};

		w.found = false;
		rc = dump_once(r, &d);
	}
	if (rc < 0 || !w.found)
		return rc < 0 ? rt_errno(rc) : -ENETUNREACH;
	/* A wider route does not compete with ours; one for the same network does, and IPv6 goes by the
	 * metric alone. */
	if (ip_prefix_cmp(&out->network, network))
		out->metric = network->addr.family == IP_V6 ? 1024 : 0;
	else if (network->addr.family == IP_V6 && out->metric > 1)
		out->metric--;
	out->network = *network;
	out->mtu = 0;
	return 0;
}

static struct nl_addr *build_addr(const struct ip_addr *a, int prefix_len)
{
	struct nl_addr *n = nl_addr_build(a->family == IP_V6 ? AF_INET6 : AF_INET, a->bytes, ip_addr_size(a));

	if (n)
		nl_addr_set_prefixlen(n, prefix_len);
	return n;
}

static int set_hop(struct rtnl_route *route, const struct ns_route *r)
{
	struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
	unsigned index = if_nametoindex(r->interface);
	struct nl_addr *gateway;

	if (!hop || !index) {
		rtnl_route_nh_free(hop);
		return index ? -NLE_NOMEM : -NLE_NODEV;
	}
	rtnl_route_nh_set_ifindex(hop, (int)index);
	if (r->gateway.family) {
		gateway = build_addr(&r->gateway, (int)ip_addr_size(&r->gateway) * 8);
		if (gateway) {
			rtnl_route_nh_set_gateway(hop, gateway);
			/* The gateway may be reachable only as the original route says. */
			rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK);
			nl_addr_put(gateway);
		}
	}
	rtnl_route_add_nexthop(route, hop);
	return 0;
}

static struct rtnl_route *build_route(const struct ns_route *r, int *rc)
{
	struct rtnl_route *route = rtnl_route_alloc();
	struct nl_addr *dst = build_addr(&r->network.addr, r->network.len), *src;

	*rc = route && dst ? 0 : -NLE_NOMEM;
	if (!*rc) {
		rtnl_route_set_family(route, r->network.addr.family == IP_V6 ? AF_INET6 : AF_INET);
		rtnl_route_set_dst(route, dst);
		rtnl_route_set_table(route, r->table);
		rtnl_route_set_priority(route, r->metric);
		rtnl_route_set_protocol(route, RT_PROTOCOL_VGW);
		rtnl_route_set_scope(route, r->gateway.family || r->network.addr.family == IP_V6
						    ? RT_SCOPE_UNIVERSE
						    : RT_SCOPE_LINK);
		rtnl_route_set_metric(route, RTAX_MTU, r->mtu);
		src = r->source.family ? build_addr(&r->source, (int)ip_addr_size(&r->source) * 8) : NULL;
		if (src) {
			rtnl_route_set_pref_src(route, src);
			nl_addr_put(src);
		}
		*rc = set_hop(route, r);
	}
	if (dst)
		nl_addr_put(dst);
	if (*rc && route) {
		rtnl_route_put(route);
		route = NULL;
	}
	return route;
}

int rt_route_add(struct rt *r, const struct ns_route *wanted, struct vgw_err *err)
{
	char where[IP_PREFIX_STRLEN];
	int rc;
	struct rtnl_route *route = build_route(wanted, &rc);

	if (!rc) {
		/* Without NLM_F_EXCL an IPv4 route goes in front of one of the same metric
		 * (fib_table_insert). */
		rc = rtnl_route_add(r->socket, route, NLM_F_CREATE);
		rtnl_route_put(route);
	}
	if (rc == -NLE_EXIST)
		rc = 0;
	return rc < 0 ? rt_fail(err, rc, ip_prefix_print(&wanted->network, where), "cannot add the route")
		      : 0;
}

int rt_route_remove(struct rt *r, const struct ns_route *own, struct vgw_err *err)
{
	char where[IP_PREFIX_STRLEN];
	int rc;
	struct rtnl_route *route = build_route(own, &rc);

	if (!rc) {
		rc = rtnl_route_delete(r->socket, route, 0);
		rtnl_route_put(route);
	}
	if (rc == -NLE_NODEV || rc == -NLE_OBJ_NOTFOUND)
		rc = 0; /* gone with its link */
	return rc < 0 ? rt_fail(err, rc, ip_prefix_print(&own->network, where), "cannot remove the route")
		      : 0;
}
