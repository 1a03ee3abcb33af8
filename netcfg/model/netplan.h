/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (wanted, observed) → the ordered list of changes, as data and as stable lines. Pure.
 *
 * Order: links, routes and sysctls first that are set or changed, then one nftables transaction, then what is
 * taken away, in reverse.
 */
#ifndef NETCFG_MODEL_NETPLAN_H
#define NETCFG_MODEL_NETPLAN_H

#include "netcfg/model/nft_table.h"

enum plan_kind {
	PLAN_SYSCTL,	   /* set `sysctl` */
	PLAN_LINK,	   /* set `link`'s MTU */
	PLAN_ROUTE,	   /* make or change `route` */
	PLAN_NFT,	   /* a line of the one transaction, see plan.nft */
	PLAN_ROUTE_REMOVE, /* remove our `route` */
	PLAN_LINK_RESTORE, /* give `link` back its MTU of before */
	PLAN_SYSCTL_RESTORE,
};

struct plan_op {
	enum plan_kind kind;
	const char *line; /* "~ link wg0 mtu 1420 -> 1400" */
	struct ns_link link;
	struct ns_route route;
	struct ns_route old_route; /* PLAN_ROUTE: the one of ours it takes the place of */
	bool has_old_route;
	struct ns_sysctl sysctl;
};

/* What one host has. */
struct plan_observed {
	struct nft_table table;
	/* Links, routes and sysctls that are wanted or recorded, as they are; one that is absent is left out.
	 */
	struct ns_link *links;
	size_t n_links;
	struct ns_route *routes; /* ours alone */
	size_t n_routes;
	struct ns_sysctl *sysctls;
	size_t n_sysctls;
};

/* A value that we replaced: given back only while ours is still there. Someone else's is not ours to undo. */
struct plan_was_link {
	char name[NS_IFNAME];
	uint32_t original, set; /* MTU */
};

struct plan_was_sysctl {
	char name[NS_SYSCTL_NAME];
	char original[NS_SYSCTL_VALUE], set[NS_SYSCTL_VALUE];
};

/* What was there before us, from applied.json. */
struct plan_recorded {
	struct plan_was_link *links;
	size_t n_links;
	struct plan_was_sysctl *sysctls;
	size_t n_sysctls;
};

struct plan {
	struct plan_op *ops;
	size_t n;
	bool nft;		/* the table differs: carry `table` out */
	struct nft_table table; /* the wanted one */
};

/*
 * Everything lives in ARENA. A wanted link that is not observed is waited for: no operation. A recorded link
 * or sysctl that is no longer wanted is restored. 0 or -ENOMEM.
 */
int netplan_make(const struct netstate *wanted, const struct nft_features *features, bool protect,
		 const struct plan_observed *observed, const struct plan_recorded *recorded,
		 struct arena *arena, struct plan *out);

#endif
