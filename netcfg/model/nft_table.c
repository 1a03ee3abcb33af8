/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/nft_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct nft_set *nft_table_set(const struct nft_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_sets; i++)
		if (!strcmp(t->sets[i].name, name))
			return &t->sets[i];
	return NULL;
}

const struct nft_chain *nft_table_chain(const struct nft_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_chains; i++)
		if (!strcmp(t->chains[i].name, name))
			return &t->chains[i];
	return NULL;
}

size_t nft_set_record(const struct nft_set *s)
{
	return s->key_len + s->data_len;
}

static int cmp_record(const void *a, const void *b, void *size)
{
	return memcmp(a, b, *(const size_t *)size);
}

void nft_set_sort(struct nft_set *s)
{
	size_t size = nft_set_record(s);

	if (s->n > 1)
		qsort_r(s->elems, s->n, size, cmp_record, &size);
}

size_t nft_set_find(const struct nft_set *s, const uint8_t *key, size_t len)
{
	size_t lo = 0, hi = s->n, size = nft_set_record(s);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (memcmp(s->elems + mid * size, key, len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool nft_set_equal(const struct nft_set *a, const struct nft_set *b)
{
	return nft_set_record(a) == nft_set_record(b) && a->n == b->n &&
	       (!a->n || !memcmp(a->elems, b->elems, a->n * nft_set_record(a)));
}

bool nft_rule_equal(const struct nft_rule *a, const struct nft_rule *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->x[i].kind == NX_FOREIGN || memcmp(&a->x[i], &b->x[i], sizeof(a->x[i])))
			return false;
	return true;
}

bool nft_chain_equal(const struct nft_chain *a, const struct nft_chain *b)
{
	if (a->foreign || b->foreign || a->n_rules != b->n_rules)
		return false;
	if (strcmp(a->type, b->type) || a->hook != b->hook || a->priority != b->priority)
		return false;
	for (size_t i = 0; i < a->n_rules; i++)
		if (!nft_rule_equal(&a->rules[i], &b->rules[i]))
			return false;
	return true;
}

void nft_set_diff(const struct nft_set *old, const struct nft_set *new,
		  void (*fn)(void *ctx, bool del, const uint8_t *record), void *ctx)
{
	size_t size = nft_set_record(new), i = 0, j = 0, n_old = old ? old->n : 0;

	while (i < n_old || j < new->n) {
		const uint8_t *o = i < n_old ? old->elems + i * size : NULL;
		const uint8_t *w = j < new->n ? new->elems + j *size : NULL;
		int c = !o ? 1 : !w ? -1 : memcmp(o, w, size);

		if (c < 0)
			fn(ctx, true, o);
		if (c > 0)
			fn(ctx, false, w);
		i += c <= 0;
		j += c >= 0;
	}
}

bool nft_table_retry_equal(const struct nft_table *wanted, const struct nft_table *observed)
{
	if (!wanted->retry_object || !observed->retry_object)
		return !wanted->retry_object;
	for (int i = 0; i < NFT_TCP_TIMEOUTS; i++)
		if (wanted->retry_timeouts[i] && wanted->retry_timeouts[i] != observed->retry_timeouts[i])
			return false;
	return true;
}

static void *duplicate(struct arena *arena, const void *v, size_t n, size_t size, bool *failed)
{
	void *copy = arena_calloc(arena, n, size);

	if (!copy)
		*failed = true;
	else if (n && v)
		memcpy(copy, v, n * size);
	return copy;
}

int nft_table_copy(const struct nft_table *t, struct arena *arena, struct nft_table *out)
{
	struct nft_table from = *t; /* T and OUT may be one */
	bool failed = false;

	*out = from;
	out->sets = duplicate(arena, from.sets, from.n_sets, sizeof(*from.sets), &failed);
	out->chains = duplicate(arena, from.chains, from.n_chains, sizeof(*from.chains), &failed);
	for (size_t i = 0; i < from.n_sets && !failed; i++) {
		out->sets[i].cap = 0;
		out->sets[i].elems = duplicate(arena, from.sets[i].elems, from.sets[i].n,
					       nft_set_record(&from.sets[i]), &failed);
	}
	for (size_t i = 0; i < from.n_chains && !failed; i++) {
		struct nft_chain *c = &out->chains[i];

		c->rules = duplicate(arena, c->rules, c->n_rules, sizeof(*c->rules), &failed);
		for (size_t j = 0; j < c->n_rules && !failed; j++)
			c->rules[j].x =
				duplicate(arena, c->rules[j].x, c->rules[j].n, sizeof(struct nx), &failed);
	}
	return failed ? -ENOMEM : 0;
}
