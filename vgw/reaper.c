/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/reaper.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "netcfg/kernel/forge.h"
#include "netcfg/model/nft_table.h"
#include "vgw/clock.h"

/* Forged ACKs go out in portions: a thousand flows within 40 ms, and no burst that fills a queue. */
enum { FORGE_PORTION = 256, FORGE_QUEUE = 65536, RESCANS = 2 };
/* A count that takes 1 ms of processor time is followed by 50 without. */
enum { COUNT_SHARE = 50 };
#define FORGE_PERIOD_S 0.01

static const double rescan_after[RESCANS] = {0.1, 1.0};

struct forged {
	struct ip_endpoint from, to;
};

/* Backends whose flows are looked for again. */
struct rescan {
	struct rescan *next;
	struct reaper *r;
	unsigned done;
	ev_timer timer;
	size_t n;
	struct ct_pair pairs[];
};

struct reaper {
	struct ev_loop *loop;
	struct reaper_events events;
	struct conntrack *conntrack;
	struct forge *forge; /* NULL: no privilege */
	struct forged *queue;
	size_t n_queue, next;
	ev_timer forge_timer;
	struct rescan *rescans;
	ev_io count_io;
	int64_t count_cost_us, count_not_before_ms;
};

static void forget_queue(struct reaper *r)
{
	ev_timer_stop(r->loop, &r->forge_timer);
	free(r->queue);
	r->queue = NULL;
	r->n_queue = r->next = 0;
}

static void on_forge(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct reaper *r = w->data;

	if (!r->events.may_forge(r->events.ctx))
		return;
	for (int i = 0; i < FORGE_PORTION && r->next < r->n_queue; i++, r->next++)
		forge_ack(r->forge, &r->queue[r->next].from, &r->queue[r->next].to);
	if (r->next == r->n_queue)
		forget_queue(r);
}

static void on_flow(void *ctx, const struct ct_flow *flow)
{
	struct reaper *r = ctx;

	if (!flow->over)
		r->events.flow(r->events.ctx, &flow->port, &flow->backend);
}

static void on_count(struct ev_loop *loop, ev_io *w, int revents)
{
	struct reaper *r = w->data;
	struct reaper_events *e = &r->events;
	int64_t before = clock_cpu_us();
	int rc;

	rc = conntrack_count_read(r->conntrack, on_flow, r);
	r->count_cost_us += clock_cpu_us() - before;
	if (rc > 0)
		return;
	ev_io_stop(loop, w);
	r->count_not_before_ms = clock_mono_ms() + r->count_cost_us * COUNT_SHARE / 1000;
	if (!rc)
		e->count_end(e->ctx);
}

int reaper_new(struct ev_loop *loop, const struct reaper_events *events, struct reaper **out,
	       struct vgw_err *err)
{
	struct reaper *r = calloc(1, sizeof(*r));
	struct vgw_err raw = {0};
	int rc;

	*out = NULL;
	if (!r)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "reaper", "no memory");
	r->loop = loop;
	r->events = *events;
	rc = conntrack_open(&r->conntrack, err);
	if (rc) {
		free(r);
		return rc;
	}
	if (forge_open(NFT_FORGED_MARK, &r->forge, &raw) < 0)
		log_warning("reaper: idle clients of a dead backend will not be drawn out: %s", raw.text);
	ev_timer_init(&r->forge_timer, on_forge, 0, FORGE_PERIOD_S);
	ev_io_init(&r->count_io, on_count, conntrack_fd(r->conntrack), EV_READ);
	r->forge_timer.data = r->count_io.data = r;
	*out = r;
	return 0;
}

static void rescan_free(struct rescan *s)
{
	struct rescan **at = &s->r->rescans;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	ev_timer_stop(s->r->loop, &s->timer);
	free(s);
}

void reaper_forget(struct reaper *r)
{
	while (r->rescans)
		rescan_free(r->rescans);
	forget_queue(r);
}

void reaper_free(struct reaper *r)
{
	if (!r)
		return;
	reaper_forget(r);
	ev_io_stop(r->loop, &r->count_io);
	conntrack_close(r->conntrack);
	forge_close(r->forge);
	free(r);
}

static void draw_out(struct reaper *r, const struct ct_flow *flows, size_t n)
{
	struct forged *queue;

	if (!r->forge || !n)
		return;
	if (n > FORGE_QUEUE - r->n_queue)
		n = FORGE_QUEUE - r->n_queue;
	queue = realloc(r->queue, (r->n_queue + n) * sizeof(*queue));
	if (!queue)
		return;
	r->queue = queue;
	for (size_t i = 0; i < n; i++)
		if (flows[i].port.protocol == IPPROTO_TCP && flows[i].established)
			queue[r->n_queue++] = (struct forged){flows[i].port.at, flows[i].client};
	if (!ev_is_active(&r->forge_timer)) {
		ev_timer_set(&r->forge_timer, 0, FORGE_PERIOD_S);
		ev_timer_start(r->loop, &r->forge_timer);
	}
}

static void tell(struct reaper *r, const struct ct_flow *flows, size_t n)
{
	char text[IP_ENDPOINT_STRLEN];
	size_t reaped = 0;

	for (size_t i = 0; i < n; i++) {
		if (flows[i].over)
			continue;
		r->events.reaped(r->events.ctx, &flows[i].port, &flows[i].backend, 1);
		reaped++;
	}
	if (reaped)
		log_info("reaper: %zu flows, the first of dead %s", reaped,
			 ip_endpoint_print(&flows[0].backend, text));
}

static void reap(struct reaper *r, const struct ct_pair *pairs, size_t n)
{
	struct vgw_err err = {0};
	struct ct_flow *flows;
	size_t n_flows;

	if (conntrack_reap(r->conntrack, pairs, n, &flows, &n_flows, &err) < 0) {
		log_error("reaper: %s", err.text);
		return;
	}
	draw_out(r, flows, n_flows);
	tell(r, flows, n_flows);
	free(flows);
}

static void on_rescan(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct rescan *s = w->data;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->r->events.still_dead(s->r->events.ctx, &s->pairs[i]))
			s->pairs[n++] = s->pairs[i];
	s->n = n;
	reap(s->r, s->pairs, n);
	if (!n || ++s->done == RESCANS) {
		rescan_free(s);
		return;
	}
	ev_timer_set(w, rescan_after[s->done], 0);
	ev_timer_start(loop, w);
}

void reaper_kill(struct reaper *r, const struct ct_pair *pairs, size_t n)
{
	struct rescan *s = calloc(1, sizeof(*s) + n * sizeof(*pairs));

	if (!s) {
		log_error("reaper: no memory");
		return;
	}
	memcpy(s->pairs, pairs, n * sizeof(*pairs));
	qsort(s->pairs, n, sizeof(*pairs), ct_pair_cmp);
	s->n = n;
	s->r = r;
	s->next = r->rescans;
	r->rescans = s;
	reap(r, s->pairs, n);
	ev_timer_init(&s->timer, on_rescan, rescan_after[0], 0);
	s->timer.data = s;
	ev_timer_start(r->loop, &s->timer);
}

void reaper_count(struct reaper *r, bool at_once)
{
	int64_t before = clock_cpu_us();

	if (ev_is_active(&r->count_io) || (!at_once && clock_mono_ms() < r->count_not_before_ms) ||
	    conntrack_count_start(r->conntrack) < 0)
		return;
	r->count_cost_us = clock_cpu_us() - before;
	r->events.count_begin(r->events.ctx);
	ev_io_start(r->loop, &r->count_io);
}

int reaper_insert_failed(struct reaper *r, uint64_t *out)
{
	return conntrack_insert_failed(r->conntrack, out);
}
