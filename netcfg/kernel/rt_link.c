/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: what they are, and the MTUs that they take. Read by hand (linux/if_link.h), as libnl 3.7 has no
 * accessor for the bounds.
 */
#include <errno.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/socket.h>
#include <string.h>

#include "netcfg/kernel/rt_internal.h"

enum { IP_PACKET_MAX = 65535 }; /* no MTU above it means anything: RFC 791 */
/* Outer IPv4 or IPv6, UDP, VXLAN and the inner Ethernet header: vxlan_headroom() of the kernel. */
enum { VXLAN_COST_V4 = 20 + 8 + 8 + 14, VXLAN_COST_V6 = 40 + 8 + 8 + 14, ETHERNET = 14 };

struct link_walk {
	struct arena *arena;
	struct rt_host *out;
	size_t cap;
	bool failed;
};

static uint32_t get_u32(struct nlattr *a)
{
	return a ? nla_get_u32(a) : 0;
}

/* The device below a VXLAN one is named among the latter's own values. */
static void take_vxlan(struct nlattr *data, struct rt_link *l)
{
	static struct nla_policy policy[IFLA_VXLAN_MAX + 1] = {[IFLA_VXLAN_LINK] = {.type = NLA_U32}};
	struct nlattr *v[IFLA_VXLAN_MAX + 1];

	if (!data || nla_parse_nested(v, IFLA_VXLAN_MAX, data, policy) < 0)
		return;
	l->lower = (int)get_u32(v[IFLA_VXLAN_LINK]);
	l->headroom = v[IFLA_VXLAN_GROUP6] || v[IFLA_VXLAN_LOCAL6] ? VXLAN_COST_V6 : VXLAN_COST_V4;
	if (v[IFLA_VXLAN_GPE])
		l->headroom -= ETHERNET;
}

/*
 * The kernel refuses to macvlan what its lower device does not carry, and to VXLAN what does not leave room
 * for its headers, without a word of it in their maximum; tun and VXLAN without a device may be larger than
 * what is below, which then fragments or drops (tried on 6.18). VLAN is as macvlan, ipvlan is let break, and
 * GRE and WireGuard are as tun: by the kernel's source, not tried.
 */
static void take_lower(struct nlattr **attrs, struct rt_link *l)
{
	static const char *const bound[] = {"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"};
	static struct nla_policy policy[IFLA_INFO_MAX + 1] = {[IFLA_INFO_KIND] = {.type = NLA_STRING}};
	struct nlattr *info[IFLA_INFO_MAX + 1];
	const char *kind;

	if (!attrs[IFLA_LINKINFO] ||
	    nla_parse_nested(info, IFLA_INFO_MAX, attrs[IFLA_LINKINFO], policy) < 0 || !info[IFLA_INFO_KIND])
		return;
	kind = nla_get_string(info[IFLA_INFO_KIND]);
	/* In another namespace it is none that can be looked at. */
	if (attrs[IFLA_LINK_NETNSID])
		return;
	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++)
		if (!strcmp(kind, bound[i]))
			l->lower = (int)get_u32(attrs[IFLA_LINK]);
	if (!strcmp(kind, "vxlan"))
		take_vxlan(info[IFLA_INFO_DATA], l);
}

static struct rt_link *grow(struct link_walk *w)
{
	struct rt_host *out = w->out;
	struct rt_link *bigger;

	if (out->n_links < w->cap)
		return &out->links[out->n_links++];
	w->cap = w->cap ? w->cap * 2 : 16;
	bigger = arena_calloc(w->arena, w->cap, sizeof(*bigger));
	if (!bigger) {
		w->failed = true;
		return NULL;
	}
	if (out->n_links)
		memcpy(bigger, out->links, out->n_links * sizeof(*bigger));
	out->links = bigger;
	return &out->links[out->n_links++];
}

static int take_link(struct nl_msg *msg, void *ctx)
{
	static struct nla_policy policy[IFLA_MAX + 1] = {
		[IFLA_IFNAME] = {.type = NLA_STRING, .maxlen = NS_IFNAME},
		[IFLA_MTU] = {.type = NLA_U32},
		[IFLA_LINK] = {.type = NLA_U32},
		[IFLA_MIN_MTU] = {.type = NLA_U32},
		[IFLA_MAX_MTU] = {.type = NLA_U32},
		[IFLA_LINKINFO] = {.type = NLA_NESTED},
	};
	struct nlmsghdr *head = nlmsg_hdr(msg);
	struct ifinfomsg *info = nlmsg_data(head);
	struct nlattr *attrs[IFLA_MAX + 1];
	struct link_walk *w = ctx;
	struct rt_link *l;

	if (head->nlmsg_type != RTM_NEWLINK ||
	    nlmsg_parse(head, sizeof(*info), attrs, IFLA_MAX, policy) < 0 || !attrs[IFLA_IFNAME])
		return NL_OK;
	l = grow(w);
	if (!l)
		return NL_STOP;
	nla_strlcpy(l->name, attrs[IFLA_IFNAME], NS_IFNAME);
	l->index = info->ifi_index;
	l->mtu = get_u32(attrs[IFLA_MTU]);
	l->min_mtu = get_u32(attrs[IFLA_MIN_MTU]);
	l->max_mtu = get_u32(attrs[IFLA_MAX_MTU]);
	if (l->max_mtu > IP_PACKET_MAX)
		l->max_mtu = IP_PACKET_MAX;
	l->up = info->ifi_flags & IFF_UP;
	l->loopback = info->ifi_flags & IFF_LOOPBACK;
	take_lower(attrs, l);
	return NL_OK;
}

/* With the lower device's MTU, when all are known. */
static void bound_by_lower(struct rt_host *h)
{
	for (size_t i = 0; i < h->n_links; i++) {
		struct rt_link *l = &h->links[i];

		for (size_t j = 0; l->lower && j < h->n_links; j++) {
			uint32_t most = h->links[j].mtu;

			if (h->links[j].index != l->lower)
				continue;
			most = most > l->headroom ? most - l->headroom : 1;
			if (!l->max_mtu || most < l->max_mtu)
				l->max_mtu = most;
		}
	}
}

static int dump_once(struct rt *r, struct link_walk *w)
{
	struct ifinfomsg all = {.ifi_family = AF_UNSPEC};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETLINK, NLM_F_DUMP);
	struct nl_cb *cb = rt_callbacks(r, take_link, w);
	int rc = msg && cb ? nlmsg_append(msg, &all, sizeof(all), NLMSG_ALIGNTO) : -NLE_NOMEM;

	if (!rc)
		rc = nla_put_u32(msg, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (!rc)
		rc = nl_send_auto(r->socket, msg);
	if (rc >= 0)
		rc = nl_recvmsgs(r->socket, cb);
	nlmsg_free(msg);
	if (cb)
		nl_cb_put(cb);
	return rc < 0 ? rc : 0;
}

int rt_observe_links(struct rt *r, struct arena *arena, struct rt_host *out, struct vgw_err *err)
{
	int rc = -NLE_DUMP_INTR;

	for (int i = 0; i < RT_TRIES && rt_interrupted(rc); i++) {
		struct link_walk w = {.arena = arena, .out = out};

		out->links = NULL;
		out->n_links = 0;
		rc = dump_once(r, &w);
		if (w.failed)
			return vgw_err_set(err, -ENOMEM, "OutOfMemory", "links", "no memory");
	}
	if (rc < 0)
		return rt_fail(err, rc, "links", "cannot list the links");
	bound_by_lower(out);
	return 0;
}

void rt_mark_ipv6(struct rt_host *h, int index, const struct ip_addr *address)
{
	bool local = address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;

	if (address->family != IP_V6 || local || address->bytes[0] == 0xff)
		return;
	for (size_t i = 0; i < h->n_links; i++)
		h->links[i].ipv6 |= h->links[i].index == index;
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
