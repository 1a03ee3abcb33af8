/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netcfg/model/sockaddr.h"
#include "vgw/probe/packet_info.h"

/* At most so many packets are read before others get their turn. */
enum { BATCH = 256, CONTROL = 512, QUEUE_BYTES = 1 << 20 };

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* linux/in6.h */
#endif

struct peer_socket {
	struct ev_loop *loop;
	struct peer_socket_events events;
	int fd;
	uint8_t family;
	struct ip_addr own;
	ev_io io;
	uint32_t local_mtu; /* of the latest local EMSGSIZE */
	uint8_t payload[PEER_PACKET_MAX];
};

/* What an error is about: the packet that met it is quoted, as far as the report did. */
static void take_error(struct peer_socket *s, const struct sock_extended_err *e, const struct ip_addr *peer,
		       size_t len)
{
	struct peer_packet quoted = {0};
	uint8_t whole[PEER_HEADER];

	if (e->ee_errno == EMSGSIZE && e->ee_origin == SO_EE_ORIGIN_LOCAL) {
		s->local_mtu = e->ee_info;
	} else if (e->ee_errno == EMSGSIZE) {
		/* A request's header in full, the zeroes after it perhaps not. */
		if (len >= PEER_HEADER) {
			memcpy(whole, s->payload, PEER_HEADER);
			quoted.size = (uint16_t)(whole[16] << 8 | whole[17]);
			for (int i = 8; i < 16; i++)
				quoted.nonce = quoted.nonce << 8 | whole[i];
		}
		s->events.too_big(s->events.ctx, peer, quoted.nonce, quoted.size, e->ee_info);
	} else if (e->ee_errno == ECONNREFUSED) {
		s->events.refused(s->events.ctx, peer);
	}
}

static void read_errors(struct peer_socket *s)
{
	for (int i = 0; i < BATCH; i++) {
		struct sockaddr_storage to = {0};
		char control[CONTROL];
		struct iovec v = {.iov_base = s->payload, .iov_len = sizeof(s->payload)};
		struct msghdr m = {.msg_name = &to,
				   .msg_namelen = sizeof(to),
				   .msg_iov = &v,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct sock_extended_err e;
		struct ip_endpoint peer;
		ssize_t n = recvmsg(s->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

		if (n < 0)
			return;
		ip_from_sockaddr(&to, &peer);
		if (packet_info_error(&m, &e))
			take_error(s, &e, &peer.addr, (size_t)n);
	}
}

/* False when there is nothing more. */
static bool read_packet(struct peer_socket *s)
{
	struct sockaddr_storage from = {0};
	char control[CONTROL];
	struct iovec v = {.iov_base = s->payload, .iov_len = sizeof(s->payload)};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct peer_arrival at = {0};
	struct peer_packet packet;
	ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT);

	if (n < 0) {
		/* An error of an earlier packet is told here once; the queue has the whole of it. */
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return false;
		read_errors(s);
		return errno != EBADF;
	}
	if (peer_packet_read(s->payload, (size_t)n, s->family, &packet) < 0)
		return true;
	ip_from_sockaddr(&from, &at.from);
	at.interface = packet_info_interface(&m);
	if (at.from.port)
		s->events.packet(s->events.ctx, &at, &packet);
	return true;
}

static void on_io(struct ev_loop *loop, ev_io *w, int revents)
{
	struct peer_socket *s = w->data;

	read_errors(s);
	for (int i = 0; i < BATCH && read_packet(s); i++)
		;
	s->events.read(s->events.ctx);
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int configure(int fd, uint8_t family)
{
	int rc;

	/* A search sends dozens of packets at once. Less room is no failure. */
	set(fd, SOL_SOCKET, SO_RCVBUF, QUEUE_BYTES);
	set(fd, SOL_SOCKET, SO_SNDBUF, QUEUE_BYTES);
	if (family == IP_V6) {
		rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		if (!rc)
			rc = set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
		if (!rc)
			rc = set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
		if (!rc)
			rc = set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
		return rc ? rc : set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	}
	rc = set(fd, IPPROTO_IP, IP_FREEBIND, 1);
	if (!rc)
		rc = set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (!rc)
		rc = set(fd, IPPROTO_IP, IP_RECVERR, 1);
	return rc ? rc : set(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

int peer_socket_open(struct ev_loop *loop, const struct ip_endpoint *own,
		     const struct peer_socket_events *events, struct peer_socket **out)
{
	struct peer_socket *s = calloc(1, sizeof(*s));
	struct sockaddr_storage ss;
	socklen_t len = ip_to_sockaddr(&own->addr, own->port, &ss);
	int rc;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->events = *events;
	s->family = own->addr.family;
	s->own = own->addr;
	s->fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
	rc = s->fd < 0 ? -errno : configure(s->fd, s->family);
	if (!rc && bind(s->fd, (struct sockaddr *)&ss, len) < 0)
		rc = -errno;
	ev_io_init(&s->io, on_io, s->fd, EV_READ);
	s->io.data = s;
	if (rc) {
		peer_socket_close(s);
		return rc;
	}
	ev_io_start(loop, &s->io);
	*out = s;
	return 0;
}

void peer_socket_close(struct peer_socket *s)
{
	if (!s)
		return;
	if (s->fd >= 0) {
		ev_io_stop(s->loop, &s->io);
		close(s->fd);
	}
	free(s);
}

int peer_socket_send(struct peer_socket *s, const struct ip_endpoint *to, int interface,
		     const struct peer_packet *packet, size_t len, uint32_t *mtu)
{
	static uint8_t zeroes[PEER_PACKET_MAX];
	uint8_t header[PEER_HEADER];
	struct sockaddr_storage ss;
	char control[CONTROL] __attribute__((aligned(sizeof(long)))) = {0};
	struct iovec v[2] = {{.iov_base = header, .iov_len = PEER_HEADER},
			     {.iov_base = zeroes, .iov_len = len - PEER_HEADER}};
	struct msghdr m = {.msg_name = &ss, .msg_iov = v, .msg_iovlen = 2};

	m.msg_namelen = ip_to_sockaddr(&to->addr, to->port, &ss);
	peer_packet_write(packet, header);
	if (interface) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		packet_info_put(&m, &s->own, interface);
	}
	*mtu = 0;
	for (int tries = 0; tries < 3; tries++) {
		if (sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EMSGSIZE) {
			s->local_mtu = 0;
			read_errors(s);
			*mtu = s->local_mtu;
			return -EMSGSIZE;
		}
		/* An earlier packet's error may be told in this one's place. */
		if (errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != ENETUNREACH)
			return -errno;
		read_errors(s);
	}
	return -ENETUNREACH;
}
