/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/checker_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/clock.h"

struct checker *checker_new(struct ev_loop *loop, checker_changed_fn *changed, void *ctx)
{
	struct checker *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->loop = loop;
	c->changed = changed;
	c->ctx = ctx;
	checker_turn_init(c);
	c->tls = check_tls_new();
	if (!c->tls) {
		free(c);
		return NULL;
	}
	return c;
}

static void targets_free(struct checker *c)
{
	for (size_t i = 0; i < c->n_targets; i++) {
		ev_timer_stop(c->loop, &c->targets[i].timer);
		target_cancel_before(&c->targets[i], INT64_MAX);
		check_memory_forget(&c->targets[i].memory);
	}
	free(c->targets);
	free(c->first);
	free(c->by_address);
	free(c->verdicts);
	free(c->rows);
	free(c->changed_frontends);
	c->by_address = NULL;
	c->changed_frontends = NULL;
	c->n_changed = 0;
	c->targets = NULL;
	c->first = NULL;
	c->verdicts = NULL;
	c->rows = NULL;
	c->n_targets = 0;
}

void checker_free(struct checker *c)
{
	if (!c)
		return;
	targets_free(c);
	ev_timer_stop(c->loop, &c->turn);
	check_tls_free(c->tls);
	free(c);
}

static void target_init(struct checker *c, struct target *t, const char *group, const char *name,
			const struct spec_check *spec, const struct ip_endpoint *at, bool in_rotation)
{
	t->checker = c;
	t->group = group;
	t->name = name;
	t->at = t->params.target = *at;
	if (spec->port)
		t->params.target.port = spec->port;
	t->params.spec = spec;
	t->params.tls = c->tls;
	t->params.memory = &t->memory;
	ev_timer_init(&t->timer, target_due, 0, 0);
	t->timer.data = t;
	health_init(&t->state.health, spec->rise, spec->fall, in_rotation, clock_mono_ms());
}

static size_t count_targets(const struct spec *spec)
{
	size_t n = spec ? spec->n_probes : 0;

	for (size_t i = 0; spec && i < spec->n_frontends; i++)
		if (spec->frontends[i].placement != SPEC_IGNORED)
			n += spec->frontends[i].n_backends;
	return n;
}

static void init_frontend(struct checker *c, size_t f, const struct wanted_verdict *row, size_t *n)
{
	const struct spec_frontend *spec = &c->spec->frontends[f];

	c->first[f] = *n;
	c->rows[f] = &c->verdicts[*n];
	for (size_t b = 0; b < spec->n_backends && spec->placement != SPEC_IGNORED; b++) {
		const struct spec_backend *backend = &spec->backends[b];
		struct target *t = &c->targets[*n];
		struct ip_endpoint at = {0};
		/* Out of the table because the spec had it drained is no verdict. */
		bool drained = !wanted_weight(backend);

		at.addr = backend->address;
		at.port = backend->port;
		target_init(c, t, spec->name, "", &spec->check, &at, !row || drained || row[b].in_rotation);
		t->params.gateway = spec->gateway;
		t->frontend = f;
		t->verdict = &c->verdicts[(*n)++];
	}
}

static int targets_make(struct checker *c, const struct spec *spec,
			const struct wanted_verdict *const *in_force)
{
	size_t n_frontends = spec ? spec->n_frontends : 0, total = count_targets(spec), n = 0;

	/* Who waits now is due again at once when start_all() comes to it. */
	TAILQ_INIT(&c->queues[0]);
	TAILQ_INIT(&c->queues[1]);
	c->n_targets = 0;
	c->by_address = NULL;
	c->targets = calloc(total + 1, sizeof(*c->targets));
	c->first = calloc(n_frontends + 1, sizeof(*c->first));
	c->verdicts = calloc(total + 1, sizeof(*c->verdicts));
	c->rows = calloc(n_frontends + 1, sizeof(*c->rows));
	c->changed_frontends = calloc(n_frontends + 1, sizeof(*c->changed_frontends));
	c->n_changed = 0;
	c->spec = spec;
	if (!c->targets || !c->first || !c->verdicts || !c->rows || !c->changed_frontends)
		return -ENOMEM;
	for (size_t f = 0; f < n_frontends; f++)
		init_frontend(c, f, in_force ? in_force[f] : NULL, &n);
	c->first[n_frontends] = n;
	for (size_t p = 0; spec && p < spec->n_probes; p++)
		target_init(c, &c->targets[n++], "", spec->probes[p].name, &spec->probes[p].check,
			    &spec->probes[p].target, true);
	c->n_targets = n;
	return 0;
}

static int cmp_target(const void *a, const void *b)
{
	const struct target *x = *(const struct target *const *)a, *y = *(const struct target *const *)b;
	int c = strcmp(x->group, y->group);

	if (!c)
		c = strcmp(x->name, y->name);
	return c ? c : ip_endpoint_cmp(&x->at, &y->at);
}

static bool same_check(const struct target *x, const struct target *y)
{
	const struct spec_check *a = x->params.spec, *b = y->params.spec;

	return !ip_endpoint_cmp(&x->params.target, &y->params.target) && a->type == b->type &&
	       !strcmp(a->path, b->path) && !strcmp(a->ca, b->ca) && a->n_expect == b->n_expect &&
	       !memcmp(a->expect, b->expect, a->n_expect * sizeof(*a->expect));
}

/* What was counted of a backend goes over; so do the verdicts of what is checked as before, with rise and
 * fall as they are now. */
static int carry_over(struct checker *old, struct checker *new)
{
	struct target **index = calloc(old->n_targets + 1, sizeof(struct target *));

	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < old->n_targets; i++)
		index[i] = &old->targets[i];
	if (old->n_targets)
		qsort(index, old->n_targets, sizeof(*index), cmp_target);
	for (size_t i = 0; i < new->n_targets; i++) {
		struct target *t = &new->targets[i], **found;

		found = bsearch(&t, index, old->n_targets, sizeof(*index), cmp_target);
		if (!found)
			continue;
		t->state.flows = (*found)->state.flows;
		t->state.flows_reaped = (*found)->state.flows_reaped;
		if (!same_check(*found, t))
			continue;
		t->state = (*found)->state;
		t->started_ms = (*found)->started_ms;
		t->usual_ms = (*found)->usual_ms;
		t->due_ms = (*found)->due_ms;
		t->urgent = (*found)->urgent;
		if (!ip_addr_cmp(&t->params.gateway, &(*found)->params.gateway)) {
			t->memory = (*found)->memory;
			(*found)->memory = (struct check_memory){0};
		}
		health_tune(&t->state.health, t->params.spec->rise, t->params.spec->fall);
	}
	free(index);
	return 0;
}

/* New checks of a large spec start spread over an interval, so that they do not come in one burst for ever.
 */
static void start_all(struct checker *c)
{
	int64_t now = clock_mono_ms();

	for (size_t i = 0; i < c->n_targets; i++) {
		struct target *t = &c->targets[i];
		int64_t delay = 0;

		target_update_verdict(t);
		if (t->params.spec->type == SPEC_CHECK_NONE) {
			health_unchecked(&t->state.health, now);
			target_update_verdict(t);
			continue;
		}
		if (t->due_ms)
			delay = t->due_ms - now;
		else if (c->n_targets > 128)
			delay = (int64_t)((double)t->params.spec->interval_ms * (double)i /
					  (double)c->n_targets);
		if (delay > t->params.spec->interval_ms)
			delay = t->params.spec->interval_ms;
		target_schedule(t, delay, t->urgent);
	}
}

int checker_set(struct checker *c, const struct spec *spec, const struct wanted_verdict *const *in_force)
{
	struct checker old = *c;
	int rc = targets_make(c, spec, in_force);

	if (!rc)
		rc = carry_over(&old, c);
	if (rc) {
		targets_free(c);
		*c = old;
		return rc;
	}
	targets_free(&old);
	start_all(c);
	return 0;
}

const struct checker_backend *checker_backend(const struct checker *c, size_t frontend, size_t backend)
{
	return &c->targets[c->first[frontend] + backend].state;
}

struct checker_backend *checker_backend_mutable(struct checker *c, size_t frontend, size_t backend)
{
	return &c->targets[c->first[frontend] + backend].state;
}

/* The next check is AFTER ms from now at the latest. */
static void hurry(struct target *t, int64_t after)
{
	int64_t now = clock_mono_ms();

	if (t->params.spec->type == SPEC_CHECK_NONE || target_is_running(t) || !t->state.health.in_rotation ||
	    now - t->started_ms < CHECKER_HURRY_MS || t->due_ms <= now + after)
		return;
	target_schedule(t, after, true);
}

void checker_hurry(struct checker *c, size_t frontend, size_t backend)
{
	hurry(&c->targets[c->first[frontend] + backend], 0);
}

static int cmp_address(const void *a, const void *b)
{
	const struct target *x = *(const struct target *const *)a, *y = *(const struct target *const *)b;

	return ip_addr_cmp(&x->params.target.addr, &y->params.target.addr);
}

/* Made when it is first asked for: most specs never need it. */
static struct target **index_addresses(struct checker *c)
{
	if (c->by_address || !c->n_targets)
		return c->by_address;
	c->by_address = calloc(c->n_targets, sizeof(struct target *));
	for (size_t i = 0; c->by_address && i < c->n_targets; i++)
		c->by_address[i] = &c->targets[i];
	if (c->by_address)
		qsort(c->by_address, c->n_targets, sizeof(struct target *), cmp_address);
	return c->by_address;
}

void checker_hurry_address(struct checker *c, const struct ip_addr *address)
{
	struct target **index = index_addresses(c);
	size_t low = 0, high = index ? c->n_targets : 0;
	int64_t after = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ip_addr_cmp(&index[middle]->params.target.addr, address) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; index && low < c->n_targets && !ip_addr_cmp(&index[low]->params.target.addr, address); low++)
		hurry(index[low], after++);
}

const struct checker_backend *checker_probe(const struct checker *c, size_t probe)
{
	return &c->targets[c->first[c->spec->n_frontends] + probe].state;
}

const struct wanted_verdict *const *checker_verdicts(const struct checker *c)
{
	return c->rows;
}

size_t checker_take_changed(struct checker *c, size_t *out, size_t max)
{
	size_t n = c->n_changed, k = 0;

	if (!n)
		return 0;
	for (size_t f = 0; f < c->spec->n_frontends; f++) {
		if (c->changed_frontends[f] && k < max)
			out[k++] = f;
		c->changed_frontends[f] = false;
	}
	c->n_changed = 0;
	return n;
}

const struct metrics_histogram *checker_seconds(const struct checker *c)
{
	return &c->seconds;
}

int64_t checker_overdue_ms(const struct checker *c, int64_t now_ms)
{
	int64_t worst = 0;

	for (size_t i = 0; i < c->n_targets; i++) {
		const struct target *t = &c->targets[i];
		int64_t due = target_is_running(t) ? t->started_ms + t->params.spec->timeout_ms : t->due_ms;

		if (t->waiting && due < c->served_ms)
			due = c->served_ms;
		if (t->params.spec->type != SPEC_CHECK_NONE && now_ms - due > worst)
			worst = now_ms - due;
	}
	return worst;
}
