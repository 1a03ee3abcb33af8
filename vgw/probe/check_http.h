/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP part of a check: the request's text, and the answer's bytes judged. No socket, no allocation but
 * the request's. Inside vgw/probe only. */
#ifndef VGW_PROBE_CHECK_HTTP_H
#define VGW_PROBE_CHECK_HTTP_H

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>

#include "netcfg/base/buf.h"
#include "netcfg/model/ip.h"
#include "vgw/model/health.h"
#include "vgw/model/spec.h"

enum check_http_limit {
	CHECK_HTTP_MAX_HEADER = 64 << 10, /* status line, headers and interim responses together */
	CHECK_HTTP_MAX_BODY = 64 << 10,	  /* what is read and thrown away before we hang up */
};

struct check_http {
	struct http_parser parser;
	size_t header_bytes; /* fed before the header was complete */
	size_t body_bytes;
	int status;	/* of the final response, once `answered` */
	bool answered;	/* the final header is complete: the verdict is known */
	bool complete;	/* so is the body, or more of it is not wanted */
	bool oversized; /* the header passed its limit */
};

void check_http_init(struct check_http *h);
/*
 * Feed bytes of the answer, in pieces of any size. 0, or -EBADMSG once it is no HTTP/1 or the header is too
 * large. Stops on its own at `complete`.
 */
int check_http_feed(struct check_http *h, const void *data, size_t len);
/* The verdict once `answered`, after -EBADMSG, or when the connection ended before either. */
void check_http_judge(const struct check_http *h, const struct spec_check *spec, struct check_result *out);

/* Append the request. Bytes that a request line cannot carry are percent-encoded. */
void check_http_request(struct buf *out, const struct ip_endpoint *host, const char *path);

#endif
