/* SPDX-License-Identifier: Apache-2.0 */
/* Who may reach what: the guarded ports, the shield, the egress cut. */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "netcfg/model/nft_build_internal.h"

void build_guard(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	struct nft_chain *c =
		build_chain(b, "guard", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW, g->n_peers + 4);
	struct rule_text r = {0};

	/* Most packets come this way, and a comparison costs less than a look into a set. */
	if (g->private_if[0]) {
		rule_interface(&r, NFT_META_IIFNAME, g->private_if);
		rule_verdict(&r, NF_ACCEPT, NULL);
		build_rule(b, c, &r);
		r.n = 0;
	}
	rule_meta(&r, NFT_META_IIFNAME, 0);
	rule_lookup(&r, "allowed", 0);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
	for (size_t i = 0; i < g->n_peers; i++) {
		const struct ns_peer *p = &g->peers[i];
		const struct nft_family *f = &build_families[build_family(&p->network.addr)];

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
		build_rule(b, c, &r);
	}
	for (unsigned f = 0; f < 2; f++) {
		r.n = 0;
		rule_family(&r, &build_families[f]);
		rule_port_key(&r, &build_families[f]);
		rule_lookup(&r, build_guarded[f], 0);
		rule_counter(&r);
		rule_verdict(&r, NF_DROP, NULL);
		build_rule(b, c, &r);
	}
}

static void forward_drop(struct build *b, struct nft_chain *c, struct rule_text *r)
{
	rule_counter(r);
	rule_verdict(r, NF_DROP, NULL);
	build_rule(b, c, r);
	r->n = 0;
}

/* What IPsec takes on its way out, or has decrypted, does not cross the external interface in the clear. */
static void rule_in_clear(struct build *b, struct rule_text *r, bool out)
{
	if (!b->features->secpath)
		return;
	if (out)
		rule_unencrypted(r);
	else
		rule_secpath(r, false);
}

static void build_cut(struct build *b, struct nft_chain *c)
{
	const struct ns_guard *g = &b->s->guard;
	struct rule_text r = {0};

	for (size_t i = 0; i < g->n_private_networks; i++) {
		const struct ip_prefix *p = &g->private_networks[i];
		const struct nft_family *f = &build_families[build_family(&p->addr)];

		for (int out = 1; out >= 0; out--) {
			rule_family(&r, f);
			rule_interface(&r, out ? NFT_META_OIFNAME : NFT_META_IIFNAME, g->external_if);
			rule_in_clear(b, &r, out);
			rule_prefix(&r, f, out ? f->saddr : f->daddr, p);
			forward_drop(b, c, &r);
		}
	}
	if (!g->private_if[0])
		return;
	for (int out = 1; out >= 0; out--) {
		rule_interface(&r, NFT_META_IIFNAME, out ? g->private_if : g->external_if);
		rule_interface(&r, NFT_META_OIFNAME, out ? g->external_if : g->private_if);
		rule_in_clear(b, &r, out);
		forward_drop(b, c, &r);
	}
}

/* From outside to a private network: no new flow but what a NAT rule redirected, and nothing that is of no
 * flow. */
static void build_shield(struct build *b, struct nft_chain *c, const struct ip_prefix *p)
{
	const struct nft_family *f = &build_families[build_family(&p->addr)];
	struct rule_text r = {0};

	for (int stray = 0; stray < 2; stray++) {
		rule_interface(&r, NFT_META_IIFNAME, b->s->guard.external_if);
		if (stray) {
			rule_ct_stray(&r);
		} else {
			rule_ct_new(&r);
			rule_ct_status(&r, IPS_DST_NAT, false);
		}
		if (b->features->secpath)
			rule_secpath(&r, false);
		rule_family(&r, f);
		rule_prefix(&r, f, f->daddr, p);
		forward_drop(b, c, &r);
	}
}

/* What the shield is not about goes on at once, however many networks it covers. */
static void build_leave(struct build *b, struct nft_chain *c)
{
	struct rule_text r = {0};

	rule_not_interface(&r, NFT_META_IIFNAME, b->s->guard.external_if);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
	r.n = 0;
	rule_ct_known(&r);
	rule_verdict(&r, NF_ACCEPT, NULL);
	build_rule(b, c, &r);
}

void build_forward(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	struct nft_chain *c;

	if ((!g->shield && !g->cut_egress) || !g->external_if[0] || !strcmp(g->external_if, g->private_if))
		return;
	c = build_chain(b, "forward", "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER,
			2 * g->n_private_networks + 2 * g->n_shielded + 4);
	if (g->cut_egress)
		build_cut(b, c);
	build_leave(b, c);
	for (size_t i = 0; i < g->n_shielded && g->shield; i++)
		build_shield(b, c, &g->shielded[i]);
}
