/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an answer, in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "vgw/probe/check_http.h"

struct row {
	const char *answer;
	enum check_code code;
	const char *detail;
	bool complete;
};

static const struct row rows[] = {
	{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", CHECK_OK, "200", true},
	{"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\no", CHECK_OK, "200", false},
	{"HTTP/1.0 200 OK\r\n\r\nok", CHECK_OK, "200", false},
	{"HTTP/1.1 200 OK\nContent-Length: 0\n\n", CHECK_OK, "200", true},
	{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 No\r\n\r\n", CHECK_OK, "200", true},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", CHECK_OK, "200", true},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk", CHECK_OK, "200", false},
	{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", CHECK_HTTP_STATUS,
	 "500", true},
	{"HTTP/1.1 100 Continue\r\n\r\n", CHECK_MALFORMED, "connection closed inside the header", false},
	{"HTTP/1.1 401 Who\r\nContent-Length: 0\r\n\r\n", CHECK_AUTH_REQUIRED, "401", true},
	{"HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n", CHECK_HTTP_STATUS, "999", true},
	{"HTTP/1.1 20 ?\r\nContent-Length: 0\r\n\r\n", CHECK_MALFORMED, "no HTTP/1 status: HTTP/1.1 20",
	 true},
	{"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n", CHECK_MALFORMED, "no HTTP/1 status: HTTP/0.9 200",
	 true},
	{"", CHECK_MALFORMED, "connection closed without an answer", false},
	{"HTTP/1.1 2", CHECK_MALFORMED, "connection closed inside the header", false},
};

static void run_row(const struct row *row, size_t piece)
{
	const struct spec_check spec = {.type = SPEC_CHECK_HTTPS};
	struct check_result r = {.stage = CHECK_STAGE_NONE};
	size_t len = strlen(row->answer);
	struct check_http h;

	check_http_init(&h);
	for (size_t at = 0; at < len; at += piece)
		if (check_http_feed(&h, row->answer + at, len - at < piece ? len - at : piece))
			break;
	check_http_judge(&h, &spec, &r);
	assert_int_equal(r.stage, CHECK_STAGE_HTTP);
	assert_string_equal(r.detail, row->detail);
	assert_int_equal(r.code, row->code);
	assert_int_equal(h.complete, row->complete);
}

static void test_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 1; piece < 100; piece++)
			run_row(&rows[i], piece);
}

/* An answer whose header, to the end of its empty line, is SIZE bytes. */
static int feed_header(struct check_http *h, size_t size)
{
	static const char start[] = "HTTP/1.1 200 OK\r\nx: ", end[] = "\r\n\r\n";
	size_t fill = size - strlen(start) - strlen(end);

	check_http_init(h);
	assert_int_equal(check_http_feed(h, start, strlen(start)), 0);
	for (size_t i = 0; i < fill; i++)
		assert_int_equal(check_http_feed(h, "x", 1), 0);
	return check_http_feed(h, end, strlen(end));
}

static void test_header_limit(void **state)
{
	const struct spec_check spec = {.type = SPEC_CHECK_HTTPS};
	struct check_result r = {.stage = CHECK_STAGE_NONE};
	struct check_http h;

	(void)state;
	assert_int_equal(feed_header(&h, CHECK_HTTP_MAX_HEADER), 0);
	assert_true(h.answered);
	assert_int_equal(feed_header(&h, CHECK_HTTP_MAX_HEADER + 1), -EBADMSG);
	assert_false(h.answered);
	check_http_judge(&h, &spec, &r);
	assert_int_equal(r.code, CHECK_MALFORMED);
	assert_string_equal(r.detail, "header larger than 64 KiB");
}

/* Interim responses do not get round the limit. */
static void test_interim_limit(void **state)
{
	static const char interim[] = "HTTP/1.1 102 Processing\r\n\r\n";
	struct check_http h;
	size_t fed = 0;

	(void)state;
	check_http_init(&h);
	while (!check_http_feed(&h, interim, strlen(interim))) {
		fed += strlen(interim);
		assert_true(fed <= CHECK_HTTP_MAX_HEADER);
	}
	assert_true(h.oversized);
}

static void test_body_limit(void **state)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	static char body[4096];
	struct check_http h;
	int pieces = 0;

	(void)state;
	check_http_init(&h);
	assert_int_equal(check_http_feed(&h, head, strlen(head)), 0);
	for (; !h.complete; pieces++)
		assert_int_equal(check_http_feed(&h, body, sizeof(body)), 0);
	assert_int_equal(pieces, CHECK_HTTP_MAX_BODY / (int)sizeof(body) + 1);
	assert_int_equal(check_http_feed(&h, body, sizeof(body)), 0);
}

static void test_request(void **state)
{
	struct ip_endpoint host;
	struct buf b = {0};

	(void)state;
	assert_int_equal(ip_endpoint_parse("192.168.150.11:6443", &host), 0);
	check_http_request(&b, &host, "ready\x7f\xc3\xa9 z");
	assert_string_equal(buf_str(&b), "GET /ready%7F%C3%A9%20z HTTP/1.1\r\n"
					 "Host: 192.168.150.11:6443\r\n"
					 "User-Agent: vgw-agent/" VGW_VERSION "\r\n"
					 "Accept: */*\r\n"
					 "Connection: close\r\n\r\n");
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),	      cmocka_unit_test(test_header_limit),
		cmocka_unit_test(test_interim_limit), cmocka_unit_test(test_body_limit),
		cmocka_unit_test(test_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
