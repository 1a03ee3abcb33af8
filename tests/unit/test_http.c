/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in every kind of pieces, and the text of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/control/http.h"

enum { LIMIT_HEADER = 256, LIMIT_BODY = 64 };

#define HOST "Host: a\r\n"

/* Status 0: the message is complete, and PATH and BODY are what came out of it. */
struct request_case {
	const char *text;
	unsigned status;
	const char *path, *body;
	bool close;
};

static const struct request_case requests[] = {
	{"GET /v1/status HTTP/1.1\r\n" HOST "\r\n", 0, "/v1/status", "", false},
	{"GET /v1/status HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 0, "/v1/status", "", true},
	{"GET / HTTP/1.0\r\n\r\n", 0, "/", "", true},
	{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 0, "/", "", false},
	{"GET /a%2Fb%20c HTTP/1.1\r\n" HOST "\r\n", 0, "/a/b c", "", false},
	{"GET http://h:1/x?y HTTP/1.1\r\n" HOST "\r\n", 0, "/x", "", false},
	{"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 0, "/", "", false},
	{"HEAD / HTTP/1.1\r\n" HOST "\r\n", 0, "/", "", false},
	{"PUT /s HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", 0, "/s", "hello", false},
	{"PUT /s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 0, "/s", "", false},
	{"PUT /s HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
	 0, "/s", "hello", false},
	{"PUT /s HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nHost: trailer\r\n\r\n",
	 0, "/s", "a", false},
	{"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 0, "/", "", false},
	/* not HTTP, or not the HTTP that is spoken here */
	{"GARBAGE\r\n\r\n", 400, NULL, NULL, false},
	{"GET / HTTP/2.0\r\n" HOST "\r\n", 505, NULL, NULL, false},
	{"GET / HTTP/1.9\r\n" HOST "\r\n", 505, NULL, NULL, false},
	{"GET * HTTP/1.1\r\n" HOST "\r\n", 400, NULL, NULL, false},
	{"GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400, NULL, NULL, false},
	{"GET /a%00b HTTP/1.1\r\n" HOST "\r\n", 400, NULL, NULL, false},
	{"GET /a?b=%4 HTTP/1.1\r\n" HOST "\r\n", 400, NULL, NULL, false},
	{"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501, NULL, NULL, false},
	{"TRACE / HTTP/1.1\r\n" HOST "\r\n", 501, NULL, NULL, false},
	{"GET / HTTP/1.1\r\n\r\n", 400, NULL, NULL, false},
	{"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, NULL, NULL, false},
	{"GET / HTTP/1.1\r\n" HOST "Bad Name: x\r\n\r\n", 400, NULL, NULL, false},
	{"GET / HTTP/1.1\r\n" HOST "Expect: miracle\r\n\r\n", 417, NULL, NULL, false},
	/* whoever reads these otherwise sees another request behind them */
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
	 NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400,
	 NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, NULL, NULL,
	 false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5x\r\n\r\n", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, NULL, NULL,
	 false},
	{"PUT / HTTP/1.1\r\n" HOST
	 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	 400, NULL, NULL, false},
	{"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, NULL, NULL, false},
	/* over a limit */
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n", 413, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 1844674407370955160\r\n\r\n", 413, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999\r\n\r\n", 400, NULL, NULL, false},
	{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n41\r\n"
	 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n0\r\n\r\n",
	 413, NULL, NULL, false},
};

/* Feeds TEXT in pieces of STEP bytes (0: random ones); returns the result and what was taken. */
static enum http_result feed(struct http_message *m, const char *text, size_t step, size_t *taken)
{
	size_t len = strlen(text), used;
	enum http_result result = HTTP_MESSAGE_MORE;

	*taken = 0;
	while (*taken < len && result == HTTP_MESSAGE_MORE) {
		size_t n = step ? step : 1 + (size_t)rand() % 7;
		char *piece;

		if (n > len - *taken)
			n = len - *taken;
		piece = malloc(n); /* of its own, so that reading past it is found out */
		assert_non_null(piece);
		memcpy(piece, text + *taken, n);
		result = http_message_feed(m, piece, n, &used);
		free(piece);
		assert_true(used <= n);
		*taken += used;
	}
	return result;
}

static void check_request(const struct request_case *c, size_t step)
{
	struct http_message m;
	size_t taken;
	enum http_result result;

	http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
	result = feed(&m, c->text, step, &taken);
	if (m.problem.status != c->status)
		print_error("%s: %u, not %u\n", c->text, m.problem.status, c->status);
	assert_int_equal(m.problem.status, c->status);
	if (c->status) {
		assert_int_equal(result, HTTP_MESSAGE_FAILED);
		assert_true(m.problem.reason[0] && m.problem.detail[0]);
	} else {
		assert_int_equal(result, HTTP_MESSAGE_COMPLETE);
		assert_int_equal(taken, strlen(c->text));
		assert_string_equal(http_message_path(&m), c->path);
		assert_string_equal(buf_str(&m.body), c->body);
		assert_int_equal(m.keep_alive, !c->close);
	}
	http_message_free(&m);
}

static void requests_in_pieces(void **state)
{
	size_t i, step;

	(void)state;
	for (i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		check_request(&requests[i], SIZE_MAX / 2);
		for (step = 0; step < 5; step++)
			check_request(&requests[i], step);
	}
}

static void header_at_its_limit(void **state)
{
	static const char start[] = "GET / HTTP/1.1\r\nHost: ";
	char text[LIMIT_HEADER + 2];
	struct http_message m;
	size_t more, taken;

	(void)state;
	for (more = 0; more < 2; more++) {
		size_t len = LIMIT_HEADER + more;

		memset(text, 'a', len);
		memcpy(text, start, sizeof(start) - 1);
		memcpy(text + len - 4, "\r\n\r\n", 5);
		http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
		assert_int_equal(feed(&m, text, 3, &taken),
				 more ? HTTP_MESSAGE_FAILED : HTTP_MESSAGE_COMPLETE);
		assert_int_equal(m.problem.status, more ? 431 : 0);
		http_message_free(&m);
	}
}

static void queries_and_fields(void **state)
{
	static const char text[] = "GET /p?since=12&wait=30s&bare&&e%3D=%26&since=13#f HTTP/1.1\r\n" HOST
				   "X-Empty:\r\nX-Space:  a b \t\r\nX-TWICE: 1\r\nX-Twice: 2\r\n\r\n";
	struct http_message m;
	size_t taken, step;

	(void)state;
	for (step = 1; step < 4; step++) {
		http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
		assert_int_equal(feed(&m, text, step, &taken), HTTP_MESSAGE_COMPLETE);
		assert_string_equal(http_message_method(&m), "GET");
		assert_string_equal(http_message_path(&m), "/p");
		assert_string_equal(http_message_query(&m, "since"), "12");
		assert_string_equal(http_message_query(&m, "wait"), "30s");
		assert_string_equal(http_message_query(&m, "bare"), "");
		assert_string_equal(http_message_query(&m, "e="), "&");
		assert_null(http_message_query(&m, "f"));
		assert_string_equal(http_message_header(&m, "x-empty"), "");
		assert_string_equal(http_message_header(&m, "X-Space"), "a b");
		assert_string_equal(http_message_header(&m, "x-twice"), "1");
		assert_null(http_message_header(&m, "x"));
		http_message_free(&m);
	}
}

static void messages_behind_each_other(void **state)
{
	static const char text[] =
		"PUT /1 HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"
		"GET /2 HTTP/1.1\r\n" HOST "\r\n";
	struct http_message m;
	size_t taken, more;

	(void)state;
	http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
	assert_int_equal(feed(&m, text, SIZE_MAX / 2, &taken), HTTP_MESSAGE_COMPLETE);
	assert_string_equal(buf_str(&m.body), "abc");
	assert_true(m.expect_continue);
	http_message_reset(&m);
	assert_int_equal(feed(&m, text + taken, SIZE_MAX / 2, &more), HTTP_MESSAGE_COMPLETE);
	assert_string_equal(http_message_path(&m), "/2");
	assert_false(m.expect_continue);
	assert_int_equal(taken + more, sizeof(text) - 1);
	assert_int_equal(m.body.len, 0);
	http_message_free(&m);
}

static void forbid(void *ctx, struct http_problem *problem)
{
	(void)ctx;
	*problem = (struct http_problem){403, "Forbidden", "no"};
}

static void head_refused_by_the_caller(void **state)
{
	static const char text[] = "PUT / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc";
	struct http_message m;
	size_t taken;

	(void)state;
	http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
	m.on_head = forbid;
	assert_int_equal(feed(&m, text, 1, &taken), HTTP_MESSAGE_FAILED);
	assert_int_equal(m.problem.status, 403);
	assert_int_equal(m.body.len, 0);
	http_message_free(&m);
}

static void heads_rendered(void **state)
{
	struct http_reply r = {.status = 200,
			       .type = "text/plain",
			       .headers = "ETag: \"1\"\r\n",
			       .date = "D",
			       .len = 7,
			       .keep_alive = true};
	struct buf out = {0};

	(void)state;
	http_render_head(&out, &r);
	assert_string_equal(buf_str(&out),
			    "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n"
			    "Connection: keep-alive\r\nETag: \"1\"\r\n\r\n");
	buf_consume(&out, out.len);
	r = (struct http_reply){.status = 304, .date = "D"};
	http_render_head(&out, &r);
	assert_string_equal(buf_str(&out),
			    "HTTP/1.1 304 Not Modified\r\nDate: D\r\nConnection: close\r\n\r\n");
	buf_free(&out);
}

static void problems_rendered(void **state)
{
	struct buf out = {0};
	cJSON *o;

	(void)state;
	http_render_problem(&out, 422, "InvalidSpec", "a \"b\" \x01 \xc3\xa9 \xff\xed\xa0\x80", "/x/0");
	o = cJSON_Parse(buf_str(&out));
	assert_non_null(o);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(o, "type")->valuestring, "about:blank");
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(o, "title")->valuestring,
			    "Unprocessable Entity");
	assert_int_equal(cJSON_GetObjectItemCaseSensitive(o, "status")->valueint, 422);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(o, "reason")->valuestring, "InvalidSpec");
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(o, "detail")->valuestring,
			    "a \"b\" \x01 \xc3\xa9 ????");
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(o, "pointer")->valuestring, "/x/0");
	cJSON_Delete(o);
	buf_free(&out);
}

static void dates(void **state)
{
	char text[30];
	int64_t t;

	(void)state;
	http_date_print(784111777, text); /* RFC 9110's example */
	assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_int_equal(http_date_parse(text, &t), 0);
	assert_int_equal(t, 784111777);
	assert_true(http_date_parse("yesterday", &t) < 0);
	assert_true(http_date_parse("Sun, 06 Nov 1994 08:49:37 GMT+1", &t) < 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_in_pieces),	      cmocka_unit_test(header_at_its_limit),
		cmocka_unit_test(queries_and_fields),	      cmocka_unit_test(messages_behind_each_other),
		cmocka_unit_test(head_refused_by_the_caller), cmocka_unit_test(heads_rendered),
		cmocka_unit_test(problems_rendered),	      cmocka_unit_test(dates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
