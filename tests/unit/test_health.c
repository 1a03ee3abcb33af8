/* SPDX-License-Identifier: Apache-2.0 */
/* The verdicts: sequences of samples and what comes of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "vgw/model/health.h"

/*
 * A sequence is written as one letter per sample: o OK, t Timeout, r Refused, n NoRoute, u Unreachable,
 * s HTTPStatus, a AuthRequired, x TLSFailed, c CertificateInvalid, m Malformed. The states after each are
 * written the same way: ? Unknown, U Up, d Draining, D Dead.
 */
struct sequence {
	const char *name;
	uint32_t rise, fall;
	bool in_rotation;
	const char *samples;
	const char *states;
	const char *rotation; /* i in, o out */
};

static const struct sequence sequences[] = {
	{"the first success is enough where it takes flows already", 2, 2, true, "o", "U", "i"},
	{"also with a high rise", 10, 2, true, "oo", "UU", "ii"},
	{"one failure is no verdict", 2, 2, true, "t", "?", "i"},
	{"unknown to dead after fall", 2, 2, true, "tt", "?D", "io"},
	{"unknown to draining after fall", 2, 2, true, "ss", "?d", "io"},
	{"a success in between starts the count again", 2, 2, true, "totot", "?UUUU", "iiiii"},
	{"up to dead", 2, 2, true, "orr", "UUD", "iio"},
	{"fall 1", 2, 1, true, "or", "UD", "io"},
	{"fall 3", 2, 3, true, "ottt", "UUUD", "iiio"},
	{"nought counts as one", 0, 0, true, "rorso", "DUDdU", "oiooi"},
	{"dead to up after rise", 2, 2, true, "ttoo", "?DDU", "iooi"},
	{"rise 3, interrupted", 3, 2, true, "ttootooo", "?DDDDDDU", "iooooooi"},
	{"every way of being dead", 2, 1, true, "nrut", "DDDD", "oooo"},
	{"every way of draining", 2, 1, true, "xcsam", "ddddd", "ooooo"},
	{"failures of both kinds count together, the latest decides", 2, 2, true, "ts", "?d", "io"},
	{"and the other way round: one refusal is not death", 2, 2, true, "sr", "?d", "io"},
	{"draining to dead after fall of its own", 2, 2, true, "sstt", "?ddD", "iooo"},
	{"dead to draining at once", 2, 2, true, "rrs", "?Dd", "ioo"},
	{"back and forth", 2, 2, true, "rrsrrs", "?DddDd", "iooooo"},
	{"after a lone success, fall counts anew before it moves", 2, 2, true, "ssott", "?dddD", "ioooo"},
	{"a starting API server: refused, 403, 500, then ready", 2, 2, true, "orrassoo", "UUDddddU",
	 "iioooooi"},
	{"restart, out: holds until rise", 2, 2, false, "oo", "?U", "oi"},
	{"restart, out, rise 3", 3, 2, false, "ooo", "??U", "ooi"},
	{"restart, out: a failure interrupts rise", 2, 2, false, "otoo", "???U", "oooi"},
	{"restart, out: the verdict gets its name after fall", 2, 2, false, "tt", "?D", "oo"},
	{"restart, out: draining", 2, 2, false, "ssoo", "?ddU", "oooi"},
	{"restart, in: holds until fall", 2, 2, true, "ss", "?d", "io"},
};

static enum check_code code_of(char letter)
{
	switch (letter) {
	case 'o':
		return CHECK_OK;
	case 't':
		return CHECK_TIMEOUT;
	case 'r':
		return CHECK_REFUSED;
	case 'n':
		return CHECK_NO_ROUTE;
	case 'u':
		return CHECK_UNREACHABLE;
	case 's':
		return CHECK_HTTP_STATUS;
	case 'a':
		return CHECK_AUTH_REQUIRED;
	case 'x':
		return CHECK_TLS_FAILED;
	case 'c':
		return CHECK_CERTIFICATE_INVALID;
	case 'm':
		return CHECK_MALFORMED;
	}
	fail_msg("no such sample: %c", letter);
	return CHECK_OK;
}

static char letter_of(enum health_state state)
{
	switch (state) {
	case HEALTH_UNKNOWN:
		return '?';
	case HEALTH_UP:
		return 'U';
	case HEALTH_DRAINING:
		return 'd';
	case HEALTH_DEAD:
		return 'D';
	}
	return '!';
}

static struct check_result result_of(char letter)
{
	struct check_result r = {.stage = CHECK_STAGE_HTTP, .code = code_of(letter), .latency_ms = 3.5};

	snprintf(r.detail, sizeof(r.detail), "sample %c", letter);
	return r;
}

static void run_sequence(const struct sequence *s)
{
	struct health h;
	int64_t now = 1000;
	int64_t since = now;

	health_init(&h, s->rise, s->fall, s->in_rotation, now);
	assert_int_equal(h.state, HEALTH_UNKNOWN);
	assert_int_equal(h.in_rotation, s->in_rotation);
	assert_int_equal(h.since_ms, 1000);
	assert_false(h.sampled);

	assert_int_equal(strlen(s->samples), strlen(s->states));
	assert_int_equal(strlen(s->samples), strlen(s->rotation));
	for (size_t i = 0; s->samples[i]; i++) {
		struct check_result r = result_of(s->samples[i]);
		struct health before = h;
		bool changed;

		now += 10;
		changed = health_sample(&h, &r, now);
		if (letter_of(h.state) != s->states[i] || (h.in_rotation ? 'i' : 'o') != s->rotation[i])
			fail_msg("%s: after sample %zu (%c) %s, %s rotation", s->name, i, s->samples[i],
				 health_state_name(h.state), h.in_rotation ? "in" : "out of");
		assert_int_equal(changed, before.state != h.state || before.in_rotation != h.in_rotation);
		if (before.state != h.state)
			since = now;
		assert_int_equal(h.since_ms, since);
		assert_true(h.sampled);
		assert_int_equal(h.last.code, r.code);
		assert_string_equal(h.last.detail, r.detail);
	}
}

static void test_sequences(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
		run_sequence(&sequences[i]);
}

static void feed(struct health *h, const char *samples)
{
	for (; *samples; samples++) {
		struct check_result r = result_of(*samples);

		health_sample(h, &r, 0);
	}
}

static void test_streak(void **state)
{
	struct health h;

	(void)state;
	health_init(&h, 2, 2, true, 0);
	assert_int_equal(h.streak, 0);
	feed(&h, "ooo");
	assert_int_equal(h.streak, 3);
	assert_true(h.streak_healthy);
	feed(&h, "t");
	assert_int_equal(h.streak, 1);
	assert_false(h.streak_healthy);
	feed(&h, "sra"); /* whatever the failure */
	assert_int_equal(h.streak, 4);
	feed(&h, "o");
	assert_int_equal(h.streak, 1);

	h.streak = UINT32_MAX;
	feed(&h, "o");
	assert_int_equal(h.streak, UINT32_MAX);
}

static void test_tune_keeps_the_verdict(void **state)
{
	struct health h;

	(void)state;
	health_init(&h, 2, 2, true, 7);
	feed(&h, "ot");
	health_tune(&h, 3, 4);
	assert_int_equal(h.state, HEALTH_UP);
	assert_true(h.in_rotation);
	assert_int_equal(h.streak, 1);
	feed(&h, "tt");
	assert_int_equal(h.state, HEALTH_UP);
	feed(&h, "t");
	assert_int_equal(h.state, HEALTH_DEAD);
	feed(&h, "oo");
	assert_int_equal(h.state, HEALTH_DEAD);
	health_tune(&h, 0, 0);
	assert_int_equal(h.state, HEALTH_DEAD);
	feed(&h, "o");
	assert_int_equal(h.state, HEALTH_UP);
	assert_int_equal(h.rise, 1);
	assert_int_equal(h.fall, 1);
}

static void test_unchecked(void **state)
{
	struct health h;

	(void)state;
	health_init(&h, 2, 2, false, 5);
	health_unchecked(&h, 20);
	assert_int_equal(h.state, HEALTH_UP);
	assert_true(h.in_rotation);
	assert_int_equal(h.since_ms, 20);
	assert_int_equal(h.last.stage, CHECK_STAGE_NONE);
	assert_int_equal(h.last.code, CHECK_OK);
	assert_string_equal(h.last.detail, "");
	health_unchecked(&h, 30);
	assert_int_equal(h.since_ms, 20);
}

struct delay {
	const char *name;
	uint32_t rise, fall;
	bool in_rotation;
	const char *samples;
	uint32_t interval;
	int64_t took; /* ms from the check's start to now */
	int64_t want;
};

static const struct delay delays[] = {
	{"nothing yet", 2, 2, true, "", 1000, 0, 1000},
	{"healthy: the rest of the interval", 2, 2, true, "o", 1000, 5, 995},
	{"healthy and slow: nothing is left", 2, 2, true, "o", 1000, 1500, 0},
	{"exactly one interval", 2, 2, true, "o", 1000, 1000, 0},
	{"a clock that jumped back never waits longer than the interval", 2, 2, true, "o", 1000, -5000, 1000},
	{"a first failure is followed up at once", 2, 2, true, "ot", 1000, 5, 0},
	{"also of something unknown", 2, 2, true, "t", 1000, 5, 0},
	{"of whatever kind", 2, 2, true, "os", 1000, 5, 0},
	{"once confirmed there is no hurry", 2, 2, true, "ott", 1000, 5, 995},
	{"and none after that", 2, 2, true, "ottttt", 1000, 5, 995},
	{"only the first of many is followed up at once", 2, 5, true, "orr", 1000, 0, 1000},
	{"fall 1 needs no confirmation", 2, 1, true, "or", 1000, 5, 995},
	{"a first success of something out", 2, 2, true, "tto", 1000, 5, 0},
	{"of something out since before a restart", 2, 2, false, "o", 1000, 5, 0},
	{"up again", 2, 2, true, "ttoo", 1000, 5, 995},
	{"rise 1", 1, 2, true, "tto", 1000, 5, 995},
	{"only the first success", 5, 2, true, "ttoo", 1000, 5, 995},
	{"a failure of something out since before a restart", 2, 2, false, "t", 1000, 5, 995},
	{"a success of something in rotation", 5, 2, true, "oto", 1000, 5, 995},
	{"no interval is no busy loop", 2, 2, true, "o", 0, 0, 1},
};

static void test_delays(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		const struct delay *d = &delays[i];
		struct health h;
		int64_t got;

		health_init(&h, d->rise, d->fall, d->in_rotation, 0);
		feed(&h, d->samples);
		got = health_next_delay(&h, d->interval, 100000, 100000 + d->took);
		if (got != d->want)
			fail_msg("%s: %lld ms, not %lld", d->name, (long long)got, (long long)d->want);
	}
}

/* Whatever the outcomes and the settings, checks that end at once are started at most twice an interval. */
static void test_never_a_busy_loop(void **state)
{
	static const char outcomes[] = "ots";
	uint32_t seed = 1;

	(void)state;
	for (uint32_t settings = 0; settings < 32; settings++) {
		struct health h;
		int64_t now = 0;
		int at_once = 0;

		health_init(&h, settings % 4, settings / 4 % 4, settings >= 16, now);
		for (int i = 0; i < 2000; i++) {
			int64_t delay;
			char sample[2] = {0};

			seed = seed * 1664525 + 1013904223;
			sample[0] = outcomes[(seed >> 24) % 3];
			feed(&h, sample);
			delay = health_next_delay(&h, 1000, now, now);
			assert_in_range(delay, 0, 1000);
			at_once = delay ? 0 : at_once + 1;
			assert_in_range(at_once, 0, 1);
			now += delay;
		}
	}
}

static void test_names(void **state)
{
	static const char *const codes[] = {"OK",
					    "NoRoute",
					    "Refused",
					    "Unreachable",
					    "Timeout",
					    "TLSFailed",
					    "CertificateInvalid",
					    "HTTPStatus",
					    "AuthRequired",
					    "Malformed"};
	static const char *const stages[] = {"none", "route", "connect", "tls", "http"};
	static const char *const states[] = {"Unknown", "Up", "Draining", "Dead"};

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_string_equal(check_code_name((enum check_code)i), codes[i]);
	for (int i = 0; i < 5; i++)
		assert_string_equal(check_stage_name((enum check_stage)i), stages[i]);
	for (int i = 0; i < 4; i++)
		assert_string_equal(health_state_name((enum health_state)i), states[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_streak),
		cmocka_unit_test(test_tune_keeps_the_verdict),
		cmocka_unit_test(test_unchecked),
		cmocka_unit_test(test_delays),
		cmocka_unit_test(test_never_a_busy_loop),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
