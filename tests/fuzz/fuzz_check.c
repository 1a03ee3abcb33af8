/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a checked server, fed in pieces. The first byte chooses their size; the rest is the answer.
 * Whatever comes, the verdict is the same as for the answer in one piece, and has its words.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/probe/check_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool true_thing)
{
	if (!true_thing)
		abort();
}

static struct check_result judge(const uint8_t *data, size_t size, size_t piece, struct check_http *h)
{
	static int expected[] = {200, 401};
	const struct spec_check spec = {.type = SPEC_CHECK_HTTPS, .expect = expected, .n_expect = 2};
	struct check_result r = {.stage = CHECK_STAGE_TLS};

	check_http_init(h);
	for (size_t at = 0; at < size && !h->complete; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		/* A buffer of its own for each, so that reading past it is seen. */
		uint8_t *copy = malloc(n);

		memcpy(copy, data + at, n);
		if (check_http_feed(h, copy, n))
			at = size;
		free(copy);
	}
	check_http_judge(h, &spec, &r);
	return r;
}

static void examine(const struct check_http *h, const struct check_result *r)
{
	must(r->stage == CHECK_STAGE_HTTP);
	must(r->detail[0] && memchr(r->detail, '\0', sizeof(r->detail)));
	must(h->header_bytes <= CHECK_HTTP_MAX_HEADER);
	must(!h->complete || h->answered);
	switch (r->code) {
	case CHECK_OK:
		must(h->status == 200 || h->status == 401);
		break;
	case CHECK_AUTH_REQUIRED:
		must(h->status == 403);
		break;
	case CHECK_HTTP_STATUS:
		must(h->status == 101 || (h->status >= 200 && h->status <= 999));
		break;
	case CHECK_MALFORMED:
		break;
	case CHECK_NO_ROUTE:
	case CHECK_REFUSED:
	case CHECK_UNREACHABLE:
	case CHECK_TIMEOUT:
	case CHECK_TLS_FAILED:
	case CHECK_CERTIFICATE_INVALID:
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct check_http whole, pieces;
	struct check_result a, b;

	if (!size)
		return 0;
	a = judge(data + 1, size - 1, size, &whole);
	examine(&whole, &a);
	b = judge(data + 1, size - 1, (size_t)data[0] + 1, &pieces);
	examine(&pieces, &b);
	must(a.code == b.code && whole.status == pieces.status && whole.answered == pieces.answered);
	return 0;
}
