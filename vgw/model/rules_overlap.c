/* SPDX-License-Identifier: Apache-2.0 */
/* CIDROverlap: every network has one meaning. */
#include "vgw/model/rules_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/model/json_reader.h"

enum network_kind {
	NETWORK_PRIVATE,
	NETWORK_GEO,
	NETWORK_PODS,
	NETWORK_SERVICES,
	NETWORK_POOL,
	NETWORK_PEER,
};

/* A network of the spec; INDEX within its kind. */
struct network {
	enum network_kind kind;
	size_t index;
	struct ip_prefix prefix;
};

struct network_list {
	const struct spec *spec;
	struct network *v;
	size_t n;
};

static void add(struct network_list *l, enum network_kind kind, size_t index, const struct ip_prefix *p)
{
	l->v[l->n++] = (struct network){.kind = kind, .index = index, .prefix = *p};
}

static void add_all(struct network_list *l, enum network_kind kind, const struct spec_prefixes *p)
{
	for (size_t i = 0; i < p->n; i++)
		add(l, kind, i, &p->v[i]);
}

static int collect(const struct spec *s, struct network_list *l)
{
	size_t max = s->private_networks.n + s->geo_networks.n + s->pods.n + s->services.n + s->n_ip_pools +
		     s->n_tunnels;

	*l = (struct network_list){.spec = s, .v = calloc(max, sizeof(*l->v))};
	if (!l->v)
		return -ENOMEM;
	add_all(l, NETWORK_PRIVATE, &s->private_networks);
	add_all(l, NETWORK_GEO, &s->geo_networks);
	add_all(l, NETWORK_PODS, &s->pods);
	add_all(l, NETWORK_SERVICES, &s->services);
	for (size_t i = 0; i < s->n_ip_pools; i++)
		add(l, NETWORK_POOL, i, &s->ip_pools[i].cidr);
	for (size_t i = 0; i < s->n_tunnels; i++)
		if (s->tunnels[i].peer_network.addr.family)
			add(l, NETWORK_PEER, i, &s->tunnels[i].peer_network);
	return 0;
}

/* "the private network 192.168.150.0/24" */
static void describe(const struct spec *s, const struct network *n, char *out, size_t size)
{
	char net[IP_PREFIX_STRLEN];
	struct json_quoted name;

	ip_prefix_print(&n->prefix, net);
	switch (n->kind) {
	case NETWORK_PRIVATE:
		snprintf(out, size, "the private network %s", net);
		break;
	case NETWORK_GEO:
		snprintf(out, size, "the geo network %s", net);
		break;
	case NETWORK_PODS:
		snprintf(out, size, "the pod network %s", net);
		break;
	case NETWORK_SERVICES:
		snprintf(out, size, "the service network %s", net);
		break;
	case NETWORK_POOL:
		snprintf(out, size, "the IP pool %s", net);
		break;
	case NETWORK_PEER:
		snprintf(out, size, "the private network %s behind tunnel \"%s\"", net,
			 json_quote(s->tunnels[n->index].name, &name));
		break;
	}
}

static void point(const struct spec *s, const struct network *n, char *out, size_t size)
{
	switch (n->kind) {
	case NETWORK_PRIVATE:
		if (s->private_networks_plural)
			snprintf(out, size, "/cloudspace/privateNetworks/%zu", n->index);
		else
			snprintf(out, size, "/cloudspace/privateNetwork");
		break;
	case NETWORK_GEO:
		snprintf(out, size, "/geo/privateNetworks/%zu", n->index);
		break;
	case NETWORK_PODS:
		snprintf(out, size, "/clusterNetwork/pods/%zu", n->index);
		break;
	case NETWORK_SERVICES:
		snprintf(out, size, "/clusterNetwork/services/%zu", n->index);
		break;
	case NETWORK_POOL:
		snprintf(out, size, "/cni/ipPools/%zu/cidr", n->index);
		break;
	case NETWORK_PEER:
		snprintf(out, size, "/tunnels/%zu/peer/privateNetwork", n->index);
		break;
	}
}

/* Two that overlap, and may: A comes before B in the list. */
static bool is_same_network(const struct spec *s, const struct network *a, const struct network *b)
{
	/* A pool is where pods get their addresses from, if it is not larger than their network. */
	if (a->kind == NETWORK_PODS && b->kind == NETWORK_POOL)
		return ip_prefix_contains(&a->prefix, &b->prefix);
	/* Two ways to one place. */
	if (a->kind == NETWORK_PEER && b->kind == NETWORK_PEER)
		return !ip_prefix_cmp(&a->prefix, &b->prefix) &&
		       !strcmp(s->tunnels[a->index].peer_cloudspace, s->tunnels[b->index].peer_cloudspace);
	return false;
}

static int check_pairs(const struct network_list *l, struct vgw_err *err)
{
	char first[192], second[192], where[64];

	/* At most some 800 networks: the square is small, and the first pair in the list's order is named. */
	for (size_t j = 1; j < l->n; j++) {
		for (size_t i = 0; i < j; i++) {
			const struct network *a = &l->v[i], *b = &l->v[j];

			if (!ip_prefix_overlaps(&a->prefix, &b->prefix) || is_same_network(l->spec, a, b))
				continue;
			describe(l->spec, a, first, sizeof(first));
			describe(l->spec, b, second, sizeof(second));
			point(l->spec, b, where, sizeof(where));
			return vgw_err_set(err, -EINVAL, "CIDROverlap", where, "%s overlaps %s", second,
					   first);
		}
	}
	return 0;
}

bool rules_any_contains(const struct spec_prefixes *p, const struct ip_prefix *network)
{
	for (size_t i = 0; i < p->n; i++)
		if (ip_prefix_contains(&p->v[i], network))
			return true;
	return false;
}

/* What an interface may be connected to whatever the spec says: a tunnel's, and those of the cluster itself.
 */
static bool is_excepted(const struct spec *s, const struct rules_connected *c)
{
	for (size_t i = 0; i < s->n_tunnels; i++)
		if (*s->tunnels[i].interface && !strcmp(s->tunnels[i].interface, c->interface))
			return true;
	return rules_any_contains(&s->pods, &c->network) || rules_any_contains(&s->services, &c->network);
}

/* Is it the private network that the interface is there for? */
static bool is_own(const struct rules_host *host, const struct rules_connected *c, const struct network *n)
{
	if (n->kind != NETWORK_PRIVATE)
		return false;
	if (host->private_interface && *host->private_interface)
		return !strcmp(host->private_interface, c->interface);
	/* Not known yet: whichever carries exactly this network. */
	return !ip_prefix_cmp(&n->prefix, &c->network);
}

static int check_host(const struct network_list *l, const struct rules_host *host, struct vgw_err *err)
{
	char text[192], net[IP_PREFIX_STRLEN], where[64];

	for (size_t i = 0; i < host->n_connected; i++) {
		const struct rules_connected *c = &host->connected[i];

		if (is_excepted(l->spec, c))
			continue;
		for (size_t j = 0; j < l->n; j++) {
			const struct network *n = &l->v[j];

			if (!ip_prefix_overlaps(&n->prefix, &c->network) || is_own(host, c, n))
				continue;
			describe(l->spec, n, text, sizeof(text));
			point(l->spec, n, where, sizeof(where));
			return vgw_err_set(err, -EINVAL, "CIDROverlap", where,
					   "%s overlaps %s, which interface %s is connected to", text,
					   ip_prefix_print(&c->network, net), c->interface);
		}
	}
	return 0;
}

int rules_check_overlap(const struct spec *s, const struct rules_host *host, struct vgw_err *err)
{
	struct network_list l;
	int rc;

	if (collect(s, &l) < 0)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", NULL, "memory is out");
	rc = check_pairs(&l, err);
	if (!rc)
		rc = check_host(&l, host, err);
	free(l.v);
	return rc;
}
