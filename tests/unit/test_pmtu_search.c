/* SPDX-License-Identifier: Apache-2.0 */
/* The path MTU search on simulated paths: always the exact value or Unknown, in bounded packets and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/random.h"
#include "vgw/model/pmtu_search.h"

enum icmp {
	ICMP_OFF,
	ICMP_ON,
	ICMP_LIMITED,	/* six errors, then one a second: Linux's own limit */
	ICMP_LIES_LOW,	/* names less than passes */
	ICMP_LIES_HIGH, /* names more than passes */
	ICMP_FORGED,	/* for packets that do arrive */
	ICMP_NAMELESS,	/* RFC 792: names nothing */
};

struct path {
	uint32_t mtu, link; /* `link`: what the own device takes */
	int64_t rtt_us, jitter_us;
	uint32_t loss; /* percent */
	enum icmp icmp;
	bool link_unnamed;
	uint32_t answers; /* a second, after a burst of ten; 0: all */
	/* From then on: */
	int64_t change_us, silent_from_us, silent_until_us;
	uint32_t changed_mtu;
};

enum event_kind { EVENT_REPLY, EVENT_REPORT };

struct event {
	int64_t at;
	enum event_kind kind;
	uint32_t id, size, mtu;
};

struct world {
	struct path path;
	struct random *r;
	struct pmtu_search s;
	struct event event[4096];
	size_t n_events, reports;
	int64_t now, last_report, last_answer;
	double bucket;
};

static uint32_t mtu_now(const struct world *w)
{
	return w->path.change_us && w->now >= w->path.change_us ? w->path.changed_mtu : w->path.mtu;
}

static void later(struct world *w, int64_t delay, enum event_kind kind, const struct pmtu_search_probe *p,
		  uint32_t mtu)
{
	struct event *e = &w->event[w->n_events++];

	assert_true(w->n_events <= sizeof(w->event) / sizeof(w->event[0]));
	*e = (struct event){w->now + delay, kind, p->id, p->size, mtu};
}

/* What a router says to a packet that does not fit. */
static void complain(struct world *w, const struct pmtu_search_probe *p, int64_t delay)
{
	uint32_t mtu = mtu_now(w);

	switch (w->path.icmp) {
	case ICMP_OFF:
		return;
	case ICMP_LIMITED:
		if (++w->reports > 6 && w->now - w->last_report < 1000000)
			return;
		w->last_report = w->now;
		break;
	case ICMP_LIES_LOW:
		mtu -= 1 + random_below(w->r, mtu / 3);
		break;
	case ICMP_LIES_HIGH:
		mtu += 1 + random_below(w->r, 200);
		break;
	case ICMP_NAMELESS:
		mtu = 0;
		break;
	case ICMP_ON:
	case ICMP_FORGED:
		break;
	}
	later(w, delay, EVENT_REPORT, p, mtu);
}

/* The other side answers only so often. */
static bool tired(struct world *w)
{
	if (!w->path.answers)
		return false;
	w->bucket += (double)(w->now - w->last_answer) * w->path.answers / 1e6;
	w->last_answer = w->now;
	w->bucket = w->bucket > 10 ? 10 : w->bucket;
	if (w->bucket < 1)
		return true;
	w->bucket -= 1;
	return false;
}

static void carry(struct world *w, const struct pmtu_search_probe *p)
{
	const struct path *path = &w->path;
	int64_t jitter = path->jitter_us ? random_below(w->r, (uint32_t)path->jitter_us) : 0;

	if (p->size > path->link) {
		pmtu_search_too_big(&w->s, p->id, p->size, path->link_unnamed ? 0 : path->link, w->now);
		return;
	}
	if (w->now >= path->silent_from_us && w->now < path->silent_until_us)
		return;
	if (path->icmp == ICMP_FORGED && random_chance(w->r, 50))
		later(w, path->rtt_us / 4, EVENT_REPORT, p, 576 + random_below(w->r, p->size));
	/* Once on the way there, once on the way back. */
	if (random_below(w->r, 1000) < path->loss * 5)
		return;
	if (p->size > mtu_now(w)) {
		complain(w, p, path->rtt_us / 2 + jitter);
		return;
	}
	if (random_below(w->r, 1000) < path->loss * 5 || tired(w))
		return;
	later(w, path->rtt_us + jitter, EVENT_REPLY, p, 0);
}

static bool deliver(struct world *w)
{
	bool any = false;

	for (size_t i = 0; i < w->n_events;) {
		struct event e = w->event[i];

		if (e.at > w->now) {
			i++;
			continue;
		}
		w->event[i] = w->event[--w->n_events];
		any = true;
		if (e.kind == EVENT_REPLY)
			pmtu_search_reply(&w->s, e.id, e.size, w->now);
		else
			pmtu_search_report(&w->s, e.size, e.mtu, w->now);
	}
	return any;
}

static enum pmtu_search_state search(struct world *w, const struct path *path, struct random *r,
				     const struct pmtu_search_params *params, struct pmtu_search_result *out)
{
	struct pmtu_search_probe probe;

	memset(w, 0, sizeof(*w));
	w->path = *path;
	w->r = r;
	w->now = 1000000;
	w->path.change_us += path->change_us ? w->now : 0;
	w->path.silent_from_us += w->now;
	w->path.silent_until_us += path->silent_until_us ? w->now : 0;
	pmtu_search_init(&w->s, params, w->now);
	for (int steps = 0;; steps++) {
		int64_t wait;

		assert_true(steps < 100000);
		deliver(w);
		while (pmtu_search_next(&w->s, w->now, &probe))
			carry(w, &probe);
		if (pmtu_search_result(&w->s, w->now, out) != PMTU_SEARCH_RUNNING)
			return w->s.state;
		wait = pmtu_search_wait(&w->s, w->now);
		for (size_t i = 0; i < w->n_events; i++)
			if (w->event[i].at - w->now < wait)
				wait = w->event[i].at - w->now;
		assert_true(wait >= 0);
		/* Timers of an event loop wake up a little late. */
		w->now += wait > 0 ? wait + (int64_t)random_below(r, 1000) : 0;
	}
}

static void explain(const struct path *p, const struct pmtu_search_result *r)
{
	print_message("# mtu %u link %u rtt %lld jitter %lld loss %u icmp %d change %lld to %u: got %u (%s), "
		      "%lld us, "
		      "%u sent, %u replies, %u/%u lost, %u rounds\n",
		      p->mtu, p->link, (long long)p->rtt_us, (long long)p->jitter_us, p->loss, p->icmp,
		      (long long)p->change_us, p->changed_mtu, r->mtu, pmtu_verdict_name(r->pmtud),
		      (long long)r->elapsed_us, r->sent, r->replies, r->lost, r->fit, r->rounds);
}

#define EXPECT(condition, path, result)                                                                      \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			explain(path, result);                                                               \
			assert_true(condition);                                                              \
		}                                                                                            \
	} while (0)

static struct random rnd;
static struct world world;

/* -- the budget of the contract -- */

struct totals {
	int64_t slowest, sum;
	uint32_t most, most_rounds;
	size_t n;
};

static void add_total(struct totals *t, const struct pmtu_search_result *r)
{
	if (r->elapsed_us > t->slowest)
		t->slowest = r->elapsed_us;
	if (r->sent > t->most)
		t->most = r->sent;
	if (r->rounds > t->most_rounds)
		t->most_rounds = r->rounds;
	t->sum += r->elapsed_us;
	t->n++;
}

static void print_total(const char *what, const struct totals *t)
{
	print_message("# %s: %zu searches, mean %lld ms, worst %lld ms, %u packets, %u rounds\n", what, t->n,
		      (long long)(t->sum / (int64_t)t->n / 1000), (long long)t->slowest / 1000, t->most,
		      t->most_rounds);
}

/* ICMP filtered, round trip 20 ms: every value, within half a second. */
static void every_value(uint32_t floor, uint32_t ceiling, uint32_t step)
{
	struct totals t = {0};
	struct pmtu_search_params params = {.floor = floor, .ceiling = ceiling};
	struct pmtu_search_result r;
	char name[64];

	for (uint32_t mtu = floor; mtu <= ceiling + 1; mtu += step) {
		struct path p = {.mtu = mtu, .link = ceiling, .rtt_us = 20000};
		bool all = mtu >= ceiling;

		search(&world, &p, &rnd, &params, &r);
		EXPECT(r.mtu == (all ? ceiling : mtu), &p, &r);
		EXPECT(r.pmtud == (all ? PMTU_WORKING : PMTU_BLACK_HOLE), &p, &r);
		EXPECT(r.at_ceiling == all && r.lost == 0, &p, &r);
		EXPECT(r.elapsed_us <= 400000 && r.sent <= 110 && r.rounds <= 6, &p, &r);
		EXPECT(r.rtt_us >= 20000 && r.rtt_us < 22000, &p, &r);
		add_total(&t, &r);
	}
	snprintf(name, sizeof(name), "%u to %u in silence, 20 ms", floor, ceiling);
	print_total(name, &t);
}

static void test_the_budget(void **state)
{
	(void)state;
	every_value(PMTU_FLOOR_V4, 1500, 1);
	every_value(PMTU_FLOOR_V6, 1500, 1);
	every_value(PMTU_FLOOR_V4, 9000, 3);
	every_value(PMTU_FLOOR_V4, 65535, 101);
}

static void test_reports_lead_to_the_value(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 9000};
	struct totals t = {0};
	struct pmtu_search_result r;

	(void)state;
	for (uint32_t mtu = 576; mtu < 9000; mtu += 7) {
		struct path p = {.mtu = mtu, .link = 9000, .rtt_us = 20000, .icmp = ICMP_ON};

		if (mtu & 1)
			p.icmp = ICMP_LIMITED;
		search(&world, &p, &rnd, &params, &r);
		EXPECT(r.mtu == mtu && r.pmtud == PMTU_WORKING, &p, &r);
		EXPECT(r.elapsed_us <= 250000 && r.sent <= 60 && r.rounds <= 3, &p, &r);
		add_total(&t, &r);
	}
	print_total("with reports, 20 ms", &t);
}

static void test_a_known_value_is_confirmed_with_few_packets(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500, .expected = 1368};
	struct pmtu_search_result r;

	(void)state;
	for (uint32_t mtu = 1200; mtu <= 1500; mtu++) {
		struct path p = {.mtu = mtu, .link = 1500, .rtt_us = 20000};

		search(&world, &p, &rnd, &params, &r);
		EXPECT(r.mtu == mtu, &p, &r);
		EXPECT(r.elapsed_us <= 450000 && r.sent <= 110, &p, &r);
		EXPECT(mtu != 1368 || (r.sent <= 30 && r.elapsed_us <= 200000), &p, &r);
	}
}

/* -- properties -- */

static struct path any_path(struct random *r)
{
	static const uint32_t losses[] = {0, 1, 5, 20};
	struct path p = {
		.mtu = 576 + random_below(r, 9000 - 576 + 1),
		.link = 9000,
		.rtt_us = 50 + random_below(r, 1000),
		.loss = losses[random_below(r, 4)],
		.icmp = (enum icmp)random_below(r, 7),
	};

	if (random_chance(r, 50))
		p.mtu = 576 + random_below(r, 1500 - 576 + 1);
	if (random_chance(r, 70))
		p.rtt_us = 1000 * (int64_t)(1 + random_below(r, 300));
	if (random_chance(r, 50))
		p.jitter_us = p.rtt_us / (1 + (int64_t)random_below(r, 10));
	if (random_chance(r, 30))
		p.link = p.mtu + random_below(r, 9001 - p.mtu);
	p.link_unnamed = random_chance(r, 20);
	return p;
}

static void test_exact_or_unknown(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 65535};
	struct totals t[21] = {{0}};
	size_t unknown[21] = {0};
	struct pmtu_search_result r;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct path p = any_path(&rnd);
		uint32_t expect = p.mtu < p.link ? p.mtu : p.link;

		if (search(&world, &p, &rnd, &params, &r) == PMTU_SEARCH_UNKNOWN) {
			EXPECT(r.mtu == 0 && r.pmtud == PMTU_UNKNOWN, &p, &r);
			unknown[p.loss]++;
			continue;
		}
		EXPECT(r.mtu == expect, &p, &r);
		EXPECT(r.sent < 1000 && r.rounds < 100 && r.elapsed_us < 20500000, &p, &r);
		EXPECT(r.replies <= r.sent && r.lost <= r.fit, &p, &r);
		add_total(&t[p.loss], &r);
	}
	for (size_t loss = 0; loss <= 20; loss++)
		if (t[loss].n) {
			char name[64];

			snprintf(name, sizeof(name), "loss %zu %%, unknown %zu", loss, unknown[loss]);
			print_total(name, &t[loss]);
		}
	assert_int_equal(unknown[0] + unknown[1] + unknown[5], 0);
	assert_true(unknown[20] < 50);
}

static void test_five_percent_at_twenty_milliseconds(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct totals t = {0};
	struct pmtu_search_result r;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		struct path p = {
			.mtu = 576 + random_below(&rnd, 925), .link = 1500, .rtt_us = 20000, .loss = 5};

		search(&world, &p, &rnd, &params, &r);
		EXPECT(r.mtu == p.mtu, &p, &r);
		add_total(&t, &r);
	}
	print_total("5 % loss, in silence, 20 ms", &t);
	assert_true(t.sum / (int64_t)t.n < 500000);
}

static void test_a_path_that_changes_meanwhile(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct pmtu_search_result r;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		struct path p = {.mtu = 576 + random_below(&rnd, 925), .link = 1500, .rtt_us = 20000};

		p.icmp = random_chance(&rnd, 50) ? ICMP_ON : ICMP_OFF;
		p.changed_mtu = 576 + random_below(&rnd, 925);
		p.change_us = 1000 + (int64_t)random_below(&rnd, 200000);
		p.loss = random_chance(&rnd, 30) ? 5 : 0;
		if (search(&world, &p, &rnd, &params, &r) == PMTU_SEARCH_UNKNOWN)
			continue;
		/* What was true within the last round trip and a verification may be what is said. */
		if (r.mtu == p.mtu && r.elapsed_us - p.change_us < 100000)
			continue;
		/* The largest packet that can be sent came back: nothing is left to ask. */
		if (r.at_ceiling && p.mtu == 1500)
			continue;
		EXPECT(r.mtu == p.changed_mtu, &p, &r);
	}
}

/* -- nobody there -- */

static void test_silence_is_unknown(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 9000};
	const struct path nobody = {.mtu = 0, .link = 9000, .rtt_us = 20000};
	const struct path tight = {.mtu = 575, .link = 9000, .rtt_us = 20000, .icmp = ICMP_ON};
	struct pmtu_search_result r;

	(void)state;
	assert_int_equal(search(&world, &nobody, &rnd, &params, &r), PMTU_SEARCH_UNKNOWN);
	assert_true(r.mtu == 0 && r.replies == 0 && r.rtt_us == -1 && r.sent < 40);
	assert_true(r.elapsed_us >= 2900000 && r.elapsed_us < 3500000);
	assert_int_equal(search(&world, &tight, &rnd, &params, &r), PMTU_SEARCH_UNKNOWN);
	assert_true(r.mtu == 0 && r.pmtud == PMTU_UNKNOWN);
}

/* Falls silent for a while, at any time: found all the same, or Unknown when it does not come back. */
static void test_an_outage(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct pmtu_search_result r;
	size_t unknown = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct path p = {.mtu = 576 + random_below(&rnd, 924), .link = 1500, .rtt_us = 20000};
		enum pmtu_search_state end;

		p.silent_from_us = random_below(&rnd, 300000);
		p.silent_until_us = p.silent_from_us + (int64_t)random_below(&rnd, 800000);
		if (i % 10 == 0)
			p.silent_until_us = 100000000;
		end = search(&world, &p, &rnd, &params, &r);
		if (end == PMTU_SEARCH_UNKNOWN)
			unknown++;
		EXPECT(end == PMTU_SEARCH_UNKNOWN || r.mtu == p.mtu, &p, &r);
		EXPECT(r.elapsed_us < 21000000 && r.sent < 600, &p, &r);
	}
	print_message("# %zu of 3000 outages end Unknown\n", unknown);
	assert_true(unknown < 600);
}

/* Echoes are rationed: slower then, and exact or Unknown. */
static void test_rationed_answers(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct pmtu_search_result r;
	struct totals t = {0};
	size_t unknown = 0;

	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		struct path p = {.mtu = 576 + random_below(&rnd, 924), .link = 1500, .rtt_us = 20000};

		p.answers = 5 + random_below(&rnd, 300);
		if (search(&world, &p, &rnd, &params, &r) == PMTU_SEARCH_UNKNOWN)
			unknown++;
		else
			EXPECT(r.mtu == p.mtu, &p, &r);
		add_total(&t, &r);
	}
	print_total("rationed", &t);
	print_message("# %zu of 3000 rationed paths end Unknown\n", unknown);
	assert_true(unknown < 300);
}

/* -- the verdict, and what must not be believed -- */

static struct pmtu_search_result one(uint32_t mtu, enum icmp icmp, uint32_t floor)
{
	const struct pmtu_search_params params = {.floor = floor, .ceiling = 1500};
	const struct path p = {.mtu = mtu, .link = 1500, .rtt_us = 20000, .icmp = icmp};
	struct pmtu_search_result r;

	search(&world, &p, &rnd, &params, &r);
	return r;
}

static void test_the_verdict(void **state)
{
	(void)state;
	assert_int_equal(one(1500, ICMP_OFF, 576).pmtud, PMTU_WORKING);
	assert_int_equal(one(1400, ICMP_OFF, 576).pmtud, PMTU_BLACK_HOLE);
	assert_int_equal(one(1400, ICMP_ON, 576).pmtud, PMTU_WORKING);
	assert_int_equal(one(1400, ICMP_LIMITED, 576).pmtud, PMTU_WORKING);
	assert_int_equal(one(1400, ICMP_LIES_LOW, 576).pmtud, PMTU_WORKING);
	assert_int_equal(one(1400, ICMP_NAMELESS, 576).pmtud, PMTU_WORKING);
	for (int i = 0; i < 20; i++) {
		struct pmtu_search_result r = one(1280, ICMP_LIES_HIGH, 576);

		assert_int_equal(r.mtu, 1280);
		assert_int_equal(r.pmtud, PMTU_BLACK_HOLE);
	}
	assert_string_equal(pmtu_verdict_name(PMTU_UNKNOWN), "Unknown");
	assert_string_equal(pmtu_verdict_name(PMTU_WORKING), "Working");
	assert_string_equal(pmtu_verdict_name(PMTU_BLACK_HOLE), "BlackHole");
}

static void test_reports_that_make_no_sense(void **state)
{
	const struct pmtu_search_params params = {.floor = 1280, .ceiling = 1500};
	struct pmtu_search s;
	struct pmtu_search_probe p;
	struct pmtu_search_result r;
	int64_t now = 0;

	(void)state;
	pmtu_search_init(&s, &params, now);
	assert_true(pmtu_search_next(&s, now, &p));
	pmtu_search_report(&s, 1500, 1500, now);
	pmtu_search_report(&s, 1500, 65535, now);
	pmtu_search_report(&s, 1500, UINT32_MAX, now);
	pmtu_search_report(&s, UINT32_MAX, 20, now);
	pmtu_search_report(&s, 0, 0, now);
	pmtu_search_reply(&s, 77, 65535, now);
	pmtu_search_reply(&s, 77, 20, now);
	pmtu_search_too_big(&s, 77, 9000, 0, now);
	pmtu_search_too_big(&s, 77, 0, 0, now);
	assert_int_equal(pmtu_search_result(&s, now, &r), PMTU_SEARCH_RUNNING);
	assert_true(r.mtu == 0 && r.replies == 0);
	/* The largest comes back: done at once. */
	pmtu_search_reply(&s, 2, 1500, now + 100);
	assert_false(pmtu_search_next(&s, now + 100, &p));
	assert_int_equal(pmtu_search_result(&s, now + 200, &r), PMTU_SEARCH_DONE);
	assert_true(r.mtu == 1500 && r.elapsed_us == 100);
	assert_int_equal(pmtu_search_wait(&s, now + 200), 0);
}

static void test_a_device_that_takes_less_than_the_floor(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct path p = {.mtu = 500, .link = 500, .rtt_us = 20000};
	struct pmtu_search_result r;

	(void)state;
	for (int unnamed = 0; unnamed < 2; unnamed++) {
		p.link_unnamed = unnamed;
		search(&world, &p, &rnd, &params, &r);
		if (!unnamed)
			EXPECT(r.mtu == 500 && r.at_ceiling, &p, &r);
		else
			EXPECT(r.mtu == 500 || r.mtu == 0, &p, &r);
	}
}

static void test_odd_parameters(void **state)
{
	static const struct pmtu_search_params params[] = {
		{0},
		{.floor = 1500, .ceiling = 1500},
		{.floor = 9000, .ceiling = 1400},
		{.floor = 1499, .ceiling = 1500},
		{.floor = 576, .ceiling = 1500, .expected = 9000},
		{.floor = 576, .ceiling = 1500, .expected = 1500},
		{.floor = 576, .ceiling = 1500, .expected = 576},
		{.ceiling = 100000, .expected = 577},
	};
	const struct path p = {.mtu = 1499, .link = 1500, .rtt_us = 1000};
	struct pmtu_search_result r;

	(void)state;
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		enum pmtu_search_state end = search(&world, &p, &rnd, &params[i], &r);

		if (params[i].floor == 1500)
			assert_int_equal(end, PMTU_SEARCH_UNKNOWN);
		else
			EXPECT(r.mtu == (params[i].floor == 9000 ? 1400 : 1499), &p, &r);
	}
}

/* The sender's own queue is full now and then. */
static void test_what_could_not_be_sent(void **state)
{
	const struct pmtu_search_params params = {.floor = 576, .ceiling = 1500};
	struct pmtu_search s;
	struct pmtu_search_probe p;
	struct pmtu_search_result r;
	int64_t now = 0;
	int n = 0;

	(void)state;
	pmtu_search_init(&s, &params, now);
	while (pmtu_search_result(&s, now, &r) == PMTU_SEARCH_RUNNING) {
		int64_t wait;

		while (pmtu_search_next(&s, now, &p)) {
			if (++n % 3 == 0)
				pmtu_search_unsent(&s, p.id, p.size, now);
			else if (p.size <= 1333)
				pmtu_search_reply(&s, p.id, p.size, now);
		}
		wait = pmtu_search_wait(&s, now);
		now += wait;
		assert_true(n < 1000);
	}
	assert_int_equal(r.mtu, 1333);
	assert_true(r.lost == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_budget),
		cmocka_unit_test(test_reports_lead_to_the_value),
		cmocka_unit_test(test_a_known_value_is_confirmed_with_few_packets),
		cmocka_unit_test(test_five_percent_at_twenty_milliseconds),
		cmocka_unit_test(test_exact_or_unknown),
		cmocka_unit_test(test_a_path_that_changes_meanwhile),
		cmocka_unit_test(test_silence_is_unknown),
		cmocka_unit_test(test_an_outage),
		cmocka_unit_test(test_rationed_answers),
		cmocka_unit_test(test_the_verdict),
		cmocka_unit_test(test_reports_that_make_no_sense),
		cmocka_unit_test(test_a_device_that_takes_less_than_the_floor),
		cmocka_unit_test(test_odd_parameters),
		cmocka_unit_test(test_what_could_not_be_sent),
	};

	rnd = random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
