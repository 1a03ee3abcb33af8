/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a spec: examined, planned, put in force, confirmed or taken back, deleted; and the one at
 * start. */
#include <errno.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/file.h"
#include "vgw/gateway_internal.h"

/* What failed for the moment is tried again so soon. */
#define AGAIN_S 1.0

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

/* C's spec is in force from here on; back to the old one when the kernel does not take it, unless KEEP says
 * to go on trying: what is stored has been accepted once. */
static int put_in_force(struct gateway *g, struct candidate *c, const char *text, size_t len, bool keep,
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
	g->in_sync = false; /* that was the old one's */
	gateway_tunnels_forget(g);
	rc = gateway_reconcile(g, lines);
	/* An operation of its own that failed (a link, a route) is reported and tried again; the table is all
	 * or nothing. */
	if (!rc || g->in_sync || keep) {
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

static void refuse(struct gateway *g, const struct vgw_err *err)
{
	g->is_refused = true;
	g->refused = *err;
}

void gateway_confirm_stop(struct gateway *g)
{
	ev_timer_stop(g->loop, &g->confirm);
	buf_free(&g->before);
}

static void confirm_start(struct gateway *g, struct buf *before, uint32_t ms)
{
	/* Of several in a row, what is back is the last that was kept. */
	if (ev_is_active(&g->confirm)) {
		ev_timer_stop(g->loop, &g->confirm);
	} else {
		g->before = *before;
		memset(before, 0, sizeof(*before));
	}
	ev_timer_set(&g->confirm, ms / 1000.0, 0);
	ev_timer_start(g->loop, &g->confirm);
}

static int revert(struct gateway *g)
{
	struct candidate c = {0};
	struct vgw_err err = {0};
	int rc = spec_decode(buf_str(&g->before), g->before.len, &c.spec, &err);

	if (!rc)
		rc = host_look(&g->host, c.spec, &g->record, NULL, &c.view, &err);
	if (!rc)
		rc = put_in_force(g, &c, buf_str(&g->before), g->before.len, true, NULL, &err);
	if (rc)
		log_error("spec: cannot go back: %s", err.text);
	candidate_free(&c);
	return rc;
}

static void on_unconfirmed(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gateway *g = w->data;
	struct vgw_err err = {0};
	long long generation = g->spec ? (long long)g->spec->generation : 0;
	/* gateway_delete() forgets what was before, also this. */
	int rc = g->before.len ? revert(g) : gateway_delete(g, NULL, &err);

	if (rc) {
		log_error("spec: cannot go back yet: %s", err.text);
		ev_timer_set(&g->confirm, AGAIN_S, 0);
		ev_timer_start(loop, &g->confirm);
		return;
	}
	log_warning("spec: generation %lld was not confirmed: the one before is back", generation);
	gateway_confirm_stop(g);
	vgw_err_set(&err, 0, "NotConfirmed", NULL, "generation %lld was not confirmed in time", generation);
	refuse(g, &err);
	gateway_touch(g);
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents);

void gateway_confirm_init(struct gateway *g)
{
	ev_timer_init(&g->again, on_again, 0, 0);
	g->again.data = g;
	ev_timer_init(&g->confirm, on_unconfirmed, 0, 0);
	g->confirm.data = g;
}

int gateway_confirm(struct gateway *g, struct vgw_err *err)
{
	int rc;

	if (!ev_is_active(&g->confirm))
		return vgw_err_set(err, -ENOENT, "NothingToConfirm", NULL, "no spec waits to be confirmed");
	rc = store_write_spec(&g->store, buf_str(&g->text), g->text.len, err);
	if (rc)
		return rc;
	store_mark_unconfirmed(&g->store, false);
	gateway_confirm_stop(g);
	return 0;
}

/* What a start after a crash would find is what was kept last: never a spec that waits to be confirmed. */
static void restore_stored(struct gateway *g, const struct buf *before)
{
	const struct buf *kept = ev_is_active(&g->confirm) ? &g->before : before;

	if (kept->len)
		store_write_spec(&g->store, kept->data, kept->len, NULL);
	else
		file_remove(g->store.spec_path, NULL);
}

static int accept_spec(struct gateway *g, struct candidate *c, const char *text, size_t len,
		       uint32_t confirm_ms, struct buf *lines, struct vgw_err *err)
{
	struct buf before = {0};
	int rc;

	buf_append(&before, g->spec ? buf_str(&g->text) : "", g->spec ? g->text.len : 0);
	/* On disk first: what is answered as accepted is there after a power cut; and what is not to stay
	 * without being confirmed, and has nothing before it to go back to, is known as such. */
	if (!confirm_ms)
		rc = store_write_spec(&g->store, text, len, err);
	else
		rc = before.len ? 0 : store_mark_unconfirmed(&g->store, true);
	if (!rc)
		rc = put_in_force(g, c, text, len, false, lines, err);
	if (rc && !confirm_ms)
		restore_stored(g, &before);
	if (!confirm_ms == !rc)
		store_mark_unconfirmed(&g->store, false);
	if (!rc && confirm_ms)
		confirm_start(g, &before, confirm_ms);
	else if (!rc)
		gateway_confirm_stop(g);
	buf_free(&before);
	return rc;
}

int gateway_put(struct gateway *g, const char *text, size_t len, bool dry_run, uint32_t confirm_ms,
		struct buf *lines, int64_t *generation, struct vgw_err *err)
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
	} else if (!rc && g->spec && !confirm_ms && g->spec->generation == c.spec->generation &&
		   !strcmp(g->spec->cluster, c.spec->cluster) && !ev_is_active(&g->confirm)) {
		/* The accepted one once more, perhaps written otherwise: an occasion to look. */
		g->is_refused = false;
		gateway_tunnels_forget(g);
		if (gateway_reconcile(g, lines) < 0 && !g->in_sync) {
			*err = g->apply_err;
			rc = -EIO;
		}
	} else if (!rc) {
		rc = accept_spec(g, &c, text, len, confirm_ms, lines, err);
	}
	if (!dry_run && (rc == -EINVAL || rc == -E2BIG))
		refuse(g, err);
	candidate_free(&c);
	gateway_touch(g);
	return rc;
}

int gateway_delete(struct gateway *g, struct buf *lines, struct vgw_err *err)
{
	int rc = gateway_remove(g, lines, err), rc2;

	if (rc)
		return rc;
	gateway_confirm_stop(g);
	checker_set(g->checker, NULL, NULL);
	spec_free(g->spec);
	g->spec = NULL;
	g->applied = 0;
	g->is_refused = false;
	buf_free(&g->text);
	gateway_take_view(g, &(struct host_view){0});
	memset(&g->wanted, 0, sizeof(g->wanted));
	memset(&g->wanted_table, 0, sizeof(g->wanted_table));
	memset(&g->apply_err, 0, sizeof(g->apply_err));
	g->in_sync = false;
	/* Disputes are forgotten, but not how often something was put back: that is a counter. */
	for (size_t i = 0; i < g->n_disputes; i++)
		g->disputes[i].fight = (struct fight){.repairs = g->disputes[i].fight.repairs};
	gateway_tunnels_forget(g);
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

static void try_again(struct gateway *g, const struct buf *text, bool stored)
{
	if (text != &g->again_text) {
		buf_free(&g->again_text);
		buf_append(&g->again_text, text->data, text->len);
	}
	g->again_stored = stored;
	ev_timer_set(&g->again, AGAIN_S, 0);
	ev_timer_start(g->loop, &g->again);
}

static void start_with(struct gateway *g, const struct buf *text, bool stored)
{
	struct candidate c = {0};
	struct vgw_err err = {0};
	char line[900];
	int rc = examine(g, buf_str(text), text->len, stored, &c, &err);

	if (!rc && !stored && store_write_spec(&g->store, buf_str(text), text->len, &err) < 0)
		log_error("spec: in force, but not stored: %s (%s)", err.text, err.where);
	if (!rc)
		rc = put_in_force(g, &c, buf_str(text), text->len, true, NULL, &err);
	candidate_free(&c);
	if (!rc) {
		log_info("spec: generation %lld of cluster %s is in force", (long long)g->spec->generation,
			 g->spec->cluster);
		return;
	}
	refuse(g, &err);
	log_error("spec: the %s spec is not in force: %s", stored ? "stored" : "first",
		  vgw_err_print(&err, line, sizeof(line)));
	/* Not the spec is wrong then, but the moment. */
	if (rc != -EINVAL && rc != -E2BIG && rc != -ESTALE)
		try_again(g, text, stored);
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gateway *g = w->data;

	if (!g->spec)
		start_with(g, &g->again_text, g->again_stored);
	if (!ev_is_active(&g->again))
		buf_free(&g->again_text);
}

/* A spec that was never confirmed, and had none before it, was in force when we were killed: it goes. */
static void drop_unconfirmed(struct gateway *g)
{
	struct vgw_err err = {0};

	if (!store_is_unconfirmed(&g->store))
		return;
	log_warning("spec: one that was never confirmed is taken back");
	if (gateway_delete(g, NULL, &err))
		log_error("spec: cannot take it back: %s", err.text);
}

int gateway_start(struct gateway *g, const char *first_spec, struct vgw_err *err)
{
	struct buf text = {0};
	int rc = store_read_spec(&g->store, &text, err);

	if (rc == -ENOENT)
		drop_unconfirmed(g);
	else
		store_mark_unconfirmed(&g->store, false);
	if (!rc) {
		start_with(g, &text, true);
	} else if (rc == -ENOENT && first_spec) {
		rc = file_read(first_spec, SPEC_MAX_BYTES, &text, err);
		if (!rc)
			start_with(g, &text, false);
		else {
			refuse(g, err);
			log_error("spec: %s: %s", err->where, err->text);
		}
	} else if (rc != -ENOENT) {
		refuse(g, err);
		log_error("spec: %s: %s", err->where, err->text);
	}
	buf_free(&text);
	gateway_touch(g);
	return 0;
}
