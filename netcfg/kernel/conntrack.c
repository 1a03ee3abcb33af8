/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/conntrack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* net/netfilter/nf_internals.h: which parts of a tuple a filter compares. */
enum {
	FILTER_IP_SRC = 1 << 0,
	FILTER_IP_DST = 1 << 1,
	FILTER_PROTO_NUM = 1 << 3,
	FILTER_PORT_SRC = 1 << 4,
	FILTER_PORT_DST = 1 << 5,
};

enum { DELETE_CHUNK = 32768, COUNT_BUFFER = 65536 };

struct conntrack {
	struct mnl_socket *requests; /* reaping: blocking */
	struct mnl_socket *counts;   /* counting: not blocking */
	uint32_t seq;
	uint32_t count_seq;
};

static struct mnl_socket *open_socket(int flags)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | flags);
	int size = 1 << 20;

	if (s && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(s);
		return NULL;
	}
	if (s)
		setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return s;
}

int conntrack_open(struct conntrack **out, struct vgw_err *err)
{
	struct conntrack *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "conntrack", "no memory");
	c->requests = open_socket(0);
	c->counts = c->requests ? open_socket(SOCK_NONBLOCK) : NULL;
	if (!c->counts) {
		int rc = -errno;

		conntrack_close(c);
		return vgw_err_set(err, rc, "KernelError", "conntrack", "cannot open a netlink socket: %s",
				   strerror(-rc));
	}
	*out = c;
	return 0;
}

void conntrack_close(struct conntrack *c)
{
	if (!c)
		return;
	if (c->requests)
		mnl_socket_close(c->requests);
	if (c->counts)
		mnl_socket_close(c->counts);
	free(c);
}

static struct nlmsghdr *message(char *buf, uint16_t type, uint16_t flags, uint32_t seq, uint8_t family)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *nfg;

	nlh->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	nlh->nlmsg_seq = seq;
	nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));
	nfg->nfgen_family = family == IP_V6 ? AF_INET6 : family == IP_V4 ? AF_INET : AF_UNSPEC;
	nfg->version = NFNETLINK_V0;
	return nlh;
}

/* Either end may be NULL: left out. */
static void put_tuple(struct nlmsghdr *nlh, uint16_t type, const struct ip_endpoint *src,
		      const struct ip_endpoint *dst, uint8_t protocol)
{
	const struct ip_endpoint *any = src ? src : dst;
	bool v6 = any->addr.family == IP_V6;
	struct nlattr *tuple = mnl_attr_nest_start(nlh, type), *part = mnl_attr_nest_start(nlh, CTA_TUPLE_IP);

	if (src)
		mnl_attr_put(nlh, v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC, ip_addr_size(&src->addr),
			     src->addr.bytes);
	if (dst)
		mnl_attr_put(nlh, v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST, ip_addr_size(&dst->addr),
			     dst->addr.bytes);
	mnl_attr_nest_end(nlh, part);
	part = mnl_attr_nest_start(nlh, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(nlh, CTA_PROTO_NUM, protocol);
	if (src)
		mnl_attr_put_u16(nlh, CTA_PROTO_SRC_PORT, htons(src->port));
	if (dst)
		mnl_attr_put_u16(nlh, CTA_PROTO_DST_PORT, htons(dst->port));
	mnl_attr_nest_end(nlh, part);
	mnl_attr_nest_end(nlh, tuple);
}

static void get_address(const struct nlattr *a, uint8_t family, struct ip_addr *out)
{
	out->family = family;
	if (mnl_attr_get_payload_len(a) == ip_addr_size(out))
		memcpy(out->bytes, mnl_attr_get_payload(a), ip_addr_size(out));
}

static void get_tuple(const struct nlattr *nest, struct ip_endpoint *src, struct ip_endpoint *dst,
		      uint8_t *protocol)
{
	const struct nlattr *part, *a;

	mnl_attr_for_each_nested(part, nest)
	{
		bool ip = mnl_attr_get_type(part) == CTA_TUPLE_IP;

		if (!ip && mnl_attr_get_type(part) != CTA_TUPLE_PROTO)
			continue;
		mnl_attr_for_each_nested(a, part)
		{
			uint16_t type = mnl_attr_get_type(a), len = mnl_attr_get_payload_len(a);

			if (ip && (type == CTA_IP_V4_SRC || type == CTA_IP_V6_SRC))
				get_address(a, type == CTA_IP_V6_SRC ? IP_V6 : IP_V4, &src->addr);
			else if (ip && (type == CTA_IP_V4_DST || type == CTA_IP_V6_DST))
				get_address(a, type == CTA_IP_V6_DST ? IP_V6 : IP_V4, &dst->addr);
			else if (!ip && type == CTA_PROTO_NUM && len == 1)
				*protocol = mnl_attr_get_u8(a);
			else if (!ip && type == CTA_PROTO_SRC_PORT && len == 2)
				src->port = ntohs(mnl_attr_get_u16(a));
			else if (!ip && type == CTA_PROTO_DST_PORT && len == 2)
				dst->port = ntohs(mnl_attr_get_u16(a));
		}
	}
}

/* enum tcp_conntrack; TCP_CONNTRACK_NONE where it is not told. */
static uint8_t get_tcp_state(const struct nlattr *info)
{
	const struct nlattr *part, *a;

	mnl_attr_for_each_nested(part, info)
	{
		if (mnl_attr_get_type(part) != CTA_PROTOINFO_TCP)
			continue;
		mnl_attr_for_each_nested(a, part)
		{
			if (mnl_attr_get_type(a) == CTA_PROTOINFO_TCP_STATE &&
			    mnl_attr_get_payload_len(a) == 1)
				return mnl_attr_get_u8(a);
		}
	}
	return TCP_CONNTRACK_NONE;
}

/* False for what is no DNATed TCP or UDP flow. */
static bool get_flow(const struct nlmsghdr *nlh, struct ct_flow *out)
{
	const struct nlattr *a;
	uint32_t status = 0;
	uint8_t reply_protocol = 0, state = TCP_CONNTRACK_NONE;

	memset(out, 0, sizeof(*out));
	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		switch (mnl_attr_get_type(a)) {
		case CTA_TUPLE_ORIG:
			get_tuple(a, &out->client, &out->port.at, &out->port.protocol);
			break;
		case CTA_TUPLE_REPLY:
			get_tuple(a, &out->backend, &out->seen_client, &reply_protocol);
			break;
		case CTA_ID:
			out->id = mnl_attr_get_u32(a);
			break;
		case CTA_STATUS:
			status = ntohl(mnl_attr_get_u32(a));
			break;
		case CTA_PROTOINFO:
			state = get_tcp_state(a);
			break;
		}
	}
	out->over = state == TCP_CONNTRACK_TIME_WAIT || state == TCP_CONNTRACK_CLOSE;
	out->established = !out->over && state != TCP_CONNTRACK_SYN_SENT;
	return (status & IPS_DST_NAT) && out->client.addr.family && out->backend.addr.family;
}

int ct_pair_cmp(const void *a, const void *b)
{
	const struct ct_pair *x = a, *y = b;
	int c = ns_port_cmp(&x->port, &y->port);

	return c ? c : ip_endpoint_cmp(&x->backend, &y->backend);
}

struct reaper {
	const struct ct_pair *pairs;
	size_t n_pairs;
	struct ct_flow *flows;
	size_t n, cap;
	bool failed;
};

static int take_flow(const struct nlmsghdr *nlh, void *ctx)
{
	struct reaper *r = ctx;
	struct ct_flow flow;
	struct ct_pair key = {0};

	if (!get_flow(nlh, &flow))
		return MNL_CB_OK;
	key.port = flow.port;
	key.backend = flow.backend;
	if (!bsearch(&key, r->pairs, r->n_pairs, sizeof(key), ct_pair_cmp))
		return MNL_CB_OK;
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 64;
		struct ct_flow *bigger = realloc(r->flows, cap * sizeof(*bigger));

		if (!bigger) {
			r->failed = true;
			return MNL_CB_OK;
		}
		r->flows = bigger;
		r->cap = cap;
	}
	r->flows[r->n++] = flow;
	return MNL_CB_OK;
}

/* Sends a dump request that was written into BUF (COUNT_BUFFER bytes), and has CB see each answer. */
static int request(struct conntrack *c, struct nlmsghdr *nlh, char *buf, uint32_t seq, mnl_cb_t cb, void *ctx)
{
	uint32_t port = mnl_socket_get_portid(c->requests);
	int rc = 1;

	if (mnl_socket_sendto(c->requests, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	while (rc > 0) {
		ssize_t len = mnl_socket_recvfrom(c->requests, buf, COUNT_BUFFER);

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		/* What is left of earlier requests (errors of deletions) is of no interest. */
		if (((struct nlmsghdr *)buf)->nlmsg_seq == seq)
			rc = mnl_cb_run(buf, (size_t)len, seq, port, cb, ctx);
	}
	return rc < 0 ? -errno : 0;
}

/* Of one pair by its ends, of many by what all have in common: they were DNATed. */
static void put_filter(struct nlmsghdr *nlh, const struct reaper *r)
{
	const struct ct_pair *p = &r->pairs[0];
	/* Kernels compare IPv6 addresses the wrong way round here (tried on 6.18): the ports must do. */
	bool v6 = p->port.at.addr.family == IP_V6;
	struct nlattr *nest;

	if (r->n_pairs > 1) {
		mnl_attr_put_u32(nlh, CTA_STATUS, htonl(IPS_DST_NAT));
		mnl_attr_put_u32(nlh, CTA_STATUS_MASK, htonl(IPS_DST_NAT));
		return;
	}
	put_tuple(nlh, CTA_TUPLE_ORIG, NULL, &p->port.at, p->port.protocol);
	put_tuple(nlh, CTA_TUPLE_REPLY, &p->backend, NULL, p->port.protocol);
	nest = mnl_attr_nest_start(nlh, CTA_FILTER);
	mnl_attr_put_u32(nlh, CTA_FILTER_ORIG_FLAGS,
			 FILTER_PROTO_NUM | FILTER_PORT_DST | (v6 ? 0 : FILTER_IP_DST));
	mnl_attr_put_u32(nlh, CTA_FILTER_REPLY_FLAGS,
			 FILTER_PROTO_NUM | FILTER_PORT_SRC | (v6 ? 0 : FILTER_IP_SRC));
	mnl_attr_nest_end(nlh, nest);
}

static int dump(struct conntrack *c, struct reaper *r, bool filter)
{
	char buf[COUNT_BUFFER];
	uint32_t seq = ++c->seq;
	uint8_t family = r->n_pairs == 1 ? r->pairs[0].port.at.addr.family : IP_NONE;
	struct nlmsghdr *nlh = message(buf, IPCTNL_MSG_CT_GET, NLM_F_DUMP, seq, family);

	if (filter)
		put_filter(nlh, r);
	return request(c, nlh, buf, seq, take_flow, r);
}

/* By its whole tuple and its id: a flow that came since under the same ports stays. One that is gone is fine.
 */
static int delete_flows(struct conntrack *c, const struct ct_flow *flows, size_t n)
{
	char chunk[DELETE_CHUNK];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		struct nlmsghdr *nlh =
			message(chunk + used, IPCTNL_MSG_CT_DELETE, 0, ++c->seq, flows[i].client.addr.family);

		put_tuple(nlh, CTA_TUPLE_ORIG, &flows[i].client, &flows[i].port.at, flows[i].port.protocol);
		mnl_attr_put_u32(nlh, CTA_ID, flows[i].id);
		used += NLMSG_ALIGN(nlh->nlmsg_len);
		if (i + 1 < n && used < DELETE_CHUNK - 512)
			continue;
		if (send(mnl_socket_get_fd(c->requests), chunk, used, 0) < 0)
			return -errno;
		used = 0;
	}
	return 0;
}

int conntrack_reap(struct conntrack *c, const struct ct_pair *pairs, size_t n, struct ct_flow **flows,
		   size_t *n_flows, struct vgw_err *err)
{
	struct reaper r = {.pairs = pairs, .n_pairs = n};
	int rc = n ? dump(c, &r, true) : 0;

	if (rc == -EINVAL || rc == -EOPNOTSUPP) {
		r.n = 0;
		rc = dump(c, &r, false);
	}
	if (!rc && r.failed)
		rc = -ENOMEM;
	if (!rc)
		rc = delete_flows(c, r.flows, r.n);
	*flows = r.flows;
	*n_flows = r.n;
	if (!rc)
		return 0;
	free(r.flows);
	*flows = NULL;
	*n_flows = 0;
	return vgw_err_set(err, rc, "KernelError", "conntrack", "cannot reap flows: %s", strerror(-rc));
}

int conntrack_fd(const struct conntrack *c)
{
	return mnl_socket_get_fd(c->counts);
}

int conntrack_count_start(struct conntrack *c)
{
	char buf[256];
	struct nlmsghdr *nlh;

	c->count_seq = ++c->seq;
	nlh = message(buf, IPCTNL_MSG_CT_GET, NLM_F_DUMP, c->count_seq, 0);
	/* Only what was DNATed, where the kernel filters by status. */
	mnl_attr_put_u32(nlh, CTA_STATUS, htonl(IPS_DST_NAT));
	mnl_attr_put_u32(nlh, CTA_STATUS_MASK, htonl(IPS_DST_NAT));
	return mnl_socket_sendto(c->counts, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
}

struct counter {
	void (*fn)(void *ctx, const struct ct_flow *flow);
	void *ctx;
};

static int count_flow(const struct nlmsghdr *nlh, void *data)
{
	struct counter *k = data;
	struct ct_flow flow;

	if (get_flow(nlh, &flow))
		k->fn(k->ctx, &flow);
	return MNL_CB_OK;
}

int conntrack_count_read(struct conntrack *c, void (*fn)(void *ctx, const struct ct_flow *flow), void *ctx)
{
	char buf[COUNT_BUFFER];
	struct counter k = {fn, ctx};
	ssize_t len = recv(conntrack_fd(c), buf, sizeof(buf), MSG_DONTWAIT);
	int rc;

	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	if (((struct nlmsghdr *)buf)->nlmsg_seq != c->count_seq)
		return 1;
	rc = mnl_cb_run(buf, (size_t)len, c->count_seq, mnl_socket_get_portid(c->counts), count_flow, &k);
	return rc < 0 ? -errno : rc;
}

static int add_insert_failed(const struct nlmsghdr *nlh, void *data)
{
	uint64_t *sum = data;
	const struct nlattr *a;

	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == CTA_STATS_INSERT_FAILED &&
		    mnl_attr_validate(a, MNL_TYPE_U32) >= 0)
			*sum += ntohl(mnl_attr_get_u32(a));
	}
	return MNL_CB_OK;
}

int conntrack_insert_failed(struct conntrack *c, uint64_t *out)
{
	char buf[COUNT_BUFFER];
	uint32_t seq = ++c->seq;
	struct nlmsghdr *nlh = message(buf, IPCTNL_MSG_CT_GET_STATS_CPU, NLM_F_DUMP, seq, 0);

	*out = 0;
	return request(c, nlh, buf, seq, add_insert_failed, out);
}
