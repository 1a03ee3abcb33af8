/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the nft_build*.c files alone. */
#ifndef NETCFG_MODEL_NFT_BUILD_INTERNAL_H
#define NETCFG_MODEL_NFT_BUILD_INTERNAL_H

#include "netcfg/model/nft_rule.h"
#include "netcfg/model/nft_table.h"

enum build_set {
	SET_ALLOWED,
	SET_GUARDED4,
	SET_GUARDED6,
	SET_SVC4,
	SET_SVC6,
	SET_BE4,
	SET_BE6,
	SET_NEXT4,
	SET_NEXT6,
	SET_MSS4,
	SET_MSS6,
	SET_TRIED4,
	SET_TRIED6,
	N_SETS,
};

struct build {
	const struct netstate *s;
	const struct nft_features *features;
	struct arena *arena;
	struct nft_table *out;
	size_t exact_start; /* see build_exact_start */
	bool failed;
};

/* By family: IPv4, IPv6. */
extern const struct nft_family build_families[2];
extern const char *const build_svc[2],
	*const build_be[2], *const build_guarded[2], *const build_mss[2],
							     *const build_tried[2],
								     *const build_next[2],
									     *const build_balance_name[2];

void *build_alloc(struct build *b, size_t n, size_t size);
unsigned build_family(const struct ip_addr *a);

/* Sets and their elements: nft_build_sets.c. */
void build_sets(struct build *b);
/* Above NFT_EXACT round-robin services none has a counter of its own: then this is NFT_EXACT, else 0. */
size_t build_exact_start(const struct netstate *s);
/* The service's number in svc; *EXACT counts the services with a counter of their own. */
uint32_t build_group(const struct build *b, const struct ns_service *s, size_t *exact);

/* The number that a service of that kind would have. */
uint32_t build_prospect(const struct build *b, const struct ns_prospect *p);

/* Whether the rules of GROUP in balance are there by a prospect, or none are needed: no service changes them.
 */
bool build_lasts(const struct netstate *s, unsigned f, const struct nft_features *features, uint32_t group);

/* Chains: nft_build.c. */
struct nft_chain *build_chain(struct build *b, const char *name, const char *type, uint32_t hook,
			      int32_t priority, size_t max_rules);
void build_rule(struct build *b, struct nft_chain *c, const struct rule_text *r);

/* Who may reach what: nft_build_guard.c. */
void build_guard(struct build *b);
void build_forward(struct build *b);

/* What a SYN without answer needs, and what a dead backend's clients do: nft_build_retry.c. */
void build_retry_start(struct build *b, struct nft_chain *c,
		       unsigned f);		     /* into refuse: the flow expires soon */
void build_retry_again(struct build *b, unsigned f); /* the chain for ports tried before */
void build_retry_jump(struct build *b, struct nft_chain *c, unsigned f); /* into balance: there */
/* The port key and the slot from the packet mark: to the backend, the mark 0 again. */
void rule_marked_to_backend(struct rule_text *r, unsigned f);
void build_masks(struct build *b);
void build_untracked(struct build *b);

/*
 * For nft_delta.c: the sets alone, as among services that begin to have counters of their own at EXACT_START;
 * and the chain balance of one family alone, for the sets that are in OUT. 0 or -ENOMEM.
 */
int nft_table_build_sets(const struct netstate *s, size_t exact_start, const struct nft_features *features,
			 struct arena *arena, struct nft_table *out);
int nft_table_build_balance(const struct netstate *s, unsigned f, const struct nft_features *features,
			    struct arena *arena, struct nft_table *out);

#endif
