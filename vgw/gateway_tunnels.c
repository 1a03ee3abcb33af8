/* SPDX-License-Identifier: Apache-2.0 */
/* The other ends of the tunnels: who is asked, and what the status says of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/clock.h"
#include "vgw/gateway_internal.h"

static bool follows_measurement(const struct spec *s)
{
	for (size_t i = 0; s && i < s->n_tunnels; i++)
		if (!s->tunnels[i].mtu)
			return true;
	return false;
}

static void on_prober(void *ctx, unsigned changes)
{
	struct gateway *g = ctx;

	if ((changes & PROBER_MTU) && follows_measurement(g->spec))
		gateway_reconcile_soon(g, 0);
	gateway_touch(g);
}

/* For host.h: what the next plan takes for the path of a tunnel. */
static bool on_measured(void *ctx, const struct spec_tunnel *t, struct wanted_tunnel *out)
{
	struct gateway *g = ctx;
	struct prober_view v;

	if (!prober_view(g->prober, t->name, &v) || !v.path.mtu)
		return false;
	out->mtu = v.path.mtu;
	out->raised = v.raise ? t->max_mtu : 0;
	return true;
}

int gateway_tunnels_open(struct gateway *g, struct vgw_err *err)
{
	g->host.measured = on_measured;
	g->host.measured_ctx = g;
	g->prober = prober_new(g->loop, g->config->probe_port, on_prober, g);
	return g->prober ? 0 : vgw_err_set(err, -ENOMEM, "OutOfMemory", "probes", "no memory");
}

void gateway_tunnels_close(struct gateway *g)
{
	prober_free(g->prober);
	g->prober = NULL;
}

/* What the tunnel is to have, all that share its interface or network considered. */
static uint32_t wanted_of(const struct gateway *g, const struct spec_tunnel *t)
{
	for (size_t i = 0; i < g->wanted.n_clamps; i++) {
		const struct ns_clamp *c = &g->wanted.clamps[i];

		if (t->interface[0] ? !strcmp(c->interface, t->interface)
				    : !ip_prefix_cmp(&c->network, &t->peer_network))
			return c->mtu;
	}
	return t->mtu ? t->mtu : t->max_mtu;
}

/* The MTU of our own route to the tunnel's network; 0 without one. */
static uint32_t own_route_mtu(const struct gateway *g, const struct spec_tunnel *t)
{
	for (size_t i = 0; g->view.arena && i < g->view.observed.n_routes; i++)
		if (!ip_prefix_cmp(&g->view.observed.routes[i].network, &t->peer_network))
			return g->view.observed.routes[i].mtu;
	return 0;
}

static bool route_wanted(const struct gateway *g, const struct spec_tunnel *t)
{
	for (size_t i = 0; i < g->wanted.n_routes; i++)
		if (!ip_prefix_cmp(&g->wanted.routes[i].network, &t->peer_network))
			return true;
	return false;
}

/* Whether the kernel would send what is for the peer into the tunnel. */
static bool leads_into(const struct gateway *g, const struct spec_tunnel *t, int interface)
{
	int index;

	return !t->peer_address.family ||
	       (rt_route_interface(g->host.rt, &t->peer_address, &index) == 0 && index == interface);
}

/* A link that several tunnels share is not raised for one of them. */
static bool is_alone(const struct spec *s, const struct spec_tunnel *t)
{
	for (size_t i = 0; i < s->n_tunnels; i++)
		if (&s->tunnels[i] != t && !strcmp(s->tunnels[i].interface, t->interface))
			return false;
	return true;
}

static void describe(const struct gateway *g, const struct spec_tunnel *t, struct prober_tunnel *out)
{
	const struct rt_link *link = rt_host_link(&g->view.rt, t->interface);

	*out = (struct prober_tunnel){.name = t->name, .peer = t->peer_address, .network = t->peer_network};
	out->limit = t->mtu ? t->mtu : t->max_mtu;
	out->may_raise = !t->mtu && t->interface[0] && t->peer_network.addr.family && is_alone(g->spec, t);
	if (!t->interface[0]) {
		out->link = route_wanted(g, t) ? PROBER_READY : PROBER_NO_ROUTE;
		out->in_force = own_route_mtu(g, t);
		return;
	}
	out->link = PROBER_ABSENT;
	if (!link)
		return;
	out->interface = link->index;
	out->in_force = link->mtu;
	out->link = !link->up ? PROBER_DOWN : leads_into(g, t, link->index) ? PROBER_READY : PROBER_NO_ROUTE;
}

void gateway_tunnels_sync(struct gateway *g)
{
	static const struct ip_addr none[2];
	size_t n = g->spec && g->view.arena ? g->spec->n_tunnels : 0;
	struct prober_tunnel *all;

	if (g->probed == g->view.arena)
		return;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return;
	for (size_t i = 0; i < n; i++)
		describe(g, &g->spec->tunnels[i], &all[i]);
	if (prober_set(g->prober, n ? g->view.facts.own : none, all, n) == 0)
		g->probed = g->view.arena;
	free(all);
}

/* -- the status -- */

static void fill_by_interface(struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out)
{
	const struct rt_link *link = g->view.arena ? rt_host_link(&g->view.rt, t->interface) : NULL;

	out->state = !link ? TUNNEL_ABSENT : link->up ? TUNNEL_UNKNOWN : TUNNEL_DOWN;
	out->actual = link ? link->mtu : 0;
	/* While the link is raised for probes, our own route has what is in use. */
	if (link && route_wanted(g, t) && own_route_mtu(g, t))
		out->actual = own_route_mtu(g, t);
	out->original = out->actual;
	for (size_t i = 0; i < g->record.n_links; i++)
		if (!strcmp(g->record.links[i].name, t->interface))
			out->original = g->record.links[i].original;
}

static enum status_tunnel_state state_of(enum peer_verdict v)
{
	switch (v) {
	case PEER_ABSENT:
		return TUNNEL_ABSENT;
	case PEER_UNKNOWN:
		return TUNNEL_UNKNOWN;
	case PEER_UP:
		return TUNNEL_UP;
	case PEER_DOWN:
		return TUNNEL_DOWN;
	case PEER_ONE_WAY_TX:
		return TUNNEL_ONE_WAY_TX;
	case PEER_ONE_WAY_RX:
		return TUNNEL_ONE_WAY_RX;
	case PEER_BLACK_HOLE:
		return TUNNEL_BLACK_HOLE;
	case PEER_NO_ROUTE:
		return TUNNEL_NO_ROUTE;
	}
	return TUNNEL_UNKNOWN;
}

static enum status_truth truth_of(enum peer_truth t)
{
	switch (t) {
	case PEER_FALSE:
		return STATUS_FALSE;
	case PEER_TRUE:
		return STATUS_TRUE;
	case PEER_UNSURE:
		return STATUS_UNKNOWN;
	}
	return STATUS_UNKNOWN;
}

static int64_t to_wall(int64_t mono_ms)
{
	return mono_ms < 0 ? -1 : clock_wall_ms() - (clock_mono_ms() - mono_ms);
}

static void fill_measured(const struct gateway *g, struct status_tunnel *out)
{
	struct prober_view v;

	if (!prober_view(g->prober, out->name, &v))
		return;
	out->asked = true;
	out->state = state_of(v.verdict);
	out->has_agent = v.has_agent;
	out->outbound = truth_of(v.outbound);
	out->inbound = truth_of(v.inbound);
	out->path_mtu = v.path.mtu;
	out->reverse_mtu = v.reverse_mtu;
	out->pmtud = v.path.pmtud;
	out->measured_at = to_wall(v.path.measured_ms);
	out->last_heard = to_wall(v.heard_ms);
	out->rtt_ms = v.rtt_ms;
	out->loss_percent = v.loss_percent;
}

static void fill_mtu_state(const struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out)
{
	char object[GATEWAY_OBJECT];
	const struct gateway_dispute *d = NULL;

	if (t->interface[0])
		gateway_link_object(t->interface, object);
	else
		gateway_route_object(&t->peer_network, object);
	for (size_t i = 0; i < g->n_disputes; i++)
		if (!strcmp(g->disputes[i].object, object))
			d = &g->disputes[i];
	out->repairs = d ? d->fight.repairs : 0;
	if (d && d->fight.contested)
		out->mtu_state = MTU_CONTESTED;
	else if (out->actual == out->wanted)
		out->mtu_state = MTU_IN_SYNC;
	else
		out->mtu_state = d && d->out_of_range ? MTU_OUT_OF_RANGE : MTU_PENDING;
}

/* The smallest of what is known: the MTU in force, the path's, and the path's back. */
static uint32_t smallest_mtu(const struct status_tunnel *t)
{
	uint32_t least = t->actual;

	if (t->path_mtu && (!least || t->path_mtu < least))
		least = t->path_mtu;
	if (t->reverse_mtu && (!least || t->reverse_mtu < least))
		least = t->reverse_mtu;
	return least;
}

void gateway_tunnels_fill(struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out)
{
	uint32_t cost = spec_encapsulation_overhead(g->spec->encapsulation,
						    t->peer_network.addr.family == IP_V6 ? IP_V6 : IP_V4);

	out->name = t->name;
	out->interface = t->interface;
	out->peer_cloudspace = t->peer_cloudspace;
	out->peer_address = t->peer_address;
	out->wanted = wanted_of(g, t);
	if (t->interface[0]) {
		fill_by_interface(g, t, out);
	} else {
		out->actual = own_route_mtu(g, t);
		out->state = route_wanted(g, t) ? TUNNEL_UNKNOWN : TUNNEL_NO_ROUTE;
	}
	fill_mtu_state(g, t, out);
	fill_measured(g, out);
	out->max_pod_mtu = smallest_mtu(out) > cost ? smallest_mtu(out) - cost : 0;
}
