/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that depend on the host: connected networks and control listeners. And how they scale. */
#include "tests/unit/spec_text.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "vgw/model/rules.h"

static const struct rules_live nothing_live;

static void assert_parsed(const char *text, struct ip_prefix *out)
{
	assert_int_equal(ip_prefix_parse(text, out), 0);
}

static void connected(void **state)
{
	static const char text[] =
		"{" SPEC_HEAD "," SPEC_NETWORKS
		",'clusterNetwork':{'pods':['10.244.0.0/16'],'services':['10.96.0.0/12']},"
		"'cni':{'ipPools':[{'cidr':'10.250.0.0/16'}]},'geo':{'privateNetworks':['192.168.160.0/24']},"
		"'tunnels':[{'name':'a','interface':'wg0','peer':{'privateNetwork':'192.168.10.0/24'}},"
		"{'name':'b','peer':{'privateNetwork':'192.168.11.0/24'}}]}";
	static const struct {
		const char *private_interface, *interface, *network;
		const char *where; /* NULL: no overlap */
		const char *word;
	} rows[] = {
		{"eth1", "eth0", "203.0.113.0/24", NULL, NULL},
		{"eth1", "eth1", "192.168.150.0/24", NULL, NULL},
		{"eth1", "eth1", "192.168.150.0/25", NULL, NULL},
		{"eth1", "eth1", "fd00:150::/64", NULL, NULL},
		{"eth1", "eth0", "192.168.150.0/24", "/cloudspace/privateNetworks/0",
		 "private network 192.168.150.0/24"},
		{"eth1", "eth2", "192.168.150.77/32", "/cloudspace/privateNetworks/0", "192.168.150.77/32"},
		{"eth1", "eth0", "fd00::/16", "/cloudspace/privateNetworks/1",
		 "private network fd00:150::/64"},
		/* Not known which is the private one: the one that has exactly its network. */
		{NULL, "eth1", "192.168.150.0/24", NULL, NULL},
		{"", "eth1", "192.168.150.0/24", NULL, NULL},
		{NULL, "eth1", "192.168.0.0/16", "/cloudspace/privateNetworks/0", "192.168.0.0/16"},
		{"eth1", "docker0", "10.244.0.0/15", "/clusterNetwork/pods/0", "pod network 10.244.0.0/16"},
		{"eth1", "docker0", "10.96.0.0/11", "/clusterNetwork/services/0",
		 "service network 10.96.0.0/12"},
		{"eth1", "eth2", "10.250.3.0/24", "/cni/ipPools/0/cidr", "IP pool 10.250.0.0/16"},
		{"eth1", "eth2", "192.168.160.0/24", "/geo/privateNetworks/0",
		 "geo network 192.168.160.0/24"},
		{"eth1", "eth2", "192.168.10.0/24", "/tunnels/0/peer/privateNetwork", "behind tunnel \"a\""},
		{"eth1", "eth2", "192.168.11.128/25", "/tunnels/1/peer/privateNetwork",
		 "behind tunnel \"b\""},
		/* The private interface is no excuse for another network. */
		{"eth1", "eth1", "192.168.10.0/24", "/tunnels/0/peer/privateNetwork", "interface eth1"},
		/* A tunnel's own interface, and the cluster's own interfaces. */
		{"eth1", "wg0", "192.168.10.0/24", NULL, NULL},
		{"eth1", "wg0", "192.168.0.0/16", NULL, NULL},
		{"eth1", "cni0", "10.244.3.0/24", NULL, NULL},
		{"eth1", "cni0", "10.244.0.0/16", NULL, NULL},
		{"eth1", "kube-ipvs0", "10.96.0.1/32", NULL, NULL},
		/* A tunnel without interface has the name "". */
		{"eth1", "", "192.168.11.0/24", "/tunnels/1/peer/privateNetwork", NULL},
	};
	struct spec *s = spec_of(text);
	struct vgw_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rules_connected c[2] = {{.interface = "eth9"}, {.interface = rows[i].interface}};
		struct rules_host host = {
			.connected = c, .n_connected = 2, .private_interface = rows[i].private_interface};
		int rc;

		assert_parsed("198.51.100.0/24", &c[0].network);
		assert_parsed(rows[i].network, &c[1].network);
		memset(&err, 0, sizeof(err));
		rc = rules_check(s, &host, &nothing_live, &err);
		if (rc != (rows[i].where ? -EINVAL : 0) ||
		    strcmp(err.where, rows[i].where ? rows[i].where : "") != 0)
			fail_msg("%s on %s: %d, %s at %s: %s", rows[i].network, rows[i].interface, rc,
				 err.reason, err.where, err.text);
		if (!rc)
			continue;
		assert_string_equal(err.reason, "CIDROverlap");
		assert_non_null(strstr(err.text, rows[i].network));
		assert_non_null(strstr(err.text, rows[i].interface));
		if (rows[i].word && !strstr(err.text, rows[i].word))
			fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].word);
	}
	spec_free(s);
}

static void control_listeners(void **state)
{
	static const struct {
		const char *listen, *frontend;
		bool conflict;
	} rows[] = {
		{"192.168.150.1:8443", "'port':8443", true},
		{"192.168.150.1:8443", "'port':9443", false}, /* listeners are given: no default */
		{"192.168.150.1:8443", "'port':8443,'protocol':'UDP'", false},
		{"192.168.150.1:8443", "'port':8443,'internal':false", false},
		{"192.168.150.1:8443", "'port':8443,'loadBalancerClass':'x'", false},
		{"127.0.0.1:8443", "'port':8443", false},
		{"0.0.0.0:8443", "'port':8443", true},
		{"0.0.0.0:8443", "'port':8443,'internal':false", true},
		{"0.0.0.0:8443", "'port':8443,'loadBalancerClass':'x'", false},
		{"[::]:8443", "'port':8443", true},
		{"203.0.113.1:8443", "'port':8443,'internal':false,'address':'203.0.113.1'", true},
		{"203.0.113.1:8443", "'port':8443,'internal':false,'address':'203.0.113.2'", false},
		{"203.0.113.1:8443", "'port':8443", false},
		{"0.0.0.0:8443", "'port':8443,'backends':[{'address':'fd00:150::11','port':1}]", false},
		{"[fd00:150::1]:8443", "'port':8443,'backends':[{'address':'fd00:150::11','port':1}]", true},
		{"[fd00:150::1]:8443", "'port':8443", false},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ip_endpoint e[2];
		struct rules_host host = {
			.control = e, .n_control = 2, .control_port = 9443, .probe_port = 9444};
		struct vgw_err err = {0};
		struct spec *s;
		int rc;

		assert_int_equal(ip_endpoint_parse("192.168.150.1:1", &e[0]), 0);
		assert_int_equal(ip_endpoint_parse(rows[i].listen, &e[1]), 0);
		snprintf(text, sizeof(text),
			 "{" SPEC_HEAD "," SPEC_NETWORKS
			 ",'controlPlaneExposure':'private','frontends':[{'name':'a',%s}]}",
			 rows[i].frontend);
		s = spec_of(text);
		rc = rules_check(s, &host, &nothing_live, &err);
		if (rc != (rows[i].conflict ? -EINVAL : 0))
			fail_msg("%s and %s: %d", rows[i].listen, rows[i].frontend, rc);
		assert_string_equal(err.reason, rc ? "PortConflict" : "");
		assert_string_equal(err.where, rc ? "/frontends/0/port" : "");
		spec_free(s);
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * The largest spec there may be: ten thousand frontends, as many backends as the bytes allow, all other lists
 * full. Anything square in it takes a minute; the bound is wide for sanitizers and slow machines.
 */
static void largest(void **state)
{
	struct rules_host host = {.control_port = 9443, .probe_port = 9444};
	char *head = spec_text(PRIVATE(",'frontends':["));
	struct buf b = {0};
	struct vgw_err err;
	struct spec *s;
	double start;

	(void)state;
	buf_append(&b, head, strlen(head) - 1); /* all but the last brace */
	for (unsigned i = 0; i < 10000; i++) {
		buf_printf(&b, "%s{\"name\":\"f%u\",\"port\":%u,\"backends\":[", i ? "," : "", i, i + 10000);
		for (unsigned j = 0; j < (i % 50 ? 34 : 256); j++)
			buf_printf(&b, "%s{\"address\":\"10.%u.%u.%u\",\"port\":80}", j ? "," : "", i % 90, j,
				   i / 90 + 1);
		buf_puts(&b, "]}");
	}
	buf_puts(&b, "],\"tunnels\":[");
	for (unsigned i = 0; i < 256; i++)
		buf_printf(&b, "%s{\"name\":\"t%u\",\"peer\":{\"privateNetwork\":\"172.16.%u.0/24\"}}",
			   i ? "," : "", i, i);
	buf_puts(&b, "]}");
	assert_in_range(b.len, SPEC_MAX_BYTES / 2, SPEC_MAX_BYTES);
	start = seconds();
	if (spec_decode(b.data, b.len, &s, &err) < 0)
		fail_msg("%s: %s at %s", err.reason, err.text, err.where);
	if (rules_check(s, &host, &nothing_live, &err) < 0)
		fail_msg("%s: %s at %s", err.reason, err.text, err.where);
	assert_true(seconds() - start < 10);
	assert_int_equal(s->n_frontends, 10000);
	spec_free(s);
	free(head);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connected),
		cmocka_unit_test(control_listeners),
		cmocka_unit_test(largest),
	};

	return cmocka_run_group_tests_name("rules on a host", tests, NULL, NULL);
}
