/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/checker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/clock.h"
#include "vgw/probe/check.h"

/* One check under way. */
struct attempt {
	struct target *target;
	struct check *check; /* NULL: free */
	int64_t started_ms;
};

/* One thing that is checked. */
struct target {
	struct checker_backend state;
	struct ip_endpoint at; /* the backend; its checks may go to another port */
	struct checker *checker;
	const char *group, *name; /* the frontend's name and "": a backend; "" and the probe's name */
	struct check_params params;
	struct wanted_verdict *verdict; /* NULL for a probe */
	size_t frontend;
	struct attempt attempts[CHECKER_PARALLEL];
	ev_timer timer;
	int64_t started_ms, due_ms; /* of the latest attempt; of the next */
	double usual_ms;	    /* what a check of it takes, smoothed */
};

struct checker {
	struct ev_loop *loop;
	checker_changed_fn *changed;
	void *ctx;
	struct check_tls *tls;
	const struct spec *spec;
	struct target *targets; /* backends frontend by frontend, then probes */
	size_t n_targets;
	size_t *first;		    /* of each frontend, and of the probes */
	struct target **by_address; /* NULL until someone looks */
	struct wanted_verdict *verdicts;
	const struct wanted_verdict **rows;
	bool *changed_frontends; /* their verdicts, since checker_take_changed() */
	size_t n_changed;
	bool starved; /* said so already */
	struct metrics_histogram seconds;
};

struct checker *checker_new(struct ev_loop *loop, checker_changed_fn *changed, void *ctx)
{
	struct checker *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->loop = loop;
	c->changed = changed;
	c->ctx = ctx;
	c->tls = check_tls_new();
	if (!c->tls) {
		free(c);
		return NULL;
	}
	return c;
}

/* What began before MS has been overtaken. */
static void cancel_before(struct target *t, int64_t ms)
{
	for (int i = 0; i < CHECKER_PARALLEL; i++) {
		struct attempt *a = &t->attempts[i];

		if (!a->check || a->started_ms >= ms)
			continue;
		check_cancel(a->check);
		a->check = NULL;
	}
}

static bool is_running(const struct target *t)
{
	for (int i = 0; i < CHECKER_PARALLEL; i++)
		if (t->attempts[i].check)
			return true;
	return false;
}

static void targets_free(struct checker *c)
{
	for (size_t i = 0; i < c->n_targets; i++) {
		ev_timer_stop(c->loop, &c->targets[i].timer);
		cancel_before(&c->targets[i], INT64_MAX);
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
	check_tls_free(c->tls);
	free(c);
}

static void schedule(struct target *t, int64_t delay_ms)
{
	t->due_ms = clock_mono_ms() + delay_ms;
	ev_timer_stop(t->checker->loop, &t->timer);
	ev_timer_set(&t->timer, (double)delay_ms / 1000.0, 0);
	ev_timer_start(t->checker->loop, &t->timer);
}

static bool same_report(const struct check_result *a, const struct check_result *b)
{
	return a->stage == b->stage && a->code == b->code && !strcmp(a->detail, b->detail) &&
	       a->certificate.seen == b->certificate.seen &&
	       a->certificate.not_after == b->certificate.not_after &&
	       a->certificate.has_gateway_address == b->certificate.has_gateway_address &&
	       a->certificate.verified == b->certificate.verified;
}

static void update_verdict(struct target *t)
{
	if (!t->verdict)
		return;
	t->verdict->in_rotation = t->state.health.in_rotation;
	t->verdict->refuses = t->state.health.sampled && t->state.health.last.code == CHECK_REFUSED;
}

/* How long a check may be silent before the next one is begun beside it. */
static int64_t doubt_ms(const struct target *t)
{
	double doubt = t->usual_ms * 4 > CHECKER_DOUBT_MS ? t->usual_ms * 4 : CHECKER_DOUBT_MS;
	double most = t->params.spec->timeout_ms / 2.0;

	return (int64_t)(doubt < most ? doubt : most);
}

static void check_done(void *ctx, const struct check_result *result)
{
	struct attempt *a = ctx;
	struct target *t = a->target;
	struct checker *c = t->checker;
	struct health *h = &t->state.health;
	struct wanted_verdict before = t->verdict ? *t->verdict : (struct wanted_verdict){0};
	enum health_state was = h->state;
	bool reported = !h->sampled || !same_report(&h->last, result);
	int64_t now = clock_mono_ms();
	unsigned changes = 0;

	a->check = NULL;
	t->state.checked_ms = now;
	metrics_observe(&c->seconds, result->latency_ms / 1000.0);
	if (result->code == CHECK_OK) {
		t->usual_ms = t->usual_ms ? t->usual_ms * 0.8 + result->latency_ms * 0.2 : result->latency_ms;
		/* An older question is answered by this, too. */
		cancel_before(t, a->started_ms);
	}
	if (health_sample(h, result, now) || reported)
		changes |= CHECKER_REPORT;
	update_verdict(t);
	if (t->verdict && memcmp(&before, t->verdict, sizeof(before)))
		changes |= CHECKER_VERDICT;
	if (t->verdict && h->state == HEALTH_DEAD && was != HEALTH_DEAD) {
		t->state.reap_due = true;
		changes |= CHECKER_VERDICT;
	} else if (h->state != HEALTH_DEAD) {
		t->state.reap_due = false;
	}
	if (!is_running(t))
		schedule(t, health_next_delay(h, t->params.spec->interval_ms, t->started_ms, now));
	if ((changes & CHECKER_VERDICT) && !c->changed_frontends[t->frontend]) {
		c->changed_frontends[t->frontend] = true;
		c->n_changed++;
	}
	if (changes)
		c->changed(c->ctx, changes);
}

/* In doubt, and the verdict still open: as many samples at once as it takes. */
static bool wants_another(const struct target *t)
{
	const struct health *h = &t->state.health;
	unsigned running = 0;

	for (int i = 0; i < CHECKER_PARALLEL; i++)
		running += t->attempts[i].check != NULL;
	return h->in_rotation && running < CHECKER_PARALLEL && running < h->fall;
}

static void check_due(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct target *t = w->data;
	struct checker *c = t->checker;
	struct attempt *a = NULL;

	for (int i = 0; i < CHECKER_PARALLEL; i++)
		if (!t->attempts[i].check)
			a = &t->attempts[i];
	if (!a)
		return;
	t->started_ms = clock_mono_ms();
	a->target = t;
	a->started_ms = t->started_ms;
	a->check = check_start(loop, &t->params, check_done, a);
	if (a->check) {
		c->starved = false;
		if (wants_another(t))
			schedule(t, doubt_ms(t));
		return;
	}
	/* Out of descriptors or memory: no sample, so no verdict; the watchdog sees it if it lasts. */
	if (!c->starved)
		log_error("check: cannot start a check: %s", strerror(errno));
	c->starved = true;
	schedule(t, t->params.spec->interval_ms);
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
	ev_timer_init(&t->timer, check_due, 0, 0);
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
		bool drained = backend->drain || !backend->weight;

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

		update_verdict(t);
		if (t->params.spec->type == SPEC_CHECK_NONE) {
			health_unchecked(&t->state.health, now);
			update_verdict(t);
			continue;
		}
		if (t->due_ms)
			delay = t->due_ms > now ? t->due_ms - now : 0;
		else if (c->n_targets > 128)
			delay = (int64_t)((double)t->params.spec->interval_ms * (double)i /
					  (double)c->n_targets);
		if (delay > t->params.spec->interval_ms)
			delay = t->params.spec->interval_ms;
		schedule(t, delay);
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

	if (t->params.spec->type == SPEC_CHECK_NONE || is_running(t) || !t->state.health.in_rotation ||
	    now - t->started_ms < CHECKER_HURRY_MS || t->due_ms <= now + after)
		return;
	schedule(t, after);
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
		int64_t due = is_running(t) ? t->started_ms + t->params.spec->timeout_ms : t->due_ms;

		if (t->params.spec->type != SPEC_CHECK_NONE && now_ms - due > worst)
			worst = now_ms - due;
	}
	return worst;
}
