/* SPDX-License-Identifier: Apache-2.0 */
/* The flows of backends: reaped when a backend is dead, counted, and as hints for the checks. */
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/gateway_internal.h"

enum { HURRY_BACKENDS = 256 };

/* The frontend at PORT; n_frontends when there is none. */
static size_t find_frontend(struct gateway *g, const struct ns_port *port)
{
	struct ns_port at;
	size_t f;

	if (!g->placed)
		port_index_make(g->spec, &g->view.facts, g->view.arena, &g->places);
	g->placed = true;
	/* The spec may be a newer one than the view. */
	if (!port_index_find(&g->places, port, &f) || f >= g->spec->n_frontends ||
	    !wanted_port(&g->spec->frontends[f], &g->view.facts, &at) || ns_port_cmp(&at, port))
		return g->spec->n_frontends;
	return f;
}

static bool is_backend(const struct spec_backend *b, const struct ip_endpoint *at)
{
	return b->port == at->port && !ip_addr_cmp(&b->address, &at->addr);
}

static struct checker_backend *find_backend(struct gateway *g, const struct ns_port *port,
					    const struct ip_endpoint *backend)
{
	size_t f;

	if (!g->spec || !g->view.arena)
		return NULL;
	f = find_frontend(g, port);
	if (f == g->spec->n_frontends)
		return NULL;
	for (size_t b = 0; b < g->spec->frontends[f].n_backends; b++)
		if (is_backend(&g->spec->frontends[f].backends[b], backend))
			return checker_backend_mutable(g->checker, f, b);
	return NULL;
}

static void on_reaped(void *ctx, const struct ns_port *port, const struct ip_endpoint *backend, size_t n)
{
	struct checker_backend *b = find_backend(ctx, port, backend);

	if (b)
		b->flows_reaped += n;
}

static void on_flow(void *ctx, const struct ns_port *port, const struct ip_endpoint *backend)
{
	struct checker_backend *b = find_backend(ctx, port, backend);

	if (b)
		b->counting++;
}

static void each_backend(struct gateway *g, void (*fn)(struct checker_backend *b))
{
	for (size_t f = 0; g->spec && f < g->spec->n_frontends; f++)
		for (size_t b = 0;
		     g->spec->frontends[f].placement != SPEC_IGNORED && b < g->spec->frontends[f].n_backends;
		     b++)
			fn(checker_backend_mutable(g->checker, f, b));
}

static void begin_count(struct checker_backend *b)
{
	b->counting = 0;
}

static void end_count(struct checker_backend *b)
{
	b->flows = b->counting;
}

static void on_count_begin(void *ctx)
{
	each_backend(ctx, begin_count);
}

static void on_count_end(void *ctx)
{
	each_backend(ctx, end_count);
}

/*
 * A packet that the rules have logged: a refusal comes from the backend, a retried SYN is for the frontend.
 * Either way the checks look at once.
 */
static void on_hint(void *ctx, const struct ip_endpoint *src, const struct ip_endpoint *dst)
{
	struct gateway *g = ctx;
	struct ns_port at;

	for (size_t f = 0; g->spec && g->view.arena && f < g->spec->n_frontends; f++) {
		const struct spec_frontend *spec = &g->spec->frontends[f];
		bool all = spec->port == dst->port && wanted_port(spec, &g->view.facts, &at) &&
			   !ip_endpoint_cmp(&at.at, dst);

		if (spec->placement == SPEC_IGNORED)
			continue;
		for (size_t b = 0; b < spec->n_backends; b++)
			if (all || is_backend(&spec->backends[b], src) || is_backend(&spec->backends[b], dst))
				checker_hurry(g->checker, f, b);
	}
}

static void on_hints(struct ev_loop *loop, ev_io *w, int revents)
{
	struct gateway *g = w->data;

	nflog_read(g->nflog, on_hint, g);
}

/* It is a hint and no more: whether the backend is dead is for its check to say. */
static void on_failed(void *ctx, const struct ip_addr *address)
{
	struct gateway *g = ctx;

	checker_hurry_address(g->checker, address);
}

static void on_neighbours(struct ev_loop *loop, ev_io *w, int revents)
{
	struct gateway *g = w->data;

	neigh_read(g->neigh, on_failed, g);
}

static bool takes_flows(const struct ns_service *s, const struct ip_endpoint *at)
{
	for (size_t i = 0; i < s->n_slots; i++)
		if (!ip_endpoint_cmp(&s->slots[i], at))
			return true;
	return false;
}

/* Dead, and out of its service's slots. While its frontend fails open it is still given flows: they stay. */
static bool is_gone(const struct gateway *g, const struct checker_backend *state, const struct ct_pair *pair)
{
	const struct ns_service *s = ns_service_find(g->wanted.services, g->wanted.n_services, &pair->port);

	return s && state->health.state == HEALTH_DEAD && !takes_flows(s, &pair->backend);
}

static bool still_dead(void *ctx, const struct ct_pair *pair)
{
	struct gateway *g = ctx;
	struct checker_backend *state = find_backend(g, &pair->port, &pair->backend);

	return state && is_gone(g, state, pair);
}

static bool may_forge(void *ctx)
{
	const struct gateway *g = ctx;

	return g->spec && g->in_sync && !g->event_ms;
}

/* Checks go on without them. */
static void open_hints(struct gateway *g)
{
	struct vgw_err why = {0};

	if (!g->host.features.log || nflog_open(NFT_LOG_GROUP, &g->nflog, &why) < 0) {
		log_warning("hints: refused connections will not hasten the checks%s%s",
			    why.text[0] ? ": " : "", why.text);
	} else {
		ev_io_init(&g->hints, on_hints, nflog_fd(g->nflog), EV_READ);
		g->hints.data = g;
		ev_io_start(g->loop, &g->hints);
	}
	if (neigh_open(&g->neigh, &why) < 0) {
		log_warning("hints: failing neighbours will not hasten the checks: %s", why.text);
	} else {
		ev_io_init(&g->neighbours, on_neighbours, neigh_fd(g->neigh), EV_READ);
		g->neighbours.data = g;
		ev_io_start(g->loop, &g->neighbours);
	}
}

int gateway_flows_open(struct gateway *g, struct vgw_err *err)
{
	struct reaper_events events = {.reaped = on_reaped,
				       .still_dead = still_dead,
				       .may_forge = may_forge,
				       .count_begin = on_count_begin,
				       .flow = on_flow,
				       .count_end = on_count_end,
				       .ctx = g};
	int rc = reaper_new(g->loop, &events, &g->reaper, err);

	if (!rc)
		open_hints(g);
	return rc;
}

void gateway_flows_close(struct gateway *g)
{
	if (g->nflog)
		ev_io_stop(g->loop, &g->hints);
	nflog_close(g->nflog);
	if (g->neigh)
		ev_io_stop(g->loop, &g->neighbours);
	neigh_close(g->neigh);
	reaper_free(g->reaper);
}

/* Fills OUT (NULL: only counts) with what is due. */
static size_t take_due(struct gateway *g, struct ct_pair *out)
{
	size_t n = 0;

	for (size_t f = 0; f < g->spec->n_frontends; f++) {
		const struct spec_frontend *spec = &g->spec->frontends[f];
		struct ct_pair pair = {0};

		if (spec->placement == SPEC_IGNORED || !wanted_port(spec, &g->view.facts, &pair.port))
			continue;
		for (size_t b = 0; b < spec->n_backends; b++) {
			struct checker_backend *state = checker_backend_mutable(g->checker, f, b);

			pair.backend.addr = spec->backends[b].address;
			pair.backend.port = spec->backends[b].port;
			if (!state->reap_due || !is_gone(g, state, &pair))
				continue;
			if (out) {
				state->reap_due = false;
				out[n] = pair;
			}
			n++;
		}
	}
	return n;
}

void gateway_flows_reap(struct gateway *g)
{
	struct ct_pair *due;
	size_t n;

	if (!g->spec || !g->view.arena || !g->in_sync)
		return;
	n = take_due(g, NULL);
	due = n ? calloc(n, sizeof(*due)) : NULL;
	if (due)
		reaper_kill(g->reaper, due, take_due(g, due));
	free(due);
	reaper_count(g->reaper, n > 0);
}

/* Of a large spec the checks go on as they are: all at once they would be a burst. */
void gateway_flows_hurry(struct gateway *g)
{
	if (!g->spec || spec_count_backends(g->spec) > HURRY_BACKENDS)
		return;
	for (size_t f = 0; f < g->spec->n_frontends; f++)
		for (size_t b = 0;
		     g->spec->frontends[f].placement != SPEC_IGNORED && b < g->spec->frontends[f].n_backends;
		     b++)
			checker_hurry(g->checker, f, b);
}
