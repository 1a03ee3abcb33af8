/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/netplan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct planner {
	const struct netstate *wanted;
	const struct plan_observed *observed;
	const struct plan_recorded *recorded;
	struct arena *arena;
	struct plan *out;
	size_t cap;
	bool failed;
};

static struct plan_op *add_op(struct planner *p, enum plan_kind kind, const char *line)
{
	struct plan *plan = p->out;

	if (plan->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 16;
		struct plan_op *ops = arena_calloc(p->arena, cap, sizeof(*ops));

		if (!ops) {
			p->failed = true;
			return NULL;
		}
		if (plan->n)
			memcpy(ops, plan->ops, plan->n * sizeof(*ops));
		plan->ops = ops;
		p->cap = cap;
	}
	plan->ops[plan->n].kind = kind;
	plan->ops[plan->n].line = arena_strdup(p->arena, line);
	if (!plan->ops[plan->n].line)
		p->failed = true;
	return &plan->ops[plan->n++];
}

static struct plan_op *add_opf(struct planner *p, enum plan_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static struct plan_op *add_opf(struct planner *p, enum plan_kind kind, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return add_op(p, kind, line);
}

static const struct ns_link *find_link(const struct ns_link *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return &v[i];
	return NULL;
}

static const struct ns_route *find_route(const struct ns_route *v, size_t n, const struct ip_prefix *network)
{
	for (size_t i = 0; i < n; i++)
		if (!ip_prefix_cmp(&v[i].network, network))
			return &v[i];
	return NULL;
}

/* Of ours to the network of WANT the one that is it already, else the first; what is beside it is a leftover.
 */
static const struct ns_route *route_in_place(const struct plan_observed *o, const struct ns_route *want)
{
	for (size_t i = 0; i < o->n_routes; i++)
		if (!memcmp(&o->routes[i], want, sizeof(*want)))
			return &o->routes[i];
	return find_route(o->routes, o->n_routes, &want->network);
}

static const struct ns_sysctl *find_sysctl(const struct ns_sysctl *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return &v[i];
	return NULL;
}

static void plan_sysctls(struct planner *p)
{
	for (size_t i = 0; i < p->wanted->n_sysctls; i++) {
		const struct ns_sysctl *want = &p->wanted->sysctls[i];
		const struct ns_sysctl *have =
			find_sysctl(p->observed->sysctls, p->observed->n_sysctls, want->name);
		struct plan_op *op;

		if (!have || !strcmp(have->value, want->value))
			continue;
		op = add_opf(p, PLAN_SYSCTL, "~ sysctl %s %s -> %s", want->name, have->value, want->value);
		if (op)
			op->sysctl = *want;
	}
}

static void plan_links(struct planner *p)
{
	for (size_t i = 0; i < p->wanted->n_links; i++) {
		const struct ns_link *want = &p->wanted->links[i];
		const struct ns_link *have = find_link(p->observed->links, p->observed->n_links, want->name);
		struct plan_op *op;

		if (!have || have->mtu == want->mtu)
			continue;
		op = add_opf(p, PLAN_LINK, "~ link %s mtu %u -> %u", want->name, have->mtu, want->mtu);
		if (op)
			op->link = *want;
	}
}

static void plan_routes(struct planner *p)
{
	char net[IP_PREFIX_STRLEN];

	for (size_t i = 0; i < p->wanted->n_routes; i++) {
		const struct ns_route *want = &p->wanted->routes[i];
		const struct ns_route *have = route_in_place(p->observed, want);
		struct plan_op *op;

		if (have && !memcmp(have, want, sizeof(*have)))
			continue;
		ip_prefix_print(&want->network, net);
		op = have ? add_opf(p, PLAN_ROUTE, "~ route %s mtu %u -> %u dev %s", net, have->mtu,
				    want->mtu, want->interface)
			  : add_opf(p, PLAN_ROUTE, "+ route %s mtu %u dev %s", net, want->mtu,
				    want->interface);
		if (op) {
			op->route = *want;
			op->has_old_route = have != NULL;
			if (have)
				op->old_route = *have;
		}
	}
}

/* What is ours and no longer wanted goes last, in the reverse of the order it came in. */
static void plan_removals(struct planner *p)
{
	char net[IP_PREFIX_STRLEN];
	struct plan_op *op;

	for (size_t i = p->observed->n_routes; i-- > 0;) {
		const struct ns_route *have = &p->observed->routes[i];
		const struct ns_route *want =
			find_route(p->wanted->routes, p->wanted->n_routes, &have->network);

		if (want && route_in_place(p->observed, want) == have)
			continue;
		op = add_opf(p, PLAN_ROUTE_REMOVE, "- route %s mtu %u", ip_prefix_print(&have->network, net),
			     have->mtu);
		if (op)
			op->route = *have;
	}
	for (size_t i = 0; i < p->recorded->n_links; i++) {
		const struct plan_was_link *was = &p->recorded->links[i];
		const struct ns_link *have = find_link(p->observed->links, p->observed->n_links, was->name);

		if (!have || have->mtu != was->set || was->original == was->set ||
		    find_link(p->wanted->links, p->wanted->n_links, was->name))
			continue;
		op = add_opf(p, PLAN_LINK_RESTORE, "- link %s mtu %u -> %u", was->name, have->mtu,
			     was->original);
		if (!op)
			continue;
		op->link = *have;
		op->link.mtu = was->original;
	}
	for (size_t i = 0; i < p->recorded->n_sysctls; i++) {
		const struct plan_was_sysctl *was = &p->recorded->sysctls[i];
		const struct ns_sysctl *have =
			find_sysctl(p->observed->sysctls, p->observed->n_sysctls, was->name);

		if (!have || strcmp(have->value, was->set) || !strcmp(was->original, was->set) ||
		    find_sysctl(p->wanted->sysctls, p->wanted->n_sysctls, was->name))
			continue;
		op = add_opf(p, PLAN_SYSCTL_RESTORE, "- sysctl %s %s -> %s", was->name, have->value,
			     was->original);
		if (!op)
			continue;
		op->sysctl = *have;
		memcpy(op->sysctl.value, was->original, sizeof(was->original));
	}
}

static void plan_service_line(struct planner *p, char sign, const struct ns_service *s)
{
	struct buf line = {0};

	buf_printf(&line, "%c frontend ", sign);
	ns_service_print(s, &line);
	add_op(p, PLAN_NFT, buf_str(&line));
	if (line.failed)
		p->failed = true;
	buf_free(&line);
}

static void plan_services(struct planner *p, const struct ns_service *have, size_t n_have)
{
	const struct netstate *w = p->wanted;
	size_t i = 0, j = 0;

	while (i < n_have || j < w->n_services) {
		int c = i == n_have ? 1 : j == w->n_services ? -1 : ns_service_cmp(&have[i], &w->services[j]);

		if (c < 0)
			plan_service_line(p, '-', &have[i]);
		else if (c > 0)
			plan_service_line(p, '+', &w->services[j]);
		else if (!ns_service_equal(&have[i], &w->services[j]))
			plan_service_line(p, '~', &w->services[j]);
		i += c <= 0;
		j += c >= 0;
	}
}

struct element_lines {
	struct planner *p;
	const struct nft_set *set;
	bool any;
};

static void print_key_port(const struct nft_set *set, const uint8_t *at, struct buf *out)
{
	struct ns_port port = {0};
	size_t size = set->key_len - 8;
	uint16_t n;

	port.at.addr.family = size == 16 ? IP_V6 : IP_V4;
	memcpy(port.at.addr.bytes, at, size);
	port.protocol = at[size];
	memcpy(&n, at + size + 4, 2);
	port.at.port = ntohs(n);
	ns_port_print(&port, out);
}

static void element_line(void *ctx, bool del, const uint8_t *record)
{
	struct element_lines *e = ctx;
	struct buf line = {0};

	e->any = true;
	buf_printf(&line, "%c ", del ? '-' : '+');
	if (!strcmp(e->set->name, "allowed")) {
		buf_printf(&line, "guard interface %.*s", NS_IFNAME, record);
	} else if (!strncmp(e->set->name, "guarded", 7)) {
		buf_puts(&line, "guard port ");
		print_key_port(e->set, record, &line);
	} else if (!strncmp(e->set->name, "mss", 3)) {
		uint16_t mss;

		memcpy(&mss, record + NS_IFNAME, 2);
		buf_printf(&line, "mss %.*s %s %u", NS_IFNAME, record,
			   e->set->name[3] == '4' ? "ipv4" : "ipv6", ntohs(mss));
	} else {
		line.len = 0; /* services have lines of their own */
	}
	if (line.len)
		add_op(e->p, PLAN_NFT, buf_str(&line));
	buf_free(&line);
}

static void plan_sets(struct planner *p)
{
	const struct nft_table *want = &p->out->table, *have = &p->observed->table;

	if (!nft_table_retry_equal(want, have)) {
		add_opf(p, PLAN_NFT, "%c ct timeout %s", have->retry_object ? '~' : '+', NFT_RETRY_OBJECT);
		p->out->nft = true;
	}

	for (size_t i = 0; i < want->n_sets; i++) {
		const struct nft_set *w = &want->sets[i], *h = nft_table_set(have, w->name);
		struct element_lines e = {p, w, false};

		if (have->present && (!h || h->foreign)) {
			add_opf(p, PLAN_NFT, "%c set %s", h ? '~' : '+', w->name);
			p->out->nft = true;
		}
		nft_set_diff(h && !h->foreign ? h : NULL, w, element_line, &e);
		p->out->nft |= e.any;
	}
	for (size_t i = 0; i < have->n_sets; i++)
		if (!nft_table_set(want, have->sets[i].name) && want->present)
			add_opf(p, PLAN_NFT, "- set %s", have->sets[i].name), p->out->nft = true;
}

static void plan_chains(struct planner *p)
{
	const struct nft_table *want = &p->out->table, *have = &p->observed->table;

	for (size_t i = 0; i < want->n_chains; i++) {
		const struct nft_chain *w = &want->chains[i], *h = nft_table_chain(have, w->name);

		if (h && nft_chain_equal(h, w))
			continue;
		p->out->nft = true;
		add_opf(p, PLAN_NFT, "%c chain %s (%zu rules)", h ? '~' : '+', w->name, w->n_rules);
	}
	for (size_t i = 0; i < have->n_chains; i++)
		if (!nft_table_chain(want, have->chains[i].name))
			add_opf(p, PLAN_NFT, "- chain %s", have->chains[i].name), p->out->nft = true;
}

static void plan_table(struct planner *p)
{
	const struct nft_table *want = &p->out->table, *have = &p->observed->table;
	struct ns_service *services = NULL;
	size_t n = 0;

	if (!want->present && !have->present)
		return;
	if (nft_table_services(have, p->arena, &services, &n) < 0) {
		p->failed = true;
		return;
	}
	if (!have->present)
		add_opf(p, PLAN_NFT, "+ table inet %s%s", NFT_TABLE_NAME,
			want->owned ? " (owner, persist)" : "");
	else if (want->present && want->owned != have->owned)
		add_opf(p, PLAN_NFT, "~ table inet %s (%s)", NFT_TABLE_NAME,
			want->owned ? "owner, persist" : "no owner");
	if (want->present && have->dormant)
		add_opf(p, PLAN_NFT, "~ table inet %s (not dormant)", NFT_TABLE_NAME);
	if (want->present != have->present || want->owned != have->owned || (want->present && have->dormant))
		p->out->nft = true;
	plan_services(p, services, n);
	if (!want->present) {
		add_opf(p, PLAN_NFT, "- table inet %s", NFT_TABLE_NAME);
		return;
	}
	plan_sets(p);
	plan_chains(p);
}

int netplan_make(const struct netstate *wanted, const struct nft_features *features, bool protect,
		 const struct plan_observed *observed, const struct plan_recorded *recorded,
		 struct arena *arena, struct plan *out)
{
	struct planner p = {
		.wanted = wanted, .observed = observed, .recorded = recorded, .arena = arena, .out = out};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = nft_table_build(wanted, features, protect, arena, &out->table);
	if (rc < 0)
		return rc;
	plan_sysctls(&p);
	plan_links(&p);
	plan_routes(&p);
	plan_table(&p);
	plan_removals(&p);
	return p.failed ? -ENOMEM : 0;
}
