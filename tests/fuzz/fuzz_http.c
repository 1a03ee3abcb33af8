/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests from anybody, as libFuzzer thinks of them. The first byte chooses how the rest is cut into pieces;
 * what comes out may not depend on it. Pipelined messages are followed to the end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/control/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	LIMIT_HEADER = 512,
	LIMIT_BODY = 256
};

/* One line for each message, and how the last one ended. */
static void note(struct buf *out, struct http_message *m, enum http_result result)
{
	const char *header = http_message_header(m, "x"), *query = http_message_query(m, "x");

	switch (result) {
	case HTTP_MESSAGE_MORE:
		buf_puts(out, "more\n");
		return;
	case HTTP_MESSAGE_FAILED:
		buf_printf(out, "failed %u %s\n", m->problem.status, m->problem.reason);
		http_render_problem(out, m->problem.status, m->problem.reason,
				    m->head_done ? http_message_path(m) : "", NULL);
		return;
	case HTTP_MESSAGE_COMPLETE:
		buf_printf(out, "%s %s %d %d x=%s ?x=%s ", http_message_method(m), http_message_path(m),
			   m->keep_alive, m->expect_continue, header ? header : "-", query ? query : "-");
		buf_append(out, buf_str(&m->body), m->body.len);
		buf_puts(out, "\n");
		return;
	}
}

static void run(const uint8_t *data, size_t size, unsigned seed, struct buf *out)
{
	enum http_result result = HTTP_MESSAGE_MORE;
	struct http_message m;
	size_t at = 0, used;

	http_message_init(&m, LIMIT_HEADER, LIMIT_BODY);
	while (at < size && result != HTTP_MESSAGE_FAILED) {
		size_t n = size - at;
		char *piece;

		seed = seed * 1103515245 + 12345;
		if (seed & 1 && n > (seed >> 16) % 13 + 1)
			n = (seed >> 16) % 13 + 1;
		piece = malloc(n); /* so that AddressSanitizer sees the end */
		if (!piece)
			abort();
		memcpy(piece, data + at, n);
		result = http_message_feed(&m, piece, n, &used);
		free(piece);
		at += used;
		if (used > n || (result == HTTP_MESSAGE_MORE && used != n) || m.body.len > LIMIT_BODY)
			abort();
		if (result == HTTP_MESSAGE_COMPLETE) {
			note(out, &m, result);
			http_message_reset(&m);
		}
	}
	/* Behind a complete message nothing has begun yet. */
	if (result != HTTP_MESSAGE_COMPLETE)
		note(out, &m, result);
	http_message_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = {0}, pieces = {0};

	if (!size)
		return 0;
	run(data + 1, size - 1, 0, &whole);
	run(data + 1, size - 1, data[0] * 2 + 1u, &pieces);
	if (whole.len != pieces.len || memcmp(buf_str(&whole), buf_str(&pieces), whole.len) != 0)
		abort();
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
