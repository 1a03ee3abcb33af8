/* SPDX-License-Identifier: Apache-2.0 */
/* Carries a plan out, in its order. */
#ifndef NETCFG_KERNEL_APPLY_H
#define NETCFG_KERNEL_APPLY_H

#include "netcfg/kernel/nft.h"
#include "netcfg/kernel/rt.h"
#include "netcfg/model/netplan.h"

/* One result per operation; all operations of the nftables transaction share one. */
struct apply_result {
	int rc;
	struct vgw_err err;
};

/*
 * Every operation is tried, whatever became of those before it. RESULTS has plan->n entries. Returns 0, or
 * the first error.
 */
int apply_plan(struct nft *nft, struct rt *rt, const struct plan_observed *observed, const struct plan *plan,
	       struct apply_result *results);

#endif
