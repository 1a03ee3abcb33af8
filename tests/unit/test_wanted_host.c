/* SPDX-License-Identifier: Apache-2.0 */
/* From a spec and facts of the host to what the kernel should have: guard, tunnels and sysctls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "wanted_fixture.h"

/* The guard as a line each: interfaces, ports, peers. */
static void print_guard(const struct ns_guard *g, struct buf *out)
{
	char text[IP_PREFIX_STRLEN];

	buf_puts(out, "from");
	for (size_t i = 0; i < g->n_allowed; i++)
		buf_printf(out, " %s", g->allowed[i]);
	buf_puts(out, "; to");
	for (size_t i = 0; i < g->n_ports; i++) {
		buf_puts(out, " ");
		ns_port_print(&g->ports[i], out);
	}
	buf_puts(out, "; peers");
	for (size_t i = 0; i < g->n_peers; i++)
		buf_printf(out, " %s@%s", ip_prefix_print(&g->peers[i].network, text),
			   g->peers[i].interface[0] ? g->peers[i].interface : "ipsec");
	buf_puts(out, ";");
}

static void print_tunnels(const struct netstate *s, struct buf *out)
{
	char text[IP_PREFIX_STRLEN], gateway[IP_ADDR_STRLEN];

	for (size_t i = 0; i < s->n_links; i++)
		buf_printf(out, "link %s %u; ", s->links[i].name, s->links[i].mtu);
	for (size_t i = 0; i < s->n_routes; i++)
		buf_printf(out, "route %s %u dev %s via %s; ", ip_prefix_print(&s->routes[i].network, text),
			   s->routes[i].mtu, s->routes[i].interface,
			   ip_addr_print(&s->routes[i].gateway, gateway));
	for (size_t i = 0; i < s->n_clamps; i++)
		buf_printf(
			out, "clamp %s %u; ",
			s->clamps[i].interface[0] ? s->clamps[i].interface : ip_prefix_print(&s->clamps[i].network, text),
			s->clamps[i].mtu);
}

static void print_sysctls(const struct netstate *s, struct buf *out)
{
	for (size_t i = 0; i < s->n_sysctls; i++)
		buf_printf(out, "%s=%s ", s->sysctls[i].name, s->sysctls[i].value);
}

static void assert_text(struct buf *text, const char *expected)
{
	assert_string_equal(buf_str(text), expected);
	buf_free(text);
}

static void assert_guard(const struct wanted_fixture *x, const char *expected)
{
	struct buf text = {0};

	print_guard(&x->state.guard, &text);
	assert_text(&text, expected);
}

static void assert_tunnels(const struct wanted_fixture *x, const char *expected)
{
	struct buf text = {0};

	print_tunnels(&x->state, &text);
	assert_text(&text, expected);
}

static void assert_sysctls(const struct wanted_fixture *x, const char *expected)
{
	struct buf text = {0};

	print_sysctls(&x->state, &text);
	assert_text(&text, expected);
}

#define TUNNEL_TO(name, net, mtu) "{'name':'" name "','mtu':" mtu "," PEER_NETWORK(net) "}"

static void guarded(void **state)
{
	static const char *const trusted[] = {"eth9", "wg0", "eth1"};
	struct ip_endpoint control[2] = {endpoint_of("192.168.150.1:9443"), endpoint_of("10.0.0.1:443")};
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, PRIVATE(",'frontends':[" APISERVER ","
				 "{'name':'dns','port':53,'protocol':'UDP'},"
				 "{'name':'public','port':80,'internal':false},"
				 "{'name':'theirs','port':81,'loadBalancerClass':'kube-vip.io/class'}],"
				 "'tunnels':[{'name':'a','interface':'wg0'},{'name':'b','interface':'wg0'},"
				 "{'name':'c','interface':'gre1'}]"));
	x.host.trusted = trusted;
	x.host.n_trusted = 3;
	x.host.control = control;
	x.host.n_control = 2;
	wanted_finish(&x);
	assert_guard(&x, "from eth1 eth9 gre1 lo wg0; to 10.0.0.1:443/TCP 192.168.150.1:53/UDP "
			 "192.168.150.1:6443/TCP 192.168.150.1:9443/TCP 192.168.150.1:9444/UDP; peers;");
	assert_string_equal(x.state.guard.private_if, "eth1");
	assert_string_equal(x.state.guard.external_if, "eth0");
	wanted_free(&x);
}

/* Interfaces that are not known yet: nobody but this host is let in. */
static void guarded_early(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, PRIVATE(",'frontends':[" APISERVER "]"));
	x.host.private_if = x.host.external_if = "";
	x.host.own[0].family = IP_NONE;
	x.host.n_control = 0;
	wanted_finish(&x);
	assert_guard(&x, "from lo; to 192.168.150.1:6443/TCP; peers;");
	wanted_free(&x);
}

static void guarded_dual_stack(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, DUAL(",'frontends':[" APISERVER ",{'name':'web6','port':80,'backends':[{'address':"
			      "'fd00:150::21','port':80}]}]"));
	x.host.own[1] = address_of("fd00:150::1");
	wanted_finish(&x);
	assert_guard(&x, "from eth1 lo; to 192.168.150.1:6443/TCP 192.168.150.1:9443/TCP "
			 "192.168.150.1:9444/UDP [fd00:150::1]:80/TCP [fd00:150::1]:9444/UDP; peers;");
	assert_int_equal(x.state.guard.n_private_networks, 2);
	assert_network(&x.state.guard.private_networks[0], "192.168.150.0/24");
	assert_network(&x.state.guard.private_networks[1], "fd00:150::/64");
	wanted_free(&x);
}

static struct ns_route *origins_of(struct wanted_fixture *x)
{
	struct ns_route *o = arena_calloc(x->arena, x->spec->n_tunnels, sizeof(*o));

	assert_non_null(o);
	x->host.origins = o;
	return o;
}

static void lead(struct ns_route *o, const char *network, const char *interface, const char *gateway)
{
	o->network = network_of(network);
	o->table = 254;
	strcpy(o->interface, interface);
	if (gateway)
		o->gateway = address_of(gateway);
}

/* A tunnel without interface: its network is let in decrypted, or over its route's interface but the
 * external one. */
static void peers(void **state)
{
	static const char spec[] = TUNNELS(TUNNEL_TO("a", "192.168.10.0/24", "1400") "," TUNNEL_TO(
		"b", "192.168.20.0/24", "1400") "," TUNNEL_TO("c", "fd00:30::/64",
							      "1400") ","
								      "{'name':'d','interface':'wg0','peer':{"
								      "'privateNetwork':'192.168.40.0/24'}}");
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, spec);
	o = origins_of(&x);
	lead(&o[0], "192.168.10.0/24", "eth0", "203.0.113.1");
	lead(&o[1], "192.168.20.0/24", "eth2", "10.0.0.2");
	wanted_finish(&x);
	assert_guard(&x, "from eth1 lo wg0; to 192.168.150.1:9443/TCP 192.168.150.1:9444/UDP; "
			 "peers 192.168.10.0/24@ipsec 192.168.20.0/24@ipsec fd00:30::/64@ipsec "
			 "192.168.20.0/24@eth2;");
	wanted_free(&x);
}

static void tunnels_by_interface(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg1','mtu':1380},"
				 "{'name':'b','interface':'wg0','mtu':'auto'},"
				 "{'name':'c','interface':'wg2','maxMTU':1300},"
				 "{'name':'d','interface':'wg1','mtu':1340},"
				 "{'name':'e','interface':'wg1','mtu':1390}"));
	wanted_finish(&x);
	/* Of those on one interface the smallest holds. */
	assert_tunnels(&x, "link wg0 1400; link wg1 1340; link wg2 1300; "
			   "clamp wg0 1400; clamp wg1 1340; clamp wg2 1300; ");
	wanted_free(&x);
}

/* auto follows the measurement, between what every link must carry and maxMTU. */
static void measured_tunnels(void **state)
{
	struct wanted_tunnel measured[4] = {{.mtu = 1328, .link_mtu = 1420},
					    {.mtu = 1500, .link_mtu = 1420},
					    {.mtu = 400, .link_mtu = 1420},
					    {.mtu = 1300, .link_mtu = 1420}};
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0','mtu':'auto'},"
				 "{'name':'b','interface':'wg1','mtu':'auto'},"
				 "{'name':'c','interface':'wg2','mtu':'auto'},"
				 "{'name':'d','interface':'wg3','mtu':1380}"));
	x.host.tunnels = measured;
	x.host.n_tunnels = 4;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; link wg1 1400; link wg2 576; link wg3 1380; "
			   "clamp wg0 1328; clamp wg1 1400; clamp wg2 400; clamp wg3 1380; ");
	wanted_free(&x);
	wanted_start(&x, DUAL(",'tunnels':[{'name':'a','interface':'wg0','mtu':'auto'},"
			      "{'name':'b','interface':'wg1','maxMTU':1200}]"));
	measured[0].mtu = measured[1].mtu = 1000;
	x.host.tunnels = measured;
	x.host.n_tunnels = 2;
	wanted_finish(&x);
	/* The first is held at what IPv6 needs; a maxMTU below that leaves nothing to choose. */
	assert_tunnels(&x, "link wg0 1280; link wg1 1420; clamp wg0 1000; clamp wg1 1000; ");
	wanted_free(&x);
}

/* Raised for a search: an own route holds what is in use. Without one to hold it the link stays. */
static void raised_tunnel(void **state)
{
	struct wanted_tunnel measured = {.mtu = 1328, .raised = 1400, .link_mtu = 1328};
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0','mtu':'auto'," PEER_NETWORK(
				 "192.168.10.0/24") "}"));
	x.host.tunnels = &measured;
	x.host.n_tunnels = 1;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; clamp wg0 1328; ");
	o = origins_of(&x);
	lead(&o[0], "192.168.10.0/24", "eth0", "203.0.113.1");
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; clamp wg0 1328; ");
	lead(&o[0], "192.168.10.0/24", "wg0", "10.0.0.1");
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1400; route 192.168.10.0/24 1328 dev wg0 via 10.0.0.1; "
			   "clamp wg0 1328; ");
	/* No higher than the device goes. */
	measured.max_mtu = 1360;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1360; route 192.168.10.0/24 1328 dev wg0 via 10.0.0.1; "
			   "clamp wg0 1328; ");
	measured.max_mtu = 1328;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; clamp wg0 1328; ");
	measured.max_mtu = 0;
	measured.refused = 1400;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; clamp wg0 1328; ");
	wanted_free(&x);
}

/* One tunnel's MTU and its bounds: what is set, what TCP is kept to, and whether that is what was asked for.
 */
struct bounds_case {
	const char *mtu;
	struct wanted_tunnel facts;
	uint32_t asked, set, minimum, maximum;
	bool out_of_range;
	const char *peer; /* NULL: IPv4 */
};

static void bounds(void **state)
{
	static const struct bounds_case cases[] = {
		/* Not there: nothing is known of it. */
		{"9000", {.link_mtu = 0}, 9000, 9000, 0, 0, false, NULL},
		{"9000", {.link_mtu = 1420}, 9000, 9000, 0, 0, false, NULL},
		/* A number that the device does not take leaves it as it is. */
		{"9000",
		 {.link_mtu = 1420, .min_mtu = 68, .max_mtu = 1450},
		 9000,
		 1420,
		 68,
		 1450,
		 true,
		 NULL},
		{"1450",
		 {.link_mtu = 1420, .min_mtu = 68, .max_mtu = 1450},
		 1450,
		 1450,
		 68,
		 1450,
		 false,
		 NULL},
		{"600", {.link_mtu = 1420, .min_mtu = 700}, 600, 1420, 700, 0, true, NULL},
		/* What it has already it may keep, though the device below got smaller. */
		{"1420", {.link_mtu = 1420, .max_mtu = 1400}, 1420, 1420, 0, 1400, false, NULL},
		/* Refused once, without a bound that says why. */
		{"9000", {.link_mtu = 1420, .refused = 9000}, 9000, 1420, 0, 0, true, NULL},
		{"8000", {.link_mtu = 1420, .refused = 9000}, 8000, 8000, 0, 0, false, NULL},
		{"9000", {.link_mtu = 9000, .refused = 9000}, 9000, 9000, 0, 0, false, NULL},
		/* IPv6: by what uses the interface, or by the peer's network. */
		{"1200", {.link_mtu = 1420, .min_mtu = 68}, 1200, 1200, 68, 0, false, NULL},
		{"1200", {.link_mtu = 1420, .min_mtu = 68, .ipv6 = true}, 1200, 1420, 1280, 0, true, NULL},
		{"1279", {.link_mtu = 1420}, 1279, 1420, 1280, 0, true, "fd00:10::/64"},
		{"1200", {.link_mtu = 1200}, 1200, 1200, 1280, 0, true, "fd00:10::/64"},
		{"1280", {.link_mtu = 1420, .ipv6 = true}, 1280, 1280, 1280, 0, false, NULL},
		/* auto: the nearest. No more than the device takes is no fault, less than it must is one. */
		{"'auto'",
		 {.mtu = 1350, .link_mtu = 1420, .max_mtu = 1390},
		 1350,
		 1350,
		 576,
		 1390,
		 false,
		 NULL},
		{"'auto'", {.link_mtu = 1380, .max_mtu = 1390}, 1390, 1390, 576, 1390, false, NULL},
		{"'auto'", {.mtu = 1250, .link_mtu = 1420}, 1250, 1250, 576, 0, false, NULL},
		{"'auto'", {.mtu = 1250, .link_mtu = 1420, .ipv6 = true}, 1250, 1280, 1280, 0, true, NULL},
		{"'auto'",
		 {.mtu = 1250, .link_mtu = 1200, .ipv6 = true, .max_mtu = 1270},
		 1250,
		 1200,
		 1280,
		 1270,
		 true,
		 NULL},
		{"'auto'", {.mtu = 1350, .link_mtu = 1420, .refused = 1350}, 1350, 1420, 576, 0, true, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bounds_case *c = &cases[i];
		struct wanted_fixture x;
		struct wanted_mtu mtu;
		char text[512];

		snprintf(text, sizeof(text),
			 TUNNELS("{'name':'a','interface':'wg0','mtu':%s," PEER_NETWORK("%s") "}"), c->mtu,
			 c->peer ? c->peer : "192.168.10.0/24");
		wanted_start(&x, text);
		x.host.tunnels = &c->facts;
		x.host.n_tunnels = 1;
		wanted_tunnel_mtu(x.spec, &x.host, 0, &mtu);
		if (mtu.asked != c->asked || mtu.set != c->set || mtu.minimum != c->minimum ||
		    mtu.maximum != c->maximum || mtu.out_of_range != c->out_of_range)
			fail_msg("case %zu: asked %u set %u of %u to %u, out of range %d", i, mtu.asked,
				 mtu.set, mtu.minimum, mtu.maximum, mtu.out_of_range);
		wanted_finish(&x);
		assert_int_equal(x.state.links[0].mtu, c->set);
		assert_int_equal(x.state.clamps[0].mtu, c->asked < c->set ? c->asked : c->set);
		wanted_free(&x);
	}
}

/* Those that share an interface share its bounds; a route of ours is held at what IPv6 needs. */
static void shared_bounds(void **state)
{
	struct wanted_tunnel facts[2] = {{.link_mtu = 1420}, {.link_mtu = 1420}};
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0','mtu':1200," PEER_NETWORK(
				 "192.168.10.0/24") "},"
						    "{'name':'b','interface':'wg0','mtu':1300," PEER_NETWORK(
							    "fd00:10::/64") "}"));
	x.host.tunnels = facts;
	x.host.n_tunnels = 2;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1420; clamp wg0 1200; ");
	wanted_free(&x);
	wanted_start(&x, TUNNELS(TUNNEL_TO("a", "fd00:10::/64", "1200")));
	o = origins_of(&x);
	lead(&o[0], "fd00:10::/64", "eth0", "2001:db8::1");
	wanted_finish(&x);
	assert_tunnels(&x, "route fd00:10::/64 1280 dev eth0 via 2001:db8::1; clamp fd00:10::/64 1200; ");
	wanted_free(&x);
}

/* Of a link that IPv6 keeps at 1280, IPv4 gets less by a route of ours: where the link leads to the peer. */
static void held_for_ipv4(void **state)
{
	struct wanted_tunnel facts = {.mtu = 1236, .link_mtu = 1420, .ipv6 = true};
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0'," PEER_NETWORK("192.168.10.0/24") "}"));
	x.host.tunnels = &facts;
	x.host.n_tunnels = 1;
	o = origins_of(&x);
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1280; clamp wg0 1236; ");
	lead(&o[0], "192.168.10.0/24", "wg0", NULL);
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1280; route 192.168.10.0/24 1236 dev wg0 via ; clamp wg0 1236; ");
	facts.raised = 1400;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1400; route 192.168.10.0/24 1236 dev wg0 via ; clamp wg0 1236; ");
	wanted_free(&x);
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0'," PEER_NETWORK("fd00:10::/64") "}"));
	facts.raised = 0;
	x.host.tunnels = &facts;
	x.host.n_tunnels = 1;
	o = origins_of(&x);
	lead(&o[0], "fd00:10::/64", "wg0", NULL);
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1280; clamp wg0 1236; ");
	wanted_free(&x);
}

static void tunnels_by_route(void **state)
{
	static const char spec[] = TUNNELS(TUNNEL_TO("a", "192.168.10.0/24", "1390") "," TUNNEL_TO(
		"b", "192.168.20.0/24", "1380") "," TUNNEL_TO("c", "192.168.10.0/24", "1350"));
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, spec);
	o = origins_of(&x);
	lead(&o[0], "192.168.10.0/24", "eth0", "203.0.113.1");
	lead(&o[2], "192.168.10.0/24", "eth0", "203.0.113.1");
	wanted_finish(&x);
	/* One that no route leads to yet is clamped all the same; one without a network has nothing to set.
	 */
	assert_tunnels(&x, "route 192.168.10.0/24 1350 dev eth0 via 203.0.113.1; "
			   "clamp 192.168.10.0/24 1350; clamp 192.168.20.0/24 1380; ");
	assert_int_equal(x.state.routes[0].table, 254);
	x.host.origins = NULL;
	wanted_finish(&x);
	assert_tunnels(&x, "clamp 192.168.10.0/24 1350; clamp 192.168.20.0/24 1380; ");
	wanted_free(&x);
}

static void sysctls(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, PRIVATE(""));
	x.host.accept_ra = true;
	wanted_finish(&x);
	assert_sysctls(&x, "net/ipv4/ip_forward=1 net/netfilter/nf_conntrack_tcp_be_liberal=1 ");
	wanted_free(&x);

	wanted_start(&x, DUAL(""));
	wanted_finish(&x);
	assert_sysctls(&x, "net/ipv4/ip_forward=1 net/ipv6/conf/all/forwarding=1 "
			   "net/netfilter/nf_conntrack_tcp_be_liberal=1 ");
	x.host.accept_ra = true;
	wanted_finish(&x);
	assert_sysctls(&x, "net/ipv4/ip_forward=1 net/ipv6/conf/all/forwarding=1 "
			   "net/ipv6/conf/eth0/accept_ra=2 net/netfilter/nf_conntrack_tcp_be_liberal=1 ");
	x.host.external_if = "";
	wanted_finish(&x);
	assert_sysctls(&x, "net/ipv4/ip_forward=1 net/ipv6/conf/all/forwarding=1 "
			   "net/netfilter/nf_conntrack_tcp_be_liberal=1 ");
	wanted_free(&x);
}

/* Tunnels and a guard for its own ports, but nothing of a gateway. */
static void management(void **state)
{
	struct ip_endpoint control = endpoint_of("192.168.150.7:9443");
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, "{" SPEC_HEAD "," SPEC_NETWORKS ",'role':'management',"
			 "'tunnels':[{'name':'a','interface':'wg0','mtu':1380}]}");
	x.host.private_if = "eth0";
	x.host.own[0] = address_of("192.168.150.7");
	x.host.control = &control;
	x.host.accept_ra = true;
	wanted_finish(&x);
	assert_true(x.state.table);
	assert_int_equal(x.state.n_services, 0);
	assert_guard(&x, "from eth0 lo wg0; to 192.168.150.7:9443/TCP 192.168.150.7:9444/UDP; peers;");
	assert_false(x.state.guard.shield);
	assert_false(x.state.guard.cut_egress);
	assert_tunnels(&x, "link wg0 1380; clamp wg0 1380; ");
	assert_sysctls(&x, "");
	wanted_free(&x);
}

static void private_cloudspace(void **state)
{
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, PRIVATE(""));
	wanted_finish(&x);
	assert_true(x.state.guard.shield);
	assert_false(x.state.guard.cut_egress);
	wanted_free(&x);

	wanted_start(&x, "{" SPEC_HEAD ",'cloudspace':{'privateNetwork':'192.168.150.0/24','private':true},"
			 "'controlPlaneExposure':'private'}");
	wanted_finish(&x);
	assert_true(x.state.guard.shield);
	assert_true(x.state.guard.cut_egress);
	wanted_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guarded),
		cmocka_unit_test(guarded_early),
		cmocka_unit_test(guarded_dual_stack),
		cmocka_unit_test(peers),
		cmocka_unit_test(tunnels_by_interface),
		cmocka_unit_test(measured_tunnels),
		cmocka_unit_test(raised_tunnel),
		cmocka_unit_test(bounds),
		cmocka_unit_test(shared_bounds),
		cmocka_unit_test(held_for_ipv4),
		cmocka_unit_test(tunnels_by_route),
		cmocka_unit_test(sysctls),
		cmocka_unit_test(management),
		cmocka_unit_test(private_cloudspace),
	};

	return cmocka_run_group_tests_name("wanted of the host", tests, NULL, NULL);
}
