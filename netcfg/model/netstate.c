/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg/model/netstate.h"

#include <stdlib.h>
#include <string.h>

int ns_port_cmp(const struct ns_port *a, const struct ns_port *b)
{
	int c = ip_endpoint_cmp(&a->at, &b->at);

	return c ? c : (int)a->protocol - (int)b->protocol;
}

int ns_service_cmp(const struct ns_service *a, const struct ns_service *b)
{
	return ns_port_cmp(&a->port, &b->port);
}

struct ns_service *ns_service_find(struct ns_service *v, size_t n, const struct ns_port *port)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = ns_port_cmp(&v[mid].port, port);

		if (!c)
			return &v[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

bool ns_service_equal(const struct ns_service *a, const struct ns_service *b)
{
	if (ns_service_cmp(a, b) || a->n_slots != b->n_slots)
		return false;
	if (!a->n_slots)
		return true;
	if (a->balance != b->balance)
		return false;
	for (size_t i = 0; i < a->n_slots; i++)
		if (ip_endpoint_cmp(&a->slots[i], &b->slots[i]))
			return false;
	return true;
}

int ns_prospect_cmp(const struct ns_prospect *a, const struct ns_prospect *b)
{
	if (a->n_slots != b->n_slots)
		return a->n_slots < b->n_slots ? -1 : 1;
	if (a->balance != b->balance)
		return (int)a->balance - (int)b->balance;
	if (a->protocol != b->protocol)
		return (int)a->protocol - (int)b->protocol;
	return a->v6 != b->v6 ? (int)a->v6 - (int)b->v6 : (int)a->several - (int)b->several;
}

static int cmp_service(const void *a, const void *b)
{
	return ns_service_cmp(a, b);
}

static int cmp_prospect(const void *a, const void *b)
{
	return ns_prospect_cmp(a, b);
}

static int cmp_port(const void *a, const void *b)
{
	return ns_port_cmp(a, b);
}

static int cmp_ifname(const void *a, const void *b)
{
	return memcmp(a, b, NS_IFNAME);
}

static int cmp_peer(const void *a, const void *b)
{
	const struct ns_peer *x = a, *y = b;
	int c = memcmp(x->interface, y->interface, NS_IFNAME);

	return c ? c : ip_prefix_cmp(&x->network, &y->network);
}

static int cmp_clamp(const void *a, const void *b)
{
	const struct ns_clamp *x = a, *y = b;
	int c = memcmp(x->interface, y->interface, NS_IFNAME);

	return c ? c : ip_prefix_cmp(&x->network, &y->network);
}

static int cmp_prefix(const void *a, const void *b)
{
	return ip_prefix_cmp(a, b);
}

static int cmp_link(const void *a, const void *b)
{
	return memcmp(((const struct ns_link *)a)->name, ((const struct ns_link *)b)->name, NS_IFNAME);
}

static int cmp_route(const void *a, const void *b)
{
	return ip_prefix_cmp(&((const struct ns_route *)a)->network, &((const struct ns_route *)b)->network);
}

static int cmp_sysctl(const void *a, const void *b)
{
	return strcmp(((const struct ns_sysctl *)a)->name, ((const struct ns_sysctl *)b)->name);
}

static void sort(void *v, size_t n, size_t size, int (*cmp)(const void *, const void *))
{
	if (n > 1)
		qsort(v, n, size, cmp);
}

void netstate_sort(struct netstate *s)
{
	struct ns_guard *g = &s->guard;

	sort(s->services, s->n_services, sizeof(*s->services), cmp_service);
	sort(s->prospects, s->n_prospects, sizeof(*s->prospects), cmp_prospect);
	sort(g->allowed, g->n_allowed, sizeof(*g->allowed), cmp_ifname);
	sort(g->peers, g->n_peers, sizeof(*g->peers), cmp_peer);
	sort(g->ports, g->n_ports, sizeof(*g->ports), cmp_port);
	sort(g->private_networks, g->n_private_networks, sizeof(*g->private_networks), cmp_prefix);
	sort(g->shielded, g->n_shielded, sizeof(*g->shielded), cmp_prefix);
	sort(s->clamps, s->n_clamps, sizeof(*s->clamps), cmp_clamp);
	sort(s->links, s->n_links, sizeof(*s->links), cmp_link);
	sort(s->routes, s->n_routes, sizeof(*s->routes), cmp_route);
	sort(s->sysctls, s->n_sysctls, sizeof(*s->sysctls), cmp_sysctl);
}

void ns_port_print(const struct ns_port *p, struct buf *out)
{
	char text[IP_ENDPOINT_STRLEN];

	buf_printf(out, "%s/%s", ip_endpoint_print(&p->at, text), p->protocol == 17 ? "UDP" : "TCP");
}

const char *ns_balance_name(uint8_t balance)
{
	switch ((enum ns_balance)balance) {
	case NS_ROUNDROBIN:
		return "roundrobin";
	case NS_RANDOM:
		return "random";
	case NS_SOURCE:
		return "source";
	}
	return "unknown";
}

static int cmp_slot(const void *a, const void *b)
{
	return ip_endpoint_cmp(a, b);
}

void ns_service_print(const struct ns_service *s, struct buf *out)
{
	struct ip_endpoint *sorted;
	char text[IP_ENDPOINT_STRLEN];

	ns_port_print(&s->port, out);
	if (!s->n_slots) {
		buf_puts(out, " -> refused");
		return;
	}
	buf_printf(out, " %s ->", ns_balance_name(s->balance));
	sorted = malloc(s->n_slots * sizeof(*sorted));
	if (!sorted)
		return;
	memcpy(sorted, s->slots, s->n_slots * sizeof(*sorted));
	qsort(sorted, s->n_slots, sizeof(*sorted), cmp_slot);
	for (size_t i = 0, j; i < s->n_slots; i = j) {
		for (j = i; j < s->n_slots && !ip_endpoint_cmp(&sorted[i], &sorted[j]); j++)
			;
		buf_printf(out, " %s", ip_endpoint_print(&sorted[i], text));
		if (j - i > 1)
			buf_printf(out, "*%zu", j - i);
	}
	free(sorted);
}
