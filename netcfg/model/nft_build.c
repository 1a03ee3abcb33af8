/* SPDX-License-Identifier: Apache-2.0 */
/* The chains of our table. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <string.h>

#include "netcfg/model/nft_build_internal.h"

/* Offsets of RFC 791 and RFC 8200; registers by 32-bit index. */
const struct nft_family build_families[2] = {
	{.number = IP_V4, .nfproto = NFPROTO_IPV4, .size = 4, .saddr = 12, .daddr = 16, .words = 1},
	{.number = IP_V6, .nfproto = NFPROTO_IPV6, .size = 16, .saddr = 8, .daddr = 24, .words = 4},
};
const char *const build_svc[2] = {"svc4", "svc6"};
const char *const build_be[2] = {"be4", "be6"};
const char *const build_guarded[2] = {"guarded4", "guarded6"};
const char *const build_mss[2] = {"mss4", "mss6"};
const char *const build_tried[2] = {"tried4", "tried6"};
const char *const build_next[2] = {"next4", "next6"};
const char *const build_balance_name[2] = {"balance4", "balance6"};

void *build_alloc(struct build *b, size_t n, size_t size)
{
	void *p = arena_calloc(b->arena, n, size);

	if (!p)
		b->failed = true;
	return p;
}

unsigned build_family(const struct ip_addr *a)
{
	return a->family == IP_V6;
}

struct nft_chain *build_chain(struct build *b, const char *name, const char *type, uint32_t hook,
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

void build_rule(struct build *b, struct nft_chain *c, const struct rule_text *r)
{
	struct nx *x = build_alloc(b, r->n, sizeof(*x));

	if (!x || !c->rules)
		return;
	memcpy(x, r->x, r->n * sizeof(*x));
	c->rules[c->n_rules].x = x;
	c->rules[c->n_rules++].n = r->n;
}

/* New flows to a service without slots: a reset for TCP, port unreachable for the rest. */
static void build_refuse(struct build *b, struct nft_chain *c, unsigned f)
{
	uint32_t refuse = NFT_GROUP_REFUSE;

	for (int tcp = 1; tcp >= 0; tcp--) {
		struct rule_text r = {0};

		rule_family(&r, &build_families[f]);
		rule_port_key(&r, &build_families[f]);
		rule_map(&r, build_svc[f], 0, 8);
		rule_cmp(&r, 8, NFT_CMP_EQ, &refuse, 4);
		if (tcp)
			rule_protocol(&r, IPPROTO_TCP);
		rule_reject(&r, tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH,
			    tcp ? 0 : NFT_REJECT_ICMPX_PORT_UNREACH);
		build_rule(b, c, &r);
	}
}

/* What belongs to no flow and begins none: its flow is gone, with a dead backend. The client is to know. */
static void build_reset(struct build *b, struct nft_chain *c, unsigned f)
{
	struct rule_text r = {0};

	rule_tcp_flags(&r, NFT_TCP_SYN | NFT_TCP_ACK | NFT_TCP_RST, NFT_TCP_SYN, false);
	rule_tcp_flags(&r, NFT_TCP_RST, 0, true);
	rule_family(&r, &build_families[f]);
	rule_port_key(&r, &build_families[f]);
	rule_map(&r, build_svc[f], 0, 8);
	rule_reject(&r, NFT_REJECT_TCP_RST, 0);
	build_rule(b, c, &r);
}

/* Every packet comes this way: those of a flow leave first, then the SYNs that have a backend to go to. */
static void build_admit(struct build *b, const char *name, uint32_t hook)
{
	struct nft_chain *c = build_chain(b, name, "filter", hook, NF_IP_PRI_MANGLE, 9);
	struct rule_text r = {0};

	rule_ct_not_new(&r);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
	for (unsigned f = 0; f < 2 && b->features->retry; f++)
		build_retry_start(b, c, f);
	for (unsigned f = 0; f < 2; f++) {
		build_refuse(b, c, f);
		build_reset(b, c, f);
	}
}

static void build_clamp(struct build *b, const char *name, bool in)
{
	struct nft_chain *c = build_chain(b, name, "filter", in ? NF_INET_PRE_ROUTING : NF_INET_POST_ROUTING,
					  NF_IP_PRI_MANGLE, 2 + b->s->n_clamps);
	bool by_interface = b->out->sets[SET_MSS4].n > 0;

	for (unsigned f = 0; f < 2 && by_interface; f++) {
		struct rule_text r = {0};

		rule_syn(&r);
		rule_family(&r, &build_families[f]);
		rule_meta(&r, in ? NFT_META_IIFNAME : NFT_META_OIFNAME, 0);
		rule_map(&r, build_mss[f], 0, 8);
		rule_set_mss(&r, 8);
		build_rule(b, c, &r);
	}
	for (size_t i = 0; i < b->s->n_clamps; i++) {
		const struct ns_clamp *clamp = &b->s->clamps[i];
		unsigned f = build_family(&clamp->network.addr);
		uint16_t mss = htons(nft_mss(clamp->mtu, f));
		struct rule_text r = {0};

		if (clamp->interface[0])
			continue;
		rule_syn(&r);
		rule_family(&r, &build_families[f]);
		rule_prefix(&r, &build_families[f], in ? build_families[f].saddr : build_families[f].daddr,
			    &clamp->network);
		rule_value(&r, 8, &mss, 2);
		rule_set_mss(&r, 8);
		build_rule(b, c, &r);
	}
}

static void rule_to_backend(struct rule_text *r, unsigned f)
{
	rule_map(r, build_be[f], 0, 8);
	rule_dnat(r, &build_families[f], 8);
}

/* To the slot that a counter or chance gives. With a retry to come, the slot is noted on the way. */
static void rule_balance(struct rule_text *r, unsigned f, uint32_t group, uint32_t type)
{
	const struct nft_family *fam = &build_families[f];

	if (!(group & NFT_GROUP_RETRY)) {
		rule_numgen(r, type, group & NFT_GROUP_SLOTS, (uint8_t)(fam->words + 2));
		rule_to_backend(r, f);
		return;
	}
	rule_numgen(r, type, group & NFT_GROUP_SLOTS, 0);
	rule_meta_set(r, NFT_META_MARK, 0);
	rule_client_key(r, fam);
	rule_meta(r, NFT_META_MARK, 15);
	rule_tried_note(r, build_tried[f], 15);
	rule_marked_to_backend(r, f);
}

/* The round-robin services that have a counter of their own, each by its port. */
static void build_exact(struct build *b, struct nft_chain *c, unsigned f)
{
	size_t exact = b->exact_start;

	for (size_t i = 0; i < b->s->n_services; i++) {
		const struct ns_service *s = &b->s->services[i];
		uint32_t group = build_group(b, s, &exact);
		struct rule_text r = {0};

		if ((group & NFT_GROUP_KIND) != NFT_GROUP_EXACT || build_family(&s->port.at.addr) != f)
			continue;
		rule_port_match(&r, &build_families[f], &s->port);
		rule_balance(&r, f, group, NFT_NG_INCREMENTAL);
		build_rule(b, c, &r);
	}
}

/* Puts GROUP into the N ascending ones of V unless it is among them; returns their number. */
static size_t add_group(uint32_t *v, size_t n, uint32_t group)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (v[mid] < group)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < n && v[lo] == group)
		return n;
	memmove(v + lo + 1, v + lo, (n - lo) * sizeof(*v));
	v[lo] = group;
	return n + 1;
}

/* Few services have small maps, and mostly rules of their own: no prospects are needed. */
static size_t n_prospects(const struct netstate *s)
{
	return s->n_services > NFT_EXACT ? s->n_prospects : 0;
}

/* Distinct groups of one family, ascending, those of the prospects among them; returns their number. */
static size_t distinct_groups(const struct build *b, unsigned f, uint32_t *out)
{
	const struct nft_set *svc = nft_table_set(b->out, build_svc[f]);
	size_t n = 0;

	for (size_t i = 0; i < svc->n; i++) {
		uint32_t group;

		memcpy(&group, svc->elems + i * nft_set_record(svc) + svc->key_len, 4);
		if (group != NFT_GROUP_REFUSE)
			n = add_group(out, n, group);
	}
	for (size_t i = 0; i < n_prospects(b->s); i++)
		if (b->s->prospects[i].v6 == (f == 1))
			n = add_group(out, n, build_prospect(b, &b->s->prospects[i]));
	return n;
}

bool build_lasts(const struct netstate *s, unsigned f, const struct nft_features *features, uint32_t group)
{
	struct build b = {.s = s, .features = features};

	for (size_t i = 0; i < n_prospects(s); i++)
		if (s->prospects[i].v6 == (f == 1) && build_prospect(&b, &s->prospects[i]) == group)
			return true;
	return group == NFT_GROUP_REFUSE;
}

static void rule_group(struct rule_text *r, unsigned f, uint32_t group)
{
	rule_port_key(r, &build_families[f]);
	rule_map(r, build_svc[f], 0, 8);
	rule_cmp(r, 8, NFT_CMP_EQ, &group, 4);
}

static void build_shared(struct build *b, struct nft_chain *c, unsigned f, uint32_t group)
{
	const struct nft_family *fam = &build_families[f];
	struct rule_text r = {0};

	rule_group(&r, f, group);
	switch (group & NFT_GROUP_KIND) {
	case NFT_GROUP_SOURCE:
		rule_payload(&r, NFT_PAYLOAD_NETWORK_HEADER, fam->saddr, fam->size, 12);
		rule_port_key(&r, fam);
		rule_hash(&r, 12, fam->size, group & NFT_GROUP_SLOTS, (uint8_t)(fam->words + 2));
		rule_to_backend(&r, f);
		break;
	case NFT_GROUP_RANDOM:
		rule_port_key(&r, fam);
		rule_balance(&r, f, group, NFT_NG_RANDOM);
		break;
	default:
		rule_port_key(&r, fam);
		rule_balance(&r, f, group, NFT_NG_INCREMENTAL);
	}
	build_rule(b, c, &r);
}

/* Where a client's port could not be noted, its slot is in the mark: balanced all the same, without a retry.
 */
static void build_unnoted(struct build *b, struct nft_chain *c, unsigned f, uint32_t group)
{
	struct rule_text r = {0};

	rule_group(&r, f, group);
	rule_marked_to_backend(&r, f);
	build_rule(b, c, &r);
}

static void build_balance(struct build *b, unsigned f)
{
	const struct nft_set *svc = nft_table_set(b->out, build_svc[f]);
	uint32_t *groups = build_alloc(b, svc->n + b->s->n_prospects + 1, sizeof(*groups));
	struct nft_chain *c;
	size_t n;

	if (!groups)
		return;
	n = distinct_groups(b, f, groups);
	c = build_chain(b, build_balance_name[f], "", 0, 0, 2 * n + NFT_EXACT + 1);
	if (b->features->retry)
		build_retry_jump(b, c, f);
	build_exact(b, c, f);
	for (size_t i = n; i-- > 0;)
		if ((groups[i] & NFT_GROUP_KIND) != NFT_GROUP_EXACT)
			build_shared(b, c, f, groups[i]);
	for (size_t i = n; i-- > 0;)
		if (groups[i] & NFT_GROUP_RETRY)
			build_unnoted(b, c, f, groups[i]);
}

static void build_dnat(struct build *b, const char *name, uint32_t hook)
{
	struct nft_chain *c = build_chain(b, name, "nat", hook, NF_IP_PRI_NAT_DST, 2);

	for (unsigned f = 0; f < 2; f++) {
		struct rule_text r = {0};

		rule_family(&r, &build_families[f]);
		rule_port_key(&r, &build_families[f]);
		rule_map(&r, build_svc[f], 0, 8);
		rule_verdict(&r, NFT_JUMP, build_balance_name[f]);
		build_rule(b, c, &r);
	}
}

/* The reply of a backend on the client's own network would go to the client directly, past the NAT. */
static void build_masquerade(struct build *b)
{
	struct nft_chain *c;

	if (!b->s->guard.private_if[0])
		return;
	c = build_chain(b, "masq", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC, 2);
	for (unsigned f = 0; f < 2; f++) {
		struct rule_text r = {0};

		rule_family(&r, &build_families[f]);
		rule_interface(&r, NFT_META_IIFNAME, b->s->guard.private_if);
		rule_ct_status(&r, IPS_DST_NAT, true);
		rule_original_port_key(&r, &build_families[f]);
		rule_map(&r, build_svc[f], 0, 8);
		rule_masquerade(&r, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
		build_rule(b, c, &r);
	}
}

int nft_table_build(const struct netstate *s, const struct nft_features *features, bool protect,
		    struct arena *arena, struct nft_table *out)
{
	struct build b = {.s = s, .features = features, .arena = arena, .out = out};

	b.exact_start = build_exact_start(s);
	memset(out, 0, sizeof(*out));
	if (!s->table)
		return 0;
	out->present = true;
	out->owned = protect && features->owner_persist;
	out->chains = build_alloc(&b, 20, sizeof(*out->chains));
	build_sets(&b);
	if (b.failed)
		return -ENOMEM;
	build_guard(&b);
	if (s->n_services) {
		for (unsigned f = 0; f < 2; f++) {
			if (features->retry)
				build_retry_again(&b, f);
			build_balance(&b, f);
		}
		build_admit(&b, "refuse", NF_INET_PRE_ROUTING);
		build_admit(&b, "refuse_local", NF_INET_LOCAL_OUT);
		build_dnat(&b, "services", NF_INET_PRE_ROUTING);
		build_dnat(&b, "services_local", NF_INET_LOCAL_OUT);
		build_masquerade(&b);
		build_untracked(&b);
		if (features->retry)
			build_masks(&b);
	}
	if (s->n_clamps) {
		build_clamp(&b, "mss_in", true);
		build_clamp(&b, "mss_out", false);
	}
	build_forward(&b);
	return b.failed ? -ENOMEM : 0;
}

int nft_table_build_sets(const struct netstate *s, size_t exact_start, const struct nft_features *features,
			 struct arena *arena, struct nft_table *out)
{
	struct build b = {
		.s = s, .features = features, .arena = arena, .out = out, .exact_start = exact_start};

	memset(out, 0, sizeof(*out));
	build_sets(&b);
	return b.failed ? -ENOMEM : 0;
}

int nft_table_build_balance(const struct netstate *s, unsigned f, const struct nft_features *features,
			    struct arena *arena, struct nft_table *out)
{
	struct build b = {.s = s, .features = features, .arena = arena, .out = out};

	b.exact_start = build_exact_start(s);
	out->n_chains = 0;
	out->chains = build_alloc(&b, 1, sizeof(*out->chains));
	if (out->chains)
		build_balance(&b, f);
	return b.failed ? -ENOMEM : 0;
}
