/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/prospects.h"

#include <errno.h>
#include <string.h>

#include "vgw/model/slots.h"
#include "vgw/model/wanted.h"

enum { WEIGHTS = 101, FEWER = 3 };

struct collection {
	struct ns_prospect *v;
	size_t n;
};

static void add(struct collection *c, const struct ns_prospect *p)
{
	size_t at = 0;
	int order = 1;

	while (at < c->n && (order = ns_prospect_cmp(&c->v[at], p)) < 0)
		at++;
	if ((at < c->n && !order) || c->n == PROSPECTS_MAX)
		return;
	memmove(&c->v[at + 1], &c->v[at], (c->n - at) * sizeof(*c->v));
	c->v[at] = *p;
	c->n++;
}

/* BY_WEIGHT[w] backends of weight w take flows. */
static void add_turns(struct collection *c, const struct spec_frontend *f, const uint32_t *by_weight)
{
	struct ns_prospect p = {.balance = wanted_balance(f->balance),
				.protocol = (uint8_t)f->protocol,
				.v6 = f->family == IP_V6};
	uint32_t backends = 0;

	p.n_slots = slots_turns(by_weight, WEIGHTS);
	for (size_t w = 1; w < WEIGHTS; w++)
		backends += by_weight[w];
	p.several = backends > 1;
	if (p.n_slots)
		add(c, &p);
}

static void add_fewer(struct collection *c, const struct spec_frontend *f, const uint32_t *by_weight)
{
	uint32_t left[WEIGHTS], kinds = 0;

	for (size_t w = 1; w < WEIGHTS; w++)
		kinds += by_weight[w] > 0;
	for (size_t w = 1; w < WEIGHTS; w++) {
		if (!by_weight[w])
			continue;
		memcpy(left, by_weight, sizeof(left));
		for (int gone = 0; left[w] && gone < (kinds == 1 ? FEWER : 1); gone++) {
			left[w]--;
			add_turns(c, f, left);
		}
	}
}

static void add_frontend(struct collection *c, const struct spec_frontend *f)
{
	uint32_t by_weight[WEIGHTS] = {0};

	for (size_t i = 0; i < f->n_backends; i++)
		by_weight[wanted_weight(&f->backends[i])]++;
	by_weight[0] = 0;
	if (f->balance == SPEC_SOURCE) {
		add(c, &(struct ns_prospect){.n_slots = SLOTS_SOURCE,
					     .balance = NS_SOURCE,
					     .protocol = (uint8_t)f->protocol,
					     .v6 = f->family == IP_V6});
		return;
	}
	add_turns(c, f, by_weight);
	add_fewer(c, f, by_weight);
}

int prospects_make(const struct spec *spec, struct arena *arena, struct ns_prospect **out, size_t *n)
{
	struct collection c = {.v = arena_calloc(arena, PROSPECTS_MAX, sizeof(*c.v))};

	if (!c.v)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_frontends; i++)
		if (spec->frontends[i].placement != SPEC_IGNORED)
			add_frontend(&c, &spec->frontends[i]);
	*out = c.v;
	*n = c.n;
	return 0;
}
