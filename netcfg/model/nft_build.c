/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <string.h>

#include "netcfg/model/nft_rule.h"
#include "netcfg/model/nft_table.h"

/* nft(8)'s numbers of the types that keys and values have; a concatenation is 6 bits a part. */
enum {
	TYPE_IPADDR = 7,
	TYPE_IP6ADDR = 8,
	TYPE_INET_PROTOCOL = 12,
	TYPE_INET_SERVICE = 13,
	TYPE_MARK = 19,
	TYPE_IFNAME = NFT_TYPE_IFNAME,
};
#define PORT_TYPE(addr) ((uint32_t)(addr) << 12 | TYPE_INET_PROTOCOL << 6 | TYPE_INET_SERVICE)
#define SLOT_TYPE(addr) (PORT_TYPE(addr) << 6 | TYPE_MARK)
#define NODE_TYPE(addr) ((uint32_t)(addr) << 6 | TYPE_INET_SERVICE)

enum set_index {
	SET_ALLOWED,
	SET_GUARDED4,
	SET_GUARDED6,
	SET_SVC4,
	SET_SVC6,
	SET_BE4,
	SET_BE6,
	SET_MSS4,
	SET_MSS6,
	N_SETS,
};

static const struct nft_set set_shapes[N_SETS] = {
	[SET_ALLOWED] = {.name = "allowed", .key_type = TYPE_IFNAME, .key_len = NS_IFNAME},
	[SET_GUARDED4] = {.name = "guarded4", .key_type = PORT_TYPE(TYPE_IPADDR), .key_len = 12},
	[SET_GUARDED6] = {.name = "guarded6", .key_type = PORT_TYPE(TYPE_IP6ADDR), .key_len = 24},
	[SET_SVC4] = {.name = "svc4",
		      .flags = NFT_SET_MAP,
		      .key_type = PORT_TYPE(TYPE_IPADDR),
		      .key_len = 12,
		      .data_type = TYPE_MARK,
		      .data_len = 4},
	[SET_SVC6] = {.name = "svc6",
		      .flags = NFT_SET_MAP,
		      .key_type = PORT_TYPE(TYPE_IP6ADDR),
		      .key_len = 24,
		      .data_type = TYPE_MARK,
		      .data_len = 4},
	[SET_BE4] = {.name = "be4",
		     .flags = NFT_SET_MAP,
		     .key_type = SLOT_TYPE(TYPE_IPADDR),
		     .key_len = 16,
		     .data_type = NODE_TYPE(TYPE_IPADDR),
		     .data_len = 8},
	[SET_BE6] = {.name = "be6",
		     .flags = NFT_SET_MAP,
		     .key_type = SLOT_TYPE(TYPE_IP6ADDR),
		     .key_len = 28,
		     .data_type = NODE_TYPE(TYPE_IP6ADDR),
		     .data_len = 20},
	[SET_MSS4] = {.name = "mss4",
		      .flags = NFT_SET_MAP,
		      .key_type = TYPE_IFNAME,
		      .key_len = NS_IFNAME,
		      .data_type = TYPE_INET_SERVICE,
		      .data_len = 2},
	[SET_MSS6] = {.name = "mss6",
		      .flags = NFT_SET_MAP,
		      .key_type = TYPE_IFNAME,
		      .key_len = NS_IFNAME,
		      .data_type = TYPE_INET_SERVICE,
		      .data_len = 2},
};

const struct nft_set *nft_set_shape(const char *name)
{
	for (int i = 0; i < N_SETS; i++)
		if (!strcmp(set_shapes[i].name, name))
			return &set_shapes[i];
	return NULL;
}

bool nft_set_same_shape(const struct nft_set *a, const struct nft_set *b)
{
	return !strcmp(a->name, b->name) && a->flags == b->flags && a->key_len == b->key_len &&
	       a->data_len == b->data_len;
}

/* The two families as the rules see them: offsets of RFC 791 and RFC 8200, registers by 32-bit index. */
static const struct nft_family families[2] = {
	{.number = IP_V4, .nfproto = NFPROTO_IPV4, .size = 4, .saddr = 12, .daddr = 16, .words = 1},
	{.number = IP_V6, .nfproto = NFPROTO_IPV6, .size = 16, .saddr = 8, .daddr = 24, .words = 4},
};

struct build {
	const struct netstate *s;
	const struct nft_features *features;
	struct arena *arena;
	struct nft_table *out;
	bool failed;
};

static void *build_alloc(struct build *b, size_t n, size_t size)
{
	void *p = arena_calloc(b->arena, n, size);

	if (!p)
		b->failed = true;
	return p;
}

static const char *const svc_names[2] = {"svc4", "svc6"};
static const char *const be_names[2] = {"be4", "be6"};
static const char *const guarded_names[2] = {"guarded4", "guarded6"};
static const char *const mss_names[2] = {"mss4", "mss6"};
static const char *const balance_names[2] = {"balance4", "balance6"};

/* Elements. */

/* address . protocol . port, each part padded to 32 bits; returns the bytes written. */
static size_t put_port(uint8_t *at, const struct ns_port *p)
{
	size_t size = ip_addr_size(&p->at.addr);
	uint16_t port = htons(p->at.port);

	memset(at, 0, size + 8);
	memcpy(at, p->at.addr.bytes, size);
	at[size] = p->protocol;
	memcpy(at + size + 4, &port, 2);
	return size + 8;
}

static size_t put_node(uint8_t *at, const struct ip_endpoint *e)
{
	size_t size = ip_addr_size(&e->addr);
	uint16_t port = htons(e->port);

	memset(at, 0, size + 4);
	memcpy(at, e->addr.bytes, size);
	memcpy(at + size, &port, 2);
	return size + 4;
}

static size_t put_u32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
	return 4;
}

static unsigned family_index(const struct ip_addr *a)
{
	return a->family == IP_V6;
}

static uint32_t service_group(struct build *b, const struct ns_service *s, size_t *exact)
{
	uint32_t n = (uint32_t)s->n_slots;

	if (!n)
		return NFT_GROUP_REFUSE;
	switch ((enum ns_balance)s->balance) {
	case NS_RANDOM:
		return NFT_GROUP_RANDOM | n;
	case NS_SOURCE:
		return NFT_GROUP_SOURCE | n;
	case NS_ROUNDROBIN:
		break;
	}
	if (*exact >= NFT_EXACT)
		return NFT_GROUP_ROUNDROBIN | n;
	(*exact)++;
	return NFT_GROUP_EXACT | n;
}

/*
 * Exact counters are for a gateway with up to NFT_EXACT round-robin services: which of more would have one
 * would depend on their order, and every change could move it.
 */
static size_t exact_start(const struct netstate *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_services; i++)
		n += s->services[i].balance == NS_ROUNDROBIN;
	return n > NFT_EXACT ? NFT_EXACT : 0;
}

static void count_elements(const struct netstate *s, size_t *n)
{
	n[SET_ALLOWED] = s->guard.n_allowed;
	for (size_t i = 0; i < s->guard.n_ports; i++)
		n[SET_GUARDED4 + family_index(&s->guard.ports[i].at.addr)]++;
	for (size_t i = 0; i < s->n_services; i++) {
		unsigned f = family_index(&s->services[i].port.at.addr);

		n[SET_SVC4 + f]++;
		n[SET_BE4 + f] += s->services[i].n_slots;
	}
	for (size_t i = 0; i < s->n_clamps; i++) {
		n[SET_MSS4] += s->clamps[i].interface[0] != '\0';
		n[SET_MSS6] += s->clamps[i].interface[0] != '\0';
	}
}

static uint8_t *next_record(struct nft_set *set)
{
	return set->elems + nft_set_record(set) * set->n++;
}

static void fill_services(struct build *b)
{
	size_t exact = exact_start(b->s);

	for (size_t i = 0; i < b->s->n_services; i++) {
		const struct ns_service *s = &b->s->services[i];
		unsigned f = family_index(&s->port.at.addr);
		uint8_t *at = next_record(&b->out->sets[SET_SVC4 + f]);

		at += put_port(at, &s->port);
		put_u32(at, service_group(b, s, &exact));
		for (size_t j = 0; j < s->n_slots; j++) {
			at = next_record(&b->out->sets[SET_BE4 + f]);
			at += put_port(at, &s->port);
			at += put_u32(at, (uint32_t)j);
			put_node(at, &s->slots[j]);
		}
	}
}

/* RFC 879 and RFC 8200: an MSS is the MTU less the headers without options. */
static void fill_clamps(struct build *b)
{
	for (size_t i = 0; i < b->s->n_clamps; i++) {
		const struct ns_clamp *c = &b->s->clamps[i];

		for (unsigned f = 0; f < 2 && c->interface[0]; f++) {
			uint8_t *at = next_record(&b->out->sets[SET_MSS4 + f]);
			uint16_t mss = htons(nft_mss(c->mtu, f));

			memcpy(at, c->interface, NS_IFNAME);
			memcpy(at + NS_IFNAME, &mss, 2);
		}
	}
}

static void build_sets(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	size_t n[N_SETS] = {0};
	struct nft_set *sets = build_alloc(b, N_SETS, sizeof(*sets));

	if (!sets)
		return;
	b->out->sets = sets;
	b->out->n_sets = N_SETS;
	count_elements(b->s, n);
	for (int i = 0; i < N_SETS; i++) {
		sets[i] = set_shapes[i];
		sets[i].elems = build_alloc(b, n[i], nft_set_record(&sets[i]));
	}
	if (b->failed)
		return;
	for (size_t i = 0; i < g->n_allowed; i++)
		memcpy(next_record(&sets[SET_ALLOWED]), g->allowed[i], NS_IFNAME);
	for (size_t i = 0; i < g->n_ports; i++)
		put_port(next_record(&sets[SET_GUARDED4 + family_index(&g->ports[i].at.addr)]), &g->ports[i]);
	fill_services(b);
	fill_clamps(b);
	for (int i = 0; i < N_SETS; i++)
		nft_set_sort(&sets[i]);
}

/* Chains. */

static struct nft_chain *add_chain(struct build *b, const char *name, const char *type, uint32_t hook,
				   int32_t priority, size_t max_rules)
{
	struct nft_chain *c = &b->out->chains[b->out->n_chains++];

	strcpy(c->name, name);
	strcpy(c->type, type);
	c->hook = hook;
	c->priority = priority;
	c->rules = build_alloc(b, max_rules, sizeof(*c->rules));
	return c;
}

static void add_rule(struct build *b, struct nft_chain *c, const struct rule_text *r)
{
	struct nx *x = build_alloc(b, r->n, sizeof(*x));

	if (!x || !c->rules)
		return;
	memcpy(x, r->x, r->n * sizeof(*x));
	c->rules[c->n_rules].x = x;
	c->rules[c->n_rules++].n = r->n;
}

static void build_guard(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	struct nft_chain *c =
		add_chain(b, "guard", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW, g->n_peers + 3);
	struct rule_text r = {0};

	rule_meta(&r, NFT_META_IIFNAME, 0);
	rule_lookup(&r, "allowed", 0);
	rule_verdict(&r, NF_ACCEPT, NULL);
	add_rule(b, c, &r);
	for (size_t i = 0; i < g->n_peers; i++) {
		const struct ns_peer *p = &g->peers[i];
		const struct nft_family *f = &families[family_index(&p->network.addr)];

		if (!p->interface[0] && !b->features->secpath)
			continue;
		r.n = 0;
		rule_family(&r, f);
		if (p->interface[0])
			rule_interface(&r, NFT_META_IIFNAME, p->interface);
		else
			rule_secpath(&r, true);
		rule_prefix(&r, f, f->saddr, &p->network);
		rule_verdict(&r, NF_ACCEPT, NULL);
		add_rule(b, c, &r);
	}
	for (unsigned f = 0; f < 2; f++) {
		r.n = 0;
		rule_family(&r, &families[f]);
		rule_port_key(&r, &families[f]);
		rule_lookup(&r, guarded_names[f], 0);
		rule_counter(&r);
		rule_verdict(&r, NF_DROP, NULL);
		add_rule(b, c, &r);
	}
}

/* New flows to a service without slots: a reset for TCP, port unreachable for the rest. */
static void build_refuse(struct build *b, const char *name, uint32_t hook)
{
	struct nft_chain *c = add_chain(b, name, "filter", hook, NF_IP_PRI_MANGLE, 4);
	uint32_t refuse = NFT_GROUP_REFUSE;

	for (unsigned f = 0; f < 2; f++) {
		for (int tcp = 1; tcp >= 0; tcp--) {
			struct rule_text r = {0};

			rule_ct_new(&r);
			rule_family(&r, &families[f]);
			rule_port_key(&r, &families[f]);
			rule_map(&r, svc_names[f], 0, 8);
			rule_cmp(&r, 8, NFT_CMP_EQ, &refuse, 4);
			if (tcp)
				rule_protocol(&r, IPPROTO_TCP);
			rule_reject(&r, tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH,
				    tcp ? 0 : NFT_REJECT_ICMPX_PORT_UNREACH);
			add_rule(b, c, &r);
		}
	}
}

static void build_mss(struct build *b, const char *name, bool in)
{
	struct nft_chain *c = add_chain(b, name, "filter", in ? NF_INET_PRE_ROUTING : NF_INET_POST_ROUTING,
					NF_IP_PRI_MANGLE, 2 + b->s->n_clamps);
	bool by_interface = b->out->sets[SET_MSS4].n > 0;

	for (unsigned f = 0; f < 2 && by_interface; f++) {
		struct rule_text r = {0};

		rule_syn(&r);
		rule_family(&r, &families[f]);
		rule_meta(&r, in ? NFT_META_IIFNAME : NFT_META_OIFNAME, 0);
		rule_map(&r, mss_names[f], 0, 8);
		rule_set_mss(&r, 8);
		add_rule(b, c, &r);
	}
	for (size_t i = 0; i < b->s->n_clamps; i++) {
		const struct ns_clamp *clamp = &b->s->clamps[i];
		unsigned f = family_index(&clamp->network.addr);
		uint16_t mss = htons(nft_mss(clamp->mtu, f));
		struct rule_text r = {0};

		if (clamp->interface[0])
			continue;
		rule_syn(&r);
		rule_family(&r, &families[f]);
		rule_prefix(&r, &families[f], in ? families[f].saddr : families[f].daddr, &clamp->network);
		rule_value(&r, 8, &mss, 2);
		rule_set_mss(&r, 8);
		add_rule(b, c, &r);
	}
}

static void rule_to_backend(struct rule_text *r, unsigned f)
{
	rule_map(r, be_names[f], 0, 8);
	rule_dnat(r, &families[f], 8);
}

/* The round-robin services that have a counter of their own, each by its port. */
static void build_exact(struct build *b, struct nft_chain *c, unsigned f)
{
	size_t exact = exact_start(b->s);

	for (size_t i = 0; i < b->s->n_services; i++) {
		const struct ns_service *s = &b->s->services[i];
		uint32_t group = service_group(b, s, &exact);
		struct rule_text r = {0};

		if ((group & ~(uint32_t)NFT_GROUP_SLOTS) != NFT_GROUP_EXACT ||
		    family_index(&s->port.at.addr) != f)
			continue;
		rule_port_match(&r, &families[f], &s->port);
		rule_numgen(&r, NFT_NG_INCREMENTAL, (uint32_t)s->n_slots, (uint8_t)(families[f].words + 2));
		rule_to_backend(&r, f);
		add_rule(b, c, &r);
	}
}

/* Distinct groups of one family, ascending; returns their number. */
static size_t distinct_groups(const struct nft_set *svc, uint32_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < svc->n; i++) {
		uint32_t group;
		size_t lo = 0, hi = n;

		memcpy(&group, svc->elems + i * nft_set_record(svc) + svc->key_len, 4);
		if (group == NFT_GROUP_REFUSE || (group & ~(uint32_t)NFT_GROUP_SLOTS) == NFT_GROUP_EXACT)
			continue;
		while (lo < hi) {
			size_t mid = (lo + hi) / 2;

			if (out[mid] < group)
				lo = mid + 1;
			else
				hi = mid;
		}
		if (lo < n && out[lo] == group)
			continue;
		memmove(out + lo + 1, out + lo, (n - lo) * sizeof(*out));
		out[lo] = group;
		n++;
	}
	return n;
}

static void build_group(struct build *b, struct nft_chain *c, unsigned f, uint32_t group)
{
	const struct nft_family *fam = &families[f];
	uint32_t slots = group & NFT_GROUP_SLOTS;
	uint8_t slot = (uint8_t)(fam->words + 2);
	struct rule_text r = {0};

	rule_port_key(&r, fam);
	rule_map(&r, svc_names[f], 0, 8);
	rule_cmp(&r, 8, NFT_CMP_EQ, &group, 4);
	switch (group & ~(uint32_t)NFT_GROUP_SLOTS) {
	case NFT_GROUP_SOURCE:
		rule_payload(&r, NFT_PAYLOAD_NETWORK_HEADER, fam->saddr, fam->size, 12);
		rule_hash(&r, 12, fam->size, slots, slot);
		break;
	case NFT_GROUP_RANDOM:
		rule_numgen(&r, NFT_NG_RANDOM, slots, slot);
		break;
	default:
		rule_numgen(&r, NFT_NG_INCREMENTAL, slots, slot);
	}
	rule_to_backend(&r, f);
	add_rule(b, c, &r);
}

static void build_balance(struct build *b, unsigned f)
{
	const struct nft_set *svc = &b->out->sets[SET_SVC4 + f];
	uint32_t *groups = build_alloc(b, svc->n + 1, sizeof(*groups));
	struct nft_chain *c;
	size_t n;

	if (!groups)
		return;
	n = distinct_groups(svc, groups);
	c = add_chain(b, balance_names[f], "", 0, 0, n + NFT_EXACT);
	build_exact(b, c, f);
	for (size_t i = 0; i < n; i++)
		build_group(b, c, f, groups[i]);
}

static void build_dnat(struct build *b, const char *name, uint32_t hook)
{
	struct nft_chain *c = add_chain(b, name, "nat", hook, NF_IP_PRI_NAT_DST, 2);

	for (unsigned f = 0; f < 2; f++) {
		struct rule_text r = {0};

		rule_family(&r, &families[f]);
		rule_port_key(&r, &families[f]);
		rule_map(&r, svc_names[f], 0, 8);
		rule_verdict(&r, NFT_JUMP, balance_names[f]);
		add_rule(b, c, &r);
	}
}

/* The reply of a backend on the client's own network would go to the client directly, past the NAT. */
static void build_masquerade(struct build *b)
{
	struct nft_chain *c;

	if (!b->s->guard.private_if[0])
		return;
	c = add_chain(b, "masquerade", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC, 2);
	for (unsigned f = 0; f < 2; f++) {
		struct rule_text r = {0};

		rule_family(&r, &families[f]);
		rule_interface(&r, NFT_META_IIFNAME, b->s->guard.private_if);
		rule_ct_status(&r, IPS_DST_NAT, true);
		rule_original_port_key(&r, &families[f]);
		rule_map(&r, svc_names[f], 0, 8);
		rule_masquerade(&r, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
		add_rule(b, c, &r);
	}
}

static void forward_drop(struct build *b, struct nft_chain *c, struct rule_text *r)
{
	rule_counter(r);
	rule_verdict(r, NF_DROP, NULL);
	add_rule(b, c, r);
	r->n = 0;
}

static void build_cut(struct build *b, struct nft_chain *c)
{
	const struct ns_guard *g = &b->s->guard;
	struct rule_text r = {0};

	for (size_t i = 0; i < g->n_private_networks; i++) {
		const struct ip_prefix *p = &g->private_networks[i];
		const struct nft_family *f = &families[family_index(&p->addr)];

		rule_family(&r, f);
		rule_interface(&r, NFT_META_OIFNAME, g->external_if);
		rule_prefix(&r, f, f->saddr, p);
		forward_drop(b, c, &r);
		rule_family(&r, f);
		rule_interface(&r, NFT_META_IIFNAME, g->external_if);
		rule_prefix(&r, f, f->daddr, p);
		forward_drop(b, c, &r);
	}
	if (!g->private_if[0])
		return;
	rule_interface(&r, NFT_META_IIFNAME, g->private_if);
	rule_interface(&r, NFT_META_OIFNAME, g->external_if);
	forward_drop(b, c, &r);
	rule_interface(&r, NFT_META_IIFNAME, g->external_if);
	rule_interface(&r, NFT_META_OIFNAME, g->private_if);
	forward_drop(b, c, &r);
}

static void build_forward(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	struct rule_text r = {0};
	struct nft_chain *c;

	if ((!g->shield && !g->cut_egress) || !g->external_if[0] || !strcmp(g->external_if, g->private_if))
		return;
	c = add_chain(b, "forward", "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER,
		      3 * g->n_private_networks + 2);
	if (g->cut_egress)
		build_cut(b, c);
	for (size_t i = 0; i < g->n_private_networks && g->shield; i++) {
		const struct ip_prefix *p = &g->private_networks[i];
		const struct nft_family *f = &families[family_index(&p->addr)];

		rule_interface(&r, NFT_META_IIFNAME, g->external_if);
		rule_ct_new(&r);
		rule_ct_status(&r, IPS_DST_NAT, false);
		if (b->features->secpath)
			rule_secpath(&r, false);
		rule_family(&r, f);
		rule_prefix(&r, f, f->daddr, p);
		forward_drop(b, c, &r);
	}
}

int nft_table_build(const struct netstate *s, const struct nft_features *features, bool protect,
		    struct arena *arena, struct nft_table *out)
{
	struct build b = {.s = s, .features = features, .arena = arena, .out = out};

	memset(out, 0, sizeof(*out));
	if (!s->table)
		return 0;
	out->present = true;
	out->owned = protect && features->owner_persist;
	out->chains = build_alloc(&b, 12, sizeof(*out->chains));
	build_sets(&b);
	if (b.failed)
		return -ENOMEM;
	build_guard(&b);
	if (s->n_services) {
		build_balance(&b, 0);
		build_balance(&b, 1);
		build_refuse(&b, "refuse", NF_INET_PRE_ROUTING);
		build_refuse(&b, "refuse_local", NF_INET_LOCAL_OUT);
		build_dnat(&b, "dnat", NF_INET_PRE_ROUTING);
		build_dnat(&b, "dnat_local", NF_INET_LOCAL_OUT);
		build_masquerade(&b);
	}
	if (s->n_clamps) {
		build_mss(&b, "mss_in", true);
		build_mss(&b, "mss_out", false);
	}
	build_forward(&b);
	return b.failed ? -ENOMEM : 0;
}
