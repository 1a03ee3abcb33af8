/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of our table and their elements. */
#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/model/nft_build_internal.h"

/* nft(8)'s numbers of the types that keys and values have; a concatenation is 6 bits a part. */
enum {
	TYPE_IPADDR = 7,
	TYPE_IP6ADDR = 8,
	TYPE_INET_PROTOCOL = 12,
	TYPE_INET_SERVICE = 13,
	TYPE_MARK = 19,
	TYPE_IFNAME = NFT_TYPE_IFNAME,
};
#define PORT_TYPE(addr) ((uint32_t)(addr) << 12 | TYPE_INET_PROTOCOL << 6 | TYPE_INET_SERVICE)
#define SLOT_TYPE(addr) (PORT_TYPE(addr) << 6 | TYPE_MARK)
#define NODE_TYPE(addr) ((uint32_t)(addr) << 6 | TYPE_INET_SERVICE)
#define CLIENT_TYPE(addr)                                                                                    \
	((uint32_t)(addr) << 18 | TYPE_INET_SERVICE << 12 | (uint32_t)(addr) << 6 | TYPE_INET_SERVICE)

static const struct nft_set set_shapes[N_SETS] = {
	[SET_ALLOWED] = {.name = "allowed", .key_type = TYPE_IFNAME, .key_len = NS_IFNAME},
	[SET_GUARDED4] = {.name = "guarded4", .key_type = PORT_TYPE(TYPE_IPADDR), .key_len = 12},
	[SET_GUARDED6] = {.name = "guarded6", .key_type = PORT_TYPE(TYPE_IP6ADDR), .key_len = 24},
	[SET_SVC4] = {.name = "svc4",
		      .flags = NFT_SET_MAP,
		      .key_type = PORT_TYPE(TYPE_IPADDR),
		      .key_len = 12,
		      .data_type = TYPE_MARK,
		      .data_len = 4},
	[SET_SVC6] = {.name = "svc6",
		      .flags = NFT_SET_MAP,
		      .key_type = PORT_TYPE(TYPE_IP6ADDR),
		      .key_len = 24,
		      .data_type = TYPE_MARK,
		      .data_len = 4},
	[SET_BE4] = {.name = "be4",
		     .flags = NFT_SET_MAP,
		     .key_type = SLOT_TYPE(TYPE_IPADDR),
		     .key_len = 16,
		     .data_type = NODE_TYPE(TYPE_IPADDR),
		     .data_len = 8},
	[SET_BE6] = {.name = "be6",
		     .flags = NFT_SET_MAP,
		     .key_type = SLOT_TYPE(TYPE_IP6ADDR),
		     .key_len = 28,
		     .data_type = NODE_TYPE(TYPE_IP6ADDR),
		     .data_len = 20},
	[SET_NEXT4] = {.name = "next4",
		       .flags = NFT_SET_MAP,
		       .key_type = SLOT_TYPE(TYPE_IPADDR),
		       .key_len = 16,
		       .data_type = TYPE_MARK,
		       .data_len = 4},
	[SET_NEXT6] = {.name = "next6",
		       .flags = NFT_SET_MAP,
		       .key_type = SLOT_TYPE(TYPE_IP6ADDR),
		       .key_len = 28,
		       .data_type = TYPE_MARK,
		       .data_len = 4},
	[SET_MSS4] = {.name = "mss4",
		      .flags = NFT_SET_MAP,
		      .key_type = TYPE_IFNAME,
		      .key_len = NS_IFNAME,
		      .data_type = TYPE_INET_SERVICE,
		      .data_len = 2},
	[SET_MSS6] = {.name = "mss6",
		      .flags = NFT_SET_MAP,
		      .key_type = TYPE_IFNAME,
		      .key_len = NS_IFNAME,
		      .data_type = TYPE_INET_SERVICE,
		      .data_len = 2},
	[SET_TRIED4] = {.name = "tried4",
			.flags = NFT_SET_MAP | NFT_SET_EVAL | NFT_SET_TIMEOUT,
			.key_type = CLIENT_TYPE(TYPE_IPADDR),
			.key_len = 16,
			.data_type = TYPE_MARK,
			.data_len = 4,
			.size = NFT_RETRY_PORTS,
			.timeout_ms = NFT_RETRY_REMEMBER_MS},
	[SET_TRIED6] = {.name = "tried6",
			.flags = NFT_SET_MAP | NFT_SET_EVAL | NFT_SET_TIMEOUT,
			.key_type = CLIENT_TYPE(TYPE_IP6ADDR),
			.key_len = 40,
			.data_type = TYPE_MARK,
			.data_len = 4,
			.size = NFT_RETRY_PORTS,
			.timeout_ms = NFT_RETRY_REMEMBER_MS},
};

const struct nft_set *nft_set_shape(const char *name)
{
	for (int i = 0; i < N_SETS; i++)
		if (!strcmp(set_shapes[i].name, name))
			return &set_shapes[i];
	return NULL;
}

bool nft_set_is_dynamic(const struct nft_set *s)
{
	return s->flags & NFT_SET_EVAL;
}

bool nft_set_same_shape(const struct nft_set *a, const struct nft_set *b)
{
	return !strcmp(a->name, b->name) && a->flags == b->flags && a->key_len == b->key_len &&
	       a->data_len == b->data_len && a->size == b->size && a->timeout_ms == b->timeout_ms;
}

/* Elements. */

/* address . protocol . port, each part padded to 32 bits; returns the bytes written. */
static size_t put_port(uint8_t *at, const struct ns_port *p)
{
	size_t size = ip_addr_size(&p->at.addr);
	uint16_t port = htons(p->at.port);

	memset(at, 0, size + 8);
	memcpy(at, p->at.addr.bytes, size);
	at[size] = p->protocol;
	memcpy(at + size + 4, &port, 2);
	return size + 8;
}

static size_t put_node(uint8_t *at, const struct ip_endpoint *e)
{
	size_t size = ip_addr_size(&e->addr);
	uint16_t port = htons(e->port);

	memset(at, 0, size + 4);
	memcpy(at, e->addr.bytes, size);
	memcpy(at + size, &port, 2);
	return size + 4;
}

static size_t put_u32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
	return 4;
}

/* Two backends or more to choose from. */
static bool has_another(const struct ns_service *s)
{
	for (size_t i = 1; i < s->n_slots; i++)
		if (ip_endpoint_cmp(&s->slots[i], &s->slots[0]))
			return true;
	return false;
}

/* The number of a service without a counter of its own. */
static uint32_t shared_group(const struct build *b, uint8_t balance, uint8_t protocol, uint32_t n_slots,
			     bool several)
{
	/* A client stays with its backend until the verdict. */
	if (balance == NS_SOURCE)
		return NFT_GROUP_SOURCE | n_slots;
	if (b->features->retry && protocol == IPPROTO_TCP && several)
		n_slots |= NFT_GROUP_RETRY;
	return (uint32_t)(balance == NS_RANDOM ? NFT_GROUP_RANDOM : NFT_GROUP_ROUNDROBIN) | n_slots;
}

uint32_t build_group(const struct build *b, const struct ns_service *s, size_t *exact)
{
	uint32_t group;

	if (!s->n_slots)
		return NFT_GROUP_REFUSE;
	group = shared_group(b, s->balance, s->port.protocol, (uint32_t)s->n_slots, has_another(s));
	if ((group & NFT_GROUP_KIND) != NFT_GROUP_ROUNDROBIN || *exact >= NFT_EXACT)
		return group;
	(*exact)++;
	return (group & ~(uint32_t)NFT_GROUP_KIND) | NFT_GROUP_EXACT;
}

uint32_t build_prospect(const struct build *b, const struct ns_prospect *p)
{
	return shared_group(b, p->balance, p->protocol, p->n_slots, p->several);
}

/*
 * Exact counters are for a gateway with up to NFT_EXACT round-robin services: which of more would have one
 * would depend on their order, and every change could move it.
 */
size_t build_exact_start(const struct netstate *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_services; i++)
		n += s->services[i].balance == NS_ROUNDROBIN;
	return n > NFT_EXACT ? NFT_EXACT : 0;
}

static void count_elements(const struct netstate *s, size_t *n)
{
	n[SET_ALLOWED] = s->guard.n_allowed;
	for (size_t i = 0; i < s->guard.n_ports; i++)
		n[SET_GUARDED4 + build_family(&s->guard.ports[i].at.addr)]++;
	for (size_t i = 0; i < s->n_services; i++) {
		unsigned f = build_family(&s->services[i].port.at.addr);

		n[SET_SVC4 + f]++;
		n[SET_BE4 + f] += s->services[i].n_slots;
		n[SET_NEXT4 + f] += s->services[i].n_slots;
	}
	for (size_t i = 0; i < s->n_clamps; i++) {
		n[SET_MSS4] += s->clamps[i].interface[0] != '\0';
		n[SET_MSS6] += s->clamps[i].interface[0] != '\0';
	}
}

static uint8_t *next_record(struct nft_set *set)
{
	return set->elems + nft_set_record(set) * set->n++;
}

struct slot_order {
	struct ip_endpoint at;
	uint32_t slot;
};

static int cmp_order(const void *a, const void *b)
{
	const struct slot_order *x = a, *y = b;
	int c = ip_endpoint_cmp(&x->at, &y->at);

	return c ? c : x->slot < y->slot ? -1 : x->slot > y->slot;
}

/*
 * Where a flow goes whose SYN had no answer at a slot: to the first slot of the backend whose first slot
 * comes next. Going on like that passes every backend once, however the slots are weighted.
 *
 * FIRST[slot]: the first slot of the same backend. AFTER[first]: the first slot of another that follows it.
 */
static bool order_backends(struct build *b, const struct ns_service *s, uint32_t **first, uint32_t **after)
{
	struct slot_order *order = build_alloc(b, s->n_slots, sizeof(*order));
	uint32_t lowest = 0, latest = 0;

	*first = build_alloc(b, s->n_slots, sizeof(**first));
	*after = build_alloc(b, s->n_slots, sizeof(**after));
	if (!order || !*first || !*after)
		return false;
	for (uint32_t i = 0; i < s->n_slots; i++)
		order[i] = (struct slot_order){s->slots[i], i};
	qsort(order, s->n_slots, sizeof(*order), cmp_order);
	for (uint32_t i = 0, group = 0; i < s->n_slots; i++) {
		if (i && ip_endpoint_cmp(&order[i].at, &order[i - 1].at))
			group = i;
		(*first)[order[i].slot] = order[group].slot;
	}
	for (uint32_t i = 0; i < s->n_slots; i++) {
		if ((*first)[i] != i)
			continue;
		if (i != lowest)
			(*after)[latest] = i;
		latest = i;
	}
	(*after)[latest] = lowest;
	return true;
}

static void fill_next(struct build *b, const struct ns_service *s, unsigned f)
{
	uint32_t *first, *after;

	if (!order_backends(b, s, &first, &after))
		return;
	for (uint32_t slot = 0; slot < s->n_slots; slot++) {
		uint8_t *at = next_record(&b->out->sets[SET_NEXT4 + f]);

		at += put_port(at, &s->port);
		at += put_u32(at, slot);
		put_u32(at, after[first[slot]]);
	}
}

static void fill_service(struct build *b, const struct ns_service *s, size_t *exact)
{
	unsigned f = build_family(&s->port.at.addr);
	uint8_t *at = next_record(&b->out->sets[SET_SVC4 + f]);
	uint32_t group = build_group(b, s, exact);

	at += put_port(at, &s->port);
	put_u32(at, group);
	for (size_t j = 0; j < s->n_slots; j++) {
		at = next_record(&b->out->sets[SET_BE4 + f]);
		at += put_port(at, &s->port);
		at += put_u32(at, (uint32_t)j);
		put_node(at, &s->slots[j]);
	}
	if (group & NFT_GROUP_RETRY)
		fill_next(b, s, f);
}

static void fill_services(struct build *b)
{
	size_t exact = b->exact_start;

	for (size_t i = 0; i < b->s->n_services && !b->failed; i++)
		fill_service(b, &b->s->services[i], &exact);
}

/* RFC 879 and RFC 8200: an MSS is the MTU less the headers without options. */
static void fill_clamps(struct build *b)
{
	for (size_t i = 0; i < b->s->n_clamps; i++) {
		const struct ns_clamp *c = &b->s->clamps[i];

		for (unsigned f = 0; f < 2 && c->interface[0]; f++) {
			uint8_t *at = next_record(&b->out->sets[SET_MSS4 + f]);
			uint16_t mss = htons(nft_mss(c->mtu, f));

			memcpy(at, c->interface, NS_IFNAME);
			memcpy(at + NS_IFNAME, &mss, 2);
		}
	}
}

void build_sets(struct build *b)
{
	const struct ns_guard *g = &b->s->guard;
	size_t n[N_SETS] = {0};
	struct nft_set *sets = build_alloc(b, N_SETS, sizeof(*sets));

	if (!sets)
		return;
	b->out->sets = sets;
	b->out->n_sets = N_SETS;
	count_elements(b->s, n);
	for (int i = 0; i < N_SETS; i++) {
		sets[i] = set_shapes[i];
		sets[i].elems = build_alloc(b, n[i], nft_set_record(&sets[i]));
	}
	if (b->failed)
		return;
	for (size_t i = 0; i < g->n_allowed; i++)
		memcpy(next_record(&sets[SET_ALLOWED]), g->allowed[i], NS_IFNAME);
	for (size_t i = 0; i < g->n_ports; i++)
		put_port(next_record(&sets[SET_GUARDED4 + build_family(&g->ports[i].at.addr)]), &g->ports[i]);
	fill_services(b);
	fill_clamps(b);
	for (int i = 0; i < N_SETS; i++)
		nft_set_sort(&sets[i]);
}
