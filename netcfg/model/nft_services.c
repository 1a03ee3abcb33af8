/* SPDX-License-Identifier: Apache-2.0 */
/* Reads services back out of a table's elements. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "netcfg/model/nft_table.h"

static void get_port(const uint8_t *at, uint8_t family, struct ns_port *out)
{
	uint16_t port;
	size_t size = family == IP_V6 ? 16 : 4;

	memset(out, 0, sizeof(*out));
	out->at.addr.family = family;
	memcpy(out->at.addr.bytes, at, size);
	out->protocol = at[size];
	memcpy(&port, at + size + 4, 2);
	out->at.port = ntohs(port);
}

static void get_node(const uint8_t *at, uint8_t family, struct ip_endpoint *out)
{
	uint16_t port;
	size_t size = family == IP_V6 ? 16 : 4;

	memset(out, 0, sizeof(*out));
	out->addr.family = family;
	memcpy(out->addr.bytes, at, size);
	memcpy(&port, at + size, 2);
	out->port = ntohs(port);
}

static uint8_t group_balance(uint32_t group)
{
	switch (group & NFT_GROUP_KIND) {
	case NFT_GROUP_RANDOM:
		return NS_RANDOM;
	case NFT_GROUP_SOURCE:
		return NS_SOURCE;
	default:
		return NS_ROUNDROBIN;
	}
}

/* The slots of one service: those of its be records whose index lies below the group's number. */
static int read_slots(const struct nft_set *be, const uint8_t *key, size_t key_len, uint8_t family,
		      uint32_t n, struct arena *arena, struct ns_service *out)
{
	size_t size = nft_set_record(be), found = 0;
	struct ip_endpoint *slots = arena_calloc(arena, n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = nft_set_find(be, key, key_len);
	     i < be->n && !memcmp(be->elems + i * size, key, key_len); i++) {
		uint32_t slot;

		memcpy(&slot, be->elems + i * size + key_len, 4);
		if (slot >= n)
			continue;
		get_node(be->elems + i * size + key_len + 4, family, &slots[slot]);
		found++;
	}
	out->slots = slots;
	out->n_slots = found == n ? n : 0;
	return 0;
}

static int read_family(const struct nft_set *svc, const struct nft_set *be, uint8_t family,
		       struct arena *arena, struct ns_service *out, size_t *n)
{
	for (size_t i = 0; i < svc->n; i++) {
		const uint8_t *key = svc->elems + i * nft_set_record(svc);
		struct ns_service *s = &out[*n];
		uint32_t group;
		int rc;

		memcpy(&group, key + svc->key_len, 4);
		get_port(key, family, &s->port);
		s->balance = group_balance(group);
		if (group != NFT_GROUP_REFUSE) {
			/* More slots than records cannot be; do not let a foreign number choose how much
			 * memory. */
			uint32_t slots = group & NFT_GROUP_SLOTS;

			rc = slots > be->n ? 0 : read_slots(be, key, svc->key_len, family, slots, arena, s);
			if (rc)
				return rc;
		}
		(*n)++;
	}
	return 0;
}

int nft_table_services(const struct nft_table *t, struct arena *arena, struct ns_service **out, size_t *n)
{
	const struct nft_set *svc[2] = {nft_table_set(t, "svc4"), nft_table_set(t, "svc6")};
	const struct nft_set *be[2] = {nft_table_set(t, "be4"), nft_table_set(t, "be6")};
	struct netstate sorted = {0};
	int rc = 0;

	*n = 0;
	*out = arena_calloc(arena, (svc[0] ? svc[0]->n : 0) + (svc[1] ? svc[1]->n : 0), sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (unsigned f = 0; f < 2 && !rc; f++)
		if (svc[f] && be[f] && !svc[f]->foreign && !be[f]->foreign)
			rc = read_family(svc[f], be[f], f ? IP_V6 : IP_V4, arena, *out, n);
	sorted.services = *out;
	sorted.n_services = *n;
	netstate_sort(&sorted);
	return rc;
}
