/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/nft_delta.h"

#include <errno.h>
#include <string.h>

#include "netcfg/model/nft_build_internal.h"

/* The records of SET that begin with the LEN bytes at KEY. */
static void find_run(const struct nft_set *set, const uint8_t *key, size_t len, size_t *first, size_t *n)
{
	size_t size = nft_set_record(set), hi = nft_set_find(set, key, len);

	*first = hi;
	while (hi < set->n && !memcmp(set->elems + hi * size, key, len))
		hi++;
	*n = hi - *first;
}

static int copy_run(const struct nft_set *set, size_t first, size_t n, struct arena *arena,
		    struct nft_set *out)
{
	size_t size = nft_set_record(set);

	*out = *set;
	out->n = n;
	out->elems = arena_calloc(arena, n, size);
	if (!out->elems)
		return -ENOMEM;
	if (n)
		memcpy(out->elems, set->elems + first * size, n * size);
	return 0;
}

/* In place where it fits; else with room to spare, so that backends that come and go cost no memory each
 * time. */
static int replace_run(struct nft_set *set, size_t first, size_t n, const struct nft_set *new,
		       struct arena *arena)
{
	size_t size = nft_set_record(set), behind = set->n - first - n, total = set->n - n + new->n;
	uint8_t *elems = set->elems;

	if (total > (set->cap > set->n ? set->cap : set->n)) {
		set->cap = total + total / 8 + 64;
		elems = arena_calloc(arena, set->cap, size);
		if (!elems)
			return -ENOMEM;
		if (first)
			memcpy(elems, set->elems, first * size);
	} else if (!set->cap) {
		set->cap = set->n; /* shrinking keeps the room */
	}
	if (behind)
		memmove(elems + (first + new->n) * size, set->elems + (first + n) * size, behind * size);
	if (new->n)
		memcpy(elems + first * size, new->elems, new->n *size);
	set->elems = elems;
	set->n = total;
	return 0;
}

static struct nft_set *set_of(struct nft_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_sets; i++)
		if (!strcmp(t->sets[i].name, name))
			return &t->sets[i];
	return NULL;
}

/* The small table with nothing but one service. */
static int build_one(const struct netstate *s, const struct ns_service *service,
		     const struct nft_features *features, struct arena *arena, struct nft_table *out)
{
	struct netstate one = {.table = true};

	one.services = arena_calloc(arena, 1, sizeof(*one.services));
	if (!one.services)
		return -ENOMEM;
	one.services[0] = *service;
	one.n_services = 1;
	return nft_table_build_sets(&one, build_exact_start(s), features, arena, out);
}

static int swap_sets(struct nft_table *t, const struct nft_table *one, unsigned f, struct arena *arena,
		     struct nft_delta *d)
{
	const char *names[] = {build_svc[f], build_be[f], build_next[f]};
	size_t n_sets = sizeof(names) / sizeof(names[0]);
	const struct nft_set *svc = nft_table_set(one, build_svc[f]);
	const uint8_t *key = svc->elems; /* the port is how each of its records begins */

	d->old.sets = arena_calloc(arena, n_sets, sizeof(*d->old.sets));
	d->new.sets = arena_calloc(arena, n_sets, sizeof(*d->new.sets));
	if (!d->old.sets || !d->new.sets)
		return -ENOMEM;
	for (size_t i = 0; i < n_sets; i++) {
		struct nft_set *set = set_of(t, names[i]);
		size_t first, n;

		if (!set)
			return -EINVAL;
		find_run(set, key, svc->key_len, &first, &n);
		d->new.sets[i] = *nft_table_set(one, names[i]);
		if (copy_run(set, first, n, arena, &d->old.sets[i]) < 0 ||
		    replace_run(set, first, n, &d->new.sets[i], arena) < 0)
			return -ENOMEM;
	}
	d->old.n_sets = d->new.n_sets = n_sets;
	return 0;
}

static uint32_t group_in(const struct nft_set *svc)
{
	uint32_t group = NFT_GROUP_REFUSE;

	if (svc->n)
		memcpy(&group, svc->elems + svc->key_len, 4);
	return group;
}

int nft_delta_make(struct nft_table *t, const struct netstate *s, const struct ns_service *old,
		   const struct ns_service *service, const struct nft_features *features, struct arena *arena,
		   struct nft_delta *delta)
{
	unsigned f = build_family(&old->port.at.addr);
	struct nft_chain *chain = NULL;
	struct nft_table one, balance = *t;
	int rc = build_one(s, service, features, arena, &one);

	memset(delta, 0, sizeof(*delta));
	delta->old.present = delta->new.present = true;
	delta->old.owned = delta->new.owned = t->owned;
	delta->old.retry_object = delta->new.retry_object = t->retry_object;
	memcpy(delta->old.retry_timeouts, t->retry_timeouts, sizeof(t->retry_timeouts));
	memcpy(delta->new.retry_timeouts, t->retry_timeouts, sizeof(t->retry_timeouts));
	for (size_t i = 0; i < t->n_chains; i++)
		if (!strcmp(t->chains[i].name, build_balance_name[f]))
			chain = &t->chains[i];
	if (!rc)
		rc = chain ? swap_sets(t, &one, f, arena, delta) : -EINVAL;
	if (rc)
		return rc;
	if (build_lasts(s, f, features, group_in(&delta->old.sets[0])) &&
	    build_lasts(s, f, features, group_in(&delta->new.sets[0])))
		return 0;
	delta->old.chains = arena_calloc(arena, 1, sizeof(*chain));
	if (!delta->old.chains)
		return -ENOMEM;
	delta->old.chains[0] = *chain;
	delta->old.n_chains = 1;
	rc = nft_table_build_balance(s, f, features, arena, &balance);
	if (rc)
		return rc;
	delta->new.chains = balance.chains;
	delta->new.n_chains = 1;
	*chain = balance.chains[0];
	return 0;
}
