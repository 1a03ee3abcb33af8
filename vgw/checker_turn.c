/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When checks begin, and what their results change.
 *
 * A check that is due waits until what is under way already cannot amount to more than some 15 ms of
 * computing (the client's side of a TLS handshake costs one or two). Otherwise their answers would lie in
 * their sockets until they time out, and the rest of the program would wait as well. So where more is due
 * than this host can do, all checks are late by the same, and no backend is taken for dead for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/base/log.h"
#include "vgw/checker_internal.h"
#include "vgw/clock.h"

/* How much each kind may cost once its answer is there, and how much of that may be under way. */
enum { WEIGHT_TCP = 1, WEIGHT_TLS = 32, WEIGHT_MAX = 256 };
/*
 * A check that has not ended after so long, though the loop has looked so often, waits for its backend and
 * costs nothing meanwhile.
 */
enum { WEIGHT_MS = 50, WEIGHT_TURNS = 4 };

/* Said when checks are so late, and not more often than that. */
enum { LATE_MS = 2000, LATE_SAY_MS = 60000 };

static int weight_of(const struct attempt *a)
{
	switch (a->target->params.spec->type) {
	case SPEC_CHECK_NONE:
	case SPEC_CHECK_TCP:
		return WEIGHT_TCP;
	case SPEC_CHECK_TLS:
	case SPEC_CHECK_HTTPS:
		break;
	}
	return WEIGHT_TLS;
}

static void stop_weighing(struct attempt *a)
{
	struct checker *c = a->target->checker;

	if (!a->weight)
		return;
	c->weight -= a->weight;
	a->weight = 0;
	TAILQ_REMOVE(&c->weighed, a, of_checker);
}

static void attempt_free(struct attempt *a)
{
	stop_weighing(a);
	LIST_REMOVE(a, of_target);
	a->target->n_attempts--;
	free(a);
}

void target_cancel_before(struct target *t, int64_t ms)
{
	struct attempt *a, *next;

	for (a = LIST_FIRST(&t->attempts); a; a = next) {
		next = LIST_NEXT(a, of_target);
		if (a->started_ms >= ms)
			continue;
		check_cancel(a->check);
		attempt_free(a);
	}
}

static void leave_queue(struct target *t)
{
	if (t->waiting)
		TAILQ_REMOVE(&t->checker->queues[t->urgent], t, queue);
	t->waiting = false;
}

void target_schedule(struct target *t, int64_t delay_ms, bool urgent)
{
	leave_queue(t);
	t->urgent = urgent;
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

void target_update_verdict(struct target *t)
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

static bool nobody_waits(const struct checker *c)
{
	return TAILQ_EMPTY(&c->queues[0]) && TAILQ_EMPTY(&c->queues[1]);
}

static void serve_soon(struct checker *c, int64_t ms)
{
	if (nobody_waits(c))
		return;
	ev_timer_stop(c->loop, &c->turn);
	ev_timer_set(&c->turn, (double)ms / 1000.0, 0);
	ev_timer_start(c->loop, &c->turn);
}

/* A sample against the verdict in force wants the next one soon. */
static void schedule_next(struct target *t, int64_t now_ms)
{
	int64_t delay =
		health_next_delay(&t->state.health, t->params.spec->interval_ms, t->started_ms, now_ms);

	target_schedule(t, delay, t->state.health.streak_healthy != t->state.health.in_rotation);
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
	int64_t now = clock_mono_ms(), started_ms = a->started_ms;
	unsigned changes = 0;

	attempt_free(a);
	t->state.checked_ms = now;
	metrics_observe(&c->seconds, result->latency_ms / 1000.0);
	if (result->code == CHECK_OK) {
		t->usual_ms = t->usual_ms ? t->usual_ms * 0.8 + result->latency_ms * 0.2 : result->latency_ms;
		/* An older question is answered by this, too. */
		target_cancel_before(t, started_ms);
	}
	if (health_sample(h, result, now) || reported)
		changes |= CHECKER_REPORT;
	target_update_verdict(t);
	if (t->verdict && memcmp(&before, t->verdict, sizeof(before)))
		changes |= CHECKER_VERDICT;
	if (t->verdict && h->state == HEALTH_DEAD && was != HEALTH_DEAD) {
		t->state.reap_due = true;
		changes |= CHECKER_VERDICT;
	} else if (h->state != HEALTH_DEAD) {
		t->state.reap_due = false;
	}
	if (!target_is_running(t))
		schedule_next(t, now);
	if ((changes & CHECKER_VERDICT) && !c->changed_frontends[t->frontend]) {
		c->changed_frontends[t->frontend] = true;
		c->n_changed++;
	}
	serve_soon(c, 0);
	if (changes)
		c->changed(c->ctx, changes);
}

/* In doubt, and the verdict still open: as many samples at once as it takes. */
static bool wants_another(const struct target *t)
{
	const struct health *h = &t->state.health;

	return h->in_rotation && t->n_attempts < CHECKER_PARALLEL && t->n_attempts < h->fall;
}

static struct attempt *attempt_new(struct target *t)
{
	struct attempt *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->target = t;
	a->started_ms = t->started_ms;
	a->check = check_start(t->checker->loop, &t->params, check_done, a);
	if (!a->check) {
		free(a);
		return NULL;
	}
	LIST_INSERT_HEAD(&t->attempts, a, of_target);
	t->n_attempts++;
	a->turn = ev_iteration(t->checker->loop);
	a->weight = weight_of(a);
	t->checker->weight += a->weight;
	TAILQ_INSERT_TAIL(&t->checker->weighed, a, of_checker);
	return a;
}

static void start(struct target *t)
{
	struct checker *c = t->checker;
	int64_t due = t->due_ms;

	if (t->n_attempts == CHECKER_PARALLEL)
		return;
	t->started_ms = clock_mono_ms();
	if (attempt_new(t)) {
		c->starved = false;
		if (wants_another(t))
			target_schedule(t, doubt_ms(t), true);
		return;
	}
	/* Out of descriptors or memory: no sample, so no verdict; the watchdog sees it if it lasts. */
	if (!c->starved)
		log_error("check: cannot start a check: %s", strerror(errno));
	c->starved = true;
	target_schedule(t, t->params.spec->interval_ms, false);
	t->due_ms = due; /* it is still owed */
}

void target_due(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct target *t = w->data;
	struct checker *c = t->checker;

	if (nobody_waits(c))
		c->served_ms = clock_mono_ms();
	TAILQ_INSERT_TAIL(&c->queues[t->urgent], t, queue);
	t->waiting = true;
	if (!ev_is_active(&c->turn))
		serve_soon(c, 0);
}

static void complain_of_lateness(struct target *t, int64_t now_ms)
{
	struct checker *c = t->checker;

	if (now_ms - t->due_ms < LATE_MS || (c->said_ms && now_ms - c->said_ms < LATE_SAY_MS))
		return;
	c->said_ms = now_ms;
	log_warning("check: checks are %lld ms late: more is due than this host can do, or it stood still",
		    (long long)(now_ms - t->due_ms));
}

/* What has been under way for long weighs nothing any more; for how many ms what is left may go on to. */
static int64_t forget_the_slow(struct checker *c, int64_t now_ms)
{
	struct attempt *a;

	while ((a = TAILQ_FIRST(&c->weighed))) {
		int64_t left = a->started_ms + WEIGHT_MS - now_ms;

		if (left > 0)
			return left;
		if (ev_iteration(c->loop) - a->turn < WEIGHT_TURNS)
			return 1;
		stop_weighing(a);
	}
	return WEIGHT_MS;
}

/* By turns from both queues; within each, who has waited longest. */
static struct target *next(struct checker *c)
{
	struct target *urgent = TAILQ_FIRST(&c->queues[1]), *other = TAILQ_FIRST(&c->queues[0]);

	c->was_urgent = urgent && (!other || !c->was_urgent);
	return c->was_urgent ? urgent : other;
}

static void on_turn(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct checker *c = w->data;
	int64_t now = clock_mono_ms(), left = forget_the_slow(c, now);
	struct target *t;

	while (c->weight < WEIGHT_MAX && (t = next(c))) {
		c->served_ms = now;
		complain_of_lateness(t, now);
		leave_queue(t);
		start(t);
	}
	serve_soon(c, left);
}

void checker_turn_init(struct checker *c)
{
	ev_timer_init(&c->turn, on_turn, 0, 0);
	c->turn.data = c;
	TAILQ_INIT(&c->weighed);
	TAILQ_INIT(&c->queues[0]);
	TAILQ_INIT(&c->queues[1]);
}
