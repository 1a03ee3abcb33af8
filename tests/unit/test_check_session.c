/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that resume the last whole handshake, and when they must not.
 *
 * Which of the two it was shows in what is reported of the certificate: a resumed handshake shows none, so
 * the remembered one is reported, and the tests have put a date of their own there.
 */
#include "tests/unit/check_harness.h"

enum { MARK = 12345 };

static int expected = 200;

struct visit {
	struct server server;
	struct spec_check spec;
	struct check_params params;
	struct check_memory memory;
};

static void open_visit(struct visit *v, enum sessions sessions, const struct identity *identity,
		       const struct identity *trusted)
{
	memset(v, 0, sizeof(*v));
	v->server.manners = REPLY;
	v->server.reply = OK_REPLY;
	v->server.sessions = sessions;
	v->server.identity = (struct identity *)identity;
	server_start(&v->server);
	v->spec.type = SPEC_CHECK_HTTPS;
	v->spec.timeout_ms = FAR_MS;
	v->spec.path = "/";
	v->spec.ca = trusted ? trusted->pem : "";
	v->spec.expect = &expected;
	v->spec.n_expect = 1;
	aim(&v->params, &v->spec, v->server.port, false);
	v->params.memory = &v->memory;
}

static void close_visit(struct visit *v)
{
	server_stop(&v->server);
	check_memory_forget(&v->memory);
}

/* One good check; true when it resumed. What is remembered is marked afterwards. */
static bool resumes(struct visit *v)
{
	struct check_result r = run_check(&v->params);
	bool resumed = r.certificate.not_after == MARK;

	assert_result("check", &r, &(struct expectation){CHECK_STAGE_HTTP, CHECK_OK, "200"});
	assert_true(r.certificate.seen);
	assert_true(r.certificate.has_gateway_address);
	assert_int_equal(r.certificate.verified, v->spec.ca[0] != '\0');
	v->memory.certificate.not_after = MARK;
	return resumed;
}

static void test_the_second_handshake_is_short(void **state)
{
	static const enum sessions kinds[] = {TICKETS, SESSION_IDS};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct visit v;

		open_visit(&v, kinds[i % 2], &good, i / 2 ? &ca : NULL);
		assert_false(resumes(&v));
		assert_true(v.memory.len > 0 && v.memory.len < 600);
		for (unsigned n = 0; n < 3; n++)
			assert_true(resumes(&v));
		close_visit(&v);
	}
}

static void test_where_nothing_can_be_resumed_nothing_goes_wrong(void **state)
{
	struct visit v;

	(void)state;
	open_visit(&v, NO_SESSIONS, &good, &ca);
	for (unsigned n = 0; n < 3; n++)
		assert_false(resumes(&v));
	v.params.memory = NULL;
	assert_false(resumes(&v));
	close_visit(&v);
}

static void test_time_makes_it_a_whole_one(void **state)
{
	struct visit v;

	(void)state;
	open_visit(&v, TICKETS, &good, &ca);
	assert_false(resumes(&v));
	assert_true(resumes(&v));
	v.memory.until_ms = 1;
	assert_false(resumes(&v));
	assert_true(resumes(&v));
	/* The first certificate of the chain that ends is what counts: both here end in a day. */
	assert_in_range(v.memory.good_until, time(NULL) + DAY - 60, time(NULL) + DAY);
	v.memory.good_until = time(NULL) - 1;
	assert_false(resumes(&v));
	close_visit(&v);
}

static void test_the_end_of_a_certificate_is_noticed_at_once(void **state)
{
	struct identity brief;
	struct check_result r;
	struct visit v;

	(void)state;
	identity_make(&brief, &(struct identity_wish){.subject = "CN=s",
						      .issuer = &ca,
						      .from = -DAY,
						      .until = 2,
						      .addresses = san_gateway,
						      .addresses_len = sizeof(san_gateway)});
	open_visit(&v, TICKETS, &brief, &ca);
	assert_false(resumes(&v));
	assert_true(resumes(&v));
	while (time(NULL) <= v.memory.good_until)
		usleep(20000);
	r = run_check(&v.params);
	assert_result("expired", &r,
		      &(struct expectation){CHECK_STAGE_TLS, CHECK_CERTIFICATE_INVALID, "expired "});
	assert_null(v.memory.session);
	close_visit(&v);
	identity_free(&brief);
}

static void test_a_failure_is_followed_by_a_whole_one(void **state)
{
	struct check_result r;
	struct visit v;

	(void)state;
	open_visit(&v, TICKETS, &good, NULL);
	assert_false(resumes(&v));
	expected = 204;
	r = run_check(&v.params);
	assert_int_equal(r.code, CHECK_HTTP_STATUS);
	assert_int_equal(r.certificate.not_after, MARK);
	assert_null(v.memory.session);
	expected = 200;
	assert_false(resumes(&v));
	close_visit(&v);
}

static void test_a_server_that_has_forgotten_gets_a_whole_one(void **state)
{
	struct visit old, new;

	(void)state;
	open_visit(&old, TICKETS, &good, &ca);
	open_visit(&new, TICKETS, &good, &ca);
	assert_false(resumes(&old));
	new.memory = old.memory; /* as after a restart, with other keys for its tickets */
	old.memory = (struct check_memory){0};
	assert_false(resumes(&new));
	assert_true(resumes(&new));
	close_visit(&old);
	close_visit(&new);
}

/* Another check of the same server fails while this one's handshake is under way. */
static void test_it_may_be_forgotten_meanwhile(void **state)
{
	struct outcome o = {0};
	struct visit v;

	(void)state;
	open_visit(&v, TICKETS, &good, &ca);
	assert_false(resumes(&v));
	assert_non_null(check_start(loop, &v.params, on_done, &o));
	ev_run(loop, EVRUN_ONCE); /* connected, and the session is offered */
	check_memory_forget(&v.memory);
	ev_run(loop, 0);
	assert_int_equal(o.calls, 1);
	assert_result("meanwhile", &o.result, &(struct expectation){CHECK_STAGE_HTTP, CHECK_OK, "200"});
	assert_true(o.result.certificate.verified);
	close_visit(&v);
}

/* What is remembered is garbage: as good as nothing. */
static void test_garbage_is_not_offered(void **state)
{
	struct visit v;

	(void)state;
	open_visit(&v, TICKETS, &good, &ca);
	for (unsigned n = 0; n < 3; n++) {
		resumes(&v);
		assert_non_null(v.memory.session);
		v.memory.session[0] ^= 0x55;
		assert_false(resumes(&v));
	}
	close_visit(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_second_handshake_is_short),
		cmocka_unit_test(test_where_nothing_can_be_resumed_nothing_goes_wrong),
		cmocka_unit_test(test_time_makes_it_a_whole_one),
		cmocka_unit_test(test_the_end_of_a_certificate_is_noticed_at_once),
		cmocka_unit_test(test_a_failure_is_followed_by_a_whole_one),
		cmocka_unit_test(test_a_server_that_has_forgotten_gets_a_whole_one),
		cmocka_unit_test(test_it_may_be_forgotten_meanwhile),
		cmocka_unit_test(test_garbage_is_not_offered),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
