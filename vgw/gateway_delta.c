/* SPDX-License-Identifier: Apache-2.0 */
/* The short way for changed verdicts: only the services they are about are planned, written and read back. */
#include <errno.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/gateway_internal.h"
#include "vgw/model/wanted.h"

/* More changed frontends at once than this are the long way's. */
enum { DELTA_FRONTENDS = 32 };
/* What a delta leaves in the view's memory is freed by the next long turn: after so many, that is now. */
enum { DELTA_IN_A_ROW = 500 };

static void log_change(const struct ns_service *s)
{
	struct buf line = {0};

	ns_service_print(s, &line);
	log_info("plan: ~ frontend %s", buf_str(&line));
	buf_free(&line);
}

/* Handles of the new rules: the next change of the chain needs them. */
static void take_chain(struct gateway *g, const struct nft_chain *chain)
{
	struct nft_table *t = &g->view.observed.table;

	for (size_t i = 0; i < t->n_chains; i++)
		if (!strcmp(t->chains[i].name, chain->name))
			t->chains[i] = *chain;
}

static int change(struct gateway *g, size_t f)
{
	const struct spec_frontend *spec = &g->spec->frontends[f];
	struct arena *arena = g->view.arena;
	struct ns_service old, new = {0};
	struct nft_chain chain;
	struct nft_delta delta;
	struct vgw_err err = {0};
	struct ns_service *service;
	struct ns_port port;
	int rc;

	if (!wanted_port(spec, &g->view.facts, &port))
		return 0;
	service = ns_service_find(g->wanted.services, g->wanted.n_services, &port);
	if (!service)
		return -ENOENT;
	rc = wanted_service(spec, &g->view.facts, checker_verdicts(g->checker)[f], arena, &new);
	old = *service;
	if (rc || ns_service_equal(&old, &new))
		return rc;
	*service = new;
	rc = nft_delta_make(&g->view.observed.table, &g->wanted, &old, service, &g->host.features, arena,
			    &delta);
	if (!rc)
		rc = nft_commit(g->host.nft, &delta.old, &delta.new, &err);
	if (!rc)
		rc = nft_verify(g->host.nft, &delta, arena, &chain, &err);
	if (rc) {
		log_warning("delta: %s: %s", err.where, err.text);
		return rc;
	}
	if (delta.new.n_chains)
		take_chain(g, &chain);
	log_change(&new);
	return 0;
}

bool gateway_delta(struct gateway *g)
{
	size_t frontends[DELTA_FRONTENDS], n;

	if (!g->spec || !g->view.arena || !g->in_sync || g->table_dirty || g->event_ms ||
	    g->deltas >= DELTA_IN_A_ROW || g->unsettled)
		return false;
	n = checker_take_changed(g->checker, frontends, DELTA_FRONTENDS);
	if (!n || n > DELTA_FRONTENDS)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (change(g, frontends[i]) < 0) {
			/* Whatever is there now: the long way looks. */
			g->table_dirty = true;
			return false;
		}
	}
	g->deltas++;
	g->wanted_table = g->view.observed.table;
	gateway_flows_reap(g);
	gateway_touch(g);
	return true;
}
