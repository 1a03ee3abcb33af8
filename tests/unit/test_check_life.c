/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that get no connection or no answer, and how they begin, end, and run beside each other. */
#include "tests/unit/check_harness.h"

/* -- no connection, no answer -- */

static void test_refused(void **state)
{
	struct server s = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;

	(void)state;
	server_listen(&s);
	close(s.fd); /* nobody listens on the port now */
	for (int type = SPEC_CHECK_TCP; type <= SPEC_CHECK_HTTPS; type++) {
		struct check_result r;

		spec.type = (enum spec_check_type)type;
		aim(&p, &spec, s.port, false);
		r = run_check(&p);
		assert_result("closed port", &r,
			      &(struct expectation){CHECK_STAGE_CONNECT, CHECK_REFUSED, "refused"});
		assert_false(r.certificate.seen);
	}
}

static void test_no_route(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	/* TCP to a broadcast or multicast address: the kernel answers as for a network without a route,
	 * whatever routes this host has. */
	aim(&p, &spec, 9, false);
	assert_int_equal(ip_addr_parse("255.255.255.255", &p.target.addr), 0);
	r = run_check(&p);
	assert_result("broadcast", &r,
		      &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, "unreachable"});
	assert_int_equal(ip_addr_parse("ff01::1", &p.target.addr), 0);
	r = run_check(&p);
	assert_result("multicast", &r, &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE, ""});
}

static void test_source(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	assert_int_equal(ip_addr_parse("127.1.2.3", &p.source), 0);
	r = run_check(&p);
	assert_result("source", &r, &(struct expectation){CHECK_STAGE_TLS, CHECK_OK, ""});
	assert_int_equal(ip_addr_parse("192.0.2.77", &p.source), 0);
	r = run_check(&p);
	if (r.code == CHECK_OK || r.code == CHECK_TIMEOUT)
		print_message("# SKIP a foreign source address: ip_nonlocal_bind is on\n");
	else
		assert_result("foreign source", &r,
			      &(struct expectation){CHECK_STAGE_ROUTE, CHECK_NO_ROUTE,
						    "source address 192.0.2.77"});
	server_stop(&s);
}

static void test_timeouts(void **state)
{
	struct server silent = {.manners = NEVER_ACCEPT};
	struct server mute = {.manners = REPLY_KEEP, .reply = "", .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = 100, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&silent);
	aim(&p, &spec, silent.port, false);
	r = run_check(&p);
	assert_result("accepts and hangs", &r,
		      &(struct expectation){CHECK_STAGE_TLS, CHECK_TIMEOUT, "100 ms"});
	server_stop(&silent);

	server_start(&mute);
	spec.timeout_ms = 3000; /* enough for a handshake even on a busy machine */
	aim(&p, &spec, mute.port, false);
	r = run_check(&p);
	server_stop(&mute);
	assert_result("reads and hangs", &r,
		      &(struct expectation){CHECK_STAGE_HTTP, CHECK_TIMEOUT, "3000 ms"});
	assert_int_equal(atomic_load(&mute.goodbyes), 1);
}

/* A full accept queue: the kernel drops further SYNs, as a silent host does. */
static void test_timeout_at_connect(void **state)
{
	struct server s = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = 200, .ca = ""};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct check_params p;
	struct check_result r;
	int fds[8];

	(void)state;
	server_listen(&s);
	assert_int_equal(listen(s.fd, 0), 0);
	in.sin_port = htons(s.port);
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(fds[i], (struct sockaddr *)&in, sizeof(in));
	}
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	close(s.fd);
	assert_result("silent", &r, &(struct expectation){CHECK_STAGE_CONNECT, CHECK_TIMEOUT, ""});
}

static void test_handshake_alert(void **state)
{
	static const int psk_only[] = {MBEDTLS_TLS_PSK_WITH_AES_128_GCM_SHA256, 0};
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good, .ciphersuites = psk_only};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	server_stop(&s);
	assert_result("nothing in common", &r,
		      &(struct expectation){CHECK_STAGE_TLS, CHECK_TLS_FAILED, "alert handshake_failure"});
}

static void test_none(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_NONE, .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;

	(void)state;
	aim(&p, &spec, 9, false);
	p.tls = NULL;
	r = run_check(&p);
	assert_result("none", &r, &(struct expectation){CHECK_STAGE_NONE, CHECK_OK, ""});
	assert_string_equal(r.detail, "");
}

/* -- life and death -- */

/* Cancelled after any number of turns of the loop: nothing is called any more, nothing leaks. */
static void test_cancel(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	bool over = false;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	for (int turns = 0; !over; turns++) {
		struct outcome o = {0};
		struct check *c = check_start(loop, &p, on_done, &o);

		assert_non_null(c);
		for (int i = 0; i < turns && !o.calls; i++)
			ev_run(loop, EVRUN_ONCE);
		over = o.calls;
		if (!over)
			check_cancel(c);
		ev_run(loop, 0); /* returns: no watcher is left behind */
		assert_int_equal(o.calls, over);
	}
	check_cancel(NULL);
	server_stop(&s);
}

/* The process goes while connections are still being closed. */
static void test_hang_up(void **state)
{
	struct server s = {.manners = HANDSHAKE_ONLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_TLS, .timeout_ms = FAR_MS, .ca = ""};
	struct outcome o = {0};
	struct check_params p;

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	p.tls = check_tls_new();
	assert_non_null(check_start(loop, &p, on_done, &o));
	while (!o.calls)
		ev_run(loop, EVRUN_ONCE);
	check_tls_free(p.tls);
	ev_run(loop, 0);
	server_stop(&s);
}

struct chain {
	struct check_params *params;
	int left, good;
};

static void on_chain(void *ctx, const struct check_result *result)
{
	struct chain *c = ctx;

	c->good += result->code == CHECK_OK;
	if (--c->left)
		assert_non_null(check_start(loop, c->params, on_chain, c));
}

/* The next check is started from the callback of the last. */
static void test_restart_from_callback(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct chain c = {.params = &p, .left = 10};

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, false);
	assert_non_null(check_start(loop, &p, on_chain, &c));
	ev_run(loop, 0);
	server_stop(&s);
	assert_int_equal(c.left, 0);
	assert_int_equal(c.good, 10);
}

static void on_tally(void *ctx, const struct check_result *result)
{
	int *tally = ctx;

	tally[result->code]++;
}

static void test_many_at_once(void **state)
{
	enum { MANY = 200 };
	struct server quick = {.manners = REPLY, .reply = OK_REPLY, .identity = &good};
	struct server slow = {.manners = NEVER_ACCEPT};
	struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .path = "/", .timeout_ms = FAR_MS, .ca = ""};
	int tally[CHECK_MALFORMED + 1] = {0};
	struct outcome late = {0};
	struct check_params p;
	struct check *c;

	(void)state;
	server_start(&quick);
	server_start(&slow);
	aim(&p, &spec, slow.port, false);
	c = check_start(loop, &p, on_done, &late);
	assert_non_null(c);
	aim(&p, &spec, quick.port, false);
	for (int i = 0; i < MANY - 1; i++)
		assert_non_null(check_start(loop, &p, on_tally, tally));
	while (tally[CHECK_OK] < MANY - 1) {
		ev_run(loop, EVRUN_ONCE);
		for (int code = CHECK_OK + 1; code <= CHECK_MALFORMED; code++)
			assert_int_equal(tally[code], 0);
		assert_int_equal(late.calls, 0);
	}
	check_cancel(c);
	ev_run(loop, 0);
	assert_int_equal(late.calls, 0);
	server_stop(&quick);
	server_stop(&slow);
}

/* Out of descriptors: the caller is told at once, and nothing is called later. */
static void test_out_of_descriptors(void **state)
{
	struct spec_check spec = {.type = SPEC_CHECK_TCP, .timeout_ms = FAR_MS, .ca = ""};
	struct outcome o = {0};
	struct check_params p;
	static int fds[1 << 16];
	int n = 0;

	(void)state;
	aim(&p, &spec, 9, false);
	while (n < (int)(sizeof(fds) / sizeof(fds[0])) && (fds[n] = dup(2)) >= 0)
		n++;
	if (n == sizeof(fds) / sizeof(fds[0]))
		print_message("# SKIP out of descriptors: the limit is too high\n");
	else
		assert_null(check_start(loop, &p, on_done, &o));
	while (n)
		close(fds[--n]);
	ev_run(loop, 0);
	assert_int_equal(o.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_route),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_timeout_at_connect),
		cmocka_unit_test(test_handshake_alert),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_hang_up),
		cmocka_unit_test(test_restart_from_callback),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_out_of_descriptors),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
