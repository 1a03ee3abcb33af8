/* SPDX-License-Identifier: Apache-2.0 */
/* The plan from what is there to what is wanted, carried out on a model of a host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "netcfg/model/netplan.h"
#include "random.h"
#include "wanted_fixture.h"

enum { N_LINKS = 6, N_SYSCTLS = 4, MAX_ROUTES = 16 };

/* A host, and the record of what we have replaced on it. */
struct model {
	struct ns_link links[N_LINKS]; /* mtu 0: absent */
	struct ns_sysctl sysctls[N_SYSCTLS];
	struct ns_route routes[MAX_ROUTES]; /* ours */
	size_t n_routes;
	struct nft_table table;
	struct plan_was_link was_links[N_LINKS];
	struct plan_was_sysctl was_sysctls[N_SYSCTLS];
	size_t n_was_links, n_was_sysctls;
};

static void model_start(struct model *m, struct random *r)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < N_LINKS; i++) {
		snprintf(m->links[i].name, NS_IFNAME, "wg%d", i);
		m->links[i].mtu = random_chance(r, 80) ? 1300 + random_below(r, 200) : 0;
	}
	for (int i = 0; i < N_SYSCTLS; i++) {
		snprintf(m->sysctls[i].name, NS_SYSCTL_NAME, "net/test/%d", i);
		m->sysctls[i].value[0] = (char)('0' + random_below(r, 3));
	}
}

static struct ns_route random_route(struct random *r, uint8_t network)
{
	struct ns_route route = {.mtu = 1300 + random_below(r, 3) * 50, .table = 254};

	route.network = network_of("192.168.0.0/24");
	route.network.addr.bytes[2] = network;
	route.metric = random_below(r, 3);
	strcpy(route.interface, random_chance(r, 50) ? "eth0" : "gre1");
	if (random_chance(r, 50))
		route.gateway = address_of("203.0.113.1");
	return route;
}

static void random_wanted(struct random *r, struct arena *arena, struct netstate *s)
{
	struct ip_endpoint *slots = arena_calloc(arena, 4, sizeof(*slots));

	memset(s, 0, sizeof(*s));
	s->table = random_chance(r, 80);
	s->services = arena_calloc(arena, 10, sizeof(*s->services));
	s->links = arena_calloc(arena, N_LINKS, sizeof(*s->links));
	s->routes = arena_calloc(arena, 8, sizeof(*s->routes));
	s->sysctls = arena_calloc(arena, N_SYSCTLS, sizeof(*s->sysctls));
	for (size_t i = 0; i < 4; i++)
		slots[i] = endpoint_of(random_chance(r, 50) ? "192.168.150.11:80" : "192.168.150.12:80");
	for (unsigned i = 0; i < 10 && s->table; i++) {
		struct ns_service *v = &s->services[s->n_services];

		if (random_chance(r, 50))
			continue;
		v->port.at = endpoint_of("192.168.150.1:80");
		v->port.at.port = (uint16_t)(80 + i);
		v->port.protocol = 6;
		v->balance = (uint8_t)random_below(r, 3);
		v->slots = slots;
		v->n_slots = random_below(r, 5);
		s->n_services++;
	}
	for (unsigned i = 0; i < N_LINKS; i++)
		if (random_chance(r, 50)) {
			snprintf(s->links[s->n_links].name, NS_IFNAME, "wg%u", i);
			s->links[s->n_links++].mtu = 1400 + random_below(r, 3);
		}
	for (uint8_t i = 0; i < 8; i++)
		if (random_chance(r, 50))
			s->routes[s->n_routes++] = random_route(r, i);
	for (unsigned i = 0; i < N_SYSCTLS; i++)
		if (random_chance(r, 50)) {
			snprintf(s->sysctls[s->n_sysctls].name, NS_SYSCTL_NAME, "net/test/%u", i);
			s->sysctls[s->n_sysctls++].value[0] = (char)('0' + random_below(r, 3));
		}
	netstate_sort(s);
}

/* Everything the host has is shown, foreign links and sysctls too: the plan must leave them alone. */
static void observe(const struct model *m, struct arena *arena, struct plan_observed *out)
{
	memset(out, 0, sizeof(*out));
	out->links = arena_calloc(arena, N_LINKS, sizeof(*out->links));
	for (int i = 0; i < N_LINKS; i++)
		if (m->links[i].mtu)
			out->links[out->n_links++] = m->links[i];
	out->sysctls = arena_calloc(arena, N_SYSCTLS, sizeof(*out->sysctls));
	memcpy(out->sysctls, m->sysctls, sizeof(m->sysctls));
	out->n_sysctls = N_SYSCTLS;
	out->routes = arena_calloc(arena, MAX_ROUTES, sizeof(*out->routes));
	memcpy(out->routes, m->routes, sizeof(m->routes));
	out->n_routes = m->n_routes;
	out->table = m->table;
}

static void make_plan(const struct netstate *wanted, const struct model *m, struct arena *arena,
		      struct plan *plan)
{
	static const struct nft_features features = {.owner_persist = true, .secpath = true};
	struct plan_recorded recorded = {.links = (struct plan_was_link *)m->was_links,
					 .n_links = m->n_was_links,
					 .sysctls = (struct plan_was_sysctl *)m->was_sysctls,
					 .n_sysctls = m->n_was_sysctls};
	struct plan_observed observed;

	observe(m, arena, &observed);
	assert_int_equal(netplan_make(wanted, &features, true, &observed, &recorded, arena, plan), 0);
}

static struct ns_link *link_of(struct model *m, const char *name)
{
	for (int i = 0; i < N_LINKS; i++)
		if (!strcmp(m->links[i].name, name))
			return &m->links[i];
	fail_msg("no link %s", name);
	return NULL;
}

static struct ns_sysctl *sysctl_of(struct model *m, const char *name)
{
	for (int i = 0; i < N_SYSCTLS; i++)
		if (!strcmp(m->sysctls[i].name, name))
			return &m->sysctls[i];
	fail_msg("no sysctl %s", name);
	return NULL;
}

static void drop_route(struct model *m, const struct ns_route *route)
{
	for (size_t i = 0; i < m->n_routes; i++)
		if (!memcmp(&m->routes[i], route, sizeof(*route))) {
			m->routes[i] = m->routes[--m->n_routes];
			return;
		}
	fail_msg("a route that is not there is removed");
}

static void apply_link(struct model *m, const struct ns_link *to, bool restore)
{
	struct ns_link *l = link_of(m, to->name);
	size_t i = 0;

	assert_true(l->mtu != 0 && l->mtu != to->mtu);
	while (i < m->n_was_links && strcmp(m->was_links[i].name, to->name))
		i++;
	if (restore) {
		assert_true(i < m->n_was_links);
		assert_int_equal(m->was_links[i].original, to->mtu);
		m->was_links[i] = m->was_links[--m->n_was_links];
	} else {
		if (i == m->n_was_links) {
			memcpy(m->was_links[i].name, to->name, NS_IFNAME);
			m->was_links[m->n_was_links++].original = l->mtu;
		}
		m->was_links[i].set = to->mtu;
	}
	l->mtu = to->mtu;
}

static void apply_sysctl(struct model *m, const struct ns_sysctl *to, bool restore)
{
	struct ns_sysctl *s = sysctl_of(m, to->name);
	size_t i = 0;

	assert_string_not_equal(s->value, to->value);
	while (i < m->n_was_sysctls && strcmp(m->was_sysctls[i].name, to->name))
		i++;
	if (restore) {
		assert_true(i < m->n_was_sysctls);
		assert_string_equal(m->was_sysctls[i].original, to->value);
		m->was_sysctls[i] = m->was_sysctls[--m->n_was_sysctls];
	} else if (!strstr(to->name, "forward")) { /* stays on, so it is not recorded */
		if (i == m->n_was_sysctls) {
			memcpy(m->was_sysctls[i].name, to->name, NS_SYSCTL_NAME);
			memcpy(m->was_sysctls[m->n_was_sysctls++].original, s->value, NS_SYSCTL_VALUE);
		}
		memcpy(m->was_sysctls[i].set, to->value, NS_SYSCTL_VALUE);
	}
	memcpy(s->value, to->value, NS_SYSCTL_VALUE);
}

/* Each operation in its place: set, transaction, take away. */
static void carry_out(struct model *m, const struct plan *plan, struct arena *arena)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct plan_op *op = &plan->ops[i];

		if (i && op->kind < op[-1].kind)
			fail_msg("%s comes after %s", op->line, op[-1].line);
		switch (op->kind) {
		case PLAN_SYSCTL:
		case PLAN_SYSCTL_RESTORE:
			apply_sysctl(m, &op->sysctl, op->kind == PLAN_SYSCTL_RESTORE);
			break;
		case PLAN_LINK:
		case PLAN_LINK_RESTORE:
			apply_link(m, &op->link, op->kind == PLAN_LINK_RESTORE);
			break;
		case PLAN_ROUTE:
			if (op->has_old_route)
				drop_route(m, &op->old_route);
			assert_true(m->n_routes < MAX_ROUTES);
			m->routes[m->n_routes++] = op->route;
			break;
		case PLAN_ROUTE_REMOVE:
			drop_route(m, &op->route);
			break;
		case PLAN_NFT:
			assert_true(plan->nft);
			break;
		}
	}
	if (plan->nft)
		assert_int_equal(nft_table_copy(&plan->table, arena, &m->table), 0);
}

static void assert_as_wanted(struct model *m, const struct netstate *s)
{
	for (size_t i = 0; i < s->n_links; i++) {
		uint32_t mtu = link_of(m, s->links[i].name)->mtu;

		assert_true(!mtu || mtu == s->links[i].mtu);
	}
	for (size_t i = 0; i < s->n_sysctls; i++)
		assert_string_equal(sysctl_of(m, s->sysctls[i].name)->value, s->sysctls[i].value);
	assert_int_equal(m->n_routes, s->n_routes);
	for (size_t i = 0; i < s->n_routes; i++) {
		size_t j = 0;

		while (j < m->n_routes && memcmp(&m->routes[j], &s->routes[i], sizeof(m->routes[j])))
			j++;
		assert_true(j < m->n_routes);
	}
	assert_int_equal(m->table.present, s->table);
	assert_false(m->table.dormant);
}

static void settle(struct model *m, const struct netstate *wanted, struct arena *arena)
{
	struct plan plan;

	make_plan(wanted, m, arena, &plan);
	carry_out(m, &plan, arena);
	assert_as_wanted(m, wanted);
	make_plan(wanted, m, arena, &plan);
	if (plan.n || plan.nft)
		fail_msg("%zu changes are left: %s", plan.n, plan.n ? plan.ops[0].line : "the table");
}

/* From any state to any other; and back to what was there before us. */
static void any_to_any(void **state)
{
	static const struct netstate nothing;
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct arena *arena = arena_new();
		struct model m, before;

		model_start(&m, &r);
		before = m;
		for (int step = 0; step < 5; step++) {
			struct netstate wanted;

			random_wanted(&r, arena, &wanted);
			m.table.dormant = m.table.present && random_chance(&r, 20);
			settle(&m, &wanted, arena);
		}
		settle(&m, &nothing, arena);
		assert_memory_equal(m.links, before.links, sizeof(m.links));
		assert_memory_equal(m.sysctls, before.sysctls, sizeof(m.sysctls));
		assert_int_equal(m.n_routes, 0);
		arena_free(arena);
	}
}

/* What someone else has set since is theirs: it is not given back. */
static void foreign_values_stay(void **state)
{
	static const struct netstate nothing;
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct arena *arena = arena_new();
		struct netstate wanted;
		struct model m, theirs;
		uint8_t foreign_links = (uint8_t)random_u32(&r), foreign_sysctls = (uint8_t)random_u32(&r);

		model_start(&m, &r);
		random_wanted(&r, arena, &wanted);
		settle(&m, &wanted, arena);
		for (int i = 0; i < N_LINKS; i++)
			if (m.links[i].mtu && foreign_links >> i & 1)
				m.links[i].mtu = 9000;
		for (int i = 0; i < N_SYSCTLS; i++)
			if (foreign_sysctls >> i & 1)
				strcpy(m.sysctls[i].value, "theirs");
		theirs = m;
		settle(&m, &nothing, arena);
		for (int i = 0; i < N_LINKS; i++)
			if (foreign_links >> i & 1)
				assert_int_equal(m.links[i].mtu, theirs.links[i].mtu);
		for (int i = 0; i < N_SYSCTLS; i++)
			if (foreign_sysctls >> i & 1)
				assert_string_equal(m.sysctls[i].value, "theirs");
		arena_free(arena);
	}
}

/* A route of ours that was left beside its successor goes. */
static void leftover_routes(void **state)
{
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct arena *arena = arena_new();
		struct netstate wanted;
		struct model m;

		model_start(&m, &r);
		random_wanted(&r, arena, &wanted);
		settle(&m, &wanted, arena);
		for (uint8_t i = 0; i < 4; i++) {
			m.routes[m.n_routes] = random_route(&r, i);
			m.routes[m.n_routes++].metric = 7;
		}
		settle(&m, &wanted, arena);
		arena_free(arena);
	}
}

/* Chains and sets are how the table is built: their lines change with it, and only have to be there. */
static bool is_inside(const char *line)
{
	return !strncmp(line + 1, " chain ", 7) || !strncmp(line + 1, " set ", 5);
}

static void assert_lines(const struct netstate *wanted, const struct model *m, struct arena *arena,
			 const char *expected)
{
	struct buf lines = {0};
	struct plan plan;

	make_plan(wanted, m, arena, &plan);
	for (size_t i = 0; i < plan.n; i++)
		if (!is_inside(plan.ops[i].line))
			buf_printf(&lines, "%s\n", plan.ops[i].line);
	if (strcmp(buf_str(&lines), expected))
		fail_msg("not\n%sbut\n%s", expected, buf_str(&lines));
	buf_free(&lines);
}

#define SPEC_OF(backends, mtu)                                                                               \
	PRIVATE(",'frontends':[{'name':'kube-apiserver','port':6443," backends "}],"                         \
		"'tunnels':[{'name':'mgmt','interface':'wg0','mtu':" mtu "},"                                \
		"{'name':'policy','mtu':1390," PEER_NETWORK("192.168.10.0/24") "}]")

static void wanted_of(struct wanted_fixture *x, const char *spec)
{
	struct ns_route *origins;

	wanted_start(x, spec);
	origins = arena_calloc(x->arena, 2, sizeof(*origins));
	origins[1] = (struct ns_route){.network = network_of("192.168.10.0/24"), .table = 254};
	strcpy(origins[1].interface, "eth0");
	x->host.origins = origins;
	wanted_finish(x);
}

static void lines(void **state)
{
	static const char first[] = SPEC_OF(THREE_BACKENDS, "1400");
	static const char second[] =
		SPEC_OF("'balance':'random','backends':[" BACKEND("11") ",{'address':'192.168.150.12','port':"
									"6443,'weight':3}]",
			"1380");
	static const struct netstate nothing;
	struct wanted_fixture a, b;
	struct plan plan;
	struct model m = {.links = {{"wg0", 1420}},
			  .sysctls = {{"net/ipv4/ip_forward", "0"},
				      {"net/netfilter/nf_conntrack_tcp_be_liberal", "0"}}};

	(void)state;
	wanted_of(&a, first);
	wanted_of(&b, second);
	assert_lines(&nothing, &m, a.arena, "");
	assert_lines(&a.state, &m, a.arena,
		     "~ sysctl net/ipv4/ip_forward 0 -> 1\n"
		     "~ sysctl net/netfilter/nf_conntrack_tcp_be_liberal 0 -> 1\n"
		     "~ link wg0 mtu 1420 -> 1400\n"
		     "+ route 192.168.10.0/24 mtu 1390 dev eth0\n"
		     "+ table inet vgw_agent (owner, persist)\n"
		     "+ frontend 192.168.150.1:6443/TCP roundrobin -> 192.168.150.11:6443 "
		     "192.168.150.12:6443 192.168.150.13:6443\n"
		     "+ guard interface eth1\n"
		     "+ guard interface lo\n"
		     "+ guard interface wg0\n"
		     "+ guard port 192.168.150.1:6443/TCP\n"
		     "+ guard port 192.168.150.1:9443/TCP\n"
		     "+ guard port 192.168.150.1:9444/UDP\n"
		     "+ mss wg0 ipv4 1360\n"
		     "+ mss wg0 ipv6 1340\n");
	make_plan(&a.state, &m, a.arena, &plan);
	carry_out(&m, &plan, a.arena);
	assert_lines(&b.state, &m, a.arena,
		     "~ link wg0 mtu 1400 -> 1380\n"
		     "~ frontend 192.168.150.1:6443/TCP random -> 192.168.150.11:6443 192.168.150.12:6443*3\n"
		     "+ mss wg0 ipv4 1340\n"
		     "- mss wg0 ipv4 1360\n"
		     "+ mss wg0 ipv6 1320\n"
		     "- mss wg0 ipv6 1340\n");
	m.routes[0].mtu = 1300;
	strcpy(m.links[0].name, "wg9");
	assert_lines(&a.state, &m, a.arena, "~ route 192.168.10.0/24 mtu 1300 -> 1390 dev eth0\n");
	strcpy(m.links[0].name, "wg0");
	m.routes[0].mtu = 1390;
	assert_lines(&nothing, &m, a.arena,
		     "- frontend 192.168.150.1:6443/TCP roundrobin -> 192.168.150.11:6443 "
		     "192.168.150.12:6443 192.168.150.13:6443\n"
		     "- table inet vgw_agent\n"
		     "- route 192.168.10.0/24 mtu 1390\n"
		     "- link wg0 mtu 1400 -> 1420\n"
		     "- sysctl net/netfilter/nf_conntrack_tcp_be_liberal 1 -> 0\n");
	wanted_free(&a);
	wanted_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_to_any),
		cmocka_unit_test(foreign_values_stay),
		cmocka_unit_test(leftover_routes),
		cmocka_unit_test(lines),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
