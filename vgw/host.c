/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/host.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink_cttimeout.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/kernel/sysctl.h"

int host_open(struct host *h, const struct config *config, struct vgw_err *err)
{
	int rc;

	memset(h, 0, sizeof(*h));
	h->config = config;
	rc = nft_open(&h->nft, err);
	if (!rc)
		rc = nft_probe(h->nft, &h->features, err);
	if (!rc)
		rc = rt_open(&h->rt, err);
	if (rc)
		host_close(h);
	return rc;
}

void host_close(struct host *h)
{
	nft_close(h->nft);
	rt_close(h->rt);
	h->nft = NULL;
	h->rt = NULL;
}

static const char *keep(struct arena *arena, const char *s)
{
	const char *copy = arena_strdup(arena, s ? s : "");

	return copy ? copy : "";
}

/* Management: the interface with an address inside a private network. */
static const struct rt_address *address_inside(const struct rt_host *rt, const struct spec *spec,
					       uint8_t family)
{
	for (size_t i = 0; i < rt->n_addresses; i++)
		for (size_t j = 0; j < spec->private_networks.n; j++)
			if (rt->addresses[i].address.family == family &&
			    ip_prefix_contains_addr(&spec->private_networks.v[j], &rt->addresses[i].address))
				return &rt->addresses[i];
	return NULL;
}

static void find_own(const struct spec *spec, struct host_view *v)
{
	for (unsigned f = 0; f < 2; f++) {
		uint8_t family = f ? IP_V6 : IP_V4;
		const struct ip_addr *gateway = spec_gateway(spec, family);
		const struct rt_address *a;

		if (spec->role == SPEC_ROLE_GATEWAY) {
			if (gateway)
				v->facts.own[f] = *gateway;
			continue;
		}
		a = address_inside(&v->rt, spec, family);
		if (a)
			v->facts.own[f] = a->address;
	}
}

static void find_interfaces(const struct host *h, const struct spec *spec, struct host_view *v)
{
	const struct config *c = h->config;
	const char *carrier = NULL;

	if (spec)
		find_own(spec, v);
	for (unsigned f = 0; f < 2 && !carrier; f++)
		if (v->facts.own[f].family)
			carrier = rt_host_carrier(&v->rt, &v->facts.own[f]);
	v->facts.private_if = *c->private_if ? c->private_if : keep(v->arena, carrier);
	v->facts.external_if = *c->external_if ? c->external_if : v->rt.default_if;
	v->facts.trusted = c->trusted;
	v->facts.n_trusted = c->n_trusted;
	v->facts.probe_port = c->probe_port;
}

static bool is_link_local(const struct ip_addr *a)
{
	return (a->family == IP_V6 && a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80) ||
	       (a->family == IP_V4 && a->bytes[0] == 169 && a->bytes[1] == 254);
}

/* The first address of each family is the primary one; a private network's is none of the outside. */
static void find_external(struct host_view *v, const struct spec *spec)
{
	for (size_t i = 0; i < v->rt.n_addresses; i++) {
		const struct rt_address *a = &v->rt.addresses[i];
		unsigned f = a->address.family == IP_V6;
		bool inside = false;

		for (size_t j = 0; j < spec->private_networks.n; j++)
			inside |= ip_prefix_contains_addr(&spec->private_networks.v[j], &a->address);
		if (strcmp(a->interface, v->facts.external_if) || v->facts.external[f].family || inside ||
		    is_link_local(&a->address))
			continue;
		v->facts.external[f] = a->address;
	}
}

static bool is_wildcard(const struct ip_addr *a)
{
	static const uint8_t zero[16];

	return !memcmp(a->bytes, zero, sizeof(zero));
}

/* What the guard covers: the configured listeners (a wildcard is every address), else the default one. */
static int find_control(const struct host *h, struct host_view *v)
{
	const struct config *c = h->config;
	struct ip_endpoint *out;
	size_t n = 0;

	out = arena_calloc(v->arena, c->n_listen * (v->rt.n_addresses + 1) + 2, sizeof(*out));
	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_listen; i++) {
		if (!is_wildcard(&c->listen[i].addr)) {
			out[n++] = c->listen[i];
			continue;
		}
		for (size_t j = 0; j < v->rt.n_addresses; j++) {
			if (v->rt.addresses[j].address.family != c->listen[i].addr.family)
				continue;
			out[n].addr = v->rt.addresses[j].address;
			out[n++].port = c->listen[i].port;
		}
	}
	for (unsigned f = 0; f < 2 && !c->n_listen; f++) {
		if (!v->facts.own[f].family)
			continue;
		out[n].addr = v->facts.own[f];
		out[n++].port = CONFIG_CONTROL_PORT;
	}
	v->facts.control = out;
	v->facts.n_control = n;
	return 0;
}

static int find_connected(struct host_view *v)
{
	struct rules_connected *out = arena_calloc(v->arena, v->rt.n_addresses, sizeof(*out));
	size_t n = 0;

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < v->rt.n_addresses; i++) {
		const struct rt_address *a = &v->rt.addresses[i];
		const struct rt_link *link = rt_host_link(&v->rt, a->interface);

		if (!link || link->loopback || is_link_local(&a->address))
			continue;
		ip_prefix_of(&a->address, a->len, &out[n].network);
		out[n++].interface = a->interface;
	}
	v->rules.connected = out;
	v->rules.n_connected = n;
	v->rules.private_interface = v->facts.private_if;
	v->rules.control = v->facts.control;
	v->rules.n_control = v->facts.n_control;
	v->rules.control_port = CONFIG_CONTROL_PORT;
	v->rules.probe_port = v->facts.probe_port;
	return 0;
}

/*
 * Without a measurement, an MTU that we have set ourselves is the last one's: an agent that starts again, or
 * a plan without one, does not try what was found too large.
 */
static uint32_t mtu_left(const struct spec_tunnel *t, const struct plan_recorded *record,
			 const struct host_view *v)
{
	const struct rt_link *link = rt_host_link(&v->rt, t->interface);

	for (size_t i = 0; link && i < record->n_links; i++)
		if (!strcmp(record->links[i].name, t->interface) && record->links[i].set == link->mtu)
			return link->mtu;
	for (size_t i = 0; !t->interface[0] && i < v->rt.n_own; i++)
		if (!ip_prefix_cmp(&v->rt.own[i].network, &t->peer_network))
			return v->rt.own[i].mtu;
	return 0;
}

static void find_bounds(const struct host *h, const struct rt_link *link, struct wanted_tunnel *out)
{
	if (!link)
		return;
	out->link_mtu = link->mtu;
	out->min_mtu = link->min_mtu;
	out->max_mtu = link->max_mtu;
	out->ipv6 = link->ipv6;
	out->refused = h->refused ? h->refused(h->tunnels_ctx, link) : 0;
}

static int find_tunnels(const struct host *h, const struct spec *spec, const struct plan_recorded *record,
			struct host_view *v)
{
	struct wanted_tunnel *out = arena_calloc(v->arena, spec->n_tunnels, sizeof(*out));

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_tunnels; i++) {
		const struct spec_tunnel *t = &spec->tunnels[i];

		find_bounds(h, rt_host_link(&v->rt, t->interface), &out[i]);
		if (t->mtu)
			continue;
		if (!h->measured || !h->measured(h->tunnels_ctx, t, &out[i]) || !out[i].mtu)
			out[i].mtu = mtu_left(t, record, v);
	}
	v->facts.tunnels = out;
	v->facts.n_tunnels = spec->n_tunnels;
	return 0;
}

/* Where a route of ours may be wanted: no interface of its own, or one that has more than is in use. */
static bool needs_origin(const struct host_view *v, const struct spec *spec, size_t tunnel)
{
	const struct spec_tunnel *t = &spec->tunnels[tunnel];
	struct wanted_mtu mtu;

	if (!t->peer_network.addr.family)
		return false;
	wanted_tunnel_mtu(spec, &v->facts, tunnel, &mtu);
	return !t->interface[0] || v->facts.tunnels[tunnel].raised || mtu.out_of_range;
}

static int find_origins(struct host *h, const struct spec *spec, struct host_view *v)
{
	struct ns_route *origins = arena_calloc(v->arena, spec->n_tunnels, sizeof(*origins));
	struct rt_origin *asked = arena_calloc(v->arena, spec->n_tunnels, sizeof(*asked));
	size_t n = 0;

	if (!origins || !asked)
		return -ENOMEM;
	v->facts.origins = origins;
	for (size_t i = 0; i < spec->n_tunnels; i++)
		if (needs_origin(v, spec, i))
			asked[n++].network = spec->tunnels[i].peer_network;
	/* What could not be read leads nowhere, until the next look. */
	if (rt_route_origins(h->rt, &v->rt, asked, n, v->arena) < 0)
		return 0;
	n = 0;
	for (size_t i = 0; i < spec->n_tunnels; i++)
		if (needs_origin(v, spec, i))
			origins[i] = asked[n++].route;
	return 0;
}

static void observe_link(struct host_view *v, const char *name)
{
	const struct rt_link *link = rt_host_link(&v->rt, name);
	struct plan_observed *o = &v->observed;

	if (!link)
		return;
	for (size_t i = 0; i < o->n_links; i++)
		if (!strcmp(o->links[i].name, name))
			return;
	strncpy(o->links[o->n_links].name, name, NS_IFNAME - 1);
	o->links[o->n_links++].mtu = link->mtu;
}

static void observe_sysctl(struct host_view *v, const char *name)
{
	struct plan_observed *o = &v->observed;
	struct ns_sysctl *s = &o->sysctls[o->n_sysctls];

	for (size_t i = 0; i < o->n_sysctls; i++)
		if (!strcmp(o->sysctls[i].name, name))
			return;
	if (sysctl_read(name, s->value) < 0)
		return;
	strncpy(s->name, name, sizeof(s->name) - 1);
	o->n_sysctls++;
}

static int observe_values(struct host_view *v, const struct spec *spec, const struct plan_recorded *record)
{
	static const char *const names[] = {"net/ipv4/ip_forward",
					    "net/netfilter/nf_conntrack_tcp_be_liberal",
					    "net/ipv6/conf/all/forwarding"};
	size_t n_tunnels = spec ? spec->n_tunnels : 0;
	char accept_ra[NS_SYSCTL_NAME];
	char value[NS_SYSCTL_VALUE];

	v->observed.links = arena_calloc(v->arena, n_tunnels + record->n_links, sizeof(*v->observed.links));
	v->observed.sysctls = arena_calloc(v->arena, 4 + record->n_sysctls, sizeof(*v->observed.sysctls));
	if (!v->observed.links || !v->observed.sysctls)
		return -ENOMEM;
	for (size_t i = 0; i < n_tunnels; i++)
		if (spec->tunnels[i].interface[0])
			observe_link(v, spec->tunnels[i].interface);
	for (size_t i = 0; i < record->n_links; i++)
		observe_link(v, record->links[i].name);
	for (size_t i = 0; spec && i < sizeof(names) / sizeof(names[0]); i++)
		observe_sysctl(v, names[i]);
	snprintf(accept_ra, sizeof(accept_ra), "net/ipv6/conf/%s/accept_ra", v->facts.external_if);
	if (spec && v->facts.external_if[0] && sysctl_read(accept_ra, value) == 0) {
		v->facts.accept_ra = strcmp(value, "0") != 0;
		observe_sysctl(v, accept_ra);
	}
	for (size_t i = 0; i < record->n_sysctls; i++)
		observe_sysctl(v, record->sysctls[i].name);
	v->observed.routes = v->rt.own;
	v->observed.n_routes = v->rt.n_own;
	return 0;
}

/* Where the kernel has no such setting, its object keeps what it was made with. */
static void read_tcp_timeouts(uint32_t out[NFT_TCP_TIMEOUTS])
{
	static const char *const states[NFT_TCP_TIMEOUTS] = {
		[CTA_TIMEOUT_TCP_SYN_RECV - 1] = "syn_recv",
		[CTA_TIMEOUT_TCP_ESTABLISHED - 1] = "established",
		[CTA_TIMEOUT_TCP_FIN_WAIT - 1] = "fin_wait",
		[CTA_TIMEOUT_TCP_CLOSE_WAIT - 1] = "close_wait",
		[CTA_TIMEOUT_TCP_LAST_ACK - 1] = "last_ack",
		[CTA_TIMEOUT_TCP_TIME_WAIT - 1] = "time_wait",
		[CTA_TIMEOUT_TCP_CLOSE - 1] = "close",
		[CTA_TIMEOUT_TCP_RETRANS - 1] = "max_retrans",
		[CTA_TIMEOUT_TCP_UNACK - 1] = "unacknowledged",
	};
	char name[NS_SYSCTL_NAME], value[NS_SYSCTL_VALUE];

	for (int i = 0; i < NFT_TCP_TIMEOUTS; i++) {
		out[i] = 0;
		if (!states[i])
			continue;
		snprintf(name, sizeof(name), "net/netfilter/nf_conntrack_tcp_timeout_%s", states[i]);
		if (sysctl_read(name, value) == 0)
			out[i] = (uint32_t)strtoul(value, NULL, 10);
	}
}

int host_look(struct host *h, const struct spec *spec, const struct plan_recorded *record,
	      const struct nft_table *table, struct host_view *out, struct vgw_err *err)
{
	int rc;

	memset(out, 0, sizeof(*out));
	out->arena = arena_new();
	if (!out->arena)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "host", "no memory");
	rc = rt_observe(h->rt, out->arena, &out->rt, err);
	if (!rc && !table)
		rc = nft_observe(h->nft, out->arena, &out->observed.table, err);
	else if (!rc)
		out->observed.table = *table;
	if (rc)
		goto fail;
	read_tcp_timeouts(h->features.tcp_timeouts);
	find_interfaces(h, spec, out);
	if (spec)
		find_external(out, spec);
	rc = find_control(h, out);
	if (!rc)
		rc = find_connected(out);
	if (!rc && spec)
		rc = find_tunnels(h, spec, record, out);
	if (!rc && spec)
		rc = find_origins(h, spec, out);
	if (!rc)
		rc = observe_values(out, spec, record);
	if (!rc)
		return 0;
	vgw_err_set(err, rc, "OutOfMemory", "host", "no memory");
fail:
	host_view_free(out);
	return rc;
}

void host_view_free(struct host_view *v)
{
	arena_free(v->arena);
	memset(v, 0, sizeof(*v));
}

int host_plan(const struct host *h, const struct spec *spec, const struct wanted_verdict *const *verdicts,
	      const struct plan_recorded *record, struct host_view *view, struct netstate *wanted,
	      struct plan *plan, struct vgw_err *err)
{
	struct wanted_input in = {.spec = spec, .host = &view->facts, .verdicts = verdicts};
	int rc = wanted_make(&in, view->arena, wanted);

	if (!rc)
		rc = netplan_make(wanted, &h->features, h->config->protect, &view->observed, record,
				  view->arena, plan);
	return rc ? vgw_err_set(err, rc, "OutOfMemory", "plan", "no memory") : 0;
}

int host_remove(struct host *h, const struct plan_recorded *record, void (*done)(void *ctx, const char *line),
		void *ctx, struct vgw_err *err)
{
	struct apply_result *results;
	struct host_view view;
	struct netstate nothing;
	struct plan plan;
	int rc = host_look(h, NULL, record, NULL, &view, err);

	if (rc)
		return rc;
	rc = host_plan(h, NULL, NULL, record, &view, &nothing, &plan, err);
	results = rc ? NULL : arena_calloc(view.arena, plan.n, sizeof(*results));
	if (!rc && !results)
		rc = vgw_err_set(err, -ENOMEM, "OutOfMemory", "plan", "no memory");
	if (!rc)
		rc = apply_plan(h->nft, h->rt, &view.observed, &plan, results);
	for (size_t i = 0; results && i < plan.n; i++) {
		if (!results[i].rc)
			done(ctx, plan.ops[i].line);
		else if (err && !err->reason[0])
			*err = results[i].err;
	}
	host_view_free(&view);
	return rc;
}
