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
#include <stdlib.h>
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
	for (size_t i = 0; i < h->n_links; i++)
		if (h->links[i].index == index)
			memcpy(out, h->links[i].name, NS_IFNAME);
}

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
	struct nl_cb *cb = rt_callbacks(r, dump_cb, d);
	int rc = cb ? nl_send_simple(r->socket, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all)) : -NLE_NOMEM;

	if (rc >= 0)
		rc = nl_recvmsgs(r->socket, cb);
	if (cb)
		nl_cb_put(cb);
	return rc < 0 ? rc : 0;
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
	rt_mark_ipv6(w->out, rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(route, 0)), &r.network.addr);
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

	for (int i = 0; i < RT_TRIES && rt_interrupted(rc); i++) {
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

struct fib_answer {
	uint32_t table;
	int interface; /* index */
	bool found;
};

static int fib_cb(struct nl_msg *msg, void *ctx)
{
	struct fib_answer *a = ctx;
	struct rtnl_route *route = NULL;
	struct rtnl_nexthop *hop;

	if (nlmsg_hdr(msg)->nlmsg_type != RTM_NEWROUTE || rtnl_route_parse(nlmsg_hdr(msg), &route) < 0)
		return NL_OK;
	hop = rtnl_route_nexthop_n(route, 0);
	a->table = rtnl_route_get_table(route);
	a->interface = hop ? rtnl_route_nh_get_ifindex(hop) : 0;
	a->found = rtnl_route_get_type(route) == RTN_UNICAST;
	rtnl_route_put(route);
	return NL_OK;
}

/* What the kernel's rules and tables say to TO. FLAGS of linux/rtnetlink.h. */
static int ask_fib(struct rt *r, const struct ip_addr *to, unsigned flags, struct fib_answer *answer)
{
	struct rtmsg head = {
		.rtm_family = to->family == IP_V6 ? AF_INET6 : AF_INET,
		.rtm_dst_len = (uint8_t)(ip_addr_size(to) * 8),
		.rtm_flags = flags,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETROUTE, 0);
	struct nl_cb *cb = rt_callbacks(r, fib_cb, answer);
	int rc = -NLE_NOMEM;

	memset(answer, 0, sizeof(*answer));
	if (msg && cb) {
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
	return rc < 0 || !answer->found ? -ENETUNREACH : 0;
}

int rt_route_interface(struct rt *r, const struct ip_addr *to, int *index)
{
	struct fib_answer answer;
	int rc = ask_fib(r, to, 0, &answer);

	*index = answer.interface;
	return rc;
}

/* What is looked for, sorted by network; and how far the search has come. */
struct origin {
	const struct rt_origin *asked;
	struct ns_route best;
	uint32_t table;
	size_t place; /* in the caller's array */
	bool found;
};

struct origin_walk {
	const struct rt_host *host;
	struct origin *v;
	size_t n;
};

static int cmp_origin(const void *a, const void *b)
{
	return ip_prefix_cmp(&((const struct origin *)a)->asked->network,
			     &((const struct origin *)b)->asked->network);
}

/* The first of those whose address is not below that of NETWORK: what NETWORK contains begins there. */
static size_t first_inside(const struct origin_walk *w, const struct ip_prefix *network)
{
	size_t low = 0, high = w->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ip_addr_cmp(&w->v[mid].asked->network.addr, &network->addr) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void take_better(struct origin *o, const struct ns_route *r)
{
	if (r->table != o->table || !ip_prefix_contains(&r->network, &o->asked->network))
		return;
	if (o->found && (r->network.len < o->best.network.len ||
			 (r->network.len == o->best.network.len && r->metric >= o->best.metric)))
		return;
	o->best = *r;
	o->found = true;
}

/* The most specific route of its table that holds all of a network, the best metric of those, ours left out.
 */
static int take_origin(struct rtnl_route *route, void *ctx)
{
	struct origin_walk *w = ctx;
	struct ns_route r;

	if (rtnl_route_get_type(route) != RTN_UNICAST || rtnl_route_get_protocol(route) == RT_PROTOCOL_VGW ||
	    to_route(route, w->host, &r) < 0)
		return 0;
	for (size_t i = first_inside(w, &r.network);
	     i < w->n && ip_prefix_contains_addr(&r.network, &w->v[i].asked->network.addr); i++)
		take_better(&w->v[i], &r);
	return 0;
}

/* What ours beside it looks like. */
static void make_ours(const struct origin *o, struct ns_route *out)
{
	const struct ip_prefix *network = &o->asked->network;

	*out = o->best;
	/* A wider route does not compete with ours; one for the same network does, and IPv6 goes by the
	 * metric alone. */
	if (ip_prefix_cmp(&out->network, network))
		out->metric = network->addr.family == IP_V6 ? 1024 : 0;
	else if (network->addr.family == IP_V6 && out->metric > 1)
		out->metric--;
	out->network = *network;
	out->mtu = 0;
}

/* RTM_F_FIB_MATCH (linux/rtnetlink.h, 4.13): the entry itself instead of what it resolves to. */
static bool table_of(struct rt *r, const struct ip_prefix *network, uint32_t *table)
{
	struct fib_answer answer;
	struct ip_addr host;

	if (ip_prefix_first_host(network, &host) < 0)
		host = network->addr;
	if (ask_fib(r, &host, RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH, &answer) < 0)
		return false;
	*table = answer.table;
	return true;
}

int rt_route_origins(struct rt *r, const struct rt_host *host, struct rt_origin *v, size_t n,
		     struct arena *arena)
{
	struct origin_walk w = {.host = host, .v = arena_calloc(arena, n, sizeof(*w.v))};
	int rc = -NLE_DUMP_INTR;

	if (!w.v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		memset(&v[i].route, 0, sizeof(v[i].route));
		w.v[w.n].asked = &v[i];
		w.v[w.n].place = i;
		w.n += table_of(r, &v[i].network, &w.v[w.n].table);
	}
	if (!w.n)
		return 0;
	qsort(w.v, w.n, sizeof(*w.v), cmp_origin);
	for (int i = 0; i < RT_TRIES && rt_interrupted(rc); i++) {
		struct route_dump d = {.fn = take_origin, .ctx = &w};

		for (size_t k = 0; k < w.n; k++)
			w.v[k].found = false;
		rc = dump_once(r, &d);
	}
	for (size_t i = 0; i < w.n && rc >= 0; i++)
		if (w.v[i].found)
			make_ours(&w.v[i], &v[w.v[i].place].route);
	return rc < 0 ? rt_errno(rc) : 0;
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
