/* SPDX-License-Identifier: Apache-2.0 */
/* The nftables table as text: tests/golden/NAME.txt, written anew with VGW_GOLDEN=write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdlib.h>

#include "netcfg/kernel/nft_internal.h"
#include "random.h"
#include "vgw/file.h"
#include "wanted_fixture.h"

static const char gateway[] =
	PRIVATE(",'frontends':[" APISERVER "],'tunnels':[{'name':'mgmt','interface':'wg0'}]");

static const char dual[] = DUAL(
	",'frontends':[" APISERVER ","
	"{'name':'dns','port':53,'protocol':'UDP','backends':[{'address':'192.168.150.21','port':30053},"
	"{'address':'192.168.150.22','port':30053}]},"
	"{'name':'random','port':80,'balance':'random','backends':[{'address':'192.168.150.21','port':30080},"
	"{'address':'192.168.150.22','port':30080,'weight':3}]},"
	"{'name':'dns6','port':53,'protocol':'UDP','backends':[{'address':'fd00:150::21','port':30053}]},"
	"{'name':'random6','port':80,'balance':'random','backends':[{'address':'fd00:150::21','port':30080},"
	"{'address':'fd00:150::22','port':30080}]},"
	"{'name':'source','port':81,'balance':'source','backends':[{'address':'192.168.150.21','port':30081}]"
	"},"
	"{'name':'source6','port':81,'balance':'source','backends':[{'address':'fd00:150::21','port':30081}]}"
	"],"
	"'tunnels':[{'name':'a','interface':'wg0','mtu':1380}]");

static const char refuse[] = FRONTENDS(
	APISERVER ",{'name':'nobody','port':80,'backends':[]},"
		  "{'name':'nobody-udp','port':80,'protocol':'UDP'},"
		  "{'name':'rejects','port':81,'whenNoneHealthy':'reject','backends':[" BACKEND("11") "]}");

static const char cut[] =
	"{" SPEC_HEAD ",'controlPlaneExposure':'private',"
	"'cloudspace':{'privateNetworks':['192.168.150.0/24','fd00:150::/64'],'private':true},"
	"'frontends':[" APISERVER "]}";

static const char tunnels[] = PRIVATE(
	",'frontends':[" APISERVER "],'tunnels':["
	"{'name':'wg','interface':'wg0','mtu':1400," PEER_NETWORK(
		"192.168.10.0/24") "},"
				   "{'name':'ipsec','mtu':1390," PEER_NETWORK(
					   "192.168.20.0/22") "},"
							      "{'name':'gre','mtu':1380," PEER_NETWORK(
								      "fd00:30::/48") "}]");

static const char public[] =
	SPEC(",'frontends':[" APISERVER
	     ",{'name':'web','port':80,'internal':true,'backends':[" BACKEND("21") "]}]");

static const char management[] =
	"{" SPEC_HEAD "," SPEC_NETWORK
	",'role':'management','tunnels':[{'name':'m','mtu':1390," PEER_NETWORK("192.168.10.0/24") "}]}";

static const struct golden {
	const char *name;
	const char *spec; /* NULL: many frontends */
	bool secpath, owner, no_external, retry;
} goldens[] = {
	{"gateway", gateway, true, true, false},
	{"gateway-retry", gateway, true, true, false, true},
	{"dual-stack-retry", dual, true, false, false, true},
	{"dual-stack", dual, true, false, false},
	{"many-frontends", NULL, true, false, false},
	{"refuse", refuse, true, false, false},
	{"cut-egress", cut, true, false, false},
	{"tunnels", tunnels, true, false, false},
	{"tunnels-no-secpath", tunnels, false, false, false},
	{"public", public, true, false, false},
	{"public-no-address", public, true, false, true},
	{"management", management, true, false, false},
};
enum { N_GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

/* 66 round-robin frontends: two more than have counters of their own. */
static void many_frontends(struct buf *out)
{
	buf_puts(out, "{" SPEC_HEAD "," SPEC_NETWORK ",'controlPlaneExposure':'private','frontends':[");
	for (int i = 0; i < 66; i++) {
		buf_printf(out, "%s{'name':'f%d','port':%d,'backends':[" BACKEND("11"), i ? "," : "", i,
			   1000 + i);
		if (i % 2)
			buf_puts(out, "," BACKEND("12"));
		buf_puts(out, "]}");
	}
	buf_puts(out, ",{'name':'r','port':2000,'balance':'random','backends':[" BACKEND("11") "," BACKEND(
			      "12") "]}]}");
}

static const struct wanted_verdict dead[1];

static void build(const struct golden *g, struct wanted_fixture *x, struct nft_table *table)
{
	/* Routes that lead to the tunnels' networks, by name of the case. */
	static const struct wanted_verdict *rejects[4];
	struct nft_features features = {
		.owner_persist = g->owner, .secpath = g->secpath, .retry = g->retry, .log = g->retry};
	struct ns_route *origins;
	struct buf text = {0};

	if (!g->spec)
		many_frontends(&text);
	wanted_start(x, g->spec ? g->spec : buf_str(&text));
	buf_free(&text);
	if (g->no_external)
		x->host.external[0].family = IP_NONE;
	if (g->spec == refuse) {
		rejects[3] = dead;
		x->verdicts = rejects;
	}
	/* IPsec's route leads outside, that of the last one over an interface of its own. */
	origins = arena_calloc(x->arena, x->spec->n_tunnels, sizeof(*origins));
	for (size_t i = 0; i < x->spec->n_tunnels; i++) {
		origins[i].network = x->spec->tunnels[i].peer_network;
		strcpy(origins[i].interface, i == 2 ? "gre1" : "eth0");
	}
	x->host.origins = origins;
	wanted_finish(x);
	assert_int_equal(nft_table_build(&x->state, &features, true, x->arena, table), 0);
}

static void table_texts(void **state)
{
	const char *mode = getenv("VGW_GOLDEN");
	bool write = mode && !strcmp(mode, "write");

	(void)state;
	for (int i = 0; i < N_GOLDENS; i++) {
		struct buf text = {0}, expected = {0};
		struct wanted_fixture x;
		struct nft_table table;
		struct vgw_err err;
		char path[128];

		build(&goldens[i], &x, &table);
		nft_table_print(&table, &text);
		snprintf(path, sizeof(path), "tests/golden/%s.txt", goldens[i].name);
		if (write)
			assert_int_equal(file_replace(path, text.data, text.len, 0644, &err), 0);
		if (file_read(path, 1 << 20, &expected, &err) < 0)
			fail_msg("%s: %s (from the top of the tree?)", err.where, err.text);
		if (strcmp(buf_str(&text), buf_str(&expected)))
			fail_msg("%s is not what is built now; look at `VGW_GOLDEN=write` and git diff: %s",
				 path, buf_str(&text));
		buf_free(&text);
		buf_free(&expected);
		wanted_free(&x);
	}
}

/* To libnftnl, to the bytes of a netlink message, and back. */
static void round_trip(const struct nft_rule *rule, struct arena *arena, const char *where)
{
	static char bytes[1 << 16];
	struct nftnl_rule *out = nftnl_rule_alloc(), *in = nftnl_rule_alloc();
	struct nft_rule back;
	struct nlmsghdr *nlh;

	assert_non_null(out);
	assert_non_null(in);
	nftnl_rule_set_str(out, NFTNL_RULE_TABLE, NFT_TABLE_NAME);
	nftnl_rule_set_str(out, NFTNL_RULE_CHAIN, where);
	assert_int_equal(nft_rule_encode(rule, out), 0);
	nlh = nftnl_nlmsg_build_hdr(bytes, NFT_MSG_NEWRULE, NFPROTO_INET, 0, 1);
	nftnl_rule_nlmsg_build_payload(nlh, out);
	assert_int_equal(nftnl_rule_nlmsg_parse(nlh, in), 0);
	assert_int_equal(nft_rule_decode(in, arena, &back), 0);
	if (!nft_rule_equal(rule, &back))
		fail_msg("a rule of %s comes back as another one", where);
	nftnl_rule_free(out);
	nftnl_rule_free(in);
}

static void rules_come_back(void **state)
{
	(void)state;
	for (int i = 0; i < N_GOLDENS; i++) {
		struct wanted_fixture x;
		struct nft_table table;
		size_t n = 0;

		build(&goldens[i], &x, &table);
		for (size_t c = 0; c < table.n_chains; c++)
			for (size_t r = 0; r < table.chains[c].n_rules; r++, n++)
				round_trip(&table.chains[c].rules[r], x.arena, table.chains[c].name);
		assert_true(n > 2);
		wanted_free(&x);
	}
}

/* What a rule is not made of: it is foreign, and equal to nothing, itself included. */
static void foreign_expressions(void **state)
{
	static const char *const names[] = {"quota", "fib", "connlimit", "range", "osf"};
	struct arena *arena = arena_new();

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct nftnl_rule *rule = nftnl_rule_alloc();
		struct nftnl_expr *e = nftnl_expr_alloc(names[i]);
		struct nft_rule back;

		assert_non_null(rule);
		if (!e)
			fail_msg("libnftnl does not know %s", names[i]);
		nftnl_rule_add_expr(rule, e);
		assert_int_equal(nft_rule_decode(rule, arena, &back), 0);
		assert_int_equal(back.n, 1);
		assert_int_equal(back.x[0].kind, NX_FOREIGN);
		assert_false(nft_rule_equal(&back, &back));
		nftnl_rule_free(rule);
	}
	arena_free(arena);
}

static struct ip_endpoint random_endpoint(struct random *r, uint8_t family)
{
	struct ip_endpoint e = {.addr.family = family, .port = (uint16_t)(1 + random_below(r, 65535))};

	for (size_t i = 0; i < ip_addr_size(&e.addr); i++)
		e.addr.bytes[i] = (uint8_t)random_u32(r);
	return e;
}

static void random_services(struct random *r, struct arena *arena, struct netstate *s)
{
	size_t n = random_below(r, 90);

	memset(s, 0, sizeof(*s));
	s->table = true;
	s->services = arena_calloc(arena, n, sizeof(*s->services));
	s->n_services = n;
	for (size_t i = 0; i < n; i++) {
		struct ns_service *v = &s->services[i];
		struct ip_endpoint *slots = arena_calloc(arena, 12, sizeof(*slots));

		v->port.at = random_endpoint(r, random_chance(r, 30) ? IP_V6 : IP_V4);
		v->port.at.addr.bytes[0] = (uint8_t)i; /* no two are one */
		v->port.protocol = random_chance(r, 30) ? 17 : 6;
		v->n_slots = random_chance(r, 20) ? 0 : 1 + random_below(r, 12);
		v->balance = (uint8_t)random_below(r, 3);
		for (size_t j = 0; j < v->n_slots; j++)
			slots[j] = random_endpoint(r, v->port.at.addr.family);
		v->slots = slots;
	}
	netstate_sort(s);
}

static void services_come_back(void **state)
{
	struct nft_features features = {0};
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct arena *arena = arena_new();
		struct ns_service *back;
		struct nft_table table;
		struct netstate s;
		size_t n;

		random_services(&r, arena, &s);
		assert_int_equal(nft_table_build(&s, &features, true, arena, &table), 0);
		assert_int_equal(nft_table_services(&table, arena, &back, &n), 0);
		assert_int_equal(n, s.n_services);
		for (size_t i = 0; i < n; i++)
			if (!ns_service_equal(&back[i], &s.services[i]))
				fail_msg("round %d: service %zu comes back as another one", round, i);
		arena_free(arena);
	}
}

/* A set as an unordered heap of records that the differences are applied to. */
struct heap {
	uint8_t records[400][8];
	size_t n, size;
};

static void apply_difference(void *ctx, bool del, const uint8_t *record)
{
	struct heap *h = ctx;

	for (size_t i = 0; i < h->n; i++) {
		if (memcmp(h->records[i], record, h->size))
			continue;
		assert_true(del);
		memcpy(h->records[i], h->records[--h->n], h->size);
		return;
	}
	assert_false(del);
	memcpy(h->records[h->n++], record, h->size);
}

static struct nft_set random_set(struct random *r, struct arena *arena)
{
	struct nft_set s = {.name = "s", .key_len = 3, .data_len = 1};
	size_t n = random_below(r, 200), used = 0;

	s.elems = arena_calloc(arena, 200, 4);
	for (size_t i = 0; i < n; i++)
		memcpy(s.elems + 4 * i,
		       (uint8_t[]){0, (uint8_t)random_below(r, 2), (uint8_t)random_u32(r),
				   (uint8_t)random_below(r, 2)},
		       4);
	s.n = n;
	nft_set_sort(&s);
	for (size_t i = 0; i < n; i++) /* one value to a key */
		if (!used || memcmp(s.elems + 4 * (used - 1), s.elems + 4 * i, 3))
			memmove(s.elems + 4 * used++, s.elems + 4 * i, 4);
	s.n = used;
	return s;
}

static void differences(void **state)
{
	struct random r = random_start();

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct arena *arena = arena_new();
		struct nft_set old = random_set(&r, arena), new = random_set(&r, arena), got;
		struct heap h = {.n = old.n, .size = 4};

		if (!random_below(&r, 5))
			old.n = h.n = 0;
		for (size_t i = 0; i < old.n; i++)
			memcpy(h.records[i], old.elems + 4 * i, 4);
		nft_set_diff(old.n ? &old : NULL, &new, apply_difference, &h);
		got = new;
		got.n = h.n;
		got.elems = arena_calloc(arena, h.n, 4);
		for (size_t i = 0; i < h.n; i++)
			memcpy(got.elems + 4 * i, h.records[i], 4);
		nft_set_sort(&got);
		assert_true(nft_set_equal(&got, &new));
		h.n = 0;
		nft_set_diff(&new, &new, apply_difference, &h);
		assert_int_equal(h.n, 0);
		arena_free(arena);
	}
}

static size_t rules_of(const struct nft_table *t, const char *chain)
{
	const struct nft_chain *c = nft_table_chain(t, chain);

	assert_non_null(c);
	return c->n_rules;
}

/* Up to 64 round-robin frontends turn exactly, each by a rule of its own; more share one by number of slots.
 */
static void exact_up_to_64(void **state)
{
	static const size_t counts[] = {1, 63, 64, 65, 500};

	(void)state;
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct nft_features features = {0};
		struct arena *arena = arena_new();
		struct ip_endpoint slots[2] = {endpoint_of("192.168.150.11:80"),
					       endpoint_of("192.168.150.12:80")};
		struct netstate s = {.table = true, .n_services = counts[c] + 1};
		struct nft_table table;

		s.services = arena_calloc(arena, s.n_services, sizeof(*s.services));
		for (size_t i = 0; i < s.n_services; i++) {
			s.services[i].port.at = endpoint_of("192.168.150.1:1");
			s.services[i].port.at.port = (uint16_t)(1 + i);
			s.services[i].port.protocol = 6;
			s.services[i].balance = i ? NS_ROUNDROBIN : NS_RANDOM;
			s.services[i].slots = slots;
			s.services[i].n_slots = 2;
		}
		assert_int_equal(nft_table_build(&s, &features, true, arena, &table), 0);
		assert_int_equal(rules_of(&table, "balance4"), counts[c] <= 64 ? counts[c] + 1 : 2);
		assert_int_equal(rules_of(&table, "balance6"), 0);
		arena_free(arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_texts),	       cmocka_unit_test(rules_come_back),
		cmocka_unit_test(foreign_expressions), cmocka_unit_test(services_come_back),
		cmocka_unit_test(differences),	       cmocka_unit_test(exact_up_to_64),
	};

	return cmocka_run_group_tests_name("nft table", tests, NULL, NULL);
}
