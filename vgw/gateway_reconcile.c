/* SPDX-License-Identifier: Apache-2.0 */
/* Observe, plan, apply, observe again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "netcfg/kernel/sysctl.h"
#include "vgw/clock.h"
#include "vgw/gateway_internal.h"

/* A plan that does not become empty is tried so often in a row, then seldom: nothing must turn for ever. */
enum { UNSETTLED_QUICK = 5, UNSETTLED_LATER_MS = 30000 };
/* A table of more elements than this is not read back whole after a change of our own, but a while later. */
enum { READ_BACK_ELEMENTS = 5000, READ_BACK_LATER_MS = 5000 };

/* One reconciliation's working memory. */
struct turn {
	struct gateway *g;
	struct host_view view;
	struct netstate wanted;
	struct plan plan;
	struct apply_result *results;
	bool *drifted, *skipped, *done; /* by operation */
	int64_t started_ms;
	struct vgw_err err; /* the first */
};

/* The same MTU was wanted before: the link came back without it. */
static bool wanted_before(const struct gateway *g, const struct ns_link *link)
{
	for (size_t i = 0; g->view.arena && i < g->wanted.n_links; i++)
		if (!memcmp(&g->wanted.links[i], link, sizeof(*link)))
			return true;
	return false;
}

/* An operation on an object that is fought over waits for its minute. One table, one decision. */
static void decide_op(struct turn *t, size_t i)
{
	const struct plan_op *op = &t->plan.ops[i];
	char object[GATEWAY_OBJECT];
	struct gateway_dispute *d;
	bool was_contested;

	if (t->skipped[i])
		return;
	if (op->kind == PLAN_NFT && i && t->plan.ops[i - 1].kind == PLAN_NFT) {
		t->drifted[i] = t->drifted[i - 1];
		t->skipped[i] = t->skipped[i - 1];
		return;
	}
	if (!gateway_op_object(op, object))
		return;
	d = gateway_dispute(t->g, object);
	if (!d)
		return;
	t->drifted[i] = gateway_is_drift(t->g, op, &t->plan);
	if (!t->drifted[i] && !d->fight.contested) {
		d->fight.repairs += op->kind == PLAN_LINK && wanted_before(t->g, &op->link);
		return;
	}
	was_contested = d->fight.contested;
	t->skipped[i] = !fight_lost(&d->fight, t->started_ms);
	if (t->skipped[i] && !was_contested)
		gateway_drift_add(t->g, object, op->kind == PLAN_NFT ? t->g->table_by : "", -1);
}

/* What an operation will replace is on disk before it is replaced. */
static int record_op(struct turn *t, const struct plan_op *op, bool *changed)
{
	struct gateway *g = t->g;

	if (op->kind == PLAN_LINK) {
		const struct rt_link *have = rt_host_link(&t->view.rt, op->link.name);
		struct plan_was_link was = {.original = have->mtu, .set = op->link.mtu};

		memcpy(was.name, op->link.name, NS_IFNAME);
		*changed = true;
		/* A link that was not there at the last look is another one of the same name. */
		return store_record_link(&g->record, &was,
					 g->view.arena && !rt_host_link(&g->view.rt, op->link.name));
	}
	/* Forwarding stays on when we go: others may rely on it by then. */
	if (op->kind == PLAN_SYSCTL && !strstr(op->sysctl.name, "forward")) {
		struct plan_was_sysctl was = {0};

		memcpy(was.name, op->sysctl.name, sizeof(was.name));
		memcpy(was.set, op->sysctl.value, sizeof(was.set));
		if (sysctl_read(was.name, was.original) < 0)
			return 0;
		*changed = true;
		return store_record_sysctl(&g->record, &was);
	}
	return 0;
}

/* Without a record the values it is about are left alone, and nothing else: the table never waits for a disk.
 */
static void record_all(struct turn *t)
{
	bool changed = false;
	int rc = 0;

	for (size_t i = 0; i < t->plan.n && !rc; i++)
		rc = record_op(t, &t->plan.ops[i], &changed);
	if (rc)
		vgw_err_set(&t->err, rc, "OutOfMemory", "record", "no memory");
	else if (changed)
		rc = store_write_record(&t->g->store, &t->g->record, &t->err);
	for (size_t i = 0; i < t->plan.n && rc; i++)
		t->skipped[i] = t->plan.ops[i].kind == PLAN_LINK || t->plan.ops[i].kind == PLAN_SYSCTL;
}

static size_t count_elements(const struct nft_table *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_sets; i++)
		n += t->sets[i].n;
	return n;
}

static void log_result(struct turn *t, const struct plan_op *op, const struct apply_result *result,
		       bool *said)
{
	bool refused = op->kind == PLAN_LINK &&
		       gateway_tunnels_answer(t->g, rt_host_link(&t->view.rt, op->link.name), op->link.mtu,
					      result->rc);

	if (!result->rc)
		log_info("plan: %s", op->line);
	else if (op->kind != PLAN_NFT || !*said)
		log_error("plan: %s: failed: %s (%s)", op->line, result->err.text, result->err.where);
	/* The lines of one transaction fail as one. */
	*said |= op->kind == PLAN_NFT && result->rc;
	/* A tunnel that cannot have its MTU is the tunnel's fault, not the host's. */
	if (result->rc && !refused && !t->err.reason[0])
		t->err = result->err;
}

/* The operations that are not to wait, as a plan of its own. */
static void carry_out(struct turn *t)
{
	struct plan chosen = t->plan;
	bool large, said = false;
	size_t n = 0;

	chosen.ops = arena_calloc(t->view.arena, t->plan.n, sizeof(*chosen.ops));
	if (!chosen.ops)
		return;
	for (size_t i = 0; i < t->plan.n; i++) {
		if (!t->skipped[i])
			chosen.ops[n++] = t->plan.ops[i];
		else if (t->plan.ops[i].kind == PLAN_NFT)
			chosen.nft = false;
	}
	chosen.n = n;
	large = chosen.nft && count_elements(&chosen.table) > READ_BACK_ELEMENTS;
	if (large)
		monitor_mute_table(t->g->monitor, true);
	apply_plan(t->g->host.nft, t->g->host.rt, &t->view.observed, &chosen, t->results);
	if (large)
		monitor_mute_table(t->g->monitor, false);
	n = 0;
	for (size_t i = 0; i < t->plan.n; i++) {
		if (t->skipped[i])
			continue;
		t->done[i] = !t->results[n].rc;
		log_result(t, &chosen.ops[n], &t->results[n], &said);
		n++;
	}
}

/* What has been given back is no longer recorded. */
static void forget_restored(struct turn *t)
{
	bool changed = false;

	for (size_t i = 0; i < t->plan.n; i++) {
		const struct plan_op *op = &t->plan.ops[i];

		if (!t->done[i])
			continue;
		if (op->kind == PLAN_LINK_RESTORE)
			store_drop_link(&t->g->record, op->link.name);
		else if (op->kind == PLAN_SYSCTL_RESTORE)
			store_drop_sysctl(&t->g->record, op->sysctl.name);
		else
			continue;
		changed = true;
	}
	if (changed)
		store_write_record(&t->g->store, &t->g->record, t->err.reason[0] ? NULL : &t->err);
}

static void log_drift(struct turn *t)
{
	struct gateway *g = t->g;
	int64_t since = g->event_ms ? g->event_ms : t->started_ms;
	int64_t after = clock_mono_ms() - since;
	char object[GATEWAY_OBJECT];

	for (size_t i = 0; i < t->plan.n; i++) {
		const struct plan_op *op = &t->plan.ops[i];
		const char *by = op->kind == PLAN_NFT	  ? g->table_by
				 : op->kind == PLAN_ROUTE ? g->route_by
							  : "";

		if (!t->drifted[i] || t->skipped[i] || !gateway_op_object(op, object))
			continue;
		if (op->kind == PLAN_NFT && i && t->plan.ops[i - 1].kind == PLAN_NFT)
			continue;
		gateway_drift_add(g, object, by, after < 0 ? 0 : after);
	}
}

void gateway_take_view(struct gateway *g, const struct host_view *view)
{
	host_view_free(&g->view);
	g->view = *view;
	g->probed = g->placed = false;
	memset(&g->places, 0, sizeof(g->places));
}

/* Look again: what is there now is what the status reports, and the plan must be empty. */
static int look_again(struct turn *t, struct host_view *after, struct netstate *wanted, struct plan *plan)
{
	struct gateway *g = t->g;
	const struct nft_table *known = NULL;
	int rc;

	if (!t->plan.nft)
		known = &t->view.observed.table;
	else if (!t->err.reason[0] && count_elements(&t->plan.table) > READ_BACK_ELEMENTS) {
		known = &t->plan.table;
		g->table_dirty = true;
		gateway_reconcile_soon(g, READ_BACK_LATER_MS);
	}
	rc = host_look(&g->host, g->spec, &g->record, known, after, &t->err);
	if (!rc && known)
		rc = nft_table_copy(known, after->arena, &after->observed.table);
	if (!rc)
		rc = host_plan(&g->host, g->spec, checker_verdicts(g->checker), &g->record, after, wanted,
			       plan, &t->err);
	return rc;
}

static void settle(struct turn *t)
{
	struct gateway *g = t->g;
	struct host_view after = {0};
	struct netstate wanted;
	struct plan plan;
	bool table_left = false;

	if (look_again(t, &after, &wanted, &plan) < 0) {
		host_view_free(&after);
		/* The last view is of before what was done: nothing in it is known any more. */
		g->table_dirty = true;
		g->in_sync = false;
		gateway_reconcile_soon(g, 1000);
		return;
	}
	for (size_t i = 0; i < plan.n; i++)
		table_left |= plan.ops[i].kind == PLAN_NFT;
	gateway_take_view(g, &after);
	g->wanted = wanted;
	g->in_sync = !table_left;
	/* In sync both are the same, and only the observed one knows the handles of its rules. */
	g->wanted_table = table_left ? plan.table : g->view.observed.table;
	if (!table_left)
		g->applied = g->spec->generation;
	g->updated_ms = 0; /* worth a whole look at the status */
	g->body.len = 0;
	for (size_t i = 0; i < g->n_disputes; i++)
		fight_quiet(&g->disputes[i].fight, clock_mono_ms());
	if (!plan.n)
		g->unsettled = 0;
	if (plan.n && !t->err.reason[0]) {
		bool all_skipped = true;

		for (size_t i = 0; i < t->plan.n; i++)
			all_skipped &= t->skipped[i];
		/* What changed between the two looks is for the next turn; what is contested waits for its
		 * own. */
		if (!all_skipped || !t->plan.n)
			gateway_reconcile_soon(g, g->unsettled++ < UNSETTLED_QUICK ? 10 : UNSETTLED_LATER_MS);
		if (g->unsettled == UNSETTLED_QUICK)
			log_error("reconcile: what was set does not show as set: %s", plan.ops[0].line);
	} else if (plan.n) {
		gateway_reconcile_soon(g, 1000);
	}
}

static int prepare(struct turn *t)
{
	struct gateway *g = t->g;
	const struct nft_table *known = g->view.arena && !g->table_dirty ? &g->view.observed.table : NULL;
	int rc = host_look(&g->host, g->spec, &g->record, known, &t->view, &t->err);

	if (rc)
		return rc;
	if (!known)
		g->full_ms = t->started_ms;
	rc = host_plan(&g->host, g->spec, checker_verdicts(g->checker), &g->record, &t->view, &t->wanted,
		       &t->plan, &t->err);
	if (rc)
		return rc;
	t->results = arena_calloc(t->view.arena, t->plan.n, sizeof(*t->results));
	t->drifted = arena_calloc(t->view.arena, t->plan.n, sizeof(*t->drifted));
	t->skipped = arena_calloc(t->view.arena, t->plan.n, sizeof(*t->skipped));
	t->done = arena_calloc(t->view.arena, t->plan.n, sizeof(*t->done));
	if (!t->results || !t->drifted || !t->skipped || !t->done)
		return vgw_err_set(&t->err, -ENOMEM, "OutOfMemory", "plan", "no memory");
	return 0;
}

int gateway_reconcile(struct gateway *g, struct buf *lines)
{
	struct turn t = {.g = g, .started_ms = clock_mono_ms()};
	int rc;

	ev_timer_stop(g->loop, &g->soon);
	if (!g->spec)
		return 0;
	checker_take_changed(g->checker, NULL, 0); /* all verdicts are taken as they are */
	rc = prepare(&t);
	if (!rc) {
		record_all(&t);
		for (size_t i = 0; i < t.plan.n; i++) {
			decide_op(&t, i);
			if (lines)
				buf_printf(lines, "%s\n", t.plan.ops[i].line);
		}
		carry_out(&t);
		forget_restored(&t);
		log_drift(&t);
		g->table_dirty = false;
		g->deltas = 0;
		g->event_ms = 0;
		g->table_by[0] = g->route_by[0] = '\0';
		settle(&t);
		gateway_flows_reap(g);
	} else {
		log_error("reconcile: %s: %s (%s)", t.err.reason, t.err.text, t.err.where);
		gateway_reconcile_soon(g, 1000);
	}
	host_view_free(&t.view);
	g->apply_err = t.err;
	gateway_touch(g);
	return t.err.reason[0] ? (rc ? rc : -EIO) : 0;
}

static void removed(void *ctx, const char *line)
{
	struct buf *lines = ctx;

	log_info("plan: %s", line);
	if (lines)
		buf_printf(lines, "%s\n", line);
}

int gateway_remove(struct gateway *g, struct buf *lines, struct vgw_err *err)
{
	reaper_forget(g->reaper);
	return host_remove(&g->host, &g->record, removed, lines, err);
}
