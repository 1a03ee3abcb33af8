/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/wanted_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vgw/model/prospects.h"
#include "vgw/model/slots.h"

void *wanted_array(struct wanted_maker *m, size_t n, size_t size)
{
	void *p = arena_calloc(m->arena, n, size);

	if (!p)
		m->failed = true;
	return p;
}

bool wanted_uses_ipv6(const struct spec *s)
{
	for (size_t i = 0; i < s->private_networks.n; i++)
		if (s->private_networks.v[i].addr.family == IP_V6)
			return true;
	return false;
}

bool wanted_port(const struct spec_frontend *f, const struct wanted_host *host, struct ns_port *out)
{
	memset(out, 0, sizeof(*out));
	switch (f->placement) {
	case SPEC_INTERNAL:
		out->at.addr = f->gateway;
		break;
	case SPEC_EXTERNAL:
		out->at.addr = host->external[f->family == IP_V6];
		break;
	case SPEC_IGNORED:
		return false;
	}
	out->at.port = f->port;
	out->protocol = (uint8_t)f->protocol;
	return out->at.addr.family != IP_NONE;
}

uint32_t wanted_weight(const struct spec_backend *b)
{
	return b->drain ? 0 : b->weight;
}

/* Who takes new flows: the healthy; without any, as whenNoneHealthy says, all that may but those that refuse.
 */
static enum wanted_frontend_state choose(const struct spec_frontend *f, const struct wanted_verdict *v,
					 bool *enabled)
{
	bool healthy = false, open = false;

	for (size_t i = 0; i < f->n_backends; i++) {
		enabled[i] = wanted_weight(&f->backends[i]) && (!v || v[i].in_rotation);
		healthy |= enabled[i];
	}
	if (healthy || f->when_none_healthy == SPEC_REJECT)
		return healthy ? WANTED_BALANCED : WANTED_REFUSES;
	for (size_t i = 0; i < f->n_backends; i++) {
		enabled[i] = wanted_weight(&f->backends[i]) && !(v && v[i].refuses);
		open |= enabled[i];
	}
	return open ? WANTED_FAILS_OPEN : WANTED_REFUSES;
}

enum wanted_frontend_state wanted_state(const struct spec_frontend *f, const struct wanted_host *host,
					const struct wanted_verdict *verdicts)
{
	bool enabled[SPEC_MAX_BACKENDS];
	struct ns_port port;

	if (f->placement == SPEC_IGNORED)
		return WANTED_IGNORED;
	if (!wanted_port(f, host, &port))
		return WANTED_PENDING;
	return choose(f, verdicts, enabled);
}

uint8_t wanted_balance(enum spec_balance b)
{
	switch (b) {
	case SPEC_ROUNDROBIN:
		return NS_ROUNDROBIN;
	case SPEC_RANDOM:
		return NS_RANDOM;
	case SPEC_SOURCE:
		return NS_SOURCE;
	}
	return NS_ROUNDROBIN;
}

int wanted_service(const struct spec_frontend *f, const struct wanted_host *host,
		   const struct wanted_verdict *v, struct arena *arena, struct ns_service *out)
{
	struct slot_target targets[SPEC_MAX_BACKENDS] = {0};
	bool enabled[SPEC_MAX_BACKENDS];
	struct ip_endpoint *slots;
	int rc;

	memset(out, 0, sizeof(*out));
	wanted_port(f, host, &out->port);
	choose(f, v, enabled);
	for (size_t i = 0; i < f->n_backends; i++) {
		targets[i].at.addr = f->backends[i].address;
		targets[i].at.port = f->backends[i].port;
		targets[i].weight = f->backends[i].weight;
		targets[i].enabled = enabled[i];
	}
	out->balance = wanted_balance(f->balance);
	rc = slots_make(targets, f->n_backends, out->balance, arena, &slots, &out->n_slots);
	out->slots = slots;
	return rc;
}

static void make_service(struct wanted_maker *m, const struct spec_frontend *f,
			 const struct wanted_verdict *v)
{
	struct ns_port port;

	if (!wanted_port(f, m->host, &port))
		return;
	if (wanted_service(f, m->host, v, m->arena, &m->out->services[m->out->n_services++]) < 0)
		m->failed = true;
}

static void make_services(struct wanted_maker *m)
{
	m->out->services = wanted_array(m, m->spec->n_frontends, sizeof(*m->out->services));
	for (size_t i = 0; i < m->spec->n_frontends && !m->failed; i++)
		make_service(m, &m->spec->frontends[i], m->verdicts ? m->verdicts[i] : NULL);
	if (prospects_make(m->spec, m->arena, &m->out->prospects, &m->out->n_prospects) < 0)
		m->failed = true;
}

static void add_allowed(struct wanted_maker *m, const char *name)
{
	struct ns_guard *g = &m->out->guard;

	if (!*name)
		return;
	for (size_t i = 0; i < g->n_allowed; i++)
		if (!strcmp(g->allowed[i], name))
			return;
	strncpy(g->allowed[g->n_allowed++], name, NS_IFNAME - 1);
}

static void make_allowed(struct wanted_maker *m)
{
	struct ns_guard *g = &m->out->guard;

	g->allowed = wanted_array(m, m->spec->n_tunnels + m->host->n_trusted + 2, sizeof(*g->allowed));
	if (!g->allowed)
		return;
	add_allowed(m, "lo"); /* this host itself */
	add_allowed(m, m->host->private_if);
	for (size_t i = 0; i < m->host->n_trusted; i++)
		add_allowed(m, m->host->trusted[i]);
	for (size_t i = 0; i < m->spec->n_tunnels; i++)
		/* Whatever a tunnel is said to be: what comes from outside is from outside. */
		if (strcmp(m->spec->tunnels[i].interface, m->host->external_if))
			add_allowed(m, m->spec->tunnels[i].interface);
}

static void make_peers(struct wanted_maker *m)
{
	struct ns_guard *g = &m->out->guard;

	g->peers = wanted_array(m, 2 * m->spec->n_tunnels, sizeof(*g->peers));
	for (size_t i = 0; i < m->spec->n_tunnels && g->peers; i++) {
		const struct spec_tunnel *t = &m->spec->tunnels[i];
		const struct ns_route *via = m->host->origins ? &m->host->origins[i] : NULL;

		if (t->interface[0] || !t->peer_network.addr.family)
			continue;
		g->peers[g->n_peers++].network = t->peer_network;
		if (!via || !via->interface[0] || !strcmp(via->interface, m->host->external_if))
			continue;
		memcpy(g->peers[g->n_peers].interface, via->interface, NS_IFNAME);
		g->peers[g->n_peers++].network = t->peer_network;
	}
}

static void add_port(struct wanted_maker *m, const struct ip_addr *a, uint16_t port, uint8_t protocol)
{
	struct ns_guard *g = &m->out->guard;
	struct ns_port *p = &g->ports[g->n_ports];

	if (!a->family)
		return;
	p->at.addr = *a;
	p->at.port = port;
	p->protocol = protocol;
	for (size_t i = 0; i < g->n_ports; i++)
		if (!ns_port_cmp(&g->ports[i], p)) {
			memset(p, 0, sizeof(*p));
			return;
		}
	g->n_ports++;
}

/* Frontends of one spec differ from each other: only the few others need to be compared. */
static void make_ports(struct wanted_maker *m)
{
	struct ns_guard *g = &m->out->guard;

	g->ports = wanted_array(m, m->spec->n_frontends + m->host->n_control + 2, sizeof(*g->ports));
	if (!g->ports)
		return;
	for (size_t i = 0; i < m->host->n_control; i++)
		add_port(m, &m->host->control[i].addr, m->host->control[i].port, SPEC_TCP);
	for (unsigned f = 0; f < 2; f++)
		add_port(m, &m->host->own[f], m->host->probe_port, SPEC_UDP);
	for (size_t i = 0; i < m->spec->n_frontends; i++) {
		const struct spec_frontend *f = &m->spec->frontends[i];

		if (f->placement == SPEC_INTERNAL && wanted_port(f, m->host, &g->ports[g->n_ports]))
			g->n_ports++;
	}
}

static void make_shielded(struct wanted_maker *m)
{
	struct ns_guard *g = &m->out->guard;

	g->shielded = wanted_array(m, m->spec->private_networks.n + m->spec->n_tunnels, sizeof(*g->shielded));
	if (!g->shielded)
		return;
	for (size_t i = 0; i < m->spec->private_networks.n; i++)
		g->shielded[g->n_shielded++] = m->spec->private_networks.v[i];
	for (size_t i = 0; i < m->spec->n_tunnels; i++) {
		const struct ip_prefix *p = &m->spec->tunnels[i].peer_network;
		bool known = !p->addr.family;

		for (size_t j = 0; j < g->n_shielded; j++)
			known |= !ip_prefix_cmp(&g->shielded[j], p);
		if (!known)
			g->shielded[g->n_shielded++] = *p;
	}
}

static void make_guard(struct wanted_maker *m)
{
	struct ns_guard *g = &m->out->guard;
	bool gateway = m->spec->role == SPEC_ROLE_GATEWAY;

	strncpy(g->private_if, m->host->private_if, NS_IFNAME - 1);
	strncpy(g->external_if, m->host->external_if, NS_IFNAME - 1);
	make_allowed(m);
	make_peers(m);
	make_ports(m);
	g->private_networks = wanted_array(m, m->spec->private_networks.n, sizeof(*g->private_networks));
	if (g->private_networks && m->spec->private_networks.n) {
		memcpy(g->private_networks, m->spec->private_networks.v,
		       m->spec->private_networks.n * sizeof(*g->private_networks));
		g->n_private_networks = m->spec->private_networks.n;
	}
	make_shielded(m);
	g->shield = gateway;
	g->cut_egress = gateway && m->spec->cloudspace_private;
}

static void add_sysctl(struct wanted_maker *m, const char *name, const char *value)
{
	struct ns_sysctl *s = &m->out->sysctls[m->out->n_sysctls++];

	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->value, sizeof(s->value), "%s", value);
}

static void make_sysctls(struct wanted_maker *m)
{
	char name[NS_SYSCTL_NAME];

	m->out->sysctls = wanted_array(m, 4, sizeof(*m->out->sysctls));
	if (!m->out->sysctls || m->spec->role != SPEC_ROLE_GATEWAY)
		return;
	add_sysctl(m, "net/ipv4/ip_forward", "1");
	/* Out-of-window packets would be INVALID, not un-NATed, and reset by the client's kernel. */
	add_sysctl(m, "net/netfilter/nf_conntrack_tcp_be_liberal", "1");
	if (!wanted_uses_ipv6(m->spec))
		return;
	add_sysctl(m, "net/ipv6/conf/all/forwarding", "1");
	if (m->host->accept_ra && m->host->external_if[0]) {
		/* A forwarding kernel stops listening to router advertisements, unless told 2. */
		snprintf(name, sizeof(name), "net/ipv6/conf/%s/accept_ra", m->host->external_if);
		add_sysctl(m, name, "2");
	}
}

int wanted_make(const struct wanted_input *in, struct arena *arena, struct netstate *out)
{
	struct wanted_maker m = {
		.spec = in->spec, .host = in->host, .verdicts = in->verdicts, .arena = arena, .out = out};

	memset(out, 0, sizeof(*out));
	if (!in->spec)
		return 0;
	out->table = true;
	make_services(&m);
	make_guard(&m);
	wanted_make_tunnels(&m);
	make_sysctls(&m);
	if (m.failed)
		return -ENOMEM;
	netstate_sort(out);
	return 0;
}
