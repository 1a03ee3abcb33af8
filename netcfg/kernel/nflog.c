/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/nflog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { NFLOG_READS = 16, NFLOG_BYTES = 80 };

struct nflog {
	struct mnl_socket *socket;
};

typedef void nflog_fn(void *ctx, const struct ip_endpoint *src, const struct ip_endpoint *dst);

static int configure(struct mnl_socket *s, uint16_t group)
{
	struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
	struct nfulnl_msg_config_mode mode = {.copy_range = htonl(NFLOG_BYTES),
					      .copy_mode = NFULNL_COPY_PACKET};
	char buf[512];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *nfg;
	ssize_t len;

	nlh->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 1;
	nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));
	nfg->nfgen_family = AF_UNSPEC;
	nfg->version = NFNETLINK_V0;
	nfg->res_id = htons(group);
	mnl_attr_put(nlh, NFULA_CFG_CMD, sizeof(bind), &bind);
	mnl_attr_put(nlh, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(nlh, NFULA_CFG_QTHRESH, htonl(1)); /* at once */
	if (mnl_socket_sendto(s, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	len = mnl_socket_recvfrom(s, buf, sizeof(buf));
	if (len < 0)
		return -errno;
	return mnl_cb_run(buf, (size_t)len, 1, mnl_socket_get_portid(s), NULL, NULL) < 0 ? -errno : 0;
}

int nflog_open(uint16_t group, struct nflog **out, struct vgw_err *err)
{
	struct nflog *n = calloc(1, sizeof(*n));
	int rc;

	*out = NULL;
	if (!n)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "nflog", "no memory");
	n->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	rc = !n->socket || mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) < 0
		     ? -errno
		     : configure(n->socket, group);
	if (rc) {
		nflog_close(n);
		return vgw_err_set(err, rc, "KernelError", "nflog", "cannot have group %u: %s", group,
				   strerror(-rc));
	}
	*out = n;
	return 0;
}

void nflog_close(struct nflog *n)
{
	if (!n)
		return;
	if (n->socket)
		mnl_socket_close(n->socket);
	free(n);
}

int nflog_fd(const struct nflog *n)
{
	return mnl_socket_get_fd(n->socket);
}

static void report_tcp(const uint8_t *tcp, size_t len, struct ip_endpoint *src, struct ip_endpoint *dst,
		       nflog_fn *fn, void *ctx)
{
	if (len < 4)
		return;
	src->port = (uint16_t)(tcp[0] << 8 | tcp[1]);
	dst->port = (uint16_t)(tcp[2] << 8 | tcp[3]);
	fn(ctx, src, dst);
}

/* A packet as it was cut off by the kernel: nothing of it may be taken for granted. */
static void parse_packet(const uint8_t *p, size_t len, bool inside, nflog_fn *fn, void *ctx)
{
	struct ip_endpoint src = {0}, dst = {0};
	size_t header;
	uint8_t protocol;

	if (len < 20 || (p[0] >> 4 != 4 && (p[0] >> 4 != 6 || len < 40)))
		return;
	if (p[0] >> 4 == 4) {
		header = (size_t)(p[0] & 15) * 4;
		protocol = p[9];
		src.addr.family = dst.addr.family = IP_V4;
		memcpy(src.addr.bytes, p + 12, 4);
		memcpy(dst.addr.bytes, p + 16, 4);
	} else {
		header = 40;
		protocol = p[6];
		src.addr.family = dst.addr.family = IP_V6;
		memcpy(src.addr.bytes, p + 8, 16);
		memcpy(dst.addr.bytes, p + 24, 16);
	}
	if (header < 20 || header > len)
		return;
	if (protocol == IPPROTO_TCP)
		report_tcp(p + header, len - header, &src, &dst, fn, ctx);
	/* An ICMP error carries what it is about behind 8 bytes (RFC 792, RFC 4443). */
	else if ((protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6) && !inside && len - header > 8)
		parse_packet(p + header + 8, len - header - 8, true, fn, ctx);
}

void nflog_read(struct nflog *n, nflog_fn *fn, void *ctx)
{
	char buf[16384];

	for (int reads = 0; reads < NFLOG_READS; reads++) {
		ssize_t len = recv(nflog_fd(n), buf, sizeof(buf), MSG_DONTWAIT);
		struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
		int left = (int)len;

		if (len < 0 && (errno == EINTR || errno == ENOBUFS))
			continue;
		if (len <= 0)
			return;
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			const struct nlattr *a;

			if (nlh->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
				continue;
			mnl_attr_for_each(a, nlh,
					  sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) == NFULA_PAYLOAD)
				parse_packet(mnl_attr_get_payload(a), mnl_attr_get_payload_len(a), false, fn,
					     ctx);
		}
	}
}
