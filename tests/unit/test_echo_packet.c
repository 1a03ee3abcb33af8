/* SPDX-License-Identifier: Apache-2.0 */
/* Echo packets and error queues as bytes: what is ours is read, what is not is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h>

#include "netcfg/model/ip.h"
#include "vgw/probe/echo_packet.h"

static const struct echo_head head = {
	.ident = 0x1234,
	.seq = 77,
	.tagged = true,
	.nonce = 0x0123456789abcdef,
	.id = 77,
	.size = 600,
};

static void assert_head(const struct echo_head *h)
{
	assert_int_equal(h->ident, head.ident);
	assert_int_equal(h->seq, head.seq);
	assert_true(h->tagged && h->nonce == head.nonce && h->id == head.id && h->size == head.size);
}

/* The answer to a request: the same with another type, and with an IP header in front for raw IPv4. */
static size_t answer(uint8_t family, size_t ip_header, uint8_t out[128])
{
	memset(out, 0, 128);
	if (ip_header)
		out[0] = (uint8_t)(0x40 | ip_header / 4);
	echo_encode(family, &head, out + ip_header);
	out[ip_header] = family == IP_V6 ? 129 : 0;
	return ip_header + ECHO_HEAD;
}

static void test_replies(void **state)
{
	static const struct {
		uint8_t family;
		size_t ip_header, full;
	} good[] = {{IP_V4, 20, 600}, {IP_V4, 60, 640}, {IP_V4, 0, 580}, {IP_V6, 0, 560}};
	uint8_t data[128];
	struct echo_head h;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		size_t len = answer(good[i].family, good[i].ip_header, data), full = good[i].full;
		bool raw = good[i].ip_header;

		assert_int_equal(echo_read_reply(good[i].family, raw, data, len, full, &h), 0);
		assert_head(&h);
		/* Cut or padded on the way, as some routers do. */
		assert_int_equal(echo_read_reply(good[i].family, raw, data, len, full - 1, &h), -EBADMSG);
		assert_int_equal(echo_read_reply(good[i].family, raw, data, len, full + 1, &h), -EBADMSG);
		for (size_t n = 0; n < len; n++)
			assert_int_equal(echo_read_reply(good[i].family, raw, data, n, full, &h), -EBADMSG);
		/* A request, an error, another code. */
		data[good[i].ip_header] ^= 8;
		assert_int_equal(echo_read_reply(good[i].family, raw, data, len, full, &h), -EBADMSG);
		data[good[i].ip_header] ^= 8;
		data[good[i].ip_header + 1] = 1;
		assert_int_equal(echo_read_reply(good[i].family, raw, data, len, full, &h), -EBADMSG);
	}
}

static void test_quotes(void **state)
{
	uint8_t data[ECHO_HEAD];
	struct echo_head h;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		uint8_t family = v6 ? IP_V6 : IP_V4;

		echo_encode(family, &head, data);
		assert_int_equal(echo_read_quote(family, data, sizeof(data), &h), 0);
		assert_head(&h);
		/* The eight bytes that RFC 792 asks for. */
		assert_int_equal(echo_read_quote(family, data, 8, &h), 0);
		assert_true(!h.tagged && h.ident == head.ident && h.seq == head.seq);
		assert_int_equal(echo_read_quote(family, data, 7, &h), -EBADMSG);
		assert_int_equal(echo_read_quote(v6 ? IP_V4 : IP_V6, data, sizeof(data), &h), -EBADMSG);
	}
}

static void test_checksum(void **state)
{
	/* RFC 1071 3: sums to ddf2. */
	const uint8_t example[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
	uint8_t packet[ECHO_HEAD + 1];
	uint32_t sum = echo_sum(0, example, sizeof(example));

	(void)state;
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xddf2);
	echo_encode(IP_V4, &head, packet);
	packet[ECHO_HEAD] = 0xab;
	sum = echo_sum(echo_sum(0, packet, 16), packet + 16, sizeof(packet) - 16);
	echo_put_checksum(packet, sum);
	sum = echo_sum(0, packet, sizeof(packet));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	assert_int_equal(sum, 0xffff);
}

struct error_case {
	int level, type;
	uint8_t origin;
	int code;
	uint32_t info;
	size_t len;
	int rc;
	bool local;
	uint32_t mtu;
};

static void test_errors(void **state)
{
	enum { WHOLE = sizeof(struct sock_extended_err) };
	const struct error_case cases[] = {
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_ICMP, EMSGSIZE, 1400, WHOLE, 0, false, 1400},
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_LOCAL, EMSGSIZE, 1500, WHOLE, 0, true, 1500},
		{IPPROTO_IPV6, IPV6_RECVERR, SO_EE_ORIGIN_ICMP6, EMSGSIZE, 1300, WHOLE, 0, false, 1300},
		/* ping sockets leave it in network byte order */
		{IPPROTO_IPV6, IPV6_RECVERR, SO_EE_ORIGIN_ICMP6, EMSGSIZE, htonl(1300), WHOLE, 0, false,
		 1300},
		{IPPROTO_IPV6, IPV6_RECVERR, SO_EE_ORIGIN_ICMP6, EMSGSIZE, 0x7fffffff, WHOLE, 0, false, 0},
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_ICMP, EMSGSIZE, 1u << 24, WHOLE, 0, false, 0},
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_ICMP, EHOSTUNREACH, 1400, WHOLE, 0, false, 0},
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_ICMP, EMSGSIZE, 1400, WHOLE - 1, -EBADMSG, false, 0},
		{IPPROTO_IP, IP_RECVERR, SO_EE_ORIGIN_TIMESTAMPING, ENOMSG, 0, WHOLE, -EBADMSG, false, 0},
		{IPPROTO_IP, IP_TTL, SO_EE_ORIGIN_ICMP, EMSGSIZE, 1400, WHOLE, -EBADMSG, false, 0},
		{SOL_SOCKET, SO_TIMESTAMP, SO_EE_ORIGIN_ICMP, EMSGSIZE, 1400, WHOLE, -EBADMSG, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct error_case *c = &cases[i];
		union {
			struct cmsghdr aligned;
			uint8_t bytes[CMSG_SPACE(WHOLE)];
		} control = {0};
		struct msghdr m = {.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
		struct sock_extended_err e = {
			.ee_origin = c->origin, .ee_errno = (uint32_t)c->code, .ee_info = c->info};
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&m);
		struct echo_error out;

		cmsg->cmsg_level = c->level;
		cmsg->cmsg_type = c->type;
		cmsg->cmsg_len = CMSG_LEN(c->len);
		memcpy(CMSG_DATA(cmsg), &e, sizeof(e));
		assert_int_equal(echo_read_error(&m, &out), c->rc);
		if (c->rc)
			continue;
		assert_int_equal(out.local, c->local);
		assert_int_equal(out.code, c->code);
		assert_int_equal(out.mtu, c->mtu);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_checksum),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
