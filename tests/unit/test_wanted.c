/* SPDX-License-Identifier: Apache-2.0 */
/* From a spec, verdicts and facts of the host to what the kernel should have: the services. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "vgw/model/port_index.h"
#include "wanted_fixture.h"

static void assert_services(const struct wanted_fixture *x, const char *expected)
{
	struct buf text = {0};

	for (size_t i = 0; i < x->state.n_services; i++) {
		ns_service_print(&x->state.services[i], &text);
		buf_puts(&text, "\n");
	}
	if (strcmp(buf_str(&text), expected))
		fail_msg("not\n%sbut\n%s", expected, buf_str(&text));
	buf_free(&text);
}

static void nothing_wanted(void **state)
{
	struct netstate s = {.table = true};
	struct wanted_input in = {0};
	struct arena *arena = arena_new();

	(void)state;
	assert_int_equal(wanted_make(&in, arena, &s), 0);
	assert_false(s.table);
	assert_int_equal(s.n_services + s.n_links + s.n_routes + s.n_sysctls + s.n_clamps, 0);
	assert_int_equal(s.guard.n_ports + s.guard.n_allowed, 0);
	assert_false(s.guard.shield);
	arena_free(arena);
}

#define WEB(members) "{'name':'web','port':80," members "'backends':[" BACKEND("21") "]}"
#define CLASS(name)  "'loadBalancerClass':'" name "',"

/* Where a frontend listens: gateway address, external address, or nowhere. */
static void placements(void **state)
{
	static const struct {
		const char *exposure, *members, *address;
		enum wanted_frontend_state state;
	} cases[] = {
		{"private", "", "192.168.150.1", WANTED_BALANCED},
		{"public", "", "203.0.113.5", WANTED_BALANCED},
		{"public", "'internal':true,", "192.168.150.1", WANTED_BALANCED},
		{"private", "'internal':false,", "203.0.113.5", WANTED_BALANCED},
		{"public", CLASS("vco.whitesky.cloud/internal"), "192.168.150.1", WANTED_BALANCED},
		{"private", CLASS("vco.whitesky.cloud/public"), "203.0.113.5", WANTED_BALANCED},
		{"private", CLASS("vco.whitesky.cloud/public") "'internal':true,", "203.0.113.5",
		 WANTED_BALANCED},
		{"private", CLASS("metallb.universe.tf/metallb"), "", WANTED_IGNORED},
		{"private", CLASS("kube-vip.io/kube-vip-class") "'internal':true,", "", WANTED_IGNORED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wanted_fixture x;
		char text[1024];

		snprintf(text, sizeof(text),
			 "{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'%s','frontends':["
			 "{'name':'web','port':80,%s'backends':[" BACKEND("21") "]}]}",
			 cases[i].exposure, cases[i].members);
		wanted_start(&x, text);
		wanted_finish(&x);
		if (x.state.n_services != (cases[i].address[0] != '\0'))
			fail_msg("%zu: %zu services", i, x.state.n_services);
		if (x.state.n_services)
			assert_address(&x.state.services[0].port.at.addr, cases[i].address);
		assert_int_equal(wanted_state(&x.spec->frontends[0], &x.host, NULL), cases[i].state);
		wanted_free(&x);
	}
}

/* controlPlaneExposure alone decides for the control plane; the others go by theirs. */
static void control_plane(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, SPEC(",'frontends':[{'name':'kube-apiserver','port':6443,'internal':true,"
			      "'backends':[" BACKEND("11") "]}," WEB("'internal':true,") "]"));
	wanted_finish(&x);
	assert_services(&x, "192.168.150.1:80/TCP roundrobin -> 192.168.150.21:6443\n"
			    "203.0.113.5:6443/TCP roundrobin -> 192.168.150.11:6443\n");
	wanted_free(&x);
}

/* A public frontend without an address to be on is waited for, by family. */
static void pending(void **state)
{
	struct wanted_fixture x;
	struct ns_port port;

	(void)state;
	wanted_start(
		&x,
		"{" SPEC_HEAD "," SPEC_NETWORKS ",'frontends':[" WEB(
			"") ","
			    "{'name':'web6','port':80,'backends':[{'address':'fd00:150::21','port':80}]},"
			    "{'name':'in6','port':81,'internal':true,'backends':[{'address':'fd00:150::21',"
			    "'port':80}]}]}");
	wanted_finish(&x);
	assert_services(&x, "203.0.113.5:80/TCP roundrobin -> 192.168.150.21:6443\n"
			    "[fd00:150::1]:81/TCP roundrobin -> [fd00:150::21]:80\n");
	assert_int_equal(wanted_state(&x.spec->frontends[1], &x.host, NULL), WANTED_PENDING);
	assert_false(wanted_port(&x.spec->frontends[1], &x.host, &port));
	x.host.external[0].family = IP_NONE;
	x.host.external[1] = address_of("2001:db8::5");
	wanted_finish(&x);
	assert_services(&x, "[2001:db8::5]:80/TCP roundrobin -> [fd00:150::21]:80\n"
			    "[fd00:150::1]:81/TCP roundrobin -> [fd00:150::21]:80\n");
	wanted_free(&x);
}

static void balances(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, FRONTENDS("{'name':'a','port':81,'balance':'random','backends':[" BACKEND(
				 "11") ",{'address':'192.168.150.12','port':80,'weight':2}]},"
				       "{'name':'b','port':82,'protocol':'UDP','backends':[" BACKEND(
					       "11") "]},"
						     "{'name':'c','port':82,'balance':'source','backends':["
						     "{'address':'192.168.150.11','port':80,'weight':5}]}"));
	wanted_finish(&x);
	assert_services(&x, "192.168.150.1:81/TCP random -> 192.168.150.11:6443 192.168.150.12:80*2\n"
			    "192.168.150.1:82/TCP source -> 192.168.150.11:80*512\n"
			    "192.168.150.1:82/UDP roundrobin -> 192.168.150.11:6443\n");
	wanted_free(&x);
}

/*
 * Backends 1, 2, 3 as the spec has them: '.' plain, 'd' drain, '0' weight 0. By their checks: 'i' in
 * rotation, 'o' out, 'r' out and refusing. Who takes new flows, by its number.
 */
struct choice {
	const char *backends, *checks; /* checks "": no verdicts at all */
	const char *failopen, *reject;
	enum wanted_frontend_state failopen_state, reject_state;
};

static const struct choice choices[] = {
	{"...", "", "123", "123", WANTED_BALANCED, WANTED_BALANCED},
	{"...", "iii", "123", "123", WANTED_BALANCED, WANTED_BALANCED},
	{"...", "ioi", "13", "13", WANTED_BALANCED, WANTED_BALANCED},
	{"...", "orr", "1", "", WANTED_FAILS_OPEN, WANTED_REFUSES},
	{"...", "ooo", "123", "", WANTED_FAILS_OPEN, WANTED_REFUSES},
	{"...", "rrr", "", "", WANTED_REFUSES, WANTED_REFUSES},
	{".d.", "iii", "13", "13", WANTED_BALANCED, WANTED_BALANCED},
	{".d.", "oio", "13", "", WANTED_FAILS_OPEN, WANTED_REFUSES},
	{".d.", "rir", "", "", WANTED_REFUSES, WANTED_REFUSES},
	{"0d.", "iio", "3", "", WANTED_FAILS_OPEN, WANTED_REFUSES},
	{"0d0", "iii", "", "", WANTED_REFUSES, WANTED_REFUSES},
	{"0d0", "", "", "", WANTED_REFUSES, WANTED_REFUSES},
	{"", "", "", "", WANTED_REFUSES, WANTED_REFUSES},
	{".", "o", "1", "", WANTED_FAILS_OPEN, WANTED_REFUSES},
	{".", "r", "", "", WANTED_REFUSES, WANTED_REFUSES},
};

static void choose_spec(const struct choice *c, bool reject, struct buf *text)
{
	buf_puts(text, "{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'private','frontends':["
		       "{'name':'a','port':80,");
	if (reject)
		buf_puts(text, "'whenNoneHealthy':'reject',");
	buf_puts(text, "'backends':[");
	for (int i = 0; c->backends[i]; i++)
		buf_printf(text, "%s{'address':'192.168.150.1%d','port':80%s}", i ? "," : "", i + 1,
			   c->backends[i] == 'd'   ? ",'drain':true"
			   : c->backends[i] == '0' ? ",'weight':0"
						   : "");
	buf_puts(text, "]}]}");
}

static void choose(const struct choice *c, bool reject)
{
	const char *expected = reject ? c->reject : c->failopen;
	struct wanted_verdict verdicts[3] = {0};
	const struct wanted_verdict *row = c->checks[0] ? verdicts : NULL;
	struct wanted_fixture x;
	struct buf text = {0};
	const struct ns_service *s;

	choose_spec(c, reject, &text);
	wanted_start(&x, buf_str(&text));
	buf_free(&text);
	for (int i = 0; c->checks[i]; i++) {
		verdicts[i].in_rotation = c->checks[i] == 'i';
		verdicts[i].refuses = c->checks[i] == 'r';
	}
	x.verdicts = &row;
	wanted_finish(&x);
	assert_int_equal(x.state.n_services, 1); /* refusing is a service too */
	s = &x.state.services[0];
	if (s->n_slots != strlen(expected))
		fail_msg("%s with %s, %s: %zu slots, not %s", c->backends, c->checks,
			 reject ? "reject" : "failopen", s->n_slots, expected);
	for (size_t i = 0; i < s->n_slots; i++)
		assert_int_equal(s->slots[i].addr.bytes[3], 10 + expected[i] - '0');
	assert_int_equal(wanted_state(&x.spec->frontends[0], &x.host, row),
			 reject ? c->reject_state : c->failopen_state);
	wanted_free(&x);
}

static void verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		choose(&choices[i], false);
		choose(&choices[i], true);
	}
}

/* The number of a source frontend's slots is its backends', whatever the verdicts. */
static void source_verdicts(void **state)
{
	static const struct wanted_verdict some[3] = {{.in_rotation = true}, {0}, {.in_rotation = true}};
	const struct wanted_verdict *row = NULL;
	struct ip_endpoint before[4096], dead = endpoint_of("192.168.150.12:6443");
	struct wanted_fixture x;
	size_t n;

	(void)state;
	wanted_start(&x, FRONTENDS("{'name':'a','port':80,'balance':'source'," THREE_BACKENDS "}"));
	x.verdicts = &row;
	wanted_finish(&x);
	n = x.state.services[0].n_slots;
	memcpy(before, x.state.services[0].slots, n * sizeof(*before));
	row = some;
	wanted_finish(&x);
	assert_int_equal(x.state.services[0].n_slots, n);
	for (size_t i = 0; i < n; i++) {
		const struct ip_endpoint *now = &x.state.services[0].slots[i];

		if (ip_endpoint_cmp(&before[i], &dead))
			assert_int_equal(ip_endpoint_cmp(&before[i], now), 0);
		else
			assert_int_not_equal(ip_endpoint_cmp(now, &dead), 0);
	}
	wanted_free(&x);
}

/* By where they listen; what has no address yet, or is ignored, listens nowhere. */
static void by_port(void **state)
{
	struct port_index index;
	struct wanted_fixture x;
	struct ns_port port = {.protocol = 6};
	size_t f = 99;

	(void)state;
	wanted_start(&x,
		     FRONTENDS("{'name':'b','port':81," THREE_BACKENDS "},"
			       "{'name':'a','port':80," THREE_BACKENDS "},"
			       "{'name':'u','port':80,'protocol':'UDP'," THREE_BACKENDS "},"
			       "{'name':'i','port':82,'loadBalancerClass':'metallb'," THREE_BACKENDS "}"));
	assert_int_equal(port_index_make(x.spec, &x.host, x.arena, &index), 0);
	assert_int_equal(index.n, 3);
	port.at = endpoint_of("192.168.150.1:80");
	assert_true(port_index_find(&index, &port, &f));
	assert_int_equal(f, 1);
	port.protocol = 17;
	assert_true(port_index_find(&index, &port, &f));
	assert_int_equal(f, 2);
	port.protocol = 6;
	port.at.port = 82;
	assert_false(port_index_find(&index, &port, &f));
	port.at = endpoint_of("192.168.150.2:80");
	assert_false(port_index_find(&index, &port, &f));
	assert_int_equal(port_index_make(NULL, &x.host, x.arena, &index), 0);
	assert_false(port_index_find(&index, &port, &f));
	wanted_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_wanted),  cmocka_unit_test(placements),
		cmocka_unit_test(control_plane),   cmocka_unit_test(pending),
		cmocka_unit_test(balances),	   cmocka_unit_test(verdicts),
		cmocka_unit_test(source_verdicts), cmocka_unit_test(by_port),
	};

	return cmocka_run_group_tests_name("wanted services", tests, NULL, NULL);
}
