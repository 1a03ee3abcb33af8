/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, prefixes and endpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "netcfg/model/ip.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static struct ip_addr addr(const char *text)
{
	struct ip_addr a;

	if (ip_addr_parse(text, &a) < 0)
		fail_msg("%s", text);
	return a;
}

static struct ip_prefix prefix(const char *text)
{
	struct ip_prefix p;

	if (ip_prefix_parse(text, &p) < 0)
		fail_msg("%s", text);
	return p;
}

static struct ip_endpoint endpoint(const char *text)
{
	struct ip_endpoint e;

	if (ip_endpoint_parse(text, &e) < 0)
		fail_msg("%s", text);
	return e;
}

static void address_text(void **state)
{
	static const struct {
		const char *text, *printed;
		uint8_t family, first, last;
	} good[] = {
		{"0.0.0.0", "0.0.0.0", IP_V4, 0, 0},
		{"192.168.150.1", "192.168.150.1", IP_V4, 192, 1},
		{"255.255.255.255", "255.255.255.255", IP_V4, 255, 255},
		{"::", "::", IP_V6, 0, 0},
		{"::1", "::1", IP_V6, 0, 1},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1", IP_V6, 0x20, 1},
		{"2001:db8::0001", "2001:db8::1", IP_V6, 0x20, 1},
		{"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", IP_V6, 0x20, 1}, /* RFC 5952 4.2.3 */
		{"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", IP_V6, 0x20, 1},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1", IP_V6, 0, 1},
		{"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		 IP_V6, 0xff, 0xff},
	};
	static const char *const bad[] = {
		"",
		" ",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.256",
		"1.2.3.04",
		"01.2.3.4",
		"1.2.3.4 ",
		" 1.2.3.4",
		"1.2.3.-4",
		"0x1.2.3.4",
		"1.2.3.4/32",
		"1.2.3.4:80",
		":",
		":::",
		"1::2::3",
		"12345::",
		"g::1",
		"fe80::1%lo",
		"[::1]",
		"1:2:3:4:5",
		"1:2:3:4:5:6:7:8:9",
		"::1.2.3",
		"::1.2.3.256",
		"192.168.1.1x",
		"localhost",
	};
	static const struct ip_addr zero;
	char out[IP_ADDR_STRLEN];
	struct ip_addr a;

	(void)state;
	for (size_t i = 0; i < N(good); i++) {
		a = addr(good[i].text);
		assert_int_equal(a.family, good[i].family);
		assert_int_equal(ip_addr_size(&a), good[i].family == IP_V4 ? 4 : 16);
		assert_int_equal(a.bytes[0], good[i].first);
		assert_int_equal(a.bytes[ip_addr_size(&a) - 1], good[i].last);
		for (size_t j = ip_addr_size(&a); j < sizeof(a.bytes); j++)
			assert_int_equal(a.bytes[j], 0);
		assert_ptr_equal(ip_addr_print(&a, out), out);
		assert_string_equal(out, good[i].printed);
	}
	for (size_t i = 0; i < N(bad); i++) {
		memset(&a, 0xaa, sizeof(a));
		if (ip_addr_parse(bad[i], &a) != -EINVAL)
			fail_msg("\"%s\" is taken for an address", bad[i]);
		assert_memory_equal(&a, &zero, sizeof(a));
	}
	assert_int_equal(ip_addr_size(&zero), 0);
	assert_string_equal(ip_addr_print(&zero, out), "");
}

static void prefix_text(void **state)
{
	static const struct {
		const char *text, *printed;
		int len;
	} good[] = {
		{"0.0.0.0/0", "0.0.0.0/0", 0},
		{"10.0.0.0/8", "10.0.0.0/8", 8},
		{"192.168.150.0/24", "192.168.150.0/24", 24},
		{"192.168.150.192/27", "192.168.150.192/27", 27},
		{"192.168.150.1/32", "192.168.150.1/32", 32},
		{"::/0", "::/0", 0},
		{"FD00::0/64", "fd00::/64", 64},
		{"fd00:0:0:8000::/49", "fd00:0:0:8000::/49", 49},
		{"fd00::1/128", "fd00::1/128", 128},
	};
	static const struct {
		const char *text;
		int rc;
	} bad[] = {
		{"", -EINVAL},
		{"/", -EINVAL},
		{"10.0.0.0", -EINVAL},
		{"10.0.0.0/", -EINVAL},
		{"10.0.0.0/33", -EINVAL},
		{"10.0.0.0/08", -EINVAL},
		{"10.0.0.0/+8", -EINVAL},
		{"10.0.0.0/-1", -EINVAL},
		{"10.0.0.0/8 ", -EINVAL},
		{"10.0.0.0/8/8", -EINVAL},
		{"10.0.0/8", -EINVAL},
		{"/8", -EINVAL},
		{"10.0.0.0/4294967304", -EINVAL}, /* 2^32 + 8 */
		{"10.0.0.0/255.0.0.0", -EINVAL},
		{"fd00::/129", -EINVAL},
		{"fd00::/99999999999999999999", -EINVAL},
		{"0000000000000000000000000000000000000000000000/8", -EINVAL},
		{"10.0.0.1/8", -ERANGE},
		{"128.0.0.0/0", -ERANGE},
		{"192.168.150.1/31", -ERANGE},
		{"192.168.150.32/26", -ERANGE},
		{"fd00::1/64", -ERANGE},
		{"fd00:0:0:4000::/49", -ERANGE},
		{"fd00::1/127", -ERANGE},
	};
	static const struct ip_prefix zero;
	char out[IP_PREFIX_STRLEN];
	struct ip_prefix p;

	(void)state;
	for (size_t i = 0; i < N(good); i++) {
		p = prefix(good[i].text);
		assert_int_equal(p.len, good[i].len);
		assert_ptr_equal(ip_prefix_print(&p, out), out);
		assert_string_equal(out, good[i].printed);
	}
	for (size_t i = 0; i < N(bad); i++) {
		int rc = ip_prefix_parse(bad[i].text, &p);

		if (rc != bad[i].rc)
			fail_msg("\"%s\": %d", bad[i].text, rc);
		if (rc == -EINVAL)
			assert_memory_equal(&p, &zero, sizeof(p));
	}
}

static void endpoint_text(void **state)
{
	static const struct {
		const char *text, *printed;
		int port;
	} good[] = {
		{"192.168.150.1:9443", "192.168.150.1:9443", 9443},
		{"0.0.0.0:1", "0.0.0.0:1", 1},
		{"255.255.255.255:65535", "255.255.255.255:65535", 65535},
		{"[::]:80", "[::]:80", 80},
		{"[2001:DB8::1]:443", "[2001:db8::1]:443", 443},
		{"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
		 "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", 65535},
	};
	static const char *const bad[] = {
		"",
		":",
		":80",
		"1.2.3.4",
		"1.2.3.4:",
		"1.2.3.4:0",
		"1.2.3.4:65536",
		"1.2.3.4:080",
		"1.2.3.4: 80",
		"1.2.3.4:+80",
		"1.2.3.4:80 ",
		"1.2.3.4:80:80",
		"1.2.3.4:4294967376",
		"::1:80",
		"2001:db8::1:80",
		"[::1]",
		"[::1]80",
		"[::1]:",
		"[::1]:0",
		"[::1:80",
		"[]:80",
		"[1.2.3.4]:80",
		"[[::1]]:80",
		"[::1%lo]:80",
		"host:80",
		"[",
		"[000000000000000000000000000000000000000000000000::1]:80",
	};
	static const struct ip_endpoint zero;
	char out[IP_ENDPOINT_STRLEN];
	struct ip_endpoint e;

	(void)state;
	for (size_t i = 0; i < N(good); i++) {
		e = endpoint(good[i].text);
		assert_int_equal(e.port, good[i].port);
		assert_ptr_equal(ip_endpoint_print(&e, out), out);
		assert_string_equal(out, good[i].printed);
	}
	for (size_t i = 0; i < N(bad); i++) {
		memset(&e, 0xaa, sizeof(e));
		if (ip_endpoint_parse(bad[i], &e) != -EINVAL)
			fail_msg("\"%s\" is taken for an endpoint", bad[i]);
		assert_memory_equal(&e, &zero, sizeof(e));
	}
}

/* Each list is in order: every pair must say so, in both directions. */
static void orders(void **state)
{
	static const char *const addrs[] = {"0.0.0.0",	 "1.2.3.4", "1.2.3.5", "9.0.0.0",
					    "200.0.0.0", "::",	    "::1",     "fd00::"};
	static const char *const prefixes[] = {"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16",
					       "::/0",	    "fd00::/8",	  "fd00::/64"};
	static const char *const endpoints[] = {"1.2.3.4:5", "1.2.3.4:60000", "1.2.3.5:1", "[::1]:1",
						"[::1]:2"};
	static const struct ip_addr none;
	struct ip_addr first = addr(addrs[0]);

	(void)state;
	for (size_t i = 0; i < N(addrs); i++) {
		for (size_t j = 0; j < N(addrs); j++) {
			struct ip_addr a = addr(addrs[i]), b = addr(addrs[j]);
			int c = ip_addr_cmp(&a, &b);

			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
	}
	for (size_t i = 0; i < N(prefixes); i++) {
		for (size_t j = 0; j < N(prefixes); j++) {
			struct ip_prefix a = prefix(prefixes[i]), b = prefix(prefixes[j]);
			int c = ip_prefix_cmp(&a, &b);

			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
	}
	for (size_t i = 0; i < N(endpoints); i++) {
		for (size_t j = 0; j < N(endpoints); j++) {
			struct ip_endpoint a = endpoint(endpoints[i]), b = endpoint(endpoints[j]);
			int c = ip_endpoint_cmp(&a, &b);

			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
	}
	assert_true(ip_addr_cmp(&none, &first) < 0);
	assert_int_equal(ip_addr_cmp(&none, &none), 0);
}

static void containment(void **state)
{
	static const struct {
		const char *a, *b;
		bool a_contains_b, b_contains_a;
	} rows[] = {
		{"10.0.0.0/8", "10.0.0.0/8", true, true},
		{"10.0.0.0/8", "10.255.255.255/32", true, false},
		{"10.0.0.0/8", "11.0.0.0/8", false, false},
		{"0.0.0.0/0", "255.255.255.255/32", true, false},
		{"192.168.150.0/25", "192.168.150.128/25", false, false},
		{"192.168.150.0/24", "192.168.150.128/25", true, false},
		{"192.168.150.4/30", "192.168.150.6/31", true, false},
		{"192.168.150.4/30", "192.168.150.8/31", false, false},
		{"fd00::/8", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", true, false},
		{"fd00::/49", "fd00:0:0:7fff::/64", true, false},
		{"fd00::/49", "fd00:0:0:8000::/64", false, false},
		{"::/0", "0.0.0.0/0", false, false},
		{"::/96", "0.0.0.0/0", false, false},
	};
	static const struct ip_prefix none;
	struct ip_prefix all = prefix("0.0.0.0/0");

	(void)state;
	for (size_t i = 0; i < N(rows); i++) {
		struct ip_prefix a = prefix(rows[i].a), b = prefix(rows[i].b);
		bool overlap = rows[i].a_contains_b || rows[i].b_contains_a;

		if (ip_prefix_contains(&a, &b) != rows[i].a_contains_b ||
		    ip_prefix_contains(&b, &a) != rows[i].b_contains_a)
			fail_msg("%s and %s", rows[i].a, rows[i].b);
		assert_int_equal(ip_prefix_overlaps(&a, &b), overlap);
		assert_int_equal(ip_prefix_overlaps(&b, &a), overlap);
	}
	/* What is not set is in nothing and holds nothing. */
	assert_false(ip_prefix_overlaps(&none, &none));
	assert_false(ip_prefix_overlaps(&all, &none));
	assert_false(ip_prefix_contains_addr(&none, &none.addr));
}

static void hosts_and_ranges(void **state)
{
	static const struct {
		const char *prefix, *first_host, *first, *last; /* first_host NULL: no room */
	} rows[] = {
		{"192.168.150.0/24", "192.168.150.1", "192.168.150.0", "192.168.150.255"},
		{"192.168.150.252/30", "192.168.150.253", "192.168.150.252", "192.168.150.255"},
		{"192.168.150.254/31", NULL, "192.168.150.254", "192.168.150.255"},
		{"192.168.150.254/32", NULL, "192.168.150.254", "192.168.150.254"},
		{"10.32.0.0/11", "10.32.0.1", "10.32.0.0", "10.63.255.255"},
		{"0.0.0.0/0", "0.0.0.1", "0.0.0.0", "255.255.255.255"},
		{"fd00:150::/64", "fd00:150::1", "fd00:150::", "fd00:150::ffff:ffff:ffff:ffff"},
		{"fd00::fffc/126", "fd00::fffd", "fd00::fffc", "fd00::ffff"},
		{"fd00::fffe/127", NULL, "fd00::fffe", "fd00::ffff"},
		{"fd00::1/128", NULL, "fd00::1", "fd00::1"},
	};
	static const struct ip_prefix none;
	struct ip_addr a, b;
	char text[IP_ADDR_STRLEN];

	(void)state;
	for (size_t i = 0; i < N(rows); i++) {
		struct ip_prefix p = prefix(rows[i].prefix);

		assert_int_equal(ip_prefix_first_host(&p, &a), rows[i].first_host ? 0 : -ERANGE);
		if (rows[i].first_host)
			assert_string_equal(ip_addr_print(&a, text), rows[i].first_host);
		ip_prefix_range(&p, &a, &b);
		assert_string_equal(ip_addr_print(&a, text), rows[i].first);
		assert_string_equal(ip_addr_print(&b, text), rows[i].last);
		assert_true(ip_prefix_contains_addr(&p, &a));
		assert_true(ip_prefix_contains_addr(&p, &b));
	}
	assert_int_equal(ip_prefix_first_host(&none, &a), -ERANGE);
}

static void network_of_address(void **state)
{
	static const struct {
		const char *address;
		uint8_t len;
		const char *network;
	} rows[] = {
		{"192.168.150.77", 24, "192.168.150.0/24"},  {"192.168.150.77", 26, "192.168.150.64/26"},
		{"192.168.150.77", 32, "192.168.150.77/32"}, {"192.168.150.77", 0, "0.0.0.0/0"},
		{"192.168.150.77", 64, "192.168.150.77/32"}, {"fd00:150::77", 64, "fd00:150::/64"},
		{"fd00:150::77", 125, "fd00:150::70/125"},   {"fd00:150::77", 255, "fd00:150::77/128"},
	};
	char out[IP_PREFIX_STRLEN];

	(void)state;
	for (size_t i = 0; i < N(rows); i++) {
		struct ip_addr a = addr(rows[i].address);
		struct ip_prefix p;

		ip_prefix_of(&a, rows[i].len, &p);
		assert_string_equal(ip_prefix_print(&p, out), rows[i].network);
	}
}

/* All of a small network, and its neighbours: containment agrees with the range. */
static void every_address(void **state)
{
	struct ip_prefix p = prefix("10.1.2.64/27");
	struct ip_addr first, last, a = addr("10.1.2.0");

	(void)state;
	ip_prefix_range(&p, &first, &last);
	for (unsigned i = 0; i < 256; i++) {
		a.bytes[3] = (uint8_t)i;
		assert_int_equal(ip_prefix_contains_addr(&p, &a),
				 ip_addr_cmp(&first, &a) <= 0 && ip_addr_cmp(&a, &last) <= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_text),	 cmocka_unit_test(prefix_text),
		cmocka_unit_test(endpoint_text), cmocka_unit_test(orders),
		cmocka_unit_test(containment),	 cmocka_unit_test(hosts_and_ranges),
		cmocka_unit_test(every_address), cmocka_unit_test(network_of_address),
	};

	return cmocka_run_group_tests_name("ip", tests, NULL, NULL);
}
