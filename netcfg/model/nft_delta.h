/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One service of many changes: the part of the table that is about it, as it was and as it is to be. What
 * that costs does not depend on how many services there are. Pure.
 */
#ifndef NETCFG_MODEL_NFT_DELTA_H
#define NETCFG_MODEL_NFT_DELTA_H

#include "netcfg/model/nft_table.h"

/*
 * Two small tables for nft_commit(): the service's own elements; and the chain that balances its family,
 * unless its rules are there before and after by prospects, whatever the services are.
 */
struct nft_delta {
	struct nft_table old, new;
};

/*
 * T is the table of S, of whose services SERVICE was OLD and is changed already. T's sets are changed in
 * place, its chain is DELTA's new one where there is one; memory is ARENA's. 0 or -ENOMEM (T is then of no
 * more use).
 */
int nft_delta_make(struct nft_table *t, const struct netstate *s, const struct ns_service *old,
		   const struct ns_service *service, const struct nft_features *features, struct arena *arena,
		   struct nft_delta *delta);

#endif
