/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/prober.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/clock.h"
#include "vgw/prober_internal.h"

struct prober *prober_new(struct ev_loop *loop, uint16_t port, prober_changed_fn *changed, void *ctx)
{
	struct prober *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->loop = loop;
	p->port = port;
	p->changed = changed;
	p->ctx = ctx;
	return p;
}

static void asked_free(struct asked *a)
{
	if (!a)
		return;
	ev_timer_stop(a->prober->loop, &a->timer);
	free(a->search);
	echo_cancel(a->echo);
	free((char *)a->now.name);
	free(a);
}

static void close_sockets(struct prober *p)
{
	for (unsigned f = 0; f < 2; f++) {
		peer_socket_close(p->sockets[f]);
		p->sockets[f] = NULL;
		ping_close(p->pings[f]);
		p->pings[f] = NULL;
	}
}

void prober_free(struct prober *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		asked_free(p->asked[i]);
	free(p->asked);
	close_sockets(p);
	free(p);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	prober_turn(w->data);
}

static struct asked *asked_new(struct prober *p, const struct prober_tunnel *t)
{
	struct asked *a = calloc(1, sizeof(*a));
	char *name = strdup(t->name);

	if (!a || !name) {
		free(a);
		free(name);
		return NULL;
	}
	a->prober = p;
	a->now = *t;
	a->now.name = name;
	a->raise_ms = -1;
	a->small_ms = clock_mono_ms();
	peer_init(&a->peer, a->small_ms);
	path_init(&a->path, a->small_ms);
	ev_timer_init(&a->timer, on_timer, 0, 0);
	a->timer.data = a;
	prober_look(a, &a->shown);
	return a;
}

static struct asked *find(const struct prober *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->asked[i]->now.name, name))
			return p->asked[i];
	return NULL;
}

/* The same tunnel, as it is now. */
static void update(struct asked *a, const struct prober_tunnel *t)
{
	struct prober_tunnel was = a->now;
	int64_t now = clock_mono_ms();

	a->now = *t;
	a->now.name = was.name;
	a->path.raise_every_ms = t->may_raise ? PATH_RAISE_MS : PATH_LOOK_MS;
	/* A new interface of the name, or one that comes back: what lies behind it may be another path. What
	 * a larger number allows, and what a smaller one forbids, is looked at too; our own following is not.
	 */
	if (was.interface != t->interface || was.link != t->link || t->was_down)
		path_changed(&a->path, now);
	else if (was.in_force != t->in_force && !a->search && !a->echo && !a->raise &&
		 ((t->in_force > was.in_force && !t->may_raise) || t->in_force < a->path.mtu))
		path_changed(&a->path, now);
	else if (was.limit != t->limit)
		path_changed(&a->path, now);
}

static void open_sockets(struct prober *p)
{
	struct peer_socket_events events = prober_events(p);

	for (unsigned f = 0; f < 2; f++) {
		struct ip_endpoint own = {.addr = p->own[f], .port = p->port};
		bool wanted = false;
		int rc;

		for (size_t i = 0; i < p->n; i++)
			wanted |= (p->asked[i]->now.peer.family == IP_V6) == f;
		if (!wanted || !own.addr.family || p->sockets[f])
			continue;
		rc = peer_socket_open(p->loop, &own, &events, &p->sockets[f]);
		if (rc)
			log_error("probe: cannot listen on port %u: %s", p->port, strerror(-rc));
	}
}

static bool same_peer(const struct asked *a, const struct prober_tunnel *t)
{
	return a && !ip_addr_cmp(&a->now.peer, &t->peer) && !ip_prefix_cmp(&a->now.network, &t->network);
}

/* OUT: for each tunnel the one that was asked already, or a new one. */
static int collect(struct prober *p, const struct prober_tunnel *tunnels, size_t n, struct asked **out,
		   size_t *n_out)
{
	for (size_t i = 0; i < n; i++) {
		struct asked *a = find(p, tunnels[i].name);

		if (!tunnels[i].peer.family)
			continue;
		if (!same_peer(a, &tunnels[i]))
			a = asked_new(p, &tunnels[i]);
		if (!a)
			return -ENOMEM;
		out[(*n_out)++] = a;
	}
	return 0;
}

static bool holds(struct asked *const *v, size_t n, const struct asked *a)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == a)
			return true;
	return false;
}

int prober_set(struct prober *p, const struct ip_addr own[2], const struct prober_tunnel *tunnels, size_t n)
{
	struct asked **all = calloc(n + 1, sizeof(struct asked *)), **old = p->asked;
	size_t n_all = 0, n_old = p->n;
	int rc = all ? collect(p, tunnels, n, all, &n_all) : -ENOMEM;

	if (rc) {
		for (size_t i = 0; i < n_all; i++)
			if (!holds(old, n_old, all[i]))
				asked_free(all[i]);
		free(all);
		return rc;
	}
	for (size_t i = 0; i < n_old; i++)
		if (!holds(all, n_all, old[i]))
			asked_free(old[i]);
	p->asked = all;
	p->n = n_all;
	if (ip_addr_cmp(&own[0], &p->own[0]) || ip_addr_cmp(&own[1], &p->own[1]) || !n_all)
		close_sockets(p);
	memcpy(p->own, own, sizeof(p->own));
	open_sockets(p);
	for (size_t i = 0, k = 0; i < n; i++) {
		if (!tunnels[i].peer.family)
			continue;
		update(all[k], &tunnels[i]);
		/* From the loop, not from within the caller's turn. */
		ev_timer_stop(p->loop, &all[k]->timer);
		ev_timer_set(&all[k]->timer, 0, 0);
		ev_timer_start(p->loop, &all[k++]->timer);
	}
	free(old);
	return 0;
}

bool prober_view(const struct prober *p, const char *name, struct prober_view *out)
{
	const struct asked *a = find(p, name);

	if (a)
		prober_look(a, out);
	return a != NULL;
}
