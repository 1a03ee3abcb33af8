/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's life, and what makes its loop turn. */
#include "vgw/gateway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "netcfg/kernel/sysctl.h"
#include "vgw/clock.h"
#include "vgw/gateway_internal.h"

/* Events are gathered for so long; what no notification tells is looked at so often, everything so seldom. */
enum { COALESCE_MS = 10, TICK_MS = 500, COUNT_TICKS = 10, FULL_MS = 60000 };

static void on_soon(struct ev_loop *loop, ev_timer *w, int revents)
{
	if (!gateway_delta(w->data))
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
	if (report.bits & MONITOR_LINK)
		gateway_flows_hurry(g);
	monitor_links_merge(&g->down, &report.down);
	gateway_metrics_tampered(g, report.table_changes);
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

/* Who has given up makes no event any more: what is contested is looked at by the clock. */
static bool disputes_due(const struct gateway *g)
{
	for (size_t i = 0; i < g->n_disputes; i++)
		if (fight_due(&g->disputes[i].fight, clock_mono_ms()))
			return true;
	return false;
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gateway *g = w->data;

	if (g->spec && clock_mono_ms() - g->full_ms >= FULL_MS) {
		g->table_dirty = true;
		gateway_reconcile_soon(g, 0);
	} else if (g->spec && (sysctls_moved(g) || disputes_due(g))) {
		gateway_reconcile_soon(g, 0);
	}
	if (++g->ticks % COUNT_TICKS)
		return;
	if (g->spec)
		reaper_count(g->reaper, false);
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
	/* A clock that was set back does not set the revision back. */
	if (!rc && store_read_revision(&g->store) >= g->revision)
		g->revision = store_read_revision(&g->store) + 1;
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
	if (!g->checker)
		return vgw_err_set(err, -ENOMEM, "OutOfMemory", "checks", "no memory");
	rc = gateway_tunnels_open(g, err);
	return rc ? rc : gateway_flows_open(g, err);
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
	gateway_confirm_init(g);
	g->soon.data = g->tick.data = g;
	gateway_status_init(g);
	rc = gateway_metrics_open(g);
	if (rc)
		vgw_err_set(err, rc, "OutOfMemory", "metrics", "no memory");
	else
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
	gateway_confirm_stop(g);
	ev_timer_stop(g->loop, &g->again);
	buf_free(&g->again_text);
	gateway_flows_close(g);
	gateway_tunnels_close(g);
	gateway_metrics_close(g);
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

int64_t gateway_overdue_ms(const struct gateway *g)
{
	return checker_overdue_ms(g->checker, clock_mono_ms());
}

void gateway_set_server(struct gateway *g, const struct control_server *server)
{
	if (server != g->server)
		gateway_metrics_server_ends(g);
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
