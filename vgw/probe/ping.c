/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/ping.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/icmp.h>

#include "netcfg/model/sockaddr.h"
#include "vgw/probe/echo_packet.h"
#include "vgw/probe/packet_info.h"

enum { BATCH = 64, SEEN = 256, CONTROL = 128 };

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* linux/in6.h */
#endif

struct ping {
	struct ev_loop *loop;
	ev_io io;
	int fd;
	struct ip_addr source;
	uint16_t seq;
	ping_reply_fn *reply;
	void *ctx;
};

static void on_io(struct ev_loop *loop, ev_io *w, int revents)
{
	struct ping *p = w->data;

	for (int i = 0; i < BATCH; i++) {
		uint8_t data[SEEN];
		char control[CONTROL];
		struct sockaddr_storage ss = {0};
		struct iovec v = {.iov_base = data, .iov_len = sizeof(data)};
		struct msghdr m = {.msg_name = &ss,
				   .msg_namelen = sizeof(ss),
				   .msg_iov = &v,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct echo_head head;
		struct ip_endpoint from;
		ssize_t n = recvmsg(p->fd, &m, MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0)
			return;
		if (echo_read_reply(p->source.family, p->source.family == IP_V4, data,
				    (size_t)n < sizeof(data) ? (size_t)n : sizeof(data), (size_t)n, &head))
			continue;
		ip_from_sockaddr(&ss, &from);
		p->reply(p->ctx, &from.addr, packet_info_interface(&m), head.nonce);
	}
}

static int configure(int fd, uint8_t family)
{
	const int on = 1, v4 = IP_PMTUDISC_PROBE, v6 = IPV6_PMTUDISC_PROBE;

	if (family == IP_V6) {
		struct icmp6_filter filter;

		ICMP6_FILTER_SETBLOCKALL(&filter);
		ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
		if (setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof(filter)) < 0 ||
		    setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on)) < 0 ||
		    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) < 0 ||
		    setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof(v6)) < 0)
			return -errno;
	} else {
		struct icmp_filter filter = {.data = ~(1u << ICMP_ECHOREPLY)};

		if (setsockopt(fd, SOL_RAW, ICMP_FILTER, &filter, sizeof(filter)) < 0 ||
		    setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
		    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0 ||
		    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof(v4)) < 0)
			return -errno;
	}
	return 0;
}

int ping_open(struct ev_loop *loop, const struct ip_addr *source, ping_reply_fn *reply, void *ctx,
	      struct ping **out)
{
	struct ping *p = calloc(1, sizeof(*p));
	bool v6 = source->family == IP_V6;
	struct sockaddr_storage ss;
	socklen_t len = ip_to_sockaddr(source, 0, &ss);
	int rc;

	*out = NULL;
	if (!p)
		return -ENOMEM;
	p->loop = loop;
	p->source = *source;
	p->reply = reply;
	p->ctx = ctx;
	p->fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
		       v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	rc = p->fd < 0 ? -errno : configure(p->fd, source->family);
	if (!rc && bind(p->fd, (struct sockaddr *)&ss, len) < 0)
		rc = -errno;
	if (rc) {
		if (p->fd >= 0)
			close(p->fd);
		free(p);
		return rc;
	}
	ev_io_init(&p->io, on_io, p->fd, EV_READ);
	p->io.data = p;
	ev_io_start(loop, &p->io);
	*out = p;
	return 0;
}

void ping_close(struct ping *p)
{
	if (!p)
		return;
	ev_io_stop(p->loop, &p->io);
	close(p->fd);
	free(p);
}

int ping_send(struct ping *p, const struct ip_addr *to, int interface, uint32_t size, uint64_t nonce)
{
	static uint8_t zeroes[UINT16_MAX];
	const uint32_t least = (uint32_t)(echo_ip_header(p->source.family) + ECHO_HEAD);
	struct echo_head head = {.ident = (uint16_t)nonce, .seq = ++p->seq, .nonce = nonce, .id = 1};
	uint8_t packet[ECHO_HEAD];
	char control[CONTROL] __attribute__((aligned(sizeof(long)))) = {0};
	struct iovec v[2] = {{.iov_base = packet, .iov_len = sizeof(packet)}, {.iov_base = zeroes}};
	struct sockaddr_storage ss;
	struct msghdr m = {.msg_name = &ss, .msg_iov = v, .msg_iovlen = 2};

	head.size = size > least ? size : least;
	v[1].iov_len = head.size - least;
	echo_encode(p->source.family, &head, packet);
	/* ICMPv6's has the addresses in it, and the kernel computes it (RFC 3542 3.1). */
	if (p->source.family == IP_V4)
		echo_put_checksum(packet, echo_sum(0, packet, sizeof(packet)));
	m.msg_namelen = ip_to_sockaddr(to, 0, &ss);
	if (interface) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		packet_info_put(&m, &p->source, interface);
	}
	return sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
