/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/slots.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t t = a % b;

		a = b;
		b = t;
	}
	return a;
}

uint32_t slots_turns(const uint32_t *by_weight, size_t weights)
{
	uint32_t divisor = 0, total = 0;

	for (size_t w = 1; w < weights; w++) {
		if (!by_weight[w])
			continue;
		divisor = gcd((uint32_t)w, divisor);
		total += (uint32_t)w * by_weight[w];
	}
	return divisor ? total / divisor : 0;
}

static bool takes_flows(const struct slot_target *t)
{
	return t->enabled && t->weight;
}

/* Each step the target furthest behind its share takes the slot; ties go to the earlier one. */
static int turns(const struct slot_target *targets, size_t n, struct arena *arena, struct ip_endpoint **out,
		 size_t *n_out)
{
	uint32_t divisor = 0, total = 0;
	int64_t *credit = arena_calloc(arena, n, sizeof(*credit));

	for (size_t i = 0; i < n; i++)
		if (takes_flows(&targets[i]))
			divisor = gcd(targets[i].weight, divisor);
	for (size_t i = 0; i < n; i++)
		if (takes_flows(&targets[i]))
			total += targets[i].weight / divisor;
	*out = arena_calloc(arena, total, sizeof(**out));
	if (!credit || !*out)
		return -ENOMEM;
	*n_out = total;
	for (uint32_t slot = 0; slot < total; slot++) {
		size_t best = n;

		for (size_t i = 0; i < n; i++) {
			if (!takes_flows(&targets[i]))
				continue;
			credit[i] += targets[i].weight / divisor;
			if (best == n || credit[i] > credit[best])
				best = i;
		}
		credit[best] -= total;
		(*out)[slot] = targets[best].at;
	}
	return 0;
}

/* FNV-1a, then a finaliser: neighbouring addresses must not give neighbouring scores. */
static uint64_t hash(uint32_t slot, const struct ip_endpoint *at)
{
	uint64_t h = 0xcbf29ce484222325u;
	uint8_t bytes[22];

	memcpy(bytes, at->addr.bytes, 16);
	memcpy(bytes + 16, (uint8_t[]){(uint8_t)(at->port >> 8), (uint8_t)at->port}, 2);
	for (int i = 0; i < 4; i++)
		bytes[18 + i] = (uint8_t)(slot >> (8 * i));
	for (size_t i = 0; i < sizeof(bytes); i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 33;
}

static double score(uint32_t slot, const struct slot_target *t)
{
	double unit = ((double)(hash(slot, &t->at) >> 11) + 0.5) / 9007199254740992.0; /* (0, 1) */

	return -(double)t->weight / log(unit);
}

static int rendezvous(const struct slot_target *targets, size_t n, struct arena *arena,
		      struct ip_endpoint **out, size_t *n_out)
{
	uint32_t total = SLOTS_SOURCE;

	*out = arena_calloc(arena, total, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	*n_out = total;
	for (uint32_t slot = 0; slot < total; slot++) {
		double best = -1;

		for (size_t i = 0; i < n; i++) {
			double s = takes_flows(&targets[i]) ? score(slot, &targets[i]) : -1;

			if (s > best) {
				best = s;
				(*out)[slot] = targets[i].at;
			}
		}
	}
	return 0;
}

int slots_make(const struct slot_target *targets, size_t n, uint8_t balance, struct arena *arena,
	       struct ip_endpoint **out, size_t *n_out)
{
	bool any = false;

	*out = NULL;
	*n_out = 0;
	for (size_t i = 0; i < n; i++)
		any |= takes_flows(&targets[i]);
	if (!any)
		return 0;
	if (balance == NS_SOURCE)
		return rendezvous(targets, n, arena, out, n_out);
	return turns(targets, n, arena, out, n_out);
}
