/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/probe/echo_packet.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/icmp6.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/icmp.h>

#include "netcfg/model/ip.h"
#include "vgw/probe/packet_info.h"

enum { IPV4_HEADER = 20, IPV6_HEADER = 40, LARGEST = 65535 };

static void put16(uint8_t *at, uint16_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static void put32(uint8_t *at, uint32_t v)
{
	put16(at, (uint16_t)(v >> 16));
	put16(at + 2, (uint16_t)v);
}

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

size_t echo_ip_header(uint8_t family)
{
	return family == IP_V6 ? IPV6_HEADER : IPV4_HEADER;
}

void echo_encode(uint8_t family, const struct echo_head *head, uint8_t out[ECHO_HEAD])
{
	memset(out, 0, ECHO_HEAD);
	out[0] = family == IP_V6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
	put16(out + 4, head->ident);
	put16(out + 6, head->seq);
	put32(out + 8, (uint32_t)(head->nonce >> 32));
	put32(out + 12, (uint32_t)head->nonce);
	put32(out + 16, head->id);
	put32(out + 20, head->size);
}

uint32_t echo_sum(uint32_t sum, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += get16(data + i);
	if (len % 2)
		sum += (uint32_t)data[len - 1] << 8;
	/* 65535 bytes cannot overflow it. */
	return sum;
}

void echo_put_checksum(uint8_t *packet, uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	put16(packet + 2, (uint16_t)~sum);
}

/* False when DATA is too short, or not of TYPE. */
static bool read_head(uint8_t type, const uint8_t *data, size_t len, struct echo_head *out)
{
	memset(out, 0, sizeof(*out));
	if (len < ECHO_HEADER || data[0] != type || data[1] != 0)
		return false;
	out->ident = get16(data + 4);
	out->seq = get16(data + 6);
	out->tagged = len >= ECHO_HEAD;
	if (out->tagged) {
		out->nonce = (uint64_t)get32(data + 8) << 32 | get32(data + 12);
		out->id = get32(data + 16);
		out->size = get32(data + 20);
	}
	return true;
}

int echo_read_reply(uint8_t family, bool ip_header, const uint8_t *data, size_t len, size_t full,
		    struct echo_head *out)
{
	memset(out, 0, sizeof(*out));
	if (len > full)
		return -EBADMSG;
	if (ip_header) {
		size_t skip = len ? (size_t)(data[0] & 0x0f) * 4 : 0; /* IHL counts words (RFC 791 3.1) */

		if (skip < IPV4_HEADER || len < skip)
			return -EBADMSG;
		data += skip;
		len -= skip;
		full -= skip;
	}
	if (!read_head(family == IP_V6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY, data, len, out) || !out->tagged)
		return -EBADMSG;
	if (out->size > LARGEST || out->size != full + echo_ip_header(family))
		return -EBADMSG;
	return 0;
}

int echo_read_quote(uint8_t family, const uint8_t *data, size_t len, struct echo_head *out)
{
	return read_head(family == IP_V6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO, data, len, out) ? 0 : -EBADMSG;
}

static uint32_t sane_mtu(const struct sock_extended_err *e)
{
	/* Ping sockets leave ICMPv6's number in network byte order. */
	uint32_t other = ntohl(e->ee_info);

	if (e->ee_info <= LARGEST)
		return e->ee_info;
	return e->ee_origin == SO_EE_ORIGIN_ICMP6 && other <= LARGEST ? other : 0;
}

int echo_read_error(struct msghdr *m, struct echo_error *out)
{
	struct sock_extended_err e;

	memset(out, 0, sizeof(*out));
	if (!packet_info_error(m, &e) ||
	    (e.ee_origin != SO_EE_ORIGIN_LOCAL && e.ee_origin != SO_EE_ORIGIN_ICMP &&
	     e.ee_origin != SO_EE_ORIGIN_ICMP6))
		return -EBADMSG;
	out->local = e.ee_origin == SO_EE_ORIGIN_LOCAL;
	out->code = (int)e.ee_errno;
	out->mtu = e.ee_errno == EMSGSIZE ? sane_mtu(&e) : 0;
	return 0;
}
