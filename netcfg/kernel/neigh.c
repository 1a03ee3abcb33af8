/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/neigh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/filter.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* So much at a time: a flood of hints must not hold up the checks that they are for. */
enum { NEIGH_READS = 64, NEIGH_MESSAGE = 4096 };

struct neigh {
	struct mnl_socket *socket;
};

/*
 * On a LAN with thousands of neighbours most notifications are about their coming and going (and about the
 * entries of bridges): the kernel keeps those to itself. A filter loads in network byte order.
 */
static int only_failed(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWNEIGH), 0, 3),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, NLMSG_HDRLEN + offsetof(struct ndmsg, ndm_state)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, htons(NUD_FAILED), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno : 0;
}

static int subscribe(struct neigh *n)
{
	int group = RTNLGRP_NEIGH;
	int rc;

	n->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!n->socket || mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	rc = only_failed(neigh_fd(n));
	if (!rc && mnl_socket_setsockopt(n->socket, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		rc = -errno;
	return rc;
}

int neigh_open(struct neigh **out, struct vgw_err *err)
{
	struct neigh *n = calloc(1, sizeof(*n));
	int rc;

	*out = NULL;
	if (!n)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "neighbours", "no memory");
	rc = subscribe(n);
	if (rc) {
		neigh_close(n);
		return vgw_err_set(err, rc, "KernelError", "neighbours", "cannot subscribe: %s",
				   strerror(-rc));
	}
	*out = n;
	return 0;
}

void neigh_close(struct neigh *n)
{
	if (!n)
		return;
	if (n->socket)
		mnl_socket_close(n->socket);
	free(n);
}

int neigh_fd(const struct neigh *n)
{
	return mnl_socket_get_fd(n->socket);
}

bool neigh_parse(const void *message, size_t len, struct ip_addr *out)
{
	const struct nlmsghdr *nlh = message;
	const struct ndmsg *ndm;
	const struct nlattr *a;

	memset(out, 0, sizeof(*out));
	if (len > INT32_MAX || !mnl_nlmsg_ok(nlh, (int)len) || nlh->nlmsg_type != RTM_NEWNEIGH ||
	    nlh->nlmsg_len < NLMSG_LENGTH(sizeof(*ndm)))
		return false;
	ndm = mnl_nlmsg_get_payload(nlh);
	if (!(ndm->ndm_state & NUD_FAILED) || (ndm->ndm_family != AF_INET && ndm->ndm_family != AF_INET6))
		return false;
	mnl_attr_for_each(a, nlh, sizeof(*ndm))
	{
		size_t size = ndm->ndm_family == AF_INET ? 4 : 16;

		if (mnl_attr_get_type(a) != NDA_DST || mnl_attr_get_payload_len(a) != size)
			continue;
		out->family = ndm->ndm_family == AF_INET ? IP_V4 : IP_V6;
		memcpy(out->bytes, mnl_attr_get_payload(a), size);
		return true;
	}
	return false;
}

void neigh_read(struct neigh *n, void (*fn)(void *ctx, const struct ip_addr *address), void *ctx)
{
	_Alignas(struct nlmsghdr) char buf[NEIGH_MESSAGE];

	/* A notification is a datagram of its own. */
	for (int reads = 0; reads < NEIGH_READS; reads++) {
		ssize_t len = recv(neigh_fd(n), buf, sizeof(buf), MSG_DONTWAIT);
		struct ip_addr address;

		if (len < 0 && (errno == EINTR || errno == ENOBUFS))
			continue;
		if (len <= 0)
			return;
		if (neigh_parse(buf, (size_t)len, &address))
			fn(ctx, &address);
	}
}
