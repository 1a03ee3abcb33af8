/* SPDX-License-Identifier: Apache-2.0 */
/* The MTU of tunnels: what is asked for, what can be had, and what carries it. */
#include <string.h>

#include "vgw/model/wanted_internal.h"

enum { MTU_FLOOR_V4 = 576, MTU_FLOOR_V6 = 1280 };

static const struct wanted_tunnel *facts_of(const struct wanted_host *h, size_t tunnel)
{
	static const struct wanted_tunnel nothing;

	return h->tunnels && tunnel < h->n_tunnels ? &h->tunnels[tunnel] : &nothing;
}

/* Two tunnels over one interface, or to one network, have one MTU. */
static bool is_shared(const struct spec_tunnel *a, const struct spec_tunnel *b)
{
	if (a->interface[0] || b->interface[0])
		return !strcmp(a->interface, b->interface);
	return a->peer_network.addr.family && !ip_prefix_cmp(&a->peer_network, &b->peer_network);
}

static uint32_t asked_by(const struct spec *spec, const struct wanted_host *host, size_t tunnel)
{
	const struct spec_tunnel *t = &spec->tunnels[tunnel];
	uint32_t measured = facts_of(host, tunnel)->mtu;

	if (t->mtu)
		return t->mtu;
	return measured && measured < t->max_mtu ? measured : t->max_mtu;
}

/* RFC 8200 5 and RFC 791: what a link must carry. The agent chooses no MTU of its own that is below. */
static uint32_t floor_of(const struct spec *spec, const struct wanted_host *host, size_t tunnel)
{
	const struct spec_tunnel *t = &spec->tunnels[tunnel];

	if (t->peer_network.addr.family == IP_V6 || facts_of(host, tunnel)->ipv6 ||
	    (!t->mtu && wanted_uses_ipv6(spec)))
		return MTU_FLOOR_V6;
	return t->mtu ? 0 : MTU_FLOOR_V4;
}

static bool is_between(uint32_t mtu, const struct wanted_mtu *bounds)
{
	return mtu >= bounds->minimum && (!bounds->maximum || mtu <= bounds->maximum);
}

/* The nearest that can be had; 0 when nothing that the spec allows can. */
static uint32_t nearest(const struct spec_tunnel *t, const struct wanted_mtu *m)
{
	uint32_t mtu = m->asked < m->minimum ? m->minimum : m->asked;

	if (m->maximum && mtu > m->maximum)
		mtu = m->maximum;
	return is_between(mtu, m) && mtu <= t->max_mtu ? mtu : 0;
}

/*
 * `auto` takes the nearest that the device takes: that there is no more, or no less, is no fault where
 * nobody asked for a number. A route of our own gets the nearest too. A number that a link cannot have
 * changes nothing.
 */
static void settle(const struct spec_tunnel *t, const struct wanted_tunnel *facts, struct wanted_mtu *m)
{
	uint32_t mtu;

	m->set = m->asked;
	if (t->interface[0] && !facts->link_mtu)
		return; /* not there yet: what it takes is not known */
	if (is_between(m->asked, m) && (m->asked != facts->refused || m->asked == facts->link_mtu))
		return;
	if (t->interface[0] && m->asked == facts->link_mtu && m->asked >= m->minimum)
		return; /* the device below got smaller: what is there stays */
	if (!t->mtu && m->asked > m->maximum && m->maximum >= m->minimum && m->maximum) {
		m->asked = m->set = m->maximum;
		return;
	}
	m->out_of_range = true;
	mtu = !t->interface[0] ? m->minimum : t->mtu || m->asked == facts->refused ? 0 : nearest(t, m);
	m->set = mtu ? mtu : facts->link_mtu;
}

void wanted_tunnel_mtu(const struct spec *spec, const struct wanted_host *host, size_t tunnel,
		       struct wanted_mtu *out)
{
	size_t least = tunnel;

	memset(out, 0, sizeof(*out));
	out->asked = asked_by(spec, host, tunnel);
	for (size_t i = 0; i < spec->n_tunnels; i++) {
		uint32_t floor;

		if (i != tunnel && !is_shared(&spec->tunnels[i], &spec->tunnels[tunnel]))
			continue;
		floor = floor_of(spec, host, i);
		if (floor > out->minimum)
			out->minimum = floor;
		if (asked_by(spec, host, i) < out->asked) {
			out->asked = asked_by(spec, host, i);
			least = i;
		}
	}
	if (facts_of(host, tunnel)->min_mtu > out->minimum)
		out->minimum = facts_of(host, tunnel)->min_mtu;
	out->maximum = facts_of(host, tunnel)->max_mtu;
	settle(&spec->tunnels[least], facts_of(host, tunnel), out);
}

/* TCP is kept to the smaller of what was asked for and what is there: that harms nobody. */
static uint32_t clamp_of(const struct wanted_mtu *m)
{
	return m->asked < m->set ? m->asked : m->set;
}

/* What packets to the peer's network are to have, where the link has more. */
static uint32_t held_of(const struct spec_tunnel *t, const struct wanted_mtu *m)
{
	return t->peer_network.addr.family == IP_V4 && !t->mtu ? clamp_of(m) : m->set;
}

/*
 * The MTU of a raised link is for probes; and one that carries IPv6 is never below 1280, whatever IPv4 needs.
 * What is in use stays, by a route of our own.
 */
static void hold_by_route(struct wanted_maker *m, struct ns_link *link, size_t i,
			  const struct wanted_mtu *mtu)
{
	const struct ns_route *origin = m->host->origins ? &m->host->origins[i] : NULL;
	uint32_t raised = facts_of(m->host, i)->raised, held = held_of(&m->spec->tunnels[i], mtu);
	struct netstate *s = m->out;

	if (!origin || !origin->network.addr.family || strcmp(origin->interface, link->name))
		return;
	if (mtu->maximum && raised > mtu->maximum)
		raised = mtu->maximum;
	if (raised > mtu->set && raised != facts_of(m->host, i)->refused)
		link->mtu = raised;
	if (link->mtu <= held)
		return;
	s->routes[s->n_routes] = *origin;
	s->routes[s->n_routes++].mtu = held;
}

static void add_link(struct wanted_maker *m, size_t index, const struct wanted_mtu *mtu)
{
	const struct spec_tunnel *t = &m->spec->tunnels[index];
	struct netstate *s = m->out;

	for (size_t i = 0; i < s->n_links; i++)
		if (!strcmp(s->links[i].name, t->interface))
			return;
	strncpy(s->links[s->n_links].name, t->interface, NS_IFNAME - 1);
	s->links[s->n_links].mtu = mtu->set;
	hold_by_route(m, &s->links[s->n_links++], index, mtu);
	strncpy(s->clamps[s->n_clamps].interface, t->interface, NS_IFNAME - 1);
	s->clamps[s->n_clamps++].mtu = clamp_of(mtu);
}

static void add_route(struct wanted_maker *m, size_t index, const struct wanted_mtu *mtu)
{
	const struct spec_tunnel *t = &m->spec->tunnels[index];
	const struct ns_route *origin = m->host->origins ? &m->host->origins[index] : NULL;
	struct netstate *s = m->out;

	for (size_t i = 0; i < s->n_clamps; i++)
		if (!ip_prefix_cmp(&s->clamps[i].network, &t->peer_network))
			return;
	s->clamps[s->n_clamps].network = t->peer_network;
	s->clamps[s->n_clamps++].mtu = clamp_of(mtu);
	if (!origin || !origin->network.addr.family)
		return;
	s->routes[s->n_routes] = *origin;
	s->routes[s->n_routes++].mtu = mtu->set;
}

void wanted_make_tunnels(struct wanted_maker *m)
{
	struct netstate *s = m->out;
	size_t n = m->spec->n_tunnels;

	s->links = wanted_array(m, n, sizeof(*s->links));
	s->routes = wanted_array(m, n, sizeof(*s->routes));
	s->clamps = wanted_array(m, n, sizeof(*s->clamps));
	for (size_t i = 0; i < n && !m->failed; i++) {
		const struct spec_tunnel *t = &m->spec->tunnels[i];
		struct wanted_mtu mtu;

		wanted_tunnel_mtu(m->spec, m->host, i, &mtu);
		if (t->interface[0])
			add_link(m, i, &mtu);
		else if (t->peer_network.addr.family)
			add_route(m, i, &mtu);
	}
}
