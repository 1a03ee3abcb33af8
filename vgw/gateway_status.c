/* SPDX-License-Identifier: Apache-2.0 */
/* From the gateway's state to the status document, its conditions and its revision. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "netcfg/model/nft_table.h"
#include "vgw/clock.h"
#include "vgw/file.h"
#include "vgw/gateway_internal.h"

/* Written so far ahead, the mark is seldom written. */
enum { REVISION_AHEAD = 100000 };
/* A document this young serves the next poll too. */
enum { BODY_FRESH_MS = 20, MAX_WARNINGS = 64 };
/* A status of more backends than these is looked at whole at most this often: it takes tens of ms. */
enum { LARGE_BACKENDS = 2000, LARGE_MS = 1000 };
/* And a while after what changed: a first failed check is followed by the second, and that by a verdict. */
#define LARGE_LATER_S 0.02
enum { CLOCK_SET_MS = 200 };

static void on_touch(struct ev_loop *loop, ev_timer *w, int revents)
{
	gateway_tunnels_sync(w->data);
	gateway_revision(w->data);
}

void gateway_status_init(struct gateway *g)
{
	struct buf text = {0};
	struct utsname u;

	ev_timer_init(&g->touch, on_touch, 0, 0);
	g->touch.data = g;
	g->start_ms = clock_wall_ms();
	g->revision = g->start_ms;
	if (file_read("/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0)
		snprintf(g->boot_id, sizeof(g->boot_id), "%.36s", buf_str(&text));
	buf_free(&text);
	if (uname(&u) == 0)
		snprintf(g->kernel, sizeof(g->kernel), "%s", u.release);
}

static bool is_large(const struct gateway *g)
{
	return g->spec && spec_count_backends(g->spec) > LARGE_BACKENDS;
}

void gateway_touch(struct gateway *g)
{
	g->touched = true;
	if (!ev_is_active(&g->touch)) {
		ev_timer_set(&g->touch, is_large(g) ? LARGE_LATER_S : 0, 0);
		ev_timer_start(g->loop, &g->touch);
	}
}

/* One moment has one name: the difference of the clocks is taken again only where one of them was set. */
static void compare_clocks(struct gateway *g)
{
	int64_t ahead = clock_wall_ms() - clock_mono_ms();

	if (llabs(ahead - g->wall_ahead_ms) > CLOCK_SET_MS)
		g->wall_ahead_ms = ahead;
}

int64_t gateway_to_wall(const struct gateway *g, int64_t mono_ms)
{
	return mono_ms < 0 ? -1 : mono_ms + g->wall_ahead_ms;
}

static void fill_check(const struct gateway *g, const struct checker_backend *c, struct status_check *out)
{
	out->done = c->health.sampled;
	out->result = c->health.last;
	out->streak = c->health.streak;
	out->time = c->checked_ms ? gateway_to_wall(g, c->checked_ms) : -1;
}

static enum status_frontend_state frontend_state(const struct gateway *g, const struct spec_frontend *f,
						 const struct ns_service *wanted,
						 const struct ns_service *there, size_t n_out)
{
	if (f->placement == SPEC_IGNORED)
		return STATUS_IGNORED;
	if (!wanted)
		return STATUS_PENDING;
	if (!there || !ns_service_equal(wanted, there))
		return STATUS_FAILED;
	if (!rt_host_carrier(&g->view.rt, &wanted->port.at.addr))
		return STATUS_PENDING;
	return n_out ? STATUS_DEGRADED : STATUS_PROGRAMMED;
}

enum health_state gateway_backend_state(const struct spec_backend *b, enum health_state judged)
{
	return !wanted_weight(b) && judged != HEALTH_DEAD ? HEALTH_DRAINING : judged;
}

static void fill_backends(const struct gateway *g, size_t index, struct status_frontend *out, size_t *n_out)
{
	const struct spec_frontend *f = &g->spec->frontends[index];

	for (size_t b = 0; b < f->n_backends; b++) {
		const struct spec_backend *spec = &f->backends[b];
		struct status_backend *e = &out->backends[b];
		enum health_state judged = HEALTH_UNKNOWN;

		e->at.addr = spec->address;
		e->at.port = spec->port;
		e->since = -1;
		if (f->placement != SPEC_IGNORED) {
			const struct checker_backend *c = checker_backend(g->checker, index, b);

			judged = c->health.state;
			e->since = gateway_to_wall(g, c->health.since_ms);
			fill_check(g, c, &e->check);
			e->flows = c->flows;
			e->flows_reaped = c->flows_reaped;
			*n_out += !wanted_weight(spec) || !c->health.in_rotation;
		}
		e->state = gateway_backend_state(spec, judged);
		out->n_healthy += e->state == HEALTH_UP;
	}
}

struct filler {
	struct gateway *g;
	struct arena *arena;
	struct ns_service *there; /* in the kernel */
	size_t n_there;
	struct status *s;
	struct status_warning *warnings;
	bool failed;
};

static void fill_frontend(struct filler *x, size_t i)
{
	struct gateway *g = x->g;
	const struct spec_frontend *f = &g->spec->frontends[i];
	struct status_frontend *out = &x->s->frontends[i];
	const struct ns_service *wanted = NULL, *there = NULL;
	struct ns_port port = {0};
	size_t n_out = 0;

	out->name = f->name;
	out->protocol = f->protocol;
	out->control_plane = f->control_plane;
	out->n_backends = f->n_backends;
	out->at.port = f->port;
	out->backends = arena_calloc(x->arena, f->n_backends, sizeof(*out->backends));
	if (!out->backends) {
		x->failed = true;
		return;
	}
	fill_backends(g, i, out, &n_out);
	if (g->view.arena && wanted_port(f, &g->view.facts, &port)) {
		out->at.addr = port.at.addr;
		wanted = ns_service_find(g->wanted.services, g->wanted.n_services, &port);
		there = ns_service_find(x->there, x->n_there, &port);
	}
	out->state = frontend_state(g, f, wanted, there, n_out);
	if (out->state != STATUS_DEGRADED && out->state != STATUS_PROGRAMMED)
		return;
	switch (wanted_state(f, &g->view.facts, checker_verdicts(g->checker)[i])) {
	case WANTED_REFUSES:
		out->state = STATUS_NO_BACKENDS;
		break;
	case WANTED_FAILS_OPEN:
		out->state = STATUS_FAIL_OPEN;
		break;
	case WANTED_IGNORED:
	case WANTED_PENDING:
	case WANTED_BALANCED:
		break;
	}
}

static void take_warning(void *ctx, const char *code, const char *message, const char *fix)
{
	struct filler *x = ctx;
	struct status_warning *w = &x->warnings[x->s->n_warnings];

	if (x->s->n_warnings == MAX_WARNINGS)
		return;
	w->code = arena_strdup(x->arena, code);
	w->message = arena_strdup(x->arena, message);
	w->fix = arena_strdup(x->arena, fix ? fix : "");
	if (w->code && w->message && w->fix)
		x->s->n_warnings++;
}

static void fill_spec(struct filler *x)
{
	const struct spec *spec = x->g->spec;
	struct status *s = x->s;

	s->spec = spec;
	s->accepted = spec->generation;
	s->applied = x->g->applied;
	s->frontends = arena_calloc(x->arena, spec->n_frontends, sizeof(*s->frontends));
	s->tunnels = arena_calloc(x->arena, spec->n_tunnels, sizeof(*s->tunnels));
	s->probes = arena_calloc(x->arena, spec->n_probes, sizeof(*s->probes));
	x->warnings = arena_calloc(x->arena, MAX_WARNINGS, sizeof(*x->warnings));
	if (!s->frontends || !s->tunnels || !s->probes || !x->warnings ||
	    nft_table_services(&x->g->view.observed.table, x->arena, &x->there, &x->n_there) < 0) {
		x->failed = true;
		return;
	}
	s->n_frontends = spec->n_frontends;
	for (size_t i = 0; i < spec->n_frontends && !x->failed; i++)
		fill_frontend(x, i);
	s->n_tunnels = spec->n_tunnels;
	for (size_t i = 0; i < spec->n_tunnels; i++)
		gateway_tunnels_fill(x->g, &spec->tunnels[i], &s->tunnels[i]);
	s->n_probes = spec->n_probes;
	for (size_t i = 0; i < spec->n_probes; i++) {
		const struct checker_backend *c = checker_probe(x->g->checker, i);

		s->probes[i].name = spec->probes[i].name;
		s->probes[i].state = c->health.state;
		fill_check(x->g, c, &s->probes[i].check);
	}
	rules_warnings(spec, take_warning, x);
	s->warnings = x->warnings;
}

static int64_t resident_bytes(void)
{
	struct buf text = {0};
	long pages = 0;

	if (file_read("/proc/self/statm", 256, &text, NULL) == 0)
		sscanf(buf_str(&text), "%*d %ld", &pages);
	buf_free(&text);
	return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void fill_agent(struct gateway *g, struct status *s, const char **features)
{
	s->revision = g->revision;
	s->now = clock_wall_ms();
	s->start_time = g->start_ms;
	s->boot_id = g->boot_id;
	s->version = VGW_VERSION;
	s->kernel = g->kernel;
	if (g->host.features.owner_persist)
		features[s->n_features++] = "nft-owner-persist";
	if (g->host.features.secpath)
		features[s->n_features++] = "nft-secpath";
	if (g->host.features.retry)
		features[s->n_features++] = "nft-syn-retry";
	if (g->host.features.log)
		features[s->n_features++] = "nft-log";
	s->features = features;
	s->refused = g->is_refused ? &g->refused : NULL;
	s->apply_error = g->apply_err.reason[0] ? g->apply_err.text : "";
	s->guard_in_force = g->in_sync;
	s->contested = "";
	for (size_t i = 0; i < g->n_disputes; i++)
		if (g->disputes[i].fight.contested)
			s->contested = g->disputes[i].object;
	s->drift = g->drift;
	s->n_drift = g->n_drift;
	if (g->server) {
		s->certificate_not_after = control_server_not_after(g->server);
		s->has_skew = control_server_skew(g->server, &s->skew_seconds);
	}
}

/* FNV-1a: a change must show, nobody tries to hide one. */
static uint64_t hash(const struct buf *b)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < b->len; i++)
		h = (h ^ (uint8_t)b->data[i]) * 0x100000001b3u;
	return h;
}

/* Fills S from the state; everything it points to is the gateway's or ARENA's. */
static bool fill(struct gateway *g, struct arena *arena, struct status *s, const char **features)
{
	struct filler x = {.g = g, .arena = arena, .s = s};

	memset(s, 0, sizeof(*s));
	compare_clocks(g);
	fill_agent(g, s, features);
	if (g->spec)
		fill_spec(&x);
	status_judge(s, g->conditions);
	return !x.failed;
}

static void update(struct gateway *g, struct arena *arena)
{
	const char *features[4];
	struct buf text = {0};
	struct status s;
	uint64_t h;

	if (!fill(g, arena, &s, features))
		return;
	g->touched = false;
	memcpy(g->conditions, s.conditions, sizeof(g->conditions));
	status_render(&s, true, &text);
	h = hash(&text);
	buf_free(&text);
	if (h == g->substance)
		return;
	g->substance = h;
	g->revision++;
	if (g->revision > g->revision_mark) {
		g->revision_mark = g->revision + REVISION_AHEAD;
		store_write_revision(&g->store, g->revision_mark);
	}
	g->body.len = 0;
	if (g->on_revision)
		g->on_revision(g->on_revision_ctx);
}

int64_t gateway_revision(struct gateway *g)
{
	int64_t since = clock_mono_ms() - g->updated_ms;
	struct arena *arena;

	if (!g->touched)
		return g->revision;
	if (since < LARGE_MS && is_large(g)) {
		if (!ev_is_active(&g->touch)) {
			ev_timer_set(&g->touch, (double)(LARGE_MS - since) / 1000.0, 0);
			ev_timer_start(g->loop, &g->touch);
		}
		return g->revision;
	}
	g->updated_ms = clock_mono_ms();
	arena = arena_new();
	if (arena)
		update(g, arena);
	arena_free(arena);
	return g->revision;
}

void gateway_on_revision(struct gateway *g, void (*fn)(void *ctx), void *ctx)
{
	g->on_revision = fn;
	g->on_revision_ctx = ctx;
}

const char *gateway_status(struct gateway *g, size_t *len)
{
	const char *features[4];
	struct arena *arena;
	struct status s;

	gateway_revision(g);
	if (!g->body.len || clock_mono_ms() - g->body_ms > (is_large(g) ? LARGE_MS : BODY_FRESH_MS)) {
		arena = arena_new();
		g->body.len = 0;
		if (arena && fill(g, arena, &s, features)) {
			s.rss_bytes = resident_bytes();
			status_render(&s, false, &g->body);
		}
		arena_free(arena);
		g->body_ms = clock_mono_ms();
	}
	*len = g->body.len;
	return buf_str(&g->body);
}

bool gateway_ready(struct gateway *g, struct buf *reason)
{
	const struct status_condition *c = &g->conditions[CONDITION_READY];

	gateway_revision(g);
	if (c->present && c->status == STATUS_TRUE)
		return true;
	buf_printf(reason, "%s: %s", c->present ? c->reason : "Starting",
		   c->present ? c->message : "no status yet");
	return false;
}
