/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's life, and what happens to a spec. */
#include "vgw/gateway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "netcfg/kernel/sysctl.h"
#include "vgw/clock.h"
#include "vgw/file.h"
#include "vgw/gateway_internal.h"

/* Events are gathered for so long; what no notification tells is looked at so often, everything so seldom. */
enum {
	COALESCE_MS = 10,
	TICK_MS = 5000,
	FULL_MS = 60000
};

static void on_soon(struct ev_loop *loop, ev_timer *w, int revents)
{
	gateway_reconcile(w->data, NULL);
}

void gateway_reconcile_soon(struct gateway *g, int64_t ms)
{
	double after = (double)ms / 1000.0;

	if (ev_is_active(&g->soon)) {
		if (ev_timer_remaining(g->loop, &g->soon) <= after)
			return;
		ev_timer_stop(g->loop, &g->soon);
	}
	ev_timer_set(&g->soon, after, 0);
	ev_timer_start(g->loop, &g->soon);
}

static void on_event(struct ev_loop *loop, ev_io *w, int revents)
{
	struct gateway *g = w->data;
	struct monitor_report report;

	monitor_read(g->monitor, &report);
	if (!report.bits)
		return;
	if (!g->event_ms)
		g->event_ms = clock_mono_ms();
	if (report.bits & MONITOR_TABLE)
		g->table_dirty = true;
	if (report.table_by[0])
		memcpy(g->table_by, report.table_by, sizeof(g->table_by));
	if (report.route_by[0])
		memcpy(g->route_by, report.route_by, sizeof(g->route_by));
	gateway_reconcile_soon(g, COALESCE_MS);
}

static bool sysctls_moved(const struct gateway *g)
{
	char value[NS_SYSCTL_VALUE];

	for (size_t i = 0; g->view.arena && i < g->wanted.n_sysctls; i++)
		if (sysctl_read(g->wanted.sysctls[i].name, value) == 0 &&
		    strcmp(value, g->wanted.sysctls[i].value))
			return true;
	return false;
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gateway *g = w->data;

	if (g->spec && clock_mono_ms() - g->full_ms >= FULL_MS) {
		g->table_dirty = true;
		gateway_reconcile_soon(g, 0);
	} else if (g->spec && sysctls_moved(g)) {
		gateway_reconcile_soon(g, 0);
	}
	gateway_touch(g);
}

static void on_checks(void *ctx, unsigned changes)
{
	struct gateway *g = ctx;

	/* Verdicts that come in one turn of the loop make one transaction. */
	if (changes & CHECKER_VERDICT)
		gateway_reconcile_soon(g, 0);
	gateway_touch(g);
}

static int open_all(struct gateway *g, struct vgw_err *err)
{
	uint32_t own[2];
	int rc = store_open(&g->store, g->config->state_directory, err);

	if (!rc)
		rc = store_lock(&g->store, err);
	if (!rc)
		rc = store_read_record(&g->store, &g->record, err);
	if (!rc)
		rc = host_open(&g->host, g->config, err);
	if (rc)
		return rc;
	own[0] = nft_port(g->host.nft);
	own[1] = rt_port(g->host.rt);
	rc = monitor_open(own, 2, &g->monitor, err);
	if (rc)
		return rc;
	g->checker = checker_new(g->loop, on_checks, g);
	return g->checker ? 0 : vgw_err_set(err, -ENOMEM, "OutOfMemory", "checks", "no memory");
}

int gateway_new(struct ev_loop *loop, const struct config *config, struct gateway **out, struct vgw_err *err)
{
	struct gateway *g = calloc(1, sizeof(*g));
	int rc;

	*out = NULL;
	if (!g)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "gateway", "no memory");
	g->loop = loop;
	g->config = config;
	g->store.lock = -1;
	ev_timer_init(&g->soon, on_soon, 0, 0);
	ev_timer_init(&g->tick, on_tick, TICK_MS / 1000.0, TICK_MS / 1000.0);
	g->soon.data = g->tick.data = g;
	gateway_status_init(g);
	rc = open_all(g, err);
	if (rc) {
		gateway_free(g);
		return rc;
	}
	for (unsigned i = 0; i < MONITOR_SOCKETS; i++) {
		ev_io_init(&g->watch[i], on_event, monitor_fd(g->monitor, i), EV_READ);
		g->watch[i].data = g;
		ev_io_start(loop, &g->watch[i]);
	}
	ev_timer_start(loop, &g->tick);
	*out = g;
	return 0;
}

void gateway_free(struct gateway *g)
{
	if (!g)
		return;
	for (unsigned i = 0; i < MONITOR_SOCKETS && g->monitor; i++)
		ev_io_stop(g->loop, &g->watch[i]);
	ev_timer_stop(g->loop, &g->soon);
	ev_timer_stop(g->loop, &g->tick);
	ev_timer_stop(g->loop, &g->touch);
	checker_free(g->checker);
	monitor_close(g->monitor);
	host_view_free(&g->view);
	host_close(&g->host);
	store_record_free(&g->record);
	store_close(&g->store);
	spec_free(g->spec);
	buf_free(&g->text);
	buf_free(&g->body);
	free(g->disputes);
	free(g);
}

static bool control_plane_live(const struct gateway *g)
{
	return g->spec && spec_control_plane(g->spec) && g->applied;
}

/* Decoded, and judged against what is live and, with a VIEW, against the host. */
static int judge(const struct gateway *g, const struct spec *spec, const struct host_view *view, bool stored,
		 struct vgw_err *err)
{
	struct rules_host host = view->rules;
	struct rules_live live = {.accepted = g->spec, .control_plane_live = control_plane_live(g)};

	/* A network that appeared on the host after a spec was accepted is a finding, and unprograms nothing.
	 */
	if (stored)
		host.n_connected = 0;
	return rules_check(spec, &host, &live, err);
}

struct candidate {
	struct spec *spec;
	struct host_view view;
};

static void candidate_free(struct candidate *c)
{
	spec_free(c->spec);
	if (c->view.arena)
		host_view_free(&c->view);
}

static int examine(struct gateway *g, const char *text, size_t len, bool stored, struct candidate *c,
		   struct vgw_err *err)
{
	int rc = spec_decode(text, len, &c->spec, err);

	if (!rc && g->spec)
		rc = rules_check_generation(c->spec, g->spec, err);
	if (!rc)
		rc = host_look(&g->host, c->spec, &g->record, NULL, &c->view, err);
	if (!rc)
		rc = judge(g, c->spec, &c->view, stored, err);
	return rc;
}

static void print_plan(const struct plan *plan, struct buf *lines)
{
	for (size_t i = 0; lines && i < plan->n; i++)
		buf_printf(lines, "%s\n", plan->ops[i].line);
}

static int plan_only(struct gateway *g, struct candidate *c, const struct wanted_verdict *const *verdicts,
		     struct buf *lines, struct vgw_err *err)
{
	struct netstate wanted;
	struct plan plan;
	int rc = host_plan(&g->host, c->spec, verdicts, &g->record, &c->view, &wanted, &plan, err);

	if (!rc)
		print_plan(&plan, lines);
	return rc;
}

/* C's spec is in force from here on; back to the old one when the kernel does not take it. */
static int put_in_force(struct gateway *g, struct candidate *c, const char *text, size_t len,
			struct buf *lines, struct vgw_err *err)
{
	const struct wanted_verdict *const *verdicts;
	struct spec *old = g->spec;
	int64_t old_applied = g->applied;
	int rc = host_verdicts(c->spec, old ? old : c->spec, &c->view, c->view.arena, &verdicts);

	if (!rc)
		rc = checker_set(g->checker, c->spec, verdicts);
	if (rc)
		return vgw_err_set(err, rc, "OutOfMemory", "spec", "no memory");
	g->spec = c->spec;
	g->table_dirty = true;
	rc = gateway_reconcile(g, lines);
	/* An operation of its own that failed (a link, a route) is reported and tried again; the table is all
	 * or nothing. */
	if (!rc || g->in_sync) {
		c->spec = NULL;
		spec_free(old);
		buf_free(&g->text);
		buf_append(&g->text, text, len);
		g->is_refused = false;
		return 0;
	}
	*err = g->apply_err;
	if (old || !rc) {
		checker_set(g->checker, old, NULL);
		g->spec = old;
		g->applied = old_applied;
		g->table_dirty = true;
		gateway_reconcile(g, NULL);
	} else {
		checker_set(g->checker, NULL, NULL);
		g->spec = NULL;
	}
	return rc;
}

int gateway_put(struct gateway *g, const char *text, size_t len, bool dry_run, struct buf *lines,
		int64_t *generation, struct vgw_err *err)
{
	struct candidate c = {0};
	const struct wanted_verdict *const *verdicts;
	int rc = examine(g, text, len, false, &c, err);

	if (!rc)
		*generation = c.spec->generation;
	if (!rc && dry_run) {
		rc = host_verdicts(c.spec, g->spec, &c.view, c.view.arena, &verdicts);
		if (!rc)
			rc = plan_only(g, &c, verdicts, lines, err);
	} else if (!rc) {
		/* On disk first: what is answered as accepted is there after a power cut. */
		rc = store_write_spec(&g->store, text, len, err);
		if (!rc)
			rc = put_in_force(g, &c, text, len, lines, err);
		if (rc && g->spec)
			store_write_spec(&g->store, buf_str(&g->text), g->text.len, NULL);
		else if (rc)
			file_remove(g->store.spec_path, NULL);
	}
	candidate_free(&c);
	gateway_touch(g);
	return rc;
}

int gateway_delete(struct gateway *g, struct buf *lines, struct vgw_err *err)
{
	int rc = gateway_remove(g, lines, err), rc2;

	if (rc)
		return rc;
	checker_set(g->checker, NULL, NULL);
	spec_free(g->spec);
	g->spec = NULL;
	g->applied = 0;
	g->is_refused = false;
	buf_free(&g->text);
	host_view_free(&g->view);
	memset(&g->wanted, 0, sizeof(g->wanted));
	memset(&g->wanted_table, 0, sizeof(g->wanted_table));
	memset(&g->apply_err, 0, sizeof(g->apply_err));
	g->in_sync = false;
	g->n_disputes = 0;
	store_record_free(&g->record);
	rc2 = store_clear(&g->store, err);
	gateway_touch(g);
	return rc2;
}

const char *gateway_spec(const struct gateway *g, size_t *len)
{
	*len = g->text.len;
	return g->spec ? buf_str(&g->text) : NULL;
}

static void start_with(struct gateway *g, const struct buf *text, bool stored)
{
	struct candidate c = {0};
	struct vgw_err err = {0};
	char line[900];
	int rc = examine(g, buf_str(text), text->len, stored, &c, &err);

	if (!rc && !stored)
		rc = store_write_spec(&g->store, buf_str(text), text->len, &err);
	if (!rc)
		rc = put_in_force(g, &c, buf_str(text), text->len, NULL, &err);
	candidate_free(&c);
	if (!rc) {
		log_info("spec: generation %lld of cluster %s is in force", (long long)g->spec->generation,
			 g->spec->cluster);
		return;
	}
	g->is_refused = true;
	g->refused = err;
	log_error("spec: the %s spec is not in force: %s", stored ? "stored" : "first",
		  vgw_err_print(&err, line, sizeof(line)));
}

int gateway_start(struct gateway *g, const char *first_spec, struct vgw_err *err)
{
	struct buf text = {0};
	int rc = store_read_spec(&g->store, &text, err);

	if (!rc) {
		start_with(g, &text, true);
	} else if (rc == -ENOENT && first_spec) {
		rc = file_read(first_spec, SPEC_MAX_BYTES, &text, err);
		if (!rc)
			start_with(g, &text, false);
		else {
			g->is_refused = true;
			g->refused = *err;
			log_error("spec: %s: %s", err->where, err->text);
		}
	} else if (rc != -ENOENT) {
		g->is_refused = true;
		g->refused = *err;
		log_error("spec: %s: %s", err->where, err->text);
	}
	buf_free(&text);
	gateway_touch(g);
	return 0;
}

int64_t gateway_overdue_ms(const struct gateway *g)
{
	return checker_overdue_ms(g->checker, clock_mono_ms());
}

void gateway_set_server(struct gateway *g, const struct control_server *server)
{
	g->server = server;
	gateway_touch(g);
}

size_t gateway_listeners(const struct gateway *g, struct ip_endpoint out[2])
{
	size_t n = 0;

	for (unsigned f = 0; f < 2 && g->view.arena; f++) {
		if (!g->view.facts.own[f].family)
			continue;
		out[n].addr = g->view.facts.own[f];
		out[n++].port = CONFIG_CONTROL_PORT;
	}
	return n;
}
