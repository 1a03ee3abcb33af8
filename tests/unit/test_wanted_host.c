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
	struct wanted_tunnel measured[4] = {{.mtu = 1328}, {.mtu = 1500}, {.mtu = 400}, {.mtu = 1300}};
	struct wanted_fixture x;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0','mtu':'auto'},"
				 "{'name':'b','interface':'wg1','mtu':'auto'},"
				 "{'name':'c','interface':'wg2','mtu':'auto'},"
				 "{'name':'d','interface':'wg3','mtu':1380}"));
	x.host.tunnels = measured;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1328; link wg1 1400; link wg2 576; link wg3 1380; "
			   "clamp wg0 1328; clamp wg1 1400; clamp wg2 576; clamp wg3 1380; ");
	wanted_free(&x);
	wanted_start(&x, DUAL(",'tunnels':[{'name':'a','interface':'wg0','mtu':'auto'},"
			      "{'name':'b','interface':'wg1','maxMTU':1200}]"));
	measured[0].mtu = measured[1].mtu = 1000;
	x.host.tunnels = measured;
	wanted_finish(&x);
	assert_tunnels(&x, "link wg0 1280; link wg1 1200; clamp wg0 1280; clamp wg1 1200; ");
	wanted_free(&x);
}

/* Raised for a search: an own route holds what is in use. Without one to hold it the link stays. */
static void raised_tunnel(void **state)
{
	struct wanted_tunnel measured = {.mtu = 1328, .raised = 1400};
	struct wanted_fixture x;
	struct ns_route *o;

	(void)state;
	wanted_start(&x, TUNNELS("{'name':'a','interface':'wg0','mtu':'auto'," PEER_NETWORK(
				 "192.168.10.0/24") "}"));
	x.host.tunnels = &measured;
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
		cmocka_unit_test(tunnels_by_route),
		cmocka_unit_test(sysctls),
		cmocka_unit_test(management),
		cmocka_unit_test(private_cloudspace),
	};

	return cmocka_run_group_tests_name("wanted of the host", tests, NULL, NULL);
}
