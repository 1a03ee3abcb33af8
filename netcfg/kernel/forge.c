/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/forge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

struct forge {
	int sockets[2]; /* IPv4, IPv6; -1: this kernel has none */
};

static int open_raw(int family, uint32_t mark)
{
	int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			IPPROTO_RAW); /* we bring the header */

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int forge_open(uint32_t mark, struct forge **out, struct vgw_err *err)
{
	struct forge *f = calloc(1, sizeof(*f));

	*out = NULL;
	if (!f)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "raw socket", "no memory");
	f->sockets[0] = open_raw(AF_INET, mark);
	if (f->sockets[0] < 0) {
		int rc = -errno;

		free(f);
		return vgw_err_set(err, rc, "KernelError", "raw socket", "cannot open one: %s",
				   strerror(-rc));
	}
	f->sockets[1] = open_raw(AF_INET6, mark);
	*out = f;
	return 0;
}

void forge_close(struct forge *f)
{
	if (!f)
		return;
	for (int i = 0; i < 2; i++)
		if (f->sockets[i] >= 0)
			close(f->sockets[i]);
	free(f);
}

/* RFC 1071, over 16-bit words in network order. */
static uint32_t sum(const void *data, size_t len, uint32_t start)
{
	const uint8_t *p = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		start += (uint32_t)(p[i] << 8 | p[i + 1]);
	return start;
}

static uint16_t fold(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return htons((uint16_t)~s);
}

/* RFC 9293 3.1, with the pseudo-header of either family (the same sum for both). */
static void make_tcp(struct tcphdr *tcp, const struct ip_endpoint *from, const struct ip_endpoint *to)
{
	uint32_t numbers[2] = {0}, s;

	(void)!getrandom(numbers, sizeof(numbers), GRND_NONBLOCK);
	memset(tcp, 0, sizeof(*tcp));
	tcp->source = htons(from->port);
	tcp->dest = htons(to->port);
	tcp->seq = numbers[0];
	tcp->ack_seq = numbers[1];
	tcp->doff = sizeof(*tcp) / 4;
	tcp->ack = 1;
	tcp->window = htons(1024);
	s = sum(from->addr.bytes, 16, 0);
	s = sum(to->addr.bytes, 16, s);
	s += IPPROTO_TCP + sizeof(*tcp);
	tcp->check = fold(sum(tcp, sizeof(*tcp), s));
}

static int send_v4(int fd, const struct ip_endpoint *from, const struct ip_endpoint *to)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} packet = {.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP}};

	/* Total length, identification and checksum are the kernel's to fill, raw(7). */
	memcpy(&packet.ip.saddr, from->addr.bytes, 4);
	memcpy(&packet.ip.daddr, to->addr.bytes, 4);
	memcpy(&sin.sin_addr, to->addr.bytes, 4);
	make_tcp(&packet.tcp, from, to);
	return sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&sin, sizeof(sin)) < 0 ? -errno : 0;
}

static int send_v6(int fd, const struct ip_endpoint *from, const struct ip_endpoint *to)
{
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
	struct {
		struct ip6_hdr ip;
		struct tcphdr tcp;
	} packet = {0};

	packet.ip.ip6_flow = htonl(6u << 28);
	packet.ip.ip6_plen = htons(sizeof(packet.tcp));
	packet.ip.ip6_nxt = IPPROTO_TCP;
	packet.ip.ip6_hlim = 64;
	memcpy(&packet.ip.ip6_src, from->addr.bytes, 16);
	memcpy(&packet.ip.ip6_dst, to->addr.bytes, 16);
	memcpy(&sin6.sin6_addr, to->addr.bytes, 16);
	make_tcp(&packet.tcp, from, to);
	return sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&sin6, sizeof(sin6)) < 0 ? -errno
												  : 0;
}

int forge_ack(struct forge *f, const struct ip_endpoint *from, const struct ip_endpoint *to)
{
	bool v6 = from->addr.family == IP_V6;

	if (f->sockets[v6] < 0)
		return -EAFNOSUPPORT;
	return v6 ? send_v6(f->sockets[1], from, to) : send_v4(f->sockets[0], from, to);
}
