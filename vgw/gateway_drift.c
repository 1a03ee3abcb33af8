/* SPDX-License-Identifier: Apache-2.0 */
/* What to think of a difference that nobody here made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/clock.h"
#include "vgw/gateway_internal.h"

#define TABLE_OBJECT "table inet " NFT_TABLE_NAME

void gateway_link_object(const char *name, char out[GATEWAY_OBJECT])
{
	snprintf(out, GATEWAY_OBJECT, "link %s", name);
}

void gateway_route_object(const struct ip_prefix *network, char out[GATEWAY_OBJECT])
{
	char text[IP_PREFIX_STRLEN];

	snprintf(out, GATEWAY_OBJECT, "route %s", ip_prefix_print(network, text));
}

struct gateway_dispute *gateway_find_dispute(const struct gateway *g, const char *object)
{
	for (size_t i = 0; i < g->n_disputes; i++)
		if (!strcmp(g->disputes[i].object, object))
			return &g->disputes[i];
	return NULL;
}

struct gateway_dispute *gateway_dispute(struct gateway *g, const char *object)
{
	struct gateway_dispute *d = gateway_find_dispute(g, object);

	if (d)
		return d;
	d = realloc(g->disputes, (g->n_disputes + 1) * sizeof(*d));
	if (!d)
		return NULL;
	g->disputes = d;
	d = &d[g->n_disputes++];
	memset(d, 0, sizeof(*d));
	snprintf(d->object, sizeof(d->object), "%s", object);
	return d;
}

bool gateway_op_object(const struct plan_op *op, char out[GATEWAY_OBJECT])
{
	switch (op->kind) {
	case PLAN_SYSCTL:
		snprintf(out, GATEWAY_OBJECT, "sysctl %.*s", GATEWAY_OBJECT - 8, op->sysctl.name);
		return true;
	case PLAN_LINK:
		gateway_link_object(op->link.name, out);
		return true;
	case PLAN_ROUTE:
		gateway_route_object(&op->route.network, out);
		return true;
	case PLAN_NFT:
		snprintf(out, GATEWAY_OBJECT, TABLE_OBJECT);
		return true;
	case PLAN_ROUTE_REMOVE:
	case PLAN_LINK_RESTORE:
	case PLAN_SYSCTL_RESTORE:
		return false;
	}
	return false;
}

static bool tables_equal(const struct nft_table *a, const struct nft_table *b)
{
	if (a->present != b->present || a->owned != b->owned || a->dormant != b->dormant ||
	    a->n_sets != b->n_sets || a->n_chains != b->n_chains)
		return false;
	if (!nft_table_retry_equal(b, a))
		return false;
	for (size_t i = 0; i < a->n_sets; i++)
		if (!nft_set_equal(&a->sets[i], &b->sets[i]))
			return false;
	for (size_t i = 0; i < a->n_chains; i++)
		if (strcmp(a->chains[i].name, b->chains[i].name) ||
		    !nft_chain_equal(&a->chains[i], &b->chains[i]))
			return false;
	return true;
}

static bool had_link(const struct gateway *g, const struct ns_link *want)
{
	const struct plan_observed *o = &g->view.observed;

	for (size_t i = 0; i < o->n_links; i++)
		if (!strcmp(o->links[i].name, want->name))
			return o->links[i].mtu == want->mtu;
	return false;
}

static bool had_route(const struct gateway *g, const struct ns_route *want)
{
	for (size_t i = 0; i < g->view.observed.n_routes; i++)
		if (!memcmp(&g->view.observed.routes[i], want, sizeof(*want)))
			return true;
	return false;
}

static bool had_sysctl(const struct gateway *g, const struct ns_sysctl *want)
{
	const struct plan_observed *o = &g->view.observed;

	for (size_t i = 0; i < o->n_sysctls; i++)
		if (!strcmp(o->sysctls[i].name, want->name))
			return !strcmp(o->sysctls[i].value, want->value);
	return false;
}

bool gateway_is_drift(const struct gateway *g, const struct plan_op *op, const struct plan *plan)
{
	if (!g->view.arena)
		return false;
	switch (op->kind) {
	case PLAN_SYSCTL:
		return had_sysctl(g, &op->sysctl);
	case PLAN_LINK:
		return had_link(g, &op->link);
	case PLAN_ROUTE:
		return had_route(g, &op->route);
	case PLAN_NFT:
		return g->in_sync && (g->table_by[0] || tables_equal(&g->wanted_table, &plan->table));
	case PLAN_ROUTE_REMOVE:
	case PLAN_LINK_RESTORE:
	case PLAN_SYSCTL_RESTORE:
		return false;
	}
	return false;
}

void gateway_drift_add(struct gateway *g, const char *object, const char *by, int64_t repaired_after_ms)
{
	struct status_drift *d;

	if (g->n_drift == GATEWAY_DRIFT)
		memmove(g->drift, g->drift + 1, --g->n_drift * sizeof(*g->drift));
	d = &g->drift[g->n_drift++];
	memset(d, 0, sizeof(*d));
	d->time = clock_wall_ms();
	snprintf(d->object, sizeof(d->object), "%s", object);
	snprintf(d->by, sizeof(d->by), "%s", by);
	d->repaired_after_ms = repaired_after_ms;
	log_warning("drift: %s was changed%s%s; %s", object, *by ? " by " : "", by,
		    repaired_after_ms >= 0 ? "put back" : "left as it is: contested");
}
