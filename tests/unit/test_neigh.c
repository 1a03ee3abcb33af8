/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications about neighbours as bytes: a failed one is a hint, anything else is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "netcfg/kernel/neigh.h"

struct message {
	_Alignas(struct nlmsghdr) char bytes[256];
	struct nlmsghdr *nlh;
};

static void begin(struct message *m, uint16_t type, uint8_t family, uint16_t state)
{
	struct ndmsg *ndm;

	m->nlh = mnl_nlmsg_put_header(m->bytes);
	m->nlh->nlmsg_type = type;
	ndm = mnl_nlmsg_put_extra_header(m->nlh, sizeof(*ndm));
	ndm->ndm_family = family;
	ndm->ndm_state = state;
}

static void put_address(struct message *m, const char *text)
{
	struct ip_addr a;

	assert_int_equal(ip_addr_parse(text, &a), 0);
	mnl_attr_put(m->nlh, NDA_DST, ip_addr_size(&a), a.bytes);
}

static void assert_hint(const struct message *m, const char *want)
{
	char text[IP_ADDR_STRLEN];
	struct ip_addr got;

	assert_true(neigh_parse(m->bytes, m->nlh->nlmsg_len, &got));
	assert_string_equal(ip_addr_print(&got, text), want);
}

static void test_failed_neighbours_are_hints(void **state)
{
	static const char *const addresses[] = {"192.168.150.11", "fd00:150::11"};
	static const unsigned char mac[6] = {2, 0, 0, 0, 0, 1};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct message m;

		begin(&m, RTM_NEWNEIGH, i ? AF_INET6 : AF_INET, NUD_FAILED);
		mnl_attr_put(m.nlh, NDA_LLADDR, sizeof(mac), mac);
		put_address(&m, addresses[i]);
		assert_hint(&m, addresses[i]);
	}
}

static void test_anything_else_is_none(void **state)
{
	static const struct {
		uint16_t type;
		uint8_t family;
		uint16_t state;
		const char *address;
	} rows[] = {
		{RTM_NEWNEIGH, AF_INET, NUD_REACHABLE, "192.168.150.11"},
		{RTM_NEWNEIGH, AF_INET, NUD_PROBE, "192.168.150.11"},
		{RTM_DELNEIGH, AF_INET, NUD_FAILED, "192.168.150.11"},
		{RTM_NEWROUTE, AF_INET, NUD_FAILED, "192.168.150.11"},
		{RTM_NEWNEIGH, AF_BRIDGE, NUD_FAILED, "192.168.150.11"},
		{RTM_NEWNEIGH, AF_INET6, NUD_FAILED, "192.168.150.11"}, /* the wrong size */
		{RTM_NEWNEIGH, AF_INET, NUD_FAILED, "fd00:150::11"},
		{RTM_NEWNEIGH, AF_INET, NUD_FAILED, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message m;
		struct ip_addr got;

		begin(&m, rows[i].type, rows[i].family, rows[i].state);
		if (rows[i].address)
			put_address(&m, rows[i].address);
		if (neigh_parse(m.bytes, m.nlh->nlmsg_len, &got))
			fail_msg("row %zu is taken for a hint", i);
		assert_int_equal(got.family, IP_NONE);
	}
}

/* Cut anywhere, and of any length it may claim (the kernel's are multiples of four). */
static void test_nothing_is_read_beyond_the_end(void **state)
{
	struct message m;
	struct ip_addr got;
	uint32_t whole;

	(void)state;
	begin(&m, RTM_NEWNEIGH, AF_INET, NUD_FAILED);
	put_address(&m, "192.168.150.11");
	whole = m.nlh->nlmsg_len;
	for (uint32_t len = 0; len < whole; len++) {
		_Alignas(struct nlmsghdr) char cut[256];

		memcpy(cut, m.bytes, whole);
		assert_false(neigh_parse(cut, len, &got));
		((struct nlmsghdr *)cut)->nlmsg_len = len & ~3u;
		assert_false(neigh_parse(cut, whole, &got));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failed_neighbours_are_hints),
		cmocka_unit_test(test_anything_else_is_none),
		cmocka_unit_test(test_nothing_is_read_beyond_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
