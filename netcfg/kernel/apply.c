/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/kernel/apply.h"

#include <string.h>

#include "netcfg/kernel/sysctl.h"

struct applier {
	struct nft *nft;
	struct rt *rt;
	const struct plan_observed *observed;
	const struct plan *plan;
	struct apply_result table; /* of the transaction */
	bool table_done;
};

/* The old one goes last, so that its network is never without. */
static int apply_route(struct applier *a, const struct plan_op *op, struct vgw_err *err)
{
	int rc = 0;

	/* In the same table and metric the kernel would call ours the old one. */
	if (op->has_old_route && op->old_route.table == op->route.table &&
	    op->old_route.metric == op->route.metric)
		rc = rt_route_remove(a->rt, &op->old_route, err);
	if (!rc)
		rc = rt_route_add(a->rt, &op->route, err);
	if (!rc && op->has_old_route &&
	    (op->old_route.table != op->route.table || op->old_route.metric != op->route.metric))
		rc = rt_route_remove(a->rt, &op->old_route, err);
	return rc;
}

static void apply_table(struct applier *a)
{
	if (a->table_done)
		return;
	a->table_done = true;
	if (a->plan->nft)
		a->table.rc = nft_commit(a->nft, &a->observed->table, &a->plan->table, &a->table.err);
}

static int apply_op(struct applier *a, const struct plan_op *op, struct vgw_err *err)
{
	switch (op->kind) {
	case PLAN_SYSCTL:
	case PLAN_SYSCTL_RESTORE:
		return sysctl_write(&op->sysctl, err);
	case PLAN_LINK:
	case PLAN_LINK_RESTORE:
		return rt_link_set_mtu(a->rt, op->link.name, op->link.mtu, err);
	case PLAN_ROUTE:
		return apply_route(a, op, err);
	case PLAN_ROUTE_REMOVE:
		return rt_route_remove(a->rt, &op->route, err);
	case PLAN_NFT:
		apply_table(a);
		*err = a->table.err;
		return a->table.rc;
	}
	return 0;
}

int apply_plan(struct nft *nft, struct rt *rt, const struct plan_observed *observed, const struct plan *plan,
	       struct apply_result *results)
{
	struct applier a = {.nft = nft, .rt = rt, .observed = observed, .plan = plan};
	int first = 0;

	memset(results, 0, plan->n * sizeof(*results));
	for (size_t i = 0; i < plan->n; i++) {
		results[i].rc = apply_op(&a, &plan->ops[i], &results[i].err);
		if (results[i].rc && !first)
			first = results[i].rc;
	}
	return first;
}
