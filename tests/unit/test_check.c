/* SPDX-License-Identifier: Apache-2.0 */
/* Checks against real servers on loopback: what they answer, and what comes of it. */
#include "tests/unit/check_harness.h"

struct answer {
	const char *name;
	enum spec_check_type type;
	enum manners manners;
	const char *reply;
	const char *expect; /* a status besides; "" the default */
	int client_auth;
	struct expectation want;
	bool goodbye; /* the server must have seen a proper end */
};

static const struct answer answers[] = {
	{"https 200", SPEC_CHECK_HTTPS, REPLY, OK_REPLY, "", 0, {CHECK_STAGE_HTTP, CHECK_OK, "200"}, true},
	{"https 200, kept alive against our wish",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 OK_REPLY,
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"body until the end",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.0 200 OK\r\n\r\nok",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"chunks",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"no body at all",
	 SPEC_CHECK_HTTPS,
	 REPLY_KEEP,
	 "HTTP/1.1 204 No Content\r\n\r\n",
	 "204",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "204"},
	 true},
	{"interim responses first",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" OK_REPLY,
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"a client certificate asked for, not insisted on",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "",
	 MBEDTLS_SSL_VERIFY_OPTIONAL,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 true},
	{"a client certificate insisted on",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "",
	 MBEDTLS_SSL_VERIFY_REQUIRED,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, ""},
	 false},
	{"an endless body",
	 SPEC_CHECK_HTTPS,
	 REPLY_FOR_EVER,
	 "HTTP/1.1 200 OK\r\n\r\nok",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "200"},
	 false},
	{"500",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "500"},
	 true},
	{"200 is not what is expected",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 OK_REPLY,
	 "204",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "200"},
	 true},
	{"302",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "302"},
	 true},
	{"101",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_HTTP_STATUS, "101"},
	 true},
	{"401",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "401"},
	 true},
	{"403",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "403"},
	 true},
	{"401 listed",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n",
	 "401",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_OK, "401"},
	 true},
	{"403 while only 401 is listed",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
	 "401",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_AUTH_REQUIRED, "403"},
	 true},
	{"garbage",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "SSH-2.0-OpenSSH_9.2\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "not HTTP"},
	 true},
	{"HTTP/2",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/2.0 200 OK\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "HTTP/2.0"},
	 true},
	{"no answer but the end",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "without an answer"},
	 true},
	{"an end inside the header",
	 SPEC_CHECK_HTTPS,
	 REPLY,
	 "HTTP/1.1 200 OK\r\nServer: x",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "inside the header"},
	 true},
	{"a reset instead of an answer",
	 SPEC_CHECK_HTTPS,
	 REPLY_AND_RESET,
	 "",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, "reset"},
	 false},
	{"an endless header",
	 SPEC_CHECK_HTTPS,
	 REPLY_FOR_EVER,
	 "HTTP/1.1 200 OK\r\nx: ",
	 "",
	 0,
	 {CHECK_STAGE_HTTP, CHECK_MALFORMED, ""},
	 false},
	{"tls", SPEC_CHECK_TLS, HANDSHAKE_ONLY, NULL, "", 0, {CHECK_STAGE_TLS, CHECK_OK, "TLSv1."}, true},
	{"tcp",
	 SPEC_CHECK_TCP,
	 CLOSE_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_CONNECT, CHECK_OK, "connected"},
	 true},
	{"tcp, a server that speaks first",
	 SPEC_CHECK_TCP,
	 REPLY_PLAIN,
	 "220 hello\r\n",
	 "",
	 0,
	 {CHECK_STAGE_CONNECT, CHECK_OK, "connected"},
	 true},
	{"plain HTTP where TLS is wanted",
	 SPEC_CHECK_HTTPS,
	 REPLY_PLAIN,
	 "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "SSL - "},
	 false},
	{"an end inside the handshake",
	 SPEC_CHECK_TLS,
	 CLOSE_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "closed during the handshake"},
	 false},
	{"a reset inside the handshake",
	 SPEC_CHECK_TLS,
	 RESET_AT_ONCE,
	 NULL,
	 "",
	 0,
	 {CHECK_STAGE_TLS, CHECK_TLS_FAILED, "reset"},
	 false},
};

static void run_answer(const struct answer *a)
{
	struct server s = {
		.manners = a->manners, .reply = a->reply, .identity = &good, .client_auth = a->client_auth};
	int expect = atoi(a->expect);
	struct spec_check spec = {.type = a->type,
				  .path = "/readyz",
				  .expect = &expect,
				  .n_expect = *a->expect ? 1 : 0,
				  .timeout_ms = FAR_MS,
				  .ca = ""};
	struct check_params p;
	struct check_result r;

	server_start(&s);
	aim(&p, &spec, s.port, false);
	r = run_check(&p);
	server_stop(&s);
	assert_result(a->name, &r, &a->want);
	if (a->goodbye && atomic_load(&s.goodbyes) != 1)
		fail_msg("%s: the server saw no proper end", a->name);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		run_answer(&answers[i]);
}

static void test_request(void **state)
{
	struct server s = {.manners = REPLY, .reply = OK_REPLY, .identity = &good, .v6 = true};
	struct spec_check spec = {
		.type = SPEC_CHECK_HTTPS, .path = "/livez?a b\r\nX: y", .timeout_ms = FAR_MS, .ca = ""};
	struct check_params p;
	struct check_result r;
	char want[300];

	(void)state;
	server_start(&s);
	aim(&p, &spec, s.port, true);
	r = run_check(&p);
	server_stop(&s);
	assert_result("IPv6", &r, &(struct expectation){CHECK_STAGE_HTTP, CHECK_OK, "200"});
	snprintf(want, sizeof(want),
		 "GET /livez?a%%20b%%0D%%0AX:%%20y HTTP/1.1\r\nHost: [::1]:%u\r\nUser-Agent: "
		 "vgw-agent/" VGW_VERSION "\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		 s.port);
	assert_string_equal(s.request, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_request),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
