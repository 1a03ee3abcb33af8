/* SPDX-License-Identifier: Apache-2.0 */
/* The other ends of the tunnels: who is asked, and what the status says of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* For host.h. A link that has changed since, or one below it, may take what it did not. */
static uint32_t on_refused(void *ctx, const struct rt_link *link)
{
	const struct gateway_dispute *d;
	char object[GATEWAY_OBJECT];

	gateway_link_object(link->name, object);
	d = gateway_find_dispute(ctx, object);
	return d && !memcmp(&d->refused_by, link, sizeof(*link)) ? d->refused_mtu : 0;
}

/* What was recorded as set is not: what the link has is what we left there, or not ours at all. */
static void record_refusal(struct gateway *g, const struct rt_link *link)
{
	for (size_t i = 0; i < g->record.n_links; i++) {
		struct plan_was_link *was = &g->record.links[i];

		if (strcmp(was->name, link->name))
			continue;
		was->set = link->mtu;
		if (was->original == link->mtu)
			store_drop_link(&g->record, link->name);
		store_write_record(&g->store, &g->record, NULL);
		return;
	}
}

bool gateway_tunnels_answer(struct gateway *g, const struct rt_link *link, uint32_t mtu, int rc)
{
	struct gateway_dispute *d;
	char object[GATEWAY_OBJECT];

	if (!link || rc != -EINVAL)
		return false;
	gateway_link_object(link->name, object);
	d = gateway_dispute(g, object);
	if (!d)
		return false;
	d->refused_mtu = mtu;
	memcpy(&d->refused_by, link, sizeof(*link));
	record_refusal(g, link);
	return true;
}

void gateway_tunnels_forget(struct gateway *g)
{
	for (size_t i = 0; i < g->n_disputes; i++)
		g->disputes[i].refused_mtu = 0;
}

int gateway_tunnels_open(struct gateway *g, struct vgw_err *err)
{
	g->host.measured = on_measured;
	g->host.refused = on_refused;
	g->host.tunnels_ctx = g;
	g->prober = prober_new(g->loop, g->config->probe_port, on_prober, g);
	return g->prober ? 0 : vgw_err_set(err, -ENOMEM, "OutOfMemory", "probes", "no memory");
}

void gateway_tunnels_close(struct gateway *g)
{
	prober_free(g->prober);
	g->prober = NULL;
}

/* The MTU of our own route to the tunnel's network; 0 without one. */
static uint32_t own_route_mtu(const struct gateway *g, const struct spec_tunnel *t)
{
	for (size_t i = 0; g->view.arena && i < g->view.observed.n_routes; i++)
		if (!ip_prefix_cmp(&g->view.observed.routes[i].network, &t->peer_network))
			return g->view.observed.routes[i].mtu;
	return 0;
}

/* The route of ours that the tunnel's network is to have; NULL: none. */
static const struct ns_route *wanted_route(const struct gateway *g, const struct spec_tunnel *t)
{
	for (size_t i = 0; i < g->wanted.n_routes; i++)
		if (!ip_prefix_cmp(&g->wanted.routes[i].network, &t->peer_network))
			return &g->wanted.routes[i];
	return NULL;
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

/* The largest MTU that may ever be in force. */
static uint32_t limit_of(const struct gateway *g, const struct spec_tunnel *t, const struct rt_link *link)
{
	uint32_t limit = t->mtu ? t->mtu : t->max_mtu;
	struct wanted_mtu mtu;

	wanted_tunnel_mtu(g->spec, &g->view.facts, (size_t)(t - g->spec->tunnels), &mtu);
	if (mtu.maximum && limit > mtu.maximum)
		limit = mtu.maximum;
	/* What cannot be set leaves the link as it is, and that is measured. */
	return mtu.out_of_range && link && link->mtu > limit ? link->mtu : limit;
}

static void describe(const struct gateway *g, const struct spec_tunnel *t, struct prober_tunnel *out)
{
	const struct rt_link *link = rt_host_link(&g->view.rt, t->interface);
	const struct ns_route *route = wanted_route(g, t);
	uint32_t held;

	*out = (struct prober_tunnel){.name = t->name, .peer = t->peer_address, .network = t->peer_network};
	out->limit = limit_of(g, t, link);
	out->may_raise = !t->mtu && t->interface[0] && t->peer_network.addr.family && is_alone(g->spec, t);
	if (!t->interface[0]) {
		out->link = route ? PROBER_READY : PROBER_NO_ROUTE;
		out->in_force = out->held = own_route_mtu(g, t);
		link = route ? rt_host_link(&g->view.rt, route->interface) : NULL;
		out->was_down = link && monitor_links_has(&g->down, link->index);
		return;
	}
	out->link = PROBER_ABSENT;
	if (!link)
		return;
	out->interface = link->index;
	out->was_down = monitor_links_has(&g->down, link->index);
	out->in_force = out->held = link->mtu;
	held = own_route_mtu(g, t);
	if (held && held < out->held)
		out->held = held;
	out->link = !link->up ? PROBER_DOWN : leads_into(g, t, link->index) ? PROBER_READY : PROBER_NO_ROUTE;
}

void gateway_tunnels_sync(struct gateway *g)
{
	static const struct ip_addr none[2];
	size_t n = g->spec && g->view.arena ? g->spec->n_tunnels : 0;
	struct prober_tunnel *all;

	if (g->probed)
		return;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return;
	for (size_t i = 0; i < n; i++)
		describe(g, &g->spec->tunnels[i], &all[i]);
	if (prober_set(g->prober, n ? g->view.facts.own : none, all, n) == 0) {
		g->probed = true;
		memset(&g->down, 0, sizeof(g->down));
	}
	free(all);
}

/* -- the status -- */

static void fill_by_interface(struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out)
{
	const struct rt_link *link = g->view.arena ? rt_host_link(&g->view.rt, t->interface) : NULL;

	out->state = !link ? TUNNEL_ABSENT : link->up ? TUNNEL_UNKNOWN : TUNNEL_DOWN;
	out->actual = link ? link->mtu : 0;
	/* While the link is raised for probes, our own route has what is in use. */
	if (link && wanted_route(g, t) && own_route_mtu(g, t))
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
	out->measured_at = gateway_to_wall(g, v.path.measured_ms);
	out->last_heard = gateway_to_wall(g, v.heard_ms);
	out->rtt_ms = v.rtt_ms;
	out->loss_percent = v.loss_percent;
}

static void fill_mtu_state(const struct gateway *g, const struct spec_tunnel *t, struct status_tunnel *out)
{
	char object[GATEWAY_OBJECT];
	const struct gateway_dispute *d;
	struct wanted_mtu mtu;

	wanted_tunnel_mtu(g->spec, &g->view.facts, (size_t)(t - g->spec->tunnels), &mtu);
	out->wanted = mtu.asked;
	out->minimum = mtu.minimum;
	out->maximum = mtu.maximum;

	if (t->interface[0])
		gateway_link_object(t->interface, object);
	else
		gateway_route_object(&t->peer_network, object);
	d = gateway_find_dispute(g, object);
	out->repairs = d ? d->fight.repairs : 0;
	if (d && d->fight.contested)
		out->mtu_state = MTU_CONTESTED;
	else if (mtu.out_of_range)
		out->mtu_state = MTU_OUT_OF_RANGE;
	else
		out->mtu_state = out->actual == out->wanted ? MTU_IN_SYNC : MTU_PENDING;
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
	if (t->interface[0]) {
		fill_by_interface(g, t, out);
	} else {
		out->actual = own_route_mtu(g, t);
		out->state = wanted_route(g, t) ? TUNNEL_UNKNOWN : TUNNEL_NO_ROUTE;
	}
	fill_mtu_state(g, t, out);
	fill_measured(g, out);
	out->max_pod_mtu = smallest_mtu(out) > cost ? smallest_mtu(out) - cost : 0;
}
