/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netcfg/kernel/monitor.h"
#include "netcfg/model/nft_table.h"

/* A flood of events overflows any buffer; a larger one only makes it rarer. */
enum { MONITOR_BUFFER = 4 << 20, MONITOR_READS = 64 };

struct monitor {
	struct mnl_socket *sockets[MONITOR_SOCKETS];
	uint32_t *own;
	unsigned n_own;
	bool touched; /* messages about our table, since the last generation */
};

static int join(struct mnl_socket *s, int group)
{
	return mnl_socket_setsockopt(s, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
}

static struct mnl_socket *open_socket(int protocol, const int *groups, unsigned n)
{
	struct mnl_socket *s = mnl_socket_open2(protocol, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int size = MONITOR_BUFFER;

	if (!s)
		return NULL;
	setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0)
		goto fail;
	for (unsigned i = 0; i < n; i++)
		if (join(s, groups[i]) < 0)
			goto fail;
	return s;
fail:
	mnl_socket_close(s);
	return NULL;
}

int monitor_open(const uint32_t *own, unsigned n_own, struct monitor **out, struct vgw_err *err)
{
	static const int route_groups[] = {RTNLGRP_LINK,       RTNLGRP_IPV4_IFADDR,  RTNLGRP_IPV6_IFADDR,
					   RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,   RTNLGRP_IPV4_RULE,
					   RTNLGRP_IPV6_RULE,  RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF};
	static const int nft_groups[] = {NFNLGRP_NFTABLES};
	struct monitor *m = calloc(1, sizeof(*m));

	*out = NULL;
	if (m)
		m->own = calloc(n_own + 1, sizeof(*m->own));
	if (!m || !m->own) {
		free(m);
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "notifications", "no memory");
	}
	memcpy(m->own, own, n_own * sizeof(*own));
	m->n_own = n_own;
	m->sockets[0] =
		open_socket(NETLINK_ROUTE, route_groups, sizeof(route_groups) / sizeof(route_groups[0]));
	m->sockets[1] = m->sockets[0] ? open_socket(NETLINK_NETFILTER, nft_groups, 1) : NULL;
	if (!m->sockets[1]) {
		int rc = -errno;

		monitor_close(m);
		return vgw_err_set(err, rc, "KernelError", "notifications", "cannot subscribe: %s",
				   strerror(-rc));
	}
	*out = m;
	return 0;
}

void monitor_close(struct monitor *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < MONITOR_SOCKETS; i++)
		if (m->sockets[i])
			mnl_socket_close(m->sockets[i]);
	free(m->own);
	free(m);
}

int monitor_fd(const struct monitor *m, unsigned i)
{
	return mnl_socket_get_fd(m->sockets[i]);
}

void monitor_mute_table(struct monitor *m, bool mute)
{
	int group = NFNLGRP_NFTABLES;

	mnl_socket_setsockopt(m->sockets[1], mute ? NETLINK_DROP_MEMBERSHIP : NETLINK_ADD_MEMBERSHIP, &group,
			      sizeof(group));
}

static bool is_own(const struct monitor *m, uint32_t port)
{
	for (unsigned i = 0; i < m->n_own; i++)
		if (m->own[i] == port)
			return true;
	return false;
}

static void links_add(struct monitor_links *l, int index)
{
	if (monitor_links_has(l, index))
		return;
	if (l->n == MONITOR_LINKS)
		l->all = true;
	else
		l->v[l->n++] = index;
}

bool monitor_links_has(const struct monitor_links *l, int index)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->v[i] == index)
			return true;
	return l->all;
}

void monitor_links_merge(struct monitor_links *to, const struct monitor_links *from)
{
	to->all |= from->all;
	for (unsigned i = 0; i < from->n; i++)
		links_add(to, from->v[i]);
}

static void take_link(const struct nlmsghdr *nlh, struct monitor_report *out)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	const unsigned works = IFF_UP | IFF_RUNNING;

	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(*info) &&
	    (nlh->nlmsg_type == RTM_DELLINK || (info->ifi_flags & works) != works))
		links_add(&out->down, info->ifi_index);
}

static void take_route(const struct monitor *m, const struct nlmsghdr *nlh, struct monitor_report *out)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		take_link(nlh, out);
		out->bits |= MONITOR_LINK;
		return;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		out->bits |= MONITOR_LINK;
		return;
	case RTM_NEWNETCONF:
	case RTM_DELNETCONF:
		out->bits |= MONITOR_NETCONF;
		return;
	}
	/* The kernel's own consequences (a link that goes takes its routes along) come from port 0. */
	if (nlh->nlmsg_pid && is_own(m, nlh->nlmsg_pid))
		return;
	out->bits |= MONITOR_ROUTE;
	if (nlh->nlmsg_pid)
		snprintf(out->route_by, sizeof(out->route_by), "port %u", nlh->nlmsg_pid);
}

/* A new generation closes a transaction, and names the process behind it (since 4.19: NFTA_GEN_PROC_*). */
static void take_generation(struct monitor *m, const struct nlmsghdr *nlh, struct monitor_report *out)
{
	const struct nlattr *a;
	const char *name = "";
	uint32_t pid = 0;

	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == NFTA_GEN_PROC_PID && mnl_attr_validate(a, MNL_TYPE_U32) >= 0)
			pid = ntohl(mnl_attr_get_u32(a));
		else if (mnl_attr_get_type(a) == NFTA_GEN_PROC_NAME &&
			 mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
			name = mnl_attr_get_str(a);
	}
	if (m->touched && !is_own(m, nlh->nlmsg_pid)) {
		out->bits |= MONITOR_TABLE;
		out->table_changes++;
		snprintf(out->table_by, sizeof(out->table_by), "pid %u %s", pid, name);
	}
	m->touched = false;
}

static void take_nft(struct monitor *m, const struct nlmsghdr *nlh, struct monitor_report *out)
{
	const struct nlattr *a;

	if (NFNL_MSG_TYPE(nlh->nlmsg_type) == NFT_MSG_NEWGEN) {
		take_generation(m, nlh, out);
		return;
	}
	/* Attribute 1 of every other message is the table's name: NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, … */
	mnl_attr_for_each(a, nlh,
			  sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) == NFTA_TABLE_NAME &&
						       mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0 &&
						       !strcmp(mnl_attr_get_str(a), NFT_TABLE_NAME))
		m->touched = true;
}

static void read_socket(struct monitor *m, unsigned i, struct monitor_report *out)
{
	char buf[65536];

	for (int reads = 0; reads < MONITOR_READS; reads++) {
		ssize_t len = recv(monitor_fd(m, i), buf, sizeof(buf), MSG_DONTWAIT);
		struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
		int left = (int)len;

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (len <= 0) {
			out->bits |= MONITOR_ALL;
			out->down.all |= i == 0;
			m->touched = false;
			return;
		}
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			if (i == 0)
				take_route(m, nlh, out);
			else if (NFNL_SUBSYS_ID(nlh->nlmsg_type) == NFNL_SUBSYS_NFTABLES)
				take_nft(m, nlh, out);
		}
	}
}

void monitor_read(struct monitor *m, struct monitor_report *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < MONITOR_SOCKETS; i++)
		read_socket(m, i, out);
}
